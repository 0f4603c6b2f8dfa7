//! One chunk of a log -> what became of its records, in order: the work that threads share.
//!
//! Rows leave as packed bytes with the key of the sort, so that what waits between threads is
//! small. Which thread decodes a chunk changes nothing in the result.

use super::chunk::{self, Chunk, Plan};
use super::error::IngestError;
use super::external::Key;
use super::format::{Adapter, At, Item, Out, Refusal, Role, Shared};
use super::loose::FieldError;
use super::{codec, contents};
use crate::domain::convert;
use crate::domain::position::Position;
use crate::domain::time::WallTime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One file, as the threads that decode it need it.
#[derive(Clone)]
pub struct Job {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// Its number.
    pub file_id: u32,
    /// How its records are read.
    pub plan: Arc<Plan>,
    /// What decodes them.
    pub adapter: Arc<dyn Adapter>,
    /// Whether kept records are handed on as they stand, too.
    pub with_content: bool,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("file", &self.file).finish_non_exhaustive()
    }
}

/// What became of the records of a chunk.
#[derive(Debug, Default)]
pub struct Decoded {
    /// Packed rows, one after the other.
    pub rows: Vec<u8>,
    /// Key and end of each row in `rows`.
    pub index: Vec<(Key, usize)>,
    /// Number of the file.
    pub file_id: u32,
    /// Records read.
    pub read: u64,
    /// Rows that are requests.
    pub kept: u64,
    /// Records left out, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Records refused.
    pub rejects: Vec<(Position, FieldError)>,
    /// Whether a row shows something by which it could belong to a session.
    pub has_links: bool,
    /// The latest arrival.
    pub latest: Option<WallTime>,
    /// Lines with the kept records as they stand; empty unless asked for.
    pub contents: Vec<u8>,
    /// Why the whole ingest stops here.
    pub stop: Option<IngestError>,
}

/// Reason under which records are counted that are evidence for requests, and none themselves.
const SIDE_SPAN: &str = "side_span";

/// Decodes the records of a chunk.
pub fn decode(job: &Job, chunk: &Chunk, shared: &mut Shared) -> Decoded {
    let mut decoded = Decoded { file_id: job.file_id, ..Decoded::default() };
    let mut out = Out::default();
    chunk::for_each(chunk, &job.plan, &*job.adapter, &mut |place, input| {
        if decoded.stop.is_some() {
            return;
        }
        let at = At { file_id: job.file_id, line: place.line };
        out.items.clear();
        let result = match &input {
            Ok(input) => job.adapter.decode(*input, at, shared, &mut out),
            Err(error) => Err(Refusal::Reject(error.clone())),
        };
        let position = || Position { file: job.file.clone(), line: place.line, byte: place.byte };
        match result {
            Ok(()) => {
                let is_kept = out.items.iter().any(|item| matches!(item, Item::Keep(_)));
                if let Ok(input) = input
                    && job.with_content
                    && is_kept
                {
                    contents::line_of(at, input, &mut decoded.contents);
                }
                for (sub, item) in out.items.drain(..).enumerate() {
                    decoded.take(item, convert::count(sub), &position);
                }
            }
            Err(Refusal::Reject(error)) => {
                decoded.read += 1;
                decoded.rejects.push((position(), error));
            }
            Err(Refusal::MixedUnits { column, expected }) => {
                decoded.stop =
                    Some(IngestError::MixedUnits { at: position(), column, unit: expected });
            }
        }
    });
    decoded
}

impl Decoded {
    fn take(&mut self, item: Item, sub: u64, position: &impl Fn() -> Position) {
        self.read += 1;
        match item {
            Item::Keep(draft) => {
                let role = draft.join.map(|join| join.role);
                if matches!(role, Some(Role::Retrieval | Role::Tool)) {
                    *self.dropped.entry(SIDE_SPAN).or_insert(0) += 1;
                } else {
                    self.kept += 1;
                    self.latest = self.latest.max(draft.row.arrival_time);
                }
                codec::encode(&draft, &mut self.rows);
                let row = &draft.row;
                self.has_links |= row.session_id_hash.is_some()
                    || draft.chain.is_some()
                    || !row.prefix_block_hashes.is_empty();
                let key = key_of(row.arrival_time, row.source_file_id, (row.source_line, sub));
                self.index.push((key, self.rows.len()));
            }
            Item::Drop(reason) => *self.dropped.entry(reason).or_insert(0) += 1,
            Item::Reject(error) => self.rejects.push((position(), error)),
        }
    }
}

/// Returns the key of a row: arrival (none first), file, line, place in the line.
pub(super) fn key_of(arrival: Option<WallTime>, file_id: u32, place: (Option<u64>, u64)) -> Key {
    // The order of signed numbers as that of unsigned ones.
    let arrival = arrival.map_or(0, |at| at.0.cast_unsigned() ^ (1 << 63));
    let (line, sub) = place;
    let low = line.unwrap_or(0).min((1 << 40) - 1) << 24 | sub.min((1 << 24) - 1);
    [arrival, u64::from(file_id), low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_a_trace_does() {
        let at =
            |micros: i64, file, line, sub| key_of(Some(WallTime(micros)), file, (Some(line), sub));
        let keys = [
            key_of(None, 9, (None, 0)),
            at(-5, 0, 1, 0),
            at(3, 0, 9, 0),
            at(4, 0, 1, 0),
            at(4, 0, 1, 1),
            at(4, 0, 2, 0),
            at(4, 1, 1, 0),
        ];
        assert!(keys.is_sorted() && keys.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
