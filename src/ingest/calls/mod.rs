//! Puts the records of one call together: attempts, parts, and versions of a row.
//!
//! Drafts in order of arrival -> drafts in order of arrival, one per call. What ties records is
//! in `links`, how they become one in `merge`; side spans and embeddings are evidence of
//! retrieval for the requests after them (`evidence`), and rows that came twice are noticed
//! (`repeats`). Drafts without arrival come first, in the order of the files.
//!
//! Rows wait only while a record before them may still be continued. The queue has a limit in
//! bytes; beyond it the oldest row is taken as complete, which is counted. Two runs over the same
//! input give the same rows. Sessions are put together later.

mod evidence;
mod links;
mod merge;
mod repeats;

use super::error::IngestError;
use super::format::{Draft, Role};
use crate::domain::convert;
use crate::domain::trace::{Decision, IngestCounts};
use evidence::Evidence;
use links::Link;
use repeats::{Repeat, Repeats};
use std::collections::{HashMap, VecDeque};

/// Rows that may wait, in bytes of memory; beyond it the oldest one is taken as complete.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// What became of the records that are no rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Records merged into the row of another one of the same call.
    pub merged: u64,
    /// Records of which a later version, or the same one again, is the row.
    pub older_versions: u64,
    /// Those of `merged` that only a session id links.
    pub by_session: u64,
    /// Spans of retrievals and tools: evidence, never rows.
    pub side_spans: u64,
    /// Those of `older_versions` that are equal to another record in everything.
    pub exact_repeats: u64,
    /// Rows with the request id, the arrival and the counts of another row, but not all the rest.
    pub repeated_ids: u64,
    /// Rows taken as complete early because too many waited.
    pub let_go: u64,
}

impl CallCounts {
    /// Moves the records that became no row from the kept ones to where they belong. Side spans
    /// are counted as they are read.
    pub fn settle(&self, counts: &mut IngestCounts) {
        counts.merged += self.merged;
        counts.kept = counts.kept.saturating_sub(self.merged + self.older_versions);
        if self.older_versions > 0 {
            *counts.dropped.entry("older_version".to_owned()).or_insert(0) += self.older_versions;
        }
    }

    /// Returns what deserves a line at the end.
    pub fn decisions(&self) -> Vec<Decision> {
        let line = |count: u64, what: &str, why: &str| {
            let decision =
                Decision { what: what.to_owned(), value: count.to_string(), why: why.to_owned() };
            (count > 0).then_some(decision)
        };
        let lines = [
            line(
                self.by_session,
                "attempts linked by session id",
                "no trace id; one model and input, and a failure up to 5 s before",
            ),
            line(
                self.exact_repeats,
                "records found twice",
                "equal in everything: a log exported twice, or files that overlap; counted once",
            ),
            line(
                self.repeated_ids,
                "request ids found twice",
                "same arrival and counts, but not all the rest: both rows are kept",
            ),
            line(
                self.let_go,
                "calls closed early",
                "too many rows waited for further attempts; later ones count as own rows",
            ),
        ];
        lines.into_iter().flatten().collect()
    }
}

/// Puts calls together over a stream of drafts in order of arrival.
#[derive(Debug)]
pub struct Calls<I> {
    drafts: I,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Number of the first waiting row.
    first: u64,
    /// The latest open row of a link, by number.
    open: HashMap<Link, u64, foldhash::fast::FixedState>,
    /// The latest arrival read.
    now_us: Option<i64>,
    evidence: Evidence,
    repeats: Repeats,
    counts: CallCounts,
    done: bool,
    max_waiting_bytes: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The call so far; `None` once it moved to a later place.
    draft: Option<Box<Draft>>,
    /// The records behind it where they are parts, with their ranks.
    parts: Vec<(u8, Draft)>,
    /// What leads to it in the table of open rows.
    links: Vec<Link>,
    /// Until when it may be continued; `None` when it is complete.
    open_until_us: Option<i64>,
}

impl Waiting {
    /// Returns whether a part of this rank is still missing: two of one rank are two calls.
    fn lacks_rank_of(&self, part: &Draft) -> bool {
        let rank = |draft: &Draft| match draft.join.map(|join| join.role) {
            Some(Role::Part(rank)) => Some(rank),
            _ => None,
        };
        let Some(wanted) = rank(part) else { return true };
        let first = self.draft.as_deref().and_then(rank).filter(|_| self.parts.is_empty());
        first != Some(wanted) && !self.parts.iter().any(|(known, _)| *known == wanted)
    }

    fn weight_bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|(_, part)| merge::weight_bytes(part)).sum();
        parts + self.draft.as_deref().map_or(0, merge::weight_bytes)
    }
}

impl<I: Iterator<Item = Result<Draft, IngestError>>> Calls<I> {
    /// Puts together the calls among `drafts`.
    pub fn new(drafts: I) -> Self {
        Self {
            drafts,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            first: 0,
            open: HashMap::default(),
            now_us: None,
            evidence: Evidence::new(),
            repeats: Repeats::default(),
            counts: CallCounts::default(),
            done: false,
            max_waiting_bytes: MAX_WAITING_BYTES,
        }
    }

    /// Returns the counts so far.
    pub const fn counts(&self) -> CallCounts {
        self.counts
    }

    fn take(&mut self, mut draft: Draft) {
        self.now_us = self.now_us.max(draft.row.arrival_time.map(|at| at.0));
        if let Some(join) = draft.join
            && matches!(join.role, Role::Retrieval | Role::Tool)
        {
            self.counts.side_spans += 1;
            if join.role == Role::Retrieval {
                self.evidence.note_retrieval(join.key, draft.row.arrival_time);
            }
            return;
        }
        match self.repeats.look(&draft) {
            Repeat::Exact => {
                self.counts.older_versions += 1;
                self.counts.exact_repeats += 1;
                return;
            }
            Repeat::SameId => self.counts.repeated_ids += 1,
            Repeat::None => {}
        }
        self.evidence.mark(&mut draft);
        for link in Link::all_of(&draft).into_iter().flatten() {
            let Some(number) = self.open.get(&link).copied() else { continue };
            let continued = self.waiting_at(number).is_some_and(|waiting| {
                let earlier = waiting.draft.as_deref();
                earlier.is_some_and(|earlier| {
                    links::continues(earlier, &draft, link) && waiting.lacks_rank_of(&draft)
                })
            });
            if continued {
                self.join(number, draft, link);
                return;
            }
        }
        self.push(Waiting { draft: Some(Box::new(draft)), ..Waiting::default() });
    }

    fn waiting_at(&mut self, number: u64) -> Option<&mut Waiting> {
        let place = convert::index(number.checked_sub(self.first)?)?;
        self.waiting.get_mut(place)
    }

    /// Puts a record into the row it continues.
    fn join(&mut self, number: u64, later: Draft, link: Link) {
        let Some(waiting) = self.waiting_at(number).map(std::mem::take) else { return };
        self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.weight_bytes());
        let Waiting { draft: Some(earlier), mut parts, links, .. } = waiting else { return };
        let arrived = earlier.row.arrival_time;
        match link {
            Link::Version(_) => self.counts.older_versions += 1,
            _ => self.counts.merged += 1,
        }
        self.counts.by_session += u64::from(matches!(link, Link::Session(_)));
        let draft = match link {
            Link::Part(_) => merge::add_part(*earlier, later, &mut parts),
            Link::Version(_) => merge::later_version(*earlier, later),
            Link::Attempt(_) | Link::Trace(_) | Link::Session(_) => {
                merge::attempts(*earlier, later)
            }
        };
        let stays = draft.row.arrival_time == arrived;
        let joined = Waiting { draft: Some(Box::new(draft)), parts, links, open_until_us: None };
        if stays {
            let joined = self.registered(number, joined);
            self.waiting_bytes += joined.weight_bytes();
            if let Some(place) = self.waiting_at(number) {
                *place = joined;
            }
        } else {
            // The place of the earlier record stays empty; the row goes where its arrival puts it.
            self.push(joined);
        }
    }

    fn push(&mut self, waiting: Waiting) {
        let number = self.first + convert::count(self.waiting.len());
        let waiting = self.registered(number, waiting);
        self.waiting_bytes += waiting.weight_bytes();
        self.waiting.push_back(waiting);
    }

    /// Enters a row into the table of open rows.
    fn registered(&mut self, number: u64, mut waiting: Waiting) -> Waiting {
        let Some(draft) = waiting.draft.as_deref() else { return waiting };
        waiting.open_until_us = links::open_until(draft);
        if waiting.open_until_us.is_some() {
            for link in Link::all_of(draft).into_iter().flatten() {
                if !waiting.links.contains(&link) {
                    waiting.links.push(link);
                }
            }
        }
        self.open.extend(waiting.links.iter().map(|link| (*link, number)));
        waiting
    }

    /// Returns whether the oldest waiting row is complete.
    fn front_is_complete(&mut self) -> bool {
        let Some(front) = self.waiting.front() else { return false };
        let full = self.waiting_bytes > self.max_waiting_bytes;
        let waits = match (front.open_until_us, self.now_us) {
            _ if self.done || front.draft.is_none() => false,
            (None, _) => false,
            (Some(until), Some(now)) => until >= now,
            (Some(_), None) => true,
        };
        self.counts.let_go += u64::from(waits && full);
        full || !waits
    }

    fn pop(&mut self) -> Option<Draft> {
        let front = self.waiting.pop_front()?;
        for link in &front.links {
            if self.open.get(link) == Some(&self.first) {
                self.open.remove(link);
            }
        }
        self.waiting_bytes = self.waiting_bytes.saturating_sub(front.weight_bytes());
        self.first += 1;
        front.draft.map(|draft| *draft)
    }
}

impl<I: Iterator<Item = Result<Draft, IngestError>>> Iterator for Calls<I> {
    type Item = Result<Draft, IngestError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while self.front_is_complete() {
                if let Some(draft) = self.pop() {
                    return Some(Ok(draft));
                }
            }
            if self.done {
                return None;
            }
            match self.drafts.next() {
                Some(Ok(draft)) => self.take(draft),
                Some(Err(error)) => return Some(Err(error)),
                None => self.done = true,
            }
        }
    }
}

#[cfg(test)]
mod tests;
