//! Evidence of retrieval that stands outside a request: spans before it, embeddings before it.
//!
//! In order of arrival: retrievals and rows in, labels on rows out.
//!
//! - `span_retrieval` (explicit): a retrieval in the trace of the request started up to 10 minutes
//!   before it.
//! - `embed_before` (strong): an embedding or reranking by the same user or key ended up to 5 s
//!   before, of the text of the request's last user message, as far as hashes tell.
//! - `embed_before_weak` (heuristic): the same where a text is not known; it explains one request.
//!
//! Tables are bounded in time and size; beyond it the oldest entry goes.

use crate::domain::record::{Hash128, RagLabel, RequestRecord};
use crate::domain::time::WallTime;
use crate::ingest::format::Draft;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How long a retrieval explains the requests of its trace, in microseconds.
const RETRIEVAL_US: i64 = 600_000_000;
/// How long an embedding explains the next request, in microseconds.
const EMBEDDING_US: i64 = 5_000_000;
/// Longest wait for the end of an embedding, in microseconds.
const MAX_EMBEDDING_US: i64 = 60_000_000;
/// Entries of each table.
const MAX_ENTRIES: usize = 50_000;

/// What was seen lately.
#[derive(Debug)]
pub(super) struct Evidence {
    retrievals: Lately,
    embeddings: Lately,
    span_retrieval: Arc<str>,
    embed_before: Arc<str>,
    embed_before_weak: Arc<str>,
}

impl Evidence {
    pub(super) fn new() -> Self {
        Self {
            retrievals: Lately::default(),
            embeddings: Lately::default(),
            span_retrieval: "span_retrieval".into(),
            embed_before: "embed_before".into(),
            embed_before_weak: "embed_before_weak".into(),
        }
    }

    /// Takes note of a retrieval in a trace.
    pub(super) fn note_retrieval(&mut self, trace: Hash128, started: Option<WallTime>) {
        if let Some(started) = started {
            self.retrievals.add(trace, started, Event { number: 0, ended: started, text: None });
        }
    }

    /// Labels a row by what was before it, and takes note of it where it is an embedding.
    pub(super) fn mark(&mut self, draft: &mut Draft) {
        let row = &mut draft.row;
        let Some(arrival) = row.arrival_time else { return };
        let owner = row.user_hash.or(row.key_hash);
        let text = draft.chain.as_deref().and_then(|chain| chain.last_user);
        if !row.is_generation() {
            if let Some(owner) = owner.filter(|_| !row.status.is_failure()) {
                let ended = row.end_time.unwrap_or(arrival);
                self.embeddings.add(owner, arrival, Event { number: 0, ended, text });
            }
            return;
        }
        self.retrievals.forget(arrival, RETRIEVAL_US);
        self.embeddings.forget(arrival, MAX_EMBEDDING_US);
        if let Some(trace) = row.trace_id_hash
            && self.retrievals.latest(trace, |_| true).is_some()
        {
            note(row, RagLabel::Explicit, &self.span_retrieval);
        }
        let Some(owner) = owner else { return };
        let before =
            |event: &Event| (0..=EMBEDDING_US).contains(&arrival.micros_since(event.ended));
        let same = |event: &Event| before(event) && text.is_some() && event.text == text;
        let unknown = |event: &Event| before(event) && (text.is_none() || event.text.is_none());
        if self.embeddings.latest(owner, same).is_some() {
            note(row, RagLabel::Strong, &self.embed_before);
        } else if let Some(found) = self.embeddings.latest(owner, unknown) {
            self.embeddings.claim(owner, found);
            note(row, RagLabel::Heuristic, &self.embed_before_weak);
        }
    }
}

fn note(row: &mut RequestRecord, label: RagLabel, rule: &Arc<str>) {
    row.rag_label = row.rag_label.min(label);
    if !row.rag_evidence.contains(rule) {
        row.rag_evidence.push(rule.clone());
        row.rag_evidence.sort_unstable();
    }
}

/// A retrieval or an embedding.
#[derive(Clone, Copy, Debug)]
struct Event {
    number: u64,
    ended: WallTime,
    /// Hash of the text, where it is known.
    text: Option<Hash128>,
}

/// Events by id, the oldest ones forgotten.
#[derive(Debug, Default)]
struct Lately {
    /// The events of an id, the latest one last.
    by_id: HashMap<Hash128, VecDeque<Event>, foldhash::fast::FixedState>,
    /// Id and start, in order of the starts.
    order: VecDeque<(Hash128, WallTime)>,
    /// Number of the first entry in `order`.
    first: u64,
}

impl Lately {
    fn add(&mut self, id: Hash128, started: WallTime, event: Event) {
        if self.order.len() >= MAX_ENTRIES {
            self.forget_first();
        }
        let number = self.first + crate::domain::convert::count(self.order.len());
        self.order.push_back((id, started));
        self.by_id.entry(id).or_default().push_back(Event { number, ..event });
    }

    /// Forgets what started more than `age_us` before `now`.
    fn forget(&mut self, now: WallTime, age_us: i64) {
        while self.order.front().is_some_and(|(_, started)| now.micros_since(*started) > age_us) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((id, _)) = self.order.pop_front() else { return };
        self.first += 1;
        if let Some(entries) = self.by_id.get_mut(&id) {
            while entries.front().is_some_and(|event| event.number < self.first) {
                entries.pop_front();
            }
            if entries.is_empty() {
                self.by_id.remove(&id);
            }
        }
    }

    /// Returns the number of the latest event of an id that is as wanted.
    fn latest(&self, id: Hash128, is_wanted: impl Fn(&Event) -> bool) -> Option<u64> {
        let entries = self.by_id.get(&id)?;
        entries.iter().rev().take(8).find(|event| is_wanted(event)).map(|event| event.number)
    }

    /// Takes an entry away, so that it explains one request only.
    fn claim(&mut self, id: Hash128, number: u64) {
        if let Some(entries) = self.by_id.get_mut(&id) {
            entries.retain(|event| event.number != number);
            if entries.is_empty() {
                self.by_id.remove(&id);
            }
        }
    }
}
