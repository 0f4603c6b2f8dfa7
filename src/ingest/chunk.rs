//! A log as chunks of records, and the plan by which its records are taken out of them.
//!
//! Reading is in order and does as little as it can; [`for_each`] does the rest and may run on any
//! thread: it splits lines, checks UTF-8, removes envelopes, turns rows of CSV into objects. The
//! records and their places do not depend on where chunks begin and end. A record that cannot be
//! read comes with the reason in its place; nothing is left out but blank lines.

use super::container::{document, join, list, rows, scan};
use super::envelope::{Envelope, Layer};
use super::error::IngestError;
use super::format::{Adapter, Input};
use super::lines::{self, LineChunks, MAX_LINE};
use super::loose::FieldError;
use super::rows::{Header, RecordStart, Row, RowChunks, Rows};
use super::source::{Progress, Source};
use super::swallowed;
use crate::domain::convert;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// A part of a log.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Whole lines of JSONL or one-line text logs; split by whoever decodes them.
    Lines {
        /// The lines with their ends.
        bytes: Vec<u8>,
        /// 1-based number of the first.
        line: u64,
        /// Offset of the first byte in the decompressed stream.
        byte: u64,
    },
    /// Rows of CSV.
    Rows {
        /// The header of the file.
        header: Arc<Header>,
        /// The rows with their places.
        rows: Vec<(RecordStart, csv::ByteRecord)>,
    },
    /// Records cut out by the container: elements of arrays, pretty-printed objects, rows of
    /// Parquet, Arrow or SQLite, texts of several lines.
    Records(Vec<Piece>),
}

/// A record cut out by its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// 1-based line where it begins; the row, for binary containers.
    pub line: u64,
    /// Offset of its first byte; `None` for binary containers.
    pub byte: Option<u64>,
    /// The record, or why it is none.
    pub text: Result<String, FieldError>,
}

/// Reads a container in order.
pub trait Chunks {
    /// Returns the next chunk; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is cut or damaged beyond what a record explains.
    fn next_chunk(&mut self) -> Result<Option<Chunk>, IngestError>;

    /// Returns the lines so far, as `wc -l` counts them and a last one without end; rows for
    /// binary containers.
    fn lines(&self) -> u64;
}

/// The container of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One JSON object a line.
    Jsonl,
    /// Lines of text.
    Text,
    /// CSV.
    Csv,
    /// An array, objects over several lines, or documents with a list.
    Json,
    /// Parquet.
    Parquet,
    /// Arrow IPC.
    Arrow,
    /// SQLite.
    Sqlite,
}

/// What becomes of a record that is no JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Texts {
    /// It is refused.
    Refused,
    /// It is a record of text: the log holds such lines beside its JSON.
    Passed,
    /// It is a record of text, and may go on over several lines.
    Joined,
}

/// How the records of a file are read, decided from its sample; shared by the workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The container.
    pub kind: Kind,
    /// What the records are wrapped in.
    pub envelope: Option<Envelope>,
    /// Where the records of a document stand, for [`Kind::Json`].
    pub list: Option<list::ListPath>,
    /// What separates cells, for [`Kind::Csv`].
    pub delimiter: u8,
    /// What becomes of records that are no JSON objects.
    pub texts: Texts,
    /// Longest record, in bytes.
    pub limit: usize,
}

impl Plan {
    /// Makes the plan of a container without envelope.
    pub fn new(kind: Kind) -> Self {
        let texts = if kind == Kind::Text { Texts::Joined } else { Texts::Refused };
        Self { kind, envelope: None, list: None, delimiter: b',', texts, limit: MAX_LINE }
    }

    /// Opens a file to be read by this plan, in chunks of about `chunk_bytes`.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is no container of this kind.
    pub fn open<'p>(
        &self,
        path: &Path,
        adapter: &'p dyn Adapter,
        progress: Progress<'p>,
        chunk_bytes: usize,
    ) -> Result<Box<dyn Chunks + 'p>, IngestError> {
        let opened: Box<dyn Chunks + 'p> = match self.kind {
            Kind::Jsonl | Kind::Text => {
                let source = Source::open(path, progress)?;
                Box::new(LineChunks::new(source, chunk_bytes, self.limit))
            }
            Kind::Csv => {
                let rows = Rows::new(Source::open(path, progress)?, self.delimiter)?;
                return Ok(Box::new(RowChunks::new(rows, chunk_bytes)));
            }
            Kind::Json => {
                let source = Source::open(path, progress)?;
                Box::new(document::Documents::new(source, self.list, chunk_bytes, self.limit))
            }
            Kind::Parquet | Kind::Arrow | Kind::Sqlite => {
                Box::new(rows::TableChunks::open(self, path, progress)?)
            }
        };
        let outermost = self.envelope.as_ref().and_then(|envelope| envelope.layers().first());
        let opened = match outermost {
            Some(layer @ (Layer::Docker | Layer::Cri)) => {
                Box::new(join::Parts::new(opened, *layer, self.limit))
            }
            _ => opened,
        };
        Ok(if self.texts == Texts::Joined {
            Box::new(join::Joined::new(opened, self.clone(), adapter))
        } else {
            opened
        })
    }

    /// Returns a record without its envelope.
    pub fn unwrap<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.envelope.as_ref().map_or(Cow::Borrowed(text), |envelope| envelope.unwrap(text))
    }
}

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// 1-based line; the row, for binary containers.
    pub line: u64,
    /// Offset of its first byte in the decompressed stream.
    pub byte: Option<u64>,
}

/// Receives records.
pub type Receive<'f> = &'f mut dyn FnMut(Place, Result<Input<'_>, FieldError>);

/// Calls `f` for each record of a chunk, with its place: the record, or why it is none.
pub fn for_each(chunk: &Chunk, plan: &Plan, adapter: &dyn Adapter, f: Receive<'_>) {
    match chunk {
        Chunk::Lines { bytes, line, byte } => {
            for_each_line((bytes, *line, *byte), plan.limit, &mut |place, text| match text {
                Ok(text) => give(place, &plan.unwrap(text), plan, f),
                Err(error) => f(place, Err(error)),
            });
        }
        Chunk::Rows { header, rows } => {
            let mut text = String::new();
            let as_rows = adapter.wants_rows();
            let mut give_row = |place: Place, record: &csv::ByteRecord, f: Receive<'_>| match row_of(
                header, record,
            ) {
                Err(error) => f(place, Err(error)),
                Ok(row) if as_rows => f(place, Ok(Input::Csv(row))),
                Ok(row) => {
                    row.write_json(header, &mut text);
                    f(place, Ok(Input::Json(&text)));
                }
            };
            for (start, record) in rows {
                let place = Place { line: start.line, byte: Some(start.byte) };
                let Some(taken) = swallowed::lines(header, *start, record) else {
                    give_row(place, record, f);
                    continue;
                };
                f(place, Err(swallowed::refusal(taken.len())));
                for (line, text) in taken {
                    let place = Place { line, byte: None };
                    match swallowed::record(&text, plan.delimiter) {
                        Some(record) => give_row(place, &record, f),
                        None => f(place, Err(FieldError::new("", "is no row"))),
                    }
                }
            }
        }
        Chunk::Records(pieces) => {
            for piece in pieces {
                let place = Place { line: piece.line, byte: piece.byte };
                match &piece.text {
                    // Whoever joined texts has removed their envelopes.
                    Ok(text) if plan.texts == Texts::Joined => give(place, text, plan, f),
                    Ok(text) => give(place, &plan.unwrap(text), plan, f),
                    Err(error) => f(place, Err(error.clone())),
                }
            }
        }
    }
}

/// Calls `f` for each line of a chunk of lines, blank ones too: its text with the envelope, or why
/// it is none.
pub(super) fn for_each_line(
    (bytes, line, byte): (&[u8], u64, u64),
    limit: usize,
    f: &mut dyn FnMut(Place, Result<&str, FieldError>),
) {
    // Checked once for the whole chunk; only a chunk that is not UTF-8 is checked line by line.
    let whole = simdutf8::basic::from_utf8(bytes).ok();
    let has_holes = memchr::memchr(0, bytes).is_some();
    for part in lines::split(bytes) {
        let place =
            Place { line: line + part.number, byte: Some(byte + convert::count(part.from)) };
        let text = part.bytes.strip_suffix(b"\r").unwrap_or(part.bytes);
        if part.bytes.len() > limit {
            f(place, Err(lines::too_long(limit)));
        } else if has_holes && memchr::memchr(0, text).is_some() {
            f(place, Err(FieldError::new("", "holds NUL bytes")));
        } else {
            let checked = whole.and_then(|whole| whole.get(part.from..part.from + text.len()));
            let checked = checked.or_else(|| simdutf8::basic::from_utf8(text).ok());
            f(place, checked.ok_or_else(|| FieldError::new("", "is not UTF-8")));
        }
    }
}

/// Hands on one record that has no envelope any more.
fn give(place: Place, text: &str, plan: &Plan, f: Receive<'_>) {
    let start = text.trim_start();
    if start.is_empty() {
        return;
    }
    if start.starts_with('{') {
        f(place, Ok(Input::Json(text)));
    } else if is_array(start) {
        for element in scan::elements(start) {
            if element.starts_with('{') {
                f(place, Ok(Input::Json(element)));
            } else {
                f(place, Err(no_object()));
            }
        }
    } else if plan.texts == Texts::Refused {
        f(place, Err(no_object()));
    } else {
        f(place, Ok(Input::Text(text)));
    }
}

/// Whether a text is an array of objects, as collectors batch them, and no time in brackets.
pub(super) fn is_array(text: &str) -> bool {
    text.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with('{'))
}

fn no_object() -> FieldError {
    FieldError::new("", "is not a JSON object")
}

fn row_of<'a>(header: &Header, record: &'a csv::ByteRecord) -> Result<Row<'a>, FieldError> {
    let (found, columns) = (record.len(), header.names().len());
    if found != columns {
        let reason = format!("has {found} fields, the header has {columns}");
        return Err(FieldError::new("", reason));
    }
    Row::new(record).ok_or_else(|| FieldError::new("", "is not UTF-8"))
}
