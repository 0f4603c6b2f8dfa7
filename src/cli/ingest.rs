//! `tracewright ingest`: gateway logs in, one trace out.
//!
//! Opens the salt and the outputs, runs the stage, prints the quality table to stdout and the
//! summary to stderr. The trace appears under its name only when it is complete.

use super::environment;
use super::failure::{self, Failed};
use super::globals::Globals;
use super::ingest_summary::{model_table, print_reasons, print_summary, too_many};
use super::paths;
use super::print;
use super::units::parse_duration;
use crate::domain::record::RequestRecord;
use crate::domain::time::Nanos;
use crate::ingest::filter::{Filter, Wanted};
use crate::ingest::format::generic::parse_map;
use crate::ingest::inputs::Inputs;
use crate::ingest::privacy::{self, Hasher, SaltPlace};
use crate::ingest::stamp::Unit;
use crate::ingest::{Beside, Contents, Format, Hints, IngestError, Options, Rejects, Sink, Zone};
use crate::table::TableError;
use crate::table::trace::TraceWriter;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Threads at most: more than any machine has cores for this.
const MAX_THREADS: usize = 256;
/// Batches of rows that wait for the writer.
const BATCHES_WAITING: usize = 2;
/// Files printed that are no logs.
const SHOWN_LEFT_OUT: usize = 5;

/// Read gateway logs into a trace
///
/// Tells the format by its keys, sorts by arrival, hashes identifiers, and prints a quality table.
/// Records that cannot be read go to `<trace>.rejects.jsonl` with file, line and reason. Prompts,
/// answers, keys, users and addresses are never written.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  tracewright ingest spendlogs.jsonl.gz -o trace.parquet
  tracewright ingest spendlogs.jsonl.gz --last 7d --where 'model=chat-small|chat-big' -o trace.parquet
  tracewright ingest mooncake.jsonl --time-unit ms -o trace.parquet
  tracewright ingest log.csv --map arrival=ts --map input_tokens=in --map output_tokens=out -o trace.parquet")]
pub(crate) struct Args {
    /// Logs of one trace: files, directories, patterns, or `-` for what is piped in
    ///
    /// JSON (lines, arrays, lists), CSV, text, Parquet, Arrow or SQLite; plain, gzip or zstd.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Where the trace goes
    #[arg(short, long, value_name = "FILE", default_value = "trace.parquet")]
    output: PathBuf,
    #[command(flatten)]
    window: Window,
}

/// How logs are read; also taken by `run`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Reading {
    /// Format of the logs [default: told by their keys]
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    format: Option<Format>,
    /// Column of the log that holds a field; makes the format `generic`
    ///
    /// FIELD is a column of the trace or its short name (`arrival`, `input_tokens`,
    /// `output_tokens`, `session`, `model`, `status`, `duration`, ...); COLUMN of JSONL may be a dotted path.
    #[arg(long, value_name = "FIELD=COLUMN")]
    map: Vec<String>,
    /// Zone of times that carry none [default: UTC, and printed]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Year of the first line, for logs whose times have none (vLLM)
    #[arg(long, value_name = "YEAR", value_parser = clap::value_parser!(i32).range(1970..=2100))]
    year: Option<i32>,
    /// Unit of bare numbers as times: s, ms, us or ns; `COLUMN=ms` for one column
    #[arg(long, value_name = "UNIT")]
    time_unit: Vec<String>,
    /// Largest share of rejected records for exit code 0
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    max_reject_share: f64,
    /// Secret behind the hashes [default: one made in your configuration]
    ///
    /// Traces of one salt can be joined by their hashes. Equal logs and salt give equal bytes.
    #[arg(long, value_name = "FILE")]
    salt_file: Option<PathBuf>,
    /// Say for each log which of its keys told the format
    #[arg(long)]
    explain: bool,
    /// Write no hashes of the prompts' blocks
    ///
    /// They are keyed with the salt; without them a plan repeats no prefixes.
    #[arg(long)]
    no_prefix_hashes: bool,
    /// Write the kept records as they stand, prompts and secrets included, to a file of their own
    ///
    /// `<trace>.contents.jsonl`, readable by you only: file, line and record. Nothing else ever
    /// holds texts.
    #[arg(long)]
    include_content: bool,
    /// Threads that decode [default: one per core]; the trace does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Keep requests with this value; `|` between several, repeatable
    ///
    /// KEY is `model` (asked for or answering), `tenant`, `status`, `user`, `key` or
    /// `operation`. Conditions of one key: any of them; of several keys: all. `user`, `key` and
    /// `tenant` are written as they stand in the log and compared by their hashes.
    #[arg(long = "where", value_name = "KEY=VALUE")]
    conditions: Vec<String>,
    /// The window; `run` chooses one when it plans.
    #[arg(skip)]
    window: Window,
}

/// Which arrivals go into the trace; other requests are counted as dropped.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Window")]
struct Window {
    /// Keep requests that arrived at this time or later: a date or a time, `--tz` if it has no zone
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Keep requests that arrived before this time; a date means its first instant
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Keep requests of the last span, back from the last arrival in the logs: `7d`, `36h`, `90m`
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    #[arg(conflicts_with_all = ["from", "to"])]
    last: Option<Nanos>,
}

fn parse_format(word: &str) -> Result<Format, String> {
    Format::parse(word).ok_or_else(|| format!("expected one of {}", Format::names().join(", ")))
}

pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let reading = Reading { window: args.window.clone(), ..args.reading.clone() };
    let done = ingest_to(&args.logs, &reading, &args.output, globals)?;
    print::to_stdout(&done.table);
    if done.too_many_rejects {
        return Ok(ExitCode::from(failure::ERROR));
    }
    Ok(ExitCode::SUCCESS)
}

/// What an ingest did.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    /// The quality table, for stdout.
    pub(crate) table: String,
    /// Whether more records were rejected than the user allows; the trace is written all the same.
    pub(crate) too_many_rejects: bool,
}

/// Reads logs into the trace `out` and prints the summary to stderr.
///
/// # Errors
///
/// If an option makes no sense, an input cannot be read, or an output cannot be written.
pub(crate) fn ingest_to(
    logs: &[PathBuf],
    reading: &Reading,
    out: &Path,
    globals: &Globals,
) -> anyhow::Result<Done> {
    let share = reading.max_reject_share;
    if !(0.0..=1.0).contains(&share) {
        let message = format!("--max-reject-share: expected a share from 0 to 1, found {share}");
        return Err(Failed::usage(message, None).into());
    }
    paths::once(logs)?;
    let options = options(reading, out, globals)?;
    let spool = Spool::beside(out)?;
    let inputs = crate::ingest::inputs::look(logs, &spool.0)?;
    print_left_out(globals, &inputs);
    let logs = &inputs.files;
    let named = logs.iter().chain(&reading.salt_file).map(PathBuf::as_path);
    let beside = [Rejects::path_beside(out), Contents::path_beside(out)];
    paths::keep_inputs(named, &[out, &beside[0], &beside[1]])?;
    let total = logs.iter().filter_map(|log| log.metadata().ok()).map(|meta| meta.len()).sum();
    let bar = print::progress(globals, total, "bytes read");
    let trace = TraceWriter::create(out, globals.force)?;
    let mut rejects = Rejects::create(out, globals.force)?;
    let mut contents = contents(reading.include_content, out, globals)?;
    let ingested = beside_writer(trace, |sink| {
        let beside = Beside { rejects: &mut rejects, contents: contents.as_mut() };
        crate::ingest::ingest(logs, &options, beside, &|bytes| bar.inc(bytes), sink)
    });
    bar.finish_and_clear();
    let reasons = rejects.reasons();
    let (ingested, trace) = ingested.inspect_err(|_| {
        // What was refused explains why nothing is left.
        print_reasons(globals, &reasons);
    })?;
    // Never a trace whose rejects are missing.
    let rejects_file = rejects.commit()?;
    trace.finish(&ingested.metadata)?;
    if let Some(contents) = contents {
        let path = contents.commit()?;
        print::note(globals, &format!("contents, in clear: {}", path.display()));
    } else {
        // Those of a trace that was replaced would be taken for this one's.
        Contents::remove_old(out)?;
    }
    for line in ingested.explained.iter().filter(|_| reading.explain) {
        print::note(globals, &format!("explained: {line}"));
    }
    print_summary(globals, &ingested, logs.len());
    print_reasons(globals, &reasons);
    if let Some(path) = rejects_file {
        print::note(globals, &format!("rejects: {}", path.display()));
    }
    print::note(globals, &format!("trace: {}", out.display()));
    let found = ingested.reject_share();
    let too_many_rejects = found > share;
    if too_many_rejects {
        print::line_to_stderr(&too_many(&ingested.metadata.counts, found, share));
    }
    let table = ingested.quality.render(&ingested.metadata) + &model_table(&ingested.models);
    Ok(Done { table, too_many_rejects })
}

/// Opens the file for the records as they stand in the logs, if the user asks for it.
fn contents(wanted: bool, out: &Path, globals: &Globals) -> Result<Option<Contents>, IngestError> {
    if !wanted {
        return Ok(None);
    }
    let path = Contents::path_beside(out);
    print::line_to_stderr(&format!(
        "content: whole records will be written in clear to {}, readable by you only; they may hold prompts, answers, names, keys and addresses; delete the file when you are done",
        path.display()
    ));
    Contents::create(out, globals.force).map(Some)
}

/// The folder into which pipes are read, beside the trace; removed with what is in it.
struct Spool(PathBuf);

impl Spool {
    /// Names the folder, and removes what a killed program left in it.
    fn beside(out: &Path) -> Result<Self, IngestError> {
        let name = out.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let path = out.with_file_name(format!("{name}.pipes"));
        match std::fs::remove_dir_all(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(IngestError::Unwritable { path, source })
            }
            _ => Ok(Self(path)),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // A folder that cannot be removed holds what its owner alone can read.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn print_left_out(globals: &Globals, inputs: &Inputs) {
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

/// Runs `work` while another thread turns its rows into columns and writes them.
///
/// # Errors
///
/// As `work`; where the writer stopped, why it did.
fn beside_writer<T>(
    mut trace: TraceWriter,
    work: impl FnOnce(Sink<'_>) -> Result<T, IngestError>,
) -> Result<(T, TraceWriter), IngestError> {
    let (send, receive) = std::sync::mpsc::sync_channel::<Vec<RequestRecord>>(BATCHES_WAITING);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for rows in receive {
                trace.write(&rows)?;
            }
            Ok::<_, TableError>(trace)
        });
        let done = work(&mut |rows| send.send(rows).map_err(|_| IngestError::SinkClosed));
        drop(send);
        let trace = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match done {
            Err(error) if !matches!(error, IngestError::SinkClosed) => Err(error),
            done => {
                let trace = trace?;
                Ok((done?, trace))
            }
        }
    })
}

fn options(reading: &Reading, out: &Path, globals: &Globals) -> anyhow::Result<Options> {
    let mut map = Vec::new();
    for text in &reading.map {
        let (field, column) = parse_map(text)?;
        if map.iter().any(|(mapped, _)| *mapped == field) {
            let hint = "one column holds a field: leave one of the two `--map` out".to_owned();
            let message = format!("--map: the field of `{text}` is mapped twice");
            return Err(Failed::usage(message, hint).into());
        }
        map.push((field, column));
    }
    let mut units = Vec::new();
    for text in &reading.time_unit {
        units.push(parse_unit(text)?);
    }
    let zone = match &reading.tz {
        Some(name) => Zone::named(name)?,
        None => Zone::utc(),
    };
    let hints = Hints { format: reading.format, map, zone, units, year: reading.year };
    let hasher = hasher(reading.salt_file.as_deref(), globals)?;
    let Window { from, to, last } = &reading.window;
    let (from, to) = (from.as_deref(), to.as_deref());
    let wanted = Wanted { from, to, last: *last, conditions: &reading.conditions };
    let filter = Filter::parse(&wanted, &hints.zone, &hasher)?;
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let spill_folder = folder.unwrap_or(Path::new(".")).to_owned();
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Ok(Options {
        hints,
        hasher,
        filter,
        prefix_hashes: !reading.no_prefix_hashes,
        spill_folder,
        sort_bytes: crate::ingest::SORT_BYTES,
        chunk_bytes: crate::ingest::CHUNK_BYTES,
        threads: reading.threads.map_or_else(cores, NonZeroUsize::get).min(MAX_THREADS),
    })
}

/// Parses `ms` or `COLUMN=ms`.
fn parse_unit(text: &str) -> Result<(Option<String>, Unit), IngestError> {
    let (column, unit) = match text.rsplit_once('=') {
        Some((column, unit)) => (Some(column.to_owned()), unit),
        None => (None, text),
    };
    let unit = Unit::parse(unit).ok_or_else(|| IngestError::BadUnit { found: text.to_owned() })?;
    Ok((column, unit))
}

fn hasher(salt_file: Option<&Path>, globals: &Globals) -> anyhow::Result<Hasher> {
    let place = match salt_file {
        Some(path) => SaltPlace::File(path.to_owned()),
        None => SaltPlace::Home(salt_home()?),
    };
    let (hasher, is_new) = privacy::load(&place)?;
    let (SaltPlace::File(path) | SaltPlace::Home(path)) = &place;
    let state = if is_new { "made" } else { "read" };
    print::note(globals, &format!("salt: {} ({state}, id {})", path.display(), hasher.salt_id()));
    Ok(hasher)
}

/// Returns the salt's place in the user's configuration.
fn salt_home() -> Result<PathBuf, IngestError> {
    let config = environment::variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || environment::variable("HOME").map(|home| PathBuf::from(home).join(".config"));
    let config = config.filter(|path| path.is_absolute()).or_else(home);
    Ok(config.ok_or(IngestError::NoSaltHome)?.join("tracewright").join("salt"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::trace::TraceReader;

    const LOG: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
        2023-11-16 10:00:01,20,5\n2023-11-16 10:00:00,10,6\nyesterday,1,1\n";

    fn globals(force: bool) -> Globals {
        Globals { seed: 42, quiet: true, no_progress: true, force }
    }

    fn reading(folder: &Path) -> Reading {
        let salt = folder.join("salt");
        std::fs::write(&salt, "a salt for tests").unwrap();
        Reading {
            format: None,
            map: Vec::new(),
            tz: None,
            year: None,
            time_unit: Vec::new(),
            max_reject_share: 0.01,
            salt_file: Some(salt),
            explain: false,
            include_content: false,
            no_prefix_hashes: false,
            threads: None,
            conditions: Vec::new(),
            window: Window::default(),
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_trace_and_its_rejects_appear_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (log, out) = (folder.path().join("log.csv"), folder.path().join("t.parquet"));
        std::fs::write(&log, LOG).unwrap();
        let mut reading = reading(folder.path());
        let logs = [log];
        let done = ingest_to(&logs, &reading, &out, &globals(false)).unwrap();
        assert!(done.too_many_rejects);
        assert!(done.table.starts_with("rows                         2\n"));
        assert_eq!(names(folder.path()), ["log.csv", "salt", "t.parquet", "t.rejects.jsonl"]);
        let reader = TraceReader::open(&out).unwrap();
        let counts = &reader.metadata().counts;
        assert_eq!((reader.rows(), counts.kept, counts.rejected), (2, 2, 1));
        let first = std::fs::read(&out).unwrap();
        let again = ingest_to(&logs, &reading, &out, &globals(false)).unwrap_err();
        assert!(again.to_string().contains("t.parquet"), "{again}");
        reading.max_reject_share = 0.5;
        assert!(!ingest_to(&logs, &reading, &out, &globals(true)).unwrap().too_many_rejects);
        assert_eq!(std::fs::read(&out).unwrap(), first, "equal logs and salt, equal bytes");
    }

    #[test]
    fn rows_outside_the_filter_are_counted_and_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let (log, out) = (folder.path().join("log.csv"), folder.path().join("t.parquet"));
        let lines: Vec<String> =
            (0..10).map(|hour| format!("2023-11-16 {hour:02}:00:00,{hour}0,5\n")).collect();
        let head = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
        std::fs::write(&log, head.to_owned() + &lines.concat()).unwrap();
        let mut reading = reading(folder.path());
        reading.conditions = vec!["status=ok|unknown".to_owned()];
        reading.window.last = Some(Nanos::from_millis(2 * 3_600_000));
        ingest_to(&[log], &reading, &out, &globals(false)).unwrap();
        let reader = TraceReader::open(&out).unwrap();
        let metadata = reader.metadata().clone();
        let counts = &metadata.counts;
        assert_eq!(
            (counts.read, counts.kept, counts.dropped.get("outside_window")),
            (10, 3, Some(&7))
        );
        let told: Vec<&str> = metadata.decisions.iter().map(|told| &*told.what).collect();
        assert!(told.contains(&"window of arrivals") && told.contains(&"only status"), "{told:?}");
        let inputs: Vec<Option<u32>> =
            reader.flat_map(|rows| rows.unwrap()).map(|row| row.input_tokens).collect();
        assert_eq!(inputs, [Some(70), Some(80), Some(90)]);
    }

    #[test]
    fn a_failed_ingest_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (log, out) = (folder.path().join("log.csv"), folder.path().join("t.parquet"));
        std::fs::write(&log, "a,b\n1,2\n").unwrap();
        let reading = reading(folder.path());
        let error = ingest_to(&[log], &reading, &out, &globals(false)).unwrap_err();
        let text = failure::render(&error);
        assert!(text.contains("the header is of no known format: a, b\nhint: name"), "{text}");
        assert_eq!(names(folder.path()), ["log.csv", "salt"]);
    }

    #[test]
    fn force_replaces_no_input() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("own.rejects.jsonl");
        std::fs::write(&log, LOG).unwrap();
        let reading = reading(folder.path());
        let logs = [log.clone()];
        // As the trace, as the rejects beside it, and the salt in place of a log.
        for out in ["own.rejects.jsonl", "own.parquet", "salt"] {
            let out = folder.path().join(out);
            let error = ingest_to(&logs, &reading, &out, &globals(true)).unwrap_err();
            assert!(error.to_string().contains("would replace the input"), "{error}");
        }
        assert_eq!(std::fs::read(log).unwrap(), LOG.as_bytes());
        assert_eq!(names(folder.path()), ["own.rejects.jsonl", "salt"]);
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("t.parquet");
        let refuse = |change: fn(&mut Reading)| {
            let mut reading = reading(folder.path());
            change(&mut reading);
            ingest_to(&[], &reading, &out, &globals(false)).unwrap_err().to_string()
        };
        insta::assert_snapshot!(refuse(|r| r.max_reject_share = 1.5), @"--max-reject-share: expected a share from 0 to 1, found 1.5");
        insta::assert_snapshot!(refuse(|r| r.time_unit = vec!["min".to_owned()]), @"--time-unit: expected s, ms, us or ns, found `min`");
        insta::assert_snapshot!(refuse(|r| r.map = vec!["a".to_owned()]), @"--map: expected `FIELD=COLUMN` with a known field, found `a`");
        insta::assert_snapshot!(refuse(|r| r.map = vec!["arrival=a".to_owned(), "arrival=b".to_owned()]), @"--map: the field of `arrival=b` is mapped twice");
        insta::assert_snapshot!(refuse(|_| {}), @"no log named: expected at least one file, found none");
        assert_eq!(parse_unit("t=ns").unwrap(), (Some("t".to_owned()), Unit::Nanos));
    }
}
