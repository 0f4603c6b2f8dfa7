//! Cuts a log into chunks of whole lines, and a chunk into its lines.
//!
//! The reader takes big blocks and cuts at the last line end; the lines themselves are split by
//! whoever decodes the chunk. LF and CRLF end a line; the last line needs no end. A line above the
//! limit is passed over and reported as a record that is too long, so memory stays bounded by the
//! limit plus one chunk. Offsets count from the first byte after a byte-order mark.

use super::chunk::{Chunk, Chunks, Piece};
use super::error::IngestError;
use super::loose::FieldError;
use super::source::Source;
use crate::domain::convert;

/// Longest line that is decoded, in bytes: room for a request with a long body, not for a file
/// without line ends.
pub const MAX_LINE: usize = 64 * 1024 * 1024;
/// Bytes of a line that is passed over, read at once.
const SKIP_BLOCK: usize = 256 * 1024;

/// Returns why a record of more than `limit` bytes is refused.
pub fn too_long(limit: usize) -> FieldError {
    FieldError::new("", format!("is longer than {limit} bytes"))
}

/// One line of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// 0-based number within the chunk.
    pub number: u64,
    /// Offset of its first byte within the chunk.
    pub from: usize,
    /// Its bytes without LF; a CR before it is still there.
    pub bytes: &'a [u8],
}

/// Returns the lines of a chunk.
pub fn split(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut from = 0;
    let mut number = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(from..).filter(|rest| !rest.is_empty())?;
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = Line { number, from, bytes: rest.get(..length).unwrap_or_default() };
        from += length + 1;
        number += 1;
        Some(line)
    })
}

/// Returns the number of LF in a block.
pub fn newlines(block: &[u8]) -> u64 {
    convert::count(memchr::memchr_iter(b'\n', block).count())
}

/// The chunks of one log of lines.
#[derive(Debug)]
pub struct LineChunks<'p> {
    source: Source<'p>,
    /// What was read beyond the last cut.
    rest: Vec<u8>,
    /// Lines before `rest`.
    lines: u64,
    /// Bytes before `rest`.
    byte: u64,
    chunk_bytes: usize,
    limit: usize,
    at_end: bool,
    unended: bool,
}

impl<'p> LineChunks<'p> {
    /// Returns the chunks of `source`, of about `chunk_bytes`; lines above `limit` are refused.
    pub fn new(source: Source<'p>, chunk_bytes: usize, limit: usize) -> Self {
        Self {
            source,
            rest: Vec::new(),
            lines: 0,
            byte: 0,
            chunk_bytes: chunk_bytes.max(1),
            limit,
            at_end: false,
            unended: false,
        }
    }

    /// Returns whether the bytes on disk are those that are read.
    pub fn is_plain(&self) -> bool {
        self.source.is_plain()
    }

    /// Reads up to `wanted` more bytes behind `buffer`.
    fn fill(&mut self, buffer: &mut Vec<u8>, wanted: usize) -> Result<(), IngestError> {
        let filled = buffer.len();
        buffer.resize(filled + wanted, 0);
        let read = self.source.read_block(buffer.get_mut(filled..).unwrap_or_default())?;
        buffer.truncate(filled + read);
        self.at_end = read == 0;
        Ok(())
    }

    /// Makes a chunk of whole lines.
    fn cut(&mut self, bytes: Vec<u8>) -> Chunk {
        let (line, byte) = (self.lines + 1, self.byte);
        self.lines += newlines(&bytes);
        self.byte += convert::count(bytes.len());
        Chunk::Lines { bytes, line, byte }
    }

    /// Passes over a line that is too long, of which `start` was read.
    fn skip_line(&mut self, start: &[u8]) -> Result<Chunk, IngestError> {
        let piece =
            Piece { line: self.lines + 1, byte: Some(self.byte), text: Err(too_long(self.limit)) };
        self.byte += convert::count(start.len());
        loop {
            let mut block = Vec::new();
            self.fill(&mut block, SKIP_BLOCK)?;
            if let Some(end) = memchr::memchr(b'\n', &block) {
                self.rest = block.split_off(end + 1);
                self.lines += 1;
                self.byte += convert::count(block.len());
                break;
            }
            self.byte += convert::count(block.len());
            if self.at_end {
                self.unended = true;
                break;
            }
        }
        Ok(Chunk::Records(vec![piece]))
    }
}

impl Chunks for LineChunks<'_> {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, IngestError> {
        let mut buffer = std::mem::take(&mut self.rest);
        let mut searched = 0;
        loop {
            while buffer.len() < self.chunk_bytes && !self.at_end {
                let wanted = (self.chunk_bytes - buffer.len()).max(1);
                self.fill(&mut buffer, wanted)?;
            }
            let fresh = buffer.get(searched..).unwrap_or_default();
            if let Some(end) = memchr::memrchr(b'\n', fresh) {
                self.rest = buffer.split_off(searched + end + 1);
                return Ok(Some(self.cut(buffer)));
            }
            searched = buffer.len();
            if searched > self.limit {
                return Ok(Some(self.skip_line(&buffer)?));
            }
            if self.at_end {
                if buffer.is_empty() {
                    return Ok(None);
                }
                self.unended = true;
                return Ok(Some(self.cut(buffer)));
            }
            let wanted = self.chunk_bytes.max(searched).min(self.limit + 1);
            self.fill(&mut buffer, wanted)?;
        }
    }

    fn lines(&self) -> u64 {
        self.lines + u64::from(self.unended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns number, byte and text of the lines; `None` for those too long.
    fn read(text: &[u8], chunk_bytes: usize, limit: usize) -> Vec<(u64, u64, Option<Vec<u8>>)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, text).unwrap();
        let source = Source::open(&path, &|_| {}).unwrap();
        let mut chunks = LineChunks::new(source, chunk_bytes, limit);
        let mut found = Vec::new();
        while let Some(chunk) = chunks.next_chunk().unwrap() {
            match chunk {
                Chunk::Lines { bytes, line, byte } => found.extend(split(&bytes).map(|part| {
                    let byte = byte + convert::count(part.from);
                    (line + part.number, byte, Some(part.bytes.to_vec()))
                })),
                Chunk::Records(pieces) => {
                    found.extend(pieces.iter().map(|p| (p.line, p.byte.unwrap(), None)));
                }
                Chunk::Rows { .. } => panic!("no rows"),
            }
        }
        let unended = u64::from(!text.ends_with(b"\n"));
        assert_eq!(chunks.lines(), newlines(text) + unended, "{chunk_bytes}");
        found
    }

    #[test]
    fn chunks_of_any_size_have_the_same_lines() {
        let text = b"ab\r\n\r\nc d\n1234567890\nend";
        let expected: Vec<(u64, u64, Option<Vec<u8>>)> = vec![
            (1, 0, Some(b"ab\r".to_vec())),
            (2, 4, Some(b"\r".to_vec())),
            (3, 6, Some(b"c d".to_vec())),
            (4, 10, Some(b"1234567890".to_vec())),
            (5, 21, Some(b"end".to_vec())),
        ];
        for chunk_bytes in [1, 2, 3, 7, 64, 1_000_000] {
            assert_eq!(read(text, chunk_bytes, 100), expected, "{chunk_bytes}");
        }
        assert_eq!(read(b"\n\n", 1, 100).len(), 2);
    }

    #[test]
    fn a_line_above_the_limit_is_passed_over() {
        // Small chunks notice it while reading; big ones leave it to whoever splits the chunk.
        for chunk_bytes in [1, 4] {
            let found = read(b"12345\n123456789\n12", chunk_bytes, 5);
            let lines: Vec<_> =
                found.iter().map(|(n, byte, text)| (*n, *byte, text.is_some())).collect();
            assert_eq!(lines, vec![(1, 0, true), (2, 6, false), (3, 16, true)]);
        }
        let found = read(b"1\n123456789", 3, 5);
        assert_eq!((found.len(), &found[1]), (2, &(2, 2, None)));
    }

    #[test]
    fn lines_longer_than_a_chunk_keep_numbers_and_bytes() {
        let long = "x".repeat(300_000);
        let text = format!("a\n{long}\nb\n{long}");
        let found = read(text.as_bytes(), 1_000, 400_000);
        let lengths: Vec<_> = found.iter().map(|line| line.2.as_ref().unwrap().len()).collect();
        assert_eq!(lengths, vec![1, 300_000, 1, 300_000]);
        assert_eq!((found[2].0, found[2].1), (3, 300_003));
        let found = read(text.as_bytes(), 1_000, 200_000);
        let kept: Vec<_> = found.iter().map(|line| (line.1, line.2.is_some())).collect();
        assert_eq!(kept, vec![(0, true), (2, false), (300_003, true), (300_005, false)]);
    }
}
