//! `tracewright replay`: plan.parquet + prompt pool + server → a run directory.
//!
//! Reads through `table`, composes prompts through `pool`, sends through `replay`, writes through
//! `table` and `run`. A writer thread takes the outcomes, so that encoding never delays a send; a
//! watcher thread draws the progress bar and hears Ctrl-C and SIGTERM. The key comes from the environment
//! alone and goes nowhere but to the target.

pub(crate) mod target;
#[cfg(test)]
mod tests;

pub(crate) use target::{TargetArgs, config};

use super::failure::{self, Failed};
use super::globals::Globals;
use super::print;
use crate::domain::outcome::RequestOutcome;
use crate::domain::schedule::ScheduledRequest;
use crate::domain::time::{Nanos, WallTime};
use crate::pool::Texts;
use crate::replay::{
    self, Load, Progress, ReplayConfig, ReplaySummary, ServerFacts, Stop, preflight,
};
use crate::run::digest::file_digest;
use crate::run::dir::RunDir;
use crate::run::manifest::{self, RunManifest, RunStatus};
use crate::table::TableError;
use crate::table::outcome::OutcomeRecorder;
use crate::table::{pool as pool_table, schedule::ScheduleReader};
use anyhow::Context;
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// Outcomes between the replay and the writer.
const OUTCOMES: usize = 8_192;
/// The writer puts outcomes on disk at least this often.
const FLUSH_TIME: Duration = Duration::from_secs(1);
/// What is said when the user asks to stop.
const STOPPING: &str = "stopping: nothing new is sent; Ctrl-C again cuts what is in flight";
/// What is said when the plan's output lengths are not forced.
const NOT_FORCED: &str = "the plan asks for exact output lengths; without --ignore-eos the server \
    may stop early, and the report will show the shortfall";
/// The progress bar is drawn this often.
const DRAW_TIME: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  tracewright replay plan.parquet --pool prompt-pools/small --url http://127.0.0.1:8000 --model m
  tracewright replay plan.parquet --pool prompt-pools/small --url http://127.0.0.1:8000 --model m \\
    --api completions --ignore-eos --reconnect-stale --first-token-timeout 30s";

/// Send a plan's requests at their times and record what happens
///
/// Every planned request becomes one row of the run, sent or not. Latencies count from the
/// planned and from the actual send; requests are never sent early, never retried, and late ones
/// stay late.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// The prompt pool that the plan was made with
    #[arg(long, value_name = "DIR")]
    pool: PathBuf,
    #[command(flatten)]
    target: Box<TargetArgs>,
    /// Directory in which the run directory is created
    #[arg(short, long, value_name = "DIR", default_value = "runs")]
    output: PathBuf,
    /// Name of the run, the last part of its directory's name
    #[arg(long, value_name = "NAME", default_value = "replay")]
    name: String,
}

/// A replay as other verbs ask for it.
#[derive(Clone, Debug)]
pub(crate) struct Order<'a> {
    /// The plan.
    pub(crate) plan: &'a Path,
    /// The pool's directory.
    pub(crate) pool: &'a Path,
    /// Where and how to send.
    pub(crate) target: &'a TargetArgs,
    /// The run's name.
    pub(crate) name: &'a str,
    /// Where the run directory is.
    pub(crate) place: Place<'a>,
}

/// Where a run directory is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// A new one below this folder.
    Below(&'a Path),
    /// One that exists already.
    Here(&'a RunDir),
}

/// Runs the verb.
pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let Args { plan, pool, target, output, name } = args;
    let place = Place::Below(output);
    let order = Order { plan, pool, target, name, place };
    let (dir, summary) = replay_plan(&order, globals)?;
    print::to_stdout(&format!("{}\n", dir.path().display()));
    Ok(exit_code(&summary))
}

/// Returns the exit code of a replay: 130 when interrupted, 4 when everything failed.
pub(crate) fn exit_code(summary: &ReplaySummary) -> ExitCode {
    if summary.interrupted {
        ExitCode::from(failure::INTERRUPTED)
    } else if summary.planned > 0 && summary.failed == summary.planned {
        ExitCode::from(failure::REFUSED)
    } else {
        ExitCode::SUCCESS
    }
}

/// Replays a plan into a run directory, and returns that directory and what was done.
///
/// The run directory is complete and readable also after Ctrl-C.
pub(crate) fn replay_plan(
    order: &Order<'_>,
    globals: &Globals,
) -> anyhow::Result<(RunDir, ReplaySummary)> {
    let done = replay_with(order, &config(order.target, globals)?, globals);
    end_on_signal();
    done
}

/// Replays a plan with a configuration that was made before.
fn replay_with(
    order: &Order<'_>,
    config: &ReplayConfig,
    globals: &Globals,
) -> anyhow::Result<(RunDir, ReplaySummary)> {
    let plan = ScheduleReader::open(order.plan)?;
    let texts = texts(order, &plan)?;
    let facts = preflight(config)?;
    note_server(&facts, config, globals);
    if !order.target.ignore_eos && forces_lengths(order.plan)? {
        print::note(globals, NOT_FORCED);
    }
    let dir = match order.place {
        Place::Below(root) => RunDir::create(root, order.name, manifest::now()),
        Place::Here(dir) => Ok(dir.clone()),
    }?;
    keep_plan(order.plan, &dir)?;
    let mut manifest = begin(order, &plan, config, &facts)?;
    manifest.write(&dir)?;

    let prompt =
        |request: &ScheduledRequest| texts.compose(&request.prompt_parts).map_err(Into::into);
    let bar = print::progress(globals, plan.rows(), "replay");
    let rows = plan.map(|batch| batch.map_err(Into::into));
    let done = send(Load { rows, prompt }, config, (&dir, &bar), globals);
    bar.finish_and_clear();

    let whole = done.as_ref().is_ok_and(|(summary, _)| !summary.interrupted);
    let status = if whole { RunStatus::Complete } else { RunStatus::Interrupted };
    manifest.end(status, manifest::now());
    if let Ok((summary, started_at)) = &done {
        manifest.started_at = *started_at;
        note_dispatcher(&mut manifest, summary);
        if config.reconnect_stale {
            let again = summary.reconnected.to_string();
            manifest.settings.insert("reconnected".to_owned(), again);
        }
    }
    manifest.write(&dir)?;
    let (summary, _) = done?;
    note_summary(&summary, globals);
    Ok((dir, summary))
}

/// Sends the load with a writer and a watcher beside it; also returns when its clock started.
fn send<R, P>(
    load: Load<R, P>,
    config: &ReplayConfig,
    (dir, bar): (&RunDir, &ProgressBar),
    globals: &Globals,
) -> anyhow::Result<(ReplaySummary, WallTime)>
where
    R: Iterator<Item = Result<Vec<ScheduledRequest>, replay::BoxError>> + Send,
    P: Fn(&ScheduledRequest) -> Result<String, replay::BoxError> + Send,
{
    let recorder = OutcomeRecorder::create(dir.path())?;
    let (stop, progress) = (Arc::<Stop>::default(), Arc::<Progress>::default());
    let (outcomes, to_write) = mpsc::channel(OUTCOMES);
    let (over, until) = oneshot::channel();
    thread::scope(|scope| {
        let writer = scope.spawn(move || write(recorder, to_write));
        let watcher = scope.spawn(|| watch((&stop, &progress), bar, until, globals));
        let sent = replay::replay(load, config, &stop, &progress, outcomes);
        let now = manifest::now();
        // The watcher may be gone with an error of its own, which is reported below.
        over.send(()).ok();
        let written = writer.join().expect("the writer does not panic");
        // When the writer failed, the replay's own error only says so.
        written?;
        let sent = sent?;
        watcher.join().expect("the watcher does not panic")?;
        let micros = i64::try_from(sent.ended.0 / 1_000).unwrap_or(i64::MAX);
        Ok((sent, now.plus_micros(-micros)))
    })
}

/// Takes outcomes until the replay ends, and writes the run's tables.
fn write(
    mut recorder: OutcomeRecorder,
    mut outcomes: mpsc::Receiver<RequestOutcome>,
) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let mut batch = Vec::new();
    let taken_all: Result<(), TableError> = runtime.block_on(async {
        loop {
            let taken = outcomes.recv_many(&mut batch, OUTCOMES);
            match tokio::time::timeout(FLUSH_TIME, taken).await {
                Ok(0) => return Ok(()),
                Ok(_) => recorder.append(&batch)?,
                Err(_) => recorder.flush()?,
            }
            batch.clear();
        }
    });
    Ok(taken_all.and_then(|()| recorder.finish())?)
}

/// Draws progress and passes Ctrl-C and SIGTERM on, until the replay is over.
fn watch(
    (stop, progress): (&Stop, &Progress),
    bar: &ProgressBar,
    mut until: oneshot::Receiver<()>,
    globals: &Globals,
) -> anyhow::Result<()> {
    let asked = || {
        stop.request();
        if bar.is_hidden() {
            print::note(globals, STOPPING);
        } else {
            bar.println(STOPPING);
        }
    };
    runtime()?.block_on(async {
        // Kept over the loop, so that no signal falls between two waits.
        let (mut ctrl_c, mut terminate) = signals()?;
        let mut tick = tokio::time::interval(DRAW_TIME);
        loop {
            tokio::select! {
                _ = &mut until => return Ok(()),
                _ = ctrl_c.recv() => asked(),
                _ = terminate.recv() => asked(),
                _ = tick.tick() => {
                    bar.set_position(progress.done());
                    let (flying, failed) = (progress.in_flight(), progress.failed());
                    bar.set_message(format!("replay: {flying} in flight, {failed} failed"));
                }
            }
        }
    })
}

/// Begins to hear Ctrl-C and SIGTERM.
fn signals() -> anyhow::Result<(Signal, Signal)> {
    let ctrl_c = signal(SignalKind::interrupt()).context("Ctrl-C cannot be heard")?;
    let terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be heard")?;
    Ok((ctrl_c, terminate))
}

/// Lets Ctrl-C and SIGTERM end the program at once again, as before the replay.
///
/// The runtime's handlers stay for the life of the process, and nobody would listen to them during
/// a report. What is written then appears whole or not at all.
fn end_on_signal() {
    thread::spawn(|| {
        let Ok(runtime) = runtime() else { return };
        let heard = runtime.block_on(async {
            let (mut ctrl_c, mut terminate) = signals()?;
            tokio::select! {
                _ = ctrl_c.recv() => {}
                _ = terminate.recv() => {}
            }
            anyhow::Ok(())
        });
        if heard.is_ok() {
            #[expect(clippy::exit, reason = "the user ends the program")]
            std::process::exit(failure::INTERRUPTED.into());
        }
    });
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the async runtime cannot be started")
}

/// Reads the pool's texts, if it is the pool of the plan.
fn texts(order: &Order<'_>, plan: &ScheduleReader) -> anyhow::Result<Texts> {
    let found = pool_table::read_manifest(order.pool)?.pool_digest;
    let expected = &plan.metadata().pool_digest;
    if &found != expected {
        let (pool, plan) = (order.pool.display(), order.plan.display());
        let error = format!("{pool}: pool `{found}`, but {plan} was made with `{expected}`");
        let hint = "give the pool that the plan was made with, or plan again".to_owned();
        return Err(Failed::new(error, Some(hint)).into());
    }
    let texts = pool_table::read_texts(order.pool)?;
    Ok(Texts::new(texts)?)
}

/// Returns whether a plan asks for exact output lengths; its first rows speak for all.
fn forces_lengths(plan: &Path) -> Result<bool, TableError> {
    let first = ScheduleReader::open(plan)?.next().transpose()?.unwrap_or_default();
    Ok(first.iter().any(|request| request.min_tokens.is_some()))
}

/// Keeps the plan in the run directory: a hard link where possible, else a copy.
fn keep_plan(plan: &Path, dir: &RunDir) -> anyhow::Result<()> {
    let kept = dir.plan();
    if plan == kept {
        return Ok(());
    }
    if std::fs::hard_link(plan, &kept).is_err() {
        copy_whole(plan, &kept)
            .with_context(|| format!("{}: the plan cannot be copied here", kept.display()))?;
    }
    Ok(())
}

/// Copies a file so that it stands under its name only when it is whole.
fn copy_whole(from: &Path, to: &Path) -> std::io::Result<()> {
    let partial = to.with_added_extension("partial");
    let copied = std::fs::copy(from, &partial).and_then(|_| std::fs::rename(&partial, to));
    copied.inspect_err(|_| drop(std::fs::remove_file(&partial)))
}

/// Makes the manifest of a run that begins; it holds no key and no header value.
fn begin(
    order: &Order<'_>,
    plan: &ScheduleReader,
    config: &ReplayConfig,
    facts: &ServerFacts,
) -> anyhow::Result<RunManifest> {
    let metadata = plan.metadata().clone();
    let target = manifest::Target {
        url: facts.base.clone(),
        api: config.api.to_string(),
        model: config.body.model().to_owned(),
    };
    let mut manifest = RunManifest::begin(order.name, manifest::now(), metadata.seed, target);
    manifest.digests = manifest::Digests {
        plan: Some(file_digest(order.plan)?),
        trace: metadata.trace_digest,
        model: metadata.model_digest,
        pool: Some(metadata.pool_digest),
        tokenizer: Some(metadata.tokenizer_digest),
    };
    let millis = |limit: Nanos| Some(limit.0 / 1_000_000);
    manifest.timeouts = manifest::Timeouts {
        connect_ms: millis(config.limits.connect),
        first_token_ms: millis(config.limits.first_token),
        idle_ms: millis(config.limits.idle),
        total_ms: millis(config.limits.total),
    };
    manifest.max_concurrency = config.max_concurrency.map(|cap| cap.get().into());
    manifest.planned = plan.rows();
    manifest.settings = settings(order.target);
    manifest.server_facts = server_facts(facts);
    Ok(manifest)
}

/// Returns the options that change what is sent, without values that may be secret.
fn settings(args: &TargetArgs) -> BTreeMap<String, String> {
    let names: Vec<&str> = args.headers.iter().map(|(name, _)| name.as_str()).collect();
    let mut settings = BTreeMap::from([
        ("ignore_eos", args.ignore_eos.to_string()),
        ("max_tokens_field", args.max_tokens_field.to_string()),
        ("reconnect_stale", args.reconnect_stale.to_string()),
        ("reuse_idle_ms", (args.reuse_idle.0 / 1_000_000).to_string()),
    ]);
    if !names.is_empty() {
        settings.insert("headers", names.join(", "));
    }
    if args.extra_body.is_some() {
        // Its values may be secret or text.
        settings.insert("extra_body", "given".to_owned());
    }
    settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn server_facts(facts: &ServerFacts) -> BTreeMap<String, String> {
    [
        ("models_status_code", facts.status_code.map(|code| code.to_string())),
        ("server", facts.server.clone()),
        ("models", facts.models.map(|models| models.to_string())),
        ("model_listed", facts.model_listed.map(|listed| listed.to_string())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

fn note_server(facts: &ServerFacts, config: &ReplayConfig, globals: &Globals) {
    let server = facts.server.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    print::note(globals, &format!("target {}{server}", facts.base));
    if facts.model_listed == Some(false) {
        let model = config.body.model();
        print::note(globals, &format!("warning: the server does not list the model `{model}`"));
    }
}

fn note_dispatcher(manifest: &mut RunManifest, summary: &ReplaySummary) {
    let facts = summary.dispatcher;
    let class = if facts.raised_priority { "normal, nice -10" } else { "normal" };
    class.clone_into(&mut manifest.scheduling_class);
    let timer = if facts.fine_timer { "timer slack 1 ns" } else { "default timer slack" };
    let note = format!("asleep to 100 us before each deadline, then spinning; {timer}");
    manifest.dispatcher_note = Some(note);
    let files = summary.max_open_files.map_or("none".to_owned(), |limit| limit.to_string());
    manifest.settings.insert("max_open_files".to_owned(), files);
}

fn note_summary(summary: &ReplaySummary, globals: &Globals) {
    let ReplaySummary { planned, sent, failed, peak_in_flight, connections_opened, .. } = summary;
    let unsent = planned.saturating_sub(*sent);
    print::note(
        globals,
        &format!(
            "{planned} planned, {sent} sent, {unsent} unsent, {failed} failed (unsent included); \
             at most {peak_in_flight} in flight, {connections_opened} connections opened"
        ),
    );
    if summary.reconnected > 0 {
        let again = summary.reconnected;
        print::note(globals, &format!("{again} sent again after their connection had died"));
    }
}
