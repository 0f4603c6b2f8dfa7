//! Exact counts per integer length, the one accumulator behind every length statistic.
//!
//! Lengths (tokens) go in one at a time; out come (length, count) pairs in value order. Dense up
//! to 262,144 tokens (2 MiB at most, grown as needed), sparse above. Counts are integers, so
//! merging two tables gives exactly the table of both.

use crate::domain::convert;
use std::collections::BTreeMap;

/// Largest length with a slot of its own in the dense part, in tokens.
const DENSE_LIMIT: u32 = 262_144;

/// How often each length occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CountTable {
    /// Counts of lengths 0, 1, 2, …; never longer than the largest dense length seen, plus one.
    dense: Vec<u64>,
    /// Counts of lengths above [`DENSE_LIMIT`].
    sparse: BTreeMap<u32, u64>,
    total: u64,
}

impl CountTable {
    /// Counts one request of `length` tokens.
    pub(super) fn add(&mut self, length: u32) {
        self.add_many(length, 1);
    }

    /// Counts `times` requests of `length` tokens.
    fn add_many(&mut self, length: u32, times: u64) {
        if times == 0 {
            return;
        }
        self.total += times;
        let slot = convert::index(u64::from(length)).filter(|_| length <= DENSE_LIMIT);
        match slot {
            Some(slot) => {
                if self.dense.len() <= slot {
                    self.dense.resize(slot + 1, 0);
                }
                if let Some(count) = self.dense.get_mut(slot) {
                    *count += times;
                }
            }
            None => *self.sparse.entry(length).or_default() += times,
        }
    }

    /// Adds all counts of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        for (length, count) in other.pairs() {
            self.add_many(length, count);
        }
    }

    /// Returns the number of lengths counted.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Returns (length, count) for every length that occurred, in ascending order.
    pub(super) fn pairs(&self) -> Vec<(u32, u64)> {
        let dense = (0u32..).zip(self.dense.iter().copied());
        let sparse = self.sparse.iter().map(|(&length, &count)| (length, count));
        dense.chain(sparse).filter(|&(_, count)| count > 0).collect()
    }
}

/// Returns the sum of all lengths of (length, count) pairs, in tokens.
pub(super) fn sum(pairs: &[(u32, u64)]) -> u128 {
    pairs.iter().map(|&(length, count)| u128::from(length) * u128::from(count)).sum()
}

/// Returns the number of lengths in (length, count) pairs.
pub(super) fn total(pairs: &[(u32, u64)]) -> u64 {
    pairs.iter().map(|&(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(lengths: &[u32]) -> CountTable {
        let mut table = CountTable::default();
        for &length in lengths {
            table.add(length);
        }
        table
    }

    #[test]
    fn edges() {
        assert_eq!(table(&[]).pairs(), []);
        let edge = [DENSE_LIMIT, u32::MAX, DENSE_LIMIT + 1, 0, DENSE_LIMIT];
        let pairs = table(&edge).pairs();
        assert_eq!(pairs, [(0, 1), (DENSE_LIMIT, 2), (DENSE_LIMIT + 1, 1), (u32::MAX, 1)]);
        assert_eq!(total(&pairs), 5);
        assert_eq!(sum(&pairs), 3 * 262_144 + 1 + u128::from(u32::MAX));
    }

    proptest! {
        #[test]
        fn halves_merge_to_the_whole(
            lengths in proptest::collection::vec(
                prop_oneof![0u32..40, 262_140u32..262_150, any::<u32>()], 0..200),
            cut in 0usize..200,
        ) {
            let (left, right) = lengths.split_at(cut.min(lengths.len()));
            let mut merged = table(right);
            merged.merge(&table(left));
            prop_assert_eq!(merged.total(), convert::count(lengths.len()));
            prop_assert_eq!(merged, table(&lengths));
        }
    }
}
