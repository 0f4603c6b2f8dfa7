//! The table `logs` of one-api, dumped or from its API.
//!
//! `created_at` is the end, in whole seconds; the arrival is `elapsed_time` (milliseconds) before,
//! or the end where an older build has none. Only rows of type 2 are requests; type 5 is a test of
//! a channel, all others are administration. Failures are not in the table. 0 tokens stand for
//! "unknown". Costs are in the gateway's own units and are not read. Source:
//! `songquanpeng/one-api`, `model/log.go`.

use super::{At, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{RequestRecord, Status, TokenSource};
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use std::borrow::Cow;

wire! {
    /// One row.
    Wire {
        created_at = "created_at",
        kind = "type",
        user = "user_id" | "username",
        token = "token_name",
        model = "model_name",
        prompt = "prompt_tokens",
        completion = "completion_tokens",
        request_id = "request_id",
        elapsed = "elapsed_time",
        stream = "is_stream",
    }
}

struct OneApi {
    wire: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(OneApi { wire: Wire::picker() }), Vec::new()))
}

impl ObjectAdapter for OneApi {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        match wire.kind.count("type")? {
            Some(2) => {}
            Some(5) => {
                out.drop("test_row");
                return Ok(());
            }
            Some(_) => {
                out.drop("admin_row");
                return Ok(());
            }
            None => return Err(FieldError::new("type", "is missing").into()),
        }
        let Some(end) = shared.time(&wire.created_at, "created_at", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::OneApiLogs.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        // Rows of older builds were given 0 when the column was added.
        let elapsed = fill::span_us(&wire.elapsed, "elapsed_time", fill::MILLIS)?;
        fill::arrival_from_end(&mut row, end, elapsed.filter(|elapsed| *elapsed != 0));
        let counts = (
            wire.prompt.count("prompt_tokens")?,
            wire.completion.count("completion_tokens")?,
            None,
        );
        fill::tokens(&mut row, counts, TokenSource::Logged, fill::Zeros::Unknown);
        row.status = Status::Ok;
        row.stream = wire.stream.truth();
        row.request_model = shared.model(&wire.model);
        row.request_id_hash = shared.hash(Column::Request, &wire.request_id);
        row.user_hash = shared.hash(Column::User, &wire.user);
        row.key_hash = key_of(&wire.user, &wire.token)
            .and_then(|key| shared.hash(Column::Key, &Loose::Text(Cow::Owned(key))));
        out.keep(row);
        Ok(())
    }
}

/// Returns what tells a key apart: its name, which is unique for its user only.
pub(super) fn key_of(user: &Loose<'_>, token: &Loose<'_>) -> Option<String> {
    let name = token.text()?;
    Some(format!("{}/{name}", user.id().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;
    use crate::domain::record::{ArrivalSource, Flag};

    const FORMAT: Format = Format::OneApiLogs;
    const CALL: &str = r#"{"id":1,"user_id":7,"created_at":1795511705,"type":2,"content":"canary","username":"canary","token_name":"demo","model_name":"gpt-4o-mini","quota":1,"prompt_tokens":1320,"completion_tokens":160,"channel":3,"request_id":"r-1","elapsed_time":3500,"is_stream":true}"#;

    #[test]
    fn the_common_call_within_a_second() {
        let row = trial::row(FORMAT, CALL);
        let (arrival, ..) = trial::facts(&row);
        assert_eq!(arrival, Some(1_795_511_701_500_000));
        assert_eq!((row.duration_us, row.arrival_resolution_us), (Some(3_500_000), 1_000_000));
        assert_eq!(row.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1320), Some(160)));
        assert_eq!((row.status, row.stream), (Status::Ok, Some(true)));
        assert!(row.key_hash.is_some() && row.user_hash.is_some());
    }

    #[test]
    fn cells_of_csv_are_texts() {
        let csv = r#"{"user_id":"7","created_at":"1795511705","type":"2","token_name":"demo","model_name":"gpt-4o-mini","prompt_tokens":"1320","completion_tokens":"160","request_id":"r-1","elapsed_time":"3500","is_stream":"1"}"#;
        assert_eq!(trial::row(FORMAT, csv), trial::row(FORMAT, CALL));
    }

    #[test]
    fn without_elapsed_time_the_end_stands_in() {
        for none in ["null", "0", "\"\""] {
            let row = trial::row(FORMAT, &CALL.replace("3500", none));
            assert_eq!(row.arrival_source, ArrivalSource::EndOnly, "{none}");
            assert_eq!((row.arrival_time, row.duration_us), (row.end_time, None), "{none}");
        }
    }

    #[test]
    fn only_type_2_is_a_request() {
        let reason = |kind: &str| {
            trial::dropped(FORMAT, &CALL.replace("\"type\":2", &format!("\"type\":{kind}")))
        };
        for kind in ["0", "1", "3", "4"] {
            assert_eq!(reason(kind), "admin_row");
        }
        assert_eq!(reason("5"), "test_row");
        assert_eq!(trial::refused(FORMAT, &CALL.replace("\"type\":2", "\"x\":2")).field, "type");
        assert_eq!(trial::dropped(FORMAT, &CALL.replace("created_at", "x")), "no_time");
    }

    #[test]
    fn zero_tokens_are_unknown() {
        let row = trial::row(FORMAT, &CALL.replace(":160", ":0"));
        assert_eq!((row.output_tokens, row.flags), (None, vec![Flag::ZeroMeansUnknown]));
    }
}
