//! Numeric conversions that may lose precision, each in one place and named.
//!
//! `u64 as f64` is where latency tools go wrong; the pedantic cast lints stay on, and the few
//! conversions this program needs live here with their bounds.

/// Returns `value` as a float; exact below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and nanoseconds stay below 2^53 in practice"
)]
pub const fn float(value: u64) -> f64 {
    value as f64
}

/// Returns a sum of squares or of products as a float; exact below 2^53, else to 1 part in 2^53.
#[expect(clippy::cast_precision_loss, reason = "sums are exact as integers, rounded once here")]
pub const fn float_wide(value: u128) -> f64 {
    value as f64
}

/// Returns `value` as a float; exact for magnitudes below 2^53.
#[expect(clippy::cast_precision_loss, reason = "microseconds since 1970 stay below 2^53")]
pub const fn float_signed(value: i64) -> f64 {
    value as f64
}

/// Returns a length or a count of items as `u64`; `usize` is at most 64 bits wide here.
pub const fn count(value: usize) -> u64 {
    value as u64
}

/// Returns a length or a count of items as a float; exact below 2^53.
pub const fn float_count(value: usize) -> f64 {
    float(count(value))
}

/// Returns `value` rounded to the nearest whole number, clamped to `u64`; NaN becomes 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub fn round_to_u64(value: f64) -> u64 {
    value.round() as u64
}

/// Returns `value` rounded up, clamped to `u32`; NaN and negative values become 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub fn ceil_to_u32(value: f64) -> u32 {
    value.ceil() as u32
}

/// Returns an index into memory; `None` when the platform's `usize` is too narrow.
pub fn index(value: u64) -> Option<usize> {
    usize::try_from(value).ok()
}

/// Returns a float as a whole number when it is one, and below 2^53.
#[expect(clippy::cast_possible_truncation, reason = "bounded by the check before the cast")]
pub fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9.0e15).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_saturates() {
        assert_eq!(round_to_u64(-3.0), 0);
        assert_eq!(round_to_u64(2.5), 3);
        assert_eq!(round_to_u64(f64::NAN), 0);
        assert_eq!(ceil_to_u32(1.01), 2);
        assert_eq!(ceil_to_u32(f64::INFINITY), u32::MAX);
    }
}
