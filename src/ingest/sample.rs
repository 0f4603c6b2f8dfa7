//! A sample of a log: what detection votes on, what units are decided by, and how it is read.
//!
//! Path -> up to 1,000 records, at most 16 MiB of text: of plain files with more than that, from
//! the head, the middle and the tail (formats change at an upgrade in the middle of a week); of
//! packed ones, CSV and documents from the head. Formats that change elsewhere are not seen here;
//! such records are refused one by one and show in the share of rejects.

#![expect(clippy::disallowed_methods, reason = "the middle and the tail of logs are read here")]

use super::chunk::{self, Chunk, Chunks, Kind, Plan, Texts};
use super::container::document;
use super::container::list;
use super::container::rows::TableChunks;
use super::container::scan::{self, Scanned, ValueScan};
use super::detect;
use super::envelope::Envelope;
use super::error::IngestError;
use super::lines::{LineChunks, MAX_LINE};
use super::loose::Loose;
use super::pick::Picker;
use super::rows::{Header, Row, Rows};
use super::source::{Magic, Source, magic};
use crate::domain::convert;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

mod table;

/// Records looked at.
pub const SAMPLE_RECORDS: usize = 1_000;
/// Of these, at most, without a gap from the first record on, where more than the head is read.
pub const HEAD_RECORDS: usize = 400;
/// Records from the middle, and from the tail.
const PART_RECORDS: usize = 300;
/// Text looked at, in bytes.
const SAMPLE_BYTES: usize = 16 * 1024 * 1024;
/// Text of the middle, and of the tail, in bytes.
const PART_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes read at once.
const CHUNK: usize = 256 * 1024;
/// A log with one JSON object in so many lines is one of objects, unless its text is of a known log.
const JSON_IN: usize = 10;
/// Lines of text from which a log of JSON lines is taken as one that holds text beside them, and
/// their share in percent.
const BESIDE: (usize, usize) = (5, 20);

/// A sample of a log.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The records, without envelopes.
    pub records: Records,
    /// How the records of the file are read.
    pub plan: Plan,
}

/// The records of a sample, by container.
#[derive(Clone, Debug)]
pub enum Records {
    /// Texts of JSON objects; those that are not UTF-8 or too long are left out.
    Jsonl(Vec<String>),
    /// Lines of text.
    Text(Vec<String>),
    /// A header and records.
    Csv(Header, Vec<csv::ByteRecord>),
}

impl Sample {
    /// Makes a sample of records that need no container.
    pub fn new(file: Arc<str>, records: Records) -> Self {
        let kind = match &records {
            Records::Jsonl(_) => Kind::Jsonl,
            Records::Csv(..) => Kind::Csv,
            Records::Text(_) => Kind::Text,
        };
        Self { file, records, plan: Plan::new(kind) }
    }

    /// Reads the sample of a log.
    ///
    /// # Errors
    ///
    /// If the log cannot be opened or read, or is in a container that is not read.
    pub fn read(path: &Path) -> Result<Self, IngestError> {
        if let Some(found) = magic(path)? {
            let file = path.display().to_string().into();
            let (records, plan) = of_table(path, found)?;
            return Ok(Self { file, records, plan });
        }
        let source = Source::open(path, &|_| {})?;
        let file = source.file().clone();
        let head = String::from_utf8_lossy(source.head()).into_owned();
        let first = head.trim_start();
        if table::is_sql(first) {
            return Err(IngestError::SqlDump { file });
        }
        if let Some(documents) = documents(first) {
            let (records, plan) = of_documents(source, documents.list)?;
            return Ok(Self { file, records, plan });
        }
        if let Some(delimiter) = table::delimiter(first) {
            let plan = Plan { delimiter, ..Plan::new(Kind::Csv) };
            return Ok(Self { file, records: csv_records(source, delimiter)?, plan });
        }
        let lines = sample_lines(path, source)?;
        let (records, plan) = sort_out(lines, Kind::Jsonl, None);
        Ok(Self { file, records, plan })
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

/// A log of documents.
struct Documents {
    /// Where their records stand; `None` when they are records or arrays of them.
    list: Option<list::ListPath>,
}

/// Tells by the first bytes whether a log is one of documents, not of lines.
fn documents(first: &str) -> Option<Documents> {
    let plain = Documents { list: None };
    if let Some(rest) = first.strip_prefix('[') {
        // A text log may begin with a time in brackets.
        let rest = rest.trim_start();
        return (rest.is_empty() || rest.starts_with(['{', ']'])).then_some(plain);
    }
    if !first.starts_with('{') {
        return None;
    }
    if let Some(path) = list::find(first) {
        return Some(Documents { list: Some(path) });
    }
    let mut scan = ValueScan::default();
    let is_documents = match scan.feed(first.as_bytes()) {
        Scanned::Done(length) => {
            let (value, rest) = first.split_at_checked(length)?;
            let line = rest.split('\n').next().unwrap_or_default();
            // Over several lines, or with the next object on the same one.
            value.contains('\n') || line.trim_start().starts_with(['{', ','])
        }
        Scanned::More => first.trim_end().contains('\n'),
        Scanned::Broken(_) => false,
    };
    is_documents.then_some(plain)
}

fn of_documents(
    source: Source<'_>,
    list: Option<list::ListPath>,
) -> Result<(Records, Plan), IngestError> {
    let mut documents = document::Documents::new(source, list, CHUNK, MAX_LINE);
    let (mut texts, mut bytes) = (Vec::new(), 0);
    'all: while let Some(Chunk::Records(pieces)) = documents.next_chunk()? {
        for text in pieces.into_iter().filter_map(|piece| piece.text.ok()) {
            bytes += text.len();
            texts.push(text);
            if texts.len() == SAMPLE_RECORDS || bytes > SAMPLE_BYTES {
                break 'all;
            }
        }
    }
    Ok(sort_out(texts, Kind::Json, list))
}

fn of_table(path: &Path, magic: Magic) -> Result<(Records, Plan), IngestError> {
    let kind = match magic {
        Magic::Parquet => Kind::Parquet,
        Magic::Arrow => Kind::Arrow,
        Magic::Sqlite => Kind::Sqlite,
    };
    let mut rows = TableChunks::open(&Plan::new(kind), path, &|_| {})?;
    let (mut texts, mut bytes) = (Vec::new(), 0);
    while texts.len() < SAMPLE_RECORDS && bytes < SAMPLE_BYTES {
        let Some(Chunk::Records(pieces)) = rows.next_chunk()? else { break };
        for text in pieces.into_iter().filter_map(|piece| piece.text.ok()) {
            bytes += text.len();
            texts.push(text);
        }
    }
    texts.truncate(SAMPLE_RECORDS);
    // A table has columns, and no envelope around them.
    Ok((Records::Jsonl(texts), Plan::new(kind)))
}

/// Removes envelopes and tells JSON from text.
fn sort_out(mut texts: Vec<String>, kind: Kind, list: Option<list::ListPath>) -> (Records, Plan) {
    let envelope = Envelope::decide(&mut texts);
    texts.retain(|text| !text.trim_start().is_empty());
    if texts.iter().any(|text| chunk::is_array(text.trim_start())) {
        texts = texts.into_iter().flat_map(elements_of).collect();
    }
    let is_json = |text: &String| text.trim_start().starts_with('{');
    let json = texts.iter().filter(|text| is_json(text)).count();
    let others = texts.len() - json;
    let known = texts.iter().filter(|text| !is_json(text) && detect::knows_text(text)).count();
    let plan = Plan { envelope, list, ..Plan::new(kind) };
    let is_text = json == 0 || json * JSON_IN < texts.len() || (known > 0 && known * 10 >= json);
    if others > 0 && is_text {
        let kind = if kind == Kind::Json { kind } else { Kind::Text };
        return (Records::Text(texts), Plan { kind, texts: Texts::Joined, ..plan });
    }
    let (least, percent) = BESIDE;
    let beside = others >= least && others * 100 >= texts.len() * percent;
    let passed = kind != Kind::Json && (beside || (plan.envelope.is_some() && others > 0));
    if passed {
        texts.retain(is_json);
    }
    let texts_are = if passed { Texts::Passed } else { Texts::Refused };
    (Records::Jsonl(texts), Plan { texts: texts_are, ..plan })
}

/// Returns the elements of a line that is an array of objects, or the line.
fn elements_of(text: String) -> Vec<String> {
    if chunk::is_array(text.trim_start()) {
        scan::elements(&text).map(str::to_owned).collect()
    } else {
        vec![text]
    }
}

/// Reads lines of the head and, where there are more, of the middle and the tail.
fn sample_lines(path: &Path, source: Source<'_>) -> Result<Vec<String>, IngestError> {
    let file = source.file().clone();
    let mut chunks = LineChunks::new(source, CHUNK, MAX_LINE);
    let (mut sample, mut ends, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut all = true;
    'head: while let Some(read) = chunks.next_chunk()? {
        let Chunk::Lines { bytes: block, line, byte } = read else { continue };
        let mut add = |place: chunk::Place, text: &str| {
            bytes += text.len();
            ends.push(place.byte.unwrap_or_default() + convert::count(text.len()));
            sample.push(text.to_owned());
        };
        chunk::for_each_line((&block, line, byte), MAX_LINE, &mut |place, text| {
            if let Ok(text) = text
                && !text.trim_start().is_empty()
            {
                add(place, text);
            }
        });
        if sample.len() >= SAMPLE_RECORDS || bytes >= SAMPLE_BYTES {
            all = false;
            break 'head;
        }
    }
    if all || !chunks.is_plain() || sample.len() < HEAD_RECORDS {
        sample.truncate(SAMPLE_RECORDS);
        return Ok(sample);
    }
    let whole = path.metadata().map_or(0, |found| found.len());
    sample.truncate(HEAD_RECORDS);
    let head_end = ends.get(HEAD_RECORDS - 1).copied().unwrap_or_default();
    let tail = head_end.max(whole.saturating_sub(PART_BYTES));
    let middle = head_end.max(whole / 2).min(tail);
    let unreadable = |source| IngestError::Unreadable { file: file.clone(), source };
    let middle = part(path, middle, tail.min(middle + PART_BYTES)).map_err(unreadable)?;
    sample.extend(middle.into_iter().take(PART_RECORDS));
    let tail = part(path, tail, whole).map_err(unreadable)?;
    let skipped = tail.len().saturating_sub(PART_RECORDS);
    sample.extend(tail.into_iter().skip(skipped));
    Ok(sample)
}

/// Returns the whole lines between two places of a plain file.
fn part(path: &Path, from: u64, to: u64) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut block = Vec::new();
    file.take(to - from).read_to_end(&mut block)?;
    let start = memchr::memchr(b'\n', &block).map_or(block.len(), |end| end + 1);
    let end = memchr::memrchr(b'\n', &block).map_or(0, |end| end + 1);
    let mut lines = Vec::new();
    let whole = block.get(start..end).unwrap_or_default();
    chunk::for_each_line((whole, 1, 0), MAX_LINE, &mut |_, text| {
        lines.extend(text.ok().filter(|text| !text.trim_start().is_empty()).map(str::to_owned));
    });
    Ok(lines)
}

fn csv_records(source: Source<'_>, delimiter: u8) -> Result<Records, IngestError> {
    let mut rows = Rows::new(source, delimiter)?;
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
    Ok(Records::Csv(rows.header().as_ref().clone(), sample))
}
