//! Percentiles by linear interpolation of order statistics.
//!
//! This is the default of `numpy.percentile`, so a notebook agrees to the digit:
//! with `n` sorted values, the rank of quantile `q` is `q * (n - 1)`.

use super::convert;

/// Where a quantile lies between two order statistics.
#[derive(Clone, Copy, Debug)]
struct Place {
    below: usize,
    above: usize,
    share: f64,
}

/// Returns the place of quantile `q` among `n` sorted values; `None` when there are none.
fn place(n: usize, q: f64) -> Option<Place> {
    let last = n.checked_sub(1)?;
    let rank = q.clamp(0.0, 1.0) * convert::float_count(last);
    let below = convert::index(convert::round_to_u64(rank.floor()))?.min(last);
    Some(Place { below, above: (below + 1).min(last), share: rank - rank.floor() })
}

/// Returns the quantile `q` (0 to 1) of values sorted in ascending order.
///
/// Returns `None` for an empty slice, and the single value for a slice of one.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let Place { below, above, share } = place(sorted.len(), q)?;
    let (low, high) = (*sorted.get(below)?, *sorted.get(above)?);
    Some(low + (high - low) * share)
}

/// Returns the quantile `q` of whole numbers sorted in ascending order, such as nanoseconds.
///
/// Equal to [`quantile`] of the same numbers as floats, without the copy.
pub fn quantile_of_integers(sorted: &[u64], q: f64) -> Option<f64> {
    let Place { below, above, share } = place(sorted.len(), q)?;
    let (low, high) = (convert::float(*sorted.get(below)?), convert::float(*sorted.get(above)?));
    Some(low + (high - low) * share)
}

/// Returns the quantile `q` where `failed` further values sort after every sample (as if endless).
///
/// Returns `None` when there is nothing at all, and when the quantile falls among the failures or
/// between a sample and a failure: such a percentile has no finite value.
pub fn quantile_failures_last(sorted: &[u64], failed: usize, q: f64) -> Option<f64> {
    let Place { below, above, share } = place(sorted.len().checked_add(failed)?, q)?;
    let low = convert::float(*sorted.get(below)?);
    if share > 0.0 {
        let high = convert::float(*sorted.get(above)?);
        return Some(low + (high - low) * share);
    }
    Some(low)
}

/// Returns the samples that quantile `q` needs before its 95 % interval has an upper end.
///
/// The interval from order statistics ends at a sample only if the largest sample is above the
/// quantile with probability 0.975: `1 - q^n >= 0.975`. That is 6 samples for the median, 36 for
/// p90, 72 for p95, 368 for p99. `None` for a `q` outside (0, 1).
pub fn samples_for_bounded_interval(q: f64) -> Option<u64> {
    let inside = q > 0.0 && q < 1.0;
    inside.then(|| convert::round_to_u64((0.025_f64.ln() / q.ln()).ceil()))
}

/// Sorts `values` in ascending order; NaN sorts last.
pub fn sort(values: &mut [f64]) {
    values.sort_unstable_by(f64::total_cmp);
}

/// Returns the quantile `q` of a list of (value, count) pairs sorted by value.
///
/// Equal to [`quantile`] on the expanded list. Returns `None` when the counts sum to zero.
pub fn quantile_of_counts(pairs: &[(u32, u64)], q: f64) -> Option<f64> {
    let total: u64 = pairs.iter().map(|&(_, count)| count).sum();
    let last = total.checked_sub(1)?;
    let rank = q.clamp(0.0, 1.0) * convert::float(last);
    let below = convert::round_to_u64(rank.floor()).min(last);
    let share = rank - rank.floor();
    let low = value_at(pairs, below)?;
    let high = value_at(pairs, (below + 1).min(last))?;
    Some(low + (high - low) * share)
}

/// Returns the value with 0-based rank `rank` in the expanded list.
fn value_at(pairs: &[(u32, u64)], rank: u64) -> Option<f64> {
    let mut seen = 0;
    for &(value, count) in pairs {
        seen += count;
        if rank < seen {
            return Some(f64::from(value));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.99), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.5));
        assert_eq!(quantile_of_counts(&[], 0.5), None);
        assert_eq!(quantile_of_counts(&[(4, 0)], 0.5), None);
    }

    #[test]
    fn failures_sort_last() {
        let sorted = [10, 20, 30];
        assert_eq!(quantile_failures_last(&sorted, 0, 1.0), Some(30.0));
        assert_eq!(quantile_failures_last(&sorted, 2, 0.5), Some(30.0), "exactly the last sample");
        assert_eq!(quantile_failures_last(&sorted, 2, 0.6), None, "between sample and failure");
        assert_eq!(quantile_failures_last(&sorted, 2, 1.0), None);
        assert_eq!(quantile_failures_last(&[], 4, 0.0), None);
        assert_eq!(quantile_failures_last(&[], 0, 0.5), None);
    }

    #[test]
    fn samples_for_an_interval_with_an_upper_end() {
        let want = [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3_688)];
        for (q, n) in want {
            assert_eq!(samples_for_bounded_interval(q), Some(n), "q {q}");
        }
        assert_eq!(samples_for_bounded_interval(1.0), None);
        assert_eq!(samples_for_bounded_interval(f64::NAN), None);
    }

    #[test]
    fn agrees_with_numpy() {
        // numpy.percentile([1, 2, 3, 4, 10], [0, 10, 50, 90, 100]) = [1, 1.4, 3, 7.6, 10]
        let values = [1.0, 2.0, 3.0, 4.0, 10.0];
        let expected = [(0.0, 1.0), (0.1, 1.4), (0.5, 3.0), (0.9, 7.6), (1.0, 10.0)];
        for (q, want) in expected {
            let got = quantile(&values, q).unwrap();
            assert!((got - want).abs() < 1e-12, "q {q}: {got} instead of {want}");
        }
    }

    proptest::proptest! {
        #[test]
        fn counts_equal_the_expanded_list(
            mut values in proptest::collection::vec(0u32..50, 1..200), q in 0.0f64..=1.0,
        ) {
            values.sort_unstable();
            let mut pairs: Vec<(u32, u64)> = Vec::new();
            for &value in &values {
                match pairs.last_mut() {
                    Some((last, count)) if *last == value => *count += 1,
                    _ => pairs.push((value, 1)),
                }
            }
            let expanded: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
            let direct = quantile(&expanded, q).unwrap();
            proptest::prop_assert_eq!(quantile_of_counts(&pairs, q), Some(direct));
            proptest::prop_assert!(expanded[0] <= direct && direct <= expanded[expanded.len() - 1]);
        }

        #[test]
        fn integers_equal_floats(
            mut values in proptest::collection::vec(0u64..1_000_000_000, 0..50), q in 0.0f64..=1.0,
        ) {
            values.sort_unstable();
            let floats: Vec<f64> = values.iter().map(|&v| convert::float(v)).collect();
            proptest::prop_assert_eq!(quantile_of_integers(&values, q), quantile(&floats, q));
            proptest::prop_assert_eq!(
                quantile_failures_last(&values, 0, q), quantile(&floats, q)
            );
        }
    }
}
