//! `tracewright inspect`: what an artifact is and holds, as text or JSON.
//!
//! The kind comes from the file's own metadata. Facts about columns come from `table::inspect`,
//! a trace's quality table from the same code as at its ingest, a model's table from that of
//! `fit`. Nothing of a row is printed but counts, quantiles, and words of known columns.

use super::failure::Failed;
use super::globals::Globals;
use super::print;
use super::units::grouped;
use crate::domain::workload::WorkloadModel;
use crate::ingest::Quality;
use crate::run::dir::RunDir;
use crate::run::manifest::RunManifest;
use crate::table::inspect::facts::{ColumnFacts, Numbers, WordCount};
use crate::table::inspect::{self, Kind, Table};
use crate::table::trace::TraceReader;
use crate::table::{model, pool};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Words of a column on its line of text; JSON has more.
const SHOWN_WORDS: usize = 6;

/// Say what an artifact is and what its columns hold
///
/// Takes a trace, a plan, a model, a pool or a run (its directory, or a file in it). Prints rows,
/// provenance, and for each column its type, unit, nulls and, for numbers, quantiles (exact up to
/// 4,194,304 values, beyond that off by at most 1 in 256, and marked `~`), for words the most
/// frequent ones. Of hashes only the number of different ones is told; no text is shown.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  tracewright inspect trace.parquet
  tracewright inspect runs/20261124T091502Z-chat --json | jq '.columns[] | select(.name == \"ttft_ns\")'

JSON: `artifact`, `path`, `table` (null for a model): `schema_version`, `tool_version`, `digest`
(BLAKE3), `rows`, `provenance`, `columns`; each column: `name`, `type`, `unit`, `meaning`, `nulls`,
and null or `numbers` (`count`, `min`, `p50`, `p90`, `p99`, `max`, `exact`), `times` (the same, as
RFC 3339), `lengths` (of lists), `words` (`value`, `count`), `distinct` (of hashes). Beside them, null
where it is another artifact: `quality` (`name`, `value`), `model`, `pool`, `run`.")]
pub(crate) struct Args {
    /// A trace, a plan, a model, a pool or a run
    #[arg(value_name = "ARTIFACT")]
    artifact: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Everything that is told.
#[derive(Debug, Serialize)]
struct Inspection {
    artifact: Kind,
    path: String,
    table: Option<Table>,
    quality: Option<Vec<Line>>,
    model: Option<Value>,
    pool: Option<Value>,
    run: Option<Value>,
    /// A model's table, for text.
    #[serde(skip)]
    described: String,
}

/// A line of a quality table.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    value: String,
}

/// Inspects an artifact.
pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let found = look(&args.artifact, globals)?;
    let text =
        if args.json { serde_json::to_string_pretty(&found)? + "\n" } else { render(&found) };
    print::to_stdout(&text);
    Ok(ExitCode::SUCCESS)
}

fn look(path: &Path, globals: &Globals) -> anyhow::Result<Inspection> {
    let (kind, place) = inspect::locate(path)?;
    let mut found = Inspection {
        artifact: kind,
        path: path.display().to_string(),
        table: None,
        quality: None,
        model: None,
        pool: None,
        run: None,
        described: String::new(),
    };
    match kind {
        Kind::Model => {
            let fitted: WorkloadModel = model::read(&place)?;
            found.described = crate::fit::describe(&fitted);
            found.model = Some(serde_json::to_value(&fitted)?);
            return Ok(found);
        }
        Kind::Pool => found.pool = Some(serde_json::to_value(pool::read_manifest(&place)?)?),
        Kind::Run => found.run = manifest(&place)?,
        Kind::Trace => found.quality = Some(quality(&place, globals)?),
        Kind::Plan | Kind::Chunks => {}
    }
    let table = inspect::table(kind, &place)?;
    check_pool(&place, &table, found.pool.as_ref())?;
    found.table = Some(table);
    Ok(found)
}

/// Returns the manifest of a run; `requests.parquet` may lie elsewhere without one.
fn manifest(place: &Path) -> anyhow::Result<Option<Value>> {
    let folder = if place.is_dir() { Some(place) } else { place.parent() };
    let Some(dir) = folder.and_then(|folder| RunDir::open(folder).ok()) else { return Ok(None) };
    if !dir.requests().is_file() {
        let message = format!("{}: the run goes on or was killed", dir.path().display());
        let hint = "`tracewright report` recovers a killed run".to_owned();
        return Err(Failed::new(message, hint).into());
    }
    Ok(Some(serde_json::to_value(RunManifest::read(&dir)?)?))
}

/// Says that a pool is not the one its manifest describes.
fn check_pool(place: &Path, table: &Table, pool: Option<&Value>) -> Result<(), Failed> {
    let told = pool.and_then(|pool| pool.get("pool_digest")).and_then(Value::as_str);
    if told.is_some_and(|told| told != table.digest) {
        let message = format!("{}: `pool.parquet` is not that of `pool.json`", place.display());
        let hint = "build the pool again with `tracewright pool build`".to_owned();
        return Err(Failed::new(message, hint));
    }
    Ok(())
}

/// Returns the quality table of a trace, as `ingest` printed it.
fn quality(trace: &Path, globals: &Globals) -> anyhow::Result<Vec<Line>> {
    let reader = TraceReader::open(trace)?;
    let bar = print::progress(globals, reader.rows(), "inspect");
    let metadata = reader.metadata().clone();
    let mut quality = Quality::default();
    for batch in reader {
        for row in &batch? {
            quality.observe(row);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let lines = quality.lines(&metadata).into_iter();
    Ok(lines.map(|(name, value)| Line { name, value }).collect())
}

fn render(found: &Inspection) -> String {
    let mut text = format!("{}: a {}\n", found.path, found.artifact);
    let mut line = |name: &str, value: &str| add(&mut text, format_args!("{name:<28} {value}\n"));
    if let Some(table) = &found.table {
        line("schema version", &table.schema_version.to_string());
        line(
            "written by",
            &format!("tracewright {}", table.tool_version.as_deref().unwrap_or("?")),
        );
        line("digest", &table.digest);
        line("rows", &grouped(table.rows));
        flat("", &table.provenance, &mut line);
    }
    for (name, value) in [("pool", &found.pool), ("run", &found.run)] {
        if let Some(value) = value {
            flat(name, value, &mut line);
        }
    }
    if let Some(quality) = &found.quality {
        text += "\nquality\n";
        for Line { name, value } in quality {
            add(&mut text, format_args!("{name:<28} {value}\n"));
        }
    }
    if let Some(table) = &found.table {
        text += &columns(table);
    }
    text + &found.described
}

fn add(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part).expect("a string takes any text");
}

/// Prints the leaves of a JSON value by their paths, long lists by their number.
fn flat(path: &str, value: &Value, line: &mut dyn FnMut(&str, &str)) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                // A file's name is a hash of no use to a reader; decisions are in the quality.
                if !matches!(key.as_str(), "name_hash" | "decisions") {
                    flat(&below(key), value, line);
                }
            }
        }
        Value::Array(items) if items.len() <= SHOWN_WORDS => {
            for (place, item) in items.iter().enumerate() {
                flat(&below(&place.to_string()), item, line);
            }
        }
        Value::Array(items) => line(path, &format!("{} entries", items.len())),
        Value::String(text) => line(path, text),
        other => line(path, &other.to_string()),
    }
}

fn columns(table: &Table) -> String {
    let head = ["nulls", "min", "p50", "p90", "p99", "max"].map(|head| format!("{head:>13}"));
    let mut text = format!("\n{:<38}{}\n", "column", head.concat());
    let (known, unknown): (Vec<_>, Vec<_>) =
        table.columns.iter().partition(|column| column.nulls < table.rows);
    for column in known {
        text += &column_lines(column);
    }
    let unknown: Vec<&str> = unknown.iter().map(|column| column.name).collect();
    if !unknown.is_empty() {
        add(&mut text, format_args!("\nalways null: {}\n", unknown.join(", ")));
    }
    text
}

/// Returns the lines of one column: its nulls and quantiles, then its words.
fn column_lines(column: &ColumnFacts) -> String {
    let nulls = format!("{:>13}", grouped(column.nulls));
    let unit = column.unit.map_or_else(String::new, |unit| format!(" [{unit}]"));
    let mut text = format!("{:<38}{nulls}", format!("{}{unit}", column.name));
    if let Some(numbers) = column.numbers.as_ref().or(column.lengths.as_ref()) {
        text += &quantiles(numbers);
        if column.lengths.is_some() {
            text += "  (length)";
        }
    }
    if let Some(times) = &column.times {
        add(&mut text, format_args!("  {} to {}", times.min, times.max));
    }
    if let Some(distinct) = column.distinct {
        add(&mut text, format_args!("  {} different", grouped(distinct)));
    }
    text.push('\n');
    let words: Vec<String> = column
        .words
        .iter()
        .flatten()
        .take(SHOWN_WORDS)
        .map(|WordCount { value, count }| format!("{value} {}", grouped(*count)))
        .collect();
    let more = column.words.as_ref().map_or(0, |words| words.len().saturating_sub(SHOWN_WORDS));
    if !words.is_empty() {
        let more = if more > 0 { ", …" } else { "" };
        add(&mut text, format_args!("    {}{more}\n", words.join(", ")));
    }
    text
}

fn quantiles(numbers: &Numbers) -> String {
    let Numbers { min, p50, p90, p99, max, exact, .. } = *numbers;
    let mark = if exact { "" } else { "~" };
    let nearly = [p50, p90, p99].map(|value| format!("{mark}{}", number(value)));
    let [p50, p90, p99] = nearly;
    let cells = [number(min), p50, p90, p99, number(max)];
    cells.map(|cell| format!("{cell:>13}")).concat()
}

/// Returns a number in at most 12 places.
fn number(value: f64) -> String {
    let whole = value.fract() == 0.0;
    match value.abs() {
        big if big >= 1e12 => format!("{value:.4e}"),
        _ if whole => format!("{value:.0}"),
        big if big >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::{Hash128, RequestRecord, Status};
    use crate::domain::time::WallTime;
    use crate::domain::trace::TraceMetadata;
    use crate::table::trace::TraceWriter;

    fn globals() -> Globals {
        Globals { seed: 42, quiet: true, no_progress: true, force: false }
    }

    fn trace(dir: &Path) -> PathBuf {
        let path = dir.join("t.parquet");
        let mut writer = TraceWriter::create(&path, false).unwrap();
        for n in 0..4_u32 {
            let mut row = RequestRecord::unknown("test".into(), 0, 1);
            row.arrival_time = Some(WallTime(i64::from(n) * 1_000_000));
            row.input_tokens = Some(100 * n);
            row.user_hash = Some(Hash128([0xab; 16]));
            row.status = Status::Ok;
            writer.write(&[row]).unwrap();
        }
        writer.finish(&TraceMetadata::default()).unwrap();
        path
    }

    #[test]
    fn a_trace_as_text_shows_columns_and_no_hash() {
        let dir = tempfile::tempdir().unwrap();
        let found = look(&trace(dir.path()), &globals()).unwrap();
        let text = render(&found);
        let line = |start: &str| {
            let found = text.lines().find(|line| line.starts_with(start));
            found.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("rows"), "rows 4");
        assert_eq!(
            line("gen_ai_usage_input_tokens"),
            "gen_ai_usage_input_tokens [tokens] 0 0 150 270 297 300"
        );
        assert_eq!(line("    ok"), "ok 4");
        assert_eq!(line("user_hash"), "user_hash 0 1 different");
        assert!(line("always null:").contains("cost_currency"), "{text}");
        assert!(line("status ok").ends_with("100.00 %"), "the quality table again: {text}");
        assert!(!text.contains("abab"), "{text}");
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!((&json["artifact"], &json["table"]["rows"]), (&"trace".into(), &4.into()));
        assert_eq!(json["quality"][0]["name"], "rows");
        assert_eq!(json["model"], Value::Null);
        assert!(!json.to_string().contains("abab"));
    }

    #[test]
    fn a_log_is_no_artifact() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        std::fs::write(&path, "{\"startTime\":1}\n{\"startTime\":2}\n").unwrap();
        let error = look(&path, &globals()).unwrap_err();
        let text = super::super::failure::render(&error);
        let text = text.replace(&format!("{}/", dir.path().display()), "");
        insta::assert_snapshot!(text, @r"
        error: log.jsonl: expected a trace, a plan, a model, a pool or a run, found a JSON file of another program
        hint: give a file that `tracewright` wrote; logs go through `tracewright ingest` first
        ");
    }

    #[test]
    fn numbers_stay_narrow() {
        let shown = [0.0, 1_234.0, 0.12345, 123.456, -5.5, 1.7e15].map(number);
        assert_eq!(shown, ["0", "1234", "0.1235", "123.5", "-5.5000", "1.7000e15"]);
    }
}
