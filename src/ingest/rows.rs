//! Splits a CSV log into records with named columns.
//!
//! Quoted newlines and doubled quotes are handled by the `csv` crate, told that LF alone ends a
//! record: its own CRLF mode gives positions one line early. Positions are the line and byte where
//! a record, or the blank lines before it, begin. A record above the limit stops the ingest: the cause is
//! an open quote that swallows the rest of the file. Records are UTF-8 or refused, one by one.

use super::chunk::{Chunk, Chunks};
use super::error::IngestError;
use super::source::Source;
use crate::domain::convert;
use std::io::{self, Read};
use std::sync::Arc;

/// Longest record, in bytes; see [`super::lines::MAX_LINE`].
pub const MAX_RECORD: u64 = 64 * 1024 * 1024;

/// The column names of a CSV log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    names: Vec<String>,
    /// The names as keys of a JSON object, `None` for a name that came before.
    keys: Vec<Option<String>>,
}

impl Header {
    /// Makes a header of names.
    pub fn new(names: Vec<String>) -> Self {
        let key = |(place, name): (usize, &String)| {
            let before = names.get(..place).unwrap_or_default();
            let key = serde_json::to_string(name).unwrap_or_default();
            (!before.contains(name)).then(|| format!("{key}:"))
        };
        let keys = names.iter().enumerate().map(key).collect();
        Self { names, keys }
    }

    /// Returns the names in file order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the place of a column.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|found| found == name)
    }
}

/// One CSV record: cells by place.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    text: &'a str,
    record: &'a csv::ByteRecord,
}

impl<'a> Row<'a> {
    /// Makes a row of a record that is UTF-8; `None` when it is not.
    pub fn new(record: &'a csv::ByteRecord) -> Option<Self> {
        let text = simdutf8::basic::from_utf8(record.as_slice()).ok()?;
        Some(Self { text, record })
    }

    /// Returns a cell; `None` when it is empty or there is no such column.
    pub fn cell(&self, place: Option<usize>) -> Option<&'a str> {
        let place = place?;
        let mut cell = self.text.get(self.record.range(place)?)?;
        if place + 1 == self.record.len() {
            cell = cell.strip_suffix('\r').unwrap_or(cell);
        }
        Some(cell).filter(|cell| !cell.is_empty())
    }

    /// Returns the cells in order; `None` for empty ones.
    pub fn cells(&self) -> impl Iterator<Item = Option<&'a str>> {
        (0..self.record.len()).map(|place| self.cell(Some(place)))
    }

    /// Writes the row into `text` as a JSON object of texts; empty cells are null.
    ///
    /// Of columns with one name the first counts, as for [`Header::place`].
    pub fn write_json(&self, header: &Header, text: &mut String) {
        text.clear();
        text.push('{');
        for (place, key) in header.keys.iter().enumerate() {
            let Some(key) = key else { continue };
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(key);
            match self.cell(Some(place)) {
                Some(cell) => push_json_text(cell, text),
                None => text.push_str("null"),
            }
        }
        text.push('}');
    }
}

/// Appends a text as a JSON string.
pub fn push_json_text(value: &str, text: &mut String) {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if value.bytes().all(plain) {
        text.push('"');
        text.push_str(value);
        text.push('"');
    } else {
        text.push_str(&serde_json::to_string(value).unwrap_or_default());
    }
}

/// Where a record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordStart {
    /// 1-based line.
    pub line: u64,
    /// Byte in the decompressed stream.
    pub byte: u64,
    /// Whether the file seems to end inside a quote of the record.
    pub open_quote: bool,
}

/// The records of one CSV log.
#[derive(Debug)]
pub struct Rows<'p> {
    reader: csv::Reader<Bounded<'p>>,
    header: Arc<Header>,
    record: csv::ByteRecord,
    file: Arc<str>,
}

impl<'p> Rows<'p> {
    /// Reads the header of an opened source, whose cells are separated by `delimiter`.
    ///
    /// # Errors
    ///
    /// As [`Source::read_block`], or if the header is not UTF-8.
    pub fn new(source: Source<'p>, delimiter: u8) -> Result<Self, IngestError> {
        Self::with_limit(source, delimiter, MAX_RECORD)
    }

    fn with_limit(source: Source<'p>, delimiter: u8, limit: u64) -> Result<Self, IngestError> {
        let file = source.file().clone();
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .terminator(csv::Terminator::Any(b'\n'))
            .buffer_capacity(256 * 1024)
            .from_reader(Bounded {
                source,
                since_record: 0,
                limit,
                newlines: 0,
                unended: false,
                at_end: false,
                odd_quotes: false,
            });
        let mut rows =
            Self { reader, header: Arc::default(), record: csv::ByteRecord::new(), file };
        rows.next_record()?;
        let Some(header) = Row::new(&rows.record) else {
            return Err(IngestError::Binary {
                file: rows.file,
                what: "a header that is not UTF-8",
            });
        };
        let names = (0..rows.record.len())
            .map(|place| header.cell(Some(place)).unwrap_or_default().trim().to_owned())
            .collect();
        rows.header = Arc::new(Header::new(names));
        Ok(rows)
    }

    /// Returns the column names.
    pub fn header(&self) -> &Arc<Header> {
        &self.header
    }

    /// Returns the record that [`Self::next_record`] read last.
    pub fn record(&self) -> &csv::ByteRecord {
        &self.record
    }

    /// Returns the lines read so far.
    pub fn lines(&self) -> u64 {
        let read = self.reader.get_ref();
        read.newlines + u64::from(read.unended)
    }

    /// Reads the next record and returns where it begins, or `None` at the end.
    ///
    /// # Errors
    ///
    /// As [`Source::read_block`], or if a record is above [`MAX_RECORD`].
    pub fn next_record(&mut self) -> Result<Option<RecordStart>, IngestError> {
        loop {
            self.reader.get_mut().since_record = 0;
            match self.reader.read_byte_record(&mut self.record) {
                Ok(true) if self.record.len() == 1 && self.record.as_slice() == b"\r" => {
                    // A blank line that ends with CRLF.
                }
                Ok(true) => {
                    let start = self.record.position();
                    let source = self.reader.get_ref();
                    return Ok(Some(RecordStart {
                        line: start.map_or(0, csv::Position::line),
                        byte: start.map_or(0, csv::Position::byte),
                        open_quote: source.at_end && source.odd_quotes,
                    }));
                }
                Ok(false) => return Ok(None),
                Err(error) => return Err(self.read_error(error)),
            }
        }
    }

    fn read_error(&self, error: csv::Error) -> IngestError {
        let line = self.record.position().map_or(1, csv::Position::line);
        let file = self.file.clone();
        let source = match error.into_kind() {
            csv::ErrorKind::Io(source) => source,
            _ => io::Error::other("the CSV reader stopped"),
        };
        match source.downcast::<IngestError>() {
            Ok(IngestError::RecordTooLong { limit, .. }) => {
                IngestError::RecordTooLong { file, line, limit }
            }
            Ok(error) => error,
            Err(source) => IngestError::Unreadable { file, source },
        }
    }
}

/// The chunks of one CSV log.
#[derive(Debug)]
pub struct RowChunks<'p> {
    rows: Rows<'p>,
    chunk_bytes: usize,
}

impl<'p> RowChunks<'p> {
    /// Returns the rows in chunks of about `chunk_bytes`.
    pub fn new(rows: Rows<'p>, chunk_bytes: usize) -> Self {
        Self { rows, chunk_bytes }
    }
}

impl Chunks for RowChunks<'_> {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, IngestError> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while rows.is_empty() || bytes < self.chunk_bytes {
            let Some(start) = self.rows.next_record()? else { break };
            bytes += self.rows.record.as_slice().len() + std::mem::size_of::<RecordStart>();
            rows.push((start, self.rows.record.clone()));
        }
        let header = self.rows.header.clone();
        Ok((!rows.is_empty()).then_some(Chunk::Rows { header, rows }))
    }

    fn lines(&self) -> u64 {
        self.rows.lines()
    }
}

/// A source that refuses to feed one record for ever.
#[derive(Debug)]
struct Bounded<'p> {
    source: Source<'p>,
    since_record: u64,
    limit: u64,
    newlines: u64,
    unended: bool,
    /// Whether everything was read.
    at_end: bool,
    /// Whether the quotes so far are odd in number: one is open.
    odd_quotes: bool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.since_record += convert::count(read);
        let block = buffer.get(..read).unwrap_or_default();
        self.at_end = read == 0;
        self.odd_quotes ^= memchr::memchr_iter(b'"', block).count() % 2 == 1;
        self.newlines += super::lines::newlines(block);
        if let Some(last) = block.last() {
            self.unended = *last != b'\n';
        }
        if self.since_record > self.limit {
            return Err(io::Error::other(IngestError::RecordTooLong {
                file: self.source.file().clone(),
                line: 0,
                limit: self.limit,
            }));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &tempfile::TempDir, text: &[u8]) -> Result<Rows<'static>, IngestError> {
        let path = folder.path().join("log.csv");
        std::fs::write(&path, text).unwrap();
        Rows::new(Source::open(&path, &|_| {})?, b',')
    }

    fn read(text: &[u8]) -> (Vec<(u64, u64, String)>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = open(&folder, text).unwrap();
        let mut found = Vec::new();
        while let Some(start) = rows.next_record().unwrap() {
            let row = Row::new(rows.record()).unwrap();
            let cell = row.cell(rows.header().place("b")).unwrap_or("none");
            found.push((start.line, start.byte, cell.to_owned()));
        }
        (found, rows.lines())
    }

    #[test]
    fn quoted_newlines_and_quotes_stay_in_their_cell() {
        let text = b"a,b\r\n1,\"x\r\ny, \"\"z\"\"\"\r\n2,\r\n\r\n3,w";
        let expected = vec![
            (2, 5, "x\r\ny, \"z\"".to_owned()),
            (4, 22, "none".to_owned()),
            (6, 28, "w".to_owned()),
        ];
        assert_eq!(read(text), (expected, 6));
        let unix: Vec<_> = read(b"a,b\n1,x\n2,y\n").0.into_iter().map(|row| row.0).collect();
        assert_eq!(unix, vec![2, 3]);
    }

    #[test]
    fn a_mark_does_not_stick_to_the_first_name() {
        let folder = tempfile::tempdir().unwrap();
        let rows = open(&folder, b"\xef\xbb\xbfa, b\n1,2\n").unwrap();
        assert_eq!(rows.header().names(), ["a", "b"]);
        assert_eq!(rows.header().place("c"), None);
    }

    #[test]
    fn an_open_quote_does_not_eat_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        let mut text = b"a,b\n1,2\n3,\"".to_vec();
        text.resize(2_000_000, b'x');
        std::fs::write(&path, &text).unwrap();
        let source = Source::open(&path, &|_| {}).unwrap();
        let mut rows = Rows::with_limit(source, b',', 1_000_000).unwrap();
        assert!(rows.next_record().unwrap().is_some());
        let error = rows.next_record().unwrap_err();
        assert!(matches!(error, IngestError::RecordTooLong { line: 3, .. }), "{error:?}");
    }

    #[test]
    fn a_row_is_an_object_of_texts() {
        let names = ["a", "b \"q\"", "a", "c"].map(str::to_owned).to_vec();
        let record = csv::ByteRecord::from(vec!["1", "x\"\n\u{e9}", "2", "\r"]);
        let mut text = String::new();
        Row::new(&record).unwrap().write_json(&Header::new(names), &mut text);
        assert_eq!(text, "{\"a\":\"1\",\"b \\\"q\\\"\":\"x\\\"\\n\u{e9}\",\"c\":null}");
    }

    #[test]
    fn cells_that_are_not_text_are_refused_by_row() {
        let record = csv::ByteRecord::from(vec![b"\xff".to_vec()]);
        assert!(Row::new(&record).is_none());
    }
}
