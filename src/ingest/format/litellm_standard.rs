//! LiteLLM's standard logging payload, one object a call, as its S3 and GCS loggers write it.
//!
//! `startTime` is the arrival, in epoch seconds with a fraction. `completionStartTime` is a first
//! chunk only strictly between start and end. 0 tokens stand for "unknown". The trace id ties
//! retries together and stands for a session where several calls share it. Contents that the proxy
//! redacted are not read: all of them are equal and would make one conversation of all calls.
//! Source: `BerriAI/litellm`, `litellm/types/utils.py`.

use super::bodies::{self, Answer, Limits};
use super::litellm_spendlogs::{
    CACHE_HIT_SUFFIX, HEALTH_CHECK, NOBODY, NOT_LLM, operation, status_of,
};
use super::{
    At, Draft, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill, parts,
};
use crate::domain::record::{
    CacheStatus, Flag, Operation, RequestRecord, Status, TokenSource, TtftSource,
};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use std::borrow::Cow;

/// What stands in place of contents when the proxy does not log messages.
const REDACTED: &str = "\"redacted-by-litellm\"";

wire! {
    /// One call.
    Wire {
        id = "id",
        trace_id = "trace_id",
        call_type = "call_type",
        stream = "stream",
        cost = "response_cost",
        status = "status" | "status_fields.llm_api_status",
        provider = "custom_llm_provider",
        total = "total_tokens",
        prompt = "prompt_tokens",
        completion = "completion_tokens",
        start = "startTime",
        end = "endTime",
        first = "completionStartTime",
        model = "model",
        model_group = "model_group",
        metadata = "metadata",
        hidden_usage = "hidden_params.usage_object",
        cache_hit = "cache_hit",
        cache_key = "cache_key",
        end_user = "end_user",
        messages = "messages",
        response = "response",
        error_code = "error_information.error_code",
        error_class = "error_information.error_class",
        parameters = "model_parameters",
        file_search = "standard_built_in_tools_params.file_search",
    }
}

wire! {
    /// What the proxy knows of the caller.
    Metadata {
        key = "user_api_key_hash",
        alias = "user_api_key_alias",
        team = "user_api_key_team_id",
        organisation = "user_api_key_org_id",
        end_user = "user_api_key_end_user_id",
        owner = "user_api_key_user_id",
        route = "user_api_key_request_route",
        searches = "vector_store_request_metadata",
        usage = "usage_object",
    }
}

struct LitellmStandard {
    wire: Picker,
    metadata: Picker,
    answer: Picker,
    limits: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter = LitellmStandard {
        wire: Wire::picker(),
        metadata: Metadata::picker(),
        answer: Answer::picker(),
        limits: Limits::picker(),
    };
    Ok((Box::new(adapter), Vec::new()))
}

impl ObjectAdapter for LitellmStandard {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        let metadata_text = wire.metadata.json().unwrap_or_default();
        let metadata = Metadata::read(&self.metadata, &metadata_text).unwrap_or_default();
        let call_type = wire.call_type.text().unwrap_or_default();
        let identities = [&metadata.key, &metadata.alias, &metadata.team];
        let reason = if call_type.is_empty() && wire.start.is_nothing() {
            // The same bucket holds audit logs.
            Some("side_object")
        } else if identities.into_iter().any(|identity| identity.text() == Some(HEALTH_CHECK)) {
            Some("probe")
        } else if NOT_LLM.iter().any(|part| call_type.contains(part)) {
            Some("not_llm")
        } else {
            None
        };
        if let Some(reason) = reason {
            out.drop(reason);
            return Ok(());
        }
        let format = shared.name(Format::LitellmStandardLogging.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        if !fill_times(&wire, &mut row, shared)? {
            out.drop("no_time");
            return Ok(());
        }
        fill_names(&wire, &metadata, &mut row, shared);
        fill_status(&wire, &mut row, shared)?;
        self.fill_tokens(&wire, &metadata, &mut row)?;
        fill_cache(&wire, &mut row);
        let mut draft = Draft::from(row);
        self.fill_content(&wire, &mut draft, shared);
        if metadata.searches.json().is_some() && metadata.searches.elements() != Some(0)
            || wire.file_search.json().is_some()
        {
            parts::explicit_rag(&mut draft.row, "vector_store_meta", shared);
        }
        out.keep(draft);
        Ok(())
    }
}

/// Fills the times; returns false when the call has no start.
fn fill_times(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<bool, FieldError> {
    let Some(start) = shared.time(&wire.start, "startTime", Naive::Utc)? else { return Ok(false) };
    fill::arrival(row, start);
    if matches!(wire.start, Loose::Float(_)) {
        // A float that happens to be whole.
        row.arrival_resolution_us = 1;
    }
    if let Some(end) = shared.time(&wire.end, "endTime", Naive::Utc)? {
        fill::end(row, end);
    }
    if let Some(first) = shared.time(&wire.first, "completionStartTime", Naive::Utc)?
        && start.at < first.at
        && row.end_time.is_some_and(|end| first.at < end)
    {
        fill::ttft(row, Some(first.at.micros_since(start.at)), TtftSource::Derived);
    }
    Ok(true)
}

fn fill_names(
    wire: &Wire<'_>,
    metadata: &Metadata<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) {
    let route = metadata.route.text().unwrap_or_default();
    row.operation = operation(wire.call_type.text().unwrap_or_default());
    if row.operation == Operation::Unknown {
        row.operation = fill::operation_of(route).unwrap_or(Operation::Unknown);
    }
    let prefix = if route.starts_with("/v1/") { "" } else { "/v1" };
    row.endpoint_family = shared.endpoint(&Loose::Text(Cow::Owned(format!("{prefix}{route}"))));
    row.response_model = shared.model(&wire.model);
    row.request_model = shared.model(&wire.model_group).or(row.response_model.clone());
    row.provider_name = shared.word(&wire.provider);
    row.request_id_hash = shared.hash(Column::Request, &wire.id);
    row.trace_id_hash = shared.hash(Column::Trace, &wire.trace_id);
    parts::session(row, shared.hash(Column::Session, &wire.trace_id));
    let owner = match metadata.owner.text() {
        Some(NOBODY) => None,
        _ => shared.hash(Column::User, &metadata.owner),
    };
    row.user_hash = shared
        .hash(Column::User, &wire.end_user)
        .or_else(|| shared.hash(Column::User, &metadata.end_user))
        .or(owner);
    row.key_hash = shared.hash(Column::Key, &metadata.key);
    row.tenant_hash = shared
        .hash(Column::Tenant, &metadata.team)
        .or_else(|| shared.hash(Column::Tenant, &metadata.organisation));
    bodies::fill_dollars(row, &wire.cost, shared);
}

fn fill_status(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    let code = parts::count(&wire.error_code);
    let known = code.and_then(|code| u16::try_from(code).ok());
    row.http_status_code = known.filter(|code| (100..=599).contains(code));
    row.error_type = shared.error_type(&wire.error_class);
    let class = wire.error_class.text().unwrap_or_default();
    let (status, hang_up) = status_of(wire.status.text(), code, class)?;
    row.status = status;
    if hang_up && wire.status.text() != Some("failure") {
        row.flags.push(Flag::ClientHangUp);
    }
    Ok(())
}

fn fill_cache(wire: &Wire<'_>, row: &mut RequestRecord) {
    let suffixed = wire.id.text().is_some_and(|id| id.contains(CACHE_HIT_SUFFIX));
    row.cache_status = match wire.cache_hit.truth() {
        Some(true) => Some(CacheStatus::Hit),
        _ if suffixed => Some(CacheStatus::Hit),
        _ if wire.cache_key.text() == Some("Cache OFF") => Some(CacheStatus::Off),
        Some(false) => Some(CacheStatus::Miss),
        None => None,
    };
    if row.cache_status == Some(CacheStatus::Hit) {
        row.flags.push(Flag::CacheHit);
    }
}

impl LitellmStandard {
    fn fill_tokens(
        &self,
        wire: &Wire<'_>,
        metadata: &Metadata<'_>,
        row: &mut RequestRecord,
    ) -> Result<(), FieldError> {
        let counts = (
            wire.prompt.count("prompt_tokens")?,
            wire.completion.count("completion_tokens")?,
            wire.total.count("total_tokens")?,
        );
        // Newer builds write an estimate for calls that failed.
        let source = match row.status {
            Status::Ok | Status::Cancelled | Status::Unknown => TokenSource::Provider,
            _ => TokenSource::GatewayEstimate,
        };
        fill::tokens(row, counts, source, fill::Zeros::Unknown);
        if row.input_tokens.is_none() && row.output_tokens.is_none() {
            return Ok(());
        }
        let usages = [&metadata.usage, &wire.hidden_usage].map(Loose::json).into_iter().flatten();
        let usages = usages.map(|usage| Cow::Owned(bodies::object("usage", &usage, None)));
        for body in wire.response.json().into_iter().chain(usages) {
            let found = bodies::counts_of(&self.answer, &body);
            row.cache_read_input_tokens = row.cache_read_input_tokens.or(found.cached);
            row.cache_write_input_tokens = row.cache_write_input_tokens.or(found.cache_write);
            row.reasoning_output_tokens = row.reasoning_output_tokens.or(found.reasoning);
        }
        row.drop_impossible_parts();
        Ok(())
    }

    fn fill_content(&self, wire: &Wire<'_>, draft: &mut Draft, shared: &mut Shared) {
        let parameters = wire.parameters.json();
        draft.row.stream = wire.stream.truth();
        if let Some(text) = &parameters {
            let limits = Limits::read(&self.limits, text).unwrap_or_default();
            bodies::fill_limits(&mut draft.row, &limits);
        }
        let request = match &wire.messages {
            // The input of the responses API and of embeddings is no list of messages.
            messages if messages.json().is_some_and(|json| is_texts(&json)) => messages
                .json()
                .map(|json| Cow::Owned(bodies::object("input", &json, parameters.as_deref()))),
            messages => bodies::request_of(messages, parameters.as_deref()),
        };
        if let Some(body) = request.filter(|body| !is_redacted(body)) {
            content::fill_request(&body, draft, shared);
        }
        if let Some(body) = wire.response.json().filter(|body| !is_redacted(body)) {
            content::fill_response(&body, draft, shared);
        }
    }
}

/// Returns whether an array holds something else than objects.
fn is_texts(array: &str) -> bool {
    let first = array.trim_start().strip_prefix('[').map(str::trim_start);
    first.is_some_and(|first| !first.starts_with(['{', ']']))
}

/// Returns whether the proxy took the contents out.
fn is_redacted(body: &str) -> bool {
    memchr::memmem::find(body.as_bytes(), REDACTED.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;
    use crate::domain::record::RagLabel;

    const FORMAT: Format = Format::LitellmStandardLogging;
    const CALL: &str = r#"{"id":"c-1","trace_id":"t-1","call_type":"acompletion","stream":true,"response_cost":0.5,"status":"success","custom_llm_provider":"openai","total_tokens":1480,"prompt_tokens":1320,"completion_tokens":160,"startTime":1795511702.123,"endTime":1795511705.623,"completionStartTime":1795511702.541,"model":"gpt-4o-mini","model_group":"small","metadata":{"user_api_key_hash":"k","user_api_key_request_route":"/chat/completions","user_api_key_user_id":"default_user_id","vector_store_request_metadata":null},"cache_hit":false,"messages":[{"role":"user","content":"canary"}],"response":{"usage":{"prompt_tokens":1320,"completion_tokens":160,"prompt_tokens_details":{"cached_tokens":1024}}},"model_parameters":{"temperature":0.2,"max_tokens":512},"hidden_params":{}}"#;

    #[test]
    fn the_common_call() {
        let row = trial::row(FORMAT, CALL);
        assert_eq!(trial::facts(&row), trial::CALL);
        assert_eq!((row.status, row.stream, row.max_tokens), (Status::Ok, Some(true), Some(512)));
        assert_eq!(row.endpoint_family.as_deref(), Some("/v1/chat/completions"));
        assert_eq!(row.request_model.as_deref(), Some("small"));
        assert_eq!((row.user_hash, row.key_hash.is_some()), (None, true));
        assert!(row.trace_id_hash.is_some() && row.session_id_hash.is_some());
        assert_eq!(row.arrival_resolution_us, 1);
        assert_eq!(row.cost, Some(0.5));
    }

    #[test]
    fn a_failure_has_no_tokens_and_no_first_chunk() {
        let failed = CALL
            .replace("\"success\"", "\"failure\"")
            .replace("1480,", "0,")
            .replace(":1320,\"completion_tokens\":160,\"start", ":0,\"completion_tokens\":0,\"start")
            .replace("702.541", "705.623")
            .replace(r#"{"usage":{"prompt_tokens":1320,"completion_tokens":160,"prompt_tokens_details":{"cached_tokens":1024}}}"#, "null")
            .replace(
                "\"hidden_params\":{}",
                "\"error_information\":{\"error_code\":\"429\",\"error_class\":\"RateLimitError\",\"error_message\":\"canary\"}",
            );
        let row = trial::row(FORMAT, &failed);
        assert_eq!((row.status, row.http_status_code), (Status::RateLimited, Some(429)));
        assert_eq!(row.error_type.as_deref(), Some("RateLimitError"));
        assert_eq!((row.input_tokens, row.output_tokens), (None, None));
        assert_eq!((row.cache_read_input_tokens, row.time_to_first_chunk_us), (None, None));
        assert_eq!(row.flags, [Flag::ZeroMeansUnknown]);
    }

    #[test]
    fn redacted_contents_never_chain() {
        let redacted = CALL.replace("canary", "redacted-by-litellm");
        let draft = trial::draft(FORMAT, &redacted);
        assert_eq!((draft.chain, draft.row.message_count), (None, None));
        assert_eq!(draft.row.rag_label, RagLabel::Unknowable);
        assert!(is_redacted(r#"{"text":"redacted-by-litellm"}"#));
        assert!(!is_redacted(r#"{"text":"what is redacted-by-litellm?"}"#));
    }

    #[test]
    fn searches_of_the_proxy_are_retrieval() {
        let searched = CALL.replace("metadata\":null", "metadata\":[{\"vector_store_id\":\"v\"}]");
        let row = trial::row(FORMAT, &searched);
        assert_eq!(row.rag_label, RagLabel::Explicit);
        let none = trial::row(FORMAT, &CALL.replace("metadata\":null", "metadata\":[]"));
        assert_ne!(none.rag_label, RagLabel::Explicit);
    }

    #[test]
    fn what_is_no_call_is_left_out() {
        let probe = CALL.replace("\"k\"", "\"litellm-internal-health-check\"");
        assert_eq!(trial::dropped(FORMAT, &probe), "probe");
        assert_eq!(trial::dropped(FORMAT, &CALL.replace("acompletion", "aspeech")), "not_llm");
        assert_eq!(trial::dropped(FORMAT, r#"{"table_name":"t","action":"a"}"#), "side_object");
        assert_eq!(trial::dropped(FORMAT, r#"{"call_type":"acompletion"}"#), "no_time");
        assert_eq!(trial::refused(FORMAT, &CALL.replace("\"success\"", "\"x\"")).field, "status");
    }
}
