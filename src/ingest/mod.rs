//! Gateway logs -> rows of a trace: read, told apart, decoded, sorted, put into calls and sessions.
//!
//! One stream with bounded memory: chunks of records are decoded by several threads ([`pool`],
//! [`decode`]), sorted by arrival through spilled runs ([`external`]), records of one call are put
//! together ([`calls`]), sessions found ([`sessions`]), and rows handed on in batches in order of
//! arrival. Identifiers become keyed hashes on the way in ([`privacy`]); texts of prompts and
//! answers are never kept. Every record read is kept, merged, dropped for a named reason, or
//! rejected into a file ([`diagnostic`]).

pub mod calls;
pub mod chunk;
pub mod codec;
pub mod container;
pub mod content;
pub mod contents;
pub mod decode;
mod delays;
pub mod detect;
pub mod diagnostic;
pub mod envelope;
pub mod error;
pub mod external;
pub mod filter;
pub mod format;
pub mod inputs;
pub mod lines;
pub mod loose;
pub mod models;
pub mod pick;
pub mod pool;
pub mod privacy;
pub mod quality;
mod read;
mod remarks;
pub mod rows;
pub mod sample;
pub mod sessions;
pub mod source;
pub mod stamp;
mod swallowed;
pub mod ticks;

pub use contents::Contents;
pub use diagnostic::{RejectReason, Rejects};
pub use error::IngestError;
pub use filter::Filter;
pub use format::{Format, Hints, Zone};
pub use quality::Quality;

use crate::domain::convert;
use crate::domain::record::RequestRecord;
use crate::domain::time::WallTime;
use crate::domain::trace::TraceMetadata;
use calls::Calls;
use codec::Names;
use external::{External, MergedBytes, SortedBytes};
use filter::Sieve;
use format::{Draft, Shared};
use models::Models;
use privacy::Hasher;
use read::{Taken, read_file};
use sessions::{Linker, Sessions};
use source::Progress;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use ticks::Ticks;

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
    /// Which rows go into the trace.
    pub filter: Filter,
    /// Whether the hashes of the prompts' blocks go into the trace.
    pub prefix_hashes: bool,
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
    /// The same by model.
    pub models: Models,
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

/// The files beside a trace.
#[derive(Debug)]
pub struct Beside<'f> {
    /// Records that could not be read.
    pub rejects: &'f mut Rejects,
    /// Kept records as they stand, where the user asks for them.
    pub contents: Option<&'f mut Contents>,
}

impl<'f> From<&'f mut Rejects> for Beside<'f> {
    fn from(rejects: &'f mut Rejects) -> Self {
        Self { rejects, contents: None }
    }
}

/// Receives batches of rows in order of arrival.
pub type Sink<'s> = &'s mut dyn FnMut(Vec<RequestRecord>) -> Result<(), IngestError>;

/// Reads logs into one trace.
///
/// Rows go to `sink` in order of arrival, what is no row to the files `beside`.
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
    beside: Beside<'_>,
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
        beside,
        metadata,
        latest: None,
        has_links: false,
        explained: Vec::new(),
        origin: None,
    };
    let shared = || Shared::new(options.hasher.clone(), options.hints.zone.clone());
    let ((), shared) = pool::with_pool(options.threads, shared, |pool| {
        inputs.iter().try_for_each(|path| read_file(path, options, progress, pool, &mut taken))
    })?;
    let Taken { sorter, beside, mut metadata, explained, latest, has_links, .. } = taken;
    metadata.decisions.extend(remarks::decisions(&shared, &options.hints.zone));
    drop(shared);
    let sorted = sorter.finish()?;
    let found = Found { sorted, latest, has_links };
    let (quality, models) = write_rows(&found, options, &mut metadata, sink)?;
    metadata.counts.rejected = beside.rejects.total();
    let counts = &metadata.counts;
    assert!(counts.add_up(), "read = kept + merged + dropped + rejected");
    if counts.kept == 0 {
        return Err(IngestError::NoRows {
            read: counts.read,
            dropped: counts.dropped.values().sum(),
            reasons: reasons(&counts.dropped),
            rejected: counts.rejected,
        });
    }
    Ok(Ingested { metadata, quality, models, explained })
}

/// Returns the reasons with their counts, as in `no_time 3, probe 1`.
pub fn reasons(dropped: &BTreeMap<String, u64>) -> String {
    let reasons: Vec<String> =
        dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    reasons.join(", ")
}

/// The drafts of a sort, unpacked.
struct Drafts<'s> {
    rows: MergedBytes<'s>,
    names: Names,
    folder: &'s Path,
}

impl<'s> Drafts<'s> {
    fn new(sorted: &'s SortedBytes, folder: &'s Path) -> Result<Self, IngestError> {
        Ok(Self { rows: sorted.entries()?, names: Names::default(), folder })
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

/// What was read, in order of arrival.
struct Found {
    sorted: SortedBytes,
    /// The latest arrival.
    latest: Option<WallTime>,
    /// Whether a row shows something by which it could belong to a session.
    has_links: bool,
}

/// The first pass: finds the sessions of the rows that the filter keeps.
fn find_sessions(found: &Found, options: &Options) -> Result<Sessions, IngestError> {
    let folder = &options.spill_folder;
    let mut linker = Linker::new(options, folder);
    if found.has_links {
        let mut sieve = Sieve::new(&options.filter, found.latest);
        let mut row_id = 0;
        for draft in Calls::new(Drafts::new(&found.sorted, folder)?) {
            let draft = draft?;
            if sieve.keep(&draft.row) {
                linker.observe(&draft, row_id)?;
                row_id += 1;
            }
        }
    }
    linker.finish()
}

/// Puts calls and sessions together, leaves out what the filter does not want, and hands the rows
/// on.
///
/// Two passes: the first finds the sessions, the second writes the rows.
fn write_rows(
    found: &Found,
    options: &Options,
    metadata: &mut TraceMetadata,
    sink: Sink<'_>,
) -> Result<(Quality, Models), IngestError> {
    let sessions = find_sessions(found, options)?;
    let mut sieve = Sieve::new(&options.filter, found.latest);
    let mut placer = sessions.placer()?;
    let (mut quality, mut models, mut ticks) =
        (Quality::default(), Models::default(), Ticks::default());
    let mut calls = Calls::new(Drafts::new(&found.sorted, &options.spill_folder)?);
    let (mut batch, mut batch_bytes) = (Vec::new(), 0);
    while let Some(mut draft) = calls.next().transpose()? {
        if !sieve.keep(&draft.row) {
            continue;
        }
        placer.place(&mut draft)?;
        let mut row = *draft.row;
        if !options.prefix_hashes {
            row.prefix_block_hashes = Vec::new();
            (row.prefix_block_size, row.prefix_hash_scope) = (None, None);
        }
        ticks.observe(&row);
        quality.observe(&row);
        models.observe(&row);
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
    calls.counts().settle(&mut metadata.counts);
    let (dropped, decisions) = sieve.finish();
    metadata.counts.kept -= filter::total(&dropped);
    for (reason, count) in dropped {
        *metadata.counts.dropped.entry(reason.to_owned()).or_insert(0) += count;
    }
    metadata.decisions.extend(decisions);
    metadata.decisions.extend(placer.report());
    metadata.decisions.extend(calls.counts().decisions());
    metadata.decisions.extend(ticks.decision());
    Ok((quality, models))
}

#[cfg(test)]
mod tests;
