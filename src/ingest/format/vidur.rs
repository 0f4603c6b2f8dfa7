//! Traces of Vidur: `arrived_at,num_prefill_tokens,num_decode_tokens`, CSV.
//!
//! `arrived_at` counts seconds from an unknown origin, put at the Unix epoch; a variant of lengths
//! only has no times at all. 0 tokens stand for "unknown". There is no model, user or end. Source:
//! `microsoft/vidur`.

use super::burstgpt::{fill_offset, unit_of};
use super::{At, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared, fill};
use crate::domain::record::{RequestRecord, TokenSource};
use crate::ingest::error::IngestError;
use crate::ingest::loose::Loose;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::sample::Sample;
use crate::ingest::stamp::Unit;

/// The column of arrivals.
const ARRIVAL: &str = "arrived_at";

wire! {
    /// One request.
    Wire { arrival = "arrived_at", input = "num_prefill_tokens", output = "num_decode_tokens" }
}

struct Vidur {
    wire: Picker,
    /// Unit of the times; `None` when the file has none.
    unit: Option<Unit>,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    let has_times = sample.is_empty() || !sample.column(ARRIVAL).iter().all(Loose::is_nothing);
    let timed = has_times.then(|| unit_of(ARRIVAL, hints));
    let unit = timed.as_ref().map(|(unit, _)| *unit);
    let decisions = timed.map(|(_, decision)| decision).into_iter().collect();
    Ok((Box::new(Vidur { wire: Wire::picker(), unit }), decisions))
}

impl ObjectAdapter for Vidur {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        let format = shared.name(Format::Vidur.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        if let Some(unit) = self.unit {
            if !fill_offset(&mut row, &wire.arrival, ARRIVAL, unit)? {
                out.drop("no_time");
                return Ok(());
            }
            // A generator drew the times; a whole second among them is chance.
            row.arrival_resolution_us = 1;
        }
        let counts = (
            wire.input.count("num_prefill_tokens")?,
            wire.output.count("num_decode_tokens")?,
            None,
        );
        fill::tokens(&mut row, counts, TokenSource::Logged, fill::Zeros::Unknown);
        out.keep(row);
        Ok(())
    }

    fn origin(&self) -> Origin {
        if self.unit.is_some() { Origin::Offsets } else { Origin::Missing }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use crate::domain::record::{ArrivalSource, Flag};

    const FORMAT: Format = Format::Vidur;
    #[test]
    fn times_are_seconds_from_an_unknown_origin() {
        let row = trial::row(
            FORMAT,
            r#"{"arrived_at":"0.876551","num_prefill_tokens":"1203","num_decode_tokens":"94"}"#,
        );
        assert_eq!((row.arrival_time.unwrap().0, row.arrival_resolution_us), (876_551, 1));
        assert_eq!(row.arrival_source, ArrivalSource::RelativeOrigin);
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1203), Some(94)));
    }

    #[test]
    fn no_decode_tokens_are_unknown() {
        let row = trial::row(
            FORMAT,
            r#"{"arrived_at":"0.0","num_prefill_tokens":"58","num_decode_tokens":"0"}"#,
        );
        assert_eq!((row.output_tokens, row.flags), (None, vec![Flag::ZeroMeansUnknown]));
        assert_eq!((row.arrival_time.unwrap().0, row.arrival_resolution_us), (0, 1));
    }

    #[test]
    fn lengths_alone_have_no_times() {
        let row = trial::row(FORMAT, r#"{"num_prefill_tokens":"58","num_decode_tokens":"9"}"#);
        assert_eq!((row.arrival_time, row.arrival_source), (None, ArrivalSource::None));
        let timed = r#"{"arrived_at":"0.0","num_prefill_tokens":"58","num_decode_tokens":"9"}"#;
        let items = trial::items(FORMAT, &[timed, r#"{"num_prefill_tokens":"58"}"#]);
        assert_eq!(items.last(), Some(&super::super::Item::Drop("no_time")));
    }
}
