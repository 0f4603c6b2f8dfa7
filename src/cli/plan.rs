//! `tracewright plan`.

use super::globals::Globals;
use std::process::ExitCode;

/// Placeholder
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, _globals: &Globals) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
