//! The figures of a plan that a person checks before sending it.
//!
//! Folded batch by batch; rates are requests per second of planned time. The mean rate is
//! (n − 1) / span, null below two different instants; the peak is the largest number of arrivals
//! in one whole second counted from the start of the plan.

use crate::domain::convert;
use crate::domain::schedule::{Release, ScheduledRequest};
use crate::domain::time::{NANOS_PER_SECOND, Nanos};

/// Figures of the planned requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanSummary {
    /// Requests.
    pub requests: u64,
    /// Offset of the first and the last release.
    pub span: Option<(Nanos, Nanos)>,
    /// Most releases in one second.
    pub peak_per_s: u64,
    /// Sum of the input tokens.
    pub input_tokens: u64,
    /// Sum of the limits on output tokens.
    pub output_tokens: u64,
    /// Requests that belong to a session.
    pub in_sessions: u64,
    /// Requests that state prefix blocks.
    pub with_prefix_blocks: u64,
    /// The second of the last release, and the releases in it.
    second: (u64, u64),
}

impl PlanSummary {
    /// Adds the next requests, in the order of the plan.
    pub fn add(&mut self, requests: &[ScheduledRequest]) {
        for request in requests {
            self.requests += 1;
            self.input_tokens += u64::from(request.input_tokens);
            self.output_tokens += u64::from(request.max_tokens);
            self.in_sessions += u64::from(request.session_id.is_some());
            self.with_prefix_blocks += u64::from(!request.prefix_block_ids.is_empty());
            if let Release::At(at) = request.release {
                self.count_second(at);
            }
        }
    }

    fn count_second(&mut self, at: Nanos) {
        self.span = Some((self.span.map_or(at, |(first, _)| first), at));
        let second = at.0 / NANOS_PER_SECOND;
        let before = if self.second.0 == second { self.second.1 } else { 0 };
        self.second = (second, before + 1);
        self.peak_per_s = self.peak_per_s.max(self.second.1);
    }

    /// Returns the time from the first to the last release.
    pub fn length(&self) -> Option<Nanos> {
        self.span.and_then(|(first, last)| last.since(first))
    }

    /// Returns the mean rate, in requests per second.
    pub fn rate_per_s(&self) -> Option<f64> {
        let length = self.length().filter(|&length| length > Nanos::ZERO)?;
        Some(convert::float(self.requests.saturating_sub(1)) / length.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(offsets_ms: &[u64]) -> PlanSummary {
        let mut summary = PlanSummary::default();
        for &at in offsets_ms {
            summary.requests += 1;
            summary.count_second(Nanos::from_millis(at));
        }
        summary
    }

    #[test]
    fn rates_at_the_edges() {
        assert_eq!((of(&[]).rate_per_s(), of(&[]).length(), of(&[]).peak_per_s), (None, None, 0));
        assert_eq!((of(&[5]).rate_per_s(), of(&[5]).peak_per_s), (None, 1));
        assert_eq!((of(&[5, 5]).rate_per_s(), of(&[5, 5]).peak_per_s), (None, 2));
        let plan = of(&[0, 100, 999, 1_000, 1_500, 4_000]);
        assert_eq!((plan.rate_per_s(), plan.peak_per_s), (Some(1.25), 3));
    }
}
