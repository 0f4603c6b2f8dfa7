//! Exports of Helicone: JSONL, a JSON array, or the CSV with fewer columns.
//!
//! `request_created_at` is the arrival; `delay_ms` the duration, else the response's time. A status
//! below 0 is no HTTP code: -1 a timeout, -4 a request blocked as a threat, others a call without
//! an end (`cancelled`). Events of vector databases and tools are spans beside the calls of their
//! session, which stands for the trace here. Anthropic's rows count cached tokens apart. The signed
//! address of the body is never read. Source: `Helicone/helicone`,
//! `examples/export/typescript/index.ts`.

use super::bodies::{self, Answer};
use super::{
    At, Draft, Format, Hints, Join, Made, Naive, ObjectAdapter, Out, Refusal, Role, Shared, fill,
    parts,
};
use crate::domain::record::{CacheStatus, Flag, RequestRecord, Status, TokenSource, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose, Number};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use std::borrow::Cow;

/// What stands for "not answered from the cache".
const NO_REFERENCE: &str = "00000000-0000-0000-0000-000000000000";

wire! {
    /// One request.
    Wire {
        id = "request_id" | "response_id",
        arrival = "request_created_at",
        end = "response_created_at",
        status = "response_status",
        duration = "delay_ms" | "latency",
        first = "time_to_first_token",
        request = "request_body",
        response = "response_body",
        path = "request_path",
        user = "request_user_id" | "helicone_user",
        properties = "request_properties" | "properties",
        request_model = "request_model" | "model",
        response_model = "response_model",
        provider = "provider",
        prompt = "prompt_tokens",
        completion = "completion_tokens",
        total = "total_tokens",
        cached = "prompt_cache_read_tokens",
        written = "prompt_cache_write_tokens",
        reasoning = "reasoning_tokens",
        cost = "costUSD" | "cost",
        cache_enabled = "cache_enabled",
        cache_reference = "cache_reference_id",
    }
}

wire! {
    /// Properties that the client sets.
    Properties { session = "Helicone-Session-Id" | "helicone-session-id" }
}

wire! {
    /// What tells events from calls.
    Event { kind = "_type" }
}

struct Helicone {
    wire: Picker,
    properties: Picker,
    event: Picker,
    answer: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter = Helicone {
        wire: Wire::picker(),
        properties: Properties::picker(),
        event: Event::picker(),
        answer: Answer::picker(),
    };
    Ok((Box::new(adapter), Vec::new()))
}

impl ObjectAdapter for Helicone {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        let Some(arrival) = shared.time(&wire.arrival, "request_created_at", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::HeliconeExport.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, arrival);
        if let Some(duration) = fill::span_us(&wire.duration, "delay_ms", fill::MILLIS)? {
            fill::duration(&mut row, duration);
        } else if let Some(end) = shared.time(&wire.end, "response_created_at", Naive::Utc)? {
            fill::end(&mut row, end);
        }
        self.fill_ids(&wire, &mut row, shared);
        let request = wire.request.json();
        let event = request.as_deref().and_then(|body| Event::read(&self.event, body).ok());
        if let Some(kind) = event.as_ref().and_then(|event| event.kind.text()) {
            keep_event(kind, row, out);
            return Ok(());
        }
        let address = wire.path.text().unwrap_or_default();
        if let Some(reason) = bodies::fill_address(&mut row, "POST", address, shared) {
            out.drop(reason);
            return Ok(());
        }
        let first = fill::span_us(&wire.first, "time_to_first_token", fill::MILLIS)?;
        fill::ttft(&mut row, first, TtftSource::Logged);
        fill_status(&wire, &mut row)?;
        fill_names(&wire, &mut row, shared);
        fill_cache(&wire, &mut row);
        let mut draft = Draft::from(row);
        self.fill_counts(&wire, &mut draft.row)?;
        if let Some(body) = request {
            content::fill_request(&body, &mut draft, shared);
        }
        if let Some(body) = wire.response.json() {
            content::fill_response(&body, &mut draft, shared);
        }
        out.keep(draft);
        Ok(())
    }
}

/// Takes an event that is no call of a model, as a span of its session.
fn keep_event(kind: &str, row: RequestRecord, out: &mut Out) {
    let role = match kind {
        "vector_db" => Some(Role::Retrieval),
        "tool" => Some(Role::Tool),
        _ => None,
    };
    match row.trace_id_hash.zip(role) {
        Some((key, role)) => {
            out.keep(Draft { row: Box::new(row), join: Some(Join { key, role }), chain: None });
        }
        None => out.drop("side_span"),
    }
}

fn fill_status(wire: &Wire<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
    let code = wire.status.number("response_status")?.map(Number::as_f64);
    let Some(code) = code.and_then(crate::domain::convert::whole) else { return Ok(()) };
    match u32::try_from(code) {
        Ok(code) => fill::http_status(row, Some(code)),
        Err(_) => {
            row.status = match code {
                -1 => Status::Timeout,
                -4 => Status::Error,
                _ => Status::Cancelled,
            }
        }
    }
    Ok(())
}

fn fill_names(wire: &Wire<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    row.request_model = shared.model(&wire.request_model);
    row.response_model = shared.model(&wire.response_model);
    let provider = wire.provider.text().map(str::to_ascii_lowercase);
    row.provider_name =
        provider.and_then(|provider| shared.word(&Loose::Text(Cow::Owned(provider))));
    bodies::fill_dollars(row, &wire.cost, shared);
}

fn fill_cache(wire: &Wire<'_>, row: &mut RequestRecord) {
    row.cache_status = match (wire.cache_reference.text(), wire.cache_enabled.truth()) {
        (Some(id), _) if id != NO_REFERENCE => Some(CacheStatus::Hit),
        (_, Some(true)) => Some(CacheStatus::Miss),
        (_, Some(false)) => Some(CacheStatus::Off),
        (_, None) => None,
    };
    if row.cache_status == Some(CacheStatus::Hit) {
        row.flags.push(Flag::CacheHit);
    }
}

impl Helicone {
    fn fill_ids(&self, wire: &Wire<'_>, row: &mut RequestRecord, shared: &Shared) {
        row.request_id_hash = shared.hash(Column::Request, &wire.id);
        row.user_hash = shared.hash(Column::User, &wire.user);
        let text = wire.properties.json().unwrap_or_default();
        let properties = Properties::read(&self.properties, &text).unwrap_or_default();
        parts::session(row, shared.hash(Column::Session, &properties.session));
        row.trace_id_hash = shared.hash(Column::Trace, &properties.session);
    }

    fn fill_counts(&self, wire: &Wire<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
        let input = wire.prompt.count("prompt_tokens")?;
        let output = wire.completion.count("completion_tokens")?;
        let total = wire.total.count("total_tokens")?;
        let cached = wire.cached.count("prompt_cache_read_tokens")?;
        let written = wire.written.count("prompt_cache_write_tokens")?;
        let whole = (input, output, total);
        let apart = u64::from(cached.unwrap_or(0)) + u64::from(written.unwrap_or(0));
        let is_apart = match whole {
            // The total tells, where it is more than the two counts.
            (Some(input), Some(output), Some(total)) if apart > 0 => {
                u64::from(input) + u64::from(output) + apart == u64::from(total)
            }
            _ => false,
        };
        let is_anthropic = row.provider_name.as_deref() == Some("anthropic");
        let total = total.filter(|_| !is_apart);
        fill::tokens(row, (input, output, total), TokenSource::Logged, fill::Zeros::Unknown);
        row.cache_read_input_tokens = cached;
        row.cache_write_input_tokens = written;
        row.reasoning_output_tokens = wire.reasoning.count("reasoning_tokens")?;
        if apart > 0 && (is_apart || is_anthropic) {
            parts::add_cached(row);
        } else if let Some(body) = wire.response.json() {
            bodies::fill_counts(row, &bodies::counts_of(&self.answer, &body));
        }
        row.drop_impossible_parts();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;
    use crate::domain::record::{Operation, SessionSource};

    const FORMAT: Format = Format::HeliconeExport;
    const CALL: &str = r#"{"response_id":"q-1","response_created_at":"2026-11-24T09:15:05.623Z","response_status":200,"response_model":"gpt-4o-mini-2024-07-18","request_id":"h-1","request_created_at":"2026-11-24T09:15:02.123Z","request_path":"https://host.test/v1/chat/completions","request_user_id":"u","request_properties":{"Helicone-Session-Id":"s-1"},"request_model":"gpt-4o-mini","provider":"OPENAI","delay_ms":3500,"time_to_first_token":418,"total_tokens":1480,"prompt_tokens":1320,"prompt_cache_write_tokens":0,"prompt_cache_read_tokens":0,"completion_tokens":160,"reasoning_tokens":0,"signed_body_url":"https://canary.test","costUSD":0.5,"cache_enabled":false,"cache_reference_id":"00000000-0000-0000-0000-000000000000","request_body":{"messages":[]},"response_body":{"usage":{"prompt_tokens":1320,"completion_tokens":160,"prompt_tokens_details":{"cached_tokens":1024}}}}"#;

    #[test]
    fn the_common_call() {
        let row = trial::row(FORMAT, CALL);
        assert_eq!(trial::facts(&row), trial::CALL);
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!((row.session_source, row.cost), (SessionSource::Explicit, Some(0.5)));
        assert_eq!(row.provider_name.as_deref(), Some("openai"));
        assert_eq!(row.cache_status, Some(CacheStatus::Off));
    }

    #[test]
    fn cells_of_csv_have_their_quotes_doubled_twice() {
        let csv = r#"{"response_id":"q-1","response_created_at":"2026-11-24T09:15:05.623Z","response_status":"200","request_created_at":"2026-11-24T09:15:02.123Z","request_body":"{\"\"model\"\":\"\"m\"\"}","request_properties":"{\"\"Helicone-Session-Id\"\":\"\"s-1\"\"}","request_user_id":"u","model":"gpt-4o-mini","prompt_tokens":"1320","completion_tokens":"160","latency":"","cost":""}"#;
        let (row, whole) = (trial::row(FORMAT, csv), trial::row(FORMAT, CALL));
        assert_eq!(row.session_id_hash, whole.session_id_hash);
        assert_eq!((row.duration_us, row.arrival_time), (whole.duration_us, whole.arrival_time));
        assert_eq!((row.input_tokens, row.cost), (Some(1320), None));
    }

    #[test]
    fn a_status_below_0_is_no_code() {
        let status = |code: &str| {
            let row =
                trial::row(FORMAT, &CALL.replace("status\":200", &format!("status\":{code}")));
            (row.status, row.http_status_code)
        };
        assert_eq!(status("-1"), (Status::Timeout, None));
        assert_eq!(status("-2"), (Status::Cancelled, None));
        assert_eq!(status("\"-3\""), (Status::Cancelled, None));
        assert_eq!(status("-4"), (Status::Error, None));
        assert_eq!(status("429"), (Status::RateLimited, Some(429)));
    }

    #[test]
    fn events_are_spans_of_the_session() {
        let event = |kind: &str| {
            CALL.replace(
                "{\"messages\":[]}",
                &format!("{{\"_type\":\"{kind}\",\"text\":\"canary\"}}"),
            )
        };
        let call = trial::draft(FORMAT, CALL);
        let search = trial::draft(FORMAT, &event("vector_db"));
        assert_eq!(search.join.map(|join| join.role), Some(Role::Retrieval));
        assert_eq!(search.join.map(|join| join.key), call.row.trace_id_hash);
        assert_eq!(trial::draft(FORMAT, &event("tool")).join.unwrap().role, Role::Tool);
        assert_eq!(trial::dropped(FORMAT, &event("data")), "side_span");
        let alone = event("vector_db").replace("Helicone-Session-Id", "x");
        assert_eq!(trial::dropped(FORMAT, &alone), "side_span");
    }

    #[test]
    fn cached_tokens_apart_are_added() {
        let apart = CALL.replace("prompt_tokens\":1320,\"prompt", "prompt_tokens\":296,\"prompt");
        let apart = apart.replace("read_tokens\":0", "read_tokens\":1024");
        let by_total = trial::row(FORMAT, &apart);
        assert_eq!((by_total.input_tokens, by_total.output_tokens), (Some(1320), Some(160)));
        assert_eq!(by_total.flags, [Flag::AnthropicCachedAdded]);
        let by_provider = apart.replace("OPENAI", "ANTHROPIC").replace("1480", "456");
        assert_eq!(trial::row(FORMAT, &by_provider).input_tokens, Some(1320));
        let included = CALL.replace("read_tokens\":0", "read_tokens\":1024");
        let row = trial::row(FORMAT, &included);
        assert_eq!((row.input_tokens, row.flags), (Some(1320), vec![]));
    }

    #[test]
    fn an_answer_from_the_cache_is_marked() {
        let row = trial::row(FORMAT, &CALL.replace("00000000-0000", "11111111-0000"));
        assert_eq!((row.cache_status, row.flags), (Some(CacheStatus::Hit), vec![Flag::CacheHit]));
        assert_eq!(trial::dropped(FORMAT, &CALL.replace("request_created_at", "x")), "no_time");
    }
}
