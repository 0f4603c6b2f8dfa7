//! Splits a log into lines: 1-based number, byte offset, text without its line end.
//!
//! Works on big blocks with `memchr`. LF and CRLF end a line; the last line needs no end. A line
//! above the limit is passed over and reported as too long, so memory stays bounded by the limit
//! plus one block. Blank lines are counted, not returned.

use super::error::IngestError;
use super::source::Source;
use crate::domain::convert;

/// Longest line that is decoded, in bytes: room for a request with a long body, not for a file
/// without line ends.
pub const MAX_LINE: usize = 64 * 1024 * 1024;
/// Bytes asked for at once.
const BLOCK: usize = 1024 * 1024;

/// One line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// 1-based number.
    pub number: u64,
    /// Offset of its first byte in the decompressed stream, after a byte-order mark.
    pub byte: u64,
    /// Its bytes without line end; `None` when it is above the limit.
    pub bytes: Option<&'a [u8]>,
}

/// The lines of one log.
#[derive(Debug)]
pub struct Lines<'p> {
    source: Source<'p>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    byte: u64,
    number: u64,
    limit: usize,
    at_end: bool,
}

/// Where a line stands in the buffer.
struct Span {
    from: usize,
    to: usize,
    too_long: bool,
}

impl<'p> Lines<'p> {
    /// Returns the lines of `source`, with the limit [`MAX_LINE`].
    pub fn new(source: Source<'p>) -> Self {
        Self::with_limit(source, MAX_LINE)
    }

    fn with_limit(source: Source<'p>, limit: usize) -> Self {
        Self {
            source,
            buffer: vec![0; BLOCK],
            start: 0,
            end: 0,
            byte: 0,
            number: 0,
            limit,
            at_end: false,
        }
    }

    /// Returns the source.
    pub fn source(&self) -> &Source<'p> {
        &self.source
    }

    /// Returns the next line that is not blank, or `None` at the end.
    ///
    /// # Errors
    ///
    /// As [`Source::read_block`].
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, IngestError> {
        loop {
            let byte = self.byte;
            let Some(span) = self.next_span()? else { return Ok(None) };
            self.number += 1;
            let text = self.buffer.get(span.from..span.to).unwrap_or_default();
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if span.too_long || !text.iter().all(u8::is_ascii_whitespace) {
                let number = self.number;
                // Taken again: the borrow above may not leave the loop.
                let text = self.buffer.get(span.from..span.to).unwrap_or_default();
                let text = text.strip_suffix(b"\r").unwrap_or(text);
                let bytes = if span.too_long { None } else { Some(text) };
                return Ok(Some(Line { number, byte, bytes }));
            }
        }
    }

    /// Moves over one line and returns where it stands.
    fn next_span(&mut self) -> Result<Option<Span>, IngestError> {
        let mut searched = 0;
        let mut too_long = false;
        loop {
            let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
            let fresh = unread.get(searched..).unwrap_or_default();
            if let Some(newline) = memchr::memchr(b'\n', fresh) {
                let length = searched + newline;
                return Ok(Some(self.take(length, 1, too_long)));
            }
            searched = unread.len();
            if self.at_end {
                if searched == 0 && !too_long {
                    return Ok(None);
                }
                return Ok(Some(self.take(searched, 0, too_long)));
            }
            if searched > self.limit {
                too_long = true;
                self.byte += convert::count(searched);
                self.start = self.end;
                searched = 0;
            }
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize, line_end: usize, was_too_long: bool) -> Span {
        let from = self.start;
        self.start += length + line_end;
        self.byte += convert::count(length + line_end);
        Span { from, to: from + length, too_long: was_too_long || length > self.limit }
    }

    fn fill(&mut self) -> Result<(), IngestError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < BLOCK / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let read = self.source.read_block(room)?;
        self.end += read;
        self.at_end = read == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &[u8], limit: usize) -> Vec<(u64, u64, Option<Vec<u8>>)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, text).unwrap();
        let mut lines = Lines::with_limit(Source::open(&path, &|_| {}).unwrap(), limit);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push((line.number, line.byte, line.bytes.map(<[u8]>::to_vec)));
        }
        found
    }

    #[test]
    fn line_ends_of_all_kinds() {
        let expected = vec![(1, 0, Some(b"ab".to_vec())), (4, 9, Some(b"c d".to_vec()))];
        assert_eq!(split(b"ab\r\n\r\n  \nc d", 100), expected);
        assert_eq!(split(b"ab\r\n\r\n  \nc d\n", 100), expected);
        assert_eq!(split(b"ab\r\n\r\n  \nc d\r\n", 100), expected);
        assert_eq!(split(b"\n\n", 100), vec![]);
    }

    #[test]
    fn a_line_above_the_limit_is_passed_over() {
        let found = split(b"12345\n123456\n12", 5);
        let lines: Vec<_> =
            found.iter().map(|(n, byte, text)| (*n, *byte, text.is_some())).collect();
        assert_eq!(lines, vec![(1, 0, true), (2, 6, false), (3, 13, true)]);
    }

    #[test]
    fn lines_longer_than_a_block_keep_numbers_and_bytes() {
        let long = "x".repeat(3 * BLOCK);
        let text = format!("a\n{long}\nb\n{long}");
        let found = split(text.as_bytes(), 4 * BLOCK);
        let lengths: Vec<_> = found.iter().map(|line| line.2.as_ref().unwrap().len()).collect();
        assert_eq!(lengths, vec![1, 3 * BLOCK, 1, 3 * BLOCK]);
        let start = convert::count(2 + 3 * BLOCK + 1);
        assert_eq!((found[2].0, found[2].1), (3, start));
        let found = split(text.as_bytes(), BLOCK);
        let kept: Vec<_> = found.iter().map(|line| (line.1, line.2.is_some())).collect();
        assert_eq!(kept, vec![(0, true), (2, false), (start, true), (start + 2, false)]);
    }
}
