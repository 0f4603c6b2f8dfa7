//! Puts the turns of one session in order: id, turn, previous turn, think time, kind of request.
//!
//! Two passes over the rows in their final order. The first ([`Linker`]) groups the ids of the log
//! by an external sort and looks for the turn before each request (`chains`); the second
//! ([`Placer`]) writes what was found into the rows. An id on one row only is no session, since
//! some gateways invent one per request. The log's own ids come first; where rows have both, the
//! ids are hidden from the rules, and the links they give are measured against the ids.
//!
//! Times in microseconds. A turn's parent is the row it continues; several rows may continue one,
//! so sessions are trees and the turn is the depth. Turns that overlap have a negative think time.
//! Sessions by idle gaps of a key are not offered: measured, they are more often wrong than right.

mod chains;
mod place;
mod placer;
mod sketch;
#[cfg(test)]
mod synthetic;
mod window;

use super::error::IngestError;
use super::external::{External, SortedBytes};
use super::format::Draft;
use super::privacy::{Column, Hasher};
use crate::domain::record::{Hash128, SessionSource};
use chains::Chains;
use place::{EXPLICIT, INFERRED, IdRow, Place};
pub use placer::Placer;
use std::path::{Path, PathBuf};

/// Memory of each of the two sorts, in bytes.
const SORT_BYTES: usize = 16 << 20;

/// The first pass: takes the rows in their final order.
#[derive(Debug)]
pub struct Linker {
    hasher: Hasher,
    keep_scenario: bool,
    folder: PathBuf,
    /// The rows that have an id, by id and row.
    ids: External,
    /// What was inferred, by row.
    places: External,
    chains: Chains,
    counts: LinkCounts,
}

/// What was seen while looking for links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LinkCounts {
    /// Links with more than one turn to choose from.
    several: u64,
    /// Requests sent again while the first was on its way, or soon after its error.
    retries: u64,
    /// Turns that only bring results of tools.
    tool_turns: u64,
    /// Turns forgotten before their time.
    forgotten: u64,
}

impl Linker {
    /// Makes a linker that sorts in a folder below `folder`.
    pub fn new(options: &super::Options, folder: &Path) -> Self {
        let keep_scenario = options.hints.map.iter().any(|(field, _)| *field == "scenario");
        Self::with(options.hasher.clone(), keep_scenario, folder)
    }

    fn with(hasher: Hasher, keep_scenario: bool, folder: &Path) -> Self {
        Self {
            hasher,
            keep_scenario,
            folder: folder.to_owned(),
            ids: External::new(folder, SORT_BYTES),
            places: External::new(folder, SORT_BYTES),
            chains: Chains::default(),
            counts: LinkCounts::default(),
        }
    }

    /// Takes the next row; `row_id` is its place in the trace.
    ///
    /// # Errors
    ///
    /// If what was found cannot be spilled.
    pub fn observe(&mut self, draft: &Draft, row_id: u64) -> Result<(), IngestError> {
        if let Some(session) = draft.row.session_id_hash {
            let [high, low] = halves(session);
            self.ids.push([high, low, row_id], &IdRow::of(&draft.row).encode())?;
        }
        let Some(seen) = self.chains.look(draft, row_id) else { return Ok(()) };
        let mut turn = seen.turn;
        if let Some(link) = seen.link {
            let session = self.root_session(link.parent, link.rule)?;
            turn.session = session;
            turn.depth = link.depth;
            turn.is_announced = true;
            self.counts.several += u64::from(link.several);
            self.counts.retries += u64::from(seen.is_retry);
            self.counts.tool_turns += u64::from(seen.is_tool_turn);
            let place = Place {
                session,
                source: link.rule,
                turn: link.depth,
                parent: Some(link.parent_row),
                // Sent again by a program or a hand that did not wait for an answer: no thinking.
                think_us: link.think_us.filter(|_| !seen.is_retry),
            };
            self.places.push([row_id, INFERRED, 0], &place.encode())?;
        }
        self.chains.add(turn);
        Ok(())
    }

    /// Returns the session of a turn; a root that has none yet gets one, and a place.
    fn root_session(&mut self, number: u64, rule: SessionSource) -> Result<Hash128, IngestError> {
        let Some(root) = self.chains.turn_mut(number) else { return Ok(Hash128([0; 16])) };
        if root.is_announced {
            return Ok(root.session);
        }
        let seed = format!("inferred session {:032x}", u128::from_be_bytes(root.session.0));
        root.session = self.hasher.hash(Column::Session, &seed).unwrap_or(root.session);
        root.is_announced = true;
        let place =
            Place { session: root.session, source: rule, turn: 0, parent: None, think_us: None };
        self.places.push([root.row_id, INFERRED, 0], &place.encode())?;
        Ok(root.session)
    }

    /// Ends the first pass.
    ///
    /// # Errors
    ///
    /// If the ids cannot be sorted, or the result cannot be spilled.
    pub fn finish(self) -> Result<Sessions, IngestError> {
        let Self { ids, mut places, mut counts, chains, keep_scenario, folder, .. } = self;
        counts.forgotten = chains.forgotten();
        drop(chains);
        let sorted = ids.finish()?;
        let mut rows = sorted.entries()?;
        let (mut shared_ids, mut single_ids) = (0, 0);
        let mut group: Option<Group> = None;
        while let Some((key, bytes)) = rows.next()? {
            let [high, low, row_id] = key;
            let row = IdRow::decode(bytes).ok_or_else(|| damaged(&folder))?;
            let Some(group) = group.as_mut().filter(|group| group.key == [high, low]) else {
                single_ids += u64::from(group.is_some_and(|group| group.turns == 1));
                group = Some(Group { key: [high, low], last: row, last_row: row_id, turns: 1 });
                continue;
            };
            if group.turns == 1 {
                shared_ids += 1;
                let first = group.place(None, group.last);
                places.push([group.last_row, EXPLICIT, 0], &first.encode())?;
            }
            let next = group.place(Some(group.last_row), row);
            places.push([row_id, EXPLICIT, 0], &next.encode())?;
            (group.last, group.last_row, group.turns) = (row, row_id, group.turns + 1);
        }
        single_ids += u64::from(group.is_some_and(|group| group.turns == 1));
        drop(rows);
        let places = places.finish()?;
        Ok(Sessions { places, counts, shared_ids, single_ids, keep_scenario, folder })
    }
}

/// The rows of one id so far.
#[derive(Clone, Copy, Debug)]
struct Group {
    key: [u64; 2],
    last: IdRow,
    last_row: u64,
    turns: u32,
}

impl Group {
    /// Returns the place of a row after `parent`, the last row so far; without one, the first.
    fn place(&self, parent: Option<u64>, row: IdRow) -> Place {
        let [high, low] = self.key;
        let session = Hash128(((u128::from(high) << 64) | u128::from(low)).to_be_bytes());
        let think = parent.and_then(|_| Some(row.arrival?.micros_since(self.last.end?)));
        let turn = if parent.is_some() { self.turns } else { 0 };
        Place { session, source: SessionSource::Explicit, turn, parent, think_us: think }
    }
}

/// Says that bytes in the folder of the sorts are not what was written.
fn damaged(folder: &Path) -> IngestError {
    let source = std::io::ErrorKind::InvalidData.into();
    IngestError::Spill { path: folder.to_owned(), source }
}

fn halves(hash: Hash128) -> [u64; 2] {
    let whole = u128::from_be_bytes(hash.0);
    let low = whole & u128::from(u64::MAX);
    [whole >> 64, low].map(|half| u64::try_from(half).unwrap_or(u64::MAX))
}

/// What the first pass found, by row.
#[derive(Debug)]
pub struct Sessions {
    places: SortedBytes,
    counts: LinkCounts,
    /// Ids of the log on at least two rows.
    shared_ids: u64,
    single_ids: u64,
    keep_scenario: bool,
    folder: PathBuf,
}

impl Sessions {
    /// Begins the second pass.
    ///
    /// # Errors
    ///
    /// If what was found cannot be read back.
    pub fn placer(&self) -> Result<Placer<'_>, IngestError> {
        Placer::new(self)
    }
}

#[cfg(test)]
mod tests;
