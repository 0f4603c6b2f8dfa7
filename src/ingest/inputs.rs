//! What the user named as logs, as a list of files: files, directories, patterns, pipes.
//!
//! Names -> files sorted by path, each once. Directories are searched to the bottom, links to
//! directories not followed; hidden and empty files and what is certainly no log are left out there and
//! listed. A pipe is read once into a file that only its owner can read, since a log is read more
//! than once; the caller removes the folder it is in. A file that is named itself is always taken.

#![expect(clippy::disallowed_methods, reason = "pipes are read and directories listed here")]

use super::error::IngestError;
use std::collections::BTreeMap;
use std::fs::{File, FileType};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ends of names that no log has, in lower case.
const NO_LOGS: &[&str] = &[
    ".contents.jsonl",
    "readme.txt",
    "license.txt",
    "sums",
    ".rejects.jsonl",
    ".md",
    ".sha256",
    ".sha512",
    ".sha1",
    ".md5",
    ".asc",
    ".sig",
    ".partial",
    ".crc",
    ".db-wal",
    ".db-shm",
    ".db-journal",
    ".pdf",
    ".png",
    ".html",
    ".toml",
    ".yaml",
    ".yml",
    ".py",
    ".sh",
    "_success",
];

/// The files behind the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The logs, sorted by path, each once.
    pub files: Vec<PathBuf>,
    /// What was found and is no log.
    pub left_out: Vec<PathBuf>,
    /// Bodies that Bedrock keeps beside its log, in folders `data`; left out as `side_object`.
    pub side_objects: u64,
    /// Files that pipes were read into.
    pub spooled: Vec<PathBuf>,
}

/// Returns the logs behind the names, as [`look`] finds them.
///
/// # Errors
///
/// As [`look`].
pub fn expand(args: &[PathBuf], stdin_spool: &Path) -> Result<Vec<PathBuf>, IngestError> {
    look(args, stdin_spool).map(|inputs| inputs.files)
}

/// Finds the logs behind names: files, directories, patterns, and `-` or another pipe, which is
/// read into the folder `stdin_spool`.
///
/// # Errors
///
/// If nothing is named, a name leads to no log, or a file or pipe cannot be read.
pub fn look(args: &[PathBuf], stdin_spool: &Path) -> Result<Inputs, IngestError> {
    if args.is_empty() {
        return Err(IngestError::NoInput);
    }
    let mut search =
        Search { spool: stdin_spool, inputs: Inputs::default(), found: BTreeMap::new() };
    for arg in args {
        search.add(arg)?;
    }
    let Search { mut inputs, found, .. } = search;
    inputs.files = found.into_values().collect();
    inputs.files.sort();
    inputs.left_out.sort();
    inputs.left_out.dedup();
    Ok(inputs)
}

struct Search<'s> {
    spool: &'s Path,
    inputs: Inputs,
    /// The files by their real paths, so that each counts once.
    found: BTreeMap<PathBuf, PathBuf>,
}

impl Search<'_> {
    fn add(&mut self, arg: &Path) -> Result<(), IngestError> {
        if arg.as_os_str() == "-" {
            return self.read_pipe(arg, &mut std::io::stdin().lock());
        }
        let kind = match arg.metadata() {
            Ok(found) => found.file_type(),
            Err(_) if is_pattern(arg) => return self.add_pattern(arg),
            Err(source) => return Err(unreadable(arg, source)),
        };
        if kind.is_dir() {
            let before = self.found.len();
            let known = self.found.clone();
            self.search(arg)?;
            let none = self.found.len() == before && !Self::has_known(arg, &known);
            return if none { Err(IngestError::NoLogs { file: name(arg) }) } else { Ok(()) };
        }
        if is_pipe(kind) {
            let mut pipe = File::open(arg).map_err(|source| unreadable(arg, source))?;
            return self.read_pipe(arg, &mut pipe);
        }
        if !kind.is_file() {
            return Err(IngestError::NotAFile { file: name(arg) });
        }
        self.keep(arg)
    }

    /// Whether logs of a directory were found before, under another name.
    fn has_known(folder: &Path, known: &BTreeMap<PathBuf, PathBuf>) -> bool {
        let real = folder.canonicalize().unwrap_or_default();
        known.keys().any(|path| path.starts_with(&real))
    }

    fn keep(&mut self, path: &Path) -> Result<(), IngestError> {
        let real = path.canonicalize().map_err(|source| unreadable(path, source))?;
        // Of several names of one file the shortest counts, not the one that was named first.
        let entry = self.found.entry(real).or_insert_with(|| path.to_owned());
        let rank = |path: &Path| (path.as_os_str().len(), path.to_owned());
        if rank(path) < rank(entry) {
            path.clone_into(entry);
        }
        Ok(())
    }

    /// Takes the logs of a directory.
    fn search(&mut self, folder: &Path) -> Result<(), IngestError> {
        let entries = std::fs::read_dir(folder).map_err(|source| unreadable(folder, source))?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(|source| unreadable(folder, source))?.path());
        }
        paths.sort();
        for path in paths {
            self.add_found(&path)?;
        }
        Ok(())
    }

    /// Takes what was found and not named: a log, or a directory of logs.
    fn add_found(&mut self, path: &Path) -> Result<(), IngestError> {
        let kind = path.symlink_metadata().map_err(|source| unreadable(path, source))?;
        let is_file = path.metadata().is_ok_and(|found| found.is_file());
        let is_empty = path.metadata().is_ok_and(|found| found.is_file() && found.len() == 0);
        if is_hidden(path) || is_no_log(path) || is_empty {
            self.inputs.left_out.push(path.to_owned());
        } else if kind.is_dir() {
            self.search(path)?;
        } else if !is_file {
            self.inputs.left_out.push(path.to_owned());
        } else if is_side_object(path) {
            self.inputs.side_objects += 1;
        } else {
            self.keep(path)?;
        }
        Ok(())
    }

    fn add_pattern(&mut self, pattern: &Path) -> Result<(), IngestError> {
        let no_match = || IngestError::NoMatch { pattern: name(pattern) };
        let text = pattern.to_str().ok_or_else(no_match)?;
        let options = glob::MatchOptions {
            require_literal_separator: true,
            require_literal_leading_dot: true,
            ..glob::MatchOptions::new()
        };
        let paths = glob::glob_with(text, options).map_err(|_| no_match())?;
        let mut some = false;
        for path in paths {
            let path = path.map_err(|error| unreadable(pattern, error.into()))?;
            some = true;
            self.add_found(&path)?;
        }
        if some { Ok(()) } else { Err(no_match()) }
    }

    /// Reads a pipe into a file.
    fn read_pipe(&mut self, pipe: &Path, from: &mut dyn Read) -> Result<(), IngestError> {
        let number = self.inputs.spooled.len();
        let unwritable = |source| IngestError::Unwritable { path: self.spool.to_owned(), source };
        // The same name each time: it is part of the trace. Only its owner can read it.
        std::fs::create_dir_all(self.spool).map_err(unwritable)?;
        let path = self.spool.join(format!("pipe-{number}.log"));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut to = options.open(&path).map_err(unwritable)?;
        std::io::copy(from, &mut to).map_err(|source| unreadable(pipe, source))?;
        self.inputs.spooled.push(path.clone());
        self.keep(&path)
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> IngestError {
    IngestError::Unreadable { file: name(path), source }
}

fn name(path: &Path) -> Arc<str> {
    path.display().to_string().into()
}

fn is_pattern(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
}

fn is_pipe(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_socket()
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default()
}

fn is_hidden(path: &Path) -> bool {
    file_name(path).starts_with('.')
}

fn is_no_log(path: &Path) -> bool {
    let name = file_name(path);
    NO_LOGS.iter().any(|end| name.ends_with(end))
}

/// Whether a file is the body of a request or an answer that Bedrock keeps beside its log:
/// `.../data/ID_input.json.gz`.
fn is_side_object(path: &Path) -> bool {
    let name = file_name(path);
    let in_data = path.parent().is_some_and(|folder| folder.ends_with("data"));
    let is_body = ["_input.json", "_output.json"].iter().any(|part| name.contains(part));
    in_data && is_body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(folder: &Path, names: &[&str]) {
        for name in names {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}\n").unwrap();
        }
    }

    fn found(folder: &Path, args: &[&str]) -> Result<(Vec<String>, Inputs), IngestError> {
        let args: Vec<PathBuf> = args.iter().map(|arg| folder.join(arg)).collect();
        let inputs = look(&args, folder)?;
        let short = |path: &PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
        Ok((inputs.files.iter().map(short).collect(), inputs))
    }

    #[test]
    fn directories_are_searched_and_sorted_without_what_is_no_log() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "d/b.jsonl.gz",
            "d/a.log",
            "d/.hidden",
            "d/x/c.csv",
            "d/README.md",
            "d/a.log.sha256",
            "d/t.rejects.jsonl",
            "d/h/data/1_input.json.gz",
            "d/h/data/1_output.json",
            "d/h/data/log.json",
        ];
        touch(folder.path(), &names);
        let (files, inputs) = found(folder.path(), &["d", "d/a.log", "d/../d/a.log"]).unwrap();
        assert_eq!(files, ["d/a.log", "d/b.jsonl.gz", "d/h/data/log.json", "d/x/c.csv"]);
        assert_eq!((inputs.left_out.len(), inputs.side_objects), (4, 2));
        let (files, _) = found(folder.path(), &["d/t.rejects.jsonl", "d/.hidden"]).unwrap();
        assert_eq!(files.len(), 2, "a file that is named is taken");
        let (files, _) = found(folder.path(), &["d/x", "d/x"]).unwrap();
        assert_eq!(files, ["d/x/c.csv"]);
    }

    #[test]
    fn patterns_are_expanded() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), &["a1.log", "a2.log", "a3.md", "b.log", "x/a4.log", "we[ir]d*"]);
        assert_eq!(found(folder.path(), &["a*"]).unwrap().0, ["a1.log", "a2.log"]);
        assert_eq!(found(folder.path(), &["**/a?.log"]).unwrap().0.len(), 3);
        assert_eq!(found(folder.path(), &["we[ir]d*"]).unwrap().0, ["we[ir]d*"]);
        assert!(matches!(found(folder.path(), &["c*"]), Err(IngestError::NoMatch { .. })));
    }

    #[test]
    fn names_without_logs_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), &["d/README.md"]);
        assert!(matches!(found(folder.path(), &["d"]), Err(IngestError::NoLogs { .. })));
        assert!(matches!(found(folder.path(), &["no"]), Err(IngestError::Unreadable { .. })));
        assert!(matches!(look(&[], folder.path()), Err(IngestError::NoInput)));
        let null = [PathBuf::from("/dev/null")];
        assert!(matches!(look(&null, folder.path()), Err(IngestError::NotAFile { .. })));
    }

    #[test]
    fn a_pipe_is_read_once_into_a_file_of_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let to = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::write(to, "{\"a\":1}\n").unwrap());
        let inputs = look(&[pipe], folder.path()).unwrap();
        writer.join().unwrap();
        assert_eq!(inputs.files, inputs.spooled);
        assert_eq!(std::fs::read(&inputs.files[0]).unwrap(), b"{\"a\":1}\n");
        assert_eq!(inputs.files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
