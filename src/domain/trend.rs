//! A test for a steady rise or fall: Mann and Kendall's.
//!
//! Values in time order in, a standard normal score out: positive for a rise. It looks at the sign
//! of every pair's difference, so one outlier weighs as one value. Takes n²/2 comparisons: callers
//! bound n. Source: Mann 1945, Kendall 1975, variance with the correction for ties.

use super::convert;

/// Returns the Mann-Kendall score of `values`; `None` below ten values, 0 when all are equal.
///
/// Ten is the usual least number for the normal form of the statistic.
pub fn mann_kendall(values: &[f64]) -> Option<f64> {
    if values.len() < 10 {
        return None;
    }
    let mut rises = 0_i64;
    for (index, earlier) in values.iter().enumerate() {
        for later in values.iter().skip(index + 1) {
            rises += match later.total_cmp(earlier) {
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Less => -1,
            };
        }
    }
    let spread = (pairs_term(values.len()) - tie_term(values)) / 18.0;
    if spread <= 0.0 {
        return Some(0.0);
    }
    Some(convert::float_signed(rises - rises.signum()) / spread.sqrt())
}

/// Returns `n (n - 1) (2 n + 5)`.
fn pairs_term(n: usize) -> f64 {
    let n = convert::float_count(n);
    n * (n - 1.0) * (2.0 * n + 5.0)
}

/// Returns the sum of [`pairs_term`] over the groups of equal values.
fn tie_term(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    super::percentiles::sort(&mut sorted);
    sorted.chunk_by(|a, b| a.total_cmp(b).is_eq()).map(|group| pairs_term(group.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges() {
        assert_eq!(mann_kendall(&[1.0; 9]), None);
        assert_eq!(mann_kendall(&[1.0; 10]), Some(0.0));
    }

    #[test]
    fn a_rise_is_positive_and_its_mirror_negative() {
        // n = 10 rising: S = 45, Var = 10*9*25/18 = 125, z = 44 / sqrt(125) = 3.9354796
        let rising: Vec<f64> = (0..10).map(f64::from).collect();
        let z = mann_kendall(&rising).unwrap();
        assert!((z - 3.935_479_6).abs() < 1e-6, "{z}");
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert!((mann_kendall(&falling).unwrap() + z).abs() < 1e-12);
    }

    #[test]
    fn a_wave_is_no_trend() {
        let wave: Vec<f64> = (0..100).map(|i| f64::from(i % 10)).collect();
        assert!(mann_kendall(&wave).unwrap().abs() < 3.29);
    }
}
