//! The two classic families of lengths: distribution function, its complement, quantiles.
//!
//! A token count X is ceil(Y) of a continuous length Y > 0, so X has support 1, 2, 3, … and
//! P(X = k) = F(k) − F(k − 1). In the upper tail the probability is taken from the complement
//! S = 1 − F, because F(k) − F(k − 1) cancels there. `libm` computes erfc, ln and exp in software,
//! which keeps results from hanging on the system's mathematics library; equal bits are tested on
//! one platform only. Source: any textbook of survival
//! analysis; the trap of cancellation is shown in a test.

use crate::domain::convert;
use crate::domain::workload::{Family, Quantiles};
use std::f64::consts::SQRT_2;

/// A member of a family, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Law {
    /// ln Y is normal with mean `mu` and standard deviation `sigma` > 0.
    Lognormal { mu: f64, sigma: f64 },
    /// Y is exponential with this mean, in tokens, > 0.
    Exponential { mean: f64 },
}

/// Returns P(Z > z) of a standard normal Z.
pub(super) fn normal_sf(z: f64) -> f64 {
    0.5 * libm::erfc(z / SQRT_2)
}

/// Returns P(a < Z ≤ b) of a standard normal Z, from the tail where it does not cancel.
pub(super) fn normal_between(a: f64, b: f64) -> f64 {
    if a > 0.0 { normal_sf(a) - normal_sf(b) } else { normal_sf(-b) - normal_sf(-a) }
}

impl Law {
    /// Returns the family.
    pub(super) const fn family(self) -> Family {
        match self {
            Self::Lognormal { .. } => Family::Lognormal,
            Self::Exponential { .. } => Family::Exponential,
        }
    }

    /// Returns P(Y ≤ y).
    pub(super) fn cdf(self, y: f64) -> f64 {
        if y <= 0.0 {
            return 0.0;
        }
        match self {
            Self::Lognormal { mu, sigma } => normal_sf(-(libm::log(y) - mu) / sigma),
            Self::Exponential { mean } => -libm::expm1(-y / mean),
        }
    }

    /// Returns ln P(X = k) for a count of `k` ≥ 1 tokens; very small probabilities are held at
    /// 1e-300 so that the sum stays finite.
    pub(super) fn ln_probability(self, k: u32) -> f64 {
        let (below, at) = (f64::from(k) - 1.0, f64::from(k));
        match self {
            Self::Lognormal { mu, sigma } => {
                let z = |y: f64| (libm::log(y) - mu) / sigma;
                libm::log(normal_between(z(below), z(at)).max(1e-300))
            }
            // e^{-(k-1)/m} - e^{-k/m}, without the difference.
            Self::Exponential { mean } => -below / mean + libm::log(-libm::expm1(-1.0 / mean)),
        }
    }

    /// Returns ln P(X > k): what is known of a length cut at `k` tokens.
    pub(super) fn ln_survival(self, k: u32) -> f64 {
        match self {
            Self::Lognormal { mu, sigma } => {
                libm::log(normal_sf((libm::log(f64::from(k)) - mu) / sigma).max(1e-300))
            }
            Self::Exponential { mean } => -f64::from(k) / mean,
        }
    }

    /// Returns the length below which a share `q` (strictly between 0 and 1) of Y lies, in tokens.
    pub(super) fn quantile(self, q: f64) -> f64 {
        match self {
            Self::Lognormal { mu, sigma } => {
                // Φ⁻¹(q) = −√2 erfc⁻¹(2q)
                let z = -SQRT_2 * statrs::function::erf::erfc_inv(2.0 * q);
                libm::exp(mu + sigma * z)
            }
            Self::Exponential { mean } => -mean * libm::log1p(-q),
        }
    }

    /// Returns the quantiles of Y, or of X = ceil(Y) for `whole_tokens`.
    pub(super) fn quantiles(self, whole_tokens: bool) -> Quantiles {
        let at = |q: f64| {
            let y = self.quantile(q);
            Some(if whole_tokens { y.ceil() } else { y })
        };
        Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }

    /// Returns the log-likelihood of exact and right-censored (length, count) pairs of X.
    pub(super) fn log_likelihood(self, exact: &[(u32, u64)], censored: &[(u32, u64)]) -> f64 {
        let exact = exact.iter().map(|&(k, c)| convert::float(c) * self.ln_probability(k));
        let censored = censored.iter().map(|&(k, c)| convert::float(c) * self.ln_survival(k));
        exact.chain(censored).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGNORMAL: Law = Law::Lognormal { mu: 2.0, sigma: 0.7 };
    const EXPONENTIAL: Law = Law::Exponential { mean: 40.0 };

    #[test]
    fn known_values_of_the_normal() {
        // Tables of the standard normal: P(Z > 1.959963984540054) = 0.025, P(Z > 8) = 6.2209605742717e-16
        for (z, want) in
            [(0.0, 0.5), (1.959_963_984_540_054, 0.025), (8.0, 6.220_960_574_271_7e-16)]
        {
            assert!((normal_sf(z) / want - 1.0).abs() < 1e-12, "z {z}");
        }
    }

    #[test]
    fn the_upper_tail_does_not_cancel() {
        // P(9 < Z <= 9.1): from F alone it would be exactly 0.
        let naive = normal_sf(-9.1) - normal_sf(-9.0);
        assert!(naive == 0.0);
        let tail = normal_between(9.0, 9.1);
        // sf(9) = 1.1285884059538e-19 and sf(9.1) = 4.516591491435e-20
        assert!((tail / 6.769_292_568_1e-20 - 1.0).abs() < 1e-6, "{tail:e}");
        assert!((normal_between(-9.1, -9.0) / tail - 1.0).abs() < 1e-12, "symmetric");
    }

    #[test]
    fn quantiles_invert_the_distribution() {
        for law in [LOGNORMAL, EXPONENTIAL] {
            for q in [0.001, 0.1, 0.5, 0.9, 0.99, 0.9999] {
                let back = law.cdf(law.quantile(q));
                assert!((back - q).abs() < 1e-9, "{law:?} {q}: {back}");
            }
        }
    }

    #[test]
    fn probabilities_add_up() {
        for law in [LOGNORMAL, EXPONENTIAL] {
            let sum: f64 = (1..=50).map(|k| libm::exp(law.ln_probability(k))).sum();
            assert!((sum - law.cdf(50.0)).abs() < 1e-12, "{law:?}");
            assert!((1.0 - sum - libm::exp(law.ln_survival(50))).abs() < 1e-12, "{law:?}");
        }
        assert!(LOGNORMAL.cdf(0.0) == 0.0 && EXPONENTIAL.cdf(-1.0) == 0.0);
        assert!(Law::Lognormal { mu: 0.0, sigma: 0.01 }.ln_probability(u32::MAX).is_finite());
    }
}
