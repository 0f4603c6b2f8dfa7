//! Arrivals of turns that state only how long after the turn before they come.
//!
//! AIPerf's inputs give a later turn a delay after the answer before it, and no time. Here its
//! arrival becomes that of the session's row before it in the file plus the delay: the answer's
//! duration is not known, so it is the earliest it can be (`delay_after_parent`). Packed rows in
//! the order of the file -> the same rows, with arrivals and keys.

use super::codec::{self, Names};
use super::decode::{Decoded, key_of};
use super::error::IngestError;
use crate::domain::record::{ArrivalSource, Hash128};
use crate::domain::time::WallTime;
use std::collections::HashMap;

/// The latest arrival of each session of one file.
#[derive(Debug, Default)]
pub(super) struct Delays {
    last: HashMap<Hash128, WallTime>,
    names: Names,
}

impl Delays {
    /// Gives the rows of a chunk their arrivals; a row without an earlier one keeps none.
    ///
    /// # Errors
    ///
    /// If a row cannot be unpacked.
    pub(super) fn place(&mut self, decoded: Decoded) -> Result<Decoded, IngestError> {
        let mut placed = Decoded { rows: Vec::new(), index: Vec::new(), ..decoded };
        let mut from = 0;
        for (key, to) in decoded.index {
            let bytes = decoded.rows.get(from..to).unwrap_or_default();
            from = to;
            let draft = codec::decode(bytes, &mut self.names);
            let mut draft = draft.ok_or_else(|| IngestError::Spill {
                path: "memory".into(),
                source: std::io::ErrorKind::InvalidData.into(),
            })?;
            let row = &mut draft.row;
            if row.arrival_source == ArrivalSource::DelayAfterParent && row.arrival_time.is_none() {
                let before = row.session_id_hash.and_then(|session| self.last.get(&session));
                let delay = row.think_time_us.filter(|delay| *delay >= 0);
                row.arrival_time = before.zip(delay).map(|(at, delay)| at.plus_micros(delay));
            }
            if let Some((session, arrival)) = row.session_id_hash.zip(row.arrival_time) {
                self.last.insert(session, arrival);
                placed.latest = placed.latest.max(Some(arrival));
            }
            let [_, file, place] = key;
            let [arrival, ..] = key_of(draft.row.arrival_time, 0, (None, 0));
            codec::encode(&draft, &mut placed.rows);
            placed.index.push(([arrival, file, place], placed.rows.len()));
        }
        Ok(placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::RequestRecord;
    use crate::ingest::format::Draft;

    #[test]
    fn delays_count_from_the_row_before() {
        let mut decoded = Decoded::default();
        let rows =
            [(1, Some(5), None), (1, None, Some(10)), (2, None, Some(10)), (1, None, Some(1))];
        for (line, (session, arrival, delay)) in (1..).zip(rows) {
            let mut row = RequestRecord::unknown("aiperf-sessions".into(), 0, line);
            row.session_id_hash = Some(Hash128([session; 16]));
            row.arrival_time = arrival.map(WallTime);
            row.think_time_us = delay;
            row.arrival_source =
                arrival.map_or(ArrivalSource::DelayAfterParent, |_| ArrivalSource::RelativeOrigin);
            let key = key_of(row.arrival_time, 0, (row.source_line, 0));
            codec::encode(&Draft::from(row), &mut decoded.rows);
            decoded.index.push((key, decoded.rows.len()));
        }
        let placed = Delays::default().place(decoded).unwrap();
        let (mut from, mut names, mut found) = (0, Names::default(), Vec::new());
        for (key, to) in &placed.index {
            let row = codec::decode(&placed.rows[from..*to], &mut names).unwrap().row;
            assert_eq!(key_of(row.arrival_time, 0, (row.source_line, 0)), *key);
            found.push(row.arrival_time.map(|at| at.0));
            from = *to;
        }
        assert_eq!(found, [Some(5), Some(15), None, Some(16)]);
        assert_eq!(placed.latest, Some(WallTime(16)));
    }
}
