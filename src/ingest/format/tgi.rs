//! The router's JSON log of text-generation-inference: one line a finished request.
//!
//! The time of a line is the end; `total_time` leads back to the arrival. Spans are texts as Rust
//! prints them, with mixed units. There are no token counts: the output is `inference_time` over
//! `time_per_token` (`derived`), the input is unknown. Limits stand in the printed parameters.
//! Errors have a part of the span only. Source: `huggingface/text-generation-inference`,
//! `router/src/server.rs`.

use super::text::{argument, arguments, count_argument, span, span_us};
use super::{At, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::convert;
use crate::domain::record::{Operation, RequestRecord, Status, TokenSource};
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::sample::Sample;

/// Names of spans: what is asked for, the endpoint, and whether the answer is streamed.
const SPANS: &[(&str, Operation, &str, Option<bool>)] = &[
    ("generate", Operation::TextCompletion, "", Some(false)),
    ("generate_stream", Operation::TextCompletion, "", Some(true)),
    ("compat_generate", Operation::TextCompletion, "", None),
    ("completions", Operation::TextCompletion, "/v1/completions", None),
    ("chat_completions", Operation::Chat, "/v1/chat/completions", None),
];

/// Beginnings of messages: how the request ended, and the class of the error.
const FAILURES: &[(&str, Status, &str)] = &[
    ("Model is overloaded", Status::RateLimited, "overloaded"),
    ("Input validation error", Status::Error, "validation_error"),
    ("Request failed during generation", Status::Error, "generation_error"),
    ("Incomplete generation", Status::Error, "incomplete_generation_error"),
];

wire! {
    /// A line.
    Wire {
        time = "timestamp",
        level = "level",
        message = "message" | "fields.message",
        name = "span.name",
        parameters = "span.parameters",
        total = "span.total_time",
        queue = "span.queue_time",
        inference = "span.inference_time",
        per_token = "span.time_per_token",
    }
}

struct Tgi {
    picker: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(Tgi { picker: Wire::picker() }), Vec::new()))
}

impl ObjectAdapter for Tgi {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.picker, line)?;
        let message = wire.message.text().unwrap_or_default();
        let is_end = message == "Success" || wire.level.text() == Some("ERROR");
        let name = wire.name.text().unwrap_or_default();
        let known = SPANS.iter().find(|(known, ..)| *known == name);
        let Some((_, operation, endpoint, stream)) = known.filter(|_| is_end) else {
            out.drop("not_llm");
            return Ok(());
        };
        let Some(end) = shared.time(&wire.time, "timestamp", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::TgiRouter.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival_from_end(&mut row, end, micros(&wire.total, "total_time")?);
        row.operation = *operation;
        row.endpoint_family = shared.endpoint(&Loose::cell(Some(endpoint)));
        row.stream = *stream;
        fill_status(message, &mut row, shared);
        row.queue_time_us = micros(&wire.queue, "queue_time")?;
        let tokens = generated(&wire);
        fill::tokens(&mut row, (None, tokens, None), TokenSource::Derived, fill::Zeros::Unknown);
        fill_parameters(&wire.parameters, &mut row);
        out.keep(row);
        Ok(())
    }
}

/// Reads a span with its unit; `None` when missing.
fn micros(value: &Loose<'_>, field: &'static str) -> Result<Option<i64>, FieldError> {
    let Some(text) = value.text() else { return Ok(None) };
    match span_us(text) {
        Some(micros) => Ok(Some(micros)),
        None => Err(FieldError::new(field, "is no span such as `3.5s` or `49.3\u{b5}s`")),
    }
}

/// Returns the tokens of the answer: the router divided the time by them.
fn generated(wire: &Wire<'_>) -> Option<u32> {
    let (whole, one) = (span(wire.inference.text()?)?, span(wire.per_token.text()?)?);
    let tokens = convert::whole((whole / one).round())?;
    u32::try_from(tokens).ok().filter(|tokens| *tokens > 0 && one > 0.0)
}

fn fill_status(message: &str, row: &mut RequestRecord, shared: &mut Shared) {
    if message == "Success" {
        row.status = Status::Ok;
        return;
    }
    let known = FAILURES.iter().find(|(begin, ..)| message.starts_with(begin));
    row.status = known.map_or(Status::Error, |(_, status, _)| *status);
    row.error_type = known.map(|(_, _, class)| shared.name(class));
}

fn fill_parameters(parameters: &Loose<'_>, row: &mut RequestRecord) {
    let Some((_, inner)) = parameters.text().and_then(|text| text.split_once('{')) else { return };
    let found = arguments(inner);
    row.max_tokens = count_argument(&found, "max_new_tokens", ':');
    row.temperature = argument(&found, "temperature", ':').filter(|value: &f64| value.is_finite());
    row.top_p = argument(&found, "top_p", ':').filter(|value: &f64| value.is_finite());
    row.choice_count = count_argument(&found, "best_of", ':');
}

#[cfg(test)]
mod tests {
    use super::super::trial::{ARRIVAL, row, survives, why_not};
    use super::*;
    use crate::domain::record::ArrivalSource;

    const CALL: &str = r#"{"timestamp":"2026-11-24T09:15:05.623000Z","level":"INFO",
        "message":"Success","target":"text_generation_router::server","span":{
        "inference_time":"3.08s","queue_time":"49.382µs","seed":"None","time_per_token":"19.25ms",
        "total_time":"3.5s","validation_time":"1.960ms","name":"generate_stream",
        "parameters":"GenerateParameters { best_of: None, temperature: Some(0.2), top_p: None, max_new_tokens: Some(512), stop: [\"}, max_new_tokens: Some(9)\"], seed: None }"},
        "spans":[]}"#;

    #[test]
    fn a_call_is_read() {
        let row = row(Format::TgiRouter, CALL);
        assert_eq!(row.arrival_time, Some(ARRIVAL));
        assert_eq!(row.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!((row.duration_us, row.queue_time_us), (Some(3_500_000), Some(49)));
        assert_eq!((row.input_tokens, row.output_tokens), (None, Some(160)));
        assert_eq!(row.output_token_source, TokenSource::Derived);
        assert_eq!(row.input_token_source, TokenSource::Missing);
        assert_eq!((row.max_tokens, row.temperature, row.top_p), (Some(512), Some(0.2), None));
        assert_eq!((row.status, row.stream), (Status::Ok, Some(true)));
        assert_eq!((row.operation, row.endpoint_family), (Operation::TextCompletion, None));
    }

    #[test]
    fn counts_beyond_the_columns_are_unknown() {
        let line = CALL.replace("best_of: None", "best_of: Some(4294967295)");
        assert_eq!(row(Format::TgiRouter, &line).choice_count, None);
        let line = CALL.replace("best_of: None", "best_of: Some(2147483647)");
        assert_eq!(row(Format::TgiRouter, &line).choice_count, Some(2_147_483_647));
    }

    #[test]
    fn units_are_mixed() {
        let line = CALL
            .replace("3.08s", "357.867572ms")
            .replace("19.25ms", "14.8ms")
            .replace("\"3.5s\"", "\"361.1ms\"")
            .replace("generate_stream", "chat_completions");
        let row = row(Format::TgiRouter, &line);
        assert_eq!((row.duration_us, row.output_tokens), (Some(361_100), Some(24)));
        assert_eq!(row.endpoint_family.as_deref(), Some("/v1/chat/completions"));
    }

    #[test]
    fn odd_spans_give_no_tokens() {
        for per_token in ["0ns", "x", "999999h", ""] {
            let line = CALL.replace("19.25ms", per_token);
            assert_eq!(row(Format::TgiRouter, &line).output_tokens, None, "{per_token}");
        }
        let huge = CALL.replace("19.25ms", "0.000001ns").replace("3.08s", "8000h");
        assert_eq!(row(Format::TgiRouter, &huge).output_tokens, None);
        let reason = why_not(Format::TgiRouter, &CALL.replace("\"3.5s\"", "\"soon\""));
        assert_eq!(reason, "total_time is no span such as `3.5s` or `49.3\u{b5}s`");
    }

    #[test]
    fn failures_have_only_their_end() {
        let line = r#"{"timestamp":"2026-11-24T09:16:40.500000Z","level":"ERROR","message":"Model is overloaded",
            "target":"text_generation_router::server","span":{"name":"generate","parameters":"GenerateParameters { max_new_tokens: Some(7) }"}}"#;
        let record = row(Format::TgiRouter, line);
        assert_eq!((record.arrival_source, record.duration_us), (ArrivalSource::EndOnly, None));
        assert_eq!((record.status, record.max_tokens), (Status::RateLimited, Some(7)));
        assert_eq!(record.error_type.as_deref(), Some("overloaded"));
        let other = line.replace("Model is overloaded", "a secret message");
        let record = row(Format::TgiRouter, &other);
        assert_eq!((record.status, record.error_type), (Status::Error, None));
    }

    #[test]
    fn other_lines_are_left_out() {
        let start = r#"{"timestamp":"2026-11-24T09:00:00Z","level":"INFO","message":"Connected","target":"text_generation_router::server"}"#;
        assert_eq!(why_not(Format::TgiRouter, start), "not_llm");
        let inside = CALL.replace("Success", "Prefilled");
        assert_eq!(why_not(Format::TgiRouter, &inside), "not_llm");
        assert_eq!(why_not(Format::TgiRouter, &CALL.replace("timestamp", "t")), "no_time");
        survives(Format::TgiRouter, CALL);
    }
}
