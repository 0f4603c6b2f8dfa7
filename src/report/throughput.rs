//! Rates: what was planned, what left, what came back, and the peaks.
//!
//! Instants and token counts in, rates per second out. The span is from the first send to the last
//! end of any sent request; only succeeded requests count as served. A rate over an empty or
//! zero-length span is `None`. Peaks are counted at the actual send, in windows that begin anywhere.

use super::windows;
use crate::domain::convert;
use crate::domain::limits;
use crate::domain::outcome::RequestOutcome;
use crate::domain::time::Nanos;
use serde::{Deserialize, Serialize};

/// Rates and peaks of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// First send to last end, in seconds.
    pub span_s: Option<f64>,
    /// Succeeded requests per second of the span.
    pub requests_per_s: Option<f64>,
    /// Output tokens of succeeded requests per second of the span.
    pub output_tokens_per_s: Option<f64>,
    /// Input and output tokens of succeeded requests per second of the span; `None` unless both
    /// are known.
    pub total_tokens_per_s: Option<f64>,
    /// Succeeded requests without an output count, which the token rates leave out.
    pub without_output_tokens: u64,
    /// The rate of the due requests over their scheduled instants: `(n - 1) / (last - first)`.
    pub offered_requests_per_s: Option<f64>,
    /// The rate of the same kind over the actual sends.
    pub achieved_requests_per_s: Option<f64>,
    /// Most sends in any 100 ms.
    pub peak_sends_100ms: Option<u64>,
    /// Most sends in any second.
    pub peak_sends_1s: Option<u64>,
    /// Most requests due in any 100 ms.
    pub peak_due_100ms: Option<u64>,
    /// Most requests due in any second.
    pub peak_due_1s: Option<u64>,
    /// Most requests between their send and their end at one time.
    pub peak_in_flight: Option<u64>,
}

/// Folds sends and tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    sends: Vec<u64>,
    in_flight: Vec<(u64, u64)>,
    succeeded: u64,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    without_output_tokens: u64,
}

impl Flow {
    /// Takes a tried request.
    pub(super) fn add_tried(&mut self, outcome: &RequestOutcome) {
        let at = &outcome.at;
        self.sends.extend(at.sent.map(|sent| sent.0));
        if let (Some(sent), Some(closed)) = (at.sent, at.closed) {
            self.in_flight.push((sent.0, closed.0));
        }
        if !outcome.succeeded() {
            return;
        }
        self.succeeded += 1;
        let add = |sum: Option<u64>, tokens: Option<u32>| match tokens {
            Some(tokens) => Some(sum.unwrap_or(0) + u64::from(tokens)),
            None => sum,
        };
        self.input_tokens = add(self.input_tokens, outcome.input_tokens);
        self.output_tokens = add(self.output_tokens, outcome.output_tokens);
        self.without_output_tokens += u64::from(outcome.output_tokens.is_none());
    }

    /// Returns the rates; `due` holds the scheduled instants that were due while the run lasted.
    pub(super) fn finish(mut self, mut due: Vec<u64>) -> Throughput {
        let first_send = self.sends.iter().min().copied();
        let last_end = self.in_flight.iter().map(|interval| interval.1).max();
        let span_s = first_send
            .zip(last_end)
            .and_then(|(first, last)| Nanos(last).since(Nanos(first)))
            .filter(|span| *span > Nanos::ZERO)
            .map(Nanos::as_secs_f64);
        let per_second = |count: u64| span_s.map(|span| convert::float(count) / span);
        let served = self.succeeded > 0;
        let total_tokens = self.input_tokens.zip(self.output_tokens).map(|(i, o)| i + o);
        let [short, long] = limits::PEAK_WINDOWS;
        Throughput {
            span_s,
            requests_per_s: per_second(self.succeeded).filter(|_| served),
            output_tokens_per_s: self.output_tokens.and_then(per_second),
            total_tokens_per_s: total_tokens.and_then(per_second),
            without_output_tokens: self.without_output_tokens,
            offered_requests_per_s: rate(&due),
            achieved_requests_per_s: rate(&self.sends),
            peak_sends_100ms: windows::busiest(&mut self.sends, short),
            peak_sends_1s: windows::busiest(&mut self.sends, long),
            peak_due_100ms: windows::busiest(&mut due, short),
            peak_due_1s: windows::busiest(&mut due, long),
            peak_in_flight: (!self.in_flight.is_empty())
                .then(|| windows::most_at_once(&self.in_flight)),
        }
    }
}

/// Returns the rate of instants: gaps over the time they take; `None` below two, or in no time.
fn rate(instants: &[u64]) -> Option<f64> {
    let (first, last) = (instants.iter().min()?, instants.iter().max()?);
    let span_s = Nanos(last - first).as_secs_f64();
    (span_s > 0.0).then(|| convert::float_count(instants.len() - 1) / span_s)
}

#[cfg(test)]
mod tests {
    use super::super::example::{failed, ok};
    use super::*;
    use crate::domain::outcome::Failure;

    #[test]
    fn nothing_has_no_rate() {
        assert_eq!(Flow::default().finish(Vec::new()), Throughput::default());
    }

    #[test]
    fn failures_stretch_the_span_but_serve_nothing() {
        let mut flow = Flow::default();
        (0..10).for_each(|i| flow.add_tried(&ok(i)));
        flow.add_tried(&failed(10, Failure::Truncated));
        let due = (0..11).map(|i| i * 100_000_000).collect();
        let result = flow.finish(due);
        // Sends at 0, 0.1 … 1.0 s; the last end is that of the failed one, 200 ms after its send.
        assert_eq!(result.span_s, Some(1.2));
        assert_eq!(result.requests_per_s, Some(10.0 / 1.2));
        assert_eq!(result.output_tokens_per_s, Some(100.0 / 1.2));
        assert_eq!(result.achieved_requests_per_s, Some(10.0));
        assert_eq!((result.peak_sends_100ms, result.peak_sends_1s), (Some(1), Some(10)));
        assert_eq!(result.peak_in_flight, Some(2));
    }

    #[test]
    fn all_failed_has_no_rate_of_service() {
        let mut flow = Flow::default();
        (0..3).for_each(|i| flow.add_tried(&failed(i, Failure::Http5xx)));
        let result = flow.finish(Vec::new());
        assert_eq!((result.requests_per_s, result.output_tokens_per_s), (None, None));
        assert!(result.achieved_requests_per_s.is_some());
    }
}
