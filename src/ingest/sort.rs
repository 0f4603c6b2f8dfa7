//! Sorts the rows of a trace by arrival, then file, then line, with bounded memory.
//!
//! Rows gather in runs; a full run is sorted and spilled to a temporary folder, and reading merges
//! the runs. The result does not depend on the size of a run. Rows without times keep the order of
//! the files. Most logs are written at the end of a request, so file order is never trusted.

use super::error::IngestError;
use crate::domain::record::RequestRecord;
use crate::domain::time::WallTime;
use crate::table::spill::{RunReader, write_run};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Rows held in memory, about 100 MiB.
pub const RUN_ROWS: usize = 150_000;

/// The order of a trace.
type Order = (Option<WallTime>, u32, Option<u64>);

fn order(record: &RequestRecord) -> Order {
    (record.arrival_time, record.source_file_id, record.source_line)
}

/// Takes rows in any order.
#[derive(Debug)]
pub struct Sorter {
    rows: Vec<RequestRecord>,
    run_rows: usize,
    parent: PathBuf,
    folder: Option<TempDir>,
    runs: Vec<PathBuf>,
}

impl Sorter {
    /// Makes a sorter that spills into a new folder below `parent` when `run_rows` are full.
    pub fn new(parent: &Path, run_rows: usize) -> Self {
        Self {
            rows: Vec::new(),
            run_rows: run_rows.max(1),
            parent: parent.to_owned(),
            folder: None,
            runs: Vec::new(),
        }
    }

    /// Takes a row.
    ///
    /// # Errors
    ///
    /// If a full run cannot be spilled.
    pub fn push(&mut self, row: RequestRecord) -> Result<(), IngestError> {
        if self.rows.len() >= self.run_rows {
            self.spill()?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// Returns the sorted rows.
    pub fn finish(mut self) -> Sorted {
        self.rows.sort_by_key(order);
        Sorted { rows: self.rows, runs: self.runs, _folder: self.folder }
    }

    fn spill(&mut self) -> Result<(), IngestError> {
        self.rows.sort_by_key(order);
        if self.folder.is_none() {
            let made = tempfile::Builder::new().prefix(".tracewright-").tempdir_in(&self.parent);
            let unwritable = |source| IngestError::Unwritable { path: self.parent.clone(), source };
            self.folder = Some(made.map_err(unwritable)?);
        }
        let folder = self.folder.as_ref().map_or(self.parent.as_path(), TempDir::path);
        let path = folder.join(format!("run-{}", self.runs.len()));
        write_run(&path, &self.rows)?;
        self.runs.push(path);
        self.rows.clear();
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
        let mut runs = Vec::new();
        for path in &self.runs {
            runs.push(Run::Spilled(Box::new(RunReader::open(path)?)));
        }
        runs.push(Run::Memory(self.rows.iter()));
        let mut merged = Merged { heads: Vec::new(), heap: BinaryHeap::new(), runs };
        for place in 0..merged.runs.len() {
            merged.heads.push(None);
            merged.advance(place)?;
        }
        Ok(merged)
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

impl Merged<'_> {
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
        let mut sorter = Sorter::new(folder.path(), run_rows);
        for row in rows {
            sorter.push(row).unwrap();
        }
        let sorted = sorter.finish();
        let once: Vec<_> = sorted.rows().unwrap().map(Result::unwrap).collect();
        let again: Vec<_> = sorted.rows().unwrap().map(Result::unwrap).collect();
        assert_eq!(once, again, "may be read twice");
        let runs = sorted.runs.len();
        drop(sorted);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is left behind");
        (once, runs)
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
