//! The speed of a replay as an exact fraction.
//!
//! A decimal such as `0.1` has no exact float; a fraction keeps offsets whole numbers, so that
//! speed 1 gives the trace's own microseconds and doubling the speed halves every offset to
//! within 1 ns (both offsets are rounded once, by at most half a nanosecond).

use crate::domain::convert;
use crate::domain::time::Nanos;

/// A speed above 0; 2 sends the trace in half its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    numerator: u64,
    denominator: u64,
}

impl Speed {
    /// The trace's own speed.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// Returns the offset of an arrival `gap_us` microseconds after the first, rounded to the
    /// nanosecond; `None` when it does not fit into 64 bits.
    pub fn offset(self, gap_us: u64) -> Option<Nanos> {
        // 2^64 · 1000 · 10^9 < 2^104, and adding half the divisor stays far below 2^128.
        let scaled = u128::from(gap_us) * 1_000 * u128::from(self.denominator);
        let divisor = u128::from(self.numerator);
        u64::try_from((scaled + divisor / 2) / divisor).ok().map(Nanos)
    }

    /// Returns the speed as a float, for printing.
    pub fn as_f64(self) -> f64 {
        convert::float(self.numerator) / convert::float(self.denominator)
    }
}

impl std::str::FromStr for Speed {
    type Err = String;

    /// Reads a plain decimal above 0 with up to 9 digits on each side of the point.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is no speed: expected a decimal above 0 such as `1`, `2.5` or `0.5`")
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
            return Err(wrong());
        }
        let denominator = fraction.bytes().fold(1_u64, |power, _| power * 10);
        let numerator: u64 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
        if numerator == 0 { Err(wrong()) } else { Ok(Self { numerator, denominator }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn speed(text: &str) -> Speed {
        text.parse().expect("a speed")
    }

    #[test]
    fn reads_decimals_and_nothing_else() {
        assert_eq!(speed("1").offset(7), Some(Nanos(7_000)));
        assert_eq!(speed("0.1").offset(1), Some(Nanos(10_000)));
        assert_eq!(speed(".5").offset(1), Some(Nanos(2_000)));
        assert_eq!(speed("3").offset(1), Some(Nanos(333)), "rounded down");
        assert_eq!(speed("3").offset(2), Some(Nanos(667)), "rounded up");
        assert_eq!(speed("0.5").offset(u64::MAX / 1_000), None, "more than 64 bits");
        for wrong in ["", ".", "0", "0.0", "-1", "+1", "1e3", "nan", "1,5", "1234567890", "1.2.3"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
        insta::assert_snapshot!("0".parse::<Speed>().expect_err("zero"), @"`0` is no speed: expected a decimal above 0 such as `1`, `2.5` or `0.5`");
    }

    proptest! {
        #[test]
        fn speed_one_is_exact(gap_us in 0_u64..1 << 53) {
            prop_assert_eq!(Speed::ONE.offset(gap_us), Some(Nanos(gap_us * 1_000)));
        }

        #[test]
        fn double_speed_halves(gap_us in 0_u64..1 << 50, whole in 1_u64..1_000, cents in 0_u64..100) {
            let once = Speed { numerator: whole * 100 + cents, denominator: 100 };
            let twice = Speed { numerator: 2 * once.numerator, ..once };
            let (slow, fast) = (once.offset(gap_us).unwrap().0, twice.offset(gap_us).unwrap().0);
            prop_assert!((fast * 2).abs_diff(slow) <= 1, "{} {}", slow, fast);
        }
    }
}
