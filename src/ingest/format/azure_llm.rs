//! The public Azure LLM inference traces: `TIMESTAMP,ContextTokens,GeneratedTokens`, CSV.
//!
//! Times are arrivals, without zone and with seven decimals in 2023 (the seventh is cut), with an
//! offset and mixed decimals in 2024. 0 generated tokens mark a failure there; the 0 is real and
//! kept. There is no model, user or end. Source: `Azure/AzurePublicDataset`.

use super::{Adapter, At, Format, Hints, Input, Made, Origin, Out, Refusal, Shared, places};
use crate::domain::record::{ArrivalSource, Flag, RequestRecord, Status, TokenSource};
use crate::ingest::error::IngestError;
use crate::ingest::loose::Loose;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::TimeColumn;

const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];

struct AzureLlm {
    places: [Option<usize>; 3],
    time: TimeColumn,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// If the file is not CSV, or lacks a column.
pub fn make(sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    let file = &sample.file;
    let Some(header) = sample.header() else {
        return Err(IngestError::WrongContainer {
            file: file.clone(),
            format: Format::AzureLlmPublic.as_str(),
            container: "JSONL",
        });
    };
    if let Some(missing) = COLUMNS.iter().find(|name| header.place(name).is_none()) {
        return Err(IngestError::NoColumn {
            file: file.clone(),
            column: (*missing).to_owned(),
            found: crate::ingest::detect::show_keys(
                &header.names().iter().map(String::as_str).collect::<Vec<_>>(),
            ),
        });
    }
    let [name, ..] = COLUMNS;
    let values = sample.column(name);
    let (time, decisions) = TimeColumn::decide(file, name, &values, hints.unit(name), &hints.zone)?;
    Ok((Box::new(AzureLlm { places: places(sample, COLUMNS), time }), decisions))
}

impl Adapter for AzureLlm {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let Input::Csv(row) = input else {
            out.drop("not_llm");
            return Ok(());
        };
        let [time, input, output] = self.places.map(|place| Loose::cell(row.cell(place)));
        let Some(arrival) = self.time.read(&time, "TIMESTAMP", &shared.zone)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::AzureLlmPublic.as_str());
        let mut record = RequestRecord::unknown(format, at.file_id, at.line);
        record.arrival_time = Some(arrival.at);
        record.arrival_source = ArrivalSource::Logged;
        record.arrival_resolution_us = arrival.quantum_us;
        record.zone_assumed = arrival.zone_assumed;
        record.input_tokens = input.count("ContextTokens")?;
        record.output_tokens = output.count("GeneratedTokens")?;
        if record.input_tokens == Some(0) {
            record.input_tokens = None;
            record.flags.push(Flag::ZeroMeansUnknown);
        }
        record.status = match record.output_tokens {
            Some(0) => Status::Error,
            Some(_) => Status::Ok,
            None => Status::Unknown,
        };
        record.input_token_source = source_of(record.input_tokens);
        record.output_token_source = source_of(record.output_tokens);
        out.keep(record);
        Ok(())
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn origin(&self) -> Origin {
        Origin::Dates
    }
}

fn source_of(count: Option<u32>) -> TokenSource {
    if count.is_some() { TokenSource::Logged } else { TokenSource::Missing }
}
