//! Access logs of Envoy AI Gateway: a JSON object a line, with flat keys that contain dots.
//!
//! `start_time` is the arrival, `duration` (ms) goes to the end of the stream, and
//! `x-envoy-upstream-service-time` (ms) to the headers. Keys are the operator's choice, so the
//! documented names of the tokens are tried one after the other; missing is null or `-`, numbers
//! may be texts. Health checks and MCP calls stand in the same log and are left out. Retries are
//! inside one line and not shown. Source: `envoyproxy/ai-gateway`, `examples/access-log/basic.yaml`.

use super::access::{self, Request};
use super::{At, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{RequestRecord, TokenSource, TtftSource};
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

wire! {
    /// A line.
    Wire {
        start = "start_time",
        method = "method" | "request.method" | ":method",
        path = "x-envoy-origin-path" | "request.path" | "path" | ":path",
        status = "response_code",
        flags = "response_flags",
        details = "response_code_details",
        bytes_received = "bytes_received",
        bytes_sent = "bytes_sent",
        duration = "duration",
        service_time = "x-envoy-upstream-service-time" | "upstream_service_time",
        agent = "user-agent" | "user_agent",
        request_id = "x-request-id" | "request_id",
        request_model = "gen_ai.request.model" | "request_model" | "model",
        response_model = "gen_ai.response.model" | "response_model",
        backend = "gen_ai.provider.name" | "backend_name",
        input = "gen_ai.usage.input_tokens" | "llm_input_token" | "input_tokens" | "genai_tokens_input",
        output = "gen_ai.usage.output_tokens" | "llm_output_token" | "output_tokens" | "genai_tokens_output",
        total = "gen_ai.usage.total_tokens" | "llm_total_token" | "total_tokens",
        reasoning = "gen_ai.usage.reasoning_tokens" | "llm_reasoning_token",
        cached = "gen_ai.usage.cached_input_tokens" | "gen_ai.usage.cache_read.input_tokens" | "llm_cached_input_token",
        session = "session.id",
        mcp = "mcp.method.name" | "jsonrpc.request.id",
    }
}

struct EnvoyAi {
    picker: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(EnvoyAi { picker: Wire::picker() }), Vec::new()))
}

impl ObjectAdapter for EnvoyAi {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.picker, line)?;
        let request = Request {
            method: wire.method.text().unwrap_or_default(),
            path: wire.path.text().unwrap_or_default(),
            agent: wire.agent.text().unwrap_or_default(),
        };
        let shown = [&wire.request_model, &wire.response_model, &wire.input, &wire.output];
        let shows_model = shown.into_iter().any(|value| !value.is_nothing());
        let is_mcp = !wire.mcp.is_nothing();
        if let Some(reason) = request.drop_reason(shows_model).or(is_mcp.then_some("not_llm")) {
            out.drop(reason);
            return Ok(());
        }
        let Some(start) = shared.time(&wire.start, "start_time", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::EnvoyAiGateway.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, start);
        request.fill(&mut row, shared);
        fill_end(&wire, &mut row, shared)?;
        fill_usage(&wire, &mut row, shared)?;
        access::session(&mut row, &wire.session, shared);
        out.keep(row);
        Ok(())
    }
}

fn fill_end(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    if let Some(duration) = fill::span_us(&wire.duration, "duration", fill::MILLIS)? {
        fill::duration(row, duration);
    }
    let field = "x-envoy-upstream-service-time";
    let headers = fill::span_us(&wire.service_time, field, fill::MILLIS)?;
    fill::ttft(row, headers, TtftSource::Headers);
    fill::http_status(row, wire.status.count("response_code")?);
    access::envoy_flags(row, &wire.flags);
    if row.status.is_failure() && wire.details.text() != Some("via_upstream") {
        row.error_type = shared.error_type(&wire.details);
    }
    row.request_bytes = access::bytes(&wire.bytes_received);
    row.response_bytes = access::bytes(&wire.bytes_sent);
    row.request_id_hash = shared.hash(Column::Request, &wire.request_id);
    Ok(())
}

fn fill_usage(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    row.request_model = shared.model(&wire.request_model);
    row.response_model = shared.model(&wire.response_model);
    row.provider_name = backend_of(&wire.backend).and_then(|name| shared.word(&name));
    let counts = (
        wire.input.count("input_tokens")?,
        wire.output.count("output_tokens")?,
        wire.total.count("total_tokens")?,
    );
    fill::tokens(row, counts, TokenSource::Provider, fill::Zeros::Unknown);
    row.cache_read_input_tokens = wire.cached.count("cached_input_tokens")?;
    row.reasoning_output_tokens = wire.reasoning.count("reasoning_tokens")?;
    row.drop_impossible_parts();
    Ok(())
}

/// Returns the name of the backend in `NAMESPACE/NAME/route/...`.
fn backend_of<'a>(backend: &'a Loose<'_>) -> Option<Loose<'a>> {
    let mut parts = backend.text()?.split('/');
    let first = parts.next();
    Some(Loose::cell(parts.next().or(first)))
}

#[cfg(test)]
mod tests {
    use super::super::trial::{ARRIVAL, row, survives, why_not};
    use super::*;
    use crate::domain::record::{ArrivalSource, Flag, Operation, SessionSource, Status};

    const CALL: &str = r#"{"start_time":"2026-11-24T09:15:02.123Z","method":"POST",
        "request.path":"/v1/chat/completions","response_code":200,"response_flags":"-",
        "bytes_received":610,"bytes_sent":"912","duration":3500,"user-agent":"x/1",
        "x-envoy-upstream-service-time":"402","x-request-id":"r-1",
        "gen_ai.request.model":"gpt-4o-mini","gen_ai.response.model":"gpt-4o-mini-2024-07-18",
        "gen_ai.provider.name":"prod/openai/route/a/rule/0/ref/0",
        "gen_ai.usage.input_tokens":1320,"gen_ai.usage.output_tokens":"160",
        "gen_ai.usage.total_tokens":1480,"gen_ai.usage.cached_input_tokens":1024,
        "session.id":"s-1"}"#;

    #[test]
    fn a_call_is_read() {
        let row = row(Format::EnvoyAiGateway, CALL);
        assert_eq!(row.arrival_time, Some(ARRIVAL));
        assert_eq!((row.arrival_source, row.arrival_resolution_us), (ArrivalSource::Logged, 1_000));
        assert_eq!(row.duration_us, Some(3_500_000));
        assert_eq!(row.time_to_first_chunk_us, Some(402_000));
        assert_eq!(row.ttft_source, Some(TtftSource::Headers));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
        assert_eq!(row.input_token_source, TokenSource::Provider);
        assert_eq!(row.cache_read_input_tokens, Some(1024));
        assert_eq!((row.request_bytes, row.response_bytes), (Some(610), Some(912)));
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!(row.provider_name.as_deref(), Some("openai"));
        assert_eq!(row.response_model.as_deref(), Some("gpt-4o-mini-2024-07-18"));
        assert_eq!(row.session_source, SessionSource::Explicit);
        assert!(row.flags.is_empty());
    }

    #[test]
    fn failures_have_no_tokens_and_no_session() {
        let line = CALL
            .replace(":1320", ":null")
            .replace("\"160\"", "\"-\"")
            .replace(":1480", ":null")
            .replace("\"s-1\"", "\"-\"")
            .replace(":200", r#":504,"response_code_details":"response_timeout""#)
            .replace("\"402\"", "null");
        let row = row(Format::EnvoyAiGateway, &line);
        assert_eq!((row.input_tokens, row.output_tokens), (None, None));
        assert_eq!(row.input_token_source, TokenSource::Missing);
        assert_eq!((row.status, row.http_status_code), (Status::Timeout, Some(504)));
        assert_eq!(row.error_type.as_deref(), Some("response_timeout"));
        assert_eq!((row.session_id_hash, row.ttft_source), (None, None));
    }

    #[test]
    fn a_client_that_hangs_up_is_no_success() {
        let row = row(Format::EnvoyAiGateway, &CALL.replace("\"-\"", "\"DC\""));
        assert_eq!((row.status, row.flags), (Status::Cancelled, vec![Flag::ClientHangUp]));
    }

    #[test]
    fn names_of_operators_are_tried() {
        let line = r#"{"start_time":"2026-11-24T09:15:02.123Z","response_code":"200",
            "llm_input_token":7,"llm_output_token":0}"#;
        let row = row(Format::EnvoyAiGateway, line);
        assert_eq!((row.input_tokens, row.output_tokens), (Some(7), None));
        assert_eq!(row.flags, [Flag::ZeroMeansUnknown]);
    }

    #[test]
    fn other_lines_are_left_out() {
        let probe = r#"{"start_time":"2026-11-24T09:16:20Z","method":"GET","request.path":"/health","gen_ai.request.model":null}"#;
        assert_eq!(why_not(Format::EnvoyAiGateway, probe), "probe");
        let tool = CALL.replace("\"x/1\"", "\"x/1\",\"mcp.method.name\":\"tools/call\"");
        assert_eq!(why_not(Format::EnvoyAiGateway, &tool), "not_llm");
        let no_time = CALL.replace("start_time", "started");
        assert_eq!(why_not(Format::EnvoyAiGateway, &no_time), "no_time");
        assert_eq!(why_not(Format::EnvoyAiGateway, "a line"), "not_llm");
        let negative = CALL.replace(":1320", ":-4");
        let reason = why_not(Format::EnvoyAiGateway, &negative);
        assert_eq!(reason, "input_tokens is negative, not a whole number");
        survives(Format::EnvoyAiGateway, CALL);
    }
}
