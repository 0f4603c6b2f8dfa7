//! The measured requests of a run of this program (`requests.parquet`), as rows of JSON.
//!
//! Instants are nanoseconds from the start of the run. A sent request arrives when its first byte
//! was handed to the socket; requests that were not sent are left out (`unsent`). What the run
//! counted itself is `tokenized`. The run's session numbers are its sessions. The file does not
//! name the model. Source: `docs/formats.md`, table `requests`.

use super::parts::{count, session};
use super::{At, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared, fill};
use crate::domain::outcome::Failure;
use crate::domain::record::{ArrivalSource, RequestRecord, Status, TokenSource, TtftSource};
use crate::domain::scenario::Scenario;
use crate::domain::time::WallTime;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

wire! { Request {
    id = "request_id",
    scenario = "scenario",
    session = "session_id",
    limit = "planned_max_tokens",
    was_sent = "was_sent",
    sent = "sent_ns",
    first_event = "first_event_ns",
    ttft = "ttft_ns",
    duration = "e2e_ns",
    code = "http_status_code",
    failure = "failure",
    input = "input_tokens",
    cached = "cached_input_tokens",
    output = "output_tokens",
    reasoning = "reasoning_tokens",
    counted_by = "usage_source",
    reason = "finish_reason",
} }

struct TracewrightRun {
    request: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(TracewrightRun { request: Request::picker() }), Vec::new()))
}

impl ObjectAdapter for TracewrightRun {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let request = Request::read(&self.request, line)?;
        if request.was_sent.truth() != Some(true) {
            out.drop("unsent");
            return Ok(());
        }
        let Some(sent) = nanos(&request.sent, "sent_ns")? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::TracewrightRun.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        row.arrival_time = Some(WallTime(sent));
        row.arrival_source = ArrivalSource::RelativeOrigin;
        if let Some(duration) = nanos(&request.duration, "e2e_ns")? {
            fill::duration(&mut row, duration);
        }
        fill::ttft(&mut row, nanos(&request.ttft, "ttft_ns")?, TtftSource::Logged);
        fill_tokens(&request, &mut row)?;
        fill_status(&request, &mut row, shared);
        row.request_id_hash = shared.hash(Column::Request, &request.id);
        let own = shared.hash(Column::Session, &request.session);
        session(&mut row, own);
        row.scenario = request.scenario.text().and_then(Scenario::parse).unwrap_or(row.scenario);
        row.max_tokens = count(&request.limit).filter(|limit| *limit > 0);
        row.stream = (!request.first_event.is_nothing()).then_some(true);
        row.finish_reasons = shared.finish_reason(&request.reason).into_iter().collect();
        out.keep(row);
        Ok(())
    }

    fn origin(&self) -> Origin {
        Origin::Offsets
    }
}

/// Returns microseconds of a span from the start of the run; one below 0 is none.
fn nanos(value: &Loose<'_>, field: &'static str) -> Result<Option<i64>, FieldError> {
    Ok(fill::span_us(value, field, fill::NANOS)?.filter(|span| *span >= 0))
}

fn fill_tokens(request: &Request<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
    let source = match request.counted_by.text() {
        Some("server") => TokenSource::Provider,
        Some("local") => TokenSource::Tokenized,
        _ => TokenSource::Logged,
    };
    let counts =
        (request.input.count("input_tokens")?, request.output.count("output_tokens")?, None);
    fill::tokens(row, counts, source, fill::Zeros::Unknown);
    row.cache_read_input_tokens = request.cached.count("cached_input_tokens")?;
    row.reasoning_output_tokens = request.reasoning.count("reasoning_tokens")?;
    row.drop_impossible_parts();
    Ok(())
}

/// Sets the status: a failure counts whatever its HTTP code, since streams break behind a 200.
fn fill_status(request: &Request<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    fill::http_status(row, count(&request.code));
    let Some(word) = request.failure.text() else {
        row.status = Status::Ok;
        return;
    };
    let failure = Failure::parse(word);
    row.error_type = failure.map(|failure| shared.name(failure.as_str()));
    row.status = match failure {
        Some(Failure::Cancelled) => Status::Cancelled,
        Some(Failure::RateLimited) => Status::RateLimited,
        Some(Failure::UnknownAfterKill) => Status::Unknown,
        Some(failure) if failure.group() == "TIMEOUT" => Status::Timeout,
        _ => Status::Error,
    };
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;

    const FORMAT: Format = Format::TracewrightRun;

    fn request(rest: &str) -> String {
        format!(
            "{{\"request_id\":7,\"was_sent\":true,\"scheduled_ns\":1,\"sent_ns\":1500000999{rest}}}"
        )
    }

    #[test]
    fn sent_requests_arrive_when_sent() {
        let line = request(
            r#","scenario":"rag","session_id":3,"planned_max_tokens":512,"first_event_ns":1,"ttft_ns":418000000,
            "e2e_ns":3500000000,"http_status_code":200,"input_tokens":1320,"cached_input_tokens":1024,
            "output_tokens":160,"usage_source":"local","finish_reason":"stop""#,
        );
        let row = trial::draft(FORMAT, &line).row;
        assert_eq!(row.arrival_time, Some(WallTime(1_500_001)));
        assert_eq!(row.arrival_source, ArrivalSource::RelativeOrigin);
        assert_eq!((row.duration_us, row.time_to_first_chunk_us), (Some(3_500_000), Some(418_000)));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1_320), Some(160)));
        assert_eq!(row.cache_read_input_tokens, Some(1_024));
        assert_eq!(row.input_token_source, TokenSource::Tokenized);
        assert_eq!((row.status, row.scenario), (Status::Ok, Scenario::Rag));
        assert_eq!((row.max_tokens, row.stream), (Some(512), Some(true)));
        assert!(row.session_id_hash.is_some());
    }

    #[test]
    fn failures_count_whatever_the_code() {
        for (failure, status) in [
            ("stream_error", Status::Error),
            ("idle_timeout", Status::Timeout),
            ("rate_limited", Status::RateLimited),
            ("cancelled", Status::Cancelled),
            ("unknown_after_kill", Status::Unknown),
        ] {
            let line = request(&format!(",\"http_status_code\":200,\"failure\":\"{failure}\""));
            let row = trial::draft(FORMAT, &line).row;
            assert_eq!((row.status, row.error_type.as_deref()), (status, Some(failure)));
        }
        assert_eq!(trial::draft(FORMAT, &request(",\"failure\":\"canary\"")).row.error_type, None);
    }

    #[test]
    fn unsent_requests_are_left_out() {
        let lines = ["{\"was_sent\":false,\"sent_ns\":1}", "{\"was_sent\":true}", "{}"];
        let tried = trial::lines(FORMAT, &lines);
        assert_eq!(tried.drops, ["unsent", "no_time", "unsent"]);
        let wrong = request(",\"input_tokens\":1.5");
        assert_eq!(trial::lines(FORMAT, &[&wrong]).rejects[0].field, "input_tokens");
    }
}
