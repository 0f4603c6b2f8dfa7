//! Gateway logs -> rows of a trace: read, told apart, decoded, sorted, put into sessions.
//!
//! One stream with bounded memory: records are decoded one by one, sorted through spilled runs
//! ([`sort`]), attempts of one call are merged ([`attempts`]), sessions numbered ([`sessionize`]),
//! and rows handed on in batches in order of arrival. Identifiers become keyed hashes on the way
//! in ([`privacy`]); texts of prompts and answers are never kept. Every record read is kept,
//! merged, dropped for a named reason, or rejected into a file ([`diagnostic`]).

pub mod attempts;
pub mod chunk;
pub mod container;
pub mod content;
pub mod detect;
pub mod diagnostic;
pub mod envelope;
pub mod error;
pub mod format;
pub mod inputs;
pub mod lines;
pub mod loose;
pub mod pick;
pub mod privacy;
pub mod quality;
pub mod rows;
pub mod sample;
pub mod sessionize;
pub mod sort;
pub mod source;
pub mod stamp;

pub use diagnostic::{RejectReason, Rejects};
pub use error::IngestError;
pub use format::{Format, Hints, Zone};
pub use quality::Quality;

use crate::domain::convert;
use crate::domain::position::Position;
use crate::domain::record::RequestRecord;
use crate::domain::trace::{Decision, SourceFile, TraceMetadata};
use attempts::Attempts;
use chunk::Plan;
use format::{Adapter, At, Item, Origin, Out, Refusal, Shared};
use privacy::{Column, Hasher};
use sample::Sample;
use sessionize::SessionCounts;
use sort::{Sorted, Sorter};
use source::Progress;
use std::path::{Path, PathBuf};

/// Rows handed on at once, in bytes of memory.
const BATCH_BYTES: usize = 12 << 20;
/// Bytes of a log read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What an ingest needs to know beside its inputs.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the user said about the inputs.
    pub hints: Hints,
    /// The salt behind the hashes.
    pub hasher: Hasher,
    /// Where sorted runs are spilled, in a folder of its own that is removed.
    pub spill_folder: PathBuf,
    /// Rows held in memory, in bytes; [`sort::RUN_BYTES`] unless tested.
    pub run_bytes: usize,
}

/// What an ingest gave beside the rows.
#[derive(Clone, Debug)]
pub struct Ingested {
    /// The trace's metadata.
    pub metadata: TraceMetadata,
    /// The quality table.
    pub quality: Quality,
}

impl Ingested {
    /// Returns the share of records that were rejected, 0 to 1.
    pub fn reject_share(&self) -> f64 {
        let counts = &self.metadata.counts;
        convert::float(counts.rejected) / convert::float(counts.read.max(1))
    }
}

/// Receives batches of rows in order of arrival.
pub type Sink<'s> = &'s mut dyn FnMut(&[RequestRecord]) -> Result<(), IngestError>;

/// Reads logs into one trace.
///
/// Rows go to `sink` in order of arrival, rejects to `rejects`.
///
/// # Errors
///
/// If an input cannot be read or its format is not clear, if times contradict each other, if no
/// row is left, or if `sink` fails. What `sink` got before is then no trace.
///
/// # Panics
///
/// If a record was read and not counted, which is a bug.
pub fn ingest(
    inputs: &[PathBuf],
    options: &Options,
    rejects: &mut Rejects,
    progress: Progress<'_>,
    sink: Sink<'_>,
) -> Result<Ingested, IngestError> {
    if inputs.is_empty() {
        return Err(IngestError::NoInput);
    }
    let mut reading = Reading {
        options,
        shared: Shared::new(options.hasher.clone(), options.hints.zone.clone()),
        sorter: Sorter::new(&options.spill_folder, options.run_bytes),
        rejects,
        metadata: TraceMetadata {
            salt_id: options.hasher.salt_id().to_owned(),
            ..TraceMetadata::default()
        },
        origin: None,
    };
    for path in inputs {
        reading.read_file(path, progress)?;
    }
    let decisions = reading.remarks();
    let Reading { sorter, mut metadata, .. } = reading;
    metadata.decisions.extend(decisions);
    let sorted = sorter.finish()?;
    let keep_scenario = options.hints.map.iter().any(|(field, _)| *field == "scenario");
    let (quality, merged) = write_rows(&sorted, keep_scenario, &mut metadata.decisions, sink)?;
    metadata.counts.merged = merged;
    metadata.counts.kept -= merged;
    metadata.counts.rejected = rejects.total();
    let counts = &metadata.counts;
    assert!(counts.add_up(), "read = kept + merged + dropped + rejected");
    if counts.kept == 0 {
        return Err(IngestError::NoRows {
            read: counts.read,
            dropped: counts.dropped.values().sum(),
            rejected: counts.rejected,
        });
    }
    Ok(Ingested { metadata, quality })
}

/// Merges attempts, numbers sessions, and hands the rows on.
fn write_rows(
    sorted: &Sorted,
    keep_scenario: bool,
    decisions: &mut Vec<Decision>,
    sink: Sink<'_>,
) -> Result<(Quality, u64), IngestError> {
    let mut counts = SessionCounts::default();
    for row in Attempts::new(sorted.rows()?) {
        counts.observe(&row?);
    }
    let mut sessions = counts.finish(keep_scenario);
    let mut quality = Quality::default();
    let mut rows = Attempts::new(sorted.rows()?);
    let (mut batch, mut batch_bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().transpose()? {
        let mut row = row;
        sessions.place(&mut row);
        quality.observe(&row);
        batch_bytes += row.weight_bytes();
        batch.push(row);
        if batch_bytes >= BATCH_BYTES {
            sink(&batch)?;
            batch.clear();
            batch_bytes = 0;
        }
    }
    if !batch.is_empty() {
        sink(&batch)?;
    }
    if sessions.sessions() + sessions.single_ids() > 0 {
        decisions.push(Decision {
            what: "sessions".to_owned(),
            value: sessions.sessions().to_string(),
            why: format!("ids on one row only are no sessions: {}", sessions.single_ids()),
        });
    }
    if rows.merged_by_session() > 0 {
        decisions.push(Decision {
            what: "attempts linked by session id".to_owned(),
            value: rows.merged_by_session().to_string(),
            why: "no trace id; one model and input, and a failure up to 5 s before".to_owned(),
        });
    }
    Ok((quality, rows.merged()))
}

/// The state while files are read.
struct Reading<'a> {
    options: &'a Options,
    shared: Shared,
    sorter: Sorter,
    rejects: &'a mut Rejects,
    metadata: TraceMetadata,
    origin: Option<Origin>,
}

impl Reading<'_> {
    /// Returns what was decided record by record, as counts.
    fn remarks(&self) -> Vec<Decision> {
        let remark = |count: u64, what: &str, why: &str| {
            let decision =
                Decision { what: what.to_owned(), value: count.to_string(), why: why.to_owned() };
            (count > 0).then_some(decision)
        };
        let hidden = remark(
            self.shared.hidden,
            "names kept as `other`",
            "models, providers or errors that could be a person, a key or an address",
        );
        let ambiguous = remark(
            self.shared.zone.ambiguous.get(),
            "times where clocks change",
            "the zone has them twice, and the first is taken, or never; order there is not sure",
        );
        hidden.into_iter().chain(ambiguous).collect()
    }

    fn read_file(&mut self, path: &Path, progress: Progress<'_>) -> Result<(), IngestError> {
        let sample = Sample::read(path)?;
        let hints = &self.options.hints;
        let format = detect::detect(&sample, hints)?.format;
        let (adapter, decisions) = format::make(format, &sample, hints)?;
        self.check_origin(&sample, adapter.origin())?;
        for decision in decisions {
            if !self.metadata.decisions.contains(&decision) {
                self.metadata.decisions.push(decision);
            }
        }
        let file_id = u32::try_from(self.metadata.files.len());
        let file_id = file_id.map_err(|_| IngestError::TooManyFiles)?;
        let read_before = self.metadata.counts.read;
        let lines = self.read_chunks(path, (file_id, &sample.plan), &*adapter, progress)?;
        self.metadata.counts.lines += lines;
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let hash = self.shared.hasher.hash(Column::File, &name);
        self.metadata.files.push(SourceFile {
            name_hash: hash.map(Hasher::hex).unwrap_or_default(),
            format: format.as_str().to_owned(),
            records: self.metadata.counts.read - read_before,
        });
        Ok(())
    }

    fn check_origin(&mut self, sample: &Sample, found: Origin) -> Result<(), IngestError> {
        match self.origin {
            Some(expected) if expected != found => Err(IngestError::MixedOrigins {
                file: sample.file.clone(),
                found: found.as_str(),
                expected: expected.as_str(),
            }),
            _ => {
                self.origin = Some(found);
                Ok(())
            }
        }
    }

    fn read_chunks(
        &mut self,
        path: &Path,
        (file_id, plan): (u32, &Plan),
        adapter: &dyn Adapter,
        progress: Progress<'_>,
    ) -> Result<u64, IngestError> {
        let file: std::sync::Arc<str> = path.display().to_string().into();
        let mut chunks = plan.open(path, adapter, progress, CHUNK_BYTES)?;
        while let Some(chunk) = chunks.next_chunk()? {
            let mut failed = None;
            chunk::for_each(&chunk, plan, adapter, &mut |place, input| {
                if failed.is_some() {
                    return;
                }
                self.metadata.counts.read += 1;
                let at = At { file_id, line: place.line };
                let mut out = Out::default();
                let decoded = match input {
                    Ok(input) => adapter.decode(input, at, &mut self.shared, &mut out),
                    Err(error) => Err(Refusal::Reject(error)),
                };
                let position =
                    || Position { file: file.clone(), line: place.line, byte: place.byte };
                failed = self.settle(decoded.map(|()| out), position).err();
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(chunks.lines())
    }

    fn settle(
        &mut self,
        decoded: Result<Out, Refusal>,
        position: impl Fn() -> Position,
    ) -> Result<(), IngestError> {
        match decoded {
            Ok(out) => {
                self.metadata.counts.read += convert::count(out.items.len()).saturating_sub(1);
                for item in out.items {
                    match item {
                        Item::Keep(draft) => {
                            self.metadata.counts.kept += 1;
                            self.sorter.push(draft.row)?;
                        }
                        Item::Drop(reason) => {
                            let dropped = &mut self.metadata.counts.dropped;
                            *dropped.entry(reason.to_owned()).or_insert(0) += 1;
                        }
                        Item::Reject(error) => self.rejects.add(&position(), &error)?,
                    }
                }
                Ok(())
            }
            Err(Refusal::Reject(error)) => self.rejects.add(&position(), &error),
            Err(Refusal::MixedUnits { column, expected }) => {
                Err(IngestError::MixedUnits { at: position(), column, unit: expected })
            }
        }
    }
}

#[cfg(test)]
mod tests;
