//! Arrow IPC streams: files that can be read up to their last whole batch.
//!
//! They serve where Parquet cannot: outcomes during a run (a Parquet file without its footer
//! cannot be read) and the sorted runs of an external sort (read in small batches).

#![expect(clippy::disallowed_methods, reason = "temporary files are read and written here")]

use super::error::TableError;
use arrow::datatypes::Schema;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

/// Writes a stream.
pub(super) struct IpcWriter {
    path: PathBuf,
    stream: StreamWriter<BufWriter<File>>,
}

impl std::fmt::Debug for IpcWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IpcWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl IpcWriter {
    /// Creates or replaces the file.
    pub(super) fn create(path: &Path, schema: &Schema) -> Result<Self, TableError> {
        let file = File::create(path).map_err(|source| TableError::io(path, "create", source))?;
        let stream = StreamWriter::try_new_buffered(file, schema)
            .map_err(|source| TableError::columns(path, "write", source))?;
        let mut writer = Self { path: path.to_owned(), stream };
        writer.flush()?;
        Ok(writer)
    }

    /// Writes one batch; it is in the file after [`IpcWriter::flush`].
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        self.stream.write(batch).map_err(|source| TableError::columns(&self.path, "write", source))
    }

    /// Hands everything written so far to the operating system.
    pub(super) fn flush(&mut self) -> Result<(), TableError> {
        self.stream.flush().map_err(|source| TableError::columns(&self.path, "write", source))
    }

    /// Writes the end mark.
    pub(super) fn finish(mut self) -> Result<(), TableError> {
        self.stream
            .finish()
            .and_then(|()| self.stream.flush())
            .map_err(|source| TableError::columns(&self.path, "write", source))
    }
}

/// Whether a stream that breaks off is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It must have its end mark.
    Whole,
    /// Its writer was killed: the first thing that cannot be read is the end.
    MayBreakOff,
}

/// Reads a stream batch by batch.
pub(super) struct IpcReader {
    path: PathBuf,
    ending: Ending,
    stream: Option<StreamReader<BufReader<File>>>,
}

impl std::fmt::Debug for IpcReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IpcReader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl IpcReader {
    /// Opens a stream.
    pub(super) fn open(path: &Path, ending: Ending) -> Result<Self, TableError> {
        let file = File::open(path).map_err(|source| TableError::io(path, "read", source))?;
        let stream = match StreamReader::try_new_buffered(file, None) {
            Ok(stream) => Some(stream),
            Err(_) if ending == Ending::MayBreakOff => None,
            Err(source) => return Err(TableError::columns(path, "read", source)),
        };
        Ok(Self { path: path.to_owned(), ending, stream })
    }

    /// Returns the path of the stream.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the next batch.
    pub(super) fn next_batch(&mut self) -> Option<Result<RecordBatch, TableError>> {
        match self.stream.as_mut()?.next()? {
            Ok(batch) => Some(Ok(batch)),
            Err(source) => {
                self.stream = None;
                let whole = self.ending == Ending::Whole;
                whole.then(|| Err(TableError::columns(&self.path, "read", source)))
            }
        }
    }
}
