//! `tracewright run`: the whole chain in one command, each step the same as its own verb.
//!
//! Read it as the sequence of the stages: ingest, fit, pool, plan, replay, report. Everything is
//! written into one run directory.

use super::child::MockChild;
use super::failure::{self, Failed};
use super::globals::Globals;
use super::ingest::{self, Reading};
use super::units::{grouped, parse_edge, parse_tokens};
use super::{fit, plan, pool, print, replay, report};
use crate::domain::convert;
use crate::domain::schedule::ScheduledRequest;
use crate::domain::time::{Nanos, WallTime};
use crate::fit::FitOptions;
use crate::plan::options::{CommonOptions, Edge, RecordedOptions};
use crate::plan::pace::{self, Pace, PaceLimits};
use crate::plan::speed::Speed;
use crate::run::dir::RunDir;
use crate::run::manifest;
use crate::table::TableError;
use crate::table::query::{HourCount, hourly_counts};
use crate::table::schedule::ScheduleReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The pool that is used when none is named, where it exists.
const DEFAULT_POOL: &str = "prompt-pools/small";
/// The mock's time to the first token.
const MOCK_TTFT: Nanos = Nanos::from_millis(200);
/// The mock's time per output token.
const MOCK_TPOT: Nanos = Nanos::from_millis(5);
/// Longest output of a demonstration: at the mock's pace it takes 20 s.
const DEMO_MAX_OUTPUT_TOKENS: u32 = 4_000;
/// What a demonstration asks of one machine that carries client and mock.
const DEMO: PaceLimits = PaceLimits {
    num_requests: 400,
    span: Nanos::from_millis(40_000),
    chunks_per_s: 10_000,
    ttft: MOCK_TTFT,
    tpot: MOCK_TPOT,
};
/// Microseconds in an hour.
const HOUR_US: i64 = 3_600_000_000;

/// Go from a gateway log to a report in one command
///
/// Ingests the log, fits it, takes prompts from a pool, plans the hour in which the median request
/// falls, replays it and reports. Without `--url` it starts the built-in mock, so that nothing else
/// has to be set up; the figures are then those of the mock, not of a model. The hour, the speed and
/// the number of requests are chosen so that the replay takes about a minute, and are printed;
/// `--from`, `--to`, `--speed` and `--num-requests` override them.
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
    target: replay::TargetArgs,
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
    /// Cut longer outputs to this many tokens [default: 4k with the mock]
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    max_output_tokens: Option<u32>,
}

/// Runs the chain.
pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let name = args.logs.first().and_then(|log| log.file_stem()).unwrap_or_default();
    let dir =
        RunDir::create(&args.output, &name.to_string_lossy(), manifest::now()).map_err(|e| {
            let hint = e.hint();
            Failed::new(e, hint)
        })?;
    let (trace, model) = (dir.path().join("trace.parquet"), dir.path().join("model.json"));

    heading("ingest");
    let ingested = ingest::ingest_to(&args.logs, &args.reading, &trace, globals)?;
    print::to_stdout(&ingested.table);
    if ingested.too_many_rejects {
        return Ok(ExitCode::from(failure::ERROR));
    }

    heading("fit");
    let fitted = fit::fit_trace(&trace, FitOptions::default(), globals)?;
    crate::table::model::write(&model, &fitted, false).map_err(of_table)?;
    print::to_stdout(&crate::fit::describe(&fitted));

    heading("plan");
    let pool = find_pool(args, &dir, globals)?;
    let planned = plan_demonstration(args, &trace, &pool, &dir, globals)?;
    print::to_stdout(&plan::table(&planned));

    heading("replay");
    let mock = match args.target.url(globals) {
        Some(_) => None,
        None => Some(MockChild::start(MOCK_TTFT, MOCK_TPOT)?),
    };
    let target = args.target.resolve(mock.as_ref().map(MockChild::url), globals)?;
    let replayed = replay::replay_into(&dir, &pool, &target, globals)?;
    drop(mock);

    heading("report");
    let report = report::report_run(dir.path(), globals)?;
    print::to_stdout(&crate::report::text::render(&report));
    print::to_stdout(&format!("\nreport: {}\n", dir.report("md").display()));
    Ok(if replayed.interrupted {
        ExitCode::from(failure::INTERRUPTED)
    } else {
        report::exit_code(&report)
    })
}

fn heading(step: &str) {
    print::to_stdout(&format!("\n== {step} ==\n"));
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
    print::note(globals, &format!("no {DEFAULT_POOL} here: building a pool"));
    pool::build_pool(&pool::PoolRequest::usual(), &built, globals)?;
    Ok(built)
}

/// Plans the window that was asked for, or a typical hour at a pace that one machine can carry.
fn plan_demonstration(
    args: &Args,
    trace: &Path,
    pool: &Path,
    dir: &RunDir,
    globals: &Globals,
) -> anyhow::Result<plan::Planned> {
    let window = &args.window;
    let mut options = RecordedOptions {
        from: window.from,
        to: window.to,
        speed: window.speed.unwrap_or(Speed::ONE),
        common: CommonOptions {
            max_input_tokens: window.max_input_tokens,
            max_output_tokens: window.max_output_tokens.or_else(|| demo_max_output(args, globals)),
            num_requests: window.num_requests,
            ..CommonOptions::default()
        },
        ..RecordedOptions::default()
    };
    if window.from.is_none() && window.to.is_none() {
        let hours = hourly_counts(trace).map_err(of_table)?;
        if let Some(hour) = typical_hour(&hours) {
            options.from = Some(Edge::At(WallTime(hour.start_us)));
            options.to = Some(Edge::At(WallTime(hour.start_us.saturating_add(HOUR_US))));
            let start = WallTime(hour.start_us);
            let requests = grouped(hour.requests);
            let line = format!(
                "hour: the one from {start}, {requests} requests: the median request falls into it"
            );
            print::to_stdout(&format!("{line} (--from, --to)\n"));
        }
    }
    // A draft at the trace's own speed shows what can be carried.
    let draft = dir.path().join("draft.parquet");
    let mut draft_options = options.clone();
    draft_options.speed = Speed::ONE;
    draft_options.common.num_requests =
        Some(window.num_requests.unwrap_or(DEMO.num_requests).min(DEMO_DRAFT_MAX));
    plan::plan_recorded(trace, pool, &draft_options, &draft, globals)?;
    let requests = read_plan(&draft)?;
    std::fs::remove_file(&draft)?;
    let mut limits = DEMO;
    limits.num_requests = window.num_requests.unwrap_or(DEMO.num_requests);
    let pace = pace::choose(&requests, limits);
    let speed = window.speed.map_or_else(|| speed_of(pace), Ok)?;
    options.speed = speed;
    options.common.num_requests = Some(window.num_requests.unwrap_or(pace.num_requests));
    print_pace(&options, &requests);
    plan::plan_recorded(trace, pool, &options, &dir.plan(), globals)
}
