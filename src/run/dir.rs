//! A run directory: `runs/<UTC time>-<name>/` and the paths of its files.
//!
//! The name of a run is reduced to letters, digits, `-`, `_` and `.`. Two runs of one second get
//! different directories: the second one ends with `-2`.

use super::error::RunError;
use crate::domain::time::WallTime;
use std::path::{Path, PathBuf};

/// Names that are tried after the first.
const MAX_TRIES: u32 = 99;

/// A run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Creates a new directory below `root`, which is created when missing.
    ///
    /// # Errors
    ///
    /// If the system refuses, or a hundred runs of this name began in this second.
    pub fn create(root: &Path, name: &str, started: WallTime) -> Result<Self, RunError> {
        std::fs::create_dir_all(root)
            .map_err(|source| RunError::Create { path: root.to_owned(), source })?;
        let base = format!("{}-{}", stamp(started), plain(name));
        for number in 1..=MAX_TRIES + 1 {
            let name = if number == 1 { base.clone() } else { format!("{base}-{number}") };
            let path = root.join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(source) if source.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(RunError::Create { path, source }),
            }
        }
        Err(RunError::Taken { path: root.join(base), tried: MAX_TRIES })
    }

    /// Creates exactly the directory `path`, which must not exist or be empty.
    ///
    /// # Errors
    ///
    /// If it exists and is not empty, or the system refuses.
    pub fn create_at(path: &Path) -> Result<Self, RunError> {
        let wrap = |source| RunError::Create { path: path.to_owned(), source };
        std::fs::create_dir_all(path).map_err(wrap)?;
        if std::fs::read_dir(path).map_err(wrap)?.next().is_some() {
            return Err(RunError::Taken { path: path.to_owned(), tried: 0 });
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Returns the run directory at `path`.
    ///
    /// # Errors
    ///
    /// If it holds no manifest.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let dir = Self { path: path.to_owned() };
        if dir.manifest().is_file() {
            Ok(dir)
        } else {
            Err(RunError::NotARun { path: path.to_owned() })
        }
    }

    /// Returns the directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of `manifest.json`.
    pub fn manifest(&self) -> PathBuf {
        self.path.join("manifest.json")
    }

    /// Returns the path of `plan.parquet`.
    pub fn plan(&self) -> PathBuf {
        self.path.join("plan.parquet")
    }

    /// Returns the path of `requests.parquet`.
    pub fn requests(&self) -> PathBuf {
        self.path.join("requests.parquet")
    }

    /// Returns the path of `chunks.parquet`.
    pub fn chunks(&self) -> PathBuf {
        self.path.join("chunks.parquet")
    }

    /// Returns the path of the report with an extension: `json`, `md` or `html`.
    pub fn report(&self, extension: &str) -> PathBuf {
        self.path.join("report").with_extension(extension)
    }
}

/// Returns the UTC time to the second, as part of a file name: `20231116T181703Z`.
fn stamp(at: WallTime) -> String {
    at.to_string().split('.').next().unwrap_or_default().replace(['-', ':'], "") + "Z"
}

/// Returns `name` without anything that is awkward in a file name.
fn plain(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain: String = name.chars().map(|c| if keep(c) { c } else { '-' }).take(60).collect();
    if plain.is_empty() { "run".to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: WallTime = WallTime(1_700_158_623_979_960);

    #[test]
    fn two_runs_of_one_second_get_two_directories() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().join("runs");
        let name = |dir: &RunDir| dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let first = RunDir::create(&root, "chat", AT).unwrap();
        let second = RunDir::create(&root, "chat", AT).unwrap();
        assert_eq!(name(&first), "20231116T181703Z-chat");
        assert_eq!(name(&second), "20231116T181703Z-chat-2");
    }

    #[test]
    fn names_stay_inside_the_root() {
        assert_eq!(plain("../a b/c"), "..-a-b-c");
        assert_eq!(plain(""), "run");
        assert_eq!(plain("é"), "-");
        assert_eq!(plain(&"x".repeat(99)).len(), 60);
    }

    #[test]
    fn a_directory_without_manifest_is_no_run() {
        let root = tempfile::tempdir().unwrap();
        let error = RunDir::open(root.path()).unwrap_err();
        let text = error.to_string().replace(root.path().to_str().unwrap(), "DIR");
        insta::assert_snapshot!(text, @"DIR: not a run directory, it has no `manifest.json`");
        insta::assert_snapshot!(error.hint().unwrap(), @"give a run directory that `tracewright replay` wrote");
        let dir = RunDir::create_at(&root.path().join("x")).unwrap();
        std::fs::write(dir.manifest(), "{}").unwrap();
        assert_eq!(RunDir::open(dir.path()).unwrap(), dir);
        let error = RunDir::create_at(dir.path()).unwrap_err();
        let text = error.to_string().replace(root.path().to_str().unwrap(), "DIR");
        insta::assert_snapshot!(text, @"DIR/x: the run directory and 0 further names exist already");
    }
}
