//! Sorted runs of an external sort: records written whole and read back in small batches.
//!
//! A run is an Arrow IPC stream with the trace's columns, in batches of at most
//! [`SPILL_BATCH_ROWS`] records and about [`SPILL_BATCH_BYTES`]; its reader holds one batch at a
//! time, so that merging many runs needs little memory. Order is the caller's.

use super::decode::Interner;
use super::error::TableError;
use super::ipc::{Ending, IpcReader, IpcWriter};
use super::schema::TRACE;
use super::trace::{decode, encode};
use crate::domain::record::RequestRecord;
use std::path::{Path, PathBuf};

/// Records that a [`RunReader`] holds at a time.
pub const SPILL_BATCH_ROWS: usize = 1_024;

/// Bytes after which a batch is full, long lists of blocks included.
pub const SPILL_BATCH_BYTES: usize = 1 << 20;

/// Writes one run; replaces the file if there is one.
///
/// # Errors
///
/// If a value does not fit its column, or the system refuses.
pub fn write_run(
    path: &Path,
    records: impl IntoIterator<Item = RequestRecord>,
) -> Result<(), TableError> {
    let mut run = RunWriter::create(path)?;
    for record in records {
        run.push(record)?;
    }
    run.finish()
}

/// Writes one run, record by record.
#[derive(Debug)]
pub struct RunWriter {
    path: PathBuf,
    run: IpcWriter,
    batch: Vec<RequestRecord>,
    bytes: usize,
}

impl RunWriter {
    /// Begins a run; replaces the file if there is one.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn create(path: &Path) -> Result<Self, TableError> {
        let run = IpcWriter::create(path, &TRACE.arrow())?;
        Ok(Self { path: path.to_owned(), run, batch: Vec::new(), bytes: 0 })
    }

    /// Appends a record.
    ///
    /// # Errors
    ///
    /// If a value does not fit its column, or the system refuses.
    pub fn push(&mut self, record: RequestRecord) -> Result<(), TableError> {
        self.bytes += record.weight_bytes();
        self.batch.push(record);
        if self.batch.len() == SPILL_BATCH_ROWS || self.bytes >= SPILL_BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what is left and the end mark.
    ///
    /// # Errors
    ///
    /// As [`RunWriter::push`].
    pub fn finish(mut self) -> Result<(), TableError> {
        if !self.batch.is_empty() {
            self.flush()?;
        }
        self.run.finish()
    }

    fn flush(&mut self) -> Result<(), TableError> {
        self.run.write(&encode(&self.path, &self.batch, 0)?)?;
        self.batch.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Reads the records of one run, in the order they were written.
#[derive(Debug)]
pub struct RunReader {
    run: IpcReader,
    texts: Interner,
    batch: std::vec::IntoIter<RequestRecord>,
}

impl RunReader {
    /// Opens a run.
    ///
    /// # Errors
    ///
    /// If the file is missing or not a run.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let run = IpcReader::open(path, Ending::Whole)?;
        Ok(Self { run, texts: Interner::default(), batch: Vec::new().into_iter() })
    }
}

impl Iterator for RunReader {
    type Item = Result<RequestRecord, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.batch.next() {
                return Some(Ok(record));
            }
            let batch = self.run.next_batch()?;
            match batch.and_then(|batch| decode(self.run.path(), &batch, &mut self.texts)) {
                Ok(records) => self.batch = records.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::samples::Draw;

    #[test]
    fn a_run_keeps_records_and_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run-0");
        for n in [0, 1, SPILL_BATCH_ROWS, SPILL_BATCH_ROWS + 1] {
            let mut records = Draw::new(7).records(n);
            records.reverse();
            write_run(&path, records.clone()).unwrap();
            let read: Vec<_> = RunReader::open(&path).unwrap().map(Result::unwrap).collect();
            assert!(read == records, "{n} records");
        }
    }

    #[test]
    fn a_run_that_breaks_off_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run-0");
        write_run(&path, Draw::new(7).records(50)).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let result: Result<Vec<_>, _> = RunReader::open(&path).and_then(Iterator::collect);
        let text = result.unwrap_err().to_string();
        assert!(text.ends_with("run-0: could not read the columns"), "{text}");
    }
}
