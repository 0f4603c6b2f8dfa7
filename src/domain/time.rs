//! Time: spans in nanoseconds, instants in microseconds since the Unix epoch.
//!
//! Integers everywhere; seconds as a float only at the surface (printing, fitting).

use super::convert;
use serde::{Deserialize, Serialize};

/// Nanoseconds in one second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Microseconds in one second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;

/// A span, or an offset from the start of a trace, plan or run, in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The empty span.
    pub const ZERO: Self = Self(0);

    /// Returns the span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns the span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the span of `seconds`, rounded to the nanosecond; negative or NaN gives zero.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self(convert::round_to_u64(seconds * 1e9))
    }

    /// Returns the span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        convert::float(self.0) / 1e9
    }

    /// Returns the span in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        convert::float(self.0) / 1e6
    }

    /// Returns `self - earlier`, or `None` when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Option<Self> {
        match self.0.checked_sub(earlier.0) {
            Some(span) => Some(Self(span)),
            None => None,
        }
    }

    /// Returns `self + span`, at most the largest representable span.
    #[must_use]
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the span as the standard library's `Duration`.
    pub const fn to_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

/// An instant in microseconds since the Unix epoch, UTC.
///
/// It stands in ingested logs and manifests; it is never subtracted to get a latency.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct WallTime(pub i64);

impl WallTime {
    /// Returns the microseconds from `earlier` to `self`; negative when `earlier` is later.
    pub const fn micros_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns `self` moved by `micros` microseconds.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

impl std::fmt::Display for WallTime {
    /// RFC 3339 with microseconds, in UTC.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => write!(f, "{at:.6}"),
            Err(_) => write!(f, "{} us since 1970", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_prints_utc_with_microseconds() {
        assert_eq!(WallTime(1_700_158_623_979_960).to_string(), "2023-11-16T18:17:03.979960Z");
        assert_eq!(WallTime(0).to_string(), "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn spans_never_go_negative() {
        assert_eq!(Nanos(5).since(Nanos(7)), None);
        assert_eq!(Nanos(7).since(Nanos(5)), Some(Nanos(2)));
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
    }
}
