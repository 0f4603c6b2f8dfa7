//! Sorts byte strings by key with bounded memory.
//!
//! Entries gather in one arena with an index of keys; a full arena is sorted and spilled to a
//! temporary file, and reading merges the files, at most [`MAX_RUNS`] at once, with what is still in
//! memory. Equal keys keep the order in which they were pushed. The result does not depend on the
//! budget. Files are removed with the result.

#![expect(clippy::disallowed_methods, reason = "sorted runs are spilled here")]

use super::error::IngestError;
use crate::domain::convert;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What is sorted by, compared from the first number on.
pub type Key = [u64; 3];

/// Runs merged at once: each has an open file and a block in memory.
pub const MAX_RUNS: usize = 64;
/// Bytes of a run's file read or written at once.
const BLOCK: usize = 256 * 1024;
/// Longest entry, in bytes; more is damage.
const MAX_ENTRY: usize = 1 << 30;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    from: usize,
    to: usize,
}

/// Takes entries in any order.
#[derive(Debug)]
pub struct External {
    arena: Vec<u8>,
    index: Vec<Entry>,
    budget: usize,
    parent: PathBuf,
    folder: Option<TempDir>,
    runs: Vec<PathBuf>,
    written: u64,
}

impl External {
    /// Makes a sorter that spills into a new folder below `parent` before entries in memory take
    /// more than `budget_bytes`; one entry always fits.
    pub fn new(parent: &Path, budget_bytes: usize) -> Self {
        Self {
            arena: Vec::new(),
            index: Vec::new(),
            budget: budget_bytes,
            parent: parent.to_owned(),
            folder: None,
            runs: Vec::new(),
            written: 0,
        }
    }

    /// Takes an entry.
    ///
    /// # Errors
    ///
    /// If a full arena cannot be spilled.
    pub fn push(&mut self, key: Key, bytes: &[u8]) -> Result<(), IngestError> {
        let held = self.arena.len() + self.index.len() * size_of::<Entry>();
        if !self.index.is_empty() && held + bytes.len() + size_of::<Entry>() > self.budget {
            self.spill()?;
        }
        let from = self.arena.len();
        self.arena.extend_from_slice(bytes);
        self.index.push(Entry { key, from, to: self.arena.len() });
        Ok(())
    }

    /// Returns the sorted entries.
    ///
    /// # Errors
    ///
    /// If there are so many runs that some are merged into larger ones, and that fails.
    pub fn finish(mut self) -> Result<SortedBytes, IngestError> {
        self.index.sort_by_key(|entry| entry.key);
        while self.runs.len() > MAX_RUNS {
            let first: Vec<PathBuf> = self.runs.drain(..MAX_RUNS).collect();
            let path = self.next_run();
            let mut run = RunWriter::create(&path)?;
            let mut merged = MergedBytes::new(&first, &[], &[])?;
            while let Some((key, bytes)) = merged.next()? {
                run.push(key, bytes)?;
            }
            run.finish()?;
            for old in first {
                std::fs::remove_file(&old)
                    .map_err(|source| IngestError::Unwritable { path: old.clone(), source })?;
            }
            // In front: equal keys keep their order.
            self.runs.insert(0, path);
        }
        let Self { arena, index, runs, folder, .. } = self;
        Ok(SortedBytes { arena, index, runs, _folder: folder })
    }

    fn next_run(&mut self) -> PathBuf {
        let folder = self.folder.as_ref().map_or(self.parent.as_path(), TempDir::path);
        let path = folder.join(format!("run-{}", self.written));
        self.written += 1;
        path
    }

    fn spill(&mut self) -> Result<(), IngestError> {
        self.index.sort_by_key(|entry| entry.key);
        if self.folder.is_none() {
            let made = tempfile::Builder::new().prefix(".tracewright-").tempdir_in(&self.parent);
            let unwritable = |source| IngestError::Unwritable { path: self.parent.clone(), source };
            self.folder = Some(made.map_err(unwritable)?);
        }
        let path = self.next_run();
        let mut run = RunWriter::create(&path)?;
        for entry in &self.index {
            run.push(entry.key, self.arena.get(entry.from..entry.to).unwrap_or_default())?;
        }
        run.finish()?;
        self.runs.push(path);
        self.index.clear();
        self.arena.clear();
        Ok(())
    }
}

struct RunWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl RunWriter {
    fn create(path: &Path) -> Result<Self, IngestError> {
        let file = File::create(path)
            .map_err(|source| IngestError::Unwritable { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file: BufWriter::with_capacity(BLOCK, file) })
    }

    fn push(&mut self, key: Key, bytes: &[u8]) -> Result<(), IngestError> {
        let unwritable = |source| IngestError::Unwritable { path: self.path.clone(), source };
        for part in key {
            self.file.write_all(&part.to_le_bytes()).map_err(unwritable)?;
        }
        self.file.write_all(&convert::count(bytes.len()).to_le_bytes()).map_err(unwritable)?;
        self.file.write_all(bytes).map_err(unwritable)
    }

    fn finish(mut self) -> Result<(), IngestError> {
        self.file.flush().map_err(|source| IngestError::Unwritable { path: self.path, source })
    }
}

struct RunReader {
    path: PathBuf,
    file: BufReader<File>,
    entry: Vec<u8>,
    left: u64,
}

impl RunReader {
    fn open(path: &Path) -> Result<Self, IngestError> {
        let unreadable = |source| IngestError::Spill { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let left = file.metadata().map_err(unreadable)?.len();
        let file = BufReader::with_capacity(BLOCK, file);
        Ok(Self { path: path.to_owned(), file, entry: Vec::new(), left })
    }

    /// Reads the next entry into `self.entry` and returns its key.
    fn advance(&mut self) -> Result<Option<Key>, IngestError> {
        if self.left == 0 {
            return Ok(None);
        }
        let Self { file, entry, left, path } = self;
        let unreadable = |source| IngestError::Spill { path: path.clone(), source };
        let mut number = || {
            let mut bytes = [0; 8];
            file.read_exact(&mut bytes).map(|()| u64::from_le_bytes(bytes)).map_err(unreadable)
        };
        let key = [number()?, number()?, number()?];
        let length = number()?;
        let room = convert::index(length).filter(|length| *length <= MAX_ENTRY);
        let Some(room) = room else {
            return Err(unreadable(std::io::ErrorKind::InvalidData.into()));
        };
        entry.resize(room, 0);
        file.read_exact(entry).map_err(unreadable)?;
        *left = left.saturating_sub(32 + length);
        Ok(Some(key))
    }
}

/// Sorted entries, in memory and in spilled runs; the runs are removed with it.
#[derive(Debug)]
pub struct SortedBytes {
    arena: Vec<u8>,
    index: Vec<Entry>,
    runs: Vec<PathBuf>,
    _folder: Option<TempDir>,
}

impl SortedBytes {
    /// Returns the entries in order; may be called again.
    ///
    /// # Errors
    ///
    /// If a spilled run cannot be opened or read.
    pub fn entries(&self) -> Result<MergedBytes<'_>, IngestError> {
        MergedBytes::new(&self.runs, &self.arena, &self.index)
    }
}

/// The merged entries of all runs.
pub struct MergedBytes<'a> {
    readers: Vec<RunReader>,
    arena: &'a [u8],
    index: std::slice::Iter<'a, Entry>,
    held: Option<Entry>,
    /// The run behind the entry handed out last: it moves on first.
    moving: Option<usize>,
    heap: BinaryHeap<Reverse<(Key, usize)>>,
}

impl std::fmt::Debug for MergedBytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergedBytes").field("runs", &self.readers.len()).finish_non_exhaustive()
    }
}

impl<'a> MergedBytes<'a> {
    fn new(runs: &[PathBuf], arena: &'a [u8], index: &'a [Entry]) -> Result<Self, IngestError> {
        let readers = runs.iter().map(|run| RunReader::open(run)).collect::<Result<Vec<_>, _>>()?;
        let mut merged = Self {
            readers,
            arena,
            index: index.iter(),
            held: None,
            moving: None,
            heap: BinaryHeap::new(),
        };
        for run in 0..=merged.readers.len() {
            merged.advance(run)?;
        }
        Ok(merged)
    }

    fn advance(&mut self, run: usize) -> Result<(), IngestError> {
        let key = if let Some(reader) = self.readers.get_mut(run) {
            reader.advance()?
        } else {
            self.held = self.index.next().copied();
            self.held.map(|entry| entry.key)
        };
        if let Some(key) = key {
            self.heap.push(Reverse((key, run)));
        }
        Ok(())
    }

    /// Returns the next entry, or `None` at the end.
    ///
    /// # Errors
    ///
    /// If a spilled run cannot be read.
    #[expect(clippy::should_implement_trait, reason = "an entry is lent until the next call")]
    pub fn next(&mut self) -> Result<Option<(Key, &[u8])>, IngestError> {
        if let Some(run) = self.moving.take() {
            self.advance(run)?;
        }
        let Some(Reverse((key, run))) = self.heap.pop() else { return Ok(None) };
        self.moving = Some(run);
        let bytes = match (self.readers.get(run), self.held) {
            (Some(reader), _) => &reader.entry,
            (None, Some(entry)) => self.arena.get(entry.from..entry.to).unwrap_or_default(),
            (None, None) => &[],
        };
        Ok(Some((key, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(entries: &[(Key, Vec<u8>)], budget: usize) -> (Vec<(Key, Vec<u8>)>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = External::new(folder.path(), budget);
        for (key, bytes) in entries {
            sorter.push(*key, bytes).unwrap();
        }
        let sorted = sorter.finish().unwrap();
        let mut read = Vec::new();
        for _ in 0..2 {
            read.clear();
            let mut merged = sorted.entries().unwrap();
            while let Some((key, bytes)) = merged.next().unwrap() {
                read.push((key, bytes.to_vec()));
            }
        }
        let runs = sorted.runs.len();
        drop(sorted);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "runs are removed");
        (read, runs)
    }

    #[test]
    fn any_budget_gives_the_same_order() {
        let entries: Vec<(Key, Vec<u8>)> = (0..1_000_u64)
            .map(|n| {
                (
                    [n * 7_919 % 97, n % 3, 0],
                    n.to_le_bytes()[..usize::try_from(n % 9).unwrap()].to_vec(),
                )
            })
            .collect();
        let mut expected = entries.clone();
        expected.sort_by_key(|(key, _)| *key);
        for (budget, runs) in [(1 << 20, 0), (20_000, 2), (1, 64), (500, 64)] {
            let (read, found) = sorted(&entries, budget);
            assert!(read == expected, "budget {budget}");
            assert!(found <= MAX_RUNS && (found > 0) == (runs > 0), "budget {budget}: {found}");
        }
        assert_eq!(sorted(&[], 10).0, []);
    }

    #[test]
    fn a_damaged_run_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let mut run = RunWriter::create(&path).unwrap();
        run.push([1, 2, 3], b"entry").unwrap();
        run.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for cut in 1..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let found = RunReader::open(&path).unwrap().advance();
            assert!(matches!(found, Err(IngestError::Spill { .. })), "{cut}");
        }
    }
}
