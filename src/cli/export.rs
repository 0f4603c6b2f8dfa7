//! `tracewright export`: a trace or a plan in, the input of another tool out.
//!
//! Reads the input batch by batch through `table`, turns rows into text in `export`, and writes
//! one file that appears when it is complete. The table of what was written and left out goes to
//! stdout, what the other tool has to be told to stderr.

use super::failure::Failed;
use super::globals::Globals;
use super::paths;
use super::print;
use super::units::grouped;
use crate::domain::record::RequestRecord;
use crate::domain::schedule::ScheduledRequest;
use crate::export::dataset::Dataset;
use crate::export::lines::Counts;
use crate::export::{Exporter, Format, Request};
use crate::table::TableError;
use crate::table::inspect::{Kind, kind_of};
use crate::table::output::PartialFile;
use crate::table::schedule::ScheduleReader;
use crate::table::schema::TOOL_VERSION;
use crate::table::trace::TraceReader;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Tokens in a block where neither the trace nor the user says it: that of Mooncake's files.
const BLOCK_SIZE: u32 = 512;

/// Write a trace or a plan for another load generator, or as a data set
///
/// `mooncake`, `aiperf` and `guidellm` are JSON lines with times, lengths and prefix blocks, as
/// those tools read them; `dataset-json` is one JSON document with every row, for notebooks
/// (docs/export.md). Requests that the other tool could not send are left out and counted: without
/// a time, without a token count, answered from a cache, without generated text. No hash, no
/// identifier and no text is in the file.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  tracewright export trace.parquet --format mooncake -o mooncake.jsonl
  tracewright export plan.parquet --format aiperf -o aiperf.jsonl
  tracewright export trace.parquet --format dataset-json -o requests.json")]
pub(crate) struct Args {
    /// The trace or the plan
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// What to write: mooncake, aiperf, guidellm or dataset-json
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    format: Format,
    /// Where to write it
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write nothing if a request lacks its time or a token count
    #[arg(long)]
    require_complete: bool,
    /// Write requests that the gateway answered from its cache, too
    #[arg(long)]
    keep_cache_hits: bool,
    /// Write sessions for AIPerf: ids, and delays after the answer before in place of times
    ///
    /// Lengths hold the whole prompt. AIPerf up to 0.13 puts the earlier turns of a session on top
    /// of them all the same, which makes the load too heavy: check what your version does.
    #[arg(long)]
    sessions: bool,
    /// Tokens in a prefix block [default: that of the trace, else 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    block_size: Option<u32>,
}

fn parse_format(word: &str) -> Result<Format, String> {
    let names = || Format::ALL.iter().map(|format| format.as_str()).collect::<Vec<_>>().join(", ");
    Format::parse(word).ok_or_else(|| format!("expected one of {}", names()))
}

/// What is exported.
enum Input {
    Trace(TraceReader),
    Plan(ScheduleReader),
}

impl Input {
    fn open(path: &Path) -> anyhow::Result<Self> {
        match kind_of(path)? {
            Kind::Trace => Ok(Self::Trace(TraceReader::open(path)?)),
            Kind::Plan => Ok(Self::Plan(ScheduleReader::open(path)?)),
            other => {
                let found =
                    format!("{}: expected a trace or a plan, found a {other}", path.display());
                let hint = "make a trace with `tracewright ingest LOG -o trace.parquet`".to_owned();
                Err(Failed::new(found, hint).into())
            }
        }
    }

    const fn rows(&self) -> u64 {
        match self {
            Self::Trace(reader) => reader.rows(),
            Self::Plan(reader) => reader.rows(),
        }
    }
}

/// Exports a trace or a plan.
pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    paths::keep_inputs([args.input.as_path()], &[&args.output])?;
    let input = Input::open(&args.input)?;
    let mut file = PartialFile::create(&args.output, globals.force)?;
    let bar = print::progress(globals, input.rows(), "export");
    let table = if args.format == Format::DatasetJson {
        let rows = write_dataset(input, &mut file, &|rows| bar.inc(rows))?;
        format!("{:<28} {}\n", "requests written", grouped(rows))
    } else {
        let block_size = match args.block_size {
            Some(size) => size,
            None if args.format.has_blocks() => {
                first_block_size(&args.input)?.unwrap_or(BLOCK_SIZE)
            }
            None => BLOCK_SIZE,
        };
        let exporter = Exporter::new(args.format, block_size, args.keep_cache_hits)
            .with_sessions(args.sessions);
        let exporter = write_lines(input, exporter, &mut file, &|rows| bar.inc(rows))?;
        check(args, exporter.counts())?;
        notes(args.format, &exporter, globals);
        render(exporter.counts())
    };
    bar.finish_and_clear();
    file.commit()?;
    print::to_stdout(&table);
    print::note(globals, &format!("wrote {}", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// Calls `each` with every batch, as rows of a trace or of a plan, and the number of the first.
fn batches(
    input: Input,
    advance: &dyn Fn(u64),
    each: &mut dyn FnMut(Rows<'_>, u64) -> Result<(), TableError>,
) -> Result<u64, TableError> {
    let mut first = 0;
    let mut done = |rows: Rows<'_>| {
        let count = rows.count();
        each(rows, first)?;
        advance(count);
        first += count;
        Ok::<(), TableError>(())
    };
    match input {
        Input::Trace(reader) => {
            for batch in reader {
                done(Rows::Trace(&batch?))?;
            }
        }
        Input::Plan(reader) => {
            for batch in reader {
                done(Rows::Plan(&batch?))?;
            }
        }
    }
    Ok(first)
}

/// A batch of rows.
#[derive(Clone, Copy)]
enum Rows<'a> {
    Trace(&'a [RequestRecord]),
    Plan(&'a [ScheduledRequest]),
}

impl Rows<'_> {
    fn count(self) -> u64 {
        let rows = match self {
            Self::Trace(rows) => rows.len(),
            Self::Plan(rows) => rows.len(),
        };
        crate::domain::convert::count(rows)
    }
}

fn write_lines(
    input: Input,
    mut exporter: Exporter,
    file: &mut PartialFile,
    advance: &dyn Fn(u64),
) -> anyhow::Result<Exporter> {
    let mut text = String::new();
    batches(input, advance, &mut |rows, first| {
        match rows {
            Rows::Trace(rows) => {
                for (row_id, row) in (first..).zip(rows) {
                    exporter.push(&Request::of_trace(row, row_id), &mut text);
                }
            }
            Rows::Plan(rows) => {
                for row in rows {
                    exporter.push(&Request::of_plan(row), &mut text);
                }
            }
        }
        flush(&mut text, file)
    })?;
    Ok(exporter)
}

fn write_dataset(
    input: Input,
    file: &mut PartialFile,
    advance: &dyn Fn(u64),
) -> anyhow::Result<u64> {
    let source = if matches!(input, Input::Plan(_)) { "plan" } else { "trace" };
    let mut text = Dataset::head(source, input.rows(), TOOL_VERSION);
    let mut dataset = Dataset::default();
    let rows = batches(input, advance, &mut |rows, first| {
        match rows {
            Rows::Trace(rows) => {
                for (row_id, row) in (first..).zip(rows) {
                    dataset.trace_row(row, row_id, &mut text);
                }
            }
            Rows::Plan(rows) => {
                for row in rows {
                    dataset.plan_row(row, &mut text);
                }
            }
        }
        flush(&mut text, file)
    })?;
    text.push_str(Dataset::tail());
    flush(&mut text, file)?;
    Ok(rows)
}

/// Writes a text and empties it.
fn flush(text: &mut String, file: &mut PartialFile) -> Result<(), TableError> {
    file.write_all(text.as_bytes()).map_err(|source| TableError::Io {
        path: file.path().to_owned(),
        action: "write",
        source,
    })?;
    text.clear();
    Ok(())
}

/// Returns the size of the first blocks in a trace; a plan does not say it.
fn first_block_size(path: &Path) -> anyhow::Result<Option<u32>> {
    let Input::Trace(reader) = Input::open(path)? else { return Ok(None) };
    for batch in reader {
        if let Some(size) = batch?.iter().find_map(|row| row.prefix_block_size) {
            return Ok(Some(size));
        }
    }
    Ok(None)
}

/// Refuses an export without lines, and with `--require-complete` one that lacks requests.
fn check(args: &Args, counts: &Counts) -> Result<(), Failed> {
    let input = args.input.display();
    let reasons = reasons(counts);
    if counts.written == 0 {
        let message = format!("{input}: no request of {} can be exported: {reasons}", counts.read);
        let hint = "`--format dataset-json` takes every row".to_owned();
        return Err(Failed::new(message, hint));
    }
    if args.require_complete && counts.incomplete() > 0 {
        let message = format!(
            "{input}: {} of {} requests lack what the format needs: {reasons}",
            counts.incomplete(),
            counts.read
        );
        let hint = "leave out `--require-complete` to export the others".to_owned();
        return Err(Failed::new(message, hint));
    }
    Ok(())
}

fn reasons(counts: &Counts) -> String {
    if counts.left_out.is_empty() {
        return "it holds none".to_owned();
    }
    let reasons: Vec<String> =
        counts.left_out.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    reasons.join(", ")
}

fn render(counts: &Counts) -> String {
    let mut lines = Vec::new();
    let mut line = |name: &str, count: u64| lines.push(format!("{name:<28} {}\n", grouped(count)));
    line("requests read", counts.read);
    line("requests written", counts.written);
    for (reason, count) in &counts.left_out {
        line(&format!("left out: {reason}"), *count);
    }
    if counts.sessions > 0 {
        line("sessions", counts.sessions);
        line("turns with a delay", counts.delays);
    }
    lines.concat()
}

/// Says what the other tool has to be told, and what was changed for it.
fn notes(format: Format, exporter: &Exporter, globals: &Globals) {
    let say = |text: String| print::note(globals, &text);
    let cut = exporter.counts().cut_times;
    if cut > 0 {
        say(format!("times: {cut} cut to whole milliseconds"));
    }
    if !format.has_blocks() {
        return;
    }
    let blocks = exporter.blocks();
    if blocks.block_size() != BLOCK_SIZE {
        let size = blocks.block_size();
        say(format!(
            "blocks: {size} tokens each; tell the other tool (AIPerf `--isl-block-size {size}`, GuideLLM `hash_id_block_size={size}`)"
        ));
    }
    if blocks.fitted > 0 {
        say(format!("blocks: {} lists cut or filled up to fit their input", blocks.fitted));
    }
    if blocks.other_size > 0 {
        say(format!("blocks: {} requests have another size and share nothing", blocks.other_size));
    }
}
