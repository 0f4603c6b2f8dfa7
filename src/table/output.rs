//! Files that appear whole or not at all, and the digest of a file.
//!
//! A [`PartialFile`] is written beside its target as `<path>.partial` and renamed when it is
//! complete, so that a reader never sees half an artifact. What is dropped without a commit is
//! removed. It is synced to disk before the rename.

#![expect(clippy::disallowed_methods, reason = "artifacts are read and written here")]

use super::error::{TableError, made_by};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// An output that is renamed to its path when it is complete.
#[derive(Debug)]
pub struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    file: Option<BufWriter<File>>,
}

impl PartialFile {
    /// Creates `<path>.partial`, replacing what a killed program left there.
    ///
    /// # Errors
    ///
    /// If `path` exists and `force` is off, if `path` or `<path>.partial` is there and no regular
    /// file, or if the system refuses.
    pub fn create(path: &Path, force: bool) -> Result<Self, TableError> {
        if path.is_dir() {
            let source = std::io::Error::from(std::io::ErrorKind::IsADirectory);
            return Err(TableError::io(path, "write", source));
        }
        if !force && path.symlink_metadata().is_ok() {
            return Err(TableError::Exists { path: path.to_owned() });
        }
        // A rename would replace a device or a pipe by a file.
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            return Err(TableError::NotAFile { path: path.to_owned() });
        }
        let partial = partial_path(path);
        // What a killed program left is a file; a link would lead to somebody's own.
        if partial.symlink_metadata().is_ok_and(|there| !there.is_file()) {
            return Err(TableError::NotAFile { path: partial });
        }
        let file =
            File::create(&partial).map_err(|source| TableError::io(path, "create", source))?;
        Ok(Self { path: path.to_owned(), partial, file: Some(BufWriter::new(file)) })
    }

    /// Creates a file as [`Self::create`] does that only its owner may read, from the start.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub fn create_private(path: &Path, force: bool) -> Result<Self, TableError> {
        let made = Self::create(path, force)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&made.partial, std::fs::Permissions::from_mode(0o600))
                .map_err(|source| TableError::io(path, "protect", source))?;
        }
        Ok(made)
    }

    /// Returns the path the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes, syncs and renames the file to its path.
    ///
    /// # Errors
    ///
    /// If the system refuses; the partial file is then removed.
    pub fn commit(mut self) -> Result<(), TableError> {
        let result = self.sync_and_rename();
        if result.is_ok() {
            self.file = None;
        }
        result.map_err(|source| TableError::io(&self.path, "write", source))
    }

    fn sync_and_rename(&mut self) -> std::io::Result<()> {
        if let Some(file) = &mut self.file {
            file.flush()?;
            file.get_ref().sync_data()?;
        }
        std::fs::rename(&self.partial, &self.path)
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(std::io::Error::other("the file is complete")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Nothing more can be done when it cannot be removed; the next run replaces it.
            drop(std::fs::remove_file(&self.partial));
        }
    }
}

/// Returns `<path>.partial`.
fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Opens a file for reading; a missing one is named with how it is made.
pub(super) fn open(path: &Path, artifact: &'static str) -> Result<File, TableError> {
    File::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => {
            TableError::Missing { path: path.to_owned(), made_by: made_by(artifact) }
        }
        _ => TableError::io(path, "read", source),
    })
}

/// Returns the BLAKE3 digest of a file in hexadecimal, reading it in small pieces.
///
/// # Errors
///
/// If the file cannot be read.
pub fn digest(path: &Path) -> Result<String, TableError> {
    let mut hasher = blake3::Hasher::new();
    let file = File::open(path).map_err(|source| TableError::io(path, "read", source))?;
    hasher.update_reader(file).map_err(|source| TableError::io(path, "read", source))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Writes a value as indented JSON with a final newline.
///
/// # Errors
///
/// As [`PartialFile::create`]; also if the value has no JSON form.
pub fn write_json<T: Serialize>(path: &Path, value: &T, force: bool) -> Result<(), TableError> {
    let mut file = PartialFile::create(path, force)?;
    let mut text = serde_json::to_vec_pretty(value).map_err(|source| TableError::Json {
        path: path.to_owned(),
        what: "the value to write",
        source,
    })?;
    text.push(b'\n');
    file.write_all(&text).map_err(|source| TableError::io(path, "write", source))?;
    file.commit()
}

/// Reads a value from a JSON file; `what` names the JSON in messages.
pub(super) fn read_json<T: DeserializeOwned>(
    path: &Path,
    artifact: &'static str,
    what: &'static str,
) -> Result<T, TableError> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut open(path, artifact)?, &mut bytes)
        .map_err(|source| TableError::io(path, "read", source))?;
    serde_json::from_slice(&bytes).map_err(|source| TableError::Json {
        path: path.to_owned(),
        what,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn devices_pipes_and_links_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| PartialFile::create(path, true).map(|_| ()).unwrap_err();
        // `/dev/null` would become a regular file by the rename.
        assert!(matches!(refused(Path::new("/dev/null")), TableError::NotAFile { .. }));
        let theirs = folder.path().join("theirs");
        std::fs::write(&theirs, "theirs").unwrap();
        std::os::unix::fs::symlink(&theirs, folder.path().join("out.partial")).unwrap();
        assert!(matches!(refused(&folder.path().join("out")), TableError::NotAFile { .. }));
        assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
    }

    #[test]
    fn appears_only_when_committed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        let mut file = PartialFile::create(&path, false).unwrap();
        file.write_all(b"abc").unwrap();
        assert_eq!(names(dir.path()), ["a.txt.partial"]);
        file.commit().unwrap();
        assert_eq!(names(dir.path()), ["a.txt"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
    }

    #[test]
    fn dropped_is_removed_and_the_old_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "old").unwrap();
        let mut file = PartialFile::create(&path, true).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(names(dir.path()), ["a.txt"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn refusals_say_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "old").unwrap();
        let shown = |error: TableError| {
            let text = format!("{error}\nhint: {:?}", error.hint());
            text.replace(dir.path().to_str().unwrap(), "DIR")
        };
        insta::assert_snapshot!(shown(PartialFile::create(&path, false).unwrap_err()), @r#"
        DIR/a.txt: exists already
        hint: Some("choose another path, or overwrite with `--force`")
        "#);
        let deep = dir.path().join("no/a.txt");
        insta::assert_snapshot!(shown(PartialFile::create(&deep, false).unwrap_err()), @r#"
        DIR/no/a.txt: could not create
        hint: Some("create the directory `DIR/no` first")
        "#);
        insta::assert_snapshot!(shown(PartialFile::create(dir.path(), true).unwrap_err()), @"
        DIR: could not write
        hint: None
        ");
        insta::assert_snapshot!(shown(open(&deep, "trace").unwrap_err()), @r#"
        DIR/no/a.txt: no such file
        hint: Some("make a trace with `tracewright ingest LOG -o trace.parquet`")
        "#);
    }

    #[test]
    fn digest_of_nothing_and_of_abc() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for text in ["", "abc"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(digest(&path).unwrap(), blake3::hash(text.as_bytes()).to_hex().as_str());
        }
    }
}
