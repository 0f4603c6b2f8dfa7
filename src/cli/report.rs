//! `tracewright report`: a run directory in, its numbers and a verdict out.
//!
//! Reads the manifest, the plan and the outcomes of a run; writes `report.json` and `report.md`
//! into the run directory (both can be made again, so they are replaced) and prints one form.

use super::failure::{Failed, REFUSED};
use super::globals::Globals;
use super::print;
use crate::domain::schedule::{CountKind, PlanMetadata};
use crate::report::{self, Report, ReportError, RunFacts, RunStatus, Summarizer};
use crate::run::dir::RunDir;
use crate::run::error::RunError;
use crate::run::manifest::{self, RunManifest};
use crate::table::error::TableError;
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
/// with the numbers. A run that was killed is recovered as far as it was recorded.
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
    let dir = RunDir::open(dir).map_err(of_run)?;
    let manifest = RunManifest::read(&dir).map_err(of_run)?;
    recover_if_needed(&dir, globals)?;
    let (plan, count_kind) = read_plan(&dir.plan()).map_err(of_table)?;
    let outcomes = OutcomeReader::open(dir.path()).map_err(of_table)?;
    let recovered = outcomes.metadata().recovered;
    let mut summarizer = Summarizer::new(facts(&manifest, &plan, count_kind, recovered), plan);
    for batch in outcomes {
        summarizer.add(&batch.map_err(of_table)?);
    }
    let report = summarizer.finish().map_err(of_report)?;
    write_file(&dir.report("json"), &render(&report, Format::Json)?, true)?;
    write_file(&dir.report("md"), &render(&report, Format::Markdown)?, true)?;
    let path = dir.path().display();
    print::note(globals, &format!("wrote report.json and report.md into {path}"));
    Ok(report)
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
    let plan = ScheduleReader::open(&dir.plan()).map_err(of_table)?;
    let found = outcome::recover(dir.path(), plan).map_err(of_table)?;
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

/// The manifest's setting that says that the target is the built-in mock.
pub(crate) const MOCK_SETTING: &str = "target_is_mock";
/// The manifest's setting that says whether the instants of chunks were recorded.
pub(crate) const CHUNKS_SETTING: &str = "record_chunks";

/// Returns what a report needs to know of the run.
fn facts(
    manifest: &RunManifest,
    plan: &PlanMetadata,
    count_kind: Option<CountKind>,
    recovered: bool,
) -> RunFacts {
    let setting = |name| manifest.settings.get(name).map(String::as_str);
    RunFacts {
        name: manifest.name.clone(),
        target: manifest.target.url.clone(),
        // The mock also says so itself, in the list of its models.
        target_is_mock: setting(MOCK_SETTING) == Some("true")
            || manifest.server_facts.get("owned_by").is_some_and(|owner| owner == "tracewright"),
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
        chunks_recorded: setting(CHUNKS_SETTING) != Some("false"),
        server: manifest.server_facts.clone(),
        long_context_tokens: plan.long_context_tokens,
        tokenizer: plan.tokenizer.clone(),
        count_kind,
    }
}

/// Writes a text file in one step.
fn write_file(path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let mut file = PartialFile::create(path, force).map_err(of_table)?;
    file.write_all(text.as_bytes())?;
    file.commit().map_err(of_table)?;
    Ok(())
}

fn of_table(error: TableError) -> Failed {
    let hint = error.hint();
    Failed::new(error, hint)
}

fn of_run(error: RunError) -> Failed {
    let hint = error.hint();
    Failed::new(error, hint)
}

fn of_report(error: ReportError) -> Failed {
    let hint = error.hint();
    Failed::new(error, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        insta::assert_snapshot!(
            format!("{}\n{}", no_success(3, 10), recovery_note(120, 4)),
            @""
        );
    }
}
