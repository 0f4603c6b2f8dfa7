//! Log exports of Portkey, one row an attempt, with the fields the user chose.
//!
//! The documentation does not say whether `created_at` is the start or the end: it stands for the
//! arrival and is marked so. `response_time` is in milliseconds, `cost` in cents. Rows of mode
//! FALLBACK with one trace id are attempts of one call; the trace id stands for a session where
//! several calls share it. 0 tokens stand for "unknown". Bodies may lie in `body` or not. Source:
//! Portkey's documentation of log exports.

use super::bodies::{self, Answer, Envelope};
use super::{
    At, Draft, Format, Hints, Join, Made, Naive, ObjectAdapter, Out, Refusal, Role, Shared, fill,
    parts,
};
use crate::domain::record::{ArrivalSource, CacheStatus, Flag, RequestRecord, Status, TokenSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

wire! {
    /// One attempt.
    Wire {
        id = "id",
        trace_id = "trace_id",
        created_at = "created_at",
        request = "request",
        response = "response",
        is_success = "is_success",
        provider = "ai_org",
        model = "ai_model",
        prompt = "req_units",
        completion = "res_units",
        total = "total_units",
        url = "request_url",
        method = "request_method",
        cost = "cost",
        currency = "cost_currency",
        duration = "response_time",
        code = "response_status_code",
        cache_status = "cache_status",
        stream = "stream_mode",
        mode = "mode",
        metadata = "metadata",
    }
}

wire! {
    /// What the client says of itself.
    Metadata { user = "_user" | "user_id", session = "session_id" | "thread_id" | "conversation_id" }
}

struct Portkey {
    wire: Picker,
    metadata: Picker,
    envelope: Picker,
    answer: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter = Portkey {
        wire: Wire::picker(),
        metadata: Metadata::picker(),
        envelope: Envelope::picker(),
        answer: Answer::picker(),
    };
    Ok((Box::new(adapter), Vec::new()))
}

impl ObjectAdapter for Portkey {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        let format = shared.name(Format::PortkeyExport.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        let method = wire.method.text().unwrap_or("POST");
        let address = wire.url.text().unwrap_or_default();
        if let Some(reason) = bodies::fill_address(&mut row, method, address, shared) {
            out.drop(reason);
            return Ok(());
        }
        let Some(arrival) = shared.time(&wire.created_at, "created_at", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        fill::arrival(&mut row, arrival);
        row.arrival_source = ArrivalSource::UnknownStartOrEnd;
        if let Some(duration) = fill::span_us(&wire.duration, "response_time", fill::MILLIS)? {
            fill::duration(&mut row, duration);
        }
        fill_status(&wire, &mut row)?;
        fill_cost(&wire, &mut row, shared);
        self.fill_names(&wire, &mut row, shared);
        let is_fallback = wire.mode.text() == Some("FALLBACK");
        let key = row.trace_id_hash.filter(|_| is_fallback);
        let join = key.map(|key| Join { key, role: Role::Attempt });
        let mut draft = Draft { row: Box::new(row), join, chain: None };
        self.fill_bodies(&wire, &mut draft, shared)?;
        out.keep(draft);
        Ok(())
    }
}

fn fill_status(wire: &Wire<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
    row.status = match wire.is_success.truth() {
        Some(true) => Status::Ok,
        Some(false) => Status::Error,
        None => Status::Unknown,
    };
    fill::http_status(row, wire.code.count("response_status_code")?);
    row.cache_status = match wire.cache_status.text().map(str::to_ascii_uppercase).as_deref() {
        Some("HIT") => Some(CacheStatus::Hit),
        Some("SEMANTIC HIT" | "SEMANTIC_HIT") => Some(CacheStatus::SemanticHit),
        Some("DISABLED") => Some(CacheStatus::Off),
        Some(_) => Some(CacheStatus::Miss),
        None => None,
    };
    if matches!(row.cache_status, Some(CacheStatus::Hit | CacheStatus::SemanticHit)) {
        row.flags.push(Flag::CacheHit);
    }
    Ok(())
}

/// Fills the cost, which the export has in cents.
fn fill_cost(wire: &Wire<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    row.cost = wire.cost.float().filter(|cents| *cents >= 0.0).map(|cents| cents / 100.0);
    let is_code = |code: &&str| code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase());
    let code = wire.currency.text().filter(is_code);
    row.cost_currency = row.cost.and(code).map(|code| shared.name(code));
}

impl Portkey {
    fn fill_names(&self, wire: &Wire<'_>, row: &mut RequestRecord, shared: &mut Shared) {
        row.request_model = shared.model(&wire.model);
        row.provider_name = shared.word(&wire.provider);
        row.stream = wire.stream.truth();
        row.request_id_hash = shared.hash(Column::Request, &wire.id);
        row.trace_id_hash = shared.hash(Column::Trace, &wire.trace_id);
        let text = wire.metadata.json().unwrap_or_default();
        let metadata = Metadata::read(&self.metadata, &text).unwrap_or_default();
        row.user_hash = shared.hash(Column::User, &metadata.user);
        let session = shared.hash(Column::Session, &metadata.session);
        let session = session.or_else(|| shared.hash(Column::Session, &wire.trace_id));
        parts::session(row, session);
    }

    fn fill_bodies(
        &self,
        wire: &Wire<'_>,
        draft: &mut Draft,
        shared: &mut Shared,
    ) -> Result<(), FieldError> {
        let row = &mut draft.row;
        let counts = (
            wire.prompt.count("req_units")?,
            wire.completion.count("res_units")?,
            wire.total.count("total_units")?,
        );
        fill::tokens(row, counts, TokenSource::Logged, fill::Zeros::Unknown);
        let body = |value: &Loose<'_>| {
            bodies::unwrapped(value, &self.envelope).map(std::borrow::Cow::into_owned)
        };
        let response = body(&wire.response);
        if let Some(answer) = response.as_deref().map(|body| Answer::read(&self.answer, body)) {
            let answer = answer.unwrap_or_default();
            bodies::fill_counts(row, &answer.counts());
            row.response_model = shared.model(&answer.model);
            if row.status.is_failure() {
                bodies::fill_error(row, &[answer.error_type, answer.error_code], shared);
            }
        }
        if let Some(request) = body(&wire.request) {
            content::fill_request(&request, draft, shared);
        }
        if let Some(response) = response {
            content::fill_response(&response, draft, shared);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;

    const FORMAT: Format = Format::PortkeyExport;
    const CALL: &str = r#"{"id":"p-1","trace_id":"t-1","created_at":"2026-11-24T09:15:02.123Z","request":{"body":{"model":"m","messages":[]}},"response":{"body":{"model":"gpt-4o-mini-2024-07-18","usage":{"prompt_tokens":1320,"completion_tokens":160,"prompt_tokens_details":{"cached_tokens":1024}}}},"is_success":1,"ai_org":"openai","ai_model":"gpt-4o-mini","req_units":1320,"res_units":160,"total_units":1480,"request_url":"https://host.test/v1/chat/completions","request_method":"POST","cost":4.12,"cost_currency":"USD","response_time":3500,"response_status_code":200,"cache_status":"MISS","stream_mode":1,"mode":"SINGLE","virtual_key":"canary","metadata":{"_user":"u"}}"#;

    #[test]
    fn the_common_call_without_a_first_chunk() {
        let row = trial::row(FORMAT, CALL);
        let (arrival, duration, _, input, cached, output) = trial::CALL;
        assert_eq!(trial::facts(&row), (arrival, duration, None, input, cached, output));
        assert_eq!(row.arrival_source, ArrivalSource::UnknownStartOrEnd);
        assert_eq!((row.status, row.stream), (Status::Ok, Some(true)));
        assert_eq!(row.cost_currency.as_deref(), Some("USD"));
        assert!((row.cost.unwrap() - 0.0412).abs() < 1e-12, "cents");
        assert_eq!(row.endpoint_family.as_deref(), Some("/v1/chat/completions"));
        assert!(row.user_hash.is_some() && row.key_hash.is_none());
    }

    #[test]
    fn bodies_lie_in_the_field_itself_too() {
        let flat =
            CALL.replace("\"response\":{\"body\":", "\"response\":").replace("}}}},", "}}},");
        assert_eq!(trial::row(FORMAT, &flat).cache_read_input_tokens, Some(1024));
        let text = CALL.replace(r#"{"body":{"model":"m","messages":[]}}"#, r#""{\"body\":{}}""#);
        assert_eq!(trial::row(FORMAT, &text).input_tokens, Some(1320));
    }

    #[test]
    fn fallbacks_are_attempts_and_single_calls_are_not() {
        assert_eq!(trial::draft(FORMAT, CALL).join, None);
        let draft = trial::draft(FORMAT, &CALL.replace("SINGLE", "FALLBACK"));
        assert_eq!(draft.join.map(|join| join.role), Some(Role::Attempt));
        assert_eq!(draft.join.map(|join| join.key), draft.row.trace_id_hash);
    }

    #[test]
    fn a_refusal_has_no_tokens() {
        let refused = r#"{"id":"p","created_at":"2026-11-24T09:16:10.000Z","request":{},"response":{"body":{"error":{"type":"rate_limit_error","message":"canary"}}},"is_success":0,"ai_org":"openai","ai_model":"m","req_units":0,"res_units":0,"response_time":640,"response_status_code":429,"stream_mode":1,"mode":"FALLBACK"}"#;
        let draft = trial::draft(FORMAT, refused);
        assert_eq!((draft.row.status, draft.row.input_tokens), (Status::RateLimited, None));
        assert_eq!(draft.row.error_type.as_deref(), Some("rate_limit_error"));
        assert_eq!((draft.join, draft.row.session_id_hash), (None, None));
    }

    #[test]
    fn answers_from_the_cache_are_marked() {
        let row = trial::row(FORMAT, &CALL.replace("MISS", "SEMANTIC HIT"));
        assert_eq!(row.cache_status, Some(CacheStatus::SemanticHit));
        assert_eq!(row.flags, [Flag::CacheHit]);
    }

    #[test]
    fn what_is_no_call_is_left_out() {
        assert_eq!(trial::dropped(FORMAT, &CALL.replace("chat/completions", "models")), "probe");
        let image = CALL.replace("chat/completions", "images/edits");
        assert_eq!(trial::dropped(FORMAT, &image), "not_llm");
        assert_eq!(trial::dropped(FORMAT, &CALL.replace("created_at", "x")), "no_time");
    }
}
