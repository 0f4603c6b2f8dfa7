//! NVIDIA Dynamo: request traces, each event bare or in `{timestamp, event}`.
//!
//! `request_end` has arrival, first token, cached tokens and block hashes (64 bits, milliseconds);
//! `request_payload` has the bodies and is a part of the same call (`request_id`). Ends of tools
//! are side spans; a tool of class `search` or `retrieval` is a retrieval. There is no trace id:
//! the session's takes its place, which ties tools to the requests after them. The outer
//! `timestamp` is relative and never read. A session's parent session is its `previous` in the
//! chain. Source: ai-dynamo/dynamo, `lib/llm/src/request_trace/types.rs`.

use super::chain::Chain;
use super::parts::{blocks, count, family_of, flag, session};
use super::{
    At, Draft, Format, Hints, Join, Made, Naive, ObjectAdapter, Out, Refusal, Role, Shared, fill,
};
use crate::domain::record::{
    Flag, HashScope, Operation, RequestRecord, Status, TokenSource, TtftSource,
};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::FieldError;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

wire! { Outer { event = "event" } }

wire! { Event {
    kind = "event_type",
    time = "event_time_unix_ms",
    session = "agent_context.session_id",
    parent = "agent_context.parent_session_id",
    id = "request.request_id" | "payload.request_id",
    model = "request.model" | "payload.model",
    received = "request.request_received_ms",
    total = "request.total_time_ms",
    ttft = "request.ttft_ms",
    queue = "request.prefill_wait_time_ms",
    prefill = "request.prefill_time_ms",
    input = "request.input_tokens" | "request.replay.input_length",
    output = "request.output_tokens",
    cached = "request.cached_tokens",
    block_size = "request.replay.trace_block_size",
    blocks = "request.replay.input_sequence_hashes",
    reason = "request.finish_reason_metadata.finish_reason",
    calls = "request.finish_reason_metadata.tool_calls",
    endpoint = "payload.endpoint",
    request = "payload.request",
    response = "payload.response",
    complete = "payload.payload_complete",
    tool_class = "tool.tool_class",
    tool_start = "tool.started_at_unix_ms",
    tool_end = "tool.ended_at_unix_ms",
} }

struct Dynamo {
    outer: Picker,
    event: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(Dynamo { outer: Outer::picker(), event: Event::picker() }), Vec::new()))
}

impl ObjectAdapter for Dynamo {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let outer = Outer::read(&self.outer, line)?;
        let text = outer.event.json().unwrap_or(std::borrow::Cow::Borrowed(line));
        let event = Event::read(&self.event, &text)?;
        let format = shared.name(Format::DynamoRequestTrace.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        row.trace_id_hash = shared.hash(Column::Trace, &event.session);
        let draft = match event.kind.text().unwrap_or_default() {
            "request_end" => end(&event, row, shared)?,
            "request_payload" => payload(&event, row, shared)?,
            "tool_end" | "tool_error" => {
                let Some(draft) = tool(&event, row, shared)? else {
                    out.drop("side_span");
                    return Ok(());
                };
                Some(draft)
            }
            "tool_start" => {
                out.drop("side_span");
                return Ok(());
            }
            _ => {
                out.drop("not_llm");
                return Ok(());
            }
        };
        match draft {
            Some(draft) => out.keep(draft),
            None => out.drop("no_time"),
        }
        Ok(())
    }
}

/// Reads the end of a request; `None` when it has no time.
fn end(
    event: &Event<'_>,
    mut row: RequestRecord,
    shared: &mut Shared,
) -> Result<Option<Draft>, FieldError> {
    let millis = |value, field| fill::span_us(value, field, fill::MILLIS);
    let total = millis(&event.total, "total_time_ms")?;
    if let Some(received) = shared.time(&event.received, "request_received_ms", Naive::Utc)? {
        fill::arrival(&mut row, received);
        if let Some(total) = total {
            fill::duration(&mut row, total);
        }
    } else {
        let ended = shared.time(&event.time, "event_time_unix_ms", Naive::Utc)?;
        let Some(ended) = ended else { return Ok(None) };
        fill::arrival_from_end(&mut row, ended, total);
    }
    fill::ttft(&mut row, millis(&event.ttft, "ttft_ms")?, TtftSource::Logged);
    let phase = |value, field| Ok::<_, FieldError>(millis(value, field)?.filter(|span| *span >= 0));
    row.queue_time_us = phase(&event.queue, "prefill_wait_time_ms")?;
    row.prefill_time_us = phase(&event.prefill, "prefill_time_ms")?;
    let counts = (event.input.count("input_tokens")?, event.output.count("output_tokens")?, None);
    fill::tokens(&mut row, counts, TokenSource::Engine, fill::Zeros::Unknown);
    row.cache_read_input_tokens = event.cached.count("cached_tokens")?;
    row.drop_impossible_parts();
    row.prefix_block_hashes = blocks(&event.blocks, &shared.hasher);
    if !row.prefix_block_hashes.is_empty() {
        row.prefix_block_size = count(&event.block_size);
        row.prefix_hash_scope = Some(HashScope::Dataset);
    }
    row.status = match event.reason.text() {
        None => Status::Unknown,
        Some("error") => Status::Error,
        Some("cancelled" | "abort") => Status::Cancelled,
        Some(_) => Status::Ok,
    };
    row.finish_reasons = shared.finish_reason(&event.reason).into_iter().collect();
    row.tool_call_count = event.calls.elements();
    Ok(Some(of_request(event, row, 2, shared)))
}

/// Reads the bodies of a request; `None` when there is no time. With an answer in it, the event
/// was written at the end.
fn payload(
    event: &Event<'_>,
    mut row: RequestRecord,
    shared: &mut Shared,
) -> Result<Option<Draft>, FieldError> {
    let time = shared.time(&event.time, "event_time_unix_ms", Naive::Utc)?;
    let Some(time) = time else { return Ok(None) };
    if event.response.is_nothing() {
        fill::arrival(&mut row, time);
    } else {
        fill::arrival_from_end(&mut row, time, None);
    }
    let path = format!("/{}", event.endpoint.text().unwrap_or_default().replace("chat_", "chat/"));
    row.operation = fill::operation_of(&path).unwrap_or(Operation::Unknown);
    row.endpoint_family = family_of(&path).map(|family| shared.name(family));
    let mut draft = of_request(event, row, 1, shared);
    if let Some(body) = event.request.json() {
        content::fill_request(&body, &mut draft, shared);
    }
    if let Some(body) = event.response.json() {
        content::fill_response(&body, &mut draft, shared);
    }
    if event.complete.truth() == Some(false) {
        flag(&mut draft.row, Flag::TruncatedBody);
        draft.chain.get_or_insert_default().is_incomplete = true;
    }
    Ok(Some(draft))
}

/// Ties a record to its request and its session.
fn of_request(event: &Event<'_>, mut row: RequestRecord, rank: u8, shared: &mut Shared) -> Draft {
    row.request_id_hash = shared.hash(Column::Request, &event.id);
    row.request_model = shared.model(&event.model);
    row.response_model.clone_from(&row.request_model);
    let own = shared.hash(Column::Session, &event.session);
    session(&mut row, own);
    let join = row.request_id_hash.map(|key| Join { key, role: Role::Part(rank) });
    let previous = shared.hash(Column::Session, &event.parent);
    let chain = own.is_some().then(|| Chain { previous, own, ..Chain::default() });
    Draft { row: Box::new(row), join, chain: chain.map(Box::new) }
}

/// Reads a tool's call; `None` when it has no time or belongs to no session.
fn tool(
    event: &Event<'_>,
    mut row: RequestRecord,
    shared: &mut Shared,
) -> Result<Option<Draft>, FieldError> {
    let start = shared.time(&event.tool_start, "started_at_unix_ms", Naive::Utc)?;
    let (Some(start), Some(key)) = (start, row.trace_id_hash) else { return Ok(None) };
    fill::arrival(&mut row, start);
    if let Some(ended) = shared.time(&event.tool_end, "ended_at_unix_ms", Naive::Utc)? {
        fill::end(&mut row, ended);
    }
    let role = match event.tool_class.text() {
        Some("search" | "retrieval") => Role::Retrieval,
        _ => Role::Tool,
    };
    Ok(Some(Draft { row: Box::new(row), join: Some(Join { key, role }), chain: None }))
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use crate::domain::record::{ArrivalSource, SessionSource};

    const FORMAT: Format = Format::DynamoRequestTrace;

    const END: &str = r#"{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1795511705623,
        "agent_context":{"session_id":"s-7","parent_session_id":"s-1"},"request":{"request_id":"r-7","model":"m-1",
        "input_tokens":1320,"output_tokens":160,"cached_tokens":1024,"request_received_ms":1795511702123,
        "prefill_wait_time_ms":3.0,"prefill_time_ms":400.5,"ttft_ms":418.0,"total_time_ms":3500.0,
        "replay":{"trace_block_size":64,"input_length":1320,"input_sequence_hashes":[17446744073709551557,9007199254740993,9007199254740992]},
        "finish_reason_metadata":{"finish_reason":"stop","tool_calls":[{"name":"canary"}]}}}"#;

    #[test]
    fn an_end_has_times_counts_and_blocks() {
        let wrapped = format!("{{\"timestamp\":3600,\"event\":{END}}}");
        for line in [END, &wrapped] {
            let draft = trial::draft(FORMAT, line);
            let row = &draft.row;
            assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
            assert_eq!(row.duration_us, Some(3_500_000));
            assert_eq!(row.time_to_first_chunk_us, Some(418_000));
            assert_eq!((row.queue_time_us, row.prefill_time_us), (Some(3_000), Some(400_500)));
            assert_eq!((row.input_tokens, row.output_tokens), (Some(1_320), Some(160)));
            assert_eq!(row.cache_read_input_tokens, Some(1_024));
            assert_eq!(row.input_token_source, TokenSource::Engine);
            assert_eq!((row.status, row.tool_call_count), (Status::Ok, Some(1)));
            let [first, second, third] = row.prefix_block_hashes[..] else { panic!("blocks") };
            assert!(first != second && second != third, "never through a float");
            assert_eq!(row.prefix_block_size, Some(64));
            assert_eq!(row.session_source, SessionSource::Explicit);
            assert_eq!(draft.chain.as_ref().unwrap().own, row.session_id_hash);
            assert!(draft.chain.as_ref().unwrap().previous.is_some());
        }
    }

    #[test]
    fn payloads_are_parts_of_the_request() {
        let payload = r#"{"event_type":"request_payload","event_time_unix_ms":1795511702123,"payload":
            {"request_id":"r-7","endpoint":"chat_completions","request":{"messages":[]},"payload_complete":false}}"#;
        let tried = trial::lines(FORMAT, &[payload, END]);
        let [payload, end] = &tried.drafts[..] else { panic!("two parts") };
        assert_eq!(payload.join.unwrap().key, end.join.unwrap().key);
        assert_eq!(payload.row.operation, Operation::Chat);
        assert_eq!(payload.row.arrival_source, ArrivalSource::Logged);
        assert_eq!(payload.row.flags, [Flag::TruncatedBody]);
        assert!(payload.chain.as_ref().unwrap().is_incomplete);
        assert_eq!(tried.counts().0, 1);
    }

    #[test]
    fn what_is_missing_stays_unknown() {
        let line = r#"{"event_type":"request_end","event_time_unix_ms":1795511705623,"request":{"total_time_ms":3500}}"#;
        let draft = trial::draft(FORMAT, line);
        assert_eq!(draft.row.arrival_time, Some(trial::ARRIVAL));
        assert_eq!(draft.row.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!((draft.row.input_tokens, draft.row.status), (None, Status::Unknown));
        assert_eq!((draft.join, draft.row.prefix_hash_scope), (None, None));
    }

    #[test]
    fn tools_are_side_spans_of_the_session() {
        let tool = |class: &str| {
            let line = format!(
                r#"{{"event_type":"tool_end","agent_context":{{"session_id":"s-7"}},"tool":{{"tool_class":"{class}",
                "started_at_unix_ms":1795511705700,"ended_at_unix_ms":1795511705990}}}}"#
            );
            trial::draft(FORMAT, &line)
        };
        let end = trial::draft(FORMAT, END).row;
        let search = tool("search");
        assert_eq!(search.join.unwrap().role, Role::Retrieval);
        assert_eq!(Some(search.join.unwrap().key), end.trace_id_hash);
        assert_eq!(search.row.duration_us, Some(290_000));
        assert_eq!(tool("shell").join.unwrap().role, Role::Tool);
        let lines = [
            "{\"event_type\":\"tool_start\"}",
            "{\"event_type\":\"tool_error\"}",
            "{\"event_type\":\"other\"}",
            "{\"event_type\":\"request_end\"}",
        ];
        let tried = trial::lines(FORMAT, &lines);
        assert_eq!(tried.drops, ["side_span", "side_span", "not_llm", "no_time"]);
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("dynamo-request-trace.jsonl") else { return };
        assert_eq!(tried.drafts[1].row.prefix_block_hashes.len(), 3);
        assert_eq!(tried.drafts[2].join.unwrap().role, Role::Retrieval);
        assert_eq!(tried.drafts[3].row.duration_us, Some(30_000_000));
    }
}
