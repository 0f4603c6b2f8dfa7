//! Merges the attempts of one call into one row.
//!
//! Rows in order of arrival -> rows in order of arrival. A row continues an earlier one when both
//! carry the same trace id, model and (where both are known) input tokens, the earlier one failed,
//! and the later one starts within 60 s after the earlier one ended: a success ends a call, and so
//! does a hang-up. The last attempt is kept, with the first one's arrival. Rows wait only while an
//! attempt before them may still be continued; the queue has a limit.

use super::error::IngestError;
use crate::domain::record::{Flag, Hash128, RequestRecord, Status};
use std::collections::{HashMap, VecDeque};

/// Longest pause between two attempts of one call, in microseconds.
const MAX_PAUSE_US: i64 = 60_000_000;
/// Rows that may wait; beyond it the oldest one is taken as complete.
const MAX_WAITING: usize = 100_000;

/// Merges attempts over a stream of rows in order of arrival.
#[derive(Debug)]
pub struct Attempts<I> {
    rows: I,
    waiting: VecDeque<Waiting>,
    /// Number of the first waiting row.
    first: u64,
    /// The latest open row of a trace id, by number.
    open: HashMap<Hash128, u64>,
    merged: u64,
    done: bool,
    max_waiting: usize,
}

#[derive(Debug)]
struct Waiting {
    row: RequestRecord,
    /// Until when it may be continued; `None` when it is complete.
    open_until_us: Option<i64>,
}

impl<I: Iterator<Item = Result<RequestRecord, IngestError>>> Attempts<I> {
    /// Merges the attempts among `rows`.
    pub fn new(rows: I) -> Self {
        Self {
            rows,
            waiting: VecDeque::new(),
            first: 0,
            open: HashMap::new(),
            merged: 0,
            done: false,
            max_waiting: MAX_WAITING,
        }
    }

    /// Returns the rows merged into others so far.
    pub fn merged(&self) -> u64 {
        self.merged
    }

    fn take(&mut self, row: RequestRecord) {
        if let (Some(key), Some(_)) = (row.trace_id_hash, row.arrival_time)
            && let Some(earlier) = self.open_row(key)
            && continues(&earlier.row, &row)
        {
            merge(&mut earlier.row, row);
            earlier.open_until_us = open_until(&earlier.row);
            self.merged += 1;
            return;
        }
        let open_until_us = open_until(&row);
        if let (Some(key), Some(_)) = (row.trace_id_hash, open_until_us) {
            let number = self.first + crate::domain::convert::count(self.waiting.len());
            self.open.insert(key, number);
        }
        self.waiting.push_back(Waiting { row, open_until_us });
    }

    fn open_row(&mut self, key: Hash128) -> Option<&mut Waiting> {
        let number = *self.open.get(&key)?;
        let place = crate::domain::convert::index(number.checked_sub(self.first)?)?;
        self.waiting.get_mut(place)
    }

    /// Returns whether the oldest waiting row is complete when rows from `now_us` on come.
    fn front_is_complete(&self, now_us: Option<i64>) -> bool {
        let Some(front) = self.waiting.front() else { return false };
        match (front.open_until_us, now_us) {
            _ if self.done || self.waiting.len() > self.max_waiting => true,
            (None, _) => true,
            (Some(until), Some(now)) => until < now,
            (Some(_), None) => false,
        }
    }

    fn pop(&mut self) -> Option<RequestRecord> {
        let front = self.waiting.pop_front()?;
        if let Some(key) = front.row.trace_id_hash
            && self.open.get(&key) == Some(&self.first)
        {
            self.open.remove(&key);
        }
        self.first += 1;
        Some(front.row)
    }
}

impl<I: Iterator<Item = Result<RequestRecord, IngestError>>> Iterator for Attempts<I> {
    type Item = Result<RequestRecord, IngestError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let now_us = self.waiting.back().and_then(|last| last.row.arrival_time).map(|at| at.0);
            if self.front_is_complete(now_us) {
                return self.pop().map(Ok);
            }
            if self.done {
                return None;
            }
            match self.rows.next() {
                Some(Ok(row)) => self.take(row),
                Some(Err(error)) => return Some(Err(error)),
                None => self.done = true,
            }
        }
    }
}

/// Returns until when a later row may continue this one.
fn open_until(row: &RequestRecord) -> Option<i64> {
    row.trace_id_hash?;
    let failed = matches!(row.status, Status::Error | Status::RateLimited | Status::Timeout);
    let end = row.end_time.or(row.arrival_time)?;
    failed.then_some(end.0.saturating_add(MAX_PAUSE_US))
}

fn continues(earlier: &RequestRecord, later: &RequestRecord) -> bool {
    let Some(until) = open_until(earlier) else { return false };
    let end = earlier.end_time.or(earlier.arrival_time).map_or(i64::MAX, |at| at.0);
    let starts = later.arrival_time.map_or(i64::MIN, |at| at.0);
    let same_input = match (earlier.input_tokens, later.input_tokens) {
        (Some(earlier), Some(later)) => earlier == later,
        _ => true,
    };
    (end..=until).contains(&starts) && same_input && earlier.request_model == later.request_model
}

/// Puts the later attempt in the place of the earlier one, as the client saw the whole call.
fn merge(earlier: &mut RequestRecord, later: RequestRecord) {
    let attempts = earlier.attempt_count.saturating_add(later.attempt_count);
    let first = std::mem::replace(earlier, later);
    let last = earlier;
    let waited = last
        .arrival_time
        .zip(first.arrival_time)
        .map_or(0, |(last, first)| last.micros_since(first));
    last.arrival_time = first.arrival_time;
    last.arrival_source = first.arrival_source;
    last.duration_us = last.duration_us.map(|duration| duration + waited);
    last.time_to_first_chunk_us = last.time_to_first_chunk_us.map(|ttft| ttft + waited);
    last.attempt_count = attempts;
    last.flags.push(Flag::AttemptsMerged);
    last.flags.sort_unstable();
    last.flags.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::WallTime;

    /// A row that starts and ends at these seconds, with the trace id `key` (0 is none).
    fn row(key: u8, seconds: (i64, i64), status: Status) -> RequestRecord {
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.trace_id_hash = (key > 0).then_some(Hash128([key; 16]));
        row.arrival_time = Some(WallTime(seconds.0 * 1_000_000));
        row.end_time = Some(WallTime(seconds.1 * 1_000_000));
        row.duration_us = Some((seconds.1 - seconds.0) * 1_000_000);
        row.status = status;
        row
    }

    fn merged(rows: Vec<RequestRecord>) -> (Vec<(i64, Status, u16)>, u64) {
        let mut attempts = Attempts::new(rows.into_iter().map(Ok));
        let rows: Vec<_> = attempts
            .by_ref()
            .map(|row| row.unwrap())
            .map(|row| (row.arrival_time.unwrap().0 / 1_000_000, row.status, row.attempt_count))
            .collect();
        (rows, attempts.merged())
    }

    #[test]
    fn failures_are_continued_until_a_success() {
        let rows = vec![
            row(1, (0, 2), Status::Error),
            row(0, (1, 9), Status::Ok),
            row(1, (3, 4), Status::RateLimited),
            row(1, (5, 8), Status::Ok),
            row(1, (9, 10), Status::Ok),
        ];
        let expected = vec![(0, Status::Ok, 3), (1, Status::Ok, 1), (9, Status::Ok, 1)];
        assert_eq!(merged(rows), (expected, 2));
    }

    #[test]
    fn the_kept_row_spans_the_whole_call() {
        let mut last = row(1, (12, 14), Status::Ok);
        last.time_to_first_chunk_us = Some(500_000);
        let rows = vec![row(1, (0, 10), Status::Timeout), last];
        let row = Attempts::new(rows.into_iter().map(Ok)).next().unwrap().unwrap();
        assert_eq!(row.duration_us, Some(14_000_000));
        assert_eq!(row.time_to_first_chunk_us, Some(12_500_000));
        assert_eq!(row.flags, [Flag::AttemptsMerged]);
    }

    #[test]
    fn other_calls_are_left_alone() {
        let apart = |change: fn(&mut RequestRecord)| {
            let mut second = row(1, (3, 4), Status::Ok);
            change(&mut second);
            let mut first = row(1, (0, 2), Status::Error);
            first.input_tokens = Some(7);
            merged(vec![first, second]).1
        };
        assert_eq!(apart(|_| {}), 1);
        assert_eq!(apart(|row| row.trace_id_hash = Some(Hash128([9; 16]))), 0);
        assert_eq!(apart(|row| row.trace_id_hash = None), 0);
        assert_eq!(apart(|row| row.request_model = Some("other".into())), 0);
        assert_eq!(apart(|row| row.input_tokens = Some(8)), 0);
        assert_eq!(apart(|row| row.input_tokens = Some(7)), 1);
        assert_eq!(apart(|row| row.arrival_time = Some(WallTime(1_999_999))), 0, "overlaps");
        assert_eq!(apart(|row| row.arrival_time = Some(WallTime(62_000_000))), 1);
        assert_eq!(apart(|row| row.arrival_time = Some(WallTime(62_000_001))), 0, "too late");
    }

    #[test]
    fn hang_ups_and_successes_end_a_call() {
        for status in [Status::Ok, Status::Cancelled, Status::Unknown] {
            let rows = vec![row(1, (0, 2), status), row(1, (3, 4), Status::Ok)];
            assert_eq!(merged(rows).1, 0, "{status}");
        }
    }

    #[test]
    fn a_full_queue_lets_the_oldest_go() {
        let mut rows = vec![row(1, (0, 2), Status::Error)];
        rows.extend((0..10).map(|_| row(0, (3, 4), Status::Ok)));
        rows.push(row(1, (5, 6), Status::Ok));
        let mut attempts = Attempts::new(rows.into_iter().map(Ok));
        attempts.max_waiting = 3;
        assert_eq!(attempts.by_ref().count(), 12);
        assert_eq!(attempts.merged(), 0);
        assert!(attempts.open.is_empty());
    }
}
