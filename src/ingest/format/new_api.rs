//! The table `logs` of new-api, dumped or from its API.
//!
//! `created_at` is the end and `use_time` the duration, both in whole seconds: an arrival is sure
//! to one second. Type 2 is a request and type 5 a failed attempt of one (in one-api it is a test);
//! rows with one request id are attempts of one call. `other` holds JSON in a text: the time to the
//! first chunk (-1000 stands for none), cached tokens, which Claude's rows count apart, the end of
//! the stream. Settlements carry no request. Source: `QuantumNous/new-api`, `model/log.go`,
//! `service/log_info_generate.go`, `relay/common/stream_status.go`, `controller/channel-test.go`.

use super::one_api::key_of;
use super::{
    At, Draft, Format, Hints, Join, Made, Naive, ObjectAdapter, Out, Refusal, Role, Shared, bodies,
    fill, parts,
};
use crate::domain::record::{Flag, RequestRecord, Status, TokenSource, TtftSource};
use crate::domain::time::MICROS_PER_SECOND;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use std::borrow::Cow;

/// The name of the token that tests of channels are logged with.
const TEST_TOKEN: &str = "模型测试";

wire! {
    /// One row.
    Wire {
        created_at = "created_at",
        kind = "type",
        user = "user_id" | "username",
        token_name = "token_name",
        token_id = "token_id",
        model = "model_name",
        prompt = "prompt_tokens",
        completion = "completion_tokens",
        use_time = "use_time",
        stream = "is_stream",
        request_id = "request_id",
        other = "other",
    }
}

wire! {
    /// What the column `other` holds.
    Other {
        first = "frt",
        cached = "cache_tokens",
        written = "cache_creation_tokens",
        written_5m = "cache_creation_tokens_5m",
        written_1h = "cache_creation_tokens_1h",
        claude = "claude",
        upstream_model = "upstream_model_name",
        is_estimate = "admin_info.local_count_tokens",
        admin = "admin_info",
        path = "request_path",
        task = "task_id",
        end_reason = "stream_status.end_reason",
        end_status = "stream_status.status",
        error_type = "error_type",
        error_code = "error_code",
        status_code = "status_code",
    }
}

struct NewApi {
    wire: Picker,
    other: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(NewApi { wire: Wire::picker(), other: Other::picker() }), Vec::new()))
}

impl ObjectAdapter for NewApi {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        let other_text = wire.other.json().unwrap_or_default();
        let other = Other::read(&self.other, &other_text).unwrap_or_default();
        let kind = wire.kind.count("type")?;
        if let Some(reason) = reason_to_drop(kind, &wire, &other)? {
            out.drop(reason);
            return Ok(());
        }
        let Some(end) = shared.time(&wire.created_at, "created_at", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::NewApiLogs.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        if let Some(path) = other.path.text()
            && let Some(reason) = bodies::fill_address(&mut row, "POST", path, shared)
        {
            out.drop(reason);
            return Ok(());
        }
        let use_time = fill::span_us(&wire.use_time, "use_time", fill::SECONDS)?;
        fill::arrival_from_end(&mut row, end, use_time);
        let first = fill::span_us(&other.first, "frt", fill::MILLIS).ok().flatten();
        fill_first_chunk(&mut row, first);
        fill_tokens(&wire, &other, &mut row)?;
        match kind {
            Some(5) => fill_failure(&other, &mut row, shared),
            _ => row.status = status_of_stream(&other),
        }
        fill_names(&wire, &other, &mut row, shared);
        let join = row.request_id_hash.map(|key| Join { key, role: Role::Attempt });
        out.keep(Draft { row: Box::new(row), join, chain: None });
        Ok(())
    }
}

/// Returns why a row is no request.
fn reason_to_drop(
    kind: Option<u32>,
    wire: &Wire<'_>,
    other: &Other<'_>,
) -> Result<Option<&'static str>, FieldError> {
    let counted = |value: &Loose<'_>| parts::count(value).is_some_and(|count| count > 0);
    let is_settlement = !other.task.is_nothing() && !counted(&wire.prompt);
    Ok(match kind {
        Some(2) if is_settlement && !counted(&wire.completion) => Some("billing_row"),
        Some(2 | 5) if wire.token_name.text() == Some(TEST_TOKEN) => Some("test_row"),
        Some(2 | 5) => None,
        Some(6) => Some("billing_row"),
        Some(_) => Some("admin_row"),
        None => return Err(FieldError::new("type", "is missing")),
    })
}

/// Fills the time to the first chunk. The duration is cut to whole seconds: a first chunk less
/// than a second after it shows that the call took at least as long.
fn fill_first_chunk(row: &mut RequestRecord, first: Option<i64>) {
    if let (Some(first), Some(duration)) = (first, row.duration_us)
        && (duration..duration + MICROS_PER_SECOND).contains(&first)
    {
        row.duration_us = Some(first);
        row.end_time = row.arrival_time.map(|arrival| arrival.plus_micros(first));
    }
    fill::ttft(row, first, TtftSource::Logged);
    if row.duration_us == Some(0) {
        row.flags.push(Flag::StartEqualsEnd);
    }
}

fn fill_tokens(
    wire: &Wire<'_>,
    other: &Other<'_>,
    row: &mut RequestRecord,
) -> Result<(), FieldError> {
    let counts =
        (wire.prompt.count("prompt_tokens")?, wire.completion.count("completion_tokens")?, None);
    // Users see their rows without the part that says who counted.
    let source = match (other.is_estimate.truth(), other.admin.json()) {
        (Some(true), _) => TokenSource::GatewayEstimate,
        (_, Some(_)) => TokenSource::Provider,
        (_, None) => TokenSource::Logged,
    };
    fill::tokens(row, counts, source, fill::Zeros::Unknown);
    row.cache_read_input_tokens = parts::count(&other.cached);
    let [five_minutes, hour] = [&other.written_5m, &other.written_1h].map(parts::count);
    row.cache_write_input_tokens = parts::count(&other.written).or_else(|| {
        five_minutes.or(hour)?;
        Some(bodies::sum(five_minutes.unwrap_or(0), hour.unwrap_or(0)))
    });
    if other.claude.truth() == Some(true) {
        parts::add_cached(row);
    }
    row.drop_impossible_parts();
    Ok(())
}

fn fill_failure(other: &Other<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    row.status = Status::Error;
    fill::http_status(row, parts::count(&other.status_code));
    if matches!(row.status, Status::Ok | Status::Unknown) {
        // A channel may answer 200 with an error in the body.
        row.status = Status::Error;
    }
    bodies::fill_error(row, &[other.error_type.clone(), other.error_code.clone()], shared);
}

/// Returns how a request ended that was paid for; streams say it since 2026.
fn status_of_stream(other: &Other<'_>) -> Status {
    match other.end_reason.text() {
        Some("timeout") => Status::Timeout,
        Some("client_gone" | "ping_fail") => Status::Cancelled,
        Some("done" | "eof" | "handler_stop") | None => Status::Ok,
        Some(_) if other.end_status.text() == Some("error") => Status::Error,
        Some(_) => Status::Ok,
    }
}

fn fill_names(wire: &Wire<'_>, other: &Other<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    row.stream = wire.stream.truth();
    row.request_model = shared.model(&wire.model);
    row.response_model = shared.model(&other.upstream_model);
    row.request_id_hash = shared.hash(Column::Request, &wire.request_id);
    row.user_hash = shared.hash(Column::User, &wire.user);
    row.key_hash = match parts::count(&wire.token_id).filter(|id| *id > 0) {
        Some(_) => shared.hash(Column::Key, &wire.token_id),
        None => key_of(&wire.user, &wire.token_name)
            .and_then(|key| shared.hash(Column::Key, &Loose::Text(Cow::Owned(key)))),
    };
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;
    use crate::domain::record::{ArrivalSource, Operation};
    use crate::ingest::format::Item;

    const FORMAT: Format = Format::NewApiLogs;
    fn row_of(kind: u8, cells: &str, other: &str) -> String {
        let other = serde_json::to_string(other).unwrap();
        format!(
            r#"{{"id":1,"user_id":7,"created_at":1795511705,"type":{kind},"content":"canary","username":"canary","token_name":"demo","model_name":"gpt-4o-mini","quota":9,"is_stream":true,"channel":3,"token_id":11,"group":"default","ip":"192.0.2.1",{cells},"other":{other}}}"#
        )
    }

    const CELLS: &str =
        r#""prompt_tokens":1320,"completion_tokens":160,"use_time":3,"request_id":"r-1""#;
    const OTHER: &str = r#"{"cache_tokens":1024,"frt":418.0,"admin_info":{"use_channel":["3"]},"request_path":"/v1/chat/completions"}"#;

    #[test]
    fn the_common_call_within_a_second() {
        let row = trial::row(FORMAT, &row_of(2, CELLS, OTHER));
        let (_, duration, first, input, cached, output) = trial::facts(&row);
        assert_eq!(row.arrival_time.unwrap().0, 1_795_511_702_000_000);
        assert_eq!((row.arrival_resolution_us, duration), (1_000_000, Some(3_000_000)));
        assert_eq!(row.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!(
            (first, input, cached, output),
            (Some(418_000), Some(1320), Some(1024), Some(160))
        );
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!(row.input_token_source, TokenSource::Provider);
    }

    #[test]
    fn minus_1000_is_no_first_chunk() {
        let other = OTHER.replace("418.0", "-1000.0");
        let row = trial::row(FORMAT, &row_of(2, CELLS, &other));
        assert_eq!((row.time_to_first_chunk_us, row.flags), (None, vec![]));
    }

    #[test]
    fn a_first_chunk_within_the_second_of_the_end_stretches_the_call() {
        let cells = CELLS.replace("\"use_time\":3", "\"use_time\":0");
        let row = trial::row(FORMAT, &row_of(2, &cells, OTHER));
        assert_eq!((row.duration_us, row.time_to_first_chunk_us), (Some(418_000), Some(418_000)));
        assert_eq!(row.arrival_time.unwrap().0, 1_795_511_705_000_000);
        let late = OTHER.replace("418.0", "1418.0");
        let row = trial::row(FORMAT, &row_of(2, &cells, &late));
        assert_eq!((row.duration_us, row.time_to_first_chunk_us), (Some(0), None));
        assert_eq!(row.flags, [Flag::TtftExceedsDuration, Flag::StartEqualsEnd]);
    }

    #[test]
    fn a_type_5_row_is_an_attempt_of_the_call() {
        let error = r#"{"error_type":"upstream_error","error_code":"429","status_code":429}"#;
        let cells = CELLS.replace("1320", "0").replace("160", "0");
        let records = [row_of(5, &cells, error), row_of(2, CELLS, OTHER)];
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        let drafts: Vec<Draft> = trial::items(FORMAT, &records)
            .into_iter()
            .map(|item| match item {
                Item::Keep(draft) => *draft,
                other => panic!("{other:?}"),
            })
            .collect();
        let [failed, last] = <[Draft; 2]>::try_from(drafts).unwrap();
        assert_eq!(failed.join, last.join);
        assert_eq!(failed.join.unwrap().role, Role::Attempt);
        assert_eq!((failed.row.status, failed.row.input_tokens), (Status::RateLimited, None));
        assert_eq!(failed.row.error_type.as_deref(), Some("upstream_error"));
        let alone = row_of(2, &CELLS.replace("r-1", ""), OTHER);
        assert_eq!(trial::draft(FORMAT, &alone).join, None);
    }

    #[test]
    fn the_code_of_a_type_5_row_tells_how_it_failed() {
        let status = |code: &str| {
            trial::row(FORMAT, &row_of(5, CELLS, &format!("{{\"status_code\":{code}}}"))).status
        };
        assert_eq!(status("499"), Status::Cancelled);
        assert_eq!(status("504"), Status::Timeout);
        assert_eq!((status("200"), status("101")), (Status::Error, Status::Error));
        assert_eq!(status("null"), Status::Error);
    }

    #[test]
    fn rows_of_claude_count_cached_tokens_apart() {
        let other = r#"{"claude":true,"cache_tokens":1000,"cache_creation_tokens":20}"#;
        let row = trial::row(FORMAT, &row_of(2, &CELLS.replace("1320", "300"), other));
        assert_eq!((row.input_tokens, row.cache_read_input_tokens), (Some(1320), Some(1000)));
        assert_eq!(row.cache_write_input_tokens, Some(20));
        assert_eq!(row.flags, [Flag::AnthropicCachedAdded]);
        assert_eq!(row.input_token_source, TokenSource::Logged);
    }

    #[test]
    fn what_is_no_request_is_left_out() {
        let cells = r#""prompt_tokens":0,"completion_tokens":0,"use_time":0,"request_id":"""#;
        let task = r#"{"task_id":"t","pre_consumed_quota":5}"#;
        assert_eq!(trial::dropped(FORMAT, &row_of(2, cells, task)), "billing_row");
        assert_eq!(trial::dropped(FORMAT, &row_of(6, cells, "")), "billing_row");
        for kind in [0, 1, 3, 4, 7] {
            assert_eq!(trial::dropped(FORMAT, &row_of(kind, cells, "")), "admin_row");
        }
        let test = row_of(2, CELLS, "{}").replace("demo", TEST_TOKEN);
        assert_eq!(trial::dropped(FORMAT, &test), "test_row");
        let image = OTHER.replace("chat/completions", "images/generations");
        assert_eq!(trial::dropped(FORMAT, &row_of(2, CELLS, &image)), "not_llm");
    }

    #[test]
    fn streams_say_how_they_ended() {
        let status = |reason: &str| {
            let other =
                format!(r#"{{"stream_status":{{"status":"error","end_reason":"{reason}"}}}}"#);
            trial::row(FORMAT, &row_of(2, CELLS, &other)).status
        };
        assert_eq!(status("client_gone"), Status::Cancelled);
        assert_eq!(status("timeout"), Status::Timeout);
        assert_eq!(status("scanner_error"), Status::Error);
        assert_eq!(status("done"), Status::Ok);
    }
}
