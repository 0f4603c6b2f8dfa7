//! The only functions that write to stdout and stderr.

use super::globals::Globals;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;

/// Writes text to stdout. A closed pipe (`| head`) ends the output, not the program.
pub(crate) fn to_stdout(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Writes one line to stderr.
pub(crate) fn line_to_stderr(line: &str) {
    let mut out = std::io::stderr().lock();
    drop(writeln!(out, "{line}"));
}

/// Writes a line of progress in words to stderr, unless `--quiet`.
pub(crate) fn note(globals: &Globals, line: &str) {
    if !globals.quiet {
        line_to_stderr(line);
    }
}

/// Returns a progress bar over `total` things; hidden with `--quiet`, `--no-progress`, or when
/// stderr is no terminal.
pub(crate) fn progress(globals: &Globals, total: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if globals.quiet || globals.no_progress {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = "{msg} {wide_bar} {human_pos}/{human_len} {elapsed}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}
