//! Gateway logs -> rows of a trace: read, told apart, decoded, sorted, put into calls and sessions.
//!
//! One stream with bounded memory: chunks of records are decoded by several threads ([`pool`],
//! [`decode`]), sorted by arrival through spilled runs ([`external`]), records of one call are put
//! together ([`calls`]), sessions found ([`sessions`]), and rows handed on in batches in order of
//! arrival. Identifiers become keyed hashes on the way in ([`privacy`]); texts of prompts and
//! answers are never kept. Every record read is kept, merged, dropped for a named reason, or
//! rejected into a file ([`diagnostic`]).

pub mod attempts;
pub mod calls;
pub mod chunk;
pub mod codec;
pub mod container;
pub mod content;
pub mod decode;
pub mod detect;
pub mod diagnostic;
pub mod envelope;
pub mod error;
pub mod external;
pub mod format;
pub mod lines;
pub mod loose;
pub mod pick;
pub mod pool;
pub mod privacy;
pub mod quality;
mod read;
mod remarks;
pub mod rows;
pub mod sample;
pub mod sessionize;
pub mod sessions;
pub mod sort;
pub mod source;
pub mod stamp;
pub mod ticks;

pub use diagnostic::{RejectReason, Rejects};
pub use error::IngestError;
pub use format::{Format, Hints, Zone};
pub use quality::Quality;

use crate::domain::convert;
use crate::domain::record::RequestRecord;
use crate::domain::trace::{Decision, TraceMetadata};
use attempts::Attempts;
use codec::Names;
use external::{External, MergedBytes, SortedBytes};
use format::{Draft, Shared};
use privacy::Hasher;
use read::{Taken, read_file};
use sessionize::SessionCounts;
use source::Progress;
use std::path::{Path, PathBuf};

/// Rows handed on at once, in bytes of memory.
const BATCH_BYTES: usize = 6 << 20;
/// Bytes of rows that wait in the sort before they are spilled.
pub const SORT_BYTES: usize = 128 << 20;
/// Bytes of a log that one thread decodes at once.
pub const CHUNK_BYTES: usize = 1 << 20;

/// What an ingest needs to know beside its inputs.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the user said about the inputs.
    pub hints: Hints,
    /// The salt behind the hashes.
    pub hasher: Hasher,
    /// Where sorted runs are spilled, in a folder of its own that is removed.
    pub spill_folder: PathBuf,
    /// Rows held in memory, in bytes; [`SORT_BYTES`] unless tested.
    pub sort_bytes: usize,
    /// Bytes decoded at once; [`CHUNK_BYTES`] unless tested.
    pub chunk_bytes: usize,
    /// Threads that decode, at least 1; the result does not depend on it.
    pub threads: usize,
}

/// What an ingest gave beside the rows.
#[derive(Clone, Debug)]
pub struct Ingested {
    /// The trace's metadata.
    pub metadata: TraceMetadata,
    /// The quality table.
    pub quality: Quality,
    /// For each file: its format and container, and which keys decided.
    pub explained: Vec<String>,
}

impl Ingested {
    /// Returns the share of records that were rejected, 0 to 1.
    pub fn reject_share(&self) -> f64 {
        let counts = &self.metadata.counts;
        convert::float(counts.rejected) / convert::float(counts.read.max(1))
    }
}

/// Receives batches of rows in order of arrival.
pub type Sink<'s> = &'s mut dyn FnMut(Vec<RequestRecord>) -> Result<(), IngestError>;

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
    let metadata =
        TraceMetadata { salt_id: options.hasher.salt_id().to_owned(), ..TraceMetadata::default() };
    let mut taken = Taken {
        sorter: External::new(&options.spill_folder, options.sort_bytes),
        rejects,
        metadata,
        latest: None,
        explained: Vec::new(),
        origin: None,
    };
    let shared = || Shared::new(options.hasher.clone(), options.hints.zone.clone());
    let ((), shared) = pool::with_pool(options.threads, shared, |pool| {
        inputs.iter().try_for_each(|path| read_file(path, options, progress, pool, &mut taken))
    })?;
    let Taken { sorter, rejects, mut metadata, explained, .. } = taken;
    metadata.decisions.extend(remarks::decisions(&shared, &options.hints.zone));
    drop(shared);
    let sorted = sorter.finish()?;
    let keep_scenario = options.hints.map.iter().any(|(field, _)| *field == "scenario");
    let (quality, merged) =
        write_rows(&sorted, &options.spill_folder, keep_scenario, &mut metadata.decisions, sink)?;
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
    Ok(Ingested { metadata, quality, explained })
}

/// The drafts of a sort, unpacked.
struct Drafts<'s> {
    rows: MergedBytes<'s>,
    names: Names,
    folder: &'s Path,
}

impl<'s> Drafts<'s> {
    fn new(sorted: &'s SortedBytes, folder: &'s Path) -> Result<Self, IngestError> {
        Ok(Self { rows: sorted.iter()?, names: Names::default(), folder })
    }
}

impl Iterator for Drafts<'_> {
    type Item = Result<Draft, IngestError>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = match self.rows.next() {
            Ok(entry) => entry?.1,
            Err(error) => return Some(Err(error)),
        };
        Some(codec::decode(bytes, &mut self.names).ok_or_else(|| IngestError::Spill {
            path: self.folder.to_owned(),
            source: std::io::ErrorKind::InvalidData.into(),
        }))
    }
}

fn rows_of<'s>(
    sorted: &'s SortedBytes,
    folder: &'s Path,
) -> Result<impl Iterator<Item = Result<RequestRecord, IngestError>> + use<'s>, IngestError> {
    Ok(Drafts::new(sorted, folder)?.map(|draft| draft.map(|draft| draft.row)))
}

/// Merges attempts, numbers sessions, and hands the rows on.
fn write_rows(
    sorted: &SortedBytes,
    folder: &Path,
    keep_scenario: bool,
    decisions: &mut Vec<Decision>,
    sink: Sink<'_>,
) -> Result<(Quality, u64), IngestError> {
    let mut counts = SessionCounts::default();
    for row in Attempts::new(rows_of(sorted, folder)?) {
        counts.observe(&row?);
    }
    let mut sessions = counts.finish(keep_scenario);
    let mut quality = Quality::default();
    let mut rows = Attempts::new(rows_of(sorted, folder)?);
    let (mut batch, mut batch_bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().transpose()? {
        let mut row = row;
        sessions.place(&mut row);
        quality.observe(&row);
        batch_bytes += row.weight_bytes();
        batch.push(row);
        if batch_bytes >= BATCH_BYTES {
            sink(std::mem::take(&mut batch))?;
            batch_bytes = 0;
        }
    }
    if !batch.is_empty() {
        sink(batch)?;
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

#[cfg(test)]
mod tests;
