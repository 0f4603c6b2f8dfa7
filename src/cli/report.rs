//! `tracewright report`: a run directory in, its numbers and a verdict out.
//!
//! Reads the manifest, the plan and the outcomes of a run; writes `report.json` and `report.md`
//! into the run directory (both can be made again, so they are replaced) and prints one form.

use super::failure::{Failed, REFUSED};
use super::globals::Globals;
use super::print;
use crate::domain::schedule::{CountKind, PlanMetadata};
use crate::report::{self, Report, RunFacts, RunStatus, Summarizer};
use crate::run::digest::file_digest;
use crate::run::dir::RunDir;
use crate::run::manifest::{self, RunManifest};
use crate::table::TableError;
use crate::table::outcome::{self, OutcomeReader};
use crate::table::output::PartialFile;
use crate::table::schedule::ScheduleReader;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Numbers, a verdict and warnings from a run directory
///
/// Prints the report and writes `report.json` and `report.md` into the run directory. The verdict
/// comes first: whether the load that left was the load that was planned, and what must be said
/// with the numbers. A run that was killed is recovered as far as it was recorded; one that goes on
/// is left alone.
///
/// Exit code 4 when no request succeeded; the report is printed all the same.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  tracewright report runs/20260102T030405Z-example
  tracewright report runs/20260102T030405Z-example --output-format json -o report.json")]
pub(crate) struct Args {
    /// The run directory that `replay` wrote
    #[arg(value_name = "RUN_DIR")]
    run: PathBuf,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output_format: Format,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Plain text, 100 columns wide
    Text,
    /// Markdown with tables
    Markdown,
    /// Every number, by name
    Json,
}

/// Reports on a run.
pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let report = report_run(&args.run, globals)?;
    let text = render(&report, args.output_format)?;
    match &args.output {
        Some(path) => write_file(path, &text, globals.force)?,
        None => print::to_stdout(&text),
    }
    Ok(exit_code(&report))
}

/// Makes the report of the run in `dir` and writes its `report.json` and `report.md`.
pub(crate) fn report_run(dir: &Path, globals: &Globals) -> anyhow::Result<Report> {
    let dir = RunDir::open(dir)?;
    let manifest = RunManifest::read(&dir)?;
    recover_if_needed(&dir, globals)?;
    check_plan(&dir, &manifest)?;
    let (plan, count_kind) = read_plan(&dir.plan())?;
    let outcomes = OutcomeReader::open(dir.path())?;
    let recovered = outcomes.metadata().recovered;
    let mut summarizer =
        Summarizer::new(facts(&dir, &manifest, &plan, count_kind, recovered), plan);
    for batch in outcomes {
        summarizer.add(&batch?);
    }
    let report = summarizer.finish()?;
    write_file(&dir.report("json"), &render(&report, Format::Json)?, true)?;
    write_file(&dir.report("md"), &render(&report, Format::Markdown)?, true)?;
    let path = dir.path().display();
    print::note(globals, &format!("wrote report.json and report.md into {path}"));
    Ok(report)
}

/// Refuses a plan that is not the one that was replayed.
fn check_plan(dir: &RunDir, manifest: &RunManifest) -> anyhow::Result<()> {
    let (plan, expected) = (dir.plan(), manifest.digests.plan.as_deref());
    let found = file_digest(&plan)?;
    if expected.is_none_or(|expected| expected == found) {
        return Ok(());
    }
    let error = format!("{}: not the plan that was replayed, its digest differs", plan.display());
    let hint = "put back the plan that the run was made with; `manifest.json` has its digest";
    Err(Failed::new(error, hint.to_owned()).into())
}

/// Returns `report` in one form, ending with a line feed.
pub(crate) fn render(report: &Report, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Text => report::text::render(report),
        Format::Markdown => report::markdown::render(report),
        Format::Json => report::json::render(report)?,
    })
}

/// Returns 0, or 4 when no request succeeded, which it also says on stderr.
pub(crate) fn exit_code(report: &Report) -> ExitCode {
    let account = &report.accounting;
    if account.succeeded > 0 {
        return ExitCode::SUCCESS;
    }
    print::line_to_stderr(&no_success(account.sent, account.planned));
    ExitCode::from(REFUSED)
}

/// Returns the message for a run without one success.
fn no_success(sent: u64, planned: u64) -> String {
    let hint = "the report lists the failures; send one request by hand to see the answer";
    format!("error: no request succeeded: {sent} sent of {planned} planned\nhint: {hint}")
}

/// Makes `requests.parquet` out of what a killed run left behind, and says so.
fn recover_if_needed(dir: &RunDir, globals: &Globals) -> anyhow::Result<()> {
    if dir.requests().is_file() || !outcome::needs_recovery(dir.path()) {
        return Ok(());
    }
    let plan = ScheduleReader::open(&dir.plan())?;
    let found = outcome::recover(dir.path(), plan)?;
    print::note(globals, &recovery_note(found.recorded, found.unknown_after_kill));
    Ok(())
}

/// Returns what is said of a recovery.
fn recovery_note(recorded: u64, unknown: u64) -> String {
    format!(
        "the run was killed: recovered {recorded} outcomes; {unknown} planned requests have none \
         and count as `unknown_after_kill`"
    )
}

/// Returns a plan's metadata and what its input tokens count.
///
/// Where rows differ, the least exact count stands for all; an empty plan has none.
fn read_plan(path: &Path) -> Result<(PlanMetadata, Option<CountKind>), TableError> {
    let reader = ScheduleReader::open(path)?;
    let metadata = reader.metadata().clone();
    let mut least: Option<CountKind> = None;
    for batch in reader {
        for request in batch? {
            let kind = request.count_kind;
            if least.is_none_or(|least| exactness(kind) < exactness(least)) {
                least = Some(kind);
            }
        }
    }
    Ok((metadata, least))
}

/// Returns a rank of a count: the higher, the nearer to what the server counts.
const fn exactness(kind: CountKind) -> u8 {
    match kind {
        CountKind::Partial => 0,
        CountKind::Raw => 1,
        CountKind::Templated => 2,
    }
}

/// What the built-in mock calls itself in its `server` header.
const MOCK_SERVER: &str = "tracewright-mock";

/// Returns what a report needs to know of the run.
fn facts(
    dir: &RunDir,
    manifest: &RunManifest,
    plan: &PlanMetadata,
    count_kind: Option<CountKind>,
    recovered: bool,
) -> RunFacts {
    RunFacts {
        name: dir.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        target: manifest.target.url.clone(),
        // The mock says so itself.
        target_is_mock: manifest.server_facts.get("server").is_some_and(|name| name == MOCK_SERVER),
        api: manifest.target.api.clone(),
        model: manifest.target.model.clone(),
        // A run that still says `running` was killed.
        status: match manifest.status {
            manifest::RunStatus::Complete => RunStatus::Complete,
            manifest::RunStatus::Interrupted | manifest::RunStatus::Running => {
                RunStatus::Interrupted
            }
        },
        recovered,
        scheduling_class: Some(manifest.scheduling_class.clone()),
        server: manifest.server_facts.clone(),
        long_context_tokens: plan.long_context_tokens,
        tokenizer: plan.tokenizer.clone(),
        count_kind,
    }
}

/// Writes a text file in one step.
fn write_file(path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let mut file = PartialFile::create(path, force)?;
    file.write_all(text.as_bytes())?;
    file.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::metric::Latency;
    use crate::domain::outcome::{Failure, Instants, RequestOutcome};
    use crate::domain::scenario::Scenario;
    use crate::domain::schedule::{PlanCounts, PlanMode, Release, ScheduledRequest};
    use crate::domain::time::{Nanos, WallTime};
    use crate::table::outcome::OutcomeRecorder;
    use crate::table::schedule::ScheduleWriter;

    #[test]
    fn messages() {
        insta::assert_snapshot!(
            [no_success(3, 10), recovery_note(120, 4)].join("\n"),
            @"
        error: no request succeeded: 3 sent of 10 planned
        hint: the report lists the failures; send one request by hand to see the answer
        the run was killed: recovered 120 outcomes; 4 planned requests have none and count as `unknown_after_kill`
        "
        );
    }

    fn globals() -> Globals {
        Globals { seed: 42, quiet: true, no_progress: true, force: false }
    }

    fn planned(request_id: u64) -> ScheduledRequest {
        ScheduledRequest {
            request_id,
            scenario: Scenario::Single,
            session_id: None,
            turn_index: None,
            release: Release::At(Nanos::from_millis(request_id * 10)),
            prompt_parts: Vec::new(),
            input_tokens: 20,
            count_kind: if request_id == 1 { CountKind::Raw } else { CountKind::Templated },
            content_tokens: 20,
            template_tokens: None,
            max_tokens: 2,
            min_tokens: None,
            stream: true,
            prefix_block_ids: Vec::new(),
            recorded_status: None,
            repeat_of: None,
        }
    }

    fn outcome(request_id: u64, failure: Option<Failure>) -> RequestOutcome {
        let sent = Nanos::from_millis(request_id * 10);
        let text = failure.is_none().then(|| sent.plus(Nanos::from_millis(5)));
        RequestOutcome {
            request_id,
            scenario: Scenario::Single,
            session_id: None,
            turn_index: None,
            planned_input_tokens: 20,
            planned_max_tokens: 2,
            was_sent: true,
            at: Instants {
                scheduled: Some(sent),
                dispatched: Some(sent),
                sent: Some(sent),
                first_text: text,
                last_text: text.map(|at| at.plus(Nanos::from_millis(1))),
                closed: Some(sent.plus(Nanos::from_millis(7))),
                ..Instants::default()
            },
            chunks: text.into_iter().flat_map(|at| [at, at.plus(Nanos::from_millis(1))]).collect(),
            http_status_code: None,
            failure,
            failure_message: None,
            input_tokens: None,
            cached_input_tokens: None,
            output_tokens: failure.is_none().then_some(2),
            reasoning_tokens: None,
            usage_source: None,
            finish_reason: None,
            connection_reused: None,
            text_bytes: 2,
            largest_read_text_bytes: 1,
            in_flight: None,
        }
    }

    /// A run directory of three planned requests; unfinished, it looks like that of a killed run.
    fn run_dir(root: &Path, outcomes: &[RequestOutcome], finished: bool) -> RunDir {
        let dir = RunDir::create_at(&root.join("run")).unwrap();
        let target = manifest::Target {
            url: "http://user:secret@127.0.0.1:1/v1".to_owned(),
            api: "chat".to_owned(),
            model: "m".to_owned(),
        };
        let mut manifest = RunManifest::begin("test", WallTime(0), 42, target);
        if finished {
            manifest.end(manifest::RunStatus::Complete, WallTime(1));
        }
        manifest.write(&dir).unwrap();
        let mut plan = ScheduleWriter::create(&dir.plan(), false).unwrap();
        plan.write(&[planned(0), planned(1), planned(2)]).unwrap();
        plan.finish(&PlanMetadata {
            mode: PlanMode::Classic,
            seed: 42,
            trace_digest: None,
            model_digest: None,
            pool_digest: "pool".to_owned(),
            tokenizer: "o200k_base".to_owned(),
            tokenizer_digest: "tokenizer".to_owned(),
            speed: None,
            request_rate_per_s: Some(100.0),
            trace_origin_us: None,
            long_context_tokens: 4_000,
            counts: PlanCounts { planned: 3, ..PlanCounts::default() },
        })
        .unwrap();
        let mut recorder = OutcomeRecorder::create(dir.path()).unwrap();
        recorder.append(outcomes).unwrap();
        if finished {
            recorder.finish().unwrap();
        } else {
            recorder.flush().unwrap();
        }
        dir
    }

    #[test]
    fn a_run_directory_becomes_a_report_and_does_so_again() {
        let root = tempfile::tempdir().unwrap();
        let outcomes = [outcome(0, None), outcome(1, None), outcome(2, Some(Failure::Http5xx))];
        let dir = run_dir(root.path(), &outcomes, true);
        let report = report_run(dir.path(), &globals()).unwrap();
        assert_eq!((report.accounting.succeeded, report.accounting.failed), (2, 1));
        assert_eq!(report.run.status, RunStatus::Complete);
        assert_eq!(report.run.count_kind, Some(CountKind::Raw), "the least exact of the rows");
        let gaps = report.group("all").and_then(|all| all.of(Latency::ChunkGap)).unwrap();
        assert_eq!((gaps.n, gaps.p50_ms), (2, Some(1.0)), "chunks are joined back in");
        assert_eq!(format!("{:?}", exit_code(&report)), format!("{:?}", ExitCode::SUCCESS));

        let bytes = |extension| std::fs::read(dir.report(extension)).unwrap();
        let first = (bytes("json"), bytes("md"));
        assert!(!String::from_utf8_lossy(&first.0).contains("secret"));
        report_run(dir.path(), &globals()).unwrap();
        assert_eq!(first, (bytes("json"), bytes("md")), "equal input, equal bytes");
    }

    #[test]
    fn a_killed_run_is_recovered() {
        let root = tempfile::tempdir().unwrap();
        let dir = run_dir(root.path(), &[outcome(0, None)], false);
        for _again in 0..2 {
            let report = report_run(dir.path(), &globals()).unwrap();
            assert!(report.run.recovered);
            assert_eq!(report.run.status, RunStatus::Interrupted);
            let account = &report.accounting;
            assert_eq!((account.planned, account.sent, account.succeeded), (3, 1, 1));
            assert_eq!((account.unsent, account.unsent_unknown_after_kill), (2, 2));
        }
    }

    #[test]
    fn no_success_is_exit_code_4_and_still_a_report() {
        let root = tempfile::tempdir().unwrap();
        let outcomes: Vec<_> = (0..3).map(|id| outcome(id, Some(Failure::Connect))).collect();
        let dir = run_dir(root.path(), &outcomes, true);
        let out = root.path().join("out.json");
        let mut args = Args {
            run: dir.path().to_owned(),
            output_format: Format::Json,
            output: Some(out.clone()),
        };
        let code = run(&args, &globals()).unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(REFUSED)));
        let read: Report = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
        assert!(read.accounting.all_failed());
        assert!(run(&args, &globals()).is_err(), "an existing output needs --force");
        args.output = None;
        args.run = root.path().join("nowhere");
        assert!(run(&args, &globals()).is_err());
    }
}
