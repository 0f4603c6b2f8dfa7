//! Percentiles by linear interpolation of order statistics.
//!
//! This is the default of `numpy.percentile`, so a notebook agrees to the digit:
//! with `n` sorted values, the rank of quantile `q` is `q * (n - 1)`.

use super::convert;

/// Returns the quantile `q` (0 to 1) of values sorted in ascending order.
///
/// Returns `None` for an empty slice, and the single value for a slice of one.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = q.clamp(0.0, 1.0) * convert::float_count(last);
    let below = convert::index(convert::round_to_u64(rank.floor()))?.min(last);
    let above = (below + 1).min(last);
    let share = rank - rank.floor();
    let (low, high) = (*sorted.get(below)?, *sorted.get(above)?);
    Some(low + (high - low) * share)
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
    }
}
