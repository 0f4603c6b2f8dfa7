//! Puts rows of one session in order: turn, previous turn, think time, kind of request.
//!
//! Two passes over the sorted rows: the first counts the rows of each session id, the second
//! numbers them. An id on one row only is no session (some gateways invent one per request) and
//! is removed. Memory grows with the number of different session ids, about 60 bytes each, and with
//! nothing else: where a gateway invents an id for every request, that is an entry for every row
//! in the first pass; only ids of two or more rows are kept for the second. A turn's parent
//! is the row of the session that arrived before it; overlapping turns have a negative think time.

use crate::domain::record::{Hash128, RagLabel, RequestRecord, SessionSource};
use crate::domain::scenario::{Evidence, classify};
use crate::domain::time::WallTime;
use std::collections::HashMap;

/// Rows per session id, from the first pass.
#[derive(Debug, Default)]
pub struct SessionCounts {
    rows: HashMap<Hash128, u32>,
}

impl SessionCounts {
    /// Counts a row.
    pub fn observe(&mut self, row: &RequestRecord) {
        if let Some(session) = row.session_id_hash {
            let rows = self.rows.entry(session).or_insert(0);
            *rows = rows.saturating_add(1);
        }
    }

    /// Returns the sessions of at least two rows, ready for the second pass.
    ///
    /// `keep_scenario` leaves the kind of request as it was read.
    pub fn finish(self, keep_scenario: bool) -> Sessions {
        let ids = self.rows.len();
        let turns: HashMap<Hash128, Turn> = self
            .rows
            .into_iter()
            .filter(|(_, rows)| *rows >= 2)
            .map(|(session, _)| (session, Turn::default()))
            .collect();
        let single = crate::domain::convert::count(ids - turns.len());
        Sessions { turns, single, next_row: 0, keep_scenario }
    }
}

/// The latest turn of a session.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    turns: u32,
    row_id: u64,
    end: Option<WallTime>,
}

/// Numbers the rows, in the order in which they are written.
#[derive(Debug)]
pub struct Sessions {
    turns: HashMap<Hash128, Turn>,
    single: u64,
    next_row: u64,
    keep_scenario: bool,
}

impl Sessions {
    /// Returns the sessions of at least two rows.
    pub fn sessions(&self) -> u64 {
        crate::domain::convert::count(self.turns.len())
    }

    /// Returns the session ids that stood on one row only.
    pub fn single_ids(&self) -> u64 {
        self.single
    }

    /// Tells the kind of request of a row; a filter may then leave it out.
    pub fn classify(&self, row: &mut RequestRecord) {
        let known = row.session_id_hash.and_then(|session| self.turns.get(&session));
        if !self.keep_scenario {
            row.scenario = classify(Evidence {
                uses_tools: row.tool_definition_count.is_some_and(|tools| tools > 0)
                    || row.tool_call_count.is_some_and(|calls| calls > 0),
                has_retrieval: matches!(row.rag_label, RagLabel::Explicit | RagLabel::Strong),
                in_multi_turn_session: known.is_some(),
                output_tokens: row.output_tokens,
            });
        }
    }

    /// Puts the next row of the trace into its session.
    pub fn place(&mut self, row: &mut RequestRecord) {
        let row_id = self.next_row;
        self.next_row += 1;
        let known = row.session_id_hash.and_then(|session| self.turns.get_mut(&session));
        if let Some(turn) = known {
            if turn.turns > 0 {
                row.parent_row_id = Some(turn.row_id);
                let end = turn.end.zip(row.arrival_time);
                row.think_time_us = end.map(|(end, arrival)| arrival.micros_since(end));
            }
            row.turn_index = row.turn_index.or(Some(turn.turns));
            *turn = Turn { turns: turn.turns.saturating_add(1), row_id, end: row.end_time };
        } else {
            row.session_id_hash = None;
            row.session_source = SessionSource::None;
            row.turn_index = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::scenario::Scenario;

    fn row(session: u8, arrival: i64, end: Option<i64>) -> RequestRecord {
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.session_id_hash = (session > 0).then_some(Hash128([session; 16]));
        row.session_source =
            if session > 0 { SessionSource::Explicit } else { SessionSource::None };
        row.arrival_time = Some(WallTime(arrival));
        row.end_time = end.map(WallTime);
        row
    }

    fn place(mut rows: Vec<RequestRecord>) -> (Vec<RequestRecord>, u64, u64) {
        let mut counts = SessionCounts::default();
        for row in &rows {
            counts.observe(row);
        }
        let mut sessions = counts.finish(false);
        for row in &mut rows {
            sessions.classify(row);
            sessions.place(row);
        }
        (rows, sessions.sessions(), sessions.single_ids())
    }

    #[test]
    fn turns_follow_each_other() {
        let (rows, sessions, single) = place(vec![
            row(1, 0, Some(5)),
            row(2, 1, None),
            row(1, 9, None),
            row(0, 10, None),
            row(1, 12, Some(13)),
        ]);
        assert_eq!((sessions, single), (1, 1));
        let turns: Vec<_> =
            rows.iter().map(|r| (r.turn_index, r.parent_row_id, r.think_time_us)).collect();
        assert_eq!(
            turns,
            vec![
                (Some(0), None, None),
                (None, None, None),
                (Some(1), Some(0), Some(4)),
                (None, None, None),
                (Some(2), Some(2), None),
            ]
        );
        assert_eq!(rows[1].session_id_hash, None, "an id on one row is no session");
        assert_eq!(rows[1].session_source, SessionSource::None);
        let kinds: Vec<_> = rows.iter().map(|row| row.scenario).collect();
        let (multi, single) = (Scenario::MultiTurn, Scenario::Single);
        assert_eq!(kinds, vec![multi, single, multi, single, multi]);
    }

    #[test]
    fn overlapping_turns_have_a_negative_think_time() {
        let (rows, ..) = place(vec![row(1, 0, Some(50)), row(1, 20, None)]);
        assert_eq!(rows[1].think_time_us, Some(-30));
    }

    #[test]
    fn tools_retrieval_and_long_answers_decide_the_kind() {
        let mut rows = vec![row(0, 0, None), row(0, 1, None), row(0, 2, None), row(0, 3, None)];
        rows[0].tool_call_count = Some(1);
        rows[1].rag_label = RagLabel::Explicit;
        rows[2].output_tokens = Some(1_000);
        rows[3].rag_label = RagLabel::Heuristic;
        let kinds: Vec<_> = place(rows).0.iter().map(|row| row.scenario).collect();
        assert_eq!(
            kinds,
            vec![Scenario::Agent, Scenario::Rag, Scenario::LongOutput, Scenario::Single]
        );
    }
}
