//! `tracewright fit`: a trace in, `model.json` and a table of how well it fits out.
//!
//! Reads the trace batch by batch through `table`, folds it in `fit`, writes the model through
//! `table`. The table goes to stdout; it is the place where a bad fit is said.

use super::failure::Failed;
use super::globals::Globals;
use super::paths;
use super::print;
use crate::domain::limits;
use crate::domain::workload::WorkloadModel;
use crate::fit::{self, FitError, FitOptions, Fitter};
use crate::run::digest;
use crate::table::model;
use crate::table::output::PartialFile;
use crate::table::trace::TraceReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Lengths, arrivals and mix of a trace, each with how well it fits
///
/// Fits a lognormal and an exponential to input and output tokens, measures how bursty arrivals
/// are and how requests mix, writes `model.json`, and prints it as a table: sample size, rows
/// left out, parameters with standard errors, distances, fitted beside measured quantiles, and a
/// plain verdict on each fit. What the trace does not show is `unknown`, never 0 %.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  tracewright fit trace.parquet -o model.json
  tracewright fit trace.parquet --long-context-tokens 32000 -o model.json")]
pub(crate) struct Args {
    /// The trace that `ingest` wrote
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Where to write the model
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Count inputs of more tokens than this as long context
    #[arg(long, value_name = "N", default_value_t = limits::LONG_CONTEXT_TOKENS)]
    long_context_tokens: u32,
}

/// Fits a trace, writes the model and prints it.
pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    paths::keep_inputs([args.trace.as_path()], &[&args.output])?;
    // An output that cannot be written is better known before a long trace is read.
    drop(PartialFile::create(&args.output, globals.force)?);
    let options = FitOptions { long_context_tokens: args.long_context_tokens };
    let fitted = fit_trace(&args.trace, options, globals)?;
    model::write(&args.output, &fitted, globals.force)?;
    print::to_stdout(&fit::describe(&fitted));
    print::note(globals, &format!("wrote {}", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// Returns the model of a trace, with the trace's digest and this program's version in it.
pub(crate) fn fit_trace(
    trace: &Path,
    options: FitOptions,
    globals: &Globals,
) -> anyhow::Result<WorkloadModel> {
    let reader = TraceReader::open(trace)?;
    let bar = print::progress(globals, reader.rows(), "fit");
    let mut fitter = Fitter::new(options);
    for batch in reader {
        for record in &batch? {
            fitter.add(record).map_err(|error| of_fit(trace, &error))?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let digest = digest::file_digest(trace)?;
    let fitted = fitter.finish(env!("CARGO_PKG_VERSION"), Some(digest));
    Ok(fitted.map_err(|error| of_fit(trace, &error))?)
}

fn of_fit(trace: &Path, error: &FitError) -> Failed {
    Failed::new(format!("{}: {error}", trace.display()), error.hint())
}

#[cfg(test)]
mod tests {
    use super::super::failure;
    use super::*;
    use crate::domain::record::{RequestRecord, Status};
    use crate::domain::time::WallTime;
    use crate::domain::trace::TraceMetadata;
    use crate::table::trace::TraceWriter;

    fn globals() -> Globals {
        Globals { seed: 42, quiet: true, no_progress: true, force: false }
    }

    fn trace(dir: &Path, rows: u32, status: Status) -> PathBuf {
        let path = dir.join("trace.parquet");
        let records: Vec<RequestRecord> = (0..rows)
            .map(|i| {
                let mut record = RequestRecord::unknown("test".into(), 0, 1);
                record.arrival_time = Some(WallTime(i64::from(i) * 250_000));
                record.arrival_source = crate::domain::record::ArrivalSource::Logged;
                record.input_tokens = Some(50 + i);
                record.output_tokens = Some(1 + i % 9);
                record.status = status;
                record
            })
            .collect();
        let mut writer = TraceWriter::create(&path, false).unwrap();
        writer.write(&records).unwrap();
        writer.finish(&TraceMetadata::default()).unwrap();
        path
    }

    #[test]
    fn a_model_is_written_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let args = Args {
            trace: trace(dir.path(), 500, Status::Ok),
            output: dir.path().join("model.json"),
            long_context_tokens: 100,
        };
        assert_eq!(run(&args, &globals()).unwrap(), ExitCode::SUCCESS);
        let written = model::read(&args.output).unwrap();
        let options = FitOptions { long_context_tokens: 100 };
        let fitted = fit_trace(&args.trace, options, &globals()).unwrap();
        let bytes = std::fs::read(&args.output).unwrap();
        let again = serde_json::to_vec_pretty(&fitted).unwrap();
        assert!(bytes.starts_with(&again), "equal traces give equal bytes");
        assert_eq!((written.rows, written.mix.scenarios.len()), (fitted.rows, 5));
        assert_eq!(written.trace_digest.map(|digest| digest.len()), Some(64));
        let again = run(&args, &globals()).unwrap_err();
        assert!(failure::render(&again).contains("exists already"), "{again}");
    }

    #[test]
    fn force_does_not_replace_the_trace() {
        let dir = tempfile::tempdir().unwrap();
        let path = trace(dir.path(), 9, Status::Ok);
        let before = std::fs::read(&path).unwrap();
        let args = Args { trace: path.clone(), output: path.clone(), long_context_tokens: 100 };
        let error = run(&args, &Globals { force: true, ..globals() }).unwrap_err();
        assert!(error.to_string().contains("would replace the input"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_trace_with_nothing_to_fit_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let shown = |rows, status| {
            let path = trace(dir.path(), rows, status);
            let error = fit_trace(&path, FitOptions::default(), &globals()).unwrap_err();
            std::fs::remove_file(&path).unwrap();
            failure::render(&error).replace(&dir.path().display().to_string(), "DIR")
        };
        let shown = [shown(0, Status::Ok), shown(3, Status::Timeout)];
        insta::assert_snapshot!(shown.join("\n"), @r#"
            error: DIR/trace.parquet: no rows, expected at least 1 request
            hint: look at what `tracewright ingest` dropped or rejected, and why
            error: DIR/trace.parquet: no length above zero in 3 rows (3 failed, 0 without input tokens, 0 without output tokens)
            hint: the logs carry no token counts of finished requests; name their columns with `tracewright ingest --map`
            "#);
    }
}
