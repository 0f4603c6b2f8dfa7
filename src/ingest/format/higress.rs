//! Access logs of Higress with its plugin ai-statistics: JSON lines whose values are all texts.
//!
//! `start_time` is the arrival, `duration` (ms) the whole request. `ai_log` is a JSON object
//! written into a text, and some of its values are JSON in texts again; it is `-` when the plugin
//! did not run. An older form has its keys in the line itself. `chat_round` counts the user's
//! messages and so is the turn. Long values are cut by the plugin. Source: `alibaba/higress`,
//! `plugins/wasm-go/extensions/ai-statistics`, `helm/core/templates/configmap.yaml`.

use super::access::{self, Request};
use super::{At, Draft, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{RequestRecord, TokenSource, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

wire! {
    /// A line.
    Wire {
        ai_log = "ai_log",
        old_input = "input_token",
        bytes_received = "bytes_received",
        bytes_sent = "bytes_sent",
        duration = "duration",
        method = "method",
        path = "path",
        request_id = "request_id",
        status = "response_code",
        flags = "response_flags",
        details = "response_code_details",
        start = "start_time",
        trace_id = "trace_id",
        service_time = "upstream_service_time",
        agent = "user_agent",
    }
}

wire! {
    /// What the plugin tells.
    AiLog {
        model = "model",
        input = "input_token",
        output = "output_token",
        total = "total_token",
        first = "llm_first_token_duration",
        kind = "response_type",
        chat_id = "chat_id",
        round = "chat_round",
        session = "session_id",
        consumer = "consumer",
        reasoning = "reasoning_tokens",
        cached = "cached_tokens",
        input_details = "input_token_details",
        output_details = "output_token_details",
        messages = "messages",
        system = "system",
        question = "question",
        answer = "answer",
        tool_calls = "tool_calls",
    }
}

wire! {
    /// Parts of the counts.
    Details {
        cached = "cached_tokens",
        reasoning = "reasoning_tokens",
    }
}

struct Higress {
    picker: Picker,
    ai: Picker,
    details: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let higress =
        Higress { picker: Wire::picker(), ai: AiLog::picker(), details: Details::picker() };
    Ok((Box::new(higress), Vec::new()))
}

impl ObjectAdapter for Higress {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.picker, line)?;
        let inner = wire.ai_log.json();
        let text = inner.as_deref().or((!wire.old_input.is_nothing()).then_some(line));
        let ai = match text {
            // A value that was cut does not make the line's times and status worthless.
            Some(text) => AiLog::read(&self.ai, text).ok(),
            None => None,
        };
        if text.is_some() && ai.is_none() {
            shared.remark("higress-ai-statistics: `ai_log` is no JSON object");
        }
        let request = Request {
            method: wire.method.text().unwrap_or_default(),
            path: wire.path.text().unwrap_or_default(),
            agent: wire.agent.text().unwrap_or_default(),
        };
        if let Some(reason) = request.drop_reason(text.is_some()) {
            out.drop(reason);
            return Ok(());
        }
        let Some(start) = shared.time(&wire.start, "start_time", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::HigressAiStatistics.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, start);
        request.fill(&mut row, shared);
        fill_line(&wire, &mut row, shared)?;
        if let Some(ai) = &ai {
            self.fill_usage(ai, &mut row)?;
            fill_ai(ai, &mut row, shared)?;
        }
        let headers = fill::span_us(&wire.service_time, "upstream_service_time", fill::MILLIS)?;
        if row.time_to_first_chunk_us.is_none() {
            fill::ttft(&mut row, headers, TtftSource::Headers);
        }
        let mut draft = Draft::from(row);
        if let Some(ai) = &ai {
            fill_bodies(ai, &mut draft, shared)?;
        }
        out.keep(draft);
        Ok(())
    }
}

fn fill_line(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    if let Some(duration) = fill::span_us(&wire.duration, "duration", fill::MILLIS)? {
        fill::duration(row, duration);
    }
    fill::http_status(row, wire.status.count("response_code")?);
    access::envoy_flags(row, &wire.flags);
    if row.status.is_failure() && wire.details.text() != Some("via_upstream") {
        row.error_type = shared.error_type(&wire.details);
    }
    row.request_bytes = access::bytes(&wire.bytes_received);
    row.response_bytes = access::bytes(&wire.bytes_sent);
    row.request_id_hash = shared.hash(Column::Request, &wire.request_id);
    row.trace_id_hash = shared.hash(Column::Trace, &wire.trace_id);
    Ok(())
}

fn fill_ai(ai: &AiLog<'_>, row: &mut RequestRecord, shared: &mut Shared) -> Result<(), FieldError> {
    row.request_model = shared.model(&ai.model);
    row.response_id_hash = shared.hash(Column::Request, &ai.chat_id);
    row.user_hash = shared.hash(Column::User, &ai.consumer);
    row.stream = match ai.kind.text() {
        Some("stream") => Some(true),
        Some("normal") => Some(false),
        _ => None,
    };
    access::session(row, &ai.session, shared);
    let round = ai.round.count("chat_round")?;
    if row.session_id_hash.is_some() {
        row.turn_index = round.and_then(|round| round.checked_sub(1));
    }
    let first = fill::span_us(&ai.first, "llm_first_token_duration", fill::MILLIS)?;
    fill::ttft(row, first.filter(|first| *first > 0), TtftSource::Logged);
    Ok(())
}

impl Higress {
    fn fill_usage(&self, ai: &AiLog<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
        let counts = (
            ai.input.count("input_token")?,
            ai.output.count("output_token")?,
            ai.total.count("total_token")?,
        );
        fill::tokens(row, counts, TokenSource::Provider, fill::Zeros::Unknown);
        let (input, output) = (ai.input_details.json(), ai.output_details.json());
        // Details that are no object any more, because they were cut, tell nothing.
        let read = |text| Details::read(&self.details, text).ok();
        let cached = input.as_deref().and_then(read).map(|parts| parts.cached);
        let read = |text| Details::read(&self.details, text).ok();
        let reasoning = output.as_deref().and_then(read).map(|parts| parts.reasoning);
        let first = |value: &Loose<'_>, other: Option<Loose<'_>>, field| {
            let own = value.count(field)?;
            Ok::<_, FieldError>(match other {
                Some(other) if own.is_none() => other.count(field)?,
                _ => own,
            })
        };
        row.cache_read_input_tokens = first(&ai.cached, cached, "cached_tokens")?;
        row.reasoning_output_tokens = first(&ai.reasoning, reasoning, "reasoning_tokens")?;
        row.drop_impossible_parts();
        Ok(())
    }
}

/// Reads messages where they are all there: the list, or the first question of a conversation.
fn fill_bodies(ai: &AiLog<'_>, draft: &mut Draft, shared: &mut Shared) -> Result<(), FieldError> {
    let is_first = ai.round.count("chat_round")? == Some(1);
    if let Some(messages) = ai.messages.json() {
        content::fill_request(&format!("{{\"messages\":{messages}}}"), draft, shared);
    } else if let Some(question) = ai.question.text().filter(|_| is_first) {
        let system = message("system", &ai.system).map(|system| system + ",");
        let user = message("user", &Loose::cell(Some(question)));
        let (system, user) = (system.unwrap_or_default(), user.unwrap_or_default());
        content::fill_request(&format!("{{\"messages\":[{system}{user}]}}"), draft, shared);
    }
    let calls = ai.tool_calls.json().map(|calls| format!(",\"tool_calls\":{calls}"));
    if let Some(answer) = message("assistant", &ai.answer) {
        let open = answer.strip_suffix('}').unwrap_or_default();
        let calls = calls.unwrap_or_default();
        let body = format!("{{\"choices\":[{{\"message\":{open}{calls}}}}}]}}");
        content::fill_response(&body, draft, shared);
    }
    Ok(())
}

/// Returns a message as JSON; `None` without text.
fn message(role: &str, text: &Loose<'_>) -> Option<String> {
    let content = serde_json::to_string(text.text()?).ok()?;
    Some(format!("{{\"role\":\"{role}\",\"content\":{content}}}"))
}

#[cfg(test)]
mod tests {
    use super::super::trial::{ARRIVAL, row, survives, why_not};
    use super::*;
    use crate::domain::record::{Operation, SessionSource, Status};

    const CALL: &str = r#"{"ai_log":"{\"model\":\"qwen-plus\",\"input_token\":1320,\"output_token\":\"160\",\"total_token\":1480,\"llm_first_token_duration\":418,\"response_type\":\"stream\",\"chat_round\":\"3\",\"session_id\":\"s1\",\"cached_tokens\":1024,\"consumer\":\"c\"}",
        "authority":"gw","bytes_received":"610","bytes_sent":"912","duration":"3500",
        "method":"POST","path":"/v1/chat/completions","request_id":"r1","response_code":"200",
        "response_flags":"-","start_time":"2026-11-24T09:15:02.123Z","trace_id":"-",
        "upstream_service_time":"402","user_agent":"x/1","response_code_details":"via_upstream"}"#;

    #[test]
    fn a_call_is_read() {
        let row = row(Format::HigressAiStatistics, CALL);
        assert_eq!(row.arrival_time, Some(ARRIVAL));
        assert_eq!(row.duration_us, Some(3_500_000));
        assert_eq!(row.time_to_first_chunk_us, Some(418_000));
        assert_eq!((row.ttft_source, row.stream), (Some(TtftSource::Logged), Some(true)));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
        assert_eq!(row.cache_read_input_tokens, Some(1024));
        assert_eq!((row.request_bytes, row.response_bytes), (Some(610), Some(912)));
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!((row.session_source, row.turn_index), (SessionSource::Explicit, Some(2)));
        assert_eq!((row.trace_id_hash, row.error_type), (None, None));
        assert!(row.flags.is_empty());
    }

    #[test]
    fn details_are_json_in_json_in_json() {
        let nested = r#"\"input_token_details\":\"{\\\"cached_tokens\\\":1280}\""#;
        let line = CALL.replace(r#"\"cached_tokens\":1024"#, nested);
        let record = row(Format::HigressAiStatistics, &line);
        assert_eq!(record.cache_read_input_tokens, Some(1280));
        let cut = line.replace(r":1280}\", r":12\");
        assert_eq!(row(Format::HigressAiStatistics, &cut).cache_read_input_tokens, None);
    }

    #[test]
    fn failures_tell_only_the_headers_time() {
        let line = CALL
            .replace(r#"\"input_token\":1320,\"output_token\":\"160\",\"total_token\":1480,"#, "")
            .replace(r#"\"llm_first_token_duration\":418,"#, "")
            .replace("\"200\"", "\"504\"")
            .replace("\"-\",\"start", "\"UT\",\"start");
        let record = row(Format::HigressAiStatistics, &line);
        assert_eq!((record.input_tokens, record.output_tokens), (None, None));
        assert_eq!(
            (record.status, record.ttft_source),
            (Status::Timeout, Some(TtftSource::Headers))
        );
        let no_session = CALL.replace(r#"\"s1\""#, r#"\"\""#);
        let record = row(Format::HigressAiStatistics, &no_session);
        assert_eq!((record.session_source, record.turn_index), (SessionSource::None, None));
        let round = CALL.replace(r#"\"3\""#, "0");
        assert_eq!(row(Format::HigressAiStatistics, &round).turn_index, None);
    }

    #[test]
    fn the_old_form_has_its_keys_in_the_line() {
        let line = r#"{"authority":"gw","start_time":"2026-11-24T09:15:02.123Z","model":"qwen-plus",
            "input_token":"1320","output_token":"160","path":"/x","method":"POST","duration":"3500"}"#;
        let row = row(Format::HigressAiStatistics, line);
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
        assert_eq!(row.request_model.as_deref(), Some("qwen-plus"));
    }

    #[test]
    fn other_lines_are_left_out_and_cut_texts_cost_only_themselves() {
        let probe = CALL.replace("POST", "GET").replace("/v1/chat/completions", "/healthz");
        assert_eq!(why_not(Format::HigressAiStatistics, &probe), "probe");
        let bare = r#"{"ai_log":"-","authority":"gw","start_time":"2026-11-24T09:15:02Z","method":"POST","path":"/login"}"#;
        assert_eq!(why_not(Format::HigressAiStatistics, bare), "not_llm");
        let known = bare.replace("/login", "/v1/completions");
        assert_eq!(row(Format::HigressAiStatistics, &known).operation, Operation::TextCompletion);
        let cut = CALL.replace(r#",\"consumer\":\"c\"}"#, "");
        let record = row(Format::HigressAiStatistics, &cut);
        assert_eq!((record.input_tokens, record.duration_us), (None, Some(3_500_000)));
        survives(Format::HigressAiStatistics, CALL);
    }

    #[test]
    fn messages_are_written_anew() {
        let text = Loose::cell(Some("a \"b\""));
        let expected = r#"{"role":"user","content":"a \"b\""}"#;
        assert_eq!(message("user", &text).as_deref(), Some(expected));
        assert_eq!(message("user", &Loose::Null), None);
    }
}
