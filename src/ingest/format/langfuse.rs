//! Observations of Langfuse: the blob-storage export (snake case) or the UI's and API's (camel case).
//!
//! Generations and embeddings are requests; retrievers and tools are spans of the trace, all other
//! observations repeat or surround them. An observation is exported again when it changes: the one
//! updated last counts. Times without zone hold UTC. The time to the first chunk is computed from
//! instants, since the logged one has two units. Counts are a free map whose total tells whether
//! cached and reasoning tokens are counted apart; without a total they are. Source:
//! `langfuse/langfuse`, `packages/shared/src/server/repositories`.

use super::bodies::{self, Limits, Shape};
use super::{
    At, Draft, Format, Hints, Join, Made, Naive, ObjectAdapter, Out, Refusal, Role, Shared, fill,
    parts,
};
use crate::domain::record::{Flag, Operation, RequestRecord, Status, TokenSource, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use std::collections::BTreeMap;

wire! {
    /// One observation.
    Wire {
        id = "id",
        trace_id = "trace_id" | "traceId",
        parent = "parent_observation_id" | "parentObservationId",
        kind = "type",
        start = "start_time" | "startTime",
        end = "end_time" | "endTime",
        first = "completion_start_time" | "completionStartTime",
        first_ms = "timeToFirstTokenMs" | "time_to_first_token_ms",
        latency_ms = "latencyMs" | "latency_ms",
        level = "level",
        message = "status_message" | "statusMessage",
        input = "input",
        output = "output",
        model = "provided_model_name" | "providedModelName" | "model",
        parameters = "model_parameters" | "modelParameters",
        usage = "usage_details" | "usageDetails" | "usage",
        cost = "total_cost" | "totalCost" | "calculatedTotalCost",
        updated = "updated_at" | "updatedAt",
        user = "user_id" | "userId",
        session = "session_id" | "sessionId",
    }
}

struct Langfuse {
    wire: Picker,
    limits: Picker,
    shape: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter =
        Langfuse { wire: Wire::picker(), limits: Limits::picker(), shape: Shape::picker() };
    Ok((Box::new(adapter), Vec::new()))
}

impl ObjectAdapter for Langfuse {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        let kind = wire.kind.text().unwrap_or_default().to_ascii_uppercase();
        let (operation, span) = match kind.as_str() {
            "GENERATION" => (Operation::Chat, None),
            "EMBEDDING" => (Operation::Embeddings, None),
            "RETRIEVER" => (Operation::Unknown, Some(Role::Retrieval)),
            "TOOL" => (Operation::Unknown, Some(Role::Tool)),
            // They repeat the counts of the observations below them.
            "AGENT" | "CHAIN" => {
                out.drop("parent_sum");
                return Ok(());
            }
            _ => {
                out.drop("side_span");
                return Ok(());
            }
        };
        let format = shared.name(Format::LangfuseObservations.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        row.operation = operation;
        if !fill_times(&wire, &mut row, shared)? {
            out.drop("no_time");
            return Ok(());
        }
        row.trace_id_hash = shared.hash(Column::Trace, &wire.trace_id);
        if let Some(role) = span {
            match row.trace_id_hash {
                Some(key) => {
                    out.keep(Draft {
                        row: Box::new(row),
                        join: Some(Join { key, role }),
                        chain: None,
                    });
                }
                None => out.drop("side_span"),
            }
            return Ok(());
        }
        fill_status(&wire, &mut row, shared);
        fill_tokens(&wire, &mut row);
        fill_names(&wire, &mut row, shared);
        let updated = shared.time(&wire.updated, "updated_at", Naive::Utc)?;
        let join = row.request_id_hash.zip(updated);
        let join = join.map(|(key, stamp)| Join { key, role: Role::Version(stamp.at.0) });
        let mut draft = Draft { row: Box::new(row), join, chain: None };
        self.fill_content(&wire, &mut draft, shared);
        out.keep(draft);
        Ok(())
    }
}

/// Fills the times; returns false when the observation has no start.
fn fill_times(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<bool, FieldError> {
    let Some(start) = shared.time(&wire.start, "start_time", Naive::Utc)? else {
        return Ok(false);
    };
    fill::arrival(row, start);
    if let Some(end) = shared.time(&wire.end, "end_time", Naive::Utc)? {
        fill::end(row, end);
    } else if let Some(latency) = fill::span_us(&wire.latency_ms, "latencyMs", fill::MILLIS)? {
        fill::duration(row, latency);
    }
    if let Some(first) = shared.time(&wire.first, "completion_start_time", Naive::Utc)? {
        fill::ttft(row, Some(first.at.micros_since(start.at)), TtftSource::Derived);
    } else {
        let first = fill::span_us(&wire.first_ms, "timeToFirstTokenMs", fill::MILLIS)?;
        fill::ttft(row, first, TtftSource::Logged);
    }
    Ok(true)
}

fn fill_status(wire: &Wire<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    if wire.level.text() == Some("ERROR") {
        let message = wire.message.text().unwrap_or_default();
        row.status = bodies::status_of_message(message);
        bodies::fill_class_of_message(row, message, shared);
    } else if row.end_time.is_some() {
        row.status = Status::Ok;
    }
}

/// Counts of the free map.
#[derive(Debug, Default)]
struct Usage {
    input: Option<u32>,
    output: Option<u32>,
    total: Option<u32>,
    cached: Option<u32>,
    written: Option<u32>,
    reasoning: Option<u32>,
    /// Further parts of the input, such as audio.
    more_input: u32,
    /// Further parts of the output.
    more_output: u32,
}

impl Usage {
    fn of(text: &str) -> Self {
        let mut usage = Self::default();
        let map: BTreeMap<String, Loose<'_>> = serde_json::from_str(text).unwrap_or_default();
        // Older observations may count characters or seconds.
        if map.get("unit").and_then(Loose::text).is_some_and(|unit| unit != "TOKENS") {
            return usage;
        }
        for (key, value) in &map {
            let Some(count) = parts::count(value) else { continue };
            let key = key.to_ascii_lowercase();
            let has = |part: &str| key.contains(part);
            match key.as_str() {
                "input" | "prompt_tokens" | "prompttokens" => usage.input = Some(count),
                "output" | "completion_tokens" | "completiontokens" => usage.output = Some(count),
                "total" | "total_tokens" | "totaltokens" => usage.total = Some(count),
                // One part has several names; the same count is not added twice.
                _ if has("cache") && (has("creation") || has("write")) => {
                    usage.written = usage.written.max(Some(count));
                }
                _ if has("cache") => usage.cached = usage.cached.max(Some(count)),
                _ if has("reasoning") => usage.reasoning = usage.reasoning.max(Some(count)),
                _ if key.starts_with("input") => {
                    usage.more_input = bodies::sum(usage.more_input, count);
                }
                _ if key.starts_with("output") => {
                    usage.more_output = bodies::sum(usage.more_output, count);
                }
                _ => {}
            }
        }
        usage
    }

    fn cached_apart(&self) -> u32 {
        bodies::sum(self.cached.unwrap_or(0), self.written.unwrap_or(0))
    }

    /// Returns input and output with the parts that are counted apart, and whether cached tokens
    /// were among them.
    fn whole(&self) -> (Option<u32>, Option<u32>, bool) {
        let input_parts = bodies::sum(self.cached_apart(), self.more_input);
        let output_parts = bodies::sum(self.reasoning.unwrap_or(0), self.more_output);
        let add = |count: u32, parts: u32, apart: bool| {
            if apart { bodies::sum(count, parts) } else { count }
        };
        let (input, output) = (self.input.unwrap_or(0), self.output.unwrap_or(0));
        let fits = |(inputs, outputs): &(bool, bool)| {
            let sum = add(input, input_parts, *inputs);
            self.total == Some(bodies::sum(sum, add(output, output_parts, *outputs)))
        };
        let ways = [(false, false), (true, true), (true, false), (false, true)];
        let (inputs, outputs) = ways.into_iter().find(fits).unwrap_or((true, true));
        (
            self.input.map(|input| add(input, input_parts, inputs)),
            self.output.map(|output| add(output, output_parts, outputs)),
            inputs && self.input.is_some() && self.cached_apart() > 0,
        )
    }
}

fn fill_tokens(wire: &Wire<'_>, row: &mut RequestRecord) {
    let Some(text) = wire.usage.json() else { return };
    let usage = Usage::of(&text);
    let (input, output, added) = usage.whole();
    fill::tokens(row, (input, output, usage.total), TokenSource::Logged, fill::Zeros::Unknown);
    if added {
        row.flags.push(Flag::AnthropicCachedAdded);
    }
    row.cache_read_input_tokens = usage.cached;
    row.cache_write_input_tokens = usage.written;
    row.reasoning_output_tokens = usage.reasoning;
    row.drop_impossible_parts();
}

fn fill_names(wire: &Wire<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    row.request_model = shared.model(&wire.model);
    row.request_id_hash = shared.hash(Column::Request, &wire.id);
    row.span_id_hash = row.request_id_hash;
    row.parent_span_id_hash = shared.hash(Column::Request, &wire.parent);
    row.user_hash = shared.hash(Column::User, &wire.user);
    parts::session(row, shared.hash(Column::Session, &wire.session));
    if row.time_to_first_chunk_us.is_some() {
        row.stream = Some(true);
    }
    bodies::fill_dollars(row, &wire.cost, shared);
}

impl Langfuse {
    fn fill_content(&self, wire: &Wire<'_>, draft: &mut Draft, shared: &mut Shared) {
        let parameters = wire.parameters.json();
        if let Some(text) = &parameters {
            let limits = Limits::read(&self.limits, text).unwrap_or_default();
            bodies::fill_limits(&mut draft.row, &limits);
        }
        if let Some(body) = bodies::request_of(&wire.input, parameters.as_deref()) {
            content::fill_request(&body, draft, shared);
        }
        if let Some(body) = bodies::answer_of(&wire.output, &self.shape) {
            content::fill_response(&body, draft, shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;

    const FORMAT: Format = Format::LangfuseObservations;
    const CALL: &str = r#"{"id":"o-1","trace_id":"t-1","type":"GENERATION","parent_observation_id":"p-1","start_time":"2026-11-24 09:15:02.123","end_time":"2026-11-24 09:15:05.623","level":"DEFAULT","input":{"messages":[]},"output":{"role":"assistant"},"provided_model_name":"gpt-4o-mini","model_parameters":{"temperature":"0.2","max_tokens":"512"},"usage_details":{"input":296,"input_cached_tokens":1024,"output":160,"total":1480},"completion_start_time":"2026-11-24 09:15:02.541","total_cost":0.5,"time_to_first_token":418,"updated_at":"2026-11-24 09:15:07.000","user_id":"u","session_id":"s-1"}"#;

    #[test]
    fn the_common_call() {
        let draft = trial::draft(FORMAT, CALL);
        let row = &draft.row;
        assert_eq!(trial::facts(row), trial::CALL);
        assert_eq!(row.flags, [Flag::AnthropicCachedAdded]);
        assert_eq!((row.status, row.stream, row.zone_assumed), (Status::Ok, Some(true), true));
        assert_eq!((row.max_tokens, row.temperature), (Some(512), Some(0.2)));
        assert_eq!(draft.join.unwrap().role, Role::Version(1_795_511_707_000_000));
        assert_eq!(Some(draft.join.unwrap().key), row.request_id_hash);
    }

    #[test]
    fn the_api_writes_camel_case() {
        let camel = r#"{"id":"o-1","traceId":"t-1","type":"GENERATION","startTime":"2026-11-24T09:15:02.123Z","endTime":null,"latencyMs":3500,"timeToFirstTokenMs":418,"level":"DEFAULT","providedModelName":"gpt-4o-mini","usageDetails":{"input":1320,"input_cached_tokens":1024,"output":160,"total":1480},"input":"{\"messages\":[]}","userId":"u","sessionId":"s-1"}"#;
        let draft = trial::draft(FORMAT, camel);
        assert_eq!(trial::facts(&draft.row), trial::CALL);
        assert_eq!((draft.join, draft.row.flags.len()), (None, 0));
        let snake = trial::row(FORMAT, CALL);
        assert_eq!(draft.row.session_id_hash, snake.session_id_hash);
        assert_eq!(draft.row.trace_id_hash, snake.trace_id_hash);
    }

    #[test]
    fn the_total_tells_what_is_counted_apart() {
        let whole = |text: &str| Usage::of(text).whole();
        let included = r#"{"input":9,"input_cached_tokens":4,"output":3,"output_reasoning_tokens":1,"total":12}"#;
        assert_eq!(whole(included), (Some(9), Some(3), false));
        let apart = included.replace("12", "17");
        assert_eq!(whole(&apart), (Some(13), Some(4), true));
        assert_eq!(whole(&included.replace("12", "16")), (Some(13), Some(3), true));
        assert_eq!(whole(&included.replace("12", "13")), (Some(9), Some(4), false));
        assert_eq!(
            whole(r#"{"input":9,"input_cached_tokens":4,"output":3}"#),
            (Some(13), Some(3), true)
        );
        let twice = r#"{"input":9,"input_cached_tokens":4,"cache_read_input_tokens":4,"output":3,"total":16}"#;
        assert_eq!(whole(twice), (Some(13), Some(3), true));
        assert_eq!(whole("{}"), (None, None, false));
        assert_eq!(whole(r#"{"input":9,"output":3,"unit":"CHARACTERS"}"#), (None, None, false));
    }

    #[test]
    fn a_failure_without_an_end() {
        let failed = CALL
            .replace("DEFAULT\"", "ERROR\",\"status_message\":\"canary timeout\"")
            .replace("\"2026-11-24 09:15:05.623\"", "null")
            .replace(
                "{\"input\":296,\"input_cached_tokens\":1024,\"output\":160,\"total\":1480}",
                "{}",
            );
        let row = trial::row(FORMAT, &failed);
        assert_eq!((row.status, row.duration_us, row.error_type), (Status::Timeout, None, None));
        assert_eq!((row.input_tokens, row.input_token_source), (None, TokenSource::Missing));
    }

    #[test]
    fn other_observations_are_no_requests() {
        let of = |kind: &str| CALL.replace("GENERATION", kind);
        let search = trial::draft(FORMAT, &of("RETRIEVER"));
        assert_eq!(search.join.unwrap().role, Role::Retrieval);
        assert_eq!(Some(search.join.unwrap().key), trial::row(FORMAT, CALL).trace_id_hash);
        assert_eq!(trial::draft(FORMAT, &of("TOOL")).join.unwrap().role, Role::Tool);
        for kind in ["SPAN", "EVENT", "EVALUATOR", "GUARDRAIL", ""] {
            assert_eq!(trial::dropped(FORMAT, &of(kind)), "side_span", "{kind}");
        }
        for kind in ["AGENT", "chain"] {
            assert_eq!(trial::dropped(FORMAT, &of(kind)), "parent_sum", "{kind}");
        }
        assert_eq!(trial::row(FORMAT, &of("EMBEDDING")).operation, Operation::Embeddings);
        assert_eq!(trial::dropped(FORMAT, &CALL.replace("\"start_time", "\"x")), "no_time");
    }
}
