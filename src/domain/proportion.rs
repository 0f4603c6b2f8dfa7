//! The uncertainty of a share: Wilson's interval.
//!
//! `k` of `n` in, a lower and an upper bound of the underlying share out, at 95 %. Unlike the
//! normal interval it keeps a sensible upper bound when nothing was seen: 0 of n gives
//! `3.84 / (n + 3.84)`. Source: E. B. Wilson, 1927.

use super::convert;
use serde::{Deserialize, Serialize};

/// The two-sided 95 % point of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A share with its 95 % interval; all three between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proportion {
    /// `k / n`.
    pub share: f64,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
}

/// Returns the share `k / n` with Wilson's 95 % interval; `None` when `n` is 0 or `k > n`.
pub fn wilson(k: u64, n: u64) -> Option<Proportion> {
    if n == 0 || k > n {
        return None;
    }
    let (hits, total) = (convert::float(k), convert::float(n));
    let share = hits / total;
    let z2 = Z * Z;
    let centre = (hits + z2 / 2.0) / (total + z2);
    let half = Z / (total + z2) * (hits * (total - hits) / total + z2 / 4.0).sqrt();
    // The ends are exact at the borders; the clamp takes away the last rounding error.
    let lower = if k == 0 { 0.0 } else { (centre - half).clamp(0.0, share) };
    let upper = if k == n { 1.0 } else { (centre + half).clamp(share, 1.0) };
    Some(Proportion { share, lower, upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders() {
        assert_eq!(wilson(0, 0), None);
        assert_eq!(wilson(3, 2), None);
        let none = wilson(0, 100).unwrap();
        assert!((none.upper - 3.841_459 / 103.841_459).abs() < 1e-8);
        assert!(none.lower.abs() < f64::EPSILON);
        let all = wilson(100, 100).unwrap();
        assert!((all.upper - 1.0).abs() < f64::EPSILON);
        assert!((all.lower - 100.0 / 103.841_459).abs() < 1e-8);
    }

    #[test]
    fn agrees_with_the_closed_form() {
        // p = 0.1, n = 50, z = 1.96: (0.0434752, 0.2136022) by the formula worked by hand.
        let tenth = wilson(5, 50).unwrap();
        assert!((tenth.lower - 0.043_475).abs() < 1e-5, "{tenth:?}");
        assert!((tenth.upper - 0.213_602).abs() < 1e-5, "{tenth:?}");
    }
}
