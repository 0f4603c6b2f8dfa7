//! The place of a row in its session, as bytes of fixed length for the external sorts.
//!
//! Private to one run of the program; lengths are checked on the way back.

use crate::domain::record::{Hash128, RequestRecord, SessionSource};
use crate::domain::time::WallTime;

/// Second part of the key of places by the log's ids; they come first.
pub(super) const EXPLICIT: u64 = 0;
/// The same of places that were inferred.
pub(super) const INFERRED: u64 = 1;

/// A row's place in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) session: Hash128,
    /// The rule; of the first turn of an inferred session that of the second.
    pub(super) source: SessionSource,
    pub(super) turn: u32,
    pub(super) parent: Option<u64>,
    pub(super) think_us: Option<i64>,
}

/// What the grouping by ids needs of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdRow {
    pub(super) arrival: Option<WallTime>,
    pub(super) end: Option<WallTime>,
}

/// Stands for a number that is not there.
const NONE: i64 = i64::MIN;

impl Place {
    pub(super) fn encode(&self) -> [u8; 40] {
        let source = SessionSource::ALL.iter().position(|source| *source == self.source);
        let source = source.and_then(|place| u32::try_from(place).ok()).unwrap_or(u32::MAX);
        let mut bytes = [0; 40];
        let values = self
            .session
            .0
            .into_iter()
            .chain(self.parent.unwrap_or(u64::MAX).to_le_bytes())
            .chain(self.think_us.unwrap_or(NONE).to_le_bytes())
            .chain(self.turn.to_le_bytes())
            .chain(source.to_le_bytes());
        bytes.iter_mut().zip(values).for_each(|(to, from)| *to = from);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (session, rest) = bytes.split_first_chunk::<16>()?;
        let (parent, rest) = rest.split_first_chunk::<8>()?;
        let (think, rest) = rest.split_first_chunk::<8>()?;
        let (turn, rest) = rest.split_first_chunk::<4>()?;
        let (source, _) = rest.split_first_chunk::<4>()?;
        let source = usize::try_from(u32::from_le_bytes(*source)).ok()?;
        let parent = u64::from_le_bytes(*parent);
        Some(Self {
            session: Hash128(*session),
            source: *SessionSource::ALL.get(source)?,
            turn: u32::from_le_bytes(*turn),
            parent: (parent != u64::MAX).then_some(parent),
            think_us: number(*think),
        })
    }
}

impl IdRow {
    pub(super) fn of(row: &RequestRecord) -> Self {
        Self { arrival: row.arrival_time, end: row.end_time }
    }

    pub(super) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let number = |at: Option<WallTime>| at.map_or(NONE, |at| at.0).to_le_bytes();
        let values = number(self.arrival).into_iter().chain(number(self.end));
        bytes.iter_mut().zip(values).for_each(|(to, from)| *to = from);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (arrival, rest) = bytes.split_first_chunk::<8>()?;
        let (end, _) = rest.split_first_chunk::<8>()?;
        Some(Self { arrival: number(*arrival).map(WallTime), end: number(*end).map(WallTime) })
    }
}

fn number(bytes: [u8; 8]) -> Option<i64> {
    let number = i64::from_le_bytes(bytes);
    (number != NONE).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let full = Place {
            session: Hash128([7; 16]),
            source: SessionSource::LastExchange,
            turn: 3,
            parent: Some(0),
            think_us: Some(-5),
        };
        let empty = Place { parent: None, think_us: None, source: SessionSource::None, ..full };
        for place in [full, empty] {
            assert_eq!(Place::decode(&place.encode()), Some(place));
        }
        let row = IdRow { arrival: Some(WallTime(0)), end: None };
        assert_eq!(IdRow::decode(&row.encode()), Some(row));
        assert_eq!(Place::decode(&[0; 39]), None);
        assert_eq!(IdRow::decode(&[0; 15]), None);
    }
}
