//! `LiteLLM_SpendLogs` rows, from JSONL or from a CSV dump of the table (as objects of texts).
//!
//! `startTime` is the arrival, in UTC where it has no zone. `completionStartTime` is a first chunk
//! only strictly between start and end (else the answer was not streamed). 0 tokens stand for
//! "unknown". The proxy's own health checks are left out (`probe`), known by their key, not by
//! caller-given tags. A success whose error is a client hang-up is `cancelled`. Cached counts
//! above the input become null, with a flag. Source: `BerriAI/litellm`, `schema.prisma`.

use super::litellm_wire::{Wire, body, metadata_in_text, read_metadata};
use super::{At, Draft, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared};
use crate::domain::record::{
    ArrivalSource, CacheStatus, Flag, Operation, RagLabel, RequestRecord, SessionSource, Status,
    TokenSource, TtftSource,
};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::Picker;
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::{TimeColumn, zone_decision};

/// What the gateway writes as the owner of a key when there is none.
pub(super) const NOBODY: &str = "default_user_id";
/// Identity of the key that the proxy uses for its own probes.
pub(super) const HEALTH_CHECK: &str = "litellm-internal-health-check";
/// Appended to the request id of an answer from the cache.
pub(super) const CACHE_HIT_SUFFIX: &str = "_cache_hit";

/// Words of `call_type` and what they ask for; an `a` in front means asynchronous.
const CALL_TYPES: &[(&str, Operation)] = &[
    ("completion", Operation::Chat),
    ("responses", Operation::Chat),
    ("anthropic_messages", Operation::Chat),
    ("text_completion", Operation::TextCompletion),
    ("embedding", Operation::Embeddings),
    ("rerank", Operation::Rerank),
    ("generate_content", Operation::GenerateContent),
    ("generate_content_stream", Operation::GenerateContent),
];

/// Parts of `call_type` of calls that are no request to a text model.
pub(super) const NOT_LLM: &[&str] = &[
    "batch",
    "file",
    "vector_store",
    "mcp",
    "image",
    "speech",
    "transcription",
    "moderation",
    "fine_tuning",
    "assistant",
    "thread",
    "video",
    "ocr",
    "search",
    "container",
    "get_responses",
    "delete_responses",
    "cancel_responses",
    "list_input_items",
];

struct LitellmSpendlogs {
    start: TimeColumn,
    end: TimeColumn,
    first: TimeColumn,
    row: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// If its times are of several kinds.
pub fn make(sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    let mut decisions = Vec::new();
    let mut column = |name: &str| {
        let values = sample.column(name);
        let (column, made) =
            TimeColumn::decide(&sample.file, name, &values, hints.unit(name), &hints.zone)?;
        decisions.extend(made);
        Ok::<_, IngestError>(column)
    };
    let (start, end) = (column("startTime")?, column("endTime")?);
    let first = column("completionStartTime")?;
    // The table's times have no zone and hold UTC; one line says so, not three.
    if decisions.iter().any(|made| made.what.starts_with("zone of")) {
        decisions.retain(|made| !made.what.starts_with("zone of"));
        let mut zone = zone_decision("startTime", &hints.zone);
        if !hints.zone.told {
            "LiteLLM writes UTC without a zone; `--tz` changes it".clone_into(&mut zone.why);
        }
        decisions.push(zone);
    }
    Ok((Box::new(LitellmSpendlogs { start, end, first, row: Wire::picker() }), decisions))
}

impl ObjectAdapter for LitellmSpendlogs {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.row, line)?;
        let (text, stored);
        let metadata = match metadata_in_text(&wire)? {
            None => &wire,
            Some(inside) => {
                text = inside;
                stored = read_metadata(&self.row, &text)?;
                &stored
            }
        };
        if is_probe(&wire, metadata) {
            out.drop("probe");
            return Ok(());
        }
        let call_type = wire.call_type.text().unwrap_or_default();
        let operation = operation(call_type);
        if operation == Operation::Unknown && NOT_LLM.iter().any(|part| call_type.contains(part)) {
            out.drop("not_llm");
            return Ok(());
        }
        let format = shared.name(Format::LitellmSpendlogs.as_str());
        let mut record = RequestRecord::unknown(format, at.file_id, at.line);
        record.operation = operation;
        if !self.fill_times(&wire, &mut record, shared)? {
            out.drop("no_time");
            return Ok(());
        }
        fill_names(&wire, metadata, &mut record, shared);
        fill_status(&wire, metadata, &mut record, shared)?;
        fill_tokens(&wire, metadata, &mut record)?;
        fill_cache(&wire, &mut record);
        let mut draft = Draft::from(record);
        fill_bodies(&wire, &mut draft, shared);
        if metadata.meta_searches.elements().is_some_and(|searches| searches > 0) {
            draft.row.rag_label = RagLabel::Explicit;
            draft.row.rag_evidence = vec![shared.name("vector_store_meta")];
        }
        out.keep(draft);
        Ok(())
    }

    fn origin(&self) -> Origin {
        if self.start.is_relative() { Origin::Offsets } else { Origin::Dates }
    }
}

impl LitellmSpendlogs {
    /// Fills the times; returns false when the row has no start.
    fn fill_times(
        &self,
        wire: &Wire<'_>,
        record: &mut RequestRecord,
        shared: &Shared,
    ) -> Result<bool, Refusal> {
        let zone = &shared.zone;
        let Some(start) = self.start.read(&wire.start_time, "startTime", zone)? else {
            return Ok(false);
        };
        record.arrival_time = Some(start.at);
        record.arrival_source = ArrivalSource::Logged;
        // The column is timestamp(3), however many digits an export prints.
        record.arrival_resolution_us = start.quantum_us.max(1_000);
        record.zone_assumed = start.zone_assumed;
        let logged = self.end.read(&wire.end_time, "endTime", zone)?.map(|end| end.at);
        let duration = if let Some(end) = logged {
            Some(end.micros_since(start.at))
        } else {
            let millis = wire.request_duration_ms.count("request_duration_ms")?;
            millis.map(|millis| i64::from(millis) * 1_000)
        };
        match duration {
            Some(negative) if negative < 0 => record.flags.push(Flag::NegativeDuration),
            Some(duration) => {
                record.duration_us = Some(duration);
                record.end_time = Some(start.at.plus_micros(duration));
                if duration == 0 {
                    record.flags.push(Flag::StartEqualsEnd);
                }
            }
            None => {}
        }
        let first = self.first.read(&wire.completion_start_time, "completionStartTime", zone)?;
        if let (Some(first), Some(end)) = (first, record.end_time)
            && start.at < first.at
            && first.at < end
        {
            record.time_to_first_chunk_us = Some(first.at.micros_since(start.at));
            record.ttft_source = Some(TtftSource::Derived);
        }
        Ok(true)
    }
}

fn is_probe(wire: &Wire<'_>, metadata: &Wire<'_>) -> bool {
    [
        &wire.api_key,
        &metadata.meta_key,
        &metadata.meta_key_alias,
        &metadata.meta_team,
        &metadata.meta_team_alias,
    ]
    .into_iter()
    .any(|identity| identity.text() == Some(HEALTH_CHECK))
}

pub(super) fn operation(call_type: &str) -> Operation {
    let word = call_type.strip_prefix('a').unwrap_or(call_type);
    let known = CALL_TYPES.iter().find(|(known, _)| [word, call_type].contains(known));
    known.map_or(Operation::Unknown, |(_, operation)| *operation)
}

fn fill_names(
    wire: &Wire<'_>,
    metadata: &Wire<'_>,
    record: &mut RequestRecord,
    shared: &mut Shared,
) {
    record.response_model = shared.model(&wire.model);
    record.request_model = shared.model(&wire.model_group).or(record.response_model.clone());
    record.provider_name = shared.word(&wire.custom_llm_provider);
    let hash = |column, value: &Loose<'_>| shared.hash(column, value);
    record.request_id_hash = hash(Column::Request, &wire.request_id);
    record.trace_id_hash = hash(Column::Trace, &metadata.meta_trace);
    record.session_id_hash = hash(Column::Session, &wire.session_id);
    if record.session_id_hash.is_some() {
        record.session_source = SessionSource::Explicit;
    }
    let key_owner = Some(&wire.user).filter(|user| user.text() != Some(NOBODY));
    record.user_hash =
        hash(Column::User, &wire.end_user).or_else(|| hash(Column::User, key_owner?));
    record.key_hash = hash(Column::Key, &wire.api_key);
    record.tenant_hash =
        hash(Column::Tenant, &wire.team_id).or_else(|| hash(Column::Tenant, &wire.organization_id));
    record.cost = wire.spend.float().filter(|cost| *cost >= 0.0);
}

fn fill_status(
    wire: &Wire<'_>,
    metadata: &Wire<'_>,
    record: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    let word = wire.status.text().or(metadata.meta_status.text());
    let code = metadata.error_code.count("error_code").ok().flatten();
    let known = code.and_then(|code| u16::try_from(code).ok());
    record.http_status_code = known.filter(|code| (100..=999).contains(code));
    record.error_type = shared.error_type(&metadata.error_class);
    let class = metadata.error_class.text().unwrap_or_default();
    let (status, hang_up) = status_of(word, code, class)?;
    record.status = status;
    if hang_up && word != Some("failure") {
        record.flags.push(Flag::ClientHangUp);
    }
    Ok(())
}

/// Returns the status by LiteLLM's word, the error's code and its class, and whether the client
/// hung up.
pub(super) fn status_of(
    word: Option<&str>,
    code: Option<u32>,
    class: &str,
) -> Result<(Status, bool), FieldError> {
    let hang_up = code == Some(499) || class.contains("ClientDisconnect");
    let status = match word {
        _ if hang_up => Status::Cancelled,
        Some("success") => Status::Ok,
        Some("failure") if code == Some(429) || class.contains("RateLimit") => Status::RateLimited,
        Some("failure") if matches!(code, Some(408 | 504)) || class.contains("Timeout") => {
            Status::Timeout
        }
        Some("failure") => Status::Error,
        Some(_) => return Err(FieldError::new("status", "is neither `success` nor `failure`")),
        None => Status::Unknown,
    };
    Ok((status, hang_up))
}

fn fill_tokens(
    wire: &Wire<'_>,
    metadata: &Wire<'_>,
    record: &mut RequestRecord,
) -> Result<(), FieldError> {
    let input = wire.prompt_tokens.count("prompt_tokens")?;
    let output = wire.completion_tokens.count("completion_tokens")?;
    let total = wire.total_tokens.count("total_tokens")?;
    if input == Some(0) || output == Some(0) {
        record.flags.push(Flag::ZeroMeansUnknown);
    }
    if let (Some(input), Some(output), Some(total)) = (input, output, total)
        && u64::from(input) + u64::from(output) != u64::from(total)
    {
        record.flags.push(Flag::TokenSumMismatch);
    }
    record.input_tokens = input.filter(|count| *count > 0);
    record.output_tokens = output.filter(|count| *count > 0);
    let failed = !matches!(record.status, Status::Ok | Status::Cancelled | Status::Unknown);
    let source = |count: Option<u32>| match count {
        None => TokenSource::Missing,
        // Newer builds write an estimate for calls that failed.
        Some(_) if failed => TokenSource::GatewayEstimate,
        Some(_) => TokenSource::Provider,
    };
    record.input_token_source = source(record.input_tokens);
    record.output_token_source = source(record.output_tokens);
    let first = |values: [&Loose<'_>; 4]| {
        values.into_iter().find_map(|value| value.count("").ok().flatten())
    };
    record.cache_read_input_tokens = first([
        &metadata.added_cached,
        &metadata.added_cache_read,
        &metadata.usage_cached,
        &metadata.usage_cache_read,
    ]);
    let none = &Loose::Null;
    record.reasoning_output_tokens =
        first([&metadata.added_reasoning, &metadata.usage_reasoning, none, none]);
    record.drop_impossible_parts();
    Ok(())
}

fn fill_cache(wire: &Wire<'_>, record: &mut RequestRecord) {
    let suffixed = wire.request_id.text().is_some_and(|id| id.contains(CACHE_HIT_SUFFIX));
    record.cache_status = match wire.cache_hit.truth() {
        Some(true) => Some(CacheStatus::Hit),
        _ if suffixed => Some(CacheStatus::Hit),
        _ if wire.cache_key.text() == Some("Cache OFF") => Some(CacheStatus::Off),
        Some(false) => Some(CacheStatus::Miss),
        None => None,
    };
    if record.cache_status == Some(CacheStatus::Hit) {
        record.flags.push(Flag::CacheHit);
    }
}

/// Reads the stored bodies, where there are any, into the draft.
fn fill_bodies(wire: &Wire<'_>, draft: &mut Draft, shared: &mut Shared) {
    // Newer builds store the whole request; `messages` alone is what older ones have.
    let request = body(&wire.proxy_server_request).or_else(|| body(&wire.messages));
    if let Some(request) = request {
        content::fill_request(&request, draft, shared);
    }
    if let Some(response) = body(&wire.response) {
        content::fill_response(&response, draft, shared);
    }
}
