//! Cloudflare AI Gateway: events of Logpush, and the list of its REST API.
//!
//! `Timestamp` is a date, seconds or nanoseconds, differing by job: its magnitude decides, row by
//! row. Whether it is the start or the end is not documented (`unknown_start_or_end`). Bodies and
//! metadata are encrypted for the customer; decrypted ones are read. Older events have no
//! `Metrics`; the names of its token counts are not documented, so the likely ones are tried.
//! Source: developers.cloudflare.com, `ai_gateway_events` and "list gateway logs".

use super::parts::{count, family_of};
use super::{At, Draft, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{
    ArrivalSource, CacheStatus, Flag, Operation, RequestRecord, Status, TokenSource,
};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

wire! { Event {
    time = "Timestamp" | "created_at",
    id = "id" | "LogID",
    cached = "Cached" | "cached",
    endpoint = "Endpoint" | "path",
    model = "Model" | "model",
    asked = "RequestedModel",
    provider = "Provider" | "provider",
    limited = "RateLimited",
    status = "StatusCode" | "status_code",
    success = "success",
    metrics = "Metrics",
    duration = "duration",
    cost = "cost",
    input = "tokens_in",
    output = "tokens_out",
    request = "RequestBody" | "request",
    response = "ResponseBody" | "response",
} }

wire! { Metrics {
    duration = "durationMs" | "duration_ms" | "duration",
    cost = "cost",
    input = "tokensIn" | "tokens_in" | "inputTokens" | "input_tokens" | "promptTokens" | "prompt_tokens",
    output = "tokensOut" | "tokens_out" | "outputTokens" | "output_tokens" | "completionTokens" | "completion_tokens",
} }

wire! { Body { kind = "type" } }

struct Cloudflare {
    event: Picker,
    metrics: Picker,
    body: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let (event, metrics, body) = (Event::picker(), Metrics::picker(), Body::picker());
    Ok((Box::new(Cloudflare { event, metrics, body }), Vec::new()))
}

impl ObjectAdapter for Cloudflare {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let event = Event::read(&self.event, line)?;
        let Some(time) = shared.time(&event.time, "Timestamp", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::CloudflareLogpush.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, time);
        row.arrival_source = ArrivalSource::UnknownStartOrEnd;
        let text = event.metrics.json().unwrap_or_default();
        let metrics = Metrics::read(&self.metrics, &text).unwrap_or_default();
        fill_names(&event, &mut row, shared);
        fill_numbers(&event, &metrics, &mut row)?;
        fill_status(&event, &mut row);
        let mut draft = Draft::from(row);
        if let Some(body) = self.open(&event.request) {
            content::fill_request(&body, &mut draft, shared);
        }
        if let Some(body) = self.open(&event.response) {
            content::fill_response(&body, &mut draft, shared);
        }
        out.keep(draft);
        Ok(())
    }
}

impl Cloudflare {
    /// Returns a body that is not encrypted.
    fn open<'a>(&self, body: &Loose<'a>) -> Option<std::borrow::Cow<'a, str>> {
        let text = body.json()?;
        let kind = Body::read(&self.body, &text).unwrap_or_default().kind;
        let encrypted = kind.text() == Some("encrypted");
        (!encrypted).then_some(text)
    }
}

fn fill_names(event: &Event<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    row.request_id_hash = shared.hash(Column::Request, &event.id);
    row.response_model = shared.model(&event.model);
    row.request_model = shared.model(&event.asked).or(row.response_model.clone());
    row.provider_name = shared.word(&event.provider);
    let path = format!("/{}", event.endpoint.text().unwrap_or_default().trim_start_matches('/'));
    row.operation = fill::operation_of(&path).unwrap_or(Operation::Unknown);
    row.endpoint_family = family_of(&path).map(|family| shared.name(family));
}

fn fill_numbers(
    event: &Event<'_>,
    metrics: &Metrics<'_>,
    row: &mut RequestRecord,
) -> Result<(), FieldError> {
    let logged = if metrics.duration.is_nothing() { &event.duration } else { &metrics.duration };
    if let Some(duration) = fill::span_us(logged, "durationMs", fill::MILLIS)? {
        fill::duration(row, duration);
    }
    let input = count(&metrics.input).or(event.input.count("tokens_in")?);
    let output = count(&metrics.output).or(event.output.count("tokens_out")?);
    let counts = (input, output, None);
    fill::tokens(row, counts, TokenSource::Logged, fill::Zeros::Unknown);
    let cost = metrics.cost.float().or(event.cost.float());
    row.cost = cost.filter(|cost| *cost >= 0.0);
    Ok(())
}

fn fill_status(event: &Event<'_>, row: &mut RequestRecord) {
    fill::http_status(row, count(&event.status));
    if row.http_status_code.is_none() {
        row.status = match event.success.truth() {
            Some(true) => Status::Ok,
            Some(false) => Status::Error,
            None => Status::Unknown,
        };
    }
    if event.limited.truth() == Some(true) {
        row.status = Status::RateLimited;
    }
    // `false` tells a cache that missed from none at all no more than a missing value does.
    if event.cached.truth() == Some(true) {
        row.cache_status = Some(CacheStatus::Hit);
        row.flags.push(Flag::CacheHit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;

    const FORMAT: Format = Format::CloudflareLogpush;

    #[test]
    fn the_unit_of_times_is_told_row_by_row() {
        let of = |time: &str| {
            let line = format!(
                "{{\"Gateway\":\"g\",\"Endpoint\":\"chat/completions\",\"Model\":\"m-1\",\
                 \"StatusCode\":200,\"Timestamp\":{time},\"Metrics\":{{\"durationMs\":3500}}}}"
            );
            trial::draft(FORMAT, &line).row
        };
        let nanos = of("1795511702123000000");
        assert_eq!(nanos.arrival_time, Some(trial::ARRIVAL));
        assert_eq!(nanos.arrival_source, ArrivalSource::UnknownStartOrEnd);
        assert_eq!((nanos.duration_us, nanos.arrival_resolution_us), (Some(3_500_000), 1));
        assert_eq!(nanos.operation, Operation::Chat);
        assert_eq!(nanos.endpoint_family.as_deref(), Some("/v1/chat/completions"));
        for seconds in ["1795511702", "\"2026-11-24T09:15:02Z\""] {
            let row = of(seconds);
            assert_eq!(row.arrival_time, Some(trial::ARRIVAL.plus_micros(-123_000)));
            assert_eq!(row.arrival_resolution_us, 1_000_000);
        }
    }

    #[test]
    fn the_list_of_the_api_has_counts() {
        let line = r#"{"id":"log-7","created_at":"2026-11-24T09:15:02.123Z","duration":3500,
            "provider":"openai","model":"gpt-4o-mini","path":"v1/chat/completions","status_code":200,
            "tokens_in":1320,"tokens_out":160,"request_content_type":"application/json","cached":true}"#;
        let row = trial::draft(FORMAT, line).row;
        assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1_320), Some(160)));
        assert_eq!((row.cache_status, row.status), (Some(CacheStatus::Hit), Status::Ok));
        assert!(row.request_id_hash.is_some());
    }

    #[test]
    fn limits_and_zeros() {
        let line = r#"{"Timestamp":1795511702,"RateLimited":true,"Cached":false,
            "Metrics":"{\"tokensIn\":0,\"tokensOut\":0,\"durationMs\":-1}"}"#;
        let row = trial::draft(FORMAT, line).row;
        assert_eq!(row.status, Status::RateLimited);
        assert_eq!((row.input_tokens, row.duration_us, row.cache_status), (None, None, None));
        assert_eq!(row.flags, [Flag::NegativeDuration, Flag::ZeroMeansUnknown]);
        let tried = trial::lines(FORMAT, &["{\"Model\":\"m\"}", "{\"Timestamp\":\"canary\"}", "{"]);
        assert_eq!(tried.drops, ["no_time"]);
        assert_eq!(tried.rejects.len(), 2);
        assert!(!format!("{:?}", tried.rejects).contains("canary"));
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("cloudflare-logpush.jsonl") else { return };
        let [first, old, limited, cached] = &tried.drafts[..] else { panic!("four rows") };
        assert_eq!(first.row.duration_us, Some(3_500_000));
        assert_eq!(old.row.duration_us, None);
        assert_eq!(
            old.row.arrival_time,
            Some(crate::domain::time::WallTime(1_795_511_731_004_000))
        );
        assert_eq!(limited.row.status, Status::RateLimited);
        assert_eq!(cached.row.cache_status, Some(CacheStatus::Hit));
    }
}
