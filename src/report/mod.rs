//! Measured outcomes → numbers → text, Markdown and JSON; says when *not* to believe them.
//!
//! `Summarizer` folds [`crate::domain::outcome::RequestOutcome`]s, batch by batch, into a
//! [`Report`]; [`text`], [`markdown`] and [`json`] render it. Pure: no I/O, no clock, and the
//! result depends neither on the order of the rows nor on how they were cut into batches.
//! Formulas live in `domain`; `docs/metrics.md` states every definition.

pub mod accounting;
mod cells;
pub mod definitions;
pub mod facts;
pub mod json;
pub mod latency;
pub mod markdown;
pub mod schedule;
mod sections;
pub mod summarize;
pub mod text;
pub mod throughput;
pub mod tokens;
pub mod verdict;
pub mod warnings;
mod windows;

#[cfg(test)]
mod example;

pub use facts::{RunFacts, RunStatus};
pub use summarize::{Report, ReportError, Summarizer, summarize};
