//! Puts rows of one session in order: turn, previous turn, think time, kind of request.
//!
//! Two passes over the sorted rows: the first counts the rows of each session id, the second
//! numbers them. An id on one row only is no session (some gateways invent one per request) and
//! is removed. Memory: one entry of about 60 bytes per session id, none per row. A turn's parent
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

    /// Completes the next row.
    pub fn place(&mut self, row: &mut RequestRecord) {
        let row_id = self.next_row;
        self.next_row += 1;
        let known = row.session_id_hash.and_then(|session| self.turns.get_mut(&session));
        let in_session = known.is_some();
        match known {
            Some(turn) => {
                if turn.turns > 0 {
                    row.parent_row_id = Some(turn.row_id);
                    let end = turn.end.zip(row.arrival_time);
                    row.think_time_us = end.map(|(end, arrival)| arrival.micros_since(end));
                }
                row.turn_index = row.turn_index.or(Some(turn.turns));
                *turn = Turn { turns: turn.turns.saturating_add(1), row_id, end: row.end_time };
            }
            None => {
                row.session_id_hash = None;
                row.session_source = SessionSource::None;
                row.turn_index = None;
            }
        }
        if !self.keep_scenario {
            row.scenario = classify(Evidence {
                uses_tools: row.tool_definition_count.is_some_and(|tools| tools > 0)
                    || row.tool_call_count.is_some_and(|calls| calls > 0),
                has_retrieval: matches!(row.rag_label, RagLabel::Explicit | RagLabel::Strong),
                in_multi_turn_session: in_session,
                output_tokens: row.output_tokens,
            });
        }
    }
}
