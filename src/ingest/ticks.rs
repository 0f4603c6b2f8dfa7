//! Notices that arrivals stand on ticks of a clock that is coarser than the log says.
//!
//! Rows in order of arrival -> the largest of some usual ticks (10 ms to 1 h) on which at least
//! 99.9 % of the arrivals stand, counted from the first one. Mooncake's trace has a tick of 3 s,
//! one-api's logs one of 1 s. Streaming: one counter per tick, and a tick is given up once it is
//! clearly not it. Arrivals are not moved; a replay may spread them over a tick.

use crate::domain::convert;
use crate::domain::record::RequestRecord;
use crate::domain::trace::Decision;

/// Ticks that are looked for, in microseconds, each beside what it misses.
const TICKS_US: [i64; 26] = [
    10_000,
    20_000,
    25_000,
    50_000,
    100_000,
    200_000,
    250_000,
    500_000,
    SECOND_US,
    2 * SECOND_US,
    3 * SECOND_US,
    4 * SECOND_US,
    5 * SECOND_US,
    6 * SECOND_US,
    8 * SECOND_US,
    10 * SECOND_US,
    12 * SECOND_US,
    15 * SECOND_US,
    20 * SECOND_US,
    30 * SECOND_US,
    60 * SECOND_US,
    120 * SECOND_US,
    300 * SECOND_US,
    600 * SECOND_US,
    1_800 * SECOND_US,
    3_600 * SECOND_US,
];
const SECOND_US: i64 = 1_000_000;
/// Different arrivals that make a tick sure: by chance, 40 of them stand on a tick of twice the
/// clock's step once in 2^40.
const SURE: u64 = 40;
/// Arrivals after which a tick that misses one in [`GIVEN_UP_SHARE`] is given up.
const GIVEN_UP_AFTER: u64 = 1_000;
const GIVEN_UP_SHARE: u64 = 20;
/// One arrival in this many may stand off the tick.
const MAX_MISS_SHARE: u64 = 1_000;

/// Looks at arrivals.
#[derive(Clone, Debug)]
pub struct Ticks {
    first_us: Option<i64>,
    last_us: Option<i64>,
    arrivals: u64,
    distinct: u64,
    resolution_us: i64,
    /// Ticks still looked for, the smallest first, with the arrivals off them.
    open: Vec<(i64, u64)>,
}

impl Default for Ticks {
    fn default() -> Self {
        Self {
            first_us: None,
            last_us: None,
            arrivals: 0,
            distinct: 0,
            resolution_us: 1,
            open: TICKS_US.map(|tick| (tick, 0)).to_vec(),
        }
    }
}

impl Ticks {
    /// Takes the next row; rows come in order of arrival.
    pub fn observe(&mut self, row: &RequestRecord) {
        let Some(arrival) = row.arrival_time else { return };
        let first = *self.first_us.get_or_insert(arrival.0);
        self.arrivals += 1;
        self.resolution_us = self.resolution_us.max(row.arrival_resolution_us);
        if self.last_us != Some(arrival.0) {
            self.distinct += 1;
            self.last_us = Some(arrival.0);
        }
        let offset = arrival.0.saturating_sub(first);
        for (tick, missed) in &mut self.open {
            *missed += u64::from(offset % *tick != 0);
        }
        if self.arrivals.is_multiple_of(GIVEN_UP_AFTER) {
            let limit = self.arrivals / GIVEN_UP_SHARE;
            self.open.retain(|(_, missed)| *missed <= limit);
        }
    }

    /// Returns the tick and the arrivals off it, where there is one.
    pub fn tick(&self) -> Option<(i64, u64)> {
        let fits = |(tick, missed): &&(i64, u64)| {
            let coarse = *tick >= SECOND_US || *tick > self.resolution_us;
            coarse && missed.saturating_mul(MAX_MISS_SHARE) <= self.arrivals
        };
        let found = self.open.iter().rev().find(fits)?;
        (self.distinct >= SURE).then_some(*found)
    }

    /// Returns the line for the user, where there is a tick.
    pub fn decision(&self) -> Option<Decision> {
        let (tick, missed) = self.tick()?;
        let on = self.arrivals - missed;
        let share = 100.0 * convert::float(on) / convert::float(self.arrivals);
        Some(Decision {
            what: "sampling tick".to_owned(),
            value: format!("{} s", convert::float_signed(tick) / 1e6),
            why: format!(
                "{share:.2} % of {} arrivals are whole ticks after the first; order within a tick \
                 is not known",
                self.arrivals
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::WallTime;

    fn ticks(resolution_us: i64, arrivals: impl IntoIterator<Item = i64>) -> Option<(i64, u64)> {
        let mut ticks = Ticks::default();
        for arrival in arrivals {
            let mut row = RequestRecord::unknown("test".into(), 0, 1);
            row.arrival_time = Some(WallTime(arrival));
            row.arrival_resolution_us = resolution_us;
            ticks.observe(&row);
        }
        ticks.tick()
    }

    /// Ticks that a request comes at, in no regular pattern.
    fn some(count: i64) -> impl Iterator<Item = i64> {
        (0..count).map(|n| n * 2 + (n * n % 7) % 2)
    }

    #[test]
    fn the_largest_tick_is_found() {
        let at = |tick: i64| some(3_000).map(move |n| 17_123 + n * tick);
        assert_eq!(ticks(1_000, at(3 * SECOND_US)), Some((3 * SECOND_US, 0)));
        assert_eq!(ticks(1_000_000, at(SECOND_US)), Some((SECOND_US, 0)), "its own clock's");
        assert_eq!(ticks(1, at(100_000)), Some((100_000, 0)));
        assert_eq!(ticks(1_000, at(1_000)), None, "no coarser than the source says");
        assert_eq!(ticks(1, at(1_037)), None);
    }

    #[test]
    fn few_arrivals_prove_nothing() {
        assert_eq!(ticks(1_000, some(39).map(|n| n * SECOND_US)), None);
        assert_eq!(ticks(1_000, some(40).map(|n| n * SECOND_US)), Some((SECOND_US, 0)));
        let same = std::iter::repeat_n(0, 5_000);
        assert_eq!(ticks(1_000, same), None, "one burst");
        assert_eq!(ticks(1, []), None);
    }

    #[test]
    fn one_in_a_thousand_may_stand_off() {
        let off =
            |every: i64| some(10_000).map(move |n| n * SECOND_US + i64::from(n % every == 1) * 137);
        assert_eq!(ticks(1_000, off(4_000)).map(|found| found.0), Some(SECOND_US));
        assert_eq!(ticks(1_000, off(400)), None);
    }

    #[test]
    fn the_line_says_what_was_seen() {
        let mut ticks = Ticks::default();
        for arrival in some(1_000) {
            let mut row = RequestRecord::unknown("test".into(), 0, 1);
            row.arrival_time = Some(WallTime(arrival * 3 * SECOND_US));
            ticks.observe(&row);
        }
        let line = ticks.decision().unwrap();
        insta::assert_snapshot!(
            format!("{}: {} ({})", line.what, line.value, line.why),
            @"sampling tick: 3 s (100.00 % of 1000 arrivals are whole ticks after the first; order within a tick is not known)"
        );
    }
}
