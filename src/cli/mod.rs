//! The command line: grammar and glue, one file per verb, and the only place that prints.
//!
//! Each verb reads files through `table`, calls one stage, and writes one artifact. Tables and
//! JSON go to stdout, everything else to stderr. Exit codes: 0 done; 1 error; 2 usage; 3 done, but
//! a limit was not met; 4 refused (all failed, not comparable); 130 interrupted.

mod child;
mod environment;
mod export;
mod failure;
mod fit;
mod globals;
mod ingest;
mod ingest_summary;
mod inspect;
mod mock;
mod paths;
mod plan;
mod pool;
mod print;
mod replay;
mod report;
mod run;
mod units;

use clap::{Parser, Subcommand};
use globals::Globals;
use std::process::ExitCode;

/// Turns a week of LLM gateway logs into a load test that can be believed
#[derive(Debug, Parser)]
#[command(name = "tracewright", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Box<run::Args>),
    Ingest(ingest::Args),
    Fit(fit::Args),
    Pool(pool::Args),
    Plan(plan::Args),
    Replay(replay::Args),
    Report(report::Args),
    Inspect(inspect::Args),
    Export(export::Args),
    Mock(mock::Args),
}

/// Parses the command line, runs the verb, prints what went wrong, and returns the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    let globals = &cli.globals;
    let done = match &cli.verb {
        Verb::Run(args) => run::run(args, globals),
        Verb::Ingest(args) => ingest::run(args, globals),
        Verb::Fit(args) => fit::run(args, globals),
        Verb::Pool(args) => pool::run(args, globals),
        Verb::Plan(args) => plan::run(args, globals),
        Verb::Replay(args) => replay::run(args, globals),
        Verb::Report(args) => report::run(args, globals),
        Verb::Inspect(args) => inspect::run(args, globals),
        Verb::Export(args) => export::run(args, globals),
        Verb::Mock(args) => mock::run(args, globals),
    };
    done.unwrap_or_else(|error| failure::report(&error))
}
