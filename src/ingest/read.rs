//! Reads the files of an ingest, one after the other, into the sort.
//!
//! For each file: sample, format, adapter, container; its chunks go to the threads, and what comes
//! back is counted and sorted in the order of the file. Rejects are written as they come.

use super::chunk::Plan;
use super::decode::{Decoded, Job};
use super::delays::Delays;
use super::detect;
use super::envelope::Envelope;
use super::error::IngestError;
use super::external::External;
use super::format::{self, Format, Origin};
use super::pool::Pool;
use super::privacy::{Column, Hasher};
use super::sample::Sample;
use super::source::Progress;
use super::{Beside, Options};
use crate::domain::time::WallTime;
use crate::domain::trace::{SourceFile, TraceMetadata};
use std::path::Path;
use std::sync::Arc;

/// What was taken from the files so far.
#[derive(Debug)]
pub(super) struct Taken<'r> {
    pub(super) sorter: External,
    pub(super) beside: Beside<'r>,
    pub(super) metadata: TraceMetadata,
    pub(super) latest: Option<WallTime>,
    pub(super) has_links: bool,
    pub(super) explained: Vec<String>,
    pub(super) origin: Option<Origin>,
}

/// Reads one file.
///
/// # Errors
///
/// If it cannot be read, if its format is not clear, or if its times are of another kind than
/// those of the files before.
pub(super) fn read_file(
    path: &Path,
    options: &Options,
    progress: Progress<'_>,
    pool: &mut Pool,
    taken: &mut Taken<'_>,
) -> Result<(), IngestError> {
    let sample = Sample::read(path)?;
    let detected = detect::detect(&sample, &options.hints)?;
    let (adapter, decisions) = format::make(detected.format, &sample, &options.hints)?;
    let adapter: Arc<dyn format::Adapter> = Arc::from(adapter);
    taken.check_origin(&sample, adapter.origin())?;
    for decision in decisions {
        if !taken.metadata.decisions.contains(&decision) {
            taken.metadata.decisions.push(decision);
        }
    }
    taken.explain(&sample, &detected);
    let file_id = taken.add_file(path, detected.format.as_str(), &options.hasher)?;
    let plan = Arc::new(sample.plan);
    let with_content = taken.beside.contents.is_some();
    let job = Arc::new(Job { file: sample.file, file_id, plan, adapter, with_content });
    let mut chunks = job.plan.open(path, &*job.adapter, progress, options.chunk_bytes)?;
    let mut delays = (detected.format == Format::AiperfSessions).then(Delays::default);
    let mut settle = |decoded: Decoded| match &mut delays {
        Some(delays) => taken.settle(delays.place(decoded)?),
        None => taken.settle(decoded),
    };
    while let Some(chunk) = chunks.next_chunk()? {
        pool.submit(&job, chunk, &mut settle)?;
    }
    pool.drain(&mut settle)?;
    taken.metadata.counts.lines += chunks.lines();
    Ok(())
}

/// Returns the container in words.
fn container(plan: &Plan) -> String {
    let layers = plan.envelope.iter().flat_map(Envelope::layers);
    let layers: Vec<String> = layers.map(|layer| format!("in {layer:?}")).collect();
    [vec![format!("{:?}", plan.kind)], layers].concat().join(" ").to_lowercase()
}

impl Taken<'_> {
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

    fn explain(&mut self, sample: &Sample, detected: &detect::Detected) {
        let file = &sample.file;
        self.explained.push(format!("{file}: {} ({})", detected.format, container(&sample.plan)));
        self.explained.extend(detected.why.iter().map(|why| format!("{file}:   {why}")));
    }

    fn add_file(&mut self, path: &Path, format: &str, hasher: &Hasher) -> Result<u32, IngestError> {
        let files = &mut self.metadata.files;
        let file_id = u32::try_from(files.len()).map_err(|_| IngestError::TooManyFiles)?;
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let hash = hasher.hash(Column::File, &name);
        files.push(SourceFile {
            name_hash: hash.map(Hasher::hex).unwrap_or_default(),
            format: format.to_owned(),
            records: 0,
        });
        Ok(file_id)
    }

    /// Counts what became of a chunk, and sorts its rows.
    fn settle(&mut self, decoded: Decoded) -> Result<(), IngestError> {
        let counts = &mut self.metadata.counts;
        counts.read += decoded.read;
        counts.kept += decoded.kept;
        for (reason, count) in decoded.dropped {
            *counts.dropped.entry(reason.to_owned()).or_insert(0) += count;
        }
        let file = usize::try_from(decoded.file_id).ok();
        if let Some(file) = file.and_then(|file| self.metadata.files.get_mut(file)) {
            file.records += decoded.read;
        }
        self.latest = self.latest.max(decoded.latest);
        self.has_links |= decoded.has_links;
        if let Some(contents) = &mut self.beside.contents {
            contents.append(&decoded.contents)?;
        }
        for (at, error) in &decoded.rejects {
            self.beside.rejects.add(at, error)?;
        }
        let mut from = 0;
        for (key, to) in decoded.index {
            self.sorter.push(key, decoded.rows.get(from..to).unwrap_or_default())?;
            from = to;
        }
        decoded.stop.map_or(Ok(()), Err)
    }
}
