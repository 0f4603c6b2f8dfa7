//! Length traces: `{timestamp, input_length, output_length, hash_ids?}`, as JSONL or CSV.
//!
//! Mooncake writes milliseconds, GuideLLM seconds, under the same keys: the unit is decided from
//! the sample, printed with the mean rate it implies, and `--time-unit` overrides it. Offsets are
//! put at the Unix epoch (`relative_origin`). `hash_ids` become keyed 64-bit hashes; a block has
//! 512 tokens in Mooncake's files (milliseconds), otherwise its size is unknown.

use super::{Adapter, At, Format, Hints, Input, Made, Origin, Out, Refusal, Shared, places};
use crate::domain::record::{ArrivalSource, Flag, RequestRecord, TokenSource};
use crate::ingest::error::IngestError;
use crate::ingest::loose::Loose;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::{TimeColumn, Unit};
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

const COLUMNS: [&str; 3] = ["timestamp", "input_length", "output_length"];
/// Tokens in a block of Mooncake's traces.
const MOONCAKE_BLOCK: u32 = 512;

struct LengthTrace {
    places: [Option<usize>; 3],
    time: TimeColumn,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    timestamp: Loose<'a>,
    #[serde(borrow, default)]
    input_length: Loose<'a>,
    #[serde(borrow, default)]
    output_length: Loose<'a>,
    #[serde(default)]
    hash_ids: Option<Vec<BlockId>>,
}

/// A block's number; all 64 bits count, so it never passes through a float.
struct BlockId(u64);

impl<'de> Deserialize<'de> for BlockId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(BlockIdVisitor)
    }
}

struct BlockIdVisitor;

impl Visitor<'_> for BlockIdVisitor {
    type Value = BlockId;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_u64<E>(self, id: u64) -> Result<BlockId, E> {
        Ok(BlockId(id))
    }

    fn visit_i64<E>(self, id: i64) -> Result<BlockId, E> {
        Ok(BlockId(id.cast_unsigned()))
    }
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// If its times have several units.
pub fn make(sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    let [name, ..] = COLUMNS;
    let values = sample.column(name);
    let (time, decisions) =
        TimeColumn::decide(&sample.file, name, &values, hints.unit(name), &hints.zone)?;
    Ok((Box::new(LengthTrace { places: places(sample, COLUMNS), time }), decisions))
}

impl Adapter for LengthTrace {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = match input {
            Input::Json(line) => serde_json::from_str::<Wire<'_>>(line)?,
            Input::Csv(row) => {
                let cells = self.places.map(|place| Loose::cell(row.cell(place)));
                let [timestamp, input_length, output_length] = cells;
                Wire { timestamp, input_length, output_length, hash_ids: None }
            }
            Input::Text(_) => {
                out.drop("not_llm");
                return Ok(());
            }
        };
        let Some(arrival) = self.time.read(&wire.timestamp, "timestamp", &shared.zone)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::LengthTrace.as_str());
        let mut record = RequestRecord::unknown(format, at.file_id, at.line);
        record.arrival_time = Some(arrival.at);
        record.arrival_source = match self.origin() {
            Origin::Offsets => ArrivalSource::RelativeOrigin,
            Origin::Dates | Origin::Missing => ArrivalSource::Logged,
        };
        record.arrival_resolution_us = arrival.quantum_us;
        record.zone_assumed = arrival.zone_assumed;
        let input = wire.input_length.count("input_length")?;
        let output = wire.output_length.count("output_length")?;
        if input == Some(0) || output == Some(0) {
            record.flags.push(Flag::ZeroMeansUnknown);
        }
        (record.input_tokens, record.input_token_source) = known(input);
        (record.output_tokens, record.output_token_source) = known(output);
        if let Some(blocks) = wire.hash_ids.filter(|blocks| !blocks.is_empty()) {
            record.prefix_block_hashes =
                blocks.iter().map(|BlockId(id)| shared.hasher.block(*id)).collect();
            let is_mooncake = self.time.is_relative() && self.time.unit() == Some(Unit::Millis);
            record.prefix_block_size = is_mooncake.then_some(MOONCAKE_BLOCK);
        }
        out.keep(record);
        Ok(())
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn origin(&self) -> Origin {
        if self.time.is_relative() { Origin::Offsets } else { Origin::Dates }
    }
}

/// Returns a count above 0 and its source; 0 stands for "unknown".
fn known(count: Option<u32>) -> (Option<u32>, TokenSource) {
    match count.filter(|count| *count > 0) {
        Some(count) => (Some(count), TokenSource::Logged),
        None => (None, TokenSource::Missing),
    }
}
