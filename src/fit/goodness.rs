//! How well a law describes the lengths of a trace: distances, the noise floor, and a plain word.
//!
//! Lengths (tokens) as (length, count) pairs and a law go in; D, W1 over the mean and a verdict
//! come out. With right-censored lengths the data side is the product-limit estimate (Kaplan and
//! Meier 1958), of which the plain empirical distribution is the case without censoring. There
//! are no p-values here: after estimating parameters the textbook ones are wrong, and at large n
//! every law is "significantly" false. The word comes from effect sizes (`docs/fidelity.md`).

use super::counts;
use super::law::Law;
use crate::domain::convert;
use crate::domain::percentiles;
use crate::domain::workload::{Family, Quantiles, Verdict};

/// Below this many exact lengths no word is given: sampling alone gives a D near 0.09 there.
pub(super) const MIN_VALUES: u64 = 100;
/// Largest D and W1/mean of the word "close".
const CLOSE: Distance = Distance { d: 0.03, w1_over_mean: 0.03 };
/// Largest D and W1/mean of the word "rough".
const ROUGH: Distance = Distance { d: 0.08, w1_over_mean: 0.10 };
/// A law may differ from the trace by this many times what the trace differs from itself.
const FLOOR_FACTOR: f64 = 1.5;
/// W1 is summed token by token up to here, above in steps of 1/4096 of the length.
const STEP_BY_ONE_BELOW: u64 = 131_072;
/// W1 is summed up to this many times the largest length.
const W1_REACH: u64 = 6;

/// Two distances between distributions of lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Distance {
    /// Largest difference of the distribution functions.
    pub(super) d: f64,
    /// Area between the distribution functions, in tokens, over the mean length.
    pub(super) w1_over_mean: f64,
}

impl Distance {
    /// Returns whether both distances are at most `factor` times those of `limit`.
    fn within(self, limit: Self, factor: f64) -> bool {
        self.d <= factor * limit.d && self.w1_over_mean <= factor * limit.w1_over_mean
    }
}

/// The distribution function of the data: a step at every length that occurred.
#[derive(Clone, Debug)]
pub(super) struct Empirical {
    /// (length, share at or below it), ascending.
    steps: Vec<(u32, f64)>,
    /// Area under the survival function up to the largest length; the mean without censoring.
    mean: f64,
    /// Whether the last step reaches 1; not so when the longest lengths are censored.
    complete: bool,
}

impl Empirical {
    /// Returns the distribution of exact and right-censored (length, count) pairs; `None` when
    /// there is no exact length.
    pub(super) fn new(exact: &[(u32, u64)], censored: &[(u32, u64)]) -> Option<Self> {
        if exact.is_empty() {
            return None;
        }
        let steps =
            if censored.is_empty() { cumulate(exact) } else { product_limit(exact, censored) };
        let complete = steps.last().is_some_and(|&(_, share)| share >= 1.0);
        let mut mean = 0.0;
        let (mut from, mut level) = (0, 0.0);
        for &(length, share) in &steps {
            mean += f64::from(length - from) * (1.0 - level);
            (from, level) = (length, share);
        }
        Some(Self { steps, mean, complete })
    }

    /// Returns both distances to a law of whole tokens, X = ceil(Y).
    pub(super) fn against_whole(&self, law: Law) -> Distance {
        let (mut d, mut before) = (0.0_f64, 0.0);
        for &(length, share) in &self.steps {
            // On integers the step at `length` is first seen at `length`; one token earlier the
            // data are still at `before`.
            d = d.max((law.cdf(f64::from(length) - 1.0) - before).abs());
            d = d.max((law.cdf(f64::from(length)) - share).abs());
            before = share;
        }
        Distance { d, w1_over_mean: self.area(law, 0.0) / self.mean }
    }

    /// Returns both distances to a continuous law; D is the exact supremum with ties.
    pub(super) fn against_continuous(&self, law: Law) -> Distance {
        let (mut d, mut before) = (0.0_f64, 0.0);
        for &(length, share) in &self.steps {
            let cdf = law.cdf(f64::from(length));
            d = d.max((cdf - before).abs()).max((cdf - share).abs());
            before = share;
        }
        // The integral over one token is taken at its middle.
        Distance { d, w1_over_mean: self.area(law, 0.5) / self.mean }
    }

    /// Returns the sum over k = 0, 1, 2, … of `|F_n(k) − F(k + shift)|`.
    fn area(&self, law: Law, shift: f64) -> f64 {
        let largest = self.steps.last().map_or(0, |&(length, _)| u64::from(length));
        // Beyond the largest censored length nothing is known of the data.
        let reach = if self.complete { largest * W1_REACH } else { largest };
        let (mut area, mut from, mut level) = (0.0, 0, 0.0);
        let end = (reach, 1.0);
        let steps = self.steps.iter().map(|&(length, share)| (u64::from(length), share));
        for (to, next_level) in steps.chain([end]) {
            while from < to {
                let width = if from < STEP_BY_ONE_BELOW { 1 } else { from >> 12 }.min(to - from);
                let middle = convert::float(from) + convert::float(width - 1) / 2.0 + shift;
                area += convert::float(width) * (level - law.cdf(middle)).abs();
                from += width;
            }
            level = next_level;
        }
        area
    }

    /// Returns the smallest lengths that at least a share of 0.5, 0.9, 0.99 does not exceed;
    /// `None` where censoring hides them.
    pub(super) fn quantiles(&self) -> Quantiles {
        let at = |q: f64| {
            let step = self.steps.iter().find(|&&(_, share)| share >= q);
            step.map(|&(length, _)| f64::from(length))
        };
        Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }
}

/// Returns the running share of counts.
fn cumulate(pairs: &[(u32, u64)]) -> Vec<(u32, f64)> {
    let total = convert::float(counts::total(pairs));
    let mut seen = 0;
    let share = |&(length, count): &(u32, u64)| {
        seen += count;
        (length, convert::float(seen) / total)
    };
    pairs.iter().map(share).collect()
}

/// Returns the product-limit estimate. A length censored at m is longer than m, so it is still
/// at risk at m.
fn product_limit(exact: &[(u32, u64)], censored: &[(u32, u64)]) -> Vec<(u32, f64)> {
    let mut at_risk = counts::total(exact) + counts::total(censored);
    let mut survival = 1.0;
    let mut cut = censored.iter().peekable();
    let mut steps = Vec::with_capacity(exact.len() + 1);
    for &(length, count) in exact {
        while let Some(&(_, left)) = cut.next_if(|&&(m, _)| m < length) {
            at_risk -= left;
        }
        survival *= convert::float(at_risk - count) / convert::float(at_risk);
        at_risk -= count;
        steps.push((length, 1.0 - survival));
    }
    // The data reach to the largest censored length, without a step there.
    if let Some(&(length, _)) = cut.last() {
        let last_exact = exact.last().map_or(0, |&(last, _)| last);
        if length > last_exact {
            steps.push((length, 1.0 - survival));
        }
    }
    steps
}

/// Returns the distances between two halves of the same trace; `None` when a half is too small.
pub(super) fn floor_between(a: &[(u32, u64)], b: &[(u32, u64)]) -> Option<Distance> {
    let (in_a, in_b) = (counts::total(a), counts::total(b));
    if in_a < MIN_VALUES || in_b < MIN_VALUES {
        return None;
    }
    let sum = counts::sum(a) + counts::sum(b);
    let mean = convert::float_wide(sum) / convert::float(in_a + in_b);
    let (left, right) = (cumulate(a), cumulate(b));
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let (mut share_a, mut share_b) = (0.0, 0.0);
    let (mut d, mut area, mut from) = (0.0_f64, 0.0, 0);
    loop {
        let next = [left.peek(), right.peek()].into_iter().flatten().map(|&&(at, _)| at).min();
        let Some(at) = next else { break };
        area += f64::from(at - from) * f64::abs(share_a - share_b);
        if let Some(&(_, share)) = left.next_if(|&&(length, _)| length == at) {
            share_a = share;
        }
        if let Some(&(_, share)) = right.next_if(|&&(length, _)| length == at) {
            share_b = share;
        }
        d = d.max(f64::abs(share_a - share_b));
        from = at;
    }
    Some(Distance { d, w1_over_mean: area / mean })
}

/// Returns the word for a distance; `values` counts the exact lengths.
///
/// The noise of the trace makes a fit *indistinguishable* only when the fit is close besides, or
/// its D is what samples of this size do anyway: bursts make a floor so high that it would excuse
/// shapes anybody can see to be different.
pub(super) fn verdict(
    family: Family,
    values: u64,
    found: Distance,
    floor: Option<Distance>,
) -> Verdict {
    let is_close = found.within(CLOSE, 1.0);
    let small = is_close || found.d <= sampling_d(family, values);
    if values < MIN_VALUES {
        Verdict::TooFew
    } else if !found.within(ROUGH, 1.0) {
        Verdict::DoesNotFit
    } else if small && floor.is_some_and(|floor| found.within(floor, FLOOR_FACTOR)) {
        Verdict::Indistinguishable
    } else if is_close {
        Verdict::Close
    } else {
        Verdict::Rough
    }
}

/// Returns the D that a correct law of this family exceeds in 5 % of samples of `values`.
///
/// Points of √n·D with estimated parameters, by simulation: 0.897 and 1.114.
pub(super) fn sampling_d(family: Family, values: u64) -> f64 {
    let point = match family {
        Family::Lognormal => 0.897,
        Family::Exponential => 1.114,
    };
    point / convert::float(values).sqrt()
}

/// Returns the quantiles of logged lengths in numpy's linear form.
pub(super) fn logged_quantiles(pairs: &[(u32, u64)]) -> Quantiles {
    let at = |q| percentiles::quantile_of_counts(pairs, q);
    Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_on_paper() {
        // One request of 2 tokens against an exponential of mean m: D on integers is the larger
        // of F(1) and 1 − F(2); continuous, the larger of F(2) and 1 − F(2).
        let law = Law::Exponential { mean: 1.0 };
        let data = Empirical::new(&[(2, 1)], &[]).unwrap();
        let (f1, f2) = (1.0 - libm::exp(-1.0), 1.0 - libm::exp(-2.0));
        assert!((data.against_whole(law).d - f1).abs() < 1e-12);
        assert!((data.against_continuous(law).d - f2).abs() < 1e-12);
        // W1 on integers: F(1) + Σ_{k=2}^{11} e^-k, mean 2.
        let area: f64 = f1 + (2..12).map(|k| libm::exp(-f64::from(k))).sum::<f64>();
        assert!((data.against_whole(law).w1_over_mean - area / 2.0).abs() < 1e-12);
    }

    #[test]
    fn product_limit_on_paper() {
        // Lengths 1, 2+, 3, 3+ (+: longer than): S(1) = 3/4, S(3) = 3/4 · 1/2 = 3/8.
        let data = Empirical::new(&[(1, 1), (3, 1)], &[(2, 1), (3, 1)]).unwrap();
        assert_eq!(data.steps, [(1, 0.25), (3, 0.625)]);
        assert!(!data.complete);
        assert_eq!(data.quantiles(), Quantiles { p50: Some(3.0), p90: None, p99: None });
        // Area under S up to 3: 1 + 3/4 + 3/4.
        assert!((data.mean - 2.5).abs() < 1e-12);
        let beyond = Empirical::new(&[(1, 1)], &[(9, 1)]).unwrap();
        assert_eq!(beyond.steps, [(1, 0.5), (9, 0.5)]);
        assert!(Empirical::new(&[], &[(9, 1)]).is_none());
    }

    #[test]
    fn coarse_steps_change_the_area_little() {
        // A law and data far above the token-by-token range, against the integral of the
        // difference of two exponentials: W1 = difference of the means.
        let pairs: Vec<(u32, u64)> = (0..2_000)
            .map(|i| (libm::round(-2e6 * libm::log1p(-(f64::from(i) + 0.5) / 2e3)), 1u64))
            .map(|(length, count)| (convert::ceil_to_u32(length), count))
            .collect();
        let data = Empirical::new(&pairs, &[]).unwrap();
        let w1 = data.against_whole(Law::Exponential { mean: 3e6 }).w1_over_mean;
        assert!((w1 - 0.5).abs() < 0.003, "{w1}");
    }

    #[test]
    fn floor_between_halves() {
        let many = |length, count| vec![(length, count)];
        assert_eq!(floor_between(&many(5, 100), &many(5, 99)), None, "too few");
        let floor = floor_between(&many(10, 100), &many(30, 300)).unwrap();
        assert_eq!(floor, Distance { d: 1.0, w1_over_mean: 20.0 / 25.0 });
        let same = floor_between(&many(10, 100), &many(10, 300)).unwrap();
        assert_eq!(same, Distance { d: 0.0, w1_over_mean: 0.0 });
    }

    #[test]
    fn words_follow_effect_sizes() {
        let of = |n, found, floor| verdict(Family::Lognormal, n, found, floor);
        let word = |d, w1_over_mean, floor| of(10_000, Distance { d, w1_over_mean }, floor);
        assert_eq!(of(99, CLOSE, None), Verdict::TooFew);
        assert_eq!(word(0.03, 0.03, None), Verdict::Close);
        assert_eq!(word(0.03, 0.031, None), Verdict::Rough);
        assert_eq!(word(0.08, 0.10, None), Verdict::Rough);
        assert_eq!(word(0.081, 0.01, None), Verdict::DoesNotFit);
        let floor = Some(Distance { d: 0.2, w1_over_mean: 0.3 });
        assert_eq!(word(0.03, 0.03, floor), Verdict::Indistinguishable);
        let excuse = "a noisy trace excuses no bad fit";
        assert_eq!(word(0.07, 0.07, floor), Verdict::Rough, "{excuse}");
        assert_eq!(word(0.09, 0.07, floor), Verdict::DoesNotFit, "{excuse}");
        // √n·D = 0.85 is within the sampling noise of a lognormal (0.897).
        let sampled = Distance { d: 0.06, w1_over_mean: 0.07 };
        assert_eq!(of(200, sampled, floor), Verdict::Indistinguishable);
        let quiet = Some(Distance { d: 0.01, w1_over_mean: 0.01 });
        assert_eq!(word(0.02, 0.02, quiet), Verdict::Close);
    }
}
