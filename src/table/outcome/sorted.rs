//! Outcomes in order of `request_id`, however many there are.
//!
//! Outcomes come in order of completion. They are sorted in memory up to [`MAX_HELD`]; beyond it,
//! sorted runs go to `requests.sort-N.partial` beside the forerunner and are merged. The runs are
//! removed when the iterator is dropped.

use super::columns;
use crate::domain::outcome::RequestOutcome;
use crate::table::error::TableError;
use crate::table::ipc::{Ending, IpcReader, IpcWriter};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

/// Chunks, counting 50 for the outcome itself, that are sorted in memory; about 64 MB.
const MAX_HELD: usize = 8_000_000;
/// Outcomes in a batch of a run.
const RUN_BATCH_ROWS: usize = 256;

/// What an outcome counts against the limit.
fn weight(outcome: &RequestOutcome) -> usize {
    50 + outcome.chunks.len()
}

/// One sorted run, read in small batches; the last one was never written.
struct Run {
    stream: Option<IpcReader>,
    batch: std::vec::IntoIter<RequestOutcome>,
}

impl Run {
    fn next(&mut self) -> Option<Result<RequestOutcome, TableError>> {
        loop {
            if let Some(outcome) = self.batch.next() {
                return Some(Ok(outcome));
            }
            let stream = self.stream.as_mut()?;
            let batch = stream.next_batch()?;
            match batch.and_then(|batch| columns::decode_both(stream.path(), &batch)) {
                Ok(outcomes) => self.batch = outcomes.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Yields outcomes in order of `request_id`.
pub(super) struct Sorted {
    runs: Vec<Run>,
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: Vec<Option<RequestOutcome>>,
    spilled: Vec<PathBuf>,
}

impl Sorted {
    /// Reads the whole stream and sorts it; runs that do not fit go to `dir`.
    pub(super) fn new(dir: &Path, stream: IpcReader) -> Result<Self, TableError> {
        Self::with_limit(dir, stream, MAX_HELD)
    }

    fn with_limit(dir: &Path, mut stream: IpcReader, limit: usize) -> Result<Self, TableError> {
        let mut sorted = Self {
            runs: Vec::new(),
            heads: BinaryHeap::new(),
            waiting: Vec::new(),
            spilled: Vec::new(),
        };
        let (mut held, mut held_weight) = (Vec::new(), 0);
        while let Some(batch) = stream.next_batch() {
            let outcomes = columns::decode_both(stream.path(), &batch?)?;
            held_weight += outcomes.iter().map(weight).sum::<usize>();
            held.extend(outcomes);
            if held_weight > limit {
                sorted.spill(dir, std::mem::take(&mut held))?;
                held_weight = 0;
            }
        }
        held.sort_by_key(|outcome| outcome.request_id);
        sorted.runs.push(Run { stream: None, batch: held.into_iter() });
        for run in 0..sorted.runs.len() {
            sorted.waiting.push(None);
            sorted.advance(run)?;
        }
        Ok(sorted)
    }

    fn spill(&mut self, dir: &Path, mut held: Vec<RequestOutcome>) -> Result<(), TableError> {
        held.sort_by_key(|outcome| outcome.request_id);
        let path = dir.join(format!("requests.sort-{}.partial", self.spilled.len()));
        self.spilled.push(path.clone());
        let mut run = IpcWriter::create(&path, &columns::schema())?;
        for outcomes in held.chunks(RUN_BATCH_ROWS) {
            run.write(&columns::encode_both(&path, outcomes)?)?;
        }
        run.finish()?;
        let stream = Some(IpcReader::open(&path, Ending::Whole)?);
        self.runs.push(Run { stream, batch: Vec::new().into_iter() });
        Ok(())
    }

    /// Puts the next outcome of a run on the heap.
    fn advance(&mut self, run: usize) -> Result<(), TableError> {
        if let Some(outcome) = self.runs[run].next().transpose()? {
            self.heads.push(Reverse((outcome.request_id, run)));
            self.waiting[run] = Some(outcome);
        }
        Ok(())
    }
}

impl Iterator for Sorted {
    type Item = Result<RequestOutcome, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((_, run)) = self.heads.pop()?;
        let outcome = self.waiting[run].take()?;
        Some(self.advance(run).map(|()| outcome))
    }
}

impl Drop for Sorted {
    fn drop(&mut self) {
        for path in &self.spilled {
            // A run that stays behind is replaced by the next sort.
            drop(std::fs::remove_file(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::samples::Draw;

    #[test]
    fn runs_on_disk_merge_into_the_same_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stream");
        let ids: Vec<u64> = (0..2_000).map(|at| at * 7_919 % 2_000).collect();
        let mut outcomes = Draw::new(5).outcomes(&ids);
        let mut stream = IpcWriter::create(&path, &columns::schema()).unwrap();
        for outcomes in outcomes.chunks(100) {
            stream.write(&columns::encode_both(&path, outcomes).unwrap()).unwrap();
        }
        stream.finish().unwrap();
        outcomes.sort_by_key(|outcome| outcome.request_id);
        for limit in [0, 30_000, MAX_HELD] {
            let stream = IpcReader::open(&path, Ending::Whole).unwrap();
            let sorted = Sorted::with_limit(dir.path(), stream, limit).unwrap();
            assert_eq!(sorted.spilled.is_empty(), limit == MAX_HELD);
            let read: Vec<_> = sorted.map(Result::unwrap).collect();
            assert!(read == outcomes, "limit {limit}");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "runs are removed");
        }
    }
}
