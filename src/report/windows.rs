//! Counting over time: the busiest window, and how many intervals overlap.
//!
//! Instants in nanoseconds in, counts out. Both sort their input and take `n log n`.

use crate::domain::convert;
use crate::domain::time::Nanos;

/// Returns the most instants in any half-open window of `width`; `None` when there are none.
///
/// The window may begin anywhere, so a burst across the edge of a second is not cut in two.
pub(super) fn busiest(instants: &mut [u64], width: Nanos) -> Option<u64> {
    instants.sort_unstable();
    let mut first = instants.iter().copied();
    let mut start = first.next()?;
    let mut inside: u64 = 0;
    let mut most: u64 = 0;
    for &instant in instants.iter() {
        inside += 1;
        while instant - start >= width.0 {
            inside -= 1;
            // A later instant always exists: `instant` itself ends the loop.
            start = first.next().unwrap_or(instant);
        }
        most = most.max(inside);
    }
    Some(most)
}

/// Returns the most half-open intervals `[start, end)` that hold at one time; 0 when there are none.
pub(super) fn most_at_once(intervals: &[(u64, u64)]) -> u64 {
    let mut starts: Vec<u64> = intervals.iter().map(|interval| interval.0).collect();
    let mut ends: Vec<u64> = intervals.iter().map(|interval| interval.1).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let mut over = ends.iter().peekable();
    let mut ended = 0;
    let mut most = 0;
    for (index, start) in starts.iter().enumerate() {
        while over.next_if(|end| *end <= start).is_some() {
            ended += 1;
        }
        most = most.max((convert::count(index) + 1).saturating_sub(ended));
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_window_is_half_open() {
        assert_eq!(busiest(&mut [], Nanos(10)), None);
        assert_eq!(busiest(&mut [3], Nanos(10)), Some(1));
        assert_eq!(busiest(&mut [10, 0], Nanos(10)), Some(1), "exactly one window apart");
        assert_eq!(busiest(&mut [0, 9, 11, 12, 30], Nanos(10)), Some(3));
        assert_eq!(busiest(&mut [5, 5, 5], Nanos(10)), Some(3));
    }

    #[test]
    fn intervals_that_touch_do_not_overlap() {
        assert_eq!(most_at_once(&[]), 0);
        assert_eq!(most_at_once(&[(0, 5), (5, 9)]), 1);
        assert_eq!(most_at_once(&[(0, 5), (4, 9), (4, 6), (20, 30)]), 3);
    }

    proptest::proptest! {
        #[test]
        fn the_window_equals_the_naive_count(
            mut instants in proptest::collection::vec(0u64..200, 1..60), width in 1u64..50,
        ) {
            let naive = instants.iter().map(|&start| {
                instants.iter().filter(|&&at| at >= start && at - start < width).count()
            }).max().map(convert::count);
            proptest::prop_assert_eq!(busiest(&mut instants, Nanos(width)), naive);
        }
    }
}
