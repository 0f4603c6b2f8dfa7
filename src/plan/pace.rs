//! How fast a recorded hour can be replayed in a short demonstration, and which hour is typical.
//!
//! Used by `tracewright run`, which must end within a minute or two and must not ask more of one
//! machine than client and mock can carry together. Input: requests per hour, planned requests;
//! output: an hour, a speed. Nothing here touches the plan itself: what a cap or a speed leaves
//! out is counted by the planner.

use crate::domain::convert;
use crate::domain::schedule::ScheduledRequest;
use crate::domain::time::{NANOS_PER_SECOND, Nanos};
use std::collections::BTreeMap;

/// Speeds that are offered: a round number is easier to reason about than an exact fit.
const ROUND_STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// How a demonstration is cut and compressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Requests at most; the rest of the hour is not selected.
    pub num_requests: u64,
    /// Speed applied to the gaps.
    pub speed: f64,
    /// The most chunks that the server then sends in any second.
    pub peak_chunks_per_s: u64,
}

/// What a demonstration may ask of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceLimits {
    /// Requests at most.
    pub num_requests: u64,
    /// Longest time from the first to the last request.
    pub span: Nanos,
    /// Chunks per second at most.
    pub chunks_per_s: u64,
    /// The server's time to the first token.
    pub ttft: Nanos,
    /// The server's time per output token.
    pub tpot: Nanos,
}

/// Returns the pace of a demonstration of `requests`, planned at speed 1.
///
/// The speed is the smallest round one that plays the selected requests within the limit. Where
/// bursts would then ask for too many chunks, a quarter of the requests is left out, again and
/// again, which lowers the speed too; a single request is always allowed.
pub fn choose(requests: &[ScheduledRequest], limits: PaceLimits) -> Pace {
    let all = convert::count(requests.len());
    let mut num_requests = limits.num_requests.min(all).max(1);
    loop {
        let count = convert::index(num_requests).unwrap_or(usize::MAX).min(requests.len());
        let selected = requests.get(..count).unwrap_or(requests);
        let span =
            selected.iter().filter_map(|request| request.release.at()).max().unwrap_or(Nanos::ZERO);
        let speed = speed_for(span, limits.span);
        let peak = peak_chunks_per_s(selected, speed, limits.ttft, limits.tpot);
        if peak <= limits.chunks_per_s || num_requests == 1 {
            return Pace { num_requests, speed, peak_chunks_per_s: peak };
        }
        num_requests = num_requests * 3 / 4;
    }
}

/// Returns the hour in which the median request falls, hours ordered by their number of requests:
/// the hour that an average request sees.
///
/// `hours` holds (start in microseconds, requests). Returns `None` when there is no request. Of
/// equally busy hours the earlier counts as the quieter one.
pub fn typical_hour(hours: &[(i64, u64)]) -> Option<(i64, u64)> {
    let mut by_size: Vec<(u64, i64)> = hours.iter().map(|&(start, n)| (n, start)).collect();
    by_size.sort_unstable();
    let total: u64 = by_size.iter().map(|&(n, _)| n).sum();
    let mut seen = 0;
    by_size.into_iter().find_map(|(n, start)| {
        seen += n;
        (n > 0 && 2 * seen >= total).then_some((start, n))
    })
}

/// Returns the smallest round speed (1, 2, 5, 10, 20, …) that plays `span` within `limit`.
pub fn speed_for(span: Nanos, limit: Nanos) -> f64 {
    let needed = convert::float(span.0) / convert::float(limit.0.max(1));
    let mut decade = 1.0;
    loop {
        for step in ROUND_STEPS {
            if decade * step >= needed {
                return decade * step;
            }
        }
        decade *= 10.0;
    }
}

/// Returns the most chunks that a server with a fixed pace sends in any second, when the requests
/// are played at `speed`.
///
/// The server is idle for `ttft` after a request's due time, then sends one chunk per token every
/// `tpot` until `max_tokens`. Seconds are counted from the start of the plan. Requests that are not
/// released at a fixed time do not count. Returns 0 for an empty plan.
pub fn peak_chunks_per_s(
    requests: &[ScheduledRequest],
    speed: f64,
    ttft: Nanos,
    tpot: Nanos,
) -> u64 {
    let gap = tpot.0.max(1);
    let mut chunks: BTreeMap<u64, u64> = BTreeMap::new();
    for request in requests {
        let Some(due) = request.release.at() else { continue };
        let mut next = Nanos::from_secs_f64(due.as_secs_f64() / speed).plus(ttft).0;
        let mut left = u64::from(request.max_tokens);
        while left > 0 {
            let second = next / NANOS_PER_SECOND;
            let until_next_second = (second + 1) * NANOS_PER_SECOND - next;
            let here = until_next_second.div_ceil(gap).min(left);
            *chunks.entry(second).or_default() += here;
            next = next.saturating_add(here.saturating_mul(gap));
            left -= here;
        }
    }
    chunks.into_values().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::scenario::Scenario;
    use crate::domain::schedule::{CountKind, Release};

    fn at(id: u64, due_ms: u64, max_tokens: u32) -> ScheduledRequest {
        ScheduledRequest {
            request_id: id,
            scenario: Scenario::Single,
            session_id: None,
            turn_index: None,
            release: Release::At(Nanos::from_millis(due_ms)),
            prompt_parts: Vec::new(),
            input_tokens: 1,
            count_kind: CountKind::Raw,
            content_tokens: 1,
            template_tokens: None,
            max_tokens,
            min_tokens: None,
            stream: true,
            prefix_block_ids: Vec::new(),
            recorded_status: None,
            repeat_of: None,
        }
    }

    #[test]
    fn the_typical_hour_is_weighted_by_requests() {
        assert_eq!(typical_hour(&[]), None);
        assert_eq!(typical_hour(&[(0, 0)]), None);
        assert_eq!(typical_hour(&[(7, 5)]), Some((7, 5)));
        // 100 quiet hours of 1 request, three busy ones: the median request is in a busy hour.
        let mut hours: Vec<(i64, u64)> = (0..100).map(|h| (h, 1)).collect();
        hours.extend([(200, 60), (201, 80), (202, 100)]);
        assert_eq!(typical_hour(&hours), Some((201, 80)));
    }

    #[test]
    fn speeds_are_round_and_enough() {
        let limit = Nanos::from_millis(40_000);
        for (span_s, speed) in [(1, 1.0), (40, 1.0), (41, 2.0), (100, 5.0), (3600, 100.0)] {
            let got = speed_for(Nanos::from_millis(span_s * 1_000), limit);
            assert!((got - speed).abs() < 1e-9, "{span_s} s: {got}");
        }
    }

    #[test]
    fn peak_counts_overlapping_streams() {
        let (ttft, tpot) = (Nanos::from_millis(200), Nanos::from_millis(10));
        assert_eq!(peak_chunks_per_s(&[], 1.0, ttft, tpot), 0);
        // One stream of 300 tokens sends 80, 100, 100 and 20 chunks in its four seconds.
        assert_eq!(peak_chunks_per_s(&[at(0, 0, 300)], 1.0, ttft, tpot), 100);
        let apart = [at(0, 0, 50), at(1, 5_000, 50)];
        assert_eq!(peak_chunks_per_s(&apart, 1.0, ttft, tpot), 50);
        let together = [at(0, 0, 300), at(1, 1_000, 300)];
        assert_eq!(peak_chunks_per_s(&together, 1.0, ttft, tpot), 200);
    }

    #[test]
    fn the_pace_keeps_every_limit() {
        let limits = PaceLimits {
            num_requests: 100,
            span: Nanos::from_millis(10_000),
            chunks_per_s: 1_000,
            ttft: Nanos::from_millis(200),
            tpot: Nanos::from_millis(10),
        };
        // An hour of one request every 10 s: 100 of them take 990 s, played 100 times as fast.
        let calm: Vec<_> = (0..360).map(|i| at(i, i * 10_000, 50)).collect();
        let pace = choose(&calm, limits);
        assert_eq!((pace.num_requests, pace.speed.to_string().as_str()), (100, "100"));
        assert!(pace.peak_chunks_per_s <= 1_000);
        // 64 at once would send 6,400 chunks a second: fewer are selected.
        let burst: Vec<_> = (0..64).map(|i| at(i, 0, 500)).collect();
        let pace = choose(&burst, limits);
        assert_eq!(
            (pace.num_requests, pace.speed.to_string().as_str()),
            (8, "1"),
            "64, 48, 36, 27, 20, 15, 11, 8"
        );
        assert_eq!(choose(&[], limits).num_requests, 1);
    }
}
