//! The turns of the last day, found by what a later turn may name.
//!
//! Turns in order of arrival -> the latest turn with a key that may be a parent. Bounded by age
//! and by bytes; beyond either the oldest turn goes, the second being counted. Keys are hashes of
//! messages, exchanges, ids or blocks, mixed with the owner of the request.

use crate::domain::convert;
use crate::domain::record::Hash128;
use std::collections::{HashMap, VecDeque};

/// How long a turn may be continued, in microseconds.
pub(super) const DAY_US: i64 = 86_400_000_000;
/// Memory of the turns and their keys, in bytes.
const MAX_BYTES: usize = 88 << 20;
/// About the bytes of a key in the table.
const KEY_BYTES: usize = 36;
/// Turns of one key that are looked at, the latest one first.
const MAX_STEPS: usize = 24;

/// What a key is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All messages, and the answer where it is known.
    Messages,
    /// The same without system messages.
    NoSystem,
    /// The last user message and its answer.
    Exchange,
    /// The id by which a later request names the turn.
    Own,
    /// All messages of the request alone.
    List,
    /// The full blocks of the prompt.
    Blocks,
    /// As `Messages` where the answer is known and the owner too, for turns that name none.
    Anyone,
}

/// Kinds of keys.
pub(super) const KINDS: usize = 7;

impl Kind {
    const fn place(self) -> usize {
        match self {
            Self::Messages => 0,
            Self::NoSystem => 1,
            Self::Exchange => 2,
            Self::Own => 3,
            Self::List => 4,
            Self::Blocks => 5,
            Self::Anyone => 6,
        }
    }
}

/// A request that later ones may continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) row_id: u64,
    /// Arrival; the smallest number where it is not known.
    pub(super) arrival_us: i64,
    pub(super) end_us: Option<i64>,
    /// The session, or what it will be made of.
    pub(super) session: Hash128,
    pub(super) depth: u32,
    /// Whether it has a session, and so a place.
    pub(super) is_announced: bool,
    pub(super) failed: bool,
    /// Whether the keys over messages hold the answer.
    pub(super) has_answer: bool,
    pub(super) input_tokens: Option<u32>,
    /// One per kind; 0 for none.
    pub(super) keys: [u64; KINDS],
    /// One more than the number of the turn before it with the same key; 0 for none.
    pub(super) before: [u64; KINDS],
}

impl Turn {
    /// Sets the key of a kind.
    pub(super) fn set(&mut self, kind: Kind, key: u64) {
        if let Some(place) = self.keys.get_mut(kind.place()) {
            *place = key;
        }
    }

    fn weight_bytes(&self) -> usize {
        size_of::<Self>() + KEY_BYTES * self.keys.iter().filter(|key| **key != 0).count()
    }
}

/// The turns that may be continued.
#[derive(Debug)]
pub(super) struct Window {
    turns: VecDeque<Turn>,
    first: u64,
    /// The latest turn of a key.
    latest: HashMap<u64, u64, foldhash::fast::FixedState>,
    bytes: usize,
    pub(super) max_bytes: usize,
    /// Turns that went before their time.
    pub(super) forgotten: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
            first: 0,
            latest: HashMap::default(),
            bytes: 0,
            max_bytes: MAX_BYTES,
            forgotten: 0,
        }
    }
}

impl Window {
    /// Forgets the turns that are older than a day.
    pub(super) fn forget(&mut self, now_us: i64) {
        let is_old = |turn: &Turn| now_us.saturating_sub(turn.arrival_us) > DAY_US;
        while self.turns.front().is_some_and(is_old) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some(turn) = self.turns.pop_front() else { return };
        for key in turn.keys.iter().filter(|key| **key != 0) {
            if self.latest.get(key) == Some(&self.first) {
                self.latest.remove(key);
            }
        }
        self.bytes = self.bytes.saturating_sub(turn.weight_bytes());
        self.first += 1;
    }

    /// Adds the latest turn.
    pub(super) fn add(&mut self, mut turn: Turn) {
        let number = self.first + convert::count(self.turns.len());
        for (key, before) in turn.keys.iter().zip(&mut turn.before) {
            if *key != 0 {
                *before = self.latest.insert(*key, number).map_or(0, |earlier| earlier + 1);
            }
        }
        self.bytes += turn.weight_bytes();
        self.turns.push_back(turn);
        while self.bytes > self.max_bytes {
            self.forget_first();
            self.forgotten += 1;
        }
    }

    /// Returns a turn by its number.
    pub(super) fn turn(&self, number: u64) -> Option<&Turn> {
        self.turns.get(convert::index(number.checked_sub(self.first)?)?)
    }

    /// The same, to change it.
    pub(super) fn turn_mut(&mut self, number: u64) -> Option<&mut Turn> {
        self.turns.get_mut(convert::index(number.checked_sub(self.first)?)?)
    }

    /// Returns the latest turn with a key that is as wanted, and whether there is another one.
    pub(super) fn find(
        &self,
        kind: Kind,
        key: u64,
        is_wanted: impl Fn(&Turn) -> bool,
    ) -> Option<(u64, bool)> {
        let mut number = *self.latest.get(&key)?;
        let mut found = None;
        for _ in 0..MAX_STEPS {
            let Some(turn) = self.turn(number) else { break };
            if is_wanted(turn) {
                match found {
                    None => found = Some(number),
                    Some(first) => return Some((first, true)),
                }
            }
            match turn.before.get(kind.place()).and_then(|before| before.checked_sub(1)) {
                Some(before) => number = before,
                None => break,
            }
        }
        found.map(|number| (number, false))
    }
}

/// Returns the key of a hash for an owner; never 0.
pub(super) fn key(kind: Kind, hash: u64, owner: u64) -> u64 {
    let kind = convert::count(kind.place()) + 1;
    let mixed = (hash ^ owner.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31))
        .wrapping_add(kind.wrapping_mul(0xD6E8_FEB8_6659_FD93));
    mixed.max(1)
}

/// Returns a keyed hash in half its length.
pub(super) fn half(hash: Hash128) -> u64 {
    let [high, low] = super::halves(hash);
    high ^ low.rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(row_id: u64, arrival_us: i64, key: u64) -> Turn {
        let mut turn = Turn {
            row_id,
            arrival_us,
            end_us: None,
            session: Hash128([0; 16]),
            depth: 0,
            is_announced: false,
            failed: false,
            has_answer: true,
            input_tokens: None,
            keys: [0; KINDS],
            before: [0; KINDS],
        };
        turn.set(Kind::Messages, key);
        turn
    }

    #[test]
    fn the_latest_turn_that_fits_is_found() {
        let mut window = Window::default();
        for (row, at) in [(0, 0), (1, 10), (2, 20)] {
            window.add(turn(row, at, 5));
        }
        window.add(turn(3, 30, 6));
        assert_eq!(window.find(Kind::Messages, 5, |_| true), Some((2, true)));
        assert_eq!(window.find(Kind::Messages, 5, |turn| turn.arrival_us < 20), Some((1, true)));
        assert_eq!(window.find(Kind::Messages, 5, |turn| turn.arrival_us < 10), Some((0, false)));
        assert_eq!(window.find(Kind::Messages, 5, |_| false), None);
        assert_eq!(window.find(Kind::Messages, 7, |_| true), None);
    }

    #[test]
    fn old_turns_go_and_leave_nothing() {
        let mut window = Window::default();
        window.add(turn(0, 0, 5));
        window.add(turn(1, 1, 5));
        window.forget(DAY_US);
        assert_eq!(window.turns.len(), 2, "a day is allowed");
        window.forget(DAY_US + 1);
        assert_eq!(window.find(Kind::Messages, 5, |_| true), Some((1, false)));
        window.forget(DAY_US + 2);
        assert_eq!((window.turns.len(), window.latest.len(), window.bytes), (0, 0, 0));
        assert_eq!(window.forgotten, 0);
    }

    #[test]
    fn a_full_window_lets_the_oldest_go() {
        let max_bytes = 3 * turn(0, 0, 1).weight_bytes();
        let mut window = Window { max_bytes, ..Window::default() };
        for row in 0..10 {
            window.add(turn(row, 0, row + 1));
        }
        assert_eq!((window.turns.len(), window.latest.len(), window.forgotten), (3, 3, 7));
        assert_eq!(window.find(Kind::Messages, 7, |_| true), None);
        assert_eq!(window.find(Kind::Messages, 8, |_| true), Some((7, false)));
    }

    #[test]
    fn keys_tell_kinds_and_owners_apart() {
        let all = [
            key(Kind::Messages, 7, 0),
            key(Kind::Messages, 7, 1),
            key(Kind::NoSystem, 7, 0),
            key(Kind::Messages, 8, 0),
        ];
        let distinct: std::collections::BTreeSet<_> = all.into_iter().collect();
        assert_eq!(distinct.len(), 4);
    }
}
