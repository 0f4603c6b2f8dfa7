//! What can go wrong in a fit, in one line each, with what to do about it.
//!
//! The caller puts the name of the trace before the line. A bad fit is no error: it is a verdict. Errors are rows out of order, parts that cannot be
//! merged, and a trace with nothing in it to fit.

use crate::domain::time::WallTime;

/// Why a workload could not be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// An arrival is earlier than the one before it.
    #[error("row {row}: arrival `{found}` is before `{previous}`, expected rows in arrival order")]
    Unsorted {
        /// 1-based row among those added.
        row: u64,
        /// The latest arrival so far.
        previous: WallTime,
        /// The arrival of this row.
        found: WallTime,
    },
    /// An arrival is earlier than the start of the trace that a part was told of.
    #[error("row {row}: arrival `{found}` is before the start of the trace `{origin}`")]
    BeforeOrigin {
        /// 1-based row among those added.
        row: u64,
        /// The stated start of the trace.
        origin: WallTime,
        /// The arrival of this row.
        found: WallTime,
    },
    /// The later of two parts begins before the earlier one ends.
    #[error(
        "parts: the later begins at `{begins}`, expected not before the end of the earlier `{ends}`"
    )]
    PartsOverlap {
        /// Last arrival of the earlier part.
        ends: WallTime,
        /// First arrival of the later part.
        begins: WallTime,
    },
    /// Two parts do not belong together.
    #[error("parts: fitted with different {what}, expected equal ones")]
    PartsDiffer {
        /// What differs, in words.
        what: &'static str,
    },
    /// The trace is empty.
    #[error("no rows, expected at least 1 request")]
    NoRows,
    /// No row has a length above zero.
    #[error(
        "no length above zero in {rows} rows ({failed} failed, {no_input} without input \
         tokens, {no_output} without output tokens)"
    )]
    NoLengths {
        /// Rows read.
        rows: u64,
        /// Failed rows; their lengths are not fitted.
        failed: u64,
        /// Other rows whose input tokens are zero or missing.
        no_input: u64,
        /// Other rows whose output tokens are zero or missing.
        no_output: u64,
    },
}

impl FitError {
    /// Returns what the user can do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unsorted { .. } => {
                "`tracewright ingest` writes a sorted trace; ingest the logs again"
            }
            Self::BeforeOrigin { .. } => {
                "start every part from the first arrival of the whole trace"
            }
            Self::PartsOverlap { .. } => {
                "split a trace into contiguous time ranges and merge them in order"
            }
            Self::PartsDiffer { .. } => {
                "fit every part with the same options and the same start of the trace"
            }
            Self::NoRows => "look at what `tracewright ingest` dropped or rejected, and why",
            Self::NoLengths { .. } => {
                "the logs carry no token counts of finished requests; name their columns with \
                 `tracewright ingest --map`"
            }
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_where_what_and_what_to_do() {
        let (early, late) = (WallTime(0), WallTime(1_500_000));
        let errors = [
            FitError::Unsorted { row: 7, previous: late, found: early },
            FitError::BeforeOrigin { row: 1, origin: late, found: early },
            FitError::PartsOverlap { ends: late, begins: early },
            FitError::PartsDiffer { what: "options" },
            FitError::NoRows,
            FitError::NoLengths { rows: 9, failed: 2, no_input: 7, no_output: 7 },
        ];
        let shown: Vec<String> = errors
            .iter()
            .map(|error| format!("{error}\nhint: {}", error.hint().unwrap_or_default()))
            .collect();
        insta::assert_snapshot!(shown.join("\n\n"), @r#"
        row 7: arrival `1970-01-01T00:00:00.000000Z` is before `1970-01-01T00:00:01.500000Z`, expected rows in arrival order
        hint: `tracewright ingest` writes a sorted trace; ingest the logs again

        row 1: arrival `1970-01-01T00:00:00.000000Z` is before the start of the trace `1970-01-01T00:00:01.500000Z`
        hint: start every part from the first arrival of the whole trace

        parts: the later begins at `1970-01-01T00:00:00.000000Z`, expected not before the end of the earlier `1970-01-01T00:00:01.500000Z`
        hint: split a trace into contiguous time ranges and merge them in order

        parts: fitted with different options, expected equal ones
        hint: fit every part with the same options and the same start of the trace

        no rows, expected at least 1 request
        hint: look at what `tracewright ingest` dropped or rejected, and why

        no length above zero in 9 rows (2 failed, 7 without input tokens, 7 without output tokens)
        hint: the logs carry no token counts of finished requests; name their columns with `tracewright ingest --map`
        "#);
    }
}
