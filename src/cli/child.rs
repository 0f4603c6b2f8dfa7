//! The built-in mock as a child process, so that it has a core and a clock of its own.

use super::failure::Failed;
use crate::domain::time::Nanos;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The line by which the mock says where it listens.
const READY: &str = "listening on ";

/// A running mock; dropped, it ends. It also ends when this process dies, with its standard input.
#[derive(Debug)]
pub(crate) struct MockChild {
    process: Child,
    url: String,
}

impl MockChild {
    /// Starts a mock with a stated pace on a free port of this machine and waits until it listens.
    pub(crate) fn start(ttft: Nanos, tpot: Nanos) -> Result<Self, Failed> {
        let failed = |error| Failed::new(NoMock(error), Some(HINT.to_owned()));
        let binary = std::env::current_exe().map_err(failed)?;
        let mut process = Command::new(binary)
            .args(["mock", "--listen", "127.0.0.1:0", "--until-stdin-closes", "--ttft"])
            .arg(format!("{}us", ttft.0 / 1_000))
            .arg("--tpot")
            .arg(format!("{}us", tpot.0 / 1_000))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C goes to the whole group of the terminal; the mock serves what is in flight.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        }
        match line.trim().strip_prefix(READY) {
            Some(url) => Ok(Self { url: url.to_owned(), process }),
            None => Err(failed(std::io::Error::other("it ended before it listened"))),
        }
    }

    /// Returns the address of the mock.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for MockChild {
    fn drop(&mut self) {
        // It may have ended on its own; then there is nothing left to do.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

const HINT: &str = "name an endpoint of your own with `--url URL --model NAME`";

#[derive(Debug, thiserror::Error)]
#[error("the built-in mock does not start")]
struct NoMock(#[source] std::io::Error);
