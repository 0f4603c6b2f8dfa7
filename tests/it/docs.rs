//! Documents that say what the binary says.

use crate::tool::{Desk, in_repository};
use std::fmt::Write;

/// Every verb, in the order of the chain.
const VERBS: &[&[&str]] = &[
    &[],
    &["run"],
    &["ingest"],
    &["fit"],
    &["pool"],
    &["pool", "build"],
    &["pool", "verify"],
    &["plan"],
    &["replay"],
    &["report"],
    &["inspect"],
    &["export"],
    &["mock"],
];

#[test]
fn the_command_line_reference_is_what_help_prints() {
    let desk = Desk::new();
    let mut text =
        "# Command line\n\nGenerated from `--help`; `UPDATE_DOCS=1 cargo test` rewrites it.\n"
            .to_owned();
    for verb in VERBS {
        let mut args = verb.to_vec();
        args.push("--help");
        let help = desk.ok(&args).stdout;
        let name = ["tracewright"].iter().chain(*verb).copied().collect::<Vec<_>>().join(" ");
        let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        write!(text, "\n## {name}\n\n```text\n{help}\n```\n").unwrap();
    }
    let path = in_repository("docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "docs/cli.md is stale: run `UPDATE_DOCS=1 cargo test`");
}

#[test]
fn the_gate_runs_the_readmes_two_commands_as_written() {
    let readme = std::fs::read_to_string(in_repository("README.md")).unwrap();
    let gate = std::fs::read_to_string(in_repository(".ci/run")).unwrap();
    for command in ["cargo run --release -- run sample-traces/litellm-week.jsonl.gz", "cargo test"]
    {
        for (name, text) in [("README.md", &readme), (".ci/run", &gate)] {
            assert!(text.lines().any(|line| line == command), "{name} lacks the line `{command}`");
        }
    }
}
