//! Running the binary in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A scratch folder with its own configuration, so that no test touches the user's.
pub(crate) struct Desk {
    dir: TempDir,
}

/// What a finished command left.
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().expect("a scratch folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a writable scratch folder");
        path
    }

    /// Returns the command with this folder as its working directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tracewright"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("OPENAI_API_KEY")
            .env_remove("OPENAI_BASE_URL");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        finish(&self.command(args).output().expect("the binary starts"))
    }

    /// Runs a command that must succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> Done {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "{args:?}\n{}\n{}", done.stdout, done.stderr);
        done
    }

    /// Returns every file below the folder, sorted, as paths relative to it.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.dir.path().to_owned()];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(&dir).expect("readable folder") {
                let path = entry.expect("readable entry").path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

pub(crate) fn finish(output: &Output) -> Done {
    Done {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns a path inside the repository.
pub(crate) fn in_repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns a path as text for the command line.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8 path")
}
