//! The public Azure traces of 2025 with images: `TIMESTAMP,NumImages,ContextTokens,GeneratedTokens`.
//!
//! Times are arrivals without zone. Context tokens count those of the images. 0 generated tokens
//! mark a failure there; the 0 is real and kept. There is no model, user or end. Source:
//! `Azure/AzurePublicDataset`.

use super::{At, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{Flag, RequestRecord, Status, TokenSource};
use crate::ingest::error::IngestError;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::sample::Sample;

wire! {
    /// One request.
    Wire {
        arrival = "TIMESTAMP",
        images = "NumImages",
        input = "ContextTokens",
        output = "GeneratedTokens",
    }
}

struct AzureLmm {
    wire: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(AzureLmm { wire: Wire::picker() }), Vec::new()))
}

impl ObjectAdapter for AzureLmm {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        let Some(arrival) = shared.time(&wire.arrival, "TIMESTAMP", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::AzureLmmPublic.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, arrival);
        let counts = (wire.input.count("ContextTokens")?, wire.output.count("GeneratedTokens")?);
        fill_counts(&mut row, (counts.0, counts.1, None));
        row.image_count = wire.images.count("NumImages")?;
        out.keep(row);
        Ok(())
    }
}

/// Fills input, output and total of a public trace, where no output marks a failure.
pub(super) fn fill_counts(
    row: &mut RequestRecord,
    counts: (Option<u32>, Option<u32>, Option<u32>),
) {
    let (input, output, total) = counts;
    fill::tokens(row, (input, output, total), TokenSource::Logged, fill::Zeros::Real);
    if input == Some(0) {
        row.input_tokens = None;
        row.input_token_source = TokenSource::Missing;
        row.flags.push(Flag::ZeroMeansUnknown);
    }
    row.status = match output {
        Some(0) => Status::Error,
        Some(_) => Status::Ok,
        None => Status::Unknown,
    };
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;

    const FORMAT: Format = Format::AzureLmmPublic;
    #[test]
    fn no_output_is_a_failure_and_a_real_0() {
        let row = trial::row(
            FORMAT,
            r#"{"TIMESTAMP":"2024-10-01 00:00:00.012000","NumImages":"1","ContextTokens":"1034","GeneratedTokens":"92"}"#,
        );
        assert_eq!(
            (row.input_tokens, row.output_tokens, row.image_count),
            (Some(1034), Some(92), Some(1))
        );
        assert_eq!((row.status, row.zone_assumed), (Status::Ok, true));
        assert_eq!(row.arrival_time.unwrap().0, 1_727_740_800_012_000);
        let row = trial::row(
            FORMAT,
            r#"{"TIMESTAMP":"2024-10-01 00:00:01","NumImages":"0","ContextTokens":"0","GeneratedTokens":"0"}"#,
        );
        assert_eq!(
            (row.status, row.output_tokens, row.image_count),
            (Status::Error, Some(0), Some(0))
        );
        assert_eq!((row.input_tokens, row.flags), (None, vec![Flag::ZeroMeansUnknown]));
    }

    #[test]
    fn a_row_without_a_time_is_left_out() {
        assert_eq!(trial::dropped(FORMAT, r#"{"TIMESTAMP":"","ContextTokens":"1"}"#), "no_time");
        let bad = r#"{"TIMESTAMP":"2024-10-01 00:00:01","ContextTokens":"x"}"#;
        assert_eq!(trial::refused(FORMAT, bad).field, "ContextTokens");
    }
}
