//! APISIX with ai-proxy: entries of its logger plugins (JSON), and its access log (text).
//!
//! Entries: `start_time` (ms since 1970) is the arrival, `latency` (ms) the duration. An entry of a
//! custom `log_format` keeps only `llm_summary`: its `@timestamp` is the end. Lines: the time is
//! the end, `$request_time` (s) the duration. `llm_summary.duration` and
//! `$llm_time_to_first_token` (ms) are the time to the first chunk, without streaming to the whole
//! answer. 0 is unknown; numbers and truths may be texts. Key headers are only hashed. Source:
//! `apache/apisix`, `apisix/utils/log-util.lua`, `apisix/plugins/ai-proxy/base.lua`.

use super::access::{self, Line, Request};
use super::{
    Adapter, At, Draft, Format, Hints, Input, Made, Naive, ObjectAdapter, Out, Refusal, Shared,
    fill,
};
use crate::domain::record::{Operation, RequestRecord, TokenSource, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

/// Values of `$request_type`, with whether the answer is streamed.
const KINDS: &[(&str, Option<bool>)] =
    &[("ai_chat", Some(false)), ("ai_stream", Some(true)), ("traditional_http", None)];

wire! {
    /// An entry of a logger plugin.
    Wire {
        uri = "request.uri" | "uri" | "request.url",
        method = "request.method" | "method" | "request_method",
        agent = "request.headers.user-agent" | "http_user_agent",
        key = "request.headers.authorization" | "request.headers.x-api-key",
        session = "request.headers.x-session-id" | "request.headers.session-id" | "request.headers.x-conversation-id",
        request_bytes = "request.size" | "request_length",
        request_body = "request.body",
        status = "response.status" | "status",
        response_bytes = "response.size" | "body_bytes_sent" | "bytes_sent",
        response_body = "response.body",
        consumer = "consumer.username",
        request_id = "request_id" | "apisix_request_id",
        start = "start_time",
        written = "@timestamp" | "timestamp" | "time_iso8601",
        latency = "latency",
        summary = "llm_summary",
        request = "llm_request",
        messages = "llm_request.messages",
        response = "llm_response_text",
    }
}

wire! {
    /// What the AI plugins tell of a call.
    Summary {
        request_model = "request_model",
        model = "model",
        ttft = "duration",
        input = "prompt_tokens",
        output = "completion_tokens",
        total = "total_tokens",
        upstream = "upstream_response_time",
        stream = "stream",
        cached = "cache_read_input_tokens",
        written = "cache_creation_input_tokens",
        reasoning = "reasoning_tokens",
        user = "end_user_id",
    }
}

struct Logger {
    picker: Picker,
    summary: Picker,
}

struct Access;

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(format: Format, _: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter: Box<dyn Adapter> = match format {
        Format::ApisixAccess => Box::new(Access),
        _ => Box::new(Logger { picker: Wire::picker(), summary: Summary::picker() }),
    };
    Ok((adapter, Vec::new()))
}

impl ObjectAdapter for Logger {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.picker, line)?;
        let text = wire.summary.json();
        let summary = match text.as_deref() {
            Some(text) => Some(Summary::read(&self.summary, text)?),
            None => None,
        };
        let request = Request {
            method: wire.method.text().unwrap_or_default(),
            path: wire.uri.text().and_then(access::path_of).unwrap_or_default(),
            agent: wire.agent.text().unwrap_or_default(),
        };
        if let Some(reason) = request.drop_reason(summary.is_some()) {
            out.drop(reason);
            return Ok(());
        }
        let format = shared.name(Format::ApisixLogger.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        if !fill_times(&wire, summary.as_ref(), &mut row, shared)? {
            out.drop("no_time");
            return Ok(());
        }
        request.fill(&mut row, shared);
        if row.operation == Operation::Unknown && !wire.messages.is_nothing() {
            row.operation = Operation::Chat;
        }
        fill_entry(&wire, &mut row, shared)?;
        if let Some(summary) = &summary {
            fill_summary(summary, &mut row, shared)?;
        }
        let mut draft = Draft::from(row);
        fill_bodies(&wire, &mut draft, shared);
        out.keep(draft);
        Ok(())
    }
}

/// Fills the times; returns false when the entry has none.
fn fill_times(
    wire: &Wire<'_>,
    summary: Option<&Summary<'_>>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<bool, FieldError> {
    let duration = fill::span_us(&wire.latency, "latency", fill::MILLIS)?;
    if let Some(start) = shared.time(&wire.start, "start_time", Naive::Utc)? {
        fill::arrival(row, start);
        if let Some(duration) = duration {
            fill::duration(row, duration);
        }
        return Ok(true);
    }
    let Some(end) = shared.time(&wire.written, "@timestamp", Naive::Local)? else {
        return Ok(false);
    };
    let upstream = match summary {
        Some(summary) => fill::span_us(&summary.upstream, "upstream_response_time", fill::MILLIS)?,
        None => None,
    };
    let upstream = upstream.filter(|upstream| *upstream > 0);
    if duration.is_none() && upstream.is_some() {
        shared.remark("apisix-logger: the upstream's time stands in for the duration");
    }
    fill::arrival_from_end(row, end, duration.or(upstream));
    Ok(true)
}

fn fill_entry(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    fill::http_status(row, wire.status.count("response.status")?);
    row.request_bytes = access::bytes(&wire.request_bytes);
    row.response_bytes = access::bytes(&wire.response_bytes);
    row.request_id_hash = shared.hash(Column::Request, &wire.request_id);
    row.key_hash = shared.hash(Column::Key, &wire.key);
    row.user_hash = shared.hash(Column::User, &wire.consumer);
    access::session(row, &wire.session, shared);
    Ok(())
}

fn fill_summary(
    summary: &Summary<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    row.request_model = shared.model(&summary.request_model);
    row.response_model = shared.model(&summary.model);
    row.stream = summary.stream.truth();
    row.user_hash = shared.hash(Column::User, &summary.user).or(row.user_hash);
    let ttft = fill::span_us(&summary.ttft, "llm_summary.duration", fill::MILLIS)?;
    fill_ttft(row, ttft);
    let counts = (
        summary.input.count("prompt_tokens")?,
        summary.output.count("completion_tokens")?,
        summary.total.count("total_tokens").ok().flatten(),
    );
    fill::tokens(row, counts, TokenSource::Provider, fill::Zeros::Unknown);
    let part = |value: &Loose<'_>, field| {
        Ok::<_, FieldError>(value.count(field)?.filter(|count| *count > 0))
    };
    row.cache_read_input_tokens = part(&summary.cached, "cache_read_input_tokens")?;
    row.cache_write_input_tokens = part(&summary.written, "cache_creation_input_tokens")?;
    row.reasoning_output_tokens = part(&summary.reasoning, "reasoning_tokens")?;
    row.drop_impossible_parts();
    Ok(())
}

/// Sets the time to the first chunk; without streaming it is that to the whole answer. 0 is none.
fn fill_ttft(row: &mut RequestRecord, ttft: Option<i64>) {
    let source =
        if row.stream == Some(false) { TtftSource::WholeResponse } else { TtftSource::Logged };
    fill::ttft(row, ttft.filter(|ttft| *ttft > 0), source);
}

fn fill_bodies(wire: &Wire<'_>, draft: &mut Draft, shared: &mut Shared) {
    let request = wire.request.json().or_else(|| wire.request_body.json());
    if let Some(body) = request {
        content::fill_request(&body, draft, shared);
    }
    // The plugin logs the answer's text alone: it becomes a message again.
    let answer = wire.response.json().and_then(|text| {
        Some(format!(
            "{{\"choices\":[{{\"message\":{}}}]}}",
            text.strip_prefix('{').map(|rest| format!("{{\"role\":\"assistant\",{rest}"),)?
        ))
    });
    let own = wire.response_body.json().or(wire.response_body.text().map(Into::into));
    if let Some(body) = answer.map(Into::into).or(own) {
        content::fill_response(&body, draft, shared);
    }
}

impl Adapter for Access {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let line = match input {
            Input::Text(line) => Line::parse(line),
            _ => None,
        };
        let Some((line, client)) =
            line.and_then(|line| line.request().map(|request| (line, request)))
        else {
            out.drop("not_llm");
            return Ok(());
        };
        // Behind the user agent: upstreams, their statuses, their times, then the upstream's
        // address, the request id, the kind, and what the AI plugins know.
        let kind = line.quoted(5);
        let known = kind.text().and_then(|kind| KINDS.iter().find(|(known, _)| *known == kind));
        let stream = known.and_then(|(_, stream)| *stream);
        let upstream = line.quoted(3).text().and_then(access::path_of).map(str::to_owned);
        let own_path = fill::operation_of(client.path).is_some();
        let request = match upstream.as_deref() {
            Some(path) if !own_path => Request { path, ..client },
            _ => client,
        };
        if let Some(reason) = client
            .drop_reason(stream.is_some())
            .filter(|reason| *reason == "probe" || request.drop_reason(stream.is_some()).is_some())
        {
            out.drop(reason);
            return Ok(());
        }
        let Some(end) = line.time(shared)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::ApisixAccess.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        let duration = fill::span_us(&line.value(0, 2), "request_time", fill::SECONDS)?;
        fill::arrival_from_end(&mut row, end, duration);
        line.fill(&request, &mut row, shared)?;
        let upstreams = line.parts.get(2).and_then(|part| part.after.first());
        access::attempts(&mut row, upstreams.map_or(1, Vec::len));
        row.request_id_hash = shared.hash(Column::Request, &line.quoted(4));
        row.stream = stream;
        if stream.is_some() {
            fill_call(&line, &mut row, shared)?;
        }
        out.keep(row);
        Ok(())
    }
}

/// Fills what the AI plugins add to a line.
fn fill_call(
    line: &Line<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    let ttft = fill::span_us(&line.quoted(6), "llm_time_to_first_token", fill::MILLIS)?;
    fill_ttft(row, ttft);
    row.response_model = shared.model(&line.quoted(7));
    row.request_model = shared.model(&line.quoted(8));
    let input = line.quoted(9).count("llm_prompt_tokens")?;
    let output = line.quoted(10).count("llm_completion_tokens")?;
    fill::tokens(row, (input, output, None), TokenSource::Provider, fill::Zeros::Unknown);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::trial::{ARRIVAL, row, survives, why_not};
    use super::*;
    use crate::domain::record::{ArrivalSource, Flag, Status};

    const ENTRY: &str = r#"{"request":{"uri":"/any","method":"POST","size":610,
        "headers":{"authorization":"Bearer invented"}},"response":{"status":200,"size":912},
        "consumer":{"username":"invented"},"start_time":1795511702123,"latency":3500.0,
        "llm_summary":{"request_model":"gpt-4o-mini","model":"gpt-4o-mini-2024-07-18",
        "duration":418,"prompt_tokens":"1320","completion_tokens":160,"total_tokens":1480,
        "upstream_response_time":3490,"stream":"true","cache_read_input_tokens":1024,
        "reasoning_tokens":0},"llm_request":{"messages":[],"stream":true},
        "llm_response_text":{"content":"so"}}"#;
    const LINE: &str = r#"192.0.2.9 - - [24/Nov/2026:09:15:05 +0000] gw "POST /any HTTP/1.1" 200 912 3.500 "-" "x/1" 192.0.2.1:443 200 3490 "https://up.test/v1/chat/completions" "r1" "ai_stream" "418" "gpt-4o-mini-2024-07-18" "gpt-4o-mini"  "1320" "160""#;

    #[test]
    fn an_entry_is_read() {
        let row = row(Format::ApisixLogger, ENTRY);
        assert_eq!(row.arrival_time, Some(ARRIVAL));
        assert_eq!((row.arrival_source, row.arrival_resolution_us), (ArrivalSource::Logged, 1_000));
        assert_eq!(row.duration_us, Some(3_500_000));
        assert_eq!(row.time_to_first_chunk_us, Some(418_000));
        assert_eq!((row.ttft_source, row.stream), (Some(TtftSource::Logged), Some(true)));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
        assert_eq!((row.cache_read_input_tokens, row.reasoning_output_tokens), (Some(1024), None));
        assert_eq!((row.request_bytes, row.response_bytes), (Some(610), Some(912)));
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert!(row.key_hash.is_some() && row.user_hash.is_some() && row.flags.is_empty());
    }

    #[test]
    fn zeros_are_unknown_and_totals_may_be_pasted_together() {
        let failed = ENTRY
            .replace(":418", ":0")
            .replace("\"1320\"", "0")
            .replace(":160", ":0")
            .replace(":1480", ":0")
            .replace(":1024", ":0")
            .replace(":200", ":504");
        let record = row(Format::ApisixLogger, &failed);
        assert_eq!((record.input_tokens, record.output_tokens), (None, None));
        assert_eq!((record.ttft_source, record.cache_read_input_tokens), (None, None));
        assert_eq!(record.status, Status::Timeout);
        let pasted = row(Format::ApisixLogger, &ENTRY.replace(":1480", ":\"1320160\""));
        assert_eq!((pasted.output_tokens, pasted.flags.len()), (Some(160), 1));
        assert_eq!(pasted.flags, [Flag::TokenSumMismatch]);
        let longer = row(Format::ApisixLogger, &ENTRY.replace(":1480", ":\"999991320160\""));
        assert_eq!(longer.input_tokens, Some(1320));
        let whole = row(Format::ApisixLogger, &ENTRY.replace("\"true\"", "\"false\""));
        assert_eq!(whole.ttft_source, Some(TtftSource::WholeResponse));
    }

    #[test]
    fn an_entry_of_a_custom_format_counts_from_its_end() {
        let line = r#"{"@timestamp":"2026-11-24T09:16:30+00:00","client_ip":"192.0.2.9",
            "llm_summary":{"duration":402,"prompt_tokens":900,"completion_tokens":40,
            "upstream_response_time":2000,"stream":"true"}}"#;
        let record = row(Format::ApisixLogger, line);
        assert_eq!(record.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!(record.duration_us, Some(2_000_000));
        assert_eq!(record.end_time.unwrap().micros_since(ARRIVAL), 87_877_000);
        assert_eq!(record.status, Status::Unknown);
        let alone = row(Format::ApisixLogger, &line.replace(":2000", ":0"));
        assert_eq!((alone.arrival_source, alone.duration_us), (ArrivalSource::EndOnly, None));
    }

    #[test]
    fn other_entries_are_left_out() {
        let bare = |uri: &str, method: &str| {
            format!(
                r#"{{"request":{{"uri":"{uri}","method":"{method}"}},"start_time":1795511702123,"apisix_latency":1,"route_id":"1","llm_summary":null}}"#
            )
        };
        assert_eq!(why_not(Format::ApisixLogger, &bare("/healthz", "GET")), "probe");
        assert_eq!(why_not(Format::ApisixLogger, &bare("/login", "POST")), "not_llm");
        let known = row(Format::ApisixLogger, &bare("/v1/embeddings", "POST"));
        assert_eq!(known.operation, Operation::Embeddings);
        assert_eq!(why_not(Format::ApisixLogger, &ENTRY.replace("start_time", "x")), "no_time");
        survives(Format::ApisixLogger, ENTRY);
    }

    #[test]
    fn a_line_is_read() {
        let row = row(Format::ApisixAccess, LINE);
        let arrival = row.arrival_time.unwrap();
        assert_eq!(arrival.micros_since(ARRIVAL), -623_000);
        assert_eq!(row.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!((row.arrival_resolution_us, row.zone_assumed), (1_000_000, false));
        assert_eq!(row.duration_us, Some(3_500_000));
        assert_eq!(row.time_to_first_chunk_us, Some(418_000));
        assert_eq!((row.ttft_source, row.stream), (Some(TtftSource::Logged), Some(true)));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
        assert_eq!((row.response_bytes, row.attempt_count), (Some(912), 1));
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!(row.endpoint_family.as_deref(), Some("/v1/chat/completions"));
        assert_eq!(row.request_model.as_deref(), Some("gpt-4o-mini"));
        assert_eq!(row.user_hash, None);
    }

    #[test]
    fn lines_after_retries_without_streaming_and_with_zeros() {
        let retried = LINE
            .replace("192.0.2.1:443 200 3490", "192.0.2.1:443, 192.0.2.2:443 502, 200 4, 3080")
            .replace("ai_stream", "ai_chat");
        let record = row(Format::ApisixAccess, &retried);
        assert_eq!((record.attempt_count, record.stream), (2, Some(false)));
        assert_eq!(record.ttft_source, Some(TtftSource::WholeResponse));
        assert_eq!((record.input_tokens, record.output_tokens), (Some(1320), Some(160)));
        let failed = LINE
            .replace("\"418\"", "\"0\"")
            .replace("\"1320\" \"160\"", "\"0\" \"0\"")
            .replace("\" 200 912", "\" 504 12");
        let record = row(Format::ApisixAccess, &failed);
        assert_eq!((record.input_tokens, record.output_tokens), (None, None));
        assert_eq!((record.ttft_source, record.status), (None, Status::Timeout));
    }

    #[test]
    fn other_lines_are_left_out_and_cut_ones_refused() {
        let plain = LINE.replace("ai_stream", "traditional_http");
        assert_eq!(row(Format::ApisixAccess, &plain).input_tokens, None);
        let other = plain.replace("/v1/chat/completions", "/app");
        assert_eq!(why_not(Format::ApisixAccess, &other), "not_llm");
        let probe = LINE.replace("POST /any", "GET /healthz");
        assert_eq!(why_not(Format::ApisixAccess, &probe), "probe");
        assert_eq!(why_not(Format::ApisixAccess, "* Connection closed"), "not_llm");
        let cut = LINE.strip_suffix("160\"").unwrap();
        assert_eq!(why_not(Format::ApisixAccess, cut), " ends in the middle of the line");
        survives(Format::ApisixAccess, LINE);
    }
}
