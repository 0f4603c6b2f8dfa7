//! Errors as the user sees them: one line of where and what, `caused by:` lines, one `hint:`.

use super::print;
use crate::fit::FitError;
use crate::ingest::IngestError;
use crate::mock::MockError;
use crate::plan::PlanError;
use crate::pool::PoolError;
use crate::replay::ReplayError;
use crate::report::ReportError;
use crate::run::RunError;
use crate::table::TableError;
use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// Exit code of an error.
pub(crate) const ERROR: u8 = 1;
/// Exit code of a usage error.
pub(crate) const USAGE: u8 = 2;
/// Exit code of a refusal: all requests failed, or the result is not comparable.
pub(crate) const REFUSED: u8 = 4;
/// Exit code after Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// An error with what the user can do about it, and an exit code.
#[derive(Debug)]
pub(crate) struct Failed {
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
    code: u8,
}

impl Failed {
    /// Wraps an error of a stage together with its hint.
    pub(crate) fn new(
        error: impl Into<Box<dyn Error + Send + Sync>>,
        hint: impl Into<Option<String>>,
    ) -> Self {
        Self { error: error.into(), hint: hint.into(), code: ERROR }
    }

    /// A usage error: the command line asks for something that makes no sense.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<Option<String>>) -> Self {
        Self { code: USAGE, ..Self::new(message.into(), hint) }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// Prints an error with its causes and hint, and returns its exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    print::line_to_stderr(&render(error));
    let code = error.downcast_ref::<Failed>().map_or(ERROR, |failed| failed.code);
    ExitCode::from(code)
}

/// Returns the lines that [`report`] prints.
pub(crate) fn render(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}");
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text.push_str("\ncaused by: ");
            text.push_str(&cause);
        }
    }
    if let Some(hint) = hint(error) {
        text.push_str("\nhint: ");
        text.push_str(&hint);
    }
    text
}

/// Returns what the user can do about an error, from whichever stage it came.
fn hint(error: &anyhow::Error) -> Option<String> {
    let ways: [&dyn Fn() -> Option<String>; 10] = [
        &|| error.downcast_ref::<Failed>()?.hint.clone(),
        &|| error.downcast_ref::<TableError>()?.hint(),
        &|| error.downcast_ref::<RunError>()?.hint(),
        &|| error.downcast_ref::<IngestError>()?.hint(),
        &|| error.downcast_ref::<FitError>()?.hint(),
        &|| error.downcast_ref::<PoolError>()?.hint(),
        &|| error.downcast_ref::<PlanError>()?.hint(),
        &|| error.downcast_ref::<ReplayError>()?.hint(),
        &|| error.downcast_ref::<ReportError>()?.hint(),
        &|| error.downcast_ref::<MockError>()?.hint(),
    ];
    ways.iter().find_map(|way| way())
}

/// Prints what clap says of a command line and returns its exit code (0 for `--help`).
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Nothing can be done when the terminal itself cannot be written to.
    drop(error.print());
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_why_and_what_to_do() {
        let cause = std::io::Error::other("disk full");
        let failed = Failed::new(cause, Some("free some space".to_owned()));
        let rendered = render(&anyhow::Error::new(failed));
        assert_eq!(rendered, "error: disk full\nhint: free some space");
        assert_eq!(render(&anyhow::anyhow!("b").context("a")), "error: a\ncaused by: b");
    }
}
