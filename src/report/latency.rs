//! Latency of the succeeded requests, pooled and by kind, with exact percentiles.
//!
//! Outcomes in, milliseconds out. Every sample is kept (8 bytes each; one a gap for chunk gaps), so
//! percentiles are those of the samples and not of a histogram's cells. Failed requests have no
//! latency; the *error-adjusted* percentiles let them sort after every sample instead.

use crate::domain::convert;
use crate::domain::metric::{self, Latency};
use crate::domain::outcome::RequestOutcome;
use crate::domain::percentiles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Nanoseconds in a millisecond.
const NANOS_PER_MILLI: f64 = 1e6;

/// A distribution of times in milliseconds. With `n` = 0 everything else is `None`, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Samples.
    pub n: u64,
    /// The smallest.
    pub min_ms: Option<f64>,
    /// The arithmetic mean.
    pub mean_ms: Option<f64>,
    /// The median.
    pub p50_ms: Option<f64>,
    /// The 90th percentile.
    pub p90_ms: Option<f64>,
    /// The 95th percentile.
    pub p95_ms: Option<f64>,
    /// The 99th percentile.
    pub p99_ms: Option<f64>,
    /// The 99.9th percentile.
    pub p99_9_ms: Option<f64>,
    /// The largest.
    pub max_ms: Option<f64>,
}

impl Distribution {
    /// Returns the distribution of `samples` in nanoseconds, which it sorts.
    pub(super) fn of_nanos(samples: &mut [u64]) -> Self {
        samples.sort_unstable();
        let at = |q| percentiles::quantile_of_integers(samples, q).map(|ns| ns / NANOS_PER_MILLI);
        Self {
            n: convert::count(samples.len()),
            min_ms: at(0.0),
            mean_ms: mean_ms(samples),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p99_9_ms: at(0.999),
            max_ms: at(1.0),
        }
    }
}

/// Returns the mean of nanoseconds, in milliseconds. The sum saturates at 584 years.
fn mean_ms(samples: &[u64]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let sum = samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(*sample));
    Some(convert::float(sum) / convert::float_count(samples.len()) / NANOS_PER_MILLI)
}

/// Percentiles in milliseconds where failed requests sort after every sample.
///
/// A percentile is `None` when it falls among the failures: more requests failed than it leaves
/// room for, so it has no finite value. (It is also `None` when `n` is 0.)
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorAdjusted {
    /// Samples and failed requests together.
    pub n: u64,
    /// The failed requests among them.
    pub failed: u64,
    /// The median.
    pub p50_ms: Option<f64>,
    /// The 90th percentile.
    pub p90_ms: Option<f64>,
    /// The 95th percentile.
    pub p95_ms: Option<f64>,
    /// The 99th percentile.
    pub p99_ms: Option<f64>,
}

impl ErrorAdjusted {
    /// Returns the percentiles of samples sorted in ascending order and `failed` failures.
    fn of_sorted(samples: &[u64], failed: u64) -> Self {
        let failures = convert::index(failed).unwrap_or(usize::MAX);
        let at = |q| {
            percentiles::quantile_failures_last(samples, failures, q).map(|ns| ns / NANOS_PER_MILLI)
        };
        Self {
            n: convert::count(samples.len()) + failed,
            failed,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
        }
    }
}

/// The latencies that have an error-adjusted form.
pub const ADJUSTED: [Latency; 4] = [
    Latency::TtftFromActual,
    Latency::TtftFromIntended,
    Latency::E2eFromActual,
    Latency::E2eFromIntended,
];

/// The latency of one group of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupLatency {
    /// `all`, a kind of request, or `long_context`.
    pub group: String,
    /// Complete answers.
    pub succeeded: u64,
    /// Failed requests.
    pub failed: u64,
    /// Of the succeeded requests alone; every latency is present, in one order.
    pub success_only: BTreeMap<Latency, Distribution>,
    /// With failures sorted last; the latencies of [`ADJUSTED`].
    pub error_adjusted: BTreeMap<Latency, ErrorAdjusted>,
}

impl GroupLatency {
    /// Returns the distribution of `latency` among the succeeded requests.
    pub fn of(&self, latency: Latency) -> Option<&Distribution> {
        self.success_only.get(&latency)
    }
}

/// The samples of one group while folding.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    succeeded: u64,
    failed: u64,
    nanos: BTreeMap<Latency, Vec<u64>>,
}

impl Samples {
    /// Takes the samples of a succeeded request.
    pub(super) fn add_success(&mut self, outcome: &RequestOutcome) {
        self.succeeded += 1;
        for &latency in Latency::ALL {
            if let Some(sample) = latency.of(outcome) {
                self.nanos.entry(latency).or_default().push(sample.0);
            }
        }
        let gaps = metric::chunk_gaps(&outcome.chunks).map(|gap| gap.0);
        self.nanos.entry(Latency::ChunkGap).or_default().extend(gaps);
    }

    /// Counts a failed request, which has no samples.
    pub(super) const fn add_failure(&mut self) {
        self.failed += 1;
    }

    /// Adds the samples of `other`; order does not matter.
    pub(super) fn merge(&mut self, other: &Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        for (latency, samples) in &other.nanos {
            self.nanos.entry(*latency).or_default().extend_from_slice(samples);
        }
    }

    /// Returns the group's numbers.
    pub(super) fn finish(mut self, group: &str) -> GroupLatency {
        let mut success_only = BTreeMap::new();
        let mut error_adjusted = BTreeMap::new();
        for &latency in Latency::ALL {
            let mut samples = self.nanos.remove(&latency).unwrap_or_default();
            success_only.insert(latency, Distribution::of_nanos(&mut samples));
            if ADJUSTED.contains(&latency) {
                error_adjusted.insert(latency, ErrorAdjusted::of_sorted(&samples, self.failed));
            }
        }
        GroupLatency {
            group: group.to_owned(),
            succeeded: self.succeeded,
            failed: self.failed,
            success_only,
            error_adjusted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::ok;
    use super::*;
    use crate::domain::time::Nanos;

    fn group(outcomes: &[RequestOutcome], failed: u64) -> GroupLatency {
        let mut samples = Samples::default();
        for outcome in outcomes {
            samples.add_success(outcome);
        }
        (0..failed).for_each(|_| samples.add_failure());
        samples.finish("all")
    }

    #[test]
    fn nothing_is_null_and_not_zero() {
        let empty = group(&[], 3);
        assert_eq!(empty.success_only.len(), Latency::ALL.len());
        for distribution in empty.success_only.values() {
            assert_eq!(*distribution, Distribution::default());
        }
        let adjusted = &empty.error_adjusted[&Latency::TtftFromActual];
        assert_eq!((adjusted.n, adjusted.failed, adjusted.p50_ms), (3, 3, None));
    }

    #[test]
    fn one_success_is_every_percentile() {
        let one = group(&[ok(0)], 0);
        let ttft = one.of(Latency::TtftFromActual).unwrap();
        assert_eq!((ttft.n, ttft.p50_ms, ttft.p99_9_ms), (1, Some(100.0), Some(100.0)));
        assert_eq!(
            (ttft.min_ms, ttft.mean_ms, ttft.max_ms),
            (Some(100.0), Some(100.0), Some(100.0))
        );
    }

    #[test]
    fn intended_and_actual_differ_by_the_schedule_delay() {
        let mut late = ok(1);
        late.at.scheduled = late.at.sent.map(|sent| Nanos(sent.0 - 7_000_000));
        let one = group(&[late], 0);
        let value = |latency| one.of(latency).unwrap().p50_ms;
        assert_eq!(value(Latency::TtftFromActual), Some(100.0));
        assert_eq!(value(Latency::TtftFromIntended), Some(107.0));
        assert_eq!(value(Latency::E2eFromActual), Some(200.0));
        assert_eq!(value(Latency::E2eFromIntended), Some(207.0));
    }

    #[test]
    fn a_stall_in_one_stream_shows_in_the_pooled_gaps() {
        let mut outcomes: Vec<RequestOutcome> = (0..100).map(ok).collect();
        for chunk in outcomes[50].chunks.iter_mut().skip(5) {
            chunk.0 += 2_000_000_000;
        }
        let all = group(&outcomes, 0);
        let gaps = all.of(Latency::ChunkGap).unwrap();
        assert_eq!((gaps.n, gaps.p50_ms, gaps.max_ms), (900, Some(10.0), Some(2_010.0)));
        // One of 900 gaps: rank 0.999 x 899 = 898.101 lies between the last two.
        assert!(gaps.p99_9_ms.unwrap() > 200.0, "{gaps:?}");
        let means = all.of(Latency::MeanChunkGap).unwrap();
        assert!(means.max_ms.unwrap() < 300.0, "the mean gap hides the stall: {means:?}");
    }

    #[test]
    fn failures_sort_last() {
        let outcomes: Vec<RequestOutcome> = (0..90).map(ok).collect();
        let all = group(&outcomes, 10);
        let adjusted = &all.error_adjusted[&Latency::E2eFromActual];
        assert_eq!((adjusted.n, adjusted.failed), (100, 10));
        assert_eq!(adjusted.p50_ms, all.of(Latency::E2eFromActual).unwrap().p50_ms);
        // Rank 0.9 x 99 = 89.1 lies between the last sample and the first failure.
        assert_eq!((adjusted.p90_ms, adjusted.p99_ms), (None, None));
    }

    proptest::proptest! {
        #[test]
        fn percentiles_lie_between_min_and_max(
            mut samples in proptest::collection::vec(0u64..10_000_000_000, 1..300),
        ) {
            let d = Distribution::of_nanos(&mut samples);
            let steps = [d.min_ms, d.p50_ms, d.p90_ms, d.p95_ms, d.p99_ms, d.p99_9_ms, d.max_ms];
            proptest::prop_assert!(steps.iter().all(Option::is_some));
            proptest::prop_assert!(steps.is_sorted(), "{:?}", steps);
            proptest::prop_assert!(d.min_ms <= d.mean_ms && d.mean_ms <= d.max_ms);
        }

        #[test]
        fn the_split_into_groups_does_not_matter(cut in 0usize..20) {
            let outcomes: Vec<RequestOutcome> = (0..20).map(ok).collect();
            let (mut left, mut right) = (Samples::default(), Samples::default());
            outcomes[..cut].iter().for_each(|outcome| left.add_success(outcome));
            outcomes[cut..].iter().for_each(|outcome| right.add_success(outcome));
            right.merge(&left);
            proptest::prop_assert_eq!(right.finish("all"), group(&outcomes, 0));
        }
    }
}
