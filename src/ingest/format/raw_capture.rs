//! Captured requests and answers of whatever shape: bodies are found by their keys, not by names.
//!
//! Record -> row. The request is the first object, or text that holds one, with messages, a prompt
//! or contents, down to three levels; the answer is the first with choices, output, candidates,
//! or server-sent events. Times, durations (unit by the name's end; else `--time-unit`), status,
//! user, session and usage are found by their names around the bodies; of headers only an id of a
//! session is read. `timestamp` may be start or end and says so in the trace. Shapes:
//! microsoft/ai-sentry `LoggingSchema.md`, `OpenPipe`'s exports, tensorzero.

mod finder;

use super::{At, Draft, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{ArrivalSource, RequestRecord, SessionSource, Status, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::{Stamp, Unit};
use finder::{DURATIONS, Ending, FIRSTS, Found, Slot, TIMES, UNITS, plain, stem_and_unit};

struct RawCapture {
    units: Vec<(Option<String>, Unit)>,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(RawCapture { units: hints.units.clone() }), Vec::new()))
}

/// Reads a span in the unit of its name, of its text (`640ms`), or as told.
fn span(
    found: Option<&(String, Loose<'static>)>,
    units: &[(Option<String>, Unit)],
    shared: &mut Shared,
) -> Option<i64> {
    let (key, value) = found?;
    let named = [DURATIONS, FIRSTS]
        .into_iter()
        .find_map(|stems| stem_and_unit(key, &plain(key), stems))
        .and_then(Ending::unit);
    let mut unit = units
        .iter()
        .find(|told| told.0.as_deref() == Some(key))
        .or_else(|| units.iter().find(|told| told.0.is_none() && named.is_none()))
        .map(|told| told.1)
        .or(named);
    let mut number = value.number("duration").ok().flatten();
    if number.is_none()
        && let Some(text) = value.text()
    {
        let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        let end = text.trim().strip_prefix(digits)?.trim();
        unit = UNITS.iter().find(|(name, _)| *name == end).map(|(_, unit)| *unit);
        number = Loose::cell(Some(digits)).number("duration").ok().flatten();
    }
    let Some(unit) = unit else {
        if number.is_some() {
            shared.remark("durations without unit left out (`--time-unit` tells it)");
        }
        return None;
    };
    unit.to_micros(number?)
}

impl ObjectAdapter for RawCapture {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let mut found = Found::default();
        if !found.walk(text, 0, false) {
            return Err(FieldError::new("", "is no whole JSON object").into());
        }
        let path = path_of(found.slot(Slot::Path).text().unwrap_or_default()).to_owned();
        let request = found.request.take();
        let request = request.as_deref().or_else(|| found.is_request.then_some(text));
        let response = found.response.take();
        let response = response.as_deref().or_else(|| found.is_response.then_some(text));
        if request.is_none() && response.is_none() {
            let method = found.slot(Slot::Method).text().unwrap_or_default();
            out.drop(if fill::is_probe(method, &path, "") { "probe" } else { "not_llm" });
            return Ok(());
        }
        let format = shared.name(Format::RawCapture.as_str());
        let mut draft = Draft::from(RequestRecord::unknown(format, at.file_id, at.line));
        if !self.fill_times(&mut found, &mut draft.row, shared) {
            out.drop("no_time");
            return Ok(());
        }
        fill_status(found.slot(Slot::Status), &mut draft.row);
        if let Some(operation) = fill::operation_of(&path) {
            draft.row.operation = operation;
        }
        draft.row.endpoint_family = shared.endpoint(&Loose::cell(Some(&path)));
        fill_ids(&found, &mut draft.row, shared);
        if let Some(request) = request {
            content::fill_request(request, &mut draft, shared);
        }
        if let Some(response) = response {
            content::fill_response(response, &mut draft, shared);
        }
        let usage = found.usage.as_deref().or_else(|| found.is_usage.then_some(text));
        if let Some(usage) = usage {
            content::fill_usage(usage, &mut draft.row);
        }
        fill_names(&found, &mut draft.row, shared);
        if draft.row.status == Status::Unknown && !draft.row.finish_reasons.is_empty() {
            draft.row.status = Status::Ok;
        }
        out.keep(draft);
        Ok(())
    }
}

impl RawCapture {
    /// Fills arrival, end, duration and first token; returns whether there is an arrival.
    fn fill_times(&self, found: &mut Found, row: &mut RequestRecord, shared: &mut Shared) -> bool {
        found.times.sort_by_key(|(rank, _)| *rank);
        let mut start: Option<(Stamp, bool)> = None;
        for (rank, value) in &found.times {
            if let Some((name, says_start)) = TIMES.get(*rank)
                && start.is_none()
                && let Ok(Some(stamp)) = shared.time(value, name, Naive::Utc)
            {
                start = Some((stamp, *says_start));
            }
        }
        let end = found.end.as_ref();
        let end = end.and_then(|end| shared.time(end, "end_time", Naive::Utc).ok().flatten());
        let duration = span(found.duration.as_ref(), &self.units, shared);
        match (start, end) {
            (Some((start, says_start)), end) => {
                fill::arrival(row, start);
                if !says_start && end.is_none() {
                    row.arrival_source = ArrivalSource::UnknownStartOrEnd;
                }
                match (duration, end) {
                    (Some(duration), _) => fill::duration(row, duration),
                    (None, Some(end)) => fill::end(row, end),
                    (None, None) => {}
                }
            }
            (None, Some(end)) => fill::arrival_from_end(row, end, duration),
            (None, None) => return false,
        }
        let first = span(found.first.as_ref(), &self.units, shared);
        fill::ttft(row, first, TtftSource::Logged);
        true
    }
}

/// Returns the path of a URL, or a path as it is.
fn path_of(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("://") else { return url };
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
}

fn fill_status(status: &Loose<'_>, row: &mut RequestRecord) {
    if let Ok(Some(code)) = status.count("status") {
        return fill::http_status(row, Some(code));
    }
    row.status = match status.text().unwrap_or_default().to_ascii_lowercase().as_str() {
        "ok" | "success" | "succeeded" | "completed" => Status::Ok,
        "error" | "failed" | "failure" => Status::Error,
        "cancelled" | "canceled" | "aborted" => Status::Cancelled,
        "timeout" | "timed_out" => Status::Timeout,
        "rate_limited" | "rate_limit" | "throttled" => Status::RateLimited,
        _ => Status::Unknown,
    };
}

fn fill_ids(found: &Found, row: &mut RequestRecord, shared: &mut Shared) {
    row.request_id_hash = shared.hash(Column::Request, found.slot(Slot::Request));
    row.response_id_hash = shared.hash(Column::Request, found.slot(Slot::Response));
    row.trace_id_hash = shared.hash(Column::Trace, found.slot(Slot::Trace));
    row.user_hash = shared.hash(Column::User, found.slot(Slot::User));
    let header = Loose::cell(found.session.as_deref());
    row.session_id_hash = shared
        .hash(Column::Session, found.slot(Slot::Session))
        .or_else(|| shared.hash(Column::Session, &header));
    if row.session_id_hash.is_some() {
        row.session_source = SessionSource::Explicit;
    }
    row.stream = found.slot(Slot::Stream).truth();
    row.provider_name = shared.word(found.slot(Slot::Provider));
}

/// Fills the model where no body named one.
fn fill_names(found: &Found, row: &mut RequestRecord, shared: &mut Shared) {
    if row.request_model.is_none() {
        row.request_model = shared.model(found.slot(Slot::Model));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::RagLabel;
    use crate::domain::time::WallTime;
    use crate::ingest::format::{Item, Zone};
    use crate::ingest::privacy::Hasher;

    fn items(records: &[&str]) -> Vec<Item> {
        let adapter = RawCapture { units: Vec::new() };
        let mut shared = Shared::new(Hasher::new(b"a salt of the tests"), Zone::utc());
        let mut out = Out::default();
        for record in records {
            let at = At { file_id: 0, line: 1 };
            if let Err(Refusal::Reject(error)) =
                adapter.decode_object(record, at, &mut shared, &mut out)
            {
                out.reject(error);
            }
        }
        out.items
    }

    fn draft(record: &str) -> Draft {
        match items(&[record]).pop() {
            Some(Item::Keep(draft)) => *draft,
            other => panic!("{other:?}"),
        }
    }

    const USAGE: &str = r#""usage":{"prompt_tokens":1320,"completion_tokens":160,
        "total_tokens":1480,"prompt_tokens_details":{"cached_tokens":1024}}"#;

    #[test]
    fn the_common_call_in_several_wrappings() {
        let request = r#"{"model":"m-1","messages":[{"role":"user","content":"Where?"}]}"#;
        let response = format!(
            "{{\"id\":\"c-1\",\"choices\":[{{\"finish_reason\":\"stop\",\"message\":\
             {{\"content\":\"Here.\"}}}}],{USAGE}}}"
        );
        let text = |body: &str| serde_json::to_string(body).unwrap();
        let time = "2026-11-24T09:15:02.123Z";
        for record in [
            format!(
                "{{\"ts\":\"{time}\",\"duration_ms\":3500,\"ttft_ms\":418,\"status\":200,\
                 \"request\":{request},\"response\":{response}}}"
            ),
            format!(
                "{{\"date_time_utc\":\"{time}\",\"latency\":\"3.5s\",\"timeToFirstToken_ms\":\
                 418,\"request_body\":{},\"response_body\":{}}}",
                text(request),
                text(&response)
            ),
            format!(
                "{{\"meta\":{{\"time\":1795511702123,\"latencyMs\":3500,\"ttft_ms\":418}},\
                 \"http\":{{\"req\":{{\"body\":{request}}},\"res\":{{\"statusCode\":200,\
                 \"body\":{}}}}}}}",
                text(&response)
            ),
        ] {
            let row = draft(&record).row;
            assert_eq!(row.arrival_time, Some(WallTime(1_795_511_702_123_000)), "{record}");
            assert_eq!(row.duration_us, Some(3_500_000), "{record}");
            assert_eq!(row.time_to_first_chunk_us, Some(418_000), "{record}");
            assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
            assert_eq!(row.cache_read_input_tokens, Some(1024));
            assert_eq!((row.status, row.request_model.as_deref()), (Status::Ok, Some("m-1")));
            assert_eq!((row.message_count, row.rag_label), (Some(1), RagLabel::NoEvidence));
            assert_eq!(row.arrival_source, ArrivalSource::UnknownStartOrEnd);
        }
    }

    #[test]
    fn a_record_can_be_its_own_request_and_answer() {
        let row = draft(
            r#"{"created_at":"2026-11-24T09:15:02Z","end_time":"2026-11-24T09:15:04Z",
                "messages":[{"role":"user","content":"x"}],"model":"m-1","response":"Here.",
                "prompt_tokens":7,"user_id":"u","session_id":"s","error":null}"#,
        );
        let chain = row.chain.unwrap();
        assert!(chain.with_answer.is_some());
        let row = row.row;
        assert_eq!((row.duration_us, row.input_tokens), (Some(2_000_000), Some(7)));
        assert_eq!(row.arrival_source, ArrivalSource::Logged);
        assert_eq!(row.session_source, SessionSource::Explicit);
        assert!(row.user_hash.is_some() && row.session_id_hash.is_some());
    }

    #[test]
    fn of_headers_only_the_session_is_read() {
        let of = |headers: &str| {
            draft(&format!(
                "{{\"ts\":1795511702,\"headers\":{headers},\"request\":{{\"prompt\":\"x\"}}}}"
            ))
            .row
            .session_id_hash
        };
        let object = of(r#"{"Cookie":"session_id=1","X-Session-Id":"s-1"}"#);
        assert!(object.is_some());
        assert_eq!(of(r#"[["cookie","x"],["x-session-id","s-1"]]"#), object);
        assert_eq!(of(r#"[{"name":"X-Session-ID","value":"s-1"}]"#), object);
        assert_eq!(of(r#"{"x-session-id":["s-1"]}"#), object);
        assert_eq!(of(r#"{"authorization":"s-1","x-amz-session-token":"s-1"}"#), None);
    }

    #[test]
    fn what_has_no_bodies_or_no_time_is_left_out() {
        let found = items(&[
            r#"{"ts":1795511702,"a":{"b":1}}"#,
            r#"{"ts":1795511702,"method":"GET","path":"/health"}"#,
            r#"{"request":{"messages":[]},"response":{}}"#,
            r#"{"ts":"soon","request":{"messages":[]}}"#,
            "{\"ts\":1795511702,",
        ]);
        let words: Vec<&str> = found
            .iter()
            .map(|item| match item {
                Item::Keep(_) => "kept",
                Item::Drop(reason) => reason,
                Item::Reject(_) => "rejected",
            })
            .collect();
        assert_eq!(words, ["not_llm", "probe", "no_time", "no_time", "rejected"]);
    }

    #[test]
    fn a_failure_keeps_its_class() {
        let row = draft(
            r#"{"start_time":1795511702.5,"elapsed_seconds":0.64,"input":{"messages":[{"role":
                "user","content":"x"}]},"output":{"error":{"message":"canary","type":
                "rate_limit_error"}},"status":"429"}"#,
        )
        .row;
        assert_eq!((row.status, row.http_status_code), (Status::RateLimited, Some(429)));
        assert_eq!(row.error_type.as_deref(), Some("rate_limit_error"));
        assert_eq!((row.duration_us, row.message_count), (Some(640_000), Some(1)));
    }

    #[test]
    fn units_stand_in_names() {
        let of = |key: &str| stem_and_unit(key, &plain(key), DURATIONS);
        assert_eq!(of("duration_ms"), Some(Ending::Unit(Unit::Millis)));
        assert_eq!(of("latencySeconds"), Some(Ending::Unit(Unit::Seconds)));
        assert_eq!(of("elapsed_s"), Some(Ending::Unit(Unit::Seconds)));
        assert_eq!(of("response_time"), Some(Ending::Bare));
        assert_eq!(of("durations"), None);
        assert_eq!(of("status"), None);
        let row = draft(r#"{"ts":1795511702,"latency":3,"request":{"prompt":"x"}}"#).row;
        assert_eq!(row.duration_us, None);
    }

    #[test]
    fn hostile_records_fail_alone() {
        let deep = format!("{{\"a\":{}{}}}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
        for record in [deep.as_str(), "[]", "1", "{\"headers\":[[[]]],\"request\":\"{\"}", "{}"] {
            assert_eq!(items(&[record]).len(), 1);
        }
    }
}
