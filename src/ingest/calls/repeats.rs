//! Notices rows that came twice: a log exported twice, or files that overlap.
//!
//! Rows in order of arrival -> whether a row of the same arrival has its request id and counts, or
//! is equal in everything but its place to a row of another file. Only the rows of one arrival are remembered. Records that
//! are parts, versions or failed attempts of a call are left to the rules for those.

use crate::domain::record::{Hash128, RequestRecord};
use crate::domain::time::WallTime;
use crate::ingest::format::{Draft, Role};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

/// Rows of one arrival that are remembered.
const MAX_ROWS: usize = 50_000;
/// Beyond this room the table is made anew, since emptying it takes as long as it is large.
const SMALL: usize = 64;

/// What a row repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Nothing seen.
    None,
    /// The request id, arrival and counts of another row.
    SameId,
    /// A row of another file in everything.
    Exact,
}

/// The rows of the latest arrival.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    arrival: Option<WallTime>,
    /// Counts, fingerprint and file by request id.
    seen: HashMap<Hash128, (Counts, u64, u32), foldhash::fast::FixedState>,
}

/// Tokens in and out, and the HTTP status.
type Counts = (Option<u32>, Option<u32>, Option<u16>);

impl Repeats {
    /// Compares a record with those of its arrival, and remembers it.
    pub(super) fn look(&mut self, draft: &Draft) -> Repeat {
        let row = &draft.row;
        let role = draft.join.map(|join| join.role);
        // Two failed attempts may look the same to the clock of a gateway.
        let is_failure = role.is_some() && row.status.is_failure();
        if is_failure || matches!(role, Some(Role::Part(_) | Role::Version(_))) {
            return Repeat::None;
        }
        let Some((arrival, id)) = row.arrival_time.zip(row.request_id_hash) else {
            return Repeat::None;
        };
        if self.arrival != Some(arrival) {
            self.arrival = Some(arrival);
            if self.seen.capacity() > SMALL {
                self.seen = HashMap::default();
            }
            self.seen.clear();
        }
        let own = (counts(row), fingerprint(draft), row.source_file_id);
        match self.seen.get(&id) {
            // In one file an id may be the client's own, the same for several requests.
            Some((_, known, file)) if *known == own.1 && *file != own.2 => Repeat::Exact,
            Some((known, ..)) if *known == own.0 => Repeat::SameId,
            Some(_) => Repeat::None,
            None => {
                if self.seen.len() < MAX_ROWS {
                    self.seen.insert(id, own);
                }
                Repeat::None
            }
        }
    }
}

const fn counts(row: &RequestRecord) -> Counts {
    (row.input_tokens, row.output_tokens, row.http_status_code)
}

/// Returns a hash of what the log says about a request; the place in the files is left out.
fn fingerprint(draft: &Draft) -> u64 {
    let row = &draft.row;
    let mut state = foldhash::quality::FixedState::default().build_hasher();
    (&row.source_format, row.request_id_hash, row.trace_id_hash, row.response_id_hash)
        .hash(&mut state);
    (row.span_id_hash, row.parent_span_id_hash, row.session_id_hash, row.turn_index)
        .hash(&mut state);
    (row.user_hash, row.key_hash, row.tenant_hash).hash(&mut state);
    (row.arrival_time, row.end_time, row.duration_us, row.time_to_first_chunk_us).hash(&mut state);
    (row.queue_time_us, row.prefill_time_us, row.decode_time_us).hash(&mut state);
    (row.operation, &row.provider_name, &row.request_model, &row.response_model).hash(&mut state);
    (&row.endpoint_family, row.stream, row.max_tokens, row.choice_count).hash(&mut state);
    (row.input_tokens, row.output_tokens, row.cache_read_input_tokens).hash(&mut state);
    (row.cache_write_input_tokens, row.reasoning_output_tokens).hash(&mut state);
    (row.request_bytes, row.response_bytes, row.attempt_count).hash(&mut state);
    (row.status, row.http_status_code, &row.error_type, &row.finish_reasons).hash(&mut state);
    (row.cost.map(f64::to_bits), row.temperature.map(f64::to_bits)).hash(&mut state);
    (row.message_count, row.tool_definition_count, row.tool_call_count).hash(&mut state);
    (row.image_count, &row.prefix_block_hashes).hash(&mut state);
    if let Some(chain) = draft.chain.as_deref() {
        (chain.prefixes.last(), chain.with_answer, chain.previous, chain.own).hash(&mut state);
    }
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u8, at: i64) -> Draft {
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.request_id_hash = Some(Hash128([id; 16]));
        row.arrival_time = Some(WallTime(at));
        row.input_tokens = Some(7);
        row.into()
    }

    #[test]
    fn equal_rows_are_told_from_equal_ids() {
        let mut repeats = Repeats::default();
        assert_eq!(repeats.look(&row(1, 5)), Repeat::None);
        assert_eq!(repeats.look(&row(2, 5)), Repeat::None, "another id");
        assert_eq!(
            repeats.look(&row(2, 5)),
            Repeat::SameId,
            "in one file the id may be a client's"
        );
        let mut again = row(1, 5);
        again.row.source_file_id = 3;
        again.row.source_line = Some(9);
        assert_eq!(repeats.look(&again), Repeat::Exact, "the place does not matter");
        let mut other = row(1, 5);
        other.row.duration_us = Some(3);
        assert_eq!(repeats.look(&other), Repeat::SameId);
        let mut other = row(1, 5);
        other.row.input_tokens = Some(8);
        assert_eq!(repeats.look(&other), Repeat::None, "other counts");
        assert_eq!(repeats.look(&row(1, 6)), Repeat::None, "another arrival");
        let mut nameless = row(1, 6);
        nameless.row.request_id_hash = None;
        assert_eq!(repeats.look(&nameless), Repeat::None);
        assert_eq!(repeats.look(&nameless), Repeat::None, "no id, no repeat");
    }
}
