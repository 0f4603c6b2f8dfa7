//! Rows that an open quote in CSV has taken into one cell.
//!
//! A quote that is opened and never closed makes the reader take line after line into one cell,
//! without an error. Such a record shows by line ends in its last cell together with a wrong number
//! of cells, or with the end of the file inside the quote. It is refused, and the lines in its last
//! cell are read again, each by itself: those with the right number of cells are rows, the others
//! are refused too. Cells that hold line ends on purpose are left alone.

use super::loose::FieldError;
use super::rows::{Header, RecordStart};
use crate::domain::convert;

/// Returns the lines that a record has swallowed; `None` where it is as it should be.
pub(super) fn lines(
    header: &Header,
    start: RecordStart,
    record: &csv::ByteRecord,
) -> Option<Vec<(u64, Vec<u8>)>> {
    let wrong = record.len() != header.names().len() || start.open_quote;
    let last = record.iter().next_back()?;
    if !wrong || memchr::memchr(b'\n', last).is_none() {
        return None;
    }
    // Line ends in the cells before it, if any, belong to the record itself.
    let before: usize = record
        .iter()
        .take(record.len().saturating_sub(1))
        .map(|cell| memchr::memchr_iter(b'\n', cell).count())
        .sum();
    let lines = last.split(|byte| *byte == b'\n').enumerate().skip(1);
    let lines = lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace));
    let number = |place: usize| start.line + convert::count(before + place);
    Some(lines.map(|(place, line)| (number(place), line.to_vec())).collect())
}

/// Reads one line by itself.
pub(super) fn record(line: &[u8], delimiter: u8) -> Option<csv::ByteRecord> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(line);
    let mut record = csv::ByteRecord::new();
    reader.read_byte_record(&mut record).ok()?.then_some(record)
}

/// Says what is wrong with the record that swallowed others.
pub(super) fn refusal(swallowed: usize) -> FieldError {
    let reason = format!(
        "opens a quote that is not closed; {swallowed} lines after it are read by themselves"
    );
    FieldError::new("", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(open_quote: bool) -> RecordStart {
        RecordStart { line: 7, byte: 0, open_quote }
    }

    #[test]
    fn only_what_an_open_quote_took_is_read_again() {
        let header = Header::new(vec!["a".to_owned(), "b".to_owned()]);
        let of = |cells: &[&str], open| {
            let record = csv::ByteRecord::from(cells.to_vec());
            lines(&header, start(open), &record)
        };
        assert_eq!(of(&["1", "two\nlines"], false), None, "on purpose");
        assert_eq!(of(&["1", "2", "3"], false), None, "too many cells, no line");
        let taken = vec![(8, b"3,4".to_vec()), (10, b"5,6".to_vec())];
        assert_eq!(of(&["1", "2\n3,4\n\n5,6"], true), Some(taken.clone()));
        assert_eq!(of(&["2\n3,4\n\n5,6"], false), Some(taken));
        assert_eq!(of(&["1\n", "2\n3,4",], true), Some(vec![(9, b"3,4".to_vec())]));
        assert_eq!(record(b"3;4\r", b';').unwrap().len(), 2);
    }
}
