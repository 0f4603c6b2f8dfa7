//! `tracewright plan`: a trace or a model, and a prompt pool → `plan.parquet`.
//!
//! A trace is read twice: once for its span and a sample of lengths, once to plan. Neither the
//! trace nor the plan is held in memory. The table of what was planned goes to stdout.

use super::failure::Failed;
use super::globals::Globals;
use super::paths::keep_inputs;
use super::print;
use super::units::{grouped, parse_duration, parse_edge, parse_tokens};
use crate::domain::convert;
use crate::domain::limits;
use crate::domain::pool_index::PoolIndex;
use crate::domain::schedule::{PlanCounts, PlanMetadata, PlanMode, ScheduledRequest};
use crate::domain::time::Nanos;
use crate::plan::assign::Assigner;
use crate::plan::check::Checker;
use crate::plan::classic::ClassicPlanner;
use crate::plan::lengths::TraceScan;
use crate::plan::options::{ClassicOptions, CommonOptions, Edge, RecordedOptions};
use crate::plan::recorded::RecordedPlanner;
use crate::plan::speed::Speed;
use crate::plan::summary::PlanSummary;
use crate::run::digest::file_digest;
use crate::table::schedule::ScheduleWriter;
use crate::table::trace::TraceReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The files of a pool, which no plan may replace.
const POOL_FILES: [&str; 2] = ["pool.parquet", "pool.json"];
/// Requests written at a time when they are drawn one by one.
const BATCH: usize = 8_192;

/// Plan which request is sent when, with which prompt
///
/// From a trace: its own arrivals and lengths (`--mode recorded`). From a model: Poisson arrivals,
/// lognormal inputs and exponential outputs (`--mode classic`). Each prompt is composed from the
/// pool to the exact number of tokens. Equal inputs and an equal `--seed` give a byte-equal plan.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Plan the requests of this trace (`trace.parquet`)
    #[arg(long, value_name = "FILE", conflicts_with = "model", required_unless_present = "model")]
    trace: Option<PathBuf>,
    /// Draw the requests from this model (`model.json`)
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Take prompts from this pool
    #[arg(long, value_name = "DIR")]
    pool: PathBuf,
    /// What the plan promises; `recorded` with `--trace`, `classic` with `--model`
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    #[command(flatten)]
    recorded: RecordedArgs,
    #[command(flatten)]
    classic: ClassicArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Write the plan to this file
    #[arg(short, long, value_name = "FILE", default_value = "plan.parquet")]
    output: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tracewright plan --trace trace.parquet --pool prompt-pools/small --from 10m --to 20m -o plan.parquet
  tracewright plan --model model.json --pool prompt-pools/small --request-rate 8 --duration 10m -o plan.parquet";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// The trace's own timestamps and lengths
    Recorded,
    /// Poisson arrivals, lognormal inputs, exponential outputs
    Classic,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Recorded")]
struct RecordedArgs {
    /// Divide the gaps between arrivals by this; 2 sends the trace in half its time
    #[arg(long, value_name = "FACTOR")]
    speed: Option<Speed>,
    /// Start of the window, inclusive: an RFC 3339 instant, or a span after the trace's start
    #[arg(long, value_name = "TIME", value_parser = parse_edge)]
    from: Option<Edge>,
    /// End of the window, exclusive: an RFC 3339 instant, or a span after the trace's start
    #[arg(long, value_name = "TIME", value_parser = parse_edge)]
    to: Option<Edge>,
    /// Plan requests that the gateway answered from its cache
    ///
    /// No engine saw them, so they are left out and counted unless this is given.
    #[arg(long)]
    keep_cache_hits: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Classic")]
struct ClassicArgs {
    /// Requests per second; the model's own rate when not given
    #[arg(long, value_name = "REQ/S")]
    request_rate: Option<f64>,
    /// Plan arrivals up to this offset; their number is free
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Nanos>,
}

/// Options of every mode.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Plan at most this many requests; the rest of a trace is counted as not selected
    #[arg(long, value_name = "N", visible_aliases = ["num-prompts", "request-count"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    num_requests: Option<u64>,
    /// Cut longer inputs to this many tokens (`4k` is 4000); cuts are counted
    ///
    /// Default: none for a trace, the longest logged input for a model.
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    max_input_tokens: Option<u32>,
    /// Cut longer outputs to this many tokens; cuts are counted
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    max_output_tokens: Option<u32>,
    /// Let the server stop early: do not ask for the planned number of output tokens
    #[arg(long)]
    no_force_output: bool,
    /// Inputs above this many tokens count as long context
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    #[arg(default_value_t = limits::LONG_CONTEXT_TOKENS)]
    long_context_tokens: u32,
}

impl LimitArgs {
    const fn options(&self) -> CommonOptions {
        CommonOptions {
            num_requests: self.num_requests,
            max_input_tokens: self.max_input_tokens,
            max_output_tokens: self.max_output_tokens,
            force_output: !self.no_force_output,
            long_context_tokens: self.long_context_tokens,
        }
    }
}

/// A plan that has been written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    /// What stands in the plan's metadata.
    pub(crate) metadata: PlanMetadata,
    /// Its figures.
    pub(crate) summary: PlanSummary,
    /// The limit on input tokens in force.
    pub(crate) max_input_tokens: Option<u32>,
}

/// Runs `tracewright plan`.
pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let planned = plan(args, globals)?;
    print::to_stdout(&table(&planned));
    for line in caveats(&planned.summary) {
        print::note(globals, &line);
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &Args, globals: &Globals) -> anyhow::Result<Planned> {
    let common = args.limits.options();
    match (&args.trace, &args.model) {
        (Some(trace), _) => {
            refuse(&misfits_of_recorded(args))?;
            let options = RecordedOptions {
                speed: args.recorded.speed.unwrap_or(Speed::ONE),
                from: args.recorded.from,
                to: args.recorded.to,
                keep_cache_hits: args.recorded.keep_cache_hits,
                common,
            };
            plan_recorded(trace, &args.pool, &options, &args.output, globals)
        }
        (None, Some(model)) => {
            refuse(&misfits_of_classic(args))?;
            let options = ClassicOptions {
                request_rate_per_s: args.classic.request_rate,
                duration: args.classic.duration,
                common,
            };
            plan_classic(model, &args.pool, &options, &args.output, globals)
        }
        (None, None) => Err(Failed::usage("plan: neither `--trace` nor `--model`", None).into()),
    }
}

fn misfits_of_recorded(args: &Args) -> Vec<&'static str> {
    let given = [
        (args.mode == Some(Mode::Classic), "`--mode classic` draws from `--model`, not `--trace`"),
        (args.classic.request_rate.is_some(), "`--request-rate` goes with `--model`"),
        (args.classic.duration.is_some(), "`--duration` goes with `--model` (for a trace: `--to`)"),
    ];
    given.into_iter().filter(|&(is_given, _)| is_given).map(|(_, line)| line).collect()
}

fn misfits_of_classic(args: &Args) -> Vec<&'static str> {
    let recorded = &args.recorded;
    let given = [
        (args.mode == Some(Mode::Recorded), "`--mode recorded` replays `--trace`, not `--model`"),
        (recorded.speed.is_some(), "`--speed` goes with `--trace` (for a model: `--request-rate`)"),
        (recorded.from.is_some() || recorded.to.is_some(), "`--from`, `--to` go with `--trace`"),
        (recorded.keep_cache_hits, "`--keep-cache-hits` goes with `--trace`"),
    ];
    given.into_iter().filter(|&(is_given, _)| is_given).map(|(_, line)| line).collect()
}

/// Refuses options that do not fit the source, all of them in one message.
fn refuse(misfits: &[&str]) -> anyhow::Result<()> {
    if misfits.is_empty() {
        return Ok(());
    }
    let hint = "`tracewright fit` makes a model of a trace".to_owned();
    Err(Failed::usage(format!("plan: {}", misfits.join("; ")), Some(hint)).into())
}

/// Plans a trace as it was recorded and writes the plan to `out`.
pub(crate) fn plan_recorded(
    trace: &Path,
    pool: &Path,
    options: &RecordedOptions,
    out: &Path,
    globals: &Globals,
) -> anyhow::Result<Planned> {
    keep_inputs([trace, &pool.join(POOL_FILES[0]), &pool.join(POOL_FILES[1])], &[out])?;
    let pool = read_pool(pool)?;
    let mut metadata = metadata_of(PlanMode::Recorded, &pool, options.common, globals);
    metadata.trace_digest = Some(digest(trace)?);
    metadata.speed = Some(options.speed.as_f64());
    let scan = scan(trace, globals)?;
    let assigner = Assigner::new(&pool, globals.seed())?;
    let bar = print::progress(globals, scan.rows, "planning");
    let mut planner = RecordedPlanner::new(scan, options.clone(), assigner)?;
    let mut output = Output::create(out, globals)?;
    for batch in TraceReader::open(trace)? {
        let batch = batch?;
        output.write(&planner.plan(&batch)?)?;
        bar.inc(convert::count(batch.len()));
    }
    bar.finish_and_clear();
    let recorded = planner.finish()?;
    metadata.trace_origin_us = Some(recorded.origin.0);
    metadata.counts = recorded.counts;
    let summary = output.finish(&metadata)?;
    Ok(Planned { metadata, summary, max_input_tokens: options.common.max_input_tokens })
}

/// Draws a plan from a model and writes it to `out`.
pub(crate) fn plan_classic(
    model: &Path,
    pool: &Path,
    options: &ClassicOptions,
    out: &Path,
    globals: &Globals,
) -> anyhow::Result<Planned> {
    keep_inputs([model, &pool.join(POOL_FILES[0]), &pool.join(POOL_FILES[1])], &[out])?;
    let pool = read_pool(pool)?;
    let mut metadata = metadata_of(PlanMode::Classic, &pool, options.common, globals);
    metadata.model_digest = Some(digest(model)?);
    let model = crate::table::model::read(model)?;
    metadata.trace_digest.clone_from(&model.trace_digest);
    let assigner = Assigner::new(&pool, globals.seed())?;
    let mut planner = ClassicPlanner::new(&model, options, assigner, globals.seed())?;
    metadata.request_rate_per_s = Some(planner.rate_per_s());
    let max_input_tokens = planner.max_input_tokens();
    let mut output = Output::create(out, globals)?;
    loop {
        let batch: Result<Vec<_>, _> = planner.by_ref().take(BATCH).collect();
        let batch = batch?;
        if batch.is_empty() {
            break;
        }
        output.write(&batch)?;
    }
    metadata.counts = planner.finish()?;
    let summary = output.finish(&metadata)?;
    Ok(Planned { metadata, summary, max_input_tokens })
}

/// The plan's file, its checks and its figures, fed batch by batch.
struct Output {
    writer: ScheduleWriter,
    checker: Checker,
    summary: PlanSummary,
}

impl Output {
    fn create(out: &Path, globals: &Globals) -> anyhow::Result<Self> {
        let writer = ScheduleWriter::create(out, globals.force)?;
        Ok(Self { writer, checker: Checker::default(), summary: PlanSummary::default() })
    }

    fn write(&mut self, requests: &[ScheduledRequest]) -> anyhow::Result<()> {
        self.checker.check(requests)?;
        self.summary.add(requests);
        Ok(self.writer.write(requests)?)
    }

    fn finish(self, metadata: &PlanMetadata) -> anyhow::Result<PlanSummary> {
        self.writer.finish(metadata)?;
        Ok(self.summary)
    }
}

fn scan(trace: &Path, globals: &Globals) -> anyhow::Result<TraceScan> {
    let mut scan = TraceScan::new(globals.seed());
    for batch in TraceReader::open(trace)? {
        batch?.iter().for_each(|record| scan.add(record));
    }
    Ok(scan)
}

fn read_pool(dir: &Path) -> anyhow::Result<PoolIndex> {
    Ok(crate::table::pool::read_index(dir)?)
}

fn digest(path: &Path) -> anyhow::Result<String> {
    Ok(file_digest(path)?)
}

fn metadata_of(
    mode: PlanMode,
    pool: &PoolIndex,
    common: CommonOptions,
    globals: &Globals,
) -> PlanMetadata {
    let manifest = &pool.manifest;
    PlanMetadata {
        mode,
        seed: globals.seed,
        trace_digest: None,
        model_digest: None,
        pool_digest: manifest.pool_digest.clone(),
        tokenizer: manifest.tokenizer.clone(),
        tokenizer_digest: manifest.tokenizer_digest.clone(),
        speed: None,
        request_rate_per_s: None,
        trace_origin_us: None,
        long_context_tokens: common.long_context_tokens,
        counts: PlanCounts::default(),
    }
}

/// Returns the table of what was planned and what was left out.
pub(crate) fn table(planned: &Planned) -> String {
    let Planned { metadata, summary, max_input_tokens } = planned;
    let counts = &metadata.counts;
    let mut rows = vec![("planned requests".to_owned(), grouped(counts.planned))];
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    row("mode", metadata.mode.to_string());
    if let Some(length) = summary.length() {
        row("first to last", format!("{:.3} s", length.as_secs_f64()));
    }
    if let Some(rate) = summary.rate_per_s() {
        row("mean rate", format!("{rate:.3}/s"));
    }
    row("peak rate", format!("{}/s", grouped(summary.peak_per_s)));
    row("input tokens", grouped(summary.input_tokens));
    row("output tokens", grouped(summary.output_tokens));
    let share = convert::float(100 * counts.long_context) / convert::float(counts.planned.max(1));
    let long = format!("input above {} tokens", grouped(metadata.long_context_tokens.into()));
    row(&long, format!("{} ({share:.1} %)", grouped(counts.long_context)));
    let cut_to = max_input_tokens
        .map_or(String::new(), |limit| format!(" to {} tokens", grouped(limit.into())));
    let told_when_any = [
        ("rows of the trace".to_owned(), counts.source_rows),
        ("  without an arrival time".to_owned(), counts.without_arrival),
        ("  outside the window".to_owned(), counts.outside_window),
        ("  answered from a cache".to_owned(), counts.cache_hits),
        ("  embeddings, reranking".to_owned(), counts.not_generation),
        ("  not selected".to_owned(), counts.not_selected),
        ("recorded failures".to_owned(), counts.recorded_failures),
        ("input lengths drawn".to_owned(), counts.input_drawn),
        ("output lengths drawn".to_owned(), counts.output_drawn),
        (format!("inputs cut{cut_to}"), counts.input_clipped),
        ("outputs cut".to_owned(), counts.output_clipped),
        ("prompts repeated in full".to_owned(), counts.repeats),
        ("prompts with a repeated start".to_owned(), counts.prefix_repeats),
    ];
    for (name, count) in told_when_any {
        if count > 0 {
            row(&name, grouped(count));
        }
    }
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, value): &(String, String)| format!("{name:width$}  {value}\n");
    rows.iter().map(line).collect::<Vec<_>>().concat()
}

/// Returns what a reader of the plan must know about its prompts.
fn caveats(summary: &PlanSummary) -> Vec<String> {
    let mut lines = vec![
        "note: input tokens count the content alone; the server's chat template adds its own"
            .to_owned(),
    ];
    if summary.in_sessions + summary.with_prefix_blocks > 0 {
        let line = "note: prompts of one session share no text, so a server's prefix cache hits \
                    less than it did for the trace";
        lines.push(line.to_owned());
    }
    lines
}

#[cfg(test)]
mod tests;
