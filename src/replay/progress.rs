//! Gauges of a running replay, for progress bars: written by the replay, read by anyone.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counts of a running replay.
#[derive(Debug, Default)]
pub struct Progress {
    planned: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    sent: AtomicU64,
    in_flight: AtomicU32,
    peak_in_flight: AtomicU32,
}

impl Progress {
    /// Returns the rows of the plan that the replay has taken up so far.
    pub fn planned(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    /// Returns the outcomes handed over so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns the failures among them, unsent rows included.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns the sent ones among them.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the requests in flight: their connection stands, and the answer is not in yet.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Returns the most requests that were in flight at once.
    pub fn peak_in_flight(&self) -> u32 {
        self.peak_in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn take_up(&self) {
        self.planned.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request in and returns how many are in flight with it.
    pub(super) fn enter(&self) -> u32 {
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        self.peak_in_flight.fetch_max(now, Ordering::Relaxed);
        now
    }

    pub(super) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn record(&self, sent: bool, failed: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.sent.fetch_add(u64::from(sent), Ordering::Relaxed);
        self.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
    }
}
