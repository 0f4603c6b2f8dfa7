//! The run's clock: the only reader of the monotonic clock that latencies use.
//!
//! A [`RunClock`] is an origin on `CLOCK_MONOTONIC`; every instant of a run is an offset from it in
//! nanoseconds ([`Nanos`]), so a schedule's offsets and measured instants share one scale. It also
//! waits: asleep until shortly before the deadline, then spinning, never early. Timeouts do not
//! need it and use the async runtime's timers, whose grain of 1 ms is too coarse for sending.

use crate::domain::time::{NANOS_PER_SECOND, Nanos};
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use rustix::time::clock_gettime;

/// The last part of a wait, which is spun: a sleeping thread wakes 20 to 60 µs late, so 100 µs
/// hides the wake-up and costs little of a core.
const SPIN: u64 = 100_000;
/// The longest sleep in one piece, so that a stop is noticed soon.
const LONGEST_SLEEP: u64 = 100_000_000;

/// An origin on the monotonic clock; instants are offsets from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunClock {
    origin_ns: u64,
}

impl RunClock {
    /// Returns a clock whose zero lies `lead` in the future.
    pub fn starting_in(lead: Nanos) -> Self {
        Self { origin_ns: monotonic_ns().saturating_add(lead.0) }
    }

    /// Returns the offset of this moment from the origin; zero before the origin.
    pub fn now(self) -> Nanos {
        Nanos(monotonic_ns().saturating_sub(self.origin_ns))
    }

    /// Waits until `due` has come and returns `true`, or returns `false` as soon as `keep_waiting`
    /// says so (asked at least every 100 ms). Never returns `true` early.
    pub fn wait_until(self, due: Nanos, keep_waiting: impl Fn() -> bool) -> bool {
        let deadline = self.origin_ns.saturating_add(due.0);
        loop {
            let now = monotonic_ns();
            let Some(left) = deadline.checked_sub(now).filter(|left| *left > 0) else {
                return true;
            };
            if !keep_waiting() {
                return false;
            }
            if left <= SPIN {
                break;
            }
            sleep_until(now.saturating_add((left - SPIN).min(LONGEST_SLEEP)));
        }
        while monotonic_ns() < deadline {
            std::hint::spin_loop();
        }
        true
    }
}

/// Reads `CLOCK_MONOTONIC`, in nanoseconds.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let rest = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(rest)
}

/// Sleeps until an absolute instant of `CLOCK_MONOTONIC`; a signal may end the sleep sooner, which
/// the caller's loop takes care of.
fn sleep_until(at_ns: u64) {
    let seconds = i64::try_from(at_ns / NANOS_PER_SECOND).unwrap_or(i64::MAX);
    let rest = i64::try_from(at_ns % NANOS_PER_SECOND).unwrap_or(0);
    let at = Timespec { tv_sec: seconds, tv_nsec: rest };
    clock_nanosleep_absolute(ClockId::Monotonic, &at).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_at_zero_before_its_origin_and_never_goes_back() {
        let clock = RunClock::starting_in(Nanos::from_millis(3_600_000));
        assert_eq!(clock.now(), Nanos::ZERO);
        let clock = RunClock::starting_in(Nanos::ZERO);
        let mut last = clock.now();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_wait_is_never_early() {
        let clock = RunClock::starting_in(Nanos::from_millis(3));
        for due in [0, 0, 50, 200, 201, 1_500, 4_000].map(Nanos::from_micros) {
            assert!(clock.wait_until(due, || true));
            assert!(clock.now() >= due, "woke before {due:?}");
        }
        // A due time of zero waits for the origin itself, which the clock cannot show as a number.
        let clock = RunClock::starting_in(Nanos::from_millis(3));
        assert!(clock.wait_until(Nanos::ZERO, || true));
        assert!(monotonic_ns() >= clock.origin_ns);
    }

    #[test]
    fn a_wait_of_an_hour_ends_when_told() {
        let clock = RunClock::starting_in(Nanos::ZERO);
        assert!(!clock.wait_until(Nanos::from_millis(3_600_000), || false));
    }
}
