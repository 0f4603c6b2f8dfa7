//! `tracewright replay`: plan.parquet + prompt pool + server → a run directory.
//!
//! Reads through `table`, composes prompts through `pool`, sends through `replay`, writes through
//! `table` and `run`. A writer thread takes the outcomes, so that encoding never delays a send; a
//! watcher thread draws the progress bar and hears Ctrl-C. The key comes from the environment
//! alone and goes nowhere but to the target.

use super::environment;
use super::failure::{self, Failed};
use super::globals::Globals;
use super::print;
use crate::domain::outcome::RequestOutcome;
use crate::domain::pool_index::PoolText;
use crate::domain::schedule::{PromptPart, ScheduledRequest};
use crate::domain::time::Nanos;
use crate::replay;
use crate::replay::api::{Api, BodyOptions, MaxTokensField};
use crate::replay::{
    Limits, Load, Progress, ReplayConfig, ReplaySummary, ServerFacts, Stop, Target, preflight,
};
use crate::run::dir::RunDir;
use crate::run::manifest::{self, RunManifest, RunStatus};
use crate::run::{RunError, digest::file_digest};
use crate::table::TableError;
use crate::table::outcome::OutcomeRecorder;
use crate::table::{pool as pool_table, schedule::ScheduleReader};
use anyhow::Context;
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Outcomes between the replay and the writer.
const OUTCOMES: usize = 8_192;
/// The writer puts outcomes on disk at least this often.
const FLUSH_TIME: Duration = Duration::from_secs(1);
/// The progress bar is drawn this often.
const DRAW_TIME: Duration = Duration::from_millis(200);
/// The variable with the key, unless another is named.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";
/// The variable with the base URL, when `--url` is not given.
const URL_VARIABLE: &str = "OPENAI_BASE_URL";

/// Send a plan's requests at their times and record what happens
///
/// Every planned request becomes one row of the run, sent or not. Latencies count from the
/// planned and from the actual send; requests are never sent early, never retried, and late ones
/// stay late.
///
/// Example: tracewright replay plan.parquet --pool prompt-pools/small --url
/// http://127.0.0.1:8000 --model example
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// The prompt pool that the plan was made with
    #[arg(long, value_name = "DIR")]
    pool: PathBuf,
    #[command(flatten)]
    target: TargetArgs,
    /// Directory in which the run directory is created
    #[arg(short, long, value_name = "DIR", default_value = "runs")]
    output: PathBuf,
    /// Name of the run, the last part of its directory's name
    #[arg(long, value_name = "NAME", default_value = "replay")]
    name: String,
}

/// Where and how requests are sent.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TargetArgs {
    /// Base URL of the server; default: the variable `OPENAI_BASE_URL`
    ///
    /// A path prefix is kept: `https://host/api` becomes `https://host/api/v1/chat/completions`.
    #[arg(long, visible_alias = "base-url", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Name of the model in the requests
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// API to speak: chat or completions
    ///
    /// `completions` sends the prompt as it is; `chat` sends it as one user message, to which the
    /// server's template adds tokens.
    #[arg(long, default_value = "chat", value_parser = api, value_name = "API")]
    pub(crate) api: Api,
    /// Header sent with each request, `K: V`; may be repeated
    #[arg(long = "header", value_name = "K: V", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// JSON object merged into each body, for example `{"temperature": 0}`
    #[arg(long, value_name = "JSON")]
    pub(crate) extra_body: Option<String>,
    /// Variable that holds the key; default: `OPENAI_API_KEY`, if it is set
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// Longest time for TCP and TLS together
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    pub(crate) connect_timeout: Nanos,
    /// Longest time from the send to the first generated text
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "DURATION")]
    pub(crate) first_token_timeout: Nanos,
    /// Longest time between two reads once text has come
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "DURATION")]
    pub(crate) idle_timeout: Nanos,
    /// Longest time from the send to the end
    #[arg(long, default_value = "1h", value_parser = duration, value_name = "DURATION")]
    pub(crate) total_timeout: Nanos,
    /// Most requests in flight; further ones wait, which shows as schedule delay
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrency: Option<NonZeroU32>,
    /// Force the planned output length with `ignore_eos` and `min_tokens`
    ///
    /// vLLM, SGLang and llama.cpp know these fields; other servers may refuse them.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Field that limits output: max_tokens or max_completion_tokens
    #[arg(long, default_value = "max_tokens", value_parser = max_tokens_field, value_name = "FIELD")]
    pub(crate) max_tokens_field: MaxTokensField,
    /// Keep an idle connection for reuse at most this long; 0s opens one for each request
    #[arg(long, default_value = "4s", value_parser = duration, value_name = "DURATION")]
    pub(crate) reuse_idle: Nanos,
    /// Send once more when a reused connection had died without a byte
    ///
    /// The original instant stays, and such requests are counted. Without it they fail with the
    /// class `connection_reused_closed`.
    #[arg(long)]
    pub(crate) reconnect_stale: bool,
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
    /// The directory of run directories.
    pub(crate) root: &'a Path,
    /// The run's name.
    pub(crate) name: &'a str,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let Args { plan, pool, target, output, name } = args;
    let order = Order { plan, pool, target, root: output, name };
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

/// Replays a plan into a new run directory, and returns that directory and what was done.
///
/// The run directory is complete and readable also after Ctrl-C.
pub(crate) fn replay_plan(
    order: &Order<'_>,
    globals: &Globals,
) -> anyhow::Result<(RunDir, ReplaySummary)> {
    let config = config(order.target, globals)?;
    let plan = ScheduleReader::open(order.plan).map_err(table_failed)?;
    let texts = texts(order, &plan)?;
    let facts = preflight(&config).map_err(replay_failed)?;
    note_server(&facts, &config, globals);
    let dir = RunDir::create(order.root, order.name, manifest::now()).map_err(run_failed)?;
    keep_plan(order.plan, &dir)?;
    let mut manifest = begin(order, &plan, &config, &facts)?;
    manifest.write(&dir).map_err(run_failed)?;

    let prompt =
        |request: &ScheduledRequest| compose(&texts, &request.prompt_parts).map_err(Into::into);
    let bar = print::progress(globals, plan.rows(), "replay");
    let rows = plan.map(|batch| batch.map_err(Into::into));
    let done = send(Load { rows, prompt }, &config, &dir, &bar);
    bar.finish_and_clear();

    let whole = done.as_ref().is_ok_and(|summary| !summary.interrupted);
    let status = if whole { RunStatus::Complete } else { RunStatus::Interrupted };
    manifest.end(status, manifest::now());
    if let Ok(summary) = &done {
        note_dispatcher(&mut manifest, summary);
    }
    manifest.write(&dir).map_err(run_failed)?;
    let summary = done?;
    note_summary(&summary, globals);
    Ok((dir, summary))
}

/// Sends the load with a writer and a watcher beside it.
fn send<R, P>(
    load: Load<R, P>,
    config: &ReplayConfig,
    dir: &RunDir,
    bar: &ProgressBar,
) -> anyhow::Result<ReplaySummary>
where
    R: Iterator<Item = Result<Vec<ScheduledRequest>, replay::BoxError>> + Send,
    P: Fn(&ScheduledRequest) -> Result<String, replay::BoxError> + Send,
{
    let recorder = OutcomeRecorder::create(dir.path()).map_err(table_failed)?;
    let (stop, progress) = (Arc::<Stop>::default(), Arc::<Progress>::default());
    let (outcomes, to_write) = mpsc::channel(OUTCOMES);
    let (over, until) = oneshot::channel();
    thread::scope(|scope| {
        let writer = scope.spawn(move || write(recorder, to_write));
        let watcher = scope.spawn(|| watch(&stop, &progress, bar, until));
        let sent = replay::replay(load, config, &stop, &progress, outcomes);
        // The watcher may be gone with an error of its own, which is reported below.
        over.send(()).ok();
        let written = writer.join().expect("the writer does not panic");
        // When the writer failed, the replay's own error only says so.
        written?;
        let sent = sent.map_err(replay_failed)?;
        watcher.join().expect("the watcher does not panic")?;
        Ok(sent)
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
    Ok(taken_all.and_then(|()| recorder.finish()).map_err(table_failed)?)
}

/// Draws progress and passes Ctrl-C on, until the replay is over.
fn watch(
    stop: &Stop,
    progress: &Progress,
    bar: &ProgressBar,
    mut until: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let mut tick = tokio::time::interval(DRAW_TIME);
        loop {
            tokio::select! {
                _ = &mut until => return Ok(()),
                heard = tokio::signal::ctrl_c() => {
                    heard.context("Ctrl-C cannot be heard")?;
                    stop.request();
                    bar.println("stopping: nothing new is sent; Ctrl-C again cuts what is in flight");
                }
                _ = tick.tick() => {
                    bar.set_position(progress.done());
                    let (flying, failed) = (progress.in_flight(), progress.failed());
                    bar.set_message(format!("replay: {flying} in flight, {failed} failed"));
                }
            }
        }
    })
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the async runtime cannot be started")
}

/// Makes the replay's configuration from what was typed and from the environment.
pub(crate) fn config(args: &TargetArgs, globals: &Globals) -> anyhow::Result<ReplayConfig> {
    let url = match &args.url {
        Some(url) => url.clone(),
        None => from_environment(URL_VARIABLE, "base URL", globals).ok_or_else(|| {
            Failed::usage(
                "no `--url` is given",
                Some(format!("give `--url http://HOST:PORT` or set `{URL_VARIABLE}`")),
            )
        })?,
    };
    let key = match &args.api_key_env {
        Some(name) => Some(from_environment(name, "key", globals).ok_or_else(|| {
            let hint = format!("export `{name}`, or leave `--api-key-env` out");
            Failed::usage(format!("the variable `{name}` is not set"), Some(hint))
        })?),
        None => from_environment(KEY_VARIABLE, "key", globals),
    };
    let target =
        Target::new(&url, args.api, key.as_deref(), &args.headers).map_err(replay_failed)?;
    let mut body = BodyOptions::new(&args.model)
        .with_ignore_eos(args.ignore_eos)
        .with_max_tokens_field(args.max_tokens_field);
    if let Some(extra) = &args.extra_body {
        body = body.with_extra(extra).map_err(replay_failed)?;
    }
    let mut config = ReplayConfig::new(target, args.api, body);
    config.limits = Limits {
        connect: args.connect_timeout,
        first_token: args.first_token_timeout,
        idle: args.idle_timeout,
        total: args.total_timeout,
    };
    config.max_concurrency = args.max_concurrency;
    config.reuse_idle = args.reuse_idle;
    config.reconnect_stale = args.reconnect_stale;
    Ok(config)
}

fn from_environment(name: &str, what: &str, globals: &Globals) -> Option<String> {
    let value = environment::variable(name)?;
    print::note(globals, &format!("{what} from the variable `{name}`"));
    Some(value)
}

/// Reads the pool's texts, if it is the pool of the plan.
fn texts(order: &Order<'_>, plan: &ScheduleReader) -> anyhow::Result<Vec<PoolText>> {
    let found = pool_table::read_manifest(order.pool).map_err(table_failed)?.pool_digest;
    let expected = &plan.metadata().pool_digest;
    if &found != expected {
        let (pool, plan) = (order.pool.display(), order.plan.display());
        let error = format!("{pool}: pool `{found}`, but {plan} was made with `{expected}`");
        let hint = "give the pool that the plan was made with, or plan again".to_owned();
        return Err(Failed::new(error, Some(hint)).into());
    }
    Ok(pool_table::read_texts(order.pool).map_err(table_failed)?)
}

/// Joins the parts of a prompt.
fn compose(texts: &[PoolText], parts: &[PromptPart]) -> Result<String, String> {
    let mut prompt = String::new();
    for PromptPart { entry_id, cut_tokens } in parts {
        let at = usize::try_from(*entry_id).map_err(|error| error.to_string())?;
        let text = texts.get(at).ok_or_else(|| format!("the pool has no entry `{entry_id}`"))?;
        let cut = text.entry.cut_tokens.binary_search(cut_tokens);
        let bytes = cut.ok().and_then(|cut| usize::try_from(*text.cut_bytes.get(cut)?).ok());
        let piece = bytes.and_then(|bytes| text.text.get(..bytes));
        prompt.push_str(
            piece.ok_or_else(|| {
                format!("entry `{entry_id}` cannot be cut at `{cut_tokens}` tokens")
            })?,
        );
    }
    Ok(prompt)
}

/// Keeps the plan in the run directory: a hard link where possible, else a copy.
fn keep_plan(plan: &Path, dir: &RunDir) -> anyhow::Result<()> {
    let kept = dir.plan();
    if std::fs::hard_link(plan, &kept).is_err() {
        std::fs::copy(plan, &kept)
            .with_context(|| format!("{}: the plan cannot be copied here", kept.display()))?;
    }
    Ok(())
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
        plan: Some(file_digest(order.plan).map_err(run_failed)?),
        trace: metadata.trace_digest,
        model: metadata.model_digest,
        pool: Some(metadata.pool_digest),
        tokenizer: Some(metadata.tokenizer_digest),
    };
    let millis = |limit: Nanos| Some(limit.0 / 1_000_000);
    manifest.timeouts = manifest::Timeouts {
        connect_ms: millis(config.limits.connect),
        headers_ms: millis(config.limits.first_token),
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
    if let Some(extra) = &args.extra_body {
        settings.insert("extra_body", extra.clone());
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
    manifest.scheduling_class = class.to_owned();
    let timer = if facts.fine_timer { "timer slack 1 ns" } else { "default timer slack" };
    let note = format!("asleep to 100 us before each deadline, then spinning; {timer}");
    manifest.dispatcher_note = Some(note);
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

fn table_failed(error: TableError) -> Failed {
    let hint = error.hint();
    Failed::new(error, hint)
}

fn run_failed(error: RunError) -> Failed {
    let hint = error.hint();
    Failed::new(error, hint)
}

fn replay_failed(error: replay::ReplayError) -> Failed {
    let hint = error.hint();
    Failed::new(error, hint)
}

fn api(word: &str) -> Result<Api, String> {
    Api::parse(word).ok_or_else(|| format!("expected one of {}", words(Api::ALL)))
}

fn max_tokens_field(word: &str) -> Result<MaxTokensField, String> {
    let expected = || format!("expected one of {}", words(MaxTokensField::ALL));
    MaxTokensField::parse(word).ok_or_else(expected)
}

fn words<W: ToString>(all: &[W]) -> String {
    let words: Vec<String> = all.iter().map(ToString::to_string).collect();
    words.join(", ")
}

fn header(typed: &str) -> Result<(String, String), String> {
    // The value may be a secret and is not repeated.
    let (name, value) = typed.split_once(':').ok_or("expected `K: V`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Reads a duration: a number and `us`, `ms`, `s`, `m` or `h`.
fn duration(typed: &str) -> Result<Nanos, String> {
    let unit_at = typed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(typed.len());
    let (number, unit) = typed.split_at(unit_at);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err("expected a number with a unit: `250ms`, `10s`, `5m`, `1h`".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{number}` is not a number"))?;
    Ok(Nanos::from_secs_f64(number * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_their_unit() {
        for (typed, millis) in
            [("10s", 10_000), ("250ms", 250), ("5m", 300_000), ("1h", 3_600_000), ("0.5s", 500)]
        {
            assert_eq!(duration(typed), Ok(Nanos::from_millis(millis)), "{typed}");
        }
        for typed in ["10", "", "s", "1.2.3s", "-1s", "1 s"] {
            assert!(duration(typed).is_err(), "{typed:?}");
        }
    }

    #[test]
    fn a_bad_header_is_not_repeated() {
        assert_eq!(header("x-key: a:b "), Ok(("x-key".into(), "a:b".into())));
        assert!(!header("sk-secret").unwrap_err().contains("secret"));
    }

    #[test]
    fn exit_codes() {
        let code = |planned, failed, interrupted| {
            let summary =
                ReplaySummary { planned, failed, interrupted, ..ReplaySummary::default() };
            format!("{:?}", exit_code(&summary))
        };
        let expected = |code: u8| format!("{:?}", ExitCode::from(code));
        assert_eq!(code(3, 0, false), expected(0));
        assert_eq!(code(3, 2, false), expected(0));
        assert_eq!(code(3, 3, false), expected(4));
        assert_eq!(code(0, 0, false), expected(0));
        assert_eq!(code(3, 3, true), expected(130));
    }
}
