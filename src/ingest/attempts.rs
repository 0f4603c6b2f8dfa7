//! Merges the attempts of one call into one row.
//!
//! Rows in order of arrival -> rows in order of arrival. A row continues an earlier one that
//! failed (a success ends a call, and so does a hang-up) in one of two ways:
//!
//! - Both carry the same trace id, and the later one starts within 60 s after the earlier one
//!   ended. Another model is a fallback; the same model must have got the same input, where known.
//! - They carry the same session id and not both a trace id: LiteLLM writes the id of a call there
//!   when the client names no session. Since it may be a conversation too, the later one must start
//!   within 5 s, ask for the same model and have the same input, where known.
//!
//! The last attempt is kept, with the first one's arrival and the model asked for first. Rows wait
//! only while an attempt before them may still be continued; the queue has a limit.

use super::error::IngestError;
use crate::domain::record::{Flag, Hash128, RequestRecord};
use std::collections::{HashMap, VecDeque};

/// Longest pause between two attempts with one trace id, in microseconds.
const MAX_PAUSE_US: i64 = 60_000_000;
/// The same where only the session id links them.
const MAX_SESSION_PAUSE_US: i64 = 5_000_000;
/// Attempts counted at most: what the trace's column holds.
const MAX_ATTEMPTS: u16 = i16::MAX.unsigned_abs();
/// The format whose session ids may stand for calls.
const SESSION_LINKS_IN: &str = super::format::Format::LitellmSpendlogs.as_str();
/// Rows that may wait, in bytes of memory; beyond it the oldest one is taken as complete.
const MAX_WAITING_BYTES: usize = super::SORT_BYTES;

/// What ties two rows to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Link {
    Trace(Hash128),
    Session(Hash128),
}

impl Link {
    /// Returns the links of a row, the stronger one first.
    fn all_of(row: &RequestRecord) -> impl Iterator<Item = Self> + use<> {
        let session = row.session_id_hash.filter(|_| *row.source_format == *SESSION_LINKS_IN);
        [row.trace_id_hash.map(Self::Trace), session.map(Self::Session)].into_iter().flatten()
    }

    const fn max_pause_us(self) -> i64 {
        match self {
            Self::Trace(_) => MAX_PAUSE_US,
            Self::Session(_) => MAX_SESSION_PAUSE_US,
        }
    }
}

/// Merges attempts over a stream of rows in order of arrival.
#[derive(Debug)]
pub struct Attempts<I> {
    rows: I,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Number of the first waiting row.
    first: u64,
    /// The latest open row of a link, by number.
    open: HashMap<Link, u64>,
    merged: u64,
    by_session: u64,
    done: bool,
    max_waiting_bytes: usize,
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
            waiting_bytes: 0,
            first: 0,
            open: HashMap::new(),
            merged: 0,
            by_session: 0,
            done: false,
            max_waiting_bytes: MAX_WAITING_BYTES,
        }
    }

    /// Returns the rows merged into others so far.
    pub fn merged(&self) -> u64 {
        self.merged
    }

    /// Returns those of them that only a session id links.
    pub fn merged_by_session(&self) -> u64 {
        self.by_session
    }

    fn take(&mut self, row: RequestRecord) {
        for link in Link::all_of(&row) {
            let Some(earlier) = self.open_row(link) else { continue };
            if !continues(&earlier.row, &row, link) {
                continue;
            }
            let before = earlier.row.weight_bytes();
            merge(&mut earlier.row, row);
            earlier.open_until_us = open_until(&earlier.row);
            let (after, links) = (earlier.row.weight_bytes(), Link::all_of(&earlier.row));
            let number = self.open.get(&link).copied().unwrap_or(self.first);
            self.open.extend(links.map(|link| (link, number)));
            self.waiting_bytes = (self.waiting_bytes + after).saturating_sub(before);
            self.merged += 1;
            self.by_session += u64::from(matches!(link, Link::Session(_)));
            return;
        }
        let open_until_us = open_until(&row);
        if open_until_us.is_some() {
            let number = self.first + crate::domain::convert::count(self.waiting.len());
            self.open.extend(Link::all_of(&row).map(|link| (link, number)));
        }
        self.waiting_bytes += row.weight_bytes();
        self.waiting.push_back(Waiting { row, open_until_us });
    }

    fn open_row(&mut self, link: Link) -> Option<&mut Waiting> {
        let number = *self.open.get(&link)?;
        let place = crate::domain::convert::index(number.checked_sub(self.first)?)?;
        self.waiting.get_mut(place)
    }

    /// Returns whether the oldest waiting row is complete when rows from `now_us` on come.
    fn front_is_complete(&self, now_us: Option<i64>) -> bool {
        let Some(front) = self.waiting.front() else { return false };
        match (front.open_until_us, now_us) {
            _ if self.done || self.waiting_bytes > self.max_waiting_bytes => true,
            (None, _) => true,
            (Some(until), Some(now)) => until < now,
            (Some(_), None) => false,
        }
    }

    fn pop(&mut self) -> Option<RequestRecord> {
        let front = self.waiting.pop_front()?;
        for link in Link::all_of(&front.row) {
            if self.open.get(&link) == Some(&self.first) {
                self.open.remove(&link);
            }
        }
        self.waiting_bytes = self.waiting_bytes.saturating_sub(front.row.weight_bytes());
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

/// Returns until when a later row may continue this one, by the strongest of its links.
fn open_until(row: &RequestRecord) -> Option<i64> {
    let pause = Link::all_of(row).map(Link::max_pause_us).max()?;
    let end = row.end_time.or(row.arrival_time)?;
    row.status.is_failure().then_some(end.0.saturating_add(pause))
}

fn continues(earlier: &RequestRecord, later: &RequestRecord, link: Link) -> bool {
    let (Some(end), Some(starts)) = (earlier.end_time.or(earlier.arrival_time), later.arrival_time)
    else {
        return false;
    };
    let in_time = (0..=link.max_pause_us()).contains(&starts.micros_since(end));
    let same_model = earlier.request_model == later.request_model;
    let same_input = match (earlier.input_tokens, later.input_tokens) {
        (Some(earlier), Some(later)) => earlier == later,
        _ => true,
    };
    let same_call = match link {
        // Another model counts with another tokenizer.
        Link::Trace(_) => !same_model || same_input,
        Link::Session(_) => {
            let apart = earlier.trace_id_hash.is_some() && later.trace_id_hash.is_some();
            same_model && same_input && !apart
        }
    };
    earlier.status.is_failure() && in_time && same_call
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
    last.request_model = first.request_model.or(last.request_model.take());
    last.trace_id_hash = last.trace_id_hash.or(first.trace_id_hash);
    last.session_id_hash = last.session_id_hash.or(first.session_id_hash);
    last.duration_us = last.duration_us.map(|duration| duration + waited);
    last.time_to_first_chunk_us = last.time_to_first_chunk_us.map(|ttft| ttft + waited);
    last.attempt_count = attempts.min(MAX_ATTEMPTS);
    last.flags.push(Flag::AttemptsMerged);
    last.flags.sort_unstable();
    last.flags.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::{ROW_BYTES, Status};
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
        assert_eq!(apart(|row| row.request_model = Some("other".into())), 1, "a fallback");
        assert_eq!(apart(|row| row.input_tokens = Some(8)), 0);
        assert_eq!(apart(|row| row.input_tokens = Some(7)), 1);
        assert_eq!(apart(|row| row.arrival_time = Some(WallTime(1_999_999))), 0, "overlaps");
        assert_eq!(apart(|row| row.arrival_time = Some(WallTime(62_000_000))), 1);
        assert_eq!(apart(|row| row.arrival_time = Some(WallTime(62_000_001))), 0, "too late");
    }

    #[test]
    fn a_session_id_links_attempts_of_one_model_in_a_few_seconds() {
        let apart = |change: fn(&mut RequestRecord)| {
            let mut rows = [row(0, (0, 2), Status::Error), row(0, (3, 4), Status::Ok)];
            for row in &mut rows {
                row.source_format = SESSION_LINKS_IN.into();
                row.session_id_hash = Some(Hash128([5; 16]));
            }
            rows[0].input_tokens = Some(7);
            change(&mut rows[1]);
            let mut attempts = Attempts::new(rows.into_iter().map(Ok));
            assert_eq!(attempts.by_ref().count() + usize::from(attempts.merged() > 0), 2);
            assert_eq!(attempts.merged(), attempts.merged_by_session());
            assert!(attempts.open.is_empty() && attempts.waiting_bytes == 0);
            attempts.merged()
        };
        assert_eq!(apart(|_| {}), 1);
        assert_eq!(apart(|row| row.trace_id_hash = Some(Hash128([9; 16]))), 1, "on one row only");
        assert_eq!(apart(|row| row.source_format = "generic".into()), 0);
        assert_eq!(apart(|row| row.session_id_hash = None), 0);
        assert_eq!(apart(|row| row.request_model = Some("other".into())), 0);
        assert_eq!(apart(|row| row.input_tokens = Some(8)), 0);
        assert_eq!(apart(|row| row.arrival_time = Some(WallTime(7_000_000))), 1);
        assert_eq!(apart(|row| row.arrival_time = Some(WallTime(7_000_001))), 0, "too late");
    }

    #[test]
    fn two_trace_ids_of_one_session_are_two_calls() {
        let mut rows = [row(1, (0, 2), Status::Error), row(2, (3, 4), Status::Ok)];
        for row in &mut rows {
            row.source_format = SESSION_LINKS_IN.into();
            row.session_id_hash = Some(Hash128([5; 16]));
        }
        assert_eq!(merged(rows.to_vec()).1, 0);
    }

    #[test]
    fn a_fallback_keeps_the_model_asked_for_first() {
        let mut rows = [row(1, (0, 2), Status::Error), row(1, (3, 4), Status::Ok)];
        for (row, model) in rows.iter_mut().zip(["first", "second"]) {
            row.request_model = Some(model.into());
            row.response_model = Some(model.into());
        }
        let row = Attempts::new(rows.into_iter().map(Ok)).next().unwrap().unwrap();
        assert_eq!(row.request_model.as_deref(), Some("first"));
        assert_eq!(row.response_model.as_deref(), Some("second"));
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
        attempts.max_waiting_bytes = 3 * ROW_BYTES;
        assert_eq!(attempts.by_ref().count(), 12);
        assert_eq!(attempts.merged(), 0);
        assert!(attempts.open.is_empty());
    }
}
