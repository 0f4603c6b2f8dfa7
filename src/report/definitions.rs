//! The words below every report: what each metric means, and from which instant to which.
//!
//! `docs/metrics.md` says the same at length, with the names other tools use.

use serde::{Deserialize, Serialize};

/// A metric and its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The metric's name.
    pub term: String,
    /// What it means, in one or two sentences.
    pub meaning: String,
}

/// Terms and meanings, in the order they are printed.
const DEFINITIONS: [(&str, &str); 12] = [
    (
        "actual send",
        "the instant the first byte of the request was handed to the socket; the connection stands by then",
    ),
    (
        "intended send",
        "the instant the plan wanted the request to leave; latency from here holds the client's own lateness",
    ),
    (
        "TTFT",
        "send to the first non-empty generated text of any kind: content, reasoning or tool call; role-only, null and empty deltas and keep-alives never count",
    ),
    (
        "TTFT content",
        "send to the first non-empty visible text; reasoning and tool calls do not count",
    ),
    (
        "TPOT",
        "(last text - first text) / (output tokens - 1), one sample a request; empty below two tokens",
    ),
    (
        "chunk gap",
        "time between neighbouring chunks with text, pooled: one sample a gap; a chunk may hold several tokens and is not split; chunks of one read have a gap of 0",
    ),
    ("mean chunk gap", "the mean of a request's chunk gaps, one sample a request; it hides stalls"),
    ("E2E", "send to the end of the response body; E2E text ends with the last non-empty text"),
    (
        "error-adjusted",
        "failed requests sort after every sample; a percentile that falls among them is `failed`, not a number",
    ),
    (
        "percentile",
        "exact, by linear interpolation of order statistics (NumPy's default); ≥ marks one whose 95 % interval has no upper end for want of samples",
    ),
    (
        "throughput",
        "succeeded requests and their tokens over the time from the first send to the last end of any sent request; failed requests add time but no tokens",
    ),
    (
        "schedule delay",
        "actual - intended send, the set-up of a new connection included; dispatch delay is the dispatcher's own part",
    ),
];

/// Returns all definitions.
pub(super) fn all() -> Vec<Definition> {
    DEFINITIONS
        .iter()
        .map(|&(term, meaning)| Definition { term: term.to_owned(), meaning: meaning.to_owned() })
        .collect()
}
