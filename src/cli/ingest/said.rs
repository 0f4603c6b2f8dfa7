//! What `tracewright ingest` says of a finished ingest.
//!
//! Counts, reasons, decisions and the sums by model -> lines for stderr and a table for stdout. Holds
//! no state and reads nothing.

use super::{Globals, print};
use crate::domain::trace::IngestCounts;
use crate::ingest::inputs::Inputs;
use crate::ingest::models::{Model, Models};
use crate::ingest::{Ingested, RejectReason};

/// Reject reasons printed.
const SHOWN_REASONS: usize = 5;
/// Files printed that are no logs.
const SHOWN_LEFT_OUT: usize = 5;

/// Prints which files given by a directory or a pattern are no logs.
pub(super) fn print_left_out(globals: &Globals, inputs: &Inputs) {
    for path in inputs.left_out.iter().take(SHOWN_LEFT_OUT) {
        print::note(globals, &format!("no log, left out: {}", path.display()));
    }
    if inputs.left_out.len() > SHOWN_LEFT_OUT {
        let more = inputs.left_out.len() - SHOWN_LEFT_OUT;
        print::note(globals, &format!("no log, left out: {more} more files"));
    }
    if inputs.side_objects > 0 {
        let line = format!("side objects of a log, left out: {} files", inputs.side_objects);
        print::note(globals, &line);
    }
}

/// Returns the table by model asked for.
pub(super) fn model_table(models: &Models) -> String {
    let line = |name: &str, cells: [String; 6]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>12}")).collect();
        format!("{name:<28} {}\n", cells.join(" "))
    };
    let head = ["rows", "no input", "no output", "failed", "median in", "median out"];
    let mut text = format!("\n{}", line("by model asked for", head.map(str::to_owned)));
    let row = |name: &str, model: &Model| {
        let counts = [model.rows, model.missing_input, model.missing_output, model.failed];
        let [rows, no_input, no_output, failed] = counts.map(|count| count.to_string());
        let [input, output] = [model.median_input(), model.median_output()]
            .map(|median| median.map_or_else(|| "-".to_owned(), |median| format!("{median:.1}")));
        line(name, [rows, no_input, no_output, failed, input, output])
    };
    for (name, model) in models.by_rows() {
        text += &row(name.unwrap_or("(none)"), model);
    }
    if let Some(others) = models.others() {
        text += &row("(all other models)", others);
    }
    text
}

/// Prints where every record went, and what was decided.
pub(super) fn print_summary(globals: &Globals, ingested: &Ingested, files: usize) {
    let counts = &ingested.metadata.counts;
    print::note(globals, &summary(counts, files));
    for decision in &ingested.metadata.decisions {
        let line = format!("decided: {}: {} ({})", decision.what, decision.value, decision.why);
        print::note(globals, &line);
    }
}

/// Returns where every record went, in one line.
fn summary(counts: &IngestCounts, files: usize) -> String {
    let dropped: u64 = counts.dropped.values().sum();
    let reasons: Vec<String> =
        counts.dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let reasons =
        if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    format!(
        "read {} records on {} lines of {files} {}: kept {}, merged {}, dropped {dropped}{reasons}, rejected {}",
        counts.read,
        counts.lines,
        if files == 1 { "file" } else { "files" },
        counts.kept,
        counts.merged,
        counts.rejected
    )
}

/// Prints the most frequent reasons of rejects.
pub(super) fn print_reasons(globals: &Globals, reasons: &[RejectReason]) {
    for reason in reasons.iter().take(SHOWN_REASONS) {
        let line = format!("rejected: {} {}, first at {}", reason.what, reason.count, reason.first);
        print::note(globals, &line);
    }
    if reasons.len() > SHOWN_REASONS {
        let more = reasons.len() - SHOWN_REASONS;
        print::note(globals, &format!("rejected: {more} more reasons in the rejects file"));
    }
}

/// Returns the error of more rejects than allowed.
pub(super) fn too_many(counts: &IngestCounts, found: f64, allowed: f64) -> String {
    format!(
        "error: {} of {} records rejected ({:.2} %), more than --max-reject-share allows ({:.2} %); the trace is written\nhint: see the reasons in the rejects file",
        counts.rejected,
        counts.read,
        100.0 * found,
        100.0 * allowed
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::RequestRecord;

    #[test]
    fn every_model_has_its_line() {
        let mut models = Models::default();
        for (name, tokens) in
            [(Some("chat-small"), Some(12)), (Some("chat-small"), Some(13)), (None, None)]
        {
            let mut row = RequestRecord::unknown("test".into(), 0, 1);
            row.request_model = name.map(Into::into);
            row.input_tokens = tokens;
            models.observe(&row);
        }
        insta::assert_snapshot!(model_table(&models).trim(), @r"
        by model asked for                   rows     no input    no output       failed    median in   median out
        chat-small                              2            0            2            0         12.5            -
        (none)                                  1            1            1            0            -            -
        ");
        for n in 0..crate::ingest::models::MAX_MODELS {
            let mut row = RequestRecord::unknown("test".into(), 0, 1);
            row.request_model = Some(format!("m{n}").into());
            models.observe(&row);
        }
        let last = model_table(&models).lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("(all other models)  "), "{last}");
    }

    #[test]
    fn the_summary_says_where_every_record_went() {
        let counts = IngestCounts {
            read: 10,
            kept: 5,
            merged: 1,
            dropped: [("no_time".to_owned(), 1), ("probe".to_owned(), 2)].into(),
            rejected: 1,
            lines: 11,
        };
        insta::assert_snapshot!(summary(&counts, 1), @"read 10 records on 11 lines of 1 file: kept 5, merged 1, dropped 3 (no_time 1, probe 2), rejected 1");
        insta::assert_snapshot!(too_many(&counts, 0.1, 0.01), @r"
        error: 1 of 10 records rejected (10.00 %), more than --max-reject-share allows (1.00 %); the trace is written
        hint: see the reasons in the rejects file
        ");
    }
}
