//! BurstGPT: CSV with the tokens of ChatGPT and GPT-4 requests over months.
//!
//! `Timestamp` counts seconds from the start of a first day in local time: offsets from an unknown
//! origin, put at the Unix epoch. 0 response tokens mark a failure; the 0 is real and kept. Later
//! releases add a session id, for conversations only, and the elapsed seconds. Source:
//! `HPMLL/BurstGPT`.

use super::azure_lmm::fill_counts;
use super::{At, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared, fill, parts};
use crate::domain::record::{ArrivalSource, Operation, RequestRecord};
use crate::domain::time::WallTime;
use crate::domain::trace::Decision;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::Unit;

wire! {
    /// One request.
    Wire {
        arrival = "Timestamp",
        session = "Session ID",
        elapsed = "Elapsed time",
        model = "Model",
        input = "Request tokens",
        output = "Response tokens",
        total = "Total tokens",
        kind = "Log Type",
    }
}

struct BurstGpt {
    wire: Picker,
    unit: Unit,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    let (unit, decision) = unit_of("Timestamp", hints);
    Ok((Box::new(BurstGpt { wire: Wire::picker(), unit }), vec![decision]))
}

impl ObjectAdapter for BurstGpt {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        let format = shared.name(Format::Burstgpt.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        if !fill_offset(&mut row, &wire.arrival, "Timestamp", self.unit)? {
            out.drop("no_time");
            return Ok(());
        }
        if let Some(elapsed) = fill::span_us(&wire.elapsed, "Elapsed time", fill::SECONDS)? {
            fill::duration(&mut row, elapsed);
        }
        let input = wire.input.count("Request tokens")?;
        let output = wire.output.count("Response tokens")?;
        fill_counts(&mut row, (input, output, wire.total.count("Total tokens")?));
        row.request_model = shared.model(&wire.model);
        if wire.kind.text() == Some("Conversation log") {
            row.operation = Operation::Chat;
        }
        parts::session(&mut row, shared.hash(Column::Session, &wire.session));
        out.keep(row);
        Ok(())
    }

    fn origin(&self) -> Origin {
        Origin::Offsets
    }
}

/// Returns the unit of a column of offsets, which these formats fix to seconds, and says so.
pub(super) fn unit_of(column: &str, hints: &Hints) -> (Unit, Decision) {
    let told = hints.unit(column);
    let unit = told.unwrap_or(Unit::Seconds);
    let why = if told.is_some() { "`--time-unit`" } else { "the format" };
    let decision = Decision {
        what: format!("unit of `{column}`"),
        value: format!("{unit}, counted from an unknown origin"),
        why: why.to_owned(),
    };
    (unit, decision)
}

/// Fills the arrival with an offset; returns false when there is none.
pub(super) fn fill_offset(
    row: &mut RequestRecord,
    value: &Loose<'_>,
    field: &'static str,
    unit: Unit,
) -> Result<bool, FieldError> {
    let Some(number) = value.number(field)? else { return Ok(false) };
    let micros = unit.to_micros(number).ok_or(FieldError::new(field, "is out of range"))?;
    if micros < 0 {
        return Err(FieldError::new(field, "is before its origin"));
    }
    row.arrival_time = Some(WallTime(micros));
    row.arrival_source = ArrivalSource::RelativeOrigin;
    let one = unit.to_micros(crate::ingest::loose::Number::Int(1)).unwrap_or(1);
    row.arrival_resolution_us = if number.has_fraction() { 1 } else { one.max(1) };
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;
    use crate::domain::record::{Flag, SessionSource, Status};

    const FORMAT: Format = Format::Burstgpt;
    const LATE: &str = r#"{"Timestamp":"9000001.0","Session ID":"d-1","Elapsed time":"3.5","Model":"ChatGPT","Request tokens":"611","Response tokens":"37","Total tokens":"648","Log Type":"Conversation log"}"#;
    const EARLY: &str = r#"{"Timestamp":"93","Model":"GPT-4","Request tokens":"58","Response tokens":"0","Total tokens":"58","Log Type":"API log"}"#;

    #[test]
    fn times_are_seconds_from_an_unknown_origin() {
        let row = trial::row(FORMAT, LATE);
        assert_eq!(row.arrival_time.unwrap().0, 9_000_001_000_000);
        assert_eq!(row.arrival_source, ArrivalSource::RelativeOrigin);
        assert_eq!((row.arrival_resolution_us, row.duration_us), (1_000_000, Some(3_500_000)));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(611), Some(37)));
        assert_eq!((row.status, row.operation), (Status::Ok, Operation::Chat));
        assert_eq!(row.session_source, SessionSource::Explicit);
        assert_eq!(row.request_model.as_deref(), Some("ChatGPT"));
        assert_eq!(trial::refused(FORMAT, &EARLY.replace("93", "-1")).field, "Timestamp");
        assert_eq!(trial::dropped(FORMAT, &EARLY.replace("93", "")), "no_time");
    }

    #[test]
    fn no_answer_is_a_failure_without_a_session() {
        let row = trial::row(FORMAT, EARLY);
        assert_eq!((row.status, row.output_tokens), (Status::Error, Some(0)));
        assert_eq!((row.session_source, row.duration_us), (SessionSource::None, None));
        let empty = trial::row(FORMAT, &LATE.replace("d-1", ""));
        assert_eq!((empty.session_id_hash, empty.session_source), (None, SessionSource::None));
    }

    #[test]
    fn a_total_that_is_no_sum_is_flagged() {
        let row = trial::row(FORMAT, &LATE.replace("648", "649"));
        assert_eq!(row.flags, [Flag::TokenSumMismatch]);
    }

    #[test]
    fn the_user_may_name_another_unit() {
        let mut hints = Hints::none();
        hints.units = vec![(None, Unit::Millis)];
        let (unit, decision) = unit_of("Timestamp", &hints);
        assert_eq!((unit, decision.why.as_str()), (Unit::Millis, "`--time-unit`"));
        hints.units.clear();
        let (unit, decision) = unit_of("Timestamp", &hints);
        assert_eq!(unit, Unit::Seconds);
        assert_eq!(decision.value, "s, counted from an unknown origin");
    }
}
