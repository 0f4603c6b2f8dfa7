//! Rules that many formats share: times, spans, counts, statuses, paths.
//!
//! One function per rule, so that every adapter reads a status, a zero or a probe in the same way.

use crate::domain::convert;
use crate::domain::record::{
    ArrivalSource, Flag, Operation, RequestRecord, Status, TokenSource, TtftSource,
};
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::stamp::Stamp;

/// What a logged 0 means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// The count is not known.
    Unknown,
    /// Zero tokens.
    Real,
}

/// Sets the arrival as the log states it.
pub fn arrival(row: &mut RequestRecord, at: Stamp) {
    row.arrival_time = Some(at.at);
    row.arrival_source = ArrivalSource::Logged;
    row.arrival_resolution_us = at.quantum_us;
    row.zone_assumed = at.zone_assumed;
}

/// Sets the end, and the arrival by the duration where it is known (`end_minus_duration`), else by
/// the end itself (`end_only`).
pub fn arrival_from_end(row: &mut RequestRecord, end: Stamp, duration_us: Option<i64>) {
    arrival(row, end);
    row.end_time = Some(end.at);
    row.arrival_source = ArrivalSource::EndOnly;
    match duration_us {
        Some(negative) if negative < 0 => row.flags.push(Flag::NegativeDuration),
        Some(duration) => {
            row.arrival_time = Some(end.at.plus_micros(-duration));
            row.arrival_source = ArrivalSource::EndMinusDuration;
            row.duration_us = Some(duration);
        }
        None => {}
    }
}

/// Sets the duration and the end of a row whose arrival is set.
pub fn duration(row: &mut RequestRecord, duration_us: i64) {
    if duration_us < 0 {
        row.flags.push(Flag::NegativeDuration);
        return;
    }
    row.duration_us = Some(duration_us);
    row.end_time = row.arrival_time.map(|arrival| arrival.plus_micros(duration_us));
    if duration_us == 0 {
        row.flags.push(Flag::StartEqualsEnd);
    }
}

/// Sets the end of a row whose arrival is set, and the duration by it.
pub fn end(row: &mut RequestRecord, at: Stamp) {
    if let Some(arrival) = row.arrival_time {
        duration(row, at.at.micros_since(arrival));
    }
}

/// Sets the time to the first chunk; one after the end becomes null, with a flag, and one below 0
/// is none.
pub fn ttft(row: &mut RequestRecord, ttft_us: Option<i64>, source: TtftSource) {
    let Some(ttft_us) = ttft_us.filter(|ttft| *ttft >= 0) else { return };
    if row.duration_us.is_some_and(|duration| ttft_us > duration) {
        row.flags.push(Flag::TtftExceedsDuration);
        return;
    }
    row.time_to_first_chunk_us = Some(ttft_us);
    row.ttft_source = Some(source);
}

/// Returns microseconds of a span in some unit (`per_unit` microseconds each); `None` when missing.
///
/// # Errors
///
/// If it is not a number, or too large for a span.
pub fn span_us(
    value: &Loose<'_>,
    field: &'static str,
    per_unit: f64,
) -> Result<Option<i64>, FieldError> {
    let Some(number) = value.number(field)? else { return Ok(None) };
    let micros = (number.as_f64() * per_unit).round();
    match convert::whole(micros).filter(|micros| micros.abs() <= 31_557_600_000_000) {
        Some(micros) => Ok(Some(micros)),
        None => Err(FieldError::new(field, "is no span of less than a year")),
    }
}

/// Seconds for [`span_us`].
pub const SECONDS: f64 = 1e6;
/// Milliseconds for [`span_us`].
pub const MILLIS: f64 = 1e3;
/// Nanoseconds for [`span_us`].
pub const NANOS: f64 = 1e-3;

/// Sets the input and output tokens. A total that is not their sum is flagged.
pub fn tokens(
    row: &mut RequestRecord,
    counts: (Option<u32>, Option<u32>, Option<u32>),
    source: TokenSource,
    zeros: Zeros,
) {
    let (input, output, _) = counts;
    if let (Some(input), Some(output), Some(total)) = counts
        && u64::from(input) + u64::from(output) != u64::from(total)
    {
        row.flags.push(Flag::TokenSumMismatch);
    }
    let unknown = zeros == Zeros::Unknown;
    if unknown && (input == Some(0) || output == Some(0)) {
        row.flags.push(Flag::ZeroMeansUnknown);
    }
    row.input_tokens = input.filter(|count| *count > 0 || !unknown);
    row.output_tokens = output.filter(|count| *count > 0 || !unknown);
    let of = |count: Option<u32>| if count.is_some() { source } else { TokenSource::Missing };
    row.input_token_source = of(row.input_tokens);
    row.output_token_source = of(row.output_tokens);
}

/// Sets the status by the HTTP code; codes outside 100 to 599 set nothing.
pub fn http_status(row: &mut RequestRecord, code: Option<u32>) {
    let Some(code) = code.and_then(|code| u16::try_from(code).ok()) else { return };
    if !(100..=599).contains(&code) {
        return;
    }
    row.http_status_code = Some(code);
    row.status = match code {
        200..=399 => Status::Ok,
        499 => Status::Cancelled,
        429 => Status::RateLimited,
        408 | 504 => Status::Timeout,
        400.. => Status::Error,
        _ => Status::Unknown,
    };
}

/// Returns whether a request of this method and path, by this user agent, is a probe or asks for
/// no generation: health, metrics, lists of models.
pub fn is_probe(method: &str, path: &str, user_agent: &str) -> bool {
    if method.eq_ignore_ascii_case("HEAD") || user_agent.starts_with("kube-probe") {
        return true;
    }
    // A tenant may be called like a probe: what asks for an answer is none.
    if operation_of(path).is_some() && !method.eq_ignore_ascii_case("GET") {
        return false;
    }
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let has = |known: &[&str]| path.split('/').any(|segment| known.contains(&segment));
    let ends = |end: &&str| path.ends_with(*end);
    has(&HEALTH) || LISTS.iter().any(ends)
}

/// Segments of paths of probes.
const HEALTH: [&str; 8] =
    ["health", "healthz", "livez", "readyz", "ready", "metrics", "ping", "health_generate"];
/// Ends of paths that ask for a list or a state.
const LISTS: [&str; 4] = ["/models", "/status", "/api/tags", "/api/version"];

/// Returns what a path asks for; `None` for a path of no known API.
pub fn operation_of(path: &str) -> Option<Operation> {
    let path = path.split(['?', '#']).next()?.trim_end_matches('/');
    let known = [
        ("/chat/completions", Operation::Chat),
        ("/completions", Operation::TextCompletion),
        ("/embeddings", Operation::Embeddings),
        ("/rerank", Operation::Rerank),
        ("/responses", Operation::Chat),
        ("/messages", Operation::Chat),
        ("/api/chat", Operation::Chat),
        ("/api/generate", Operation::TextCompletion),
        ("/api/embed", Operation::Embeddings),
        ("/api/embeddings", Operation::Embeddings),
        ("/generate", Operation::TextCompletion),
        ("/generate_stream", Operation::TextCompletion),
        (":generateContent", Operation::GenerateContent),
        (":streamGenerateContent", Operation::GenerateContent),
    ];
    known.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, operation)| operation)
}
