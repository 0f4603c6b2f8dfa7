//! The `tracewright` binary: parse, call, print the error chain, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    tracewright::cli::main()
}
