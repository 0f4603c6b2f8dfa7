//! `tracewright run`: the whole chain in one command, each step the same as its own verb.
//!
//! Read it as the sequence of the stages: ingest, fit, pool, plan, replay, report. Everything is
//! written into one run directory.

use super::child::MockChild;
use super::failure::{self};
use super::globals::Globals;
use super::ingest::{self, Reading};
use super::replay::target::TargetArgs;
use super::replay::{Order, Place};
use super::units::{grouped, parse_edge, parse_tokens};
use super::{fit, plan, pool, print, replay, report};
use crate::domain::convert;
use crate::domain::schedule::ScheduledRequest;
use crate::domain::time::{Nanos, WallTime};
use crate::fit::FitOptions;
use crate::ingest::IngestError;
use crate::plan::options::{CommonOptions, Edge, RecordedOptions};
use crate::plan::pace::{self, Pace, PaceLimits};
use crate::plan::speed::Speed;
use crate::replay::{ReplaySummary, preflight};
use crate::run::dir::RunDir;
use crate::run::manifest;
use crate::table::query::hourly_counts;
use crate::table::schedule::ScheduleReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The pool that is used when none is named, where it exists.
const DEFAULT_POOL: &str = "prompt-pools/small";
/// The mock's time to the first token.
const MOCK_TTFT: Nanos = Nanos::from_millis(200);
/// The mock's time per output token.
const MOCK_TPOT: Nanos = Nanos::from_millis(10);
/// Longest output of a demonstration: at the mock's pace it takes 30 s.
const DEMO_MAX_OUTPUT_TOKENS: u32 = 3_000;
/// What a demonstration asks of one machine that carries client and mock.
const DEMO: PaceLimits = PaceLimits {
    num_requests: 400,
    span: Nanos::from_millis(40_000),
    chunks_per_s: 10_000,
    ttft: MOCK_TTFT,
    tpot: MOCK_TPOT,
};
/// Times before this are offsets from an unknown origin, not dates.
const YEAR_2001_US: i64 = 978_307_200_000_000;
/// Microseconds in an hour.
const HOUR_US: i64 = 3_600_000_000;

/// Go from a gateway log to a report in one command
///
/// Ingests the log, fits it, takes prompts from a pool, plans the hour in which the median request
/// falls, replays it and reports. Without `--url` it starts the built-in mock, so that nothing else
/// has to be set up (variables of the environment name no target here); the figures are then those
/// of the mock, not of a model. The hour, the speed and the number of requests are chosen so that
/// the replay takes about a minute, and are printed; `--from`, `--to`, `--speed` and
/// `--num-requests` override them. With `--url` the speed is 1 unless `--speed` says otherwise.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  tracewright run sample-traces/litellm-week.jsonl.gz
  tracewright run week.jsonl.gz --url http://127.0.0.1:8000 --model NAME --speed 1 --num-requests 1000")]
pub(crate) struct Args {
    /// Logs of one trace: JSONL or CSV, plain, gzip or zstd
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Take prompts from this pool [default: prompt-pools/small, else one that is built]
    #[arg(long, value_name = "DIR")]
    pool: Option<PathBuf>,
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    target: TargetArgs,
    /// Folder in which the run directory is made
    #[arg(short, long, value_name = "DIR", default_value = "runs")]
    output: PathBuf,
}

/// Which part of the trace is replayed, and how fast.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Window")]
struct Window {
    /// Start of the window, inclusive: an RFC 3339 instant, or a span after the trace's start
    #[arg(long, value_name = "TIME", value_parser = parse_edge)]
    from: Option<Edge>,
    /// End of the window, exclusive
    #[arg(long, value_name = "TIME", value_parser = parse_edge)]
    to: Option<Edge>,
    /// Divide the gaps between arrivals by this
    #[arg(long, value_name = "FACTOR")]
    speed: Option<Speed>,
    /// Plan at most this many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    num_requests: Option<u64>,
    /// Cut longer inputs to this many tokens
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    max_input_tokens: Option<u32>,
    /// Cut longer outputs to this many tokens [default: 3k with the mock]
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    max_output_tokens: Option<u32>,
}

/// Runs the chain.
pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    if args.target.url.is_some() {
        // A target that makes no sense is better known before a long log is read.
        preflight(&replay::target::config(&args.target, globals)?)?;
    }
    for log in &args.logs {
        // A misspelt name is better known before a run directory is made.
        std::fs::metadata(log).map_err(|source| unreadable(log, source))?;
    }
    let name = name_of(args);
    let dir = RunDir::create(&args.output, &name, manifest::now())?;
    let (trace, model) = (dir.path().join("trace.parquet"), dir.path().join("model.json"));

    heading("ingest");
    let ingested = ingest::ingest_to(&args.logs, &args.reading, &trace, globals)?;
    print::to_stdout(&ingested.table);
    if ingested.too_many_rejects {
        return Ok(ExitCode::from(failure::ERROR));
    }

    heading("fit");
    let fitted = fit::fit_trace(&trace, FitOptions::default(), globals)?;
    crate::table::model::write(&model, &fitted, false)?;
    print::to_stdout(&crate::fit::describe(&fitted));

    heading("plan");
    let pool = find_pool(args, &dir, globals)?;
    let planned = plan_window(args, &trace, &pool, &dir, globals)?;
    print::to_stdout(&plan::table(&planned));

    heading("replay");
    let summary = replay_window(args, &pool, &dir, globals)?;

    heading("report");
    let report = report::report_run(dir.path(), globals)?;
    print::to_stdout(&crate::report::text::render(&report));
    print::to_stdout(&format!("\nreport: {}\n", dir.report("md").display()));
    if summary.interrupted {
        return Ok(replay::exit_code(&summary));
    }
    Ok(report::exit_code(&report))
}

fn unreadable(log: &Path, source: std::io::Error) -> IngestError {
    IngestError::Unreadable { file: log.display().to_string().into(), source }
}

fn heading(step: &str) {
    print::to_stdout(&format!("\n== {step}\n\n"));
}

/// Returns the first log's name up to its first dot.
fn name_of(args: &Args) -> String {
    let name = args.logs.first().and_then(|log| log.file_name()).unwrap_or_default();
    name.to_string_lossy().split('.').next().unwrap_or_default().to_owned()
}

/// Returns the pool to take prompts from; builds one in the run directory when there is none.
fn find_pool(args: &Args, dir: &RunDir, globals: &Globals) -> anyhow::Result<PathBuf> {
    if let Some(pool) = &args.pool {
        return Ok(pool.clone());
    }
    let usual = Path::new(DEFAULT_POOL);
    if usual.join("pool.json").is_file() {
        return Ok(usual.to_owned());
    }
    let built = dir.path().join("pool");
    print::note(globals, &format!("no {DEFAULT_POOL} here: building a pool (or name one: --pool)"));
    pool::build_pool(&pool::PoolRequest::usual(), &built, globals)?;
    Ok(built)
}

/// Plans the window that was asked for, or a typical hour.
///
/// Against a server of the user's it plays at the trace's own speed; against the mock, at a pace
/// that one machine can carry. Whatever was typed is kept.
fn plan_window(
    args: &Args,
    trace: &Path,
    pool: &Path,
    dir: &RunDir,
    globals: &Globals,
) -> anyhow::Result<plan::Planned> {
    let with_mock = args.target.url.is_none();
    let mut options = args.window.options(with_mock);
    if options.from.is_none() && options.to.is_none() {
        choose_hour(trace, &mut options)?;
    }
    let peak = if with_mock {
        choose_pace(&args.window, (trace, pool), dir, &mut options, globals)?
    } else {
        None
    };
    print_pace(&options, peak);
    plan::plan_recorded(trace, pool, &options, &dir.plan(), globals)
}

/// Chooses a speed and a number of requests by a draft of the plan at the trace's own speed, and
/// returns the chunks per second that the mock then sends at most.
fn choose_pace(
    window: &Window,
    (trace, pool): (&Path, &Path),
    dir: &RunDir,
    options: &mut RecordedOptions,
    globals: &Globals,
) -> anyhow::Result<Option<u64>> {
    let wanted = window.num_requests.unwrap_or(DEMO.num_requests);
    let mut draft_options = options.clone();
    draft_options.speed = Speed::ONE;
    draft_options.common.num_requests = Some(wanted);
    let folder = tempfile::tempdir_in(dir.path())?;
    let draft = folder.path().join("draft.parquet");
    plan::plan_recorded(trace, pool, &draft_options, &draft, &globals.silent())?;
    let requests = read_plan(&draft)?;

    let mut pace = pace::choose(&requests, PaceLimits { num_requests: wanted, ..DEMO });
    if window.num_requests.is_some() {
        pace.num_requests = wanted;
    }
    if window.speed.is_none() {
        options.speed = speed_of(pace)?;
    }
    options.common.num_requests = Some(pace.num_requests);
    let count = convert::index(pace.num_requests).unwrap_or(usize::MAX).min(requests.len());
    let selected = requests.get(..count).unwrap_or_default();
    let speed = options.speed.as_f64();
    Ok(Some(pace::peak_chunks_per_s(selected, speed, MOCK_TTFT, MOCK_TPOT)))
}

impl Window {
    /// Returns the planner's options, before an hour and a pace are chosen.
    fn options(&self, with_mock: bool) -> RecordedOptions {
        let cut = with_mock.then_some(DEMO_MAX_OUTPUT_TOKENS);
        RecordedOptions {
            from: self.from,
            to: self.to,
            speed: self.speed.unwrap_or(Speed::ONE),
            common: CommonOptions {
                max_input_tokens: self.max_input_tokens,
                max_output_tokens: self.max_output_tokens.or(cut),
                num_requests: self.num_requests,
                ..CommonOptions::default()
            },
            ..RecordedOptions::default()
        }
    }
}

/// Puts the window on the hour in which the median request falls, and prints it.
///
/// A trace without times has no hours; the planner then refuses it by name.
fn choose_hour(trace: &Path, options: &mut RecordedOptions) -> anyhow::Result<()> {
    let hours = hourly_counts(trace)?;
    let counts: Vec<(i64, u64)> = hours.iter().map(|h| (h.start_us, h.requests)).collect();
    let Some((start_us, requests)) = pace::typical_hour(&counts) else { return Ok(()) };
    let start = WallTime(start_us);
    options.from = Some(Edge::At(start));
    options.to = Some(Edge::At(start.plus_micros(HOUR_US)));
    // A trace with relative times has its origin at the epoch; a date would be an invention.
    let is_relative = start_us < YEAR_2001_US;
    let from = match start_us / HOUR_US {
        0 if is_relative => "the trace's origin".to_owned(),
        hours if is_relative => format!("{hours} h after the trace's origin"),
        _ => start.to_string(),
    };
    let requests = grouped(requests);
    print::to_stdout(&format!(
        "hour:      from {from}, {requests} requests; the median request falls into it \
         (--from, --to)\n"
    ));
    Ok(())
}

fn speed_of(pace: Pace) -> anyhow::Result<Speed> {
    pace.speed.to_string().parse().map_err(|error: String| anyhow::anyhow!(error))
}

/// Prints the speed, the number of requests and, for the mock, the chunk rate that follows.
fn print_pace(options: &RecordedOptions, peak_chunks_per_s: Option<u64>) {
    let speed = options.speed.as_f64();
    let cap = options
        .common
        .num_requests
        .map_or("all".to_owned(), |cap| format!("the first {} at most", grouped(cap)));
    let mut text = format!(
        "speed:     {speed} times the trace's own (--speed)\n\
         requests:  {cap} of the window (--num-requests)\n"
    );
    if let Some(peak) = peak_chunks_per_s {
        let tpot_ms = MOCK_TPOT.as_millis_f64().to_string();
        let peak = grouped(peak);
        text += &["chunks:    at most ", &peak, "/s at ", &tpot_ms, " ms a token\n"].concat();
    }
    print::to_stdout(&text);
}

fn read_plan(path: &Path) -> anyhow::Result<Vec<ScheduledRequest>> {
    let mut requests = Vec::new();
    for batch in ScheduleReader::open(path)? {
        requests.extend(batch?);
    }
    Ok(requests)
}

/// Replays the plan against the endpoint that was named, or against a mock that ends with it.
fn replay_window(
    args: &Args,
    pool: &Path,
    dir: &RunDir,
    globals: &Globals,
) -> anyhow::Result<ReplaySummary> {
    let mut target = args.target.clone();
    let mock = if target.url.is_none() {
        let mock = MockChild::start(MOCK_TTFT, MOCK_TPOT)?;
        target.url = Some(mock.url().to_owned());
        target.model.get_or_insert_with(|| "mock".to_owned());
        target.ignore_eos = true;
        Some(mock)
    } else {
        None
    };
    let plan = dir.plan();
    let name = name_of(args);
    let place = Place::Here(dir);
    let order = Order { plan: &plan, pool, target: &target, name: &name, place };
    let (_, summary) = replay::replay_plan(&order, globals)?;
    drop(mock);
    Ok(summary)
}
