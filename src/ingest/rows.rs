//! Splits a CSV log into records with named columns.
//!
//! Quoted newlines and doubled quotes are handled by the `csv` crate, told that LF alone ends a
//! record: its own CRLF mode gives positions one line early. Positions are the line and byte where
//! a record, or the blank lines before it, begin. A record above the limit stops the ingest: the cause is
//! an open quote that swallows the rest of the file. Records are UTF-8 or refused, one by one.

use super::error::IngestError;
use super::source::{Progress, Source};
use crate::domain::convert;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// Longest record, in bytes; see [`super::lines::MAX_LINE`].
pub const MAX_RECORD: u64 = 64 * 1024 * 1024;

/// The column names of a CSV log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    names: Vec<String>,
}

impl Header {
    /// Makes a header of names.
    pub fn new(names: Vec<String>) -> Self {
        Self { names }
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
}

/// Where a record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordStart {
    /// 1-based line.
    pub line: u64,
    /// Byte in the decompressed stream.
    pub byte: u64,
}

/// The records of one CSV log.
#[derive(Debug)]
pub struct Rows<'p> {
    reader: csv::Reader<Bounded<'p>>,
    header: Header,
    record: csv::ByteRecord,
    file: Arc<str>,
}

impl<'p> Rows<'p> {
    /// Opens a CSV log and reads its header.
    ///
    /// # Errors
    ///
    /// As [`Source::open`], or if the header is not UTF-8.
    pub fn open(path: &Path, progress: Progress<'p>) -> Result<Self, IngestError> {
        Self::new(Source::open(path, progress)?)
    }

    /// Reads the header of an opened source.
    ///
    /// # Errors
    ///
    /// As [`Source::read_block`], or if the header is not UTF-8.
    pub fn new(source: Source<'p>) -> Result<Self, IngestError> {
        Self::with_limit(source, MAX_RECORD)
    }

    fn with_limit(source: Source<'p>, limit: u64) -> Result<Self, IngestError> {
        let file = source.file().clone();
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .terminator(csv::Terminator::Any(b'\n'))
            .buffer_capacity(256 * 1024)
            .from_reader(Bounded { source, since_record: 0, limit });
        let mut rows =
            Self { reader, header: Header::default(), record: csv::ByteRecord::new(), file };
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
        rows.header = Header { names };
        Ok(rows)
    }

    /// Returns the column names.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the record that [`Self::next_record`] read last.
    pub fn record(&self) -> &csv::ByteRecord {
        &self.record
    }

    /// Returns the lines read so far.
    pub fn lines(&self) -> u64 {
        self.reader.get_ref().source.lines()
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
                    return Ok(Some(RecordStart {
                        line: start.map_or(0, csv::Position::line),
                        byte: start.map_or(0, csv::Position::byte),
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

/// A source that refuses to feed one record for ever.
#[derive(Debug)]
struct Bounded<'p> {
    source: Source<'p>,
    since_record: u64,
    limit: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.since_record += convert::count(read);
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
        Rows::open(&path, &|_| {})
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
        let mut rows = Rows::with_limit(source, 1_000_000).unwrap();
        assert!(rows.next_record().unwrap().is_some());
        let error = rows.next_record().unwrap_err();
        assert!(matches!(error, IngestError::RecordTooLong { line: 3, .. }), "{error:?}");
    }

    #[test]
    fn cells_that_are_not_text_are_refused_by_row() {
        let record = csv::ByteRecord::from(vec![b"\xff".to_vec()]);
        assert!(Row::new(&record).is_none());
    }
}
