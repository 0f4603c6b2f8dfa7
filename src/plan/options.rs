//! What a user decides about a plan, in plain values.
//!
//! Filled in by the command line; every limit is optional and every cut it makes is counted.

use super::speed::Speed;
use crate::domain::limits;
use crate::domain::schedule::PlanCounts;
use crate::domain::time::{Nanos, WallTime};

/// Decisions that hold for every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonOptions {
    /// Plan at most this many requests.
    pub num_requests: Option<u64>,
    /// Cut longer inputs to this many tokens.
    pub max_input_tokens: Option<u32>,
    /// Cut longer outputs to this many tokens.
    pub max_output_tokens: Option<u32>,
    /// Ask the server for exactly the planned number of output tokens.
    pub force_output: bool,
    /// Inputs above this many tokens count as long context.
    pub long_context_tokens: u32,
}

impl Default for CommonOptions {
    fn default() -> Self {
        Self {
            num_requests: None,
            max_input_tokens: None,
            max_output_tokens: None,
            force_output: true,
            long_context_tokens: limits::LONG_CONTEXT_TOKENS,
        }
    }
}

impl CommonOptions {
    /// Returns the lengths cut to the limits; cuts and long contexts are counted in `counts`.
    pub(super) fn clip(self, input: u32, output: u32, counts: &mut PlanCounts) -> (u32, u32) {
        let cut = |tokens: u32, limit: Option<u32>| tokens.min(limit.unwrap_or(u32::MAX));
        let clipped = (cut(input, self.max_input_tokens), cut(output, self.max_output_tokens));
        counts.input_clipped += u64::from(clipped.0 < input);
        counts.output_clipped += u64::from(clipped.1 < output);
        counts.long_context += u64::from(clipped.0 > self.long_context_tokens);
        clipped
    }
}

/// One edge of a window on the trace's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// An instant.
    At(WallTime),
    /// A span after the first arrival of the trace.
    Offset(Nanos),
}

impl Edge {
    /// Returns the first whole microsecond at or after the edge.
    ///
    /// Right for both edges: `arrival >= edge` and `arrival < edge` do not change when the edge
    /// is rounded up to the microseconds in which arrivals are kept.
    pub(super) fn instant(self, first: WallTime) -> WallTime {
        match self {
            Self::At(at) => at,
            Self::Offset(span) => {
                first.plus_micros(i64::try_from(span.0.div_ceil(1_000)).unwrap_or(i64::MAX))
            }
        }
    }
}

/// Decisions of a plan that keeps the trace's own times.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedOptions {
    /// Divides every gap.
    pub speed: Speed,
    /// Start of the window, inclusive.
    pub from: Option<Edge>,
    /// End of the window, exclusive.
    pub to: Option<Edge>,
    /// Plan rows that the gateway answered from its cache.
    pub keep_cache_hits: bool,
    /// The rest.
    pub common: CommonOptions,
}

impl Default for RecordedOptions {
    fn default() -> Self {
        let common = CommonOptions::default();
        Self { speed: Speed::ONE, from: None, to: None, keep_cache_hits: false, common }
    }
}

/// Decisions of a plan drawn from a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicOptions {
    /// Requests per second; the model's own rate when not given.
    pub request_rate_per_s: Option<f64>,
    /// Stop before the first arrival at or after this offset.
    pub duration: Option<Nanos>,
    /// The rest.
    pub common: CommonOptions,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_rounded_up_to_a_microsecond() {
        let first = WallTime(1_000);
        for (span_ns, micros) in [(0, 1_000), (1, 1_001), (1_000, 1_001), (1_001, 1_002)] {
            assert_eq!(Edge::Offset(Nanos(span_ns)).instant(first), WallTime(micros));
        }
        assert_eq!(Edge::At(WallTime(5)).instant(first), WallTime(5));
    }

    #[test]
    fn only_what_is_cut_is_counted() {
        let options = CommonOptions { max_input_tokens: Some(8), ..CommonOptions::default() };
        let mut counts = PlanCounts::default();
        assert_eq!(options.clip(8, 9_000, &mut counts), (8, 9_000));
        assert_eq!(counts, PlanCounts::default());
        assert_eq!(options.clip(9, 1, &mut counts), (8, 1));
        assert_eq!(counts.input_clipped, 1);
    }
}
