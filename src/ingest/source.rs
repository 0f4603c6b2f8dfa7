//! Opens a log: plain, gzip (all members) or zstd (all frames), UTF-8 or UTF-16, told apart by
//! first bytes.
//!
//! Path -> a stream of decompressed UTF-8 bytes without byte-order mark. A stream that ends early,
//! damaged data and leftover bytes are errors that name the file and the byte of the file on disk;
//! nothing ends silently. UTF-16 becomes UTF-8 on the way; what is malformed there becomes a byte
//! that no UTF-8 has, so that its line is refused. UTF-8 itself is not checked here.

#![expect(clippy::disallowed_methods, reason = "logs are opened here")]

use super::error::IngestError;
use crate::domain::convert;
use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_16BE, UTF_16LE};
use flate2::bufread::GzDecoder;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::Arc;

/// Bytes read from disk at once.
const DISK_BLOCK: usize = 256 * 1024;
/// Decompressed bytes looked at before anything is decoded.
const HEAD: usize = 256 * 1024;
/// Of the head, in percent: control bytes that a text log may have, as a crash leaves them.
const MAX_CONTROL_PERCENT: usize = 10;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// First bytes of files that are no text, with what they are.
const BINARY: &[(&[u8], &str)] = &[
    (b"PAR1", PARQUET),
    (b"ARROW1", ARROW),
    (&[0xff, 0xff, 0xff, 0xff], ARROW),
    (b"SQLite format 3\0", SQLITE),
    (b"PK\x03\x04", "a zip archive"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\0", "an xz file"),
    (&[0x04, 0x22, 0x4d, 0x18], "an lz4 file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"ORC", "an ORC file"),
    (b"Obj\x01", "an Avro file"),
    (b"FEA1", "a Feather file of the first version"),
];
const PARQUET: &str = "a Parquet file";
const ARROW: &str = "an Arrow file";
const SQLITE: &str = "an SQLite database";

/// A binary container that is read, by another way than as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    /// Parquet.
    Parquet,
    /// Arrow IPC, as a file or a stream.
    Arrow,
    /// SQLite.
    Sqlite,
}

/// Returns which binary container a file is, by its first bytes; `None` for text and all else.
///
/// # Errors
///
/// If it cannot be read, or is a directory or a pipe.
pub fn magic(path: &Path) -> Result<Option<Magic>, IngestError> {
    let file: Arc<str> = path.display().to_string().into();
    let mut disk = open_disk(path, &file)?;
    let start = disk.peek(16).map_err(|source| IngestError::Unreadable { file, source })?;
    Ok(match binary(start) {
        Some(PARQUET) => Some(Magic::Parquet),
        Some(ARROW) => Some(Magic::Arrow),
        Some(SQLITE) => Some(Magic::Sqlite),
        _ => None,
    })
}

fn binary(start: &[u8]) -> Option<&'static str> {
    BINARY.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, what)| *what)
}

fn open_disk(path: &Path, file: &Arc<str>) -> Result<Disk, IngestError> {
    let unreadable = |source| IngestError::Unreadable { file: file.clone(), source };
    // Asked before it is opened: opening a pipe waits for its writer. Each log is opened more
    // than once, and what a pipe gave to the first reader is lost for the next.
    let kind = path.metadata().map_err(unreadable)?;
    if kind.is_dir() {
        return Err(IngestError::Directory { file: file.clone() });
    }
    if !kind.is_file() {
        return Err(IngestError::NotAFile { file: file.clone() });
    }
    Ok(Disk::new(File::open(path).map_err(unreadable)?))
}

/// Receives the bytes of the file on disk as they are read.
pub type Progress<'p> = &'p dyn Fn(u64);

/// One open log.
pub struct Source<'p> {
    file: Arc<str>,
    inner: Inner,
    /// Bytes ready to be read: the head at first, later decoded UTF-16.
    ready: Vec<u8>,
    ready_at: usize,
    utf16: Option<Utf16>,
    packed: bool,
    progress: Progress<'p>,
    reported: u64,
}

/// Turns UTF-16 into UTF-8.
struct Utf16 {
    decoder: Decoder,
    at_end: bool,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("file", &self.file).finish_non_exhaustive()
    }
}

enum Inner {
    Plain(Disk),
    Gzip(Box<GzDecoder<Disk>>),
    Zstd(zstd::stream::read::Decoder<'static, Disk>),
    End,
}

impl<'p> Source<'p> {
    /// Opens a log and looks at its first bytes.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is a directory or a pipe, is empty or is not text.
    pub fn open(path: &Path, progress: Progress<'p>) -> Result<Self, IngestError> {
        let file: Arc<str> = path.display().to_string().into();
        let unreadable = |source| IngestError::Unreadable { file: file.clone(), source };
        let mut disk = open_disk(path, &file)?;
        let start = disk.peek(16).map_err(unreadable)?.to_vec();
        if let Some(what) = binary(&start) {
            return Err(IngestError::Binary { file, what });
        }
        let packing = Packing::of(&start);
        let inner = match packing {
            Some(packing) => packing.open(disk).map_err(unreadable)?,
            None => Inner::Plain(disk),
        };
        let mut source = Self {
            file,
            inner,
            ready: Vec::new(),
            ready_at: 0,
            utf16: None,
            packed: packing.is_some(),
            progress,
            reported: 0,
        };
        source.look_at_head()?;
        Ok(source)
    }

    /// Returns the file, as the user named it.
    pub fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Returns whether the bytes on disk are those that are read, so that a reader may seek.
    pub fn is_plain(&self) -> bool {
        !self.packed && self.utf16.is_none()
    }

    /// Returns the first decompressed bytes, at most 256 KiB, before anything was read.
    pub fn head(&self) -> &[u8] {
        self.ready.get(self.ready_at..).unwrap_or_default()
    }

    /// Fills `buffer` as far as one read goes and returns the bytes read; 0 is the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is cut, damaged, or has leftover bytes.
    pub fn read_block(&mut self, buffer: &mut [u8]) -> Result<usize, IngestError> {
        if self.head().is_empty() {
            if self.utf16.is_none() {
                return self.decompress(buffer);
            }
            let mut raw = vec![0; DISK_BLOCK];
            while self.head().is_empty() && self.utf16.as_ref().is_some_and(|utf16| !utf16.at_end) {
                let read = self.decompress(&mut raw)?;
                self.decode(raw.get(..read).unwrap_or_default(), read == 0);
            }
        }
        let mut ready = self.head();
        let read = ready.read(buffer).unwrap_or_default();
        self.ready_at += read;
        Ok(read)
    }

    /// Replaces what is ready by the text of `raw`; `last` says that nothing follows.
    fn decode(&mut self, raw: &[u8], last: bool) {
        let Some(Utf16 { decoder, at_end }) = &mut self.utf16 else { return };
        self.ready.clear();
        self.ready_at = 0;
        let mut rest = raw;
        loop {
            let room = decoder.max_utf8_buffer_length_without_replacement(rest.len());
            let filled = self.ready.len();
            self.ready.resize(filled + room.unwrap_or(4 * rest.len() + 16), 0);
            let target = self.ready.get_mut(filled..).unwrap_or_default();
            let (result, read, written) =
                decoder.decode_to_utf8_without_replacement(rest, target, last);
            self.ready.truncate(filled + written);
            rest = rest.get(read..).unwrap_or_default();
            match result {
                DecoderResult::InputEmpty => break,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => self.ready.push(0xff),
            }
        }
        *at_end = last;
    }

    fn look_at_head(&mut self) -> Result<(), IngestError> {
        let mut head = vec![0; HEAD];
        let mut filled = 0;
        while let Some(rest) = head.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.decompress(rest)? {
                0 => break,
                read => filled += read,
            }
        }
        head.truncate(filled);
        let file = self.file.clone();
        if let Some(what) = binary(&head).filter(|_| self.packed) {
            return Err(IngestError::PackedBinary { file, what });
        }
        if let Some((encoding, mark)) = utf16_of(&head) {
            let decoder = encoding.new_decoder_without_bom_handling();
            self.utf16 = Some(Utf16 { decoder, at_end: false });
            self.decode(head.get(mark..).unwrap_or_default(), filled < HEAD);
        } else {
            self.ready_at = if head.starts_with(&[0xef, 0xbb, 0xbf]) { 3 } else { 0 };
            self.ready = head;
        }
        if self.head().is_empty() {
            return Err(IngestError::Empty { file });
        }
        if self.head().get(257..262) == Some(b"ustar") {
            return Err(IngestError::Binary { file, what: "a tar archive" });
        }
        if is_framed_protobuf(self.head()) {
            return Err(IngestError::Protobuf { file });
        }
        if is_no_text(self.head()) {
            return Err(IngestError::Binary { file, what: "binary data" });
        }
        Ok(())
    }

    fn decompress(&mut self, buffer: &mut [u8]) -> Result<usize, IngestError> {
        loop {
            let (result, container) = match &mut self.inner {
                Inner::Plain(disk) => (disk.read(buffer), "plain"),
                Inner::Gzip(decoder) => (decoder.read(buffer), "gzip"),
                Inner::Zstd(decoder) => (decoder.read(buffer), "zstd"),
                Inner::End => return Ok(0),
            };
            self.report();
            match result {
                Ok(0) if container != "plain" => self.next_member()?,
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(self.read_error(container, source)),
            }
        }
    }

    fn read_error(&self, container: &'static str, source: io::Error) -> IngestError {
        let (file, byte) = (self.file.clone(), self.disk_bytes());
        match source.kind() {
            io::ErrorKind::UnexpectedEof if container != "plain" => {
                IngestError::Cut { file, container, byte }
            }
            _ if container == "plain" || source.raw_os_error().is_some() => {
                IngestError::Unreadable { file, source }
            }
            _ => IngestError::Damaged { file, container, byte },
        }
    }

    /// Goes on with the next gzip member or zstd frame, if there is one.
    fn next_member(&mut self) -> Result<(), IngestError> {
        let mut disk = match std::mem::replace(&mut self.inner, Inner::End) {
            Inner::Gzip(decoder) => decoder.into_inner(),
            Inner::Zstd(decoder) => decoder.finish(),
            Inner::Plain(_) | Inner::End => return Ok(()),
        };
        let unreadable = |source| IngestError::Unreadable { file: self.file.clone(), source };
        let start = disk.peek(4).map_err(unreadable)?;
        if start.is_empty() {
            return Ok(());
        }
        let Some(packing) = Packing::of(start) else {
            return Err(IngestError::Garbage { file: self.file.clone(), byte: disk.at });
        };
        self.inner = packing.open(disk).map_err(unreadable)?;
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        match &self.inner {
            Inner::Plain(disk) => disk.at,
            Inner::Gzip(decoder) => decoder.get_ref().at,
            Inner::Zstd(decoder) => decoder.get_ref().at,
            Inner::End => self.reported,
        }
    }

    fn report(&mut self) {
        let at = self.disk_bytes();
        if at > self.reported {
            (self.progress)(at - self.reported);
            self.reported = at;
        }
    }
}

/// Returns the kind of UTF-16 that a text begins as, and the length of its byte-order mark.
fn utf16_of(head: &[u8]) -> Option<(&'static Encoding, usize)> {
    match head {
        [0xff, 0xfe, ..] => Some((UTF_16LE, 2)),
        [0xfe, 0xff, ..] => Some((UTF_16BE, 2)),
        [1..0x80, 0, 1..0x80, 0, ..] => Some((UTF_16LE, 0)),
        [0, 1..0x80, 0, 1..0x80, ..] => Some((UTF_16BE, 0)),
        _ => None,
    }
}

/// Whether the head is a message of the OpenTelemetry collector: its length in 4 bytes, then
/// field 1 as a message.
fn is_framed_protobuf(head: &[u8]) -> bool {
    matches!(head, [0, _, _, _, 0x0a, ..]) && memchr::memchr(b'\n', head) == Some(4)
}

/// Whether the head has more control bytes than the odd hole in a text log.
fn is_no_text(head: &[u8]) -> bool {
    // A hole that a crash left, or a rotation, is a run of zeros: counted once.
    let mut before = 1_u8;
    let mut control = 0;
    for byte in head {
        let odd = *byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b | 0x08 | 0x0c);
        control += usize::from(odd && (*byte != 0 || before != 0));
        before = *byte;
    }
    let kept = head.iter().filter(|byte| **byte != 0).count();
    control * 100 > (kept + 1) * MAX_CONTROL_PERCENT
}

/// Reads through [`Source::read_block`]; an [`IngestError`] travels inside the `io::Error`.
impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_block(buffer).map_err(io::Error::other)
    }
}

/// How a member is packed.
#[derive(Clone, Copy)]
enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    fn of(start: &[u8]) -> Option<Self> {
        let skippable = matches!(start, [first, 0x2a, 0x4d, 0x18, ..] if first & 0xf0 == 0x50);
        if start.starts_with(GZIP) {
            Some(Self::Gzip)
        } else if start.starts_with(ZSTD) || skippable {
            Some(Self::Zstd)
        } else {
            None
        }
    }

    fn open(self, disk: Disk) -> io::Result<Inner> {
        Ok(match self {
            Self::Gzip => Inner::Gzip(Box::new(GzDecoder::new(disk))),
            Self::Zstd => {
                Inner::Zstd(zstd::stream::read::Decoder::with_buffer(disk)?.single_frame())
            }
        })
    }
}

/// A buffered file that knows how many of its bytes were consumed.
struct Disk {
    file: File,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at: u64,
}

impl Disk {
    fn new(file: File) -> Self {
        Self { file, buffer: vec![0; DISK_BLOCK], start: 0, end: 0, at: 0 }
    }

    /// Returns at least `wanted` bytes unless the file ends before, without consuming them.
    fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        if self.end - self.start < wanted {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end < wanted {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.file.read(room) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.buffer.get(self.start..self.end).unwrap_or_default())
    }
}

impl Read for Disk {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end && buffer.len() >= DISK_BLOCK {
            // Straight into place: a big block gains nothing from the buffer.
            let read = self.file.read(buffer)?;
            self.at += convert::count(read);
            return Ok(read);
        }
        let mut available = self.fill_buf()?;
        let read = available.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Disk {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.peek(1)
    }

    fn consume(&mut self, amount: usize) {
        self.start += amount;
        self.at += convert::count(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn gz(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zst(text: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(text, 1).unwrap()
    }

    /// Reads a file with these bytes whole; the folder's name is cut from messages.
    fn read(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        read_path(&path).map_err(|error| {
            error.to_string().replace(&format!("{}/", folder.path().display()), "")
        })
    }

    fn read_path(path: &Path) -> Result<Vec<u8>, IngestError> {
        let mut source = Source::open(path, &|_| {})?;
        let (mut all, mut block) = (Vec::new(), vec![0; 1_000]);
        loop {
            let read = source.read_block(&mut block)?;
            if read == 0 {
                return Ok(all);
            }
            all.extend_from_slice(&block[..read]);
        }
    }

    #[test]
    fn text_comes_through_plain_and_packed_without_its_mark() {
        let text = "{}\n".repeat(10_000);
        let text = text.as_bytes();
        let marked = [b"\xef\xbb\xbf", text].concat();
        for bytes in [text.to_vec(), marked.clone(), gz(&marked), zst(&marked)] {
            assert_eq!(read(&bytes).unwrap(), text);
        }
    }

    #[test]
    fn all_members_and_frames_are_read() {
        let whole = b"one\ntwo\nthree".to_vec();
        assert_eq!(read(&[gz(b"one\n"), gz(b""), gz(b"two\nthree")].concat()).unwrap(), whole);
        assert_eq!(read(&[zst(b"one\n"), zst(b"two\nthree")].concat()).unwrap(), whole);
        assert_eq!(read(&[gz(b"one\n"), zst(b"two\nthree")].concat()).unwrap(), whole);
    }

    #[test]
    fn a_cut_stream_is_an_error_at_every_place() {
        let text: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).map(|b| b | 1).collect();
        for packed in [gz(&text), zst(&text)] {
            for cut in [5, packed.len() / 2, packed.len() - 1] {
                let error = read(&packed[..cut]).unwrap_err();
                assert!(error.contains("is cut at byte"), "{cut}: {error}");
            }
        }
        let packed = gz(b"a line\n");
        let two = [packed.clone(), packed.clone()].concat();
        let error = read(&two[..two.len() - 1]).unwrap_err();
        insta::assert_snapshot!(error, @"log: the gzip stream is cut at byte 53, before its end mark");
        assert_eq!(two.len() - 1, 53);
    }

    #[test]
    fn leftover_and_damaged_bytes_are_errors() {
        let packed = gz(b"a line\n");
        assert_eq!(packed.len(), 27);
        let error = read(&[packed.clone(), b"tail".to_vec()].concat()).unwrap_err();
        insta::assert_snapshot!(error, @"log: leftover bytes at byte 27, expected the end or another compressed member");
        let mut damaged = packed;
        damaged[20] ^= 0xff;
        let error = read(&damaged).unwrap_err();
        assert!(error.starts_with("log: the gzip stream is damaged near byte"), "{error}");
    }

    #[test]
    fn what_is_no_text_is_named() {
        insta::assert_snapshot!(read(b"").unwrap_err(), @"log: expected records, found an empty file");
        assert_eq!(read(b"\xef\xbb\xbf").unwrap_err(), read(b"").unwrap_err());
        assert_eq!(read(&gz(b"")).unwrap_err(), read(b"").unwrap_err());
        insta::assert_snapshot!(read(b"PAR1....").unwrap_err(), @"log: expected JSON, CSV, text, Parquet, Arrow or SQLite, found a Parquet file");
        insta::assert_snapshot!(read(b"a\0b\x01\x02").unwrap_err(), @"log: expected JSON, CSV, text, Parquet, Arrow or SQLite, found binary data");
        let folder = tempfile::tempdir().unwrap();
        let error = read_path(folder.path()).unwrap_err();
        assert!(matches!(error, IngestError::Directory { .. }));
        let error = read_path(&folder.path().join("none")).unwrap_err();
        assert!(matches!(error, IngestError::Unreadable { .. }));
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_refused_before_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        // Nobody writes to it: opening it would wait for ever.
        let error = read_path(&pipe).unwrap_err();
        assert!(matches!(error, IngestError::NotAFile { .. }), "{error}");
    }

    #[test]
    fn progress_adds_up_to_the_size_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let packed = [gz(b"one\n"), gz(b"two\n")].concat();
        std::fs::write(&path, &packed).unwrap();
        let seen = std::cell::Cell::new(0);
        let progress = |bytes| seen.set(seen.get() + bytes);
        let mut source = Source::open(&path, &progress).unwrap();
        let mut block = [0; 64];
        while source.read_block(&mut block).unwrap() > 0 {}
        assert_eq!(seen.get(), convert::count(packed.len()));
    }
}
