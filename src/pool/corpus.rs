//! Reads the user's texts.
//!
//! In: files and folders. Out: texts in a fixed order (as named; folders by file name, depth
//! first). `.txt` and `.md` are one text each, `.jsonl` one per line, from its string `text`.
//! Symbolic links inside a folder are not followed; files of other kinds there are skipped and
//! counted. Line ends become `\n`; nothing else is changed.

#![expect(clippy::disallowed_methods, reason = "the part of `pool` that reads the user's files")]

use super::error::PoolError;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest file read, in bytes: a file is held in memory whole.
pub const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Texts read from files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corpus {
    /// The texts, in a fixed order; none is empty.
    pub texts: Vec<String>,
    /// Files read.
    pub files: u64,
    /// Files of unknown kind in folders.
    pub skipped_files: u64,
    /// Texts that hold nothing but white space.
    pub empty_texts: u64,
}

impl Corpus {
    /// Reads files and folders, in the order given.
    ///
    /// # Errors
    /// [`PoolError::Read`], [`PoolError::NotUtf8`], [`PoolError::TooLarge`],
    /// [`PoolError::UnknownKind`] for a file named in `paths`, [`PoolError::BadLine`].
    pub fn read(paths: &[PathBuf]) -> Result<Self, PoolError> {
        let mut corpus = Self::default();
        for path in paths {
            if metadata(path)?.is_dir() {
                corpus.add_folder(path)?;
            } else if !corpus.add_file(path)? {
                return Err(PoolError::UnknownKind { path: path.clone() });
            }
        }
        Ok(corpus)
    }

    fn add_folder(&mut self, folder: &Path) -> Result<(), PoolError> {
        let read = |source| PoolError::Read { path: folder.to_owned(), source };
        let mut inside = Vec::new();
        for entry in fs::read_dir(folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            inside.push((entry.path(), entry.file_type().map_err(read)?));
        }
        inside.sort_by(|a, b| a.0.cmp(&b.0));
        for (path, kind) in inside {
            if kind.is_dir() {
                self.add_folder(&path)?;
            } else if !kind.is_file() || !self.add_file(&path)? {
                self.skipped_files += 1;
            }
        }
        Ok(())
    }

    /// Adds the texts of one file; false when its kind is unknown.
    fn add_file(&mut self, path: &Path) -> Result<bool, PoolError> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("txt" | "md") => self.add_text(&read_text(path)?),
            Some("jsonl") => {
                let text = read_text(path)?;
                for (line, content) in (1..).zip(text.lines()) {
                    if !content.trim().is_empty() {
                        self.add_text(&text_of_line(path, line, content)?);
                    }
                }
            }
            _ => return Ok(false),
        }
        self.files += 1;
        Ok(true)
    }

    fn add_text(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n");
        if text.trim().is_empty() {
            self.empty_texts += 1;
        } else {
            self.texts.push(text);
        }
    }
}

fn metadata(path: &Path) -> Result<fs::Metadata, PoolError> {
    fs::metadata(path).map_err(|source| PoolError::Read { path: path.to_owned(), source })
}

fn read_text(path: &Path) -> Result<String, PoolError> {
    let bytes = metadata(path)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(PoolError::TooLarge { path: path.to_owned(), bytes, limit: MAX_FILE_BYTES });
    }
    let read = |source| PoolError::Read { path: path.to_owned(), source };
    let mut content = Vec::new();
    let file = File::open(path).map_err(read)?;
    file.take(MAX_FILE_BYTES).read_to_end(&mut content).map_err(read)?;
    let text = String::from_utf8(content).map_err(|error| PoolError::NotUtf8 {
        path: path.to_owned(),
        byte: error.utf8_error().valid_up_to(),
    })?;
    // A byte order mark belongs to the file, not to the text.
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), ToOwned::to_owned))
}

fn text_of_line(path: &Path, line: usize, content: &str) -> Result<String, PoolError> {
    let bad = |what: &str| PoolError::BadLine { path: path.to_owned(), line, what: what.into() };
    let value: serde_json::Value =
        serde_json::from_str(content).map_err(|_| bad("not valid JSON"))?;
    let text = value.get("text").ok_or_else(|| bad("no `text`"))?;
    text.as_str().map(ToOwned::to_owned).ok_or_else(|| bad("`text` is no string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn message(folder: &tempfile::TempDir, name: &str) -> String {
        let error = Corpus::read(&[folder.path().join(name)]).unwrap_err();
        error.to_string().replace(&folder.path().display().to_string(), "DIR")
    }

    #[test]
    fn a_folder_is_read_in_order_of_name() {
        let folder = folder(&[
            ("b.md", b"two\r\nlines"),
            ("a.txt", "\u{feff}one".as_bytes()),
            ("c/d.jsonl", b"{\"text\":\"three\"}\n\n{\"id\":1,\"text\":\"four\"}\n"),
            ("empty.txt", b" \n"),
            ("image.png", b"\xff"),
        ]);
        let corpus = Corpus::read(&[folder.path().to_owned()]).unwrap();
        assert_eq!(corpus.texts, ["one", "two\nlines", "three", "four"]);
        assert_eq!((corpus.files, corpus.skipped_files, corpus.empty_texts), (4, 1, 1));
        assert_eq!(Corpus::read(&[]).unwrap(), Corpus::default());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = folder(&[
            ("a.pdf", b"x"),
            ("latin.txt", b"caf\xe9"),
            ("a.jsonl", b"{\"text\":\"x\"}\n{\"text\":1}\n"),
            ("b.jsonl", b"{\"prompt\":\"x\"}\n"),
            ("c.jsonl", b"oops\n"),
        ]);
        insta::assert_snapshot!(message(&folder, "none.txt"), @"DIR/none.txt: not readable");
        insta::assert_snapshot!(message(&folder, "a.pdf"), @"DIR/a.pdf: unknown kind of file, expected `.txt`, `.md` or `.jsonl`");
        insta::assert_snapshot!(message(&folder, "latin.txt"), @"DIR/latin.txt: byte 3 is not UTF-8");
        insta::assert_snapshot!(message(&folder, "a.jsonl"), @"DIR/a.jsonl:2: `text` is no string, expected an object with a string `text`");
        insta::assert_snapshot!(message(&folder, "b.jsonl"), @"DIR/b.jsonl:1: no `text`, expected an object with a string `text`");
        insta::assert_snapshot!(message(&folder, "c.jsonl"), @"DIR/c.jsonl:1: not valid JSON, expected an object with a string `text`");
    }
}
