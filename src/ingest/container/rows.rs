//! Rows of binary containers as chunks: Parquet, Arrow and SQLite.
//!
//! Each row is a JSON object; its place is its number, from 1. A row above the limit is refused.

use super::super::chunk::{Chunk, Chunks, Kind, Piece, Plan};
use super::super::error::IngestError;
use super::super::lines::too_long;
use super::super::loose::FieldError;
use super::super::source::Progress;
use super::sqlite::Database;
use crate::table::records::RecordFile;
use std::path::Path;

/// Some rows, each a JSON object or why it is none.
pub type SomeRows = Vec<Result<String, FieldError>>;

/// Gives rows in order.
pub trait RowSource {
    /// Returns the next rows; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    fn next_rows(&mut self) -> Result<Option<SomeRows>, IngestError>;
}

impl RowSource for RecordFile {
    fn next_rows(&mut self) -> Result<Option<SomeRows>, IngestError> {
        Ok(Self::next_rows(self)?.map(|rows| rows.into_iter().map(Ok).collect()))
    }
}

/// The chunks of one table.
pub struct TableChunks<'p> {
    rows: Box<dyn RowSource>,
    progress: Progress<'p>,
    /// Bytes on disk, reported with the first rows.
    bytes: u64,
    read: u64,
    limit: usize,
}

impl std::fmt::Debug for TableChunks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableChunks").field("read", &self.read).finish_non_exhaustive()
    }
}

impl<'p> TableChunks<'p> {
    /// Opens the table of a file, as the plan says.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is damaged, or has no one table.
    pub fn open(plan: &Plan, path: &Path, progress: Progress<'p>) -> Result<Self, IngestError> {
        let rows: Box<dyn RowSource> = match plan.kind {
            Kind::Parquet => Box::new(RecordFile::parquet(path)?),
            Kind::Arrow => Box::new(RecordFile::arrow(path)?),
            _ => Box::new(Database::open(path)?),
        };
        let bytes = path.metadata().map_or(0, |found| found.len());
        Ok(Self { rows, progress, bytes, read: 0, limit: plan.limit })
    }
}

impl Chunks for TableChunks<'_> {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, IngestError> {
        (self.progress)(std::mem::take(&mut self.bytes));
        let Some(rows) = self.rows.next_rows()? else { return Ok(None) };
        let mut pieces = Vec::with_capacity(rows.len());
        for row in rows {
            self.read += 1;
            let text = match row {
                Ok(text) if text.len() > self.limit => Err(too_long(self.limit)),
                other => other,
            };
            pieces.push(Piece { line: self.read, byte: None, text });
        }
        Ok(Some(Chunk::Records(pieces)))
    }

    fn lines(&self) -> u64 {
        self.read
    }
}
