//! Why a plan could not be made, each with what the user can do.
//!
//! `Display` says where and what in one line; [`PlanError::hint`] says what to do about it.

use crate::domain::time::WallTime;

/// Why a plan could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Prompts cannot be closed to an exact length.
    #[error("pool: no one-token `filler` entries, needed to close a prompt to an exact length")]
    NoFillers,
    /// The pool's parts do not add up, so no count of a composed prompt would be true.
    #[error("pool: {failed} of {checked} checked joins do not add up in tokens, expected 0")]
    NotJointSafe {
        /// Joins whose tokens did not add up.
        failed: u64,
        /// Joins that were checked.
        checked: u64,
    },
    /// A prompt of no tokens was asked for.
    #[error("prompt: length is `0` tokens, expected at least 1")]
    EmptyPrompt,
    /// The trace has no rows.
    #[error("trace: no rows")]
    EmptyTrace,
    /// The trace has rows, but no times.
    #[error("trace: none of {rows} rows has an arrival time, which `--mode recorded` replays")]
    NoTimes {
        /// Rows of the trace.
        rows: u64,
    },
    /// A row comes before the row above it.
    #[error("trace: row {row} arrives before the row above it, expected rows in arrival order")]
    NotSorted {
        /// 0-based row of the trace.
        row: u64,
    },
    /// The window ends where it starts, or before.
    #[error("window: `--to` is {to}, not later than `--from`, {from}")]
    BackwardWindow {
        /// The inclusive start.
        from: WallTime,
        /// The exclusive end.
        to: WallTime,
    },
    /// No row of the trace could be planned.
    #[error("window: none of {rows} rows is left to plan; the trace runs from {first} to {last}")]
    NothingSelected {
        /// Rows of the trace.
        rows: u64,
        /// First arrival of the trace.
        first: WallTime,
        /// Last arrival of the trace.
        last: WallTime,
    },
    /// A row's length is unknown and there is nothing to draw it from.
    #[error(
        "trace: row {row} has no `{field}` and no row with both lengths is there to draw it from"
    )]
    NoLengths {
        /// The missing field.
        field: &'static str,
        /// 0-based row of the trace.
        row: u64,
    },
    /// An offset does not fit into 64 bits of nanoseconds (584 years).
    #[error("speed: request {request_id} would be sent more than 584 years after the first")]
    TooSlow {
        /// The planned request.
        request_id: u64,
    },
    /// The model lacks something that classic mode needs.
    #[error("model: no {what}")]
    ModelLacks {
        /// What is missing, in words.
        what: &'static str,
    },
    /// A parameter of the model or an option is not a usable number.
    #[error("{place}: `{name}` is `{value}`, expected {expected}")]
    BadNumber {
        /// Where it stands: `model` or `options`.
        place: &'static str,
        /// Its name.
        name: &'static str,
        /// What was found.
        value: f64,
        /// What would do.
        expected: &'static str,
    },
    /// Neither a number of requests nor a duration ends the plan.
    #[error("plan: nothing says where it ends")]
    NoEnd,
    /// No arrival falls into the duration.
    #[error("plan: no arrival within {duration_s} s at {rate_per_s} requests per second")]
    NoArrivals {
        /// The duration, in seconds.
        duration_s: f64,
        /// The rate.
        rate_per_s: f64,
    },
    /// A plan breaks one of its own rules; a bug of this program.
    #[error("plan: request {request_id}: {what}")]
    Invariant {
        /// The planned request.
        request_id: u64,
        /// The rule it breaks.
        what: &'static str,
    },
}

impl PlanError {
    /// Returns what the user can do, for the `hint:` line below the error.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoFillers | Self::NotJointSafe { .. } => {
                "build the pool again with `tracewright pool build`"
            }
            Self::EmptyPrompt => "leave requests without input out of the plan",
            Self::EmptyTrace => "check what `tracewright ingest` kept and dropped",
            Self::NoTimes { .. } => {
                "the lengths are still good: `tracewright fit` the trace, then \
                 `tracewright plan --model model.json --mode classic --request-rate R`"
            }
            Self::NotSorted { .. } => "write the trace again with `tracewright ingest`",
            Self::BackwardWindow { .. } => "`--from` is inclusive, `--to` is exclusive",
            Self::NothingSelected { .. } => {
                "widen `--from`/`--to`; answers from the gateway's cache count only with \
                 `--keep-cache-hits`"
            }
            Self::NoLengths { .. } => {
                "name the column of the lengths when you ingest: `--map input_tokens=COLUMN`, \
                 `--map output_tokens=COLUMN`"
            }
            Self::TooSlow { .. } => "raise `--speed`",
            Self::ModelLacks { what: "arrival rate" } => "state the rate: `--request-rate R`",
            Self::ModelLacks { .. } => {
                "fit the model to a trace that logs both lengths: `tracewright fit`"
            }
            Self::BadNumber { place: "model", .. } => "fit the model again: `tracewright fit`",
            Self::BadNumber { .. } => return None,
            Self::NoEnd => "state `--num-requests N`, `--duration D` or both",
            Self::NoArrivals { .. } => "raise `--duration` or `--request-rate`",
            Self::Invariant { .. } => "this is a bug of tracewright; please report it",
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(error: &PlanError) -> String {
        format!("{error}\nhint: {}", error.hint().unwrap_or_else(|| "(none)".to_owned()))
    }

    #[test]
    fn messages_of_the_pool() {
        insta::assert_snapshot!(shown(&PlanError::NoFillers), @r"
        pool: no one-token `filler` entries, needed to close a prompt to an exact length
        hint: build the pool again with `tracewright pool build`
        ");
        insta::assert_snapshot!(shown(&PlanError::NotJointSafe { failed: 3, checked: 1_000 }), @r"
        pool: 3 of 1000 checked joins do not add up in tokens, expected 0
        hint: build the pool again with `tracewright pool build`
        ");
        insta::assert_snapshot!(shown(&PlanError::EmptyPrompt), @r"
        prompt: length is `0` tokens, expected at least 1
        hint: leave requests without input out of the plan
        ");
    }

    #[test]
    fn messages_of_the_trace() {
        let (first, last) = (WallTime(0), WallTime(60_000_000));
        insta::assert_snapshot!(shown(&PlanError::EmptyTrace), @r"
        trace: no rows
        hint: check what `tracewright ingest` kept and dropped
        ");
        insta::assert_snapshot!(shown(&PlanError::NoTimes { rows: 7 }), @r"
        trace: none of 7 rows has an arrival time, which `--mode recorded` replays
        hint: the lengths are still good: `tracewright fit` the trace, then `tracewright plan --model model.json --mode classic --request-rate R`
        ");
        insta::assert_snapshot!(shown(&PlanError::NotSorted { row: 9 }), @r"
        trace: row 9 arrives before the row above it, expected rows in arrival order
        hint: write the trace again with `tracewright ingest`
        ");
        insta::assert_snapshot!(shown(&PlanError::BackwardWindow { from: last, to: first }), @r"
        window: `--to` is 1970-01-01T00:00:00.000000Z, not later than `--from`, 1970-01-01T00:01:00.000000Z
        hint: `--from` is inclusive, `--to` is exclusive
        ");
        insta::assert_snapshot!(shown(&PlanError::NothingSelected { rows: 4, first, last }), @r"
        window: none of 4 rows is left to plan; the trace runs from 1970-01-01T00:00:00.000000Z to 1970-01-01T00:01:00.000000Z
        hint: widen `--from`/`--to`; answers from the gateway's cache count only with `--keep-cache-hits`
        ");
        insta::assert_snapshot!(shown(&PlanError::NoLengths { field: "output_tokens", row: 2 }), @r"
        trace: row 2 has no `output_tokens` and no row with both lengths is there to draw it from
        hint: name the column of the lengths when you ingest: `--map input_tokens=COLUMN`, `--map output_tokens=COLUMN`
        ");
        insta::assert_snapshot!(shown(&PlanError::TooSlow { request_id: 5 }), @r"
        speed: request 5 would be sent more than 584 years after the first
        hint: raise `--speed`
        ");
    }

    #[test]
    fn messages_of_the_model_and_the_plan() {
        insta::assert_snapshot!(shown(&PlanError::ModelLacks { what: "arrival rate" }), @r"
        model: no arrival rate
        hint: state the rate: `--request-rate R`
        ");
        insta::assert_snapshot!(shown(&PlanError::ModelLacks { what: "lognormal fit of the input tokens" }), @r"
        model: no lognormal fit of the input tokens
        hint: fit the model to a trace that logs both lengths: `tracewright fit`
        ");
        let bad = |place| PlanError::BadNumber {
            place,
            name: "sigma",
            value: -1.0,
            expected: "a number above 0",
        };
        insta::assert_snapshot!(shown(&bad("model")), @r"
        model: `sigma` is `-1`, expected a number above 0
        hint: fit the model again: `tracewright fit`
        ");
        insta::assert_snapshot!(shown(&bad("options")), @r"
        options: `sigma` is `-1`, expected a number above 0
        hint: (none)
        ");
        insta::assert_snapshot!(shown(&PlanError::NoEnd), @r"
        plan: nothing says where it ends
        hint: state `--num-requests N`, `--duration D` or both
        ");
        insta::assert_snapshot!(shown(&PlanError::NoArrivals { duration_s: 0.5, rate_per_s: 0.1 }), @r"
        plan: no arrival within 0.5 s at 0.1 requests per second
        hint: raise `--duration` or `--request-rate`
        ");
        insta::assert_snapshot!(shown(&PlanError::Invariant { request_id: 1, what: "ids are not dense" }), @r"
        plan: request 1: ids are not dense
        hint: this is a bug of tracewright; please report it
        ");
    }
}
