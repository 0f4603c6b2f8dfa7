//! The first records of a log: what detection votes on and what units are decided by.
//!
//! Path -> up to 1,000 records, at most 16 MiB of text. Formats that change later in the file are
//! not seen here; such records are refused one by one and show in the share of rejects.

use super::error::IngestError;
use super::lines::Lines;
use super::loose::Loose;
use super::pick::Picker;
use super::rows::{Header, Row, Rows};
use super::source::Source;
use std::path::Path;
use std::sync::Arc;

/// Records looked at.
pub const SAMPLE_RECORDS: usize = 1_000;
/// Text looked at, in bytes.
const SAMPLE_BYTES: usize = 16 * 1024 * 1024;

/// The first records of a log.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The records.
    pub records: Records,
}

/// The records of a sample, by container.
#[derive(Clone, Debug)]
pub enum Records {
    /// Lines of JSONL; those that are not UTF-8 or too long are left out.
    Jsonl(Vec<String>),
    /// Lines of text.
    Text(Vec<String>),
    /// A header and records.
    Csv(Header, Vec<csv::ByteRecord>),
}

impl Sample {
    /// Reads the sample of a log.
    ///
    /// # Errors
    ///
    /// If the log cannot be opened or read, or is a JSON array.
    pub fn read(path: &Path) -> Result<Self, IngestError> {
        let source = Source::open(path, &|_| {})?;
        let file = source.file().clone();
        let first = source.head().iter().find(|byte| !byte.is_ascii_whitespace());
        let records = match first {
            Some(b'[') => return Err(IngestError::JsonArray { file }),
            Some(b'{') => Records::Jsonl(json_lines(source)?),
            _ => csv_records(source)?,
        };
        Ok(Self { file, records })
    }

    /// Returns the header, for CSV.
    pub fn header(&self) -> Option<&Header> {
        match &self.records {
            Records::Csv(header, _) => Some(header),
            Records::Jsonl(_) | Records::Text(_) => None,
        }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        match &self.records {
            Records::Jsonl(lines) | Records::Text(lines) => lines.len(),
            Records::Csv(_, records) => records.len(),
        }
    }

    /// Returns whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values of a column (for JSONL: of a dotted path), nulls for missing ones.
    pub fn column(&self, name: &str) -> Vec<Loose<'_>> {
        match &self.records {
            Records::Jsonl(lines) => {
                let picker = Picker::new(&[name.to_owned()]);
                let first = |line| picker.pick(line).ok()?.into_iter().next();
                lines.iter().filter_map(|line| first(line)).collect()
            }
            Records::Text(_) => Vec::new(),
            Records::Csv(header, records) => {
                let place = header.place(name);
                let cell = |record| Some(Loose::cell(Row::new(record)?.cell(place)));
                records.iter().filter_map(cell).collect()
            }
        }
    }
}

fn json_lines(source: Source<'_>) -> Result<Vec<String>, IngestError> {
    let mut lines = Lines::new(source);
    let (mut sample, mut bytes) = (Vec::new(), 0);
    while sample.len() < SAMPLE_RECORDS && bytes < SAMPLE_BYTES {
        let Some(line) = lines.next_line()? else { break };
        if let Some(text) = line.bytes.and_then(|bytes| simdutf8::basic::from_utf8(bytes).ok()) {
            bytes += text.len();
            sample.push(text.to_owned());
        }
    }
    Ok(sample)
}

fn csv_records(source: Source<'_>) -> Result<Records, IngestError> {
    let mut rows = Rows::new(source)?;
    let (mut sample, mut bytes) = (Vec::new(), 0);
    while sample.len() < SAMPLE_RECORDS && bytes < SAMPLE_BYTES {
        if rows.next_record()?.is_none() {
            break;
        }
        if rows.record().len() == rows.header().names().len() {
            bytes += rows.record().as_slice().len();
            sample.push(rows.record().clone());
        }
    }
    Ok(Records::Csv(rows.header().clone(), sample))
}
