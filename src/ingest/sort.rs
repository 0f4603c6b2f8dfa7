//! Sorts the rows of a trace by arrival, then file, then line, with bounded memory.
//!
//! Rows gather in runs, weighed in bytes since some carry thousands of blocks; a full run is sorted
//! and spilled to a temporary folder, and reading merges the runs, at most [`MAX_RUNS`] at once.
//! The result does not depend on the size of a run. Rows without times keep the order of the
//! files. Most logs are written at the end of a request, so file order is never trusted.

use super::error::IngestError;
use crate::domain::record::RequestRecord;
use crate::domain::time::WallTime;
use crate::table::spill::{RunReader, RunWriter, write_run};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Rows held in memory, in bytes.
pub const RUN_BYTES: usize = 100 << 20;
/// Runs merged at once: each has an open file and a batch of rows in memory.
pub const MAX_RUNS: usize = 64;

/// The order of a trace.
type Order = (Option<WallTime>, u32, Option<u64>);

fn order(record: &RequestRecord) -> Order {
    (record.arrival_time, record.source_file_id, record.source_line)
}

/// Takes rows in any order.
#[derive(Debug)]
pub struct Sorter {
    rows: Vec<RequestRecord>,
    bytes: usize,
    run_bytes: usize,
    parent: PathBuf,
    folder: Option<TempDir>,
    runs: Vec<PathBuf>,
    /// Runs written so far: the number of the next one.
    written: u64,
}

impl Sorter {
    /// Makes a sorter that spills into a new folder below `parent` before the rows in memory take
    /// more than `run_bytes`; one row always fits.
    pub fn new(parent: &Path, run_bytes: usize) -> Self {
        Self {
            rows: Vec::new(),
            bytes: 0,
            run_bytes,
            parent: parent.to_owned(),
            folder: None,
            runs: Vec::new(),
            written: 0,
        }
    }

    /// Takes a row.
    ///
    /// # Errors
    ///
    /// If a full run cannot be spilled.
    pub fn push(&mut self, row: RequestRecord) -> Result<(), IngestError> {
        let weight = row.weight_bytes();
        if !self.rows.is_empty() && self.bytes + weight > self.run_bytes {
            self.spill()?;
        }
        self.bytes += weight;
        self.rows.push(row);
        Ok(())
    }

    /// Returns the sorted rows.
    ///
    /// # Errors
    ///
    /// If there are so many runs that some are merged into larger ones, and that fails.
    pub fn finish(mut self) -> Result<Sorted, IngestError> {
        self.rows.sort_by_key(order);
        while self.runs.len() > MAX_RUNS {
            let first: Vec<PathBuf> = self.runs.drain(..MAX_RUNS).collect();
            let path = self.next_run();
            let mut larger = RunWriter::create(&path)?;
            for row in Merged::new(&first, &[])? {
                larger.push(row?)?;
            }
            larger.finish()?;
            for run in first {
                let unwritable = |source| IngestError::Unwritable { path: run.clone(), source };
                std::fs::remove_file(&run).map_err(unwritable)?;
            }
            self.runs.push(path);
        }
        Ok(Sorted { rows: self.rows, runs: self.runs, _folder: self.folder })
    }

    /// Returns the path of the next run.
    fn next_run(&mut self) -> PathBuf {
        let folder = self.folder.as_ref().map_or(self.parent.as_path(), TempDir::path);
        let path = folder.join(format!("run-{}", self.written));
        self.written += 1;
        path
    }

    fn spill(&mut self) -> Result<(), IngestError> {
        self.rows.sort_by_key(order);
        if self.folder.is_none() {
            let made = tempfile::Builder::new().prefix(".tracewright-").tempdir_in(&self.parent);
            let unwritable = |source| IngestError::Unwritable { path: self.parent.clone(), source };
            self.folder = Some(made.map_err(unwritable)?);
        }
        let path = self.next_run();
        write_run(&path, self.rows.drain(..))?;
        self.runs.push(path);
        self.bytes = 0;
        Ok(())
    }
}

/// Sorted rows, in memory and in spilled runs; the runs are removed with it.
#[derive(Debug)]
pub struct Sorted {
    rows: Vec<RequestRecord>,
    runs: Vec<PathBuf>,
    _folder: Option<TempDir>,
}

impl Sorted {
    /// Returns the rows in order; may be called again.
    ///
    /// # Errors
    ///
    /// If a spilled run cannot be opened or read.
    pub fn rows(&self) -> Result<Merged<'_>, IngestError> {
        Merged::new(&self.runs, &self.rows)
    }
}

enum Run<'a> {
    Memory(std::slice::Iter<'a, RequestRecord>),
    Spilled(Box<RunReader>),
}

/// The merged rows of all runs.
pub struct Merged<'a> {
    runs: Vec<Run<'a>>,
    heads: Vec<Option<RequestRecord>>,
    heap: BinaryHeap<Reverse<(Order, usize)>>,
}

impl std::fmt::Debug for Merged<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merged").field("runs", &self.runs.len()).finish_non_exhaustive()
    }
}

impl<'a> Merged<'a> {
    /// Merges spilled runs and sorted rows.
    fn new(spilled: &[PathBuf], rows: &'a [RequestRecord]) -> Result<Self, IngestError> {
        let mut runs = Vec::new();
        for path in spilled {
            runs.push(Run::Spilled(Box::new(RunReader::open(path)?)));
        }
        runs.push(Run::Memory(rows.iter()));
        let mut merged = Self { heads: Vec::new(), heap: BinaryHeap::new(), runs };
        for place in 0..merged.runs.len() {
            merged.heads.push(None);
            merged.advance(place)?;
        }
        Ok(merged)
    }

    /// Reads the next row of a run.
    fn advance(&mut self, place: usize) -> Result<(), IngestError> {
        let row = match self.runs.get_mut(place) {
            Some(Run::Memory(rows)) => rows.next().cloned(),
            Some(Run::Spilled(reader)) => reader.next().transpose()?,
            None => None,
        };
        if let Some(row) = &row {
            self.heap.push(Reverse((order(row), place)));
        }
        if let Some(head) = self.heads.get_mut(place) {
            *head = row;
        }
        Ok(())
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<RequestRecord, IngestError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((_, place)) = self.heap.pop()?;
        let row = self.heads.get_mut(place)?.take()?;
        match self.advance(place) {
            Ok(()) => Some(Ok(row)),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::convert;
    use crate::domain::record::ROW_BYTES;

    /// Rows out of order, with equal arrivals in and across files.
    fn rows() -> Vec<RequestRecord> {
        (0..1_000_u64)
            .map(|n| {
                let file = u32::try_from(n % 3).unwrap();
                let mut row = RequestRecord::unknown("test".into(), file, n + 1);
                let arrival = i64::try_from(n * 7_919 % 251).unwrap();
                row.arrival_time = Some(WallTime(arrival));
                row
            })
            .collect()
    }

    fn sort(rows: Vec<RequestRecord>, run_rows: usize) -> (Vec<RequestRecord>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(folder.path(), run_rows * ROW_BYTES);
        for row in rows {
            sorter.push(row).unwrap();
        }
        let spilled = convert::index(sorter.written).unwrap();
        let sorted = sorter.finish().unwrap();
        let once: Vec<_> = sorted.rows().unwrap().map(Result::unwrap).collect();
        let again: Vec<_> = sorted.rows().unwrap().map(Result::unwrap).collect();
        assert_eq!(once, again, "may be read twice");
        assert!(sorted.runs.len() <= MAX_RUNS);
        drop(sorted);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is left behind");
        (once, spilled)
    }

    #[test]
    fn the_result_does_not_depend_on_the_size_of_a_run() {
        let (expected, spilled) = sort(rows(), 10_000);
        assert_eq!(spilled, 0);
        assert!(expected.is_sorted_by_key(order));
        assert_eq!(convert::count(expected.len()), 1_000);
        for (run_rows, runs) in [(1, 999), (7, 142), (999, 1), (1_000, 0)] {
            assert_eq!(sort(rows(), run_rows), (expected.clone(), runs), "{run_rows}");
        }
        let reversed: Vec<_> = rows().into_iter().rev().collect();
        assert_eq!(sort(reversed, 64).0, expected, "nor on the order of the input");
    }

    #[test]
    fn long_lists_of_blocks_weigh() {
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(folder.path(), 100_000);
        for mut row in rows().into_iter().take(100) {
            row.prefix_block_hashes = vec![7; 2_000];
            sorter.push(row).unwrap();
        }
        // 16,700 bytes each: 5 rows a run, where 142 without blocks would fit.
        assert_eq!((sorter.written, sorter.rows.len()), (19, 5));
        assert_eq!(sorter.finish().unwrap().rows().unwrap().count(), 100);
    }

    #[test]
    fn no_rows_and_no_times() {
        assert_eq!(sort(Vec::new(), 5).0, Vec::new());
        let mut without = rows();
        for row in &mut without {
            row.arrival_time = None;
        }
        let (sorted, _) = sort(without, 10);
        assert!(sorted.is_sorted_by_key(|row| (row.source_file_id, row.source_line)));
    }
}
