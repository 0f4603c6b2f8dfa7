//! Ollama: the lines its web server prints (text), and captured final responses (JSON).
//!
//! `[GIN] DATE - TIME | STATUS | SPAN | ADDRESS | METHOD "PATH"`: local time, the end of the request,
//! whole seconds; no model, no tokens. Other lines of the server may tell the zone. Responses: `created_at` is the end, durations are in ns, and
//! the first token comes after loading and reading the prompt. `prompt_eval_count` is missing when
//! the whole prompt was cached. Chunks before the last one are `partial_chunk`, loading a model is
//! `warm_up`. Source: `ollama/ollama`, `docs/api.md`, `api/types.go`.

use super::access::Request;
use super::text::{iso_of_gin, plain, span_us};
use super::{
    Adapter, At, Draft, Format, Hints, Input, Made, Naive, ObjectAdapter, Out, Refusal, Shared,
    fill,
};
use crate::domain::record::{Operation, RequestRecord, Status, TokenSource, TtftSource};
use crate::domain::trace::Decision;
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::sample::{Records, Sample};
use crate::ingest::stamp;
use jiff::tz::TimeZone;
use std::borrow::Cow;

wire! {
    /// A response.
    Wire {
        model = "model",
        created_at = "created_at",
        message = "message",
        done = "done",
        reason = "done_reason",
        total = "total_duration",
        load = "load_duration",
        input = "prompt_eval_count",
        prefill = "prompt_eval_duration",
        output = "eval_count",
        decode = "eval_duration",
    }
}

struct Gin {
    /// `+01:00`, where other lines of the file tell it.
    offset: String,
}

struct Responses {
    picker: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(format: Format, sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    if format != Format::OllamaGin {
        return Ok((Box::new(Responses { picker: Wire::picker() }), Vec::new()));
    }
    let offset = if hints.zone.told { None } else { offset_of(sample) };
    let decision = offset.as_ref().map(|offset| Decision {
        what: "zone of `[GIN]` lines".to_owned(),
        value: offset.clone(),
        why: "the server's other lines carry it; `--tz` changes it".to_owned(),
    });
    let gin = Gin { offset: offset.unwrap_or_default() };
    Ok((Box::new(gin), decision.into_iter().collect()))
}

/// Returns the offset of the first `time=2026-11-24T10:15:00.000+01:00` in the file.
fn offset_of(sample: &Sample) -> Option<String> {
    let Records::Text(lines) = &sample.records else { return None };
    lines.iter().find_map(|line| {
        let (_, rest) = line.split_once("time=")?;
        let time = rest.split_whitespace().next()?;
        let is_zoned = !stamp::parse(time, &TimeZone::UTC)?.zone_assumed;
        let zone = time.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
        is_zoned.then(|| zone.to_owned())
    })
}

impl Adapter for Gin {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let line = match input {
            Input::Text(line) => plain(line),
            _ => Cow::Borrowed(""),
        };
        let Some((_, fields)) = line.split_once("[GIN] ") else {
            out.drop("not_llm");
            return Ok(());
        };
        let mut fields = fields.splitn(5, '|').map(str::trim);
        let Some(mut iso) = fields.next().and_then(iso_of_gin) else {
            // Warnings of the web server begin with the same mark.
            out.drop("not_llm");
            return Ok(());
        };
        iso.push_str(&self.offset);
        let (status, took) = (fields.next(), fields.next());
        let Some(request) = fields.nth(1).and_then(request_of) else {
            return Err(FieldError::new("", "ends in the middle of the line").into());
        };
        if let Some(reason) = request.drop_reason(false) {
            out.drop(reason);
            return Ok(());
        }
        let Some(end) = shared.time(&Loose::Text(Cow::Owned(iso)), "time", Naive::Local)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::OllamaGin.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival_from_end(&mut row, end, took.and_then(span_us));
        fill::http_status(&mut row, Loose::cell(status).count("status")?);
        request.fill(&mut row, shared);
        out.keep(row);
        Ok(())
    }
}

/// Reads `POST     "/api/chat"`.
fn request_of(text: &str) -> Option<Request<'_>> {
    let (method, path) = text.split_once('"')?;
    Some(Request { method: method.trim(), path: path.strip_suffix('"')?, agent: "" })
}

impl ObjectAdapter for Responses {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.picker, line)?;
        if wire.done.truth() == Some(false) {
            out.drop("partial_chunk");
            return Ok(());
        }
        if matches!(wire.reason.text(), Some("load" | "unload")) {
            out.drop("warm_up");
            return Ok(());
        }
        let Some(end) = shared.time(&wire.created_at, "created_at", Naive::Local)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::OllamaResponses.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        let total = fill::span_us(&wire.total, "total_duration", fill::NANOS)?;
        fill::arrival_from_end(&mut row, end, total);
        row.operation = operation_of(&wire);
        row.status = if wire.done.truth() == Some(true) { Status::Ok } else { Status::Unknown };
        row.request_model = shared.model(&wire.model);
        row.finish_reasons = shared.finish_reason(&wire.reason).into_iter().collect();
        fill_spans(&wire, &mut row)?;
        // No prompt has 0 tokens; an answer of 0 tokens is one.
        let input = wire.input.count("prompt_eval_count")?.filter(|count| *count > 0);
        let output = wire.output.count("eval_count")?;
        fill::tokens(&mut row, (input, output, None), TokenSource::Engine, fill::Zeros::Real);
        let mut draft = Draft::from(row);
        content::fill_response(line, &mut draft, shared);
        out.keep(draft);
        Ok(())
    }
}

/// The last chunk of a chat has a message; that of a completion may have an empty text only.
fn operation_of(wire: &Wire<'_>) -> Operation {
    if wire.message.is_nothing() { Operation::TextCompletion } else { Operation::Chat }
}

fn fill_spans(wire: &Wire<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
    let load = fill::span_us(&wire.load, "load_duration", fill::NANOS)?;
    let prefill = fill::span_us(&wire.prefill, "prompt_eval_duration", fill::NANOS)?;
    row.prefill_time_us = prefill.filter(|span| *span >= 0);
    let decode = fill::span_us(&wire.decode, "eval_duration", fill::NANOS)?;
    row.decode_time_us = decode.filter(|span| *span >= 0);
    let first = prefill.map(|prefill| load.unwrap_or(0) + prefill);
    fill::ttft(row, first, TtftSource::Derived);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::trial::{ARRIVAL, adapter, draft_by, row, survives, why_not};
    use super::*;
    use crate::domain::record::ArrivalSource;

    const LINE: &str = "[GIN] 2026/11/24 - 09:15:05 | 200 |  3.500412301s |      127.0.0.1 | POST     \"/api/chat\"";
    const RESPONSE: &str = r#"{"model":"llama3.2","created_at":"2026-11-24T09:15:05.623456789Z",
        "message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",
        "total_duration":3500456789,"load_duration":12000000,"prompt_eval_count":1320,
        "prompt_eval_duration":406000000,"eval_count":160,"eval_duration":3080000000}"#;

    #[test]
    fn a_line_is_read() {
        let row = row(Format::OllamaGin, LINE);
        assert_eq!(row.arrival_time.unwrap().micros_since(ARRIVAL), -623_412);
        assert_eq!(row.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!((row.arrival_resolution_us, row.zone_assumed), (1_000_000, true));
        assert_eq!(row.duration_us, Some(3_500_412));
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!((row.input_tokens, row.request_model), (None, None));
    }

    #[test]
    fn other_lines_tell_the_zone() {
        let local = LINE.replace("09:15:05", "10:15:05");
        let start = "time=2026-11-24T10:15:00.000+01:00 level=INFO msg=\"Listening\"";
        let row = draft_by(&*adapter(Format::OllamaGin, &[start, &local]), &local).row;
        assert_eq!(row.arrival_time.unwrap().micros_since(ARRIVAL), -623_412);
        assert!(!row.zone_assumed);
        let other = draft_by(&*adapter(Format::OllamaGin, &["time=x", &local]), &local).row;
        assert!(other.zone_assumed);
    }

    #[test]
    fn spans_colours_and_failures() {
        let long =
            LINE.replace("3.500412301s", "1m12s").replace("/api/chat", "/v1/chat/completions");
        assert_eq!(row(Format::OllamaGin, &long).duration_us, Some(72_000_000));
        let coloured = LINE.replace(" 200 ", "\u{1b}[97;42m 404 \u{1b}[0m");
        assert_eq!(row(Format::OllamaGin, &coloured).http_status_code, Some(404));
        let journal = format!("Nov 24 09:15:05 host ollama[7]: {LINE}");
        assert_eq!(row(Format::OllamaGin, &journal).status, Status::Ok);
        let odd = LINE.replace("3.500412301s", "?");
        assert_eq!(row(Format::OllamaGin, &odd).arrival_source, ArrivalSource::EndOnly);
    }

    #[test]
    fn other_lines_are_left_out_and_cut_ones_refused() {
        let probe = LINE.replace("POST     \"/api/chat", "HEAD     \"/");
        assert_eq!(why_not(Format::OllamaGin, &probe), "probe");
        let tags = LINE.replace("POST     \"/api/chat", "GET      \"/api/tags");
        assert_eq!(why_not(Format::OllamaGin, &tags), "probe");
        let pull = LINE.replace("/api/chat", "/api/pull");
        assert_eq!(why_not(Format::OllamaGin, &pull), "not_llm");
        for other in ["time=2026-11-24T10:15:00Z level=INFO", "[GIN] ", "[GIN] 1 | 2", ""] {
            assert_eq!(why_not(Format::OllamaGin, other), "not_llm", "{other}");
        }
        let cut = LINE.strip_suffix("chat\"").unwrap();
        assert_eq!(why_not(Format::OllamaGin, cut), " ends in the middle of the line");
        survives(Format::OllamaGin, LINE);
    }

    #[test]
    fn a_response_is_read() {
        let row = row(Format::OllamaResponses, RESPONSE);
        assert_eq!(row.arrival_time, Some(ARRIVAL.plus_micros(-1)));
        assert_eq!(row.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!(row.duration_us, Some(3_500_457));
        assert_eq!(row.time_to_first_chunk_us, Some(418_000));
        assert_eq!(row.ttft_source, Some(TtftSource::Derived));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
        assert_eq!(row.input_token_source, TokenSource::Engine);
        assert_eq!((row.prefill_time_us, row.decode_time_us), (Some(406_000), Some(3_080_000)));
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!(row.request_model.as_deref(), Some("llama3.2"));
    }

    #[test]
    fn a_cached_prompt_has_no_count() {
        let line = RESPONSE.replace("\"prompt_eval_count\":1320,", "");
        let record = row(Format::OllamaResponses, &line);
        assert_eq!((record.input_tokens, record.output_tokens), (None, Some(160)));
        assert_eq!(record.input_token_source, TokenSource::Missing);
    }

    #[test]
    fn chunks_and_loads_are_no_requests() {
        let chunk =
            r#"{"model":"m","created_at":"2026-11-24T09:15:40Z","response":"It","done":false}"#;
        assert_eq!(why_not(Format::OllamaResponses, chunk), "partial_chunk");
        let load = r#"{"model":"m","created_at":"2026-11-24T09:15:41Z","response":"","done":true,"done_reason":"load"}"#;
        assert_eq!(why_not(Format::OllamaResponses, load), "warm_up");
        let last = load.replace(",\"done_reason\":\"load\"", ",\"eval_count\":3");
        let record = row(Format::OllamaResponses, &last);
        assert_eq!((record.output_tokens, record.operation), (Some(3), Operation::TextCompletion));
        survives(Format::OllamaResponses, RESPONSE);
    }
}
