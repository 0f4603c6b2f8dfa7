//! Cuts JSON documents into records: elements of arrays, objects over several lines or one after
//! another, elements of a list inside a document.
//!
//! One pass with bounded memory. Damage costs the record it is in: after an object the next one
//! begins a line, in an array one begins its line in the column of its neighbours. Where a list
//! has all on one line nothing tells where the next record begins, and the ingest stops with the
//! place. A file that ends too early gives a last record with that reason.

use super::super::chunk::{Chunk, Chunks, Piece};
use super::super::error::IngestError;
use super::super::lines::{newlines, too_long};
use super::super::loose::FieldError;
use super::super::source::Source;
use super::list::{ARRAY, ListPath, Step};
use super::scan::{Scanned, ValueScan};
use crate::domain::convert;

/// Most bytes read at once.
const BLOCK: usize = 256 * 1024;

/// An array or object that is gone into.
#[derive(Clone, Copy, Debug)]
struct Frame {
    is_array: bool,
    /// The step of the path that is taken inside.
    step: usize,
    /// The column where elements begin their lines.
    column: Option<u64>,
}

/// How a value ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Cut,
    Broken,
}

/// The records of one file of JSON documents.
#[derive(Debug)]
pub struct Documents<'p> {
    source: Source<'p>,
    list: Option<ListPath>,
    chunk_bytes: usize,
    limit: usize,
    window: Vec<u8>,
    at: usize,
    at_end: bool,
    /// Offset of the byte that is read next, its line (0-based), and where that line begins.
    byte: u64,
    line: u64,
    line_start: u64,
    /// Offset after the last byte that was no white space.
    ink: u64,
    frames: Vec<Frame>,
    path: ListPath,
    list_found: bool,
    record: Vec<u8>,
}

impl<'p> Documents<'p> {
    /// Returns the records of `source`; documents that are objects hold them at `list`, or are
    /// records themselves.
    pub fn new(
        source: Source<'p>,
        list: Option<ListPath>,
        chunk_bytes: usize,
        limit: usize,
    ) -> Self {
        Self {
            source,
            list,
            chunk_bytes,
            limit,
            window: Vec::new(),
            at: 0,
            at_end: false,
            byte: 0,
            line: 0,
            line_start: 0,
            ink: 0,
            frames: Vec::new(),
            path: ARRAY,
            list_found: false,
            record: Vec::new(),
        }
    }

    /// Returns what is read and not yet used; empty at the end.
    fn ahead(&mut self) -> Result<&[u8], IngestError> {
        if self.at == self.window.len() && !self.at_end {
            self.window.resize(self.chunk_bytes.clamp(1, BLOCK), 0);
            let read = self.source.read_block(&mut self.window)?;
            self.window.truncate(read);
            self.at = 0;
            self.at_end = read == 0;
        }
        Ok(self.window.get(self.at..).unwrap_or_default())
    }

    /// Moves over bytes that are ahead.
    fn pass(&mut self, length: usize) {
        let passed = self.window.get(self.at..self.at + length).unwrap_or_default();
        if let Some(last) = memchr::memrchr(b'\n', passed) {
            self.line += newlines(passed);
            self.line_start = self.byte + convert::count(last) + 1;
        }
        self.at += length;
        self.byte += convert::count(length);
    }

    /// Moves over bytes that are no white space.
    fn take(&mut self, length: usize) {
        self.pass(length);
        self.ink = self.byte;
    }

    /// Moves over white space and returns the byte behind it; `None` at the end.
    fn next_byte(&mut self) -> Result<Option<u8>, IngestError> {
        loop {
            let ahead = self.ahead()?;
            if ahead.is_empty() {
                return Ok(None);
            }
            let found = ahead.iter().position(|byte| !byte.is_ascii_whitespace());
            let byte = found.and_then(|found| ahead.get(found).copied());
            let length = found.unwrap_or(ahead.len());
            self.pass(length);
            if byte.is_some() {
                return Ok(byte);
            }
        }
    }

    /// Returns the column of the next byte when it is the first of its line.
    fn column(&self) -> Option<u64> {
        (self.ink <= self.line_start).then(|| self.byte - self.line_start)
    }

    /// Moves over one value, into `record` as far as the limit goes.
    fn value(&mut self) -> Result<(End, usize), IngestError> {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let (mut scan, mut length) = (ValueScan::default(), 0);
        let end = loop {
            let room = (self.limit + 1).saturating_sub(record.len());
            let ahead = self.ahead()?;
            if ahead.is_empty() {
                break if scan.ends_here() { End::Whole } else { End::Cut };
            }
            let (used, end) = match scan.feed(ahead) {
                Scanned::Done(used) => (used, Some(End::Whole)),
                Scanned::More => (ahead.len(), None),
                Scanned::Broken(used) => (used, Some(End::Broken)),
            };
            record.extend_from_slice(ahead.get(..used.min(room)).unwrap_or_default());
            length += used;
            self.take(used);
            if let Some(end) = end {
                break end;
            }
        };
        self.record = record;
        Ok((end, length))
    }

    /// Takes one value as a record.
    fn piece(&mut self) -> Result<Piece, IngestError> {
        let (line, byte) = (self.line + 1, self.byte);
        let (end, length) = self.value()?;
        let refused = |reason: &'static str| Err(FieldError::new("", reason));
        let text = match end {
            End::Whole if length > self.limit => Err(too_long(self.limit)),
            End::Whole => String::from_utf8(std::mem::take(&mut self.record))
                .map_err(|_| FieldError::new("", "is not UTF-8")),
            End::Cut => {
                self.frames.clear();
                refused("ends in the middle of its JSON: the file is cut")
            }
            End::Broken => {
                self.find_next()?;
                refused("is not JSON: a bracket, quote or line end is in the wrong place")
            }
        };
        Ok(Piece { line, byte: Some(byte), text })
    }

    /// After damage: moves to where the next record begins.
    fn find_next(&mut self) -> Result<(), IngestError> {
        let column = match self.frames.last() {
            None => 0,
            Some(Frame { is_array: true, column: Some(column), .. }) => *column,
            Some(_) => return Err(self.broken()),
        };
        loop {
            let Some(byte) = self.next_byte()? else { return Ok(()) };
            let found = match self.column() {
                Some(at) => {
                    (byte == b'{' && at == column)
                        || (byte == b'[' && self.frames.is_empty() && at == column)
                        || (byte == b']' && !self.frames.is_empty() && at <= column)
                }
                None => false,
            };
            if found {
                return Ok(());
            }
            self.skip_line()?;
        }
    }

    /// Moves to the end of the line.
    fn skip_line(&mut self) -> Result<(), IngestError> {
        loop {
            let ahead = self.ahead()?;
            if ahead.is_empty() {
                return Ok(());
            }
            let end = memchr::memchr(b'\n', ahead);
            let length = end.unwrap_or(ahead.len());
            self.take(length);
            if end.is_some() {
                return Ok(());
            }
        }
    }

    fn broken(&self) -> IngestError {
        IngestError::BrokenJson {
            file: self.source.file().clone(),
            line: self.line + 1,
            byte: self.byte,
        }
    }

    fn refused(&self, reason: &'static str) -> Piece {
        let text = Err(FieldError::new("", reason));
        Piece { line: self.line + 1, byte: Some(self.byte), text }
    }

    fn next_piece(&mut self) -> Result<Option<Piece>, IngestError> {
        loop {
            let Some(byte) = self.next_byte()? else {
                let cut = !self.frames.is_empty();
                self.frames.clear();
                return Ok(cut.then(|| self.refused("is missing: the file ends inside its list")));
            };
            let found = match self.frames.last().copied() {
                None => self.at_top(byte)?,
                Some(frame) if frame.is_array => self.in_array(byte, frame)?,
                Some(frame) => self.in_object(byte, frame)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn enter(&mut self, is_array: bool, step: usize) {
        self.take(1);
        self.list_found |= is_array && step + 1 == self.path.len();
        self.frames.push(Frame { is_array, step, column: None });
    }

    /// Between documents.
    fn at_top(&mut self, byte: u8) -> Result<Option<Piece>, IngestError> {
        match (byte, self.list) {
            (b'[', _) => {
                self.path = ARRAY;
                self.enter(true, 0);
                Ok(None)
            }
            (b'{', Some(path)) if matches!(path.first(), Some(Step::Key(_))) => {
                self.path = path;
                self.list_found = false;
                self.enter(false, 0);
                Ok(None)
            }
            (b'{', _) => self.piece().map(Some),
            (b',', _) => {
                self.take(1);
                Ok(None)
            }
            _ => {
                let piece = self.refused("is not a JSON object");
                self.skip_line()?;
                Ok(Some(piece))
            }
        }
    }

    /// Between the elements of an array.
    fn in_array(&mut self, byte: u8, frame: Frame) -> Result<Option<Piece>, IngestError> {
        match byte {
            b']' => {
                self.take(1);
                self.frames.pop();
                Ok(None)
            }
            b',' => {
                self.take(1);
                Ok(None)
            }
            b'{' if frame.step + 1 < self.path.len() => {
                self.enter(false, frame.step + 1);
                Ok(None)
            }
            _ => {
                let column = self.column();
                if let Some(frame) = self.frames.last_mut() {
                    frame.column = column.or(frame.column);
                }
                self.piece().map(Some)
            }
        }
    }

    /// Between the members of an object on the way to the list.
    fn in_object(&mut self, byte: u8, frame: Frame) -> Result<Option<Piece>, IngestError> {
        match byte {
            b'}' => {
                self.take(1);
                self.frames.pop();
                let without = self.frames.is_empty() && !self.list_found;
                return Ok(without.then(|| self.refused("has no list where others have one")));
            }
            b',' => {
                self.take(1);
                return Ok(None);
            }
            b'"' => {}
            _ => return Err(self.broken()),
        }
        match self.value()?.0 {
            End::Whole => {}
            End::Cut => return Ok(None),
            End::Broken => return Err(self.broken()),
        }
        let key = std::mem::take(&mut self.record);
        match self.next_byte()? {
            Some(b':') => self.take(1),
            Some(_) => return Err(self.broken()),
            None => return Ok(None),
        }
        let Some(first) = self.next_byte()? else { return Ok(None) };
        let wanted = match self.path.get(frame.step) {
            Some(Step::Key(name)) => {
                key.strip_prefix(b"\"").and_then(|key| key.strip_suffix(b"\""))
                    == Some(name.as_bytes())
            }
            _ => false,
        };
        match (self.path.get(frame.step + 1), first) {
            (Some(Step::Each), b'[') if wanted => self.enter(true, frame.step + 1),
            (Some(Step::Key(_)), b'{') if wanted => self.enter(false, frame.step + 1),
            _ => {
                if self.value()?.0 == End::Broken {
                    return Err(self.broken());
                }
            }
        }
        Ok(None)
    }
}

impl Chunks for Documents<'_> {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, IngestError> {
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while pieces.is_empty() || bytes < self.chunk_bytes {
            let Some(piece) = self.next_piece()? else { break };
            bytes += piece.text.as_ref().map_or(0, String::len) + std::mem::size_of::<Piece>();
            pieces.push(piece);
        }
        Ok((!pieces.is_empty()).then_some(Chunk::Records(pieces)))
    }

    fn lines(&self) -> u64 {
        self.line + u64::from(self.byte > self.line_start)
    }
}

#[cfg(test)]
mod tests;
