//! Which pool entry starts a prompt: each once, before any starts a second one.
//!
//! A server's prefix cache reuses blocks of 16 tokens. Two prompts that start with the same entry
//! share such a block, so an entry starts one prompt only, until every entry that fits has had its
//! turn; after that the assigner puts other words before it. Entries are kept by the smallest cut of at least 16 tokens;
//! taking one costs a look-up in a map whose size is the number of different such cuts.

use crate::domain::convert;
use crate::domain::pool_index::PoolEntry;
use std::collections::{BTreeMap, VecDeque};

/// Tokens in a block of the usual prefix caches; a first part this long marks a prompt.
pub(super) const PREFIX_TOKENS: u32 = 16;

/// A chosen first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Position in the index.
    pub(super) at: usize,
    /// The smallest cut of at least [`PREFIX_TOKENS`].
    pub(super) smallest_cut: u32,
    /// Whether the entry has started a prompt before.
    pub(super) reused: bool,
}

/// Queues of entries by the smallest cut of at least [`PREFIX_TOKENS`].
type Queues = BTreeMap<u32, VecDeque<usize>>;

/// The supply of first parts.
#[derive(Debug)]
pub(super) struct Heads {
    fresh: Queues,
    spent: Queues,
    used: Vec<bool>,
}

impl Heads {
    /// Queues the entries at `order`, which is a shuffle of positions in `entries`.
    pub(super) fn new(entries: &[PoolEntry], order: &[usize]) -> Self {
        let mut fresh = Queues::new();
        for &at in order {
            let cuts = entries.get(at).map_or(&[][..], |entry| &entry.cut_tokens);
            let long_enough = cuts.partition_point(|&tokens| tokens < PREFIX_TOKENS);
            if let Some(&cut) = cuts.get(long_enough) {
                fresh.entry(cut).or_default().push_back(at);
            }
        }
        Self { fresh, spent: Queues::new(), used: vec![false; entries.len()] }
    }

    /// Takes an entry whose first part fits into `tokens`; `None` when the pool has none.
    ///
    /// The entry with the longest smallest cut goes first: it fits the fewest prompts.
    pub(super) fn take(&mut self, tokens: u32) -> Option<Head> {
        if self.fresh.range(..=tokens).next().is_none() {
            self.refill(tokens);
        }
        let (&smallest_cut, queue) = self.fresh.range_mut(..=tokens).next_back()?;
        let at = queue.pop_front()?;
        if queue.is_empty() {
            self.fresh.remove(&smallest_cut);
        }
        self.spent.entry(smallest_cut).or_default().push_back(at);
        let reused = self.used.get_mut(at).is_some_and(|used| std::mem::replace(used, true));
        Some(Head { at, smallest_cut, reused })
    }

    /// Puts the spent entries that fit into `tokens` back, the longest unused first.
    ///
    /// Whole queues move, and an entry moves at most once a use, so a take costs O(1) on average.
    fn refill(&mut self, tokens: u32) {
        let longer = match tokens.checked_add(1) {
            Some(above) => self.spent.split_off(&above),
            None => Queues::new(),
        };
        self.fresh.append(&mut std::mem::replace(&mut self.spent, longer));
    }

    /// Returns how many entries can start a prompt.
    pub(super) fn supply(&self) -> u64 {
        let queued = |queues: &Queues| queues.values().map(VecDeque::len).sum::<usize>();
        convert::count(queued(&self.fresh) + queued(&self.spent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::entry;
    use std::collections::BTreeSet;

    #[test]
    fn no_entry_starts_twice_before_all_have_started_once() {
        let entries = [
            entry(0, "en", &[3, 16, 40]),
            entry(1, "en", &[20, 30]),
            entry(2, "en", &[8, 12]),
            entry(3, "en", &[17]),
        ];
        let mut heads = Heads::new(&entries, &[2, 1, 3, 0]);
        assert_eq!(heads.supply(), 3, "entry 2 is too short");
        let firsts: BTreeSet<usize> = (0..3).map(|_| heads.take(64).unwrap().at).collect();
        assert_eq!(firsts, BTreeSet::from([0, 1, 3]));
        let again = heads.take(18).unwrap();
        assert!(again.reused && again.smallest_cut == 17, "{again:?}");
        assert!(heads.take(18).unwrap().at == 0, "the other one that fits into 18");
        assert!(heads.take(u32::MAX).unwrap().reused);
    }

    #[test]
    fn short_prompts_have_no_head() {
        let entries = [entry(0, "en", &[16])];
        let mut heads = Heads::new(&entries, &[0]);
        assert_eq!(heads.take(15), None);
        assert_eq!(heads.take(16), Some(Head { at: 0, smallest_cut: 16, reused: false }));
        assert_eq!(Heads::new(&[], &[]).take(1_000), None);
    }
}
