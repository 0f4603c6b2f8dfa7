//! The wanted paths as a tree of keys, so that one look tells whether a key is wanted.
//!
//! Paths -> nodes, one per object that holds something wanted. A key may itself contain dots:
//! `a.b.c` is `a` > `b` > `c`, `a.b` > `c`, `a` > `b.c` or the key `a.b.c`. What a node holds
//! depends only on the part of the path in front of it, so there are no more nodes than dots. Dots
//! after the first 32 of a path are parts of keys.

use std::collections::{BTreeMap, HashMap};

/// Index of the node of the record itself.
pub(super) const ROOT: usize = 0;

/// Dots of a path that may be borders between keys.
const MAX_BORDERS: usize = 32;

/// A slot and the rank of the name within it: the lowest one that is there counts.
pub(super) type Target = (usize, u16);

/// The tree.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    nodes: Vec<Node>,
}

/// A wanted key of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    key: Box<[u8]>,
    /// The slots that want the value.
    pub(super) targets: Vec<Target>,
    /// The node of the value, when something in it is wanted.
    pub(super) child: Option<usize>,
}

/// The wanted keys of an object, found by a hash over three of their bytes.
#[derive(Clone, Debug, Default)]
struct Node {
    /// A bit per length (63 and above share one) that some key has.
    lengths: u64,
    seed: u32,
    /// Entries by hash, each at its place or the next free ones; 0 is free, else 1 + its index.
    table: Vec<u32>,
    entries: Vec<Entry>,
}

impl Paths {
    /// Makes the tree of paths with their slots and ranks.
    pub(super) fn new<'n>(paths: impl Iterator<Item = (&'n str, usize, u16)>) -> Self {
        let paths: Vec<_> = paths.collect();
        // By the part in front: the keys that may follow it.
        let mut keys: BTreeMap<&str, BTreeMap<&str, Entry>> = BTreeMap::new();
        keys.entry("").or_default();
        for (path, slot, rank) in &paths {
            let borders: Vec<usize> =
                path.match_indices('.').take(MAX_BORDERS).map(|(dot, _)| dot).collect();
            for start in std::iter::once(0).chain(borders.iter().map(|dot| dot + 1)) {
                let Some((front, rest)) = path.split_at_checked(start) else { continue };
                let here = keys.entry(front).or_default();
                here.entry(rest).or_default().targets.push((*slot, *rank));
                for dot in borders.iter().filter(|dot| **dot >= start) {
                    here.entry(path.get(start..*dot).unwrap_or_default()).or_default();
                }
            }
        }
        let places: HashMap<String, usize> =
            keys.keys().enumerate().map(|(at, front)| ((*front).to_owned(), at)).collect();
        let nodes = keys.into_iter().map(|(front, keys)| {
            let entries = keys.into_iter().map(|(key, entry)| {
                let child = places.get(&format!("{front}{key}.")).copied();
                Entry { key: key.as_bytes().into(), child, ..entry }
            });
            Node::new(entries.collect())
        });
        Self { nodes: nodes.collect() }
    }

    /// Returns what is wanted of the value of a key, in the object of a node.
    #[inline]
    pub(super) fn find(&self, node: usize, key: &[u8]) -> Option<&Entry> {
        self.nodes.get(node)?.find(key)
    }
}

impl Node {
    fn new(entries: Vec<Entry>) -> Self {
        let lengths = entries.iter().fold(0, |bits, entry| bits | length_bit(&entry.key));
        let size = (4 * entries.len()).next_power_of_two();
        let mut node = Self { lengths, seed: 0, table: Vec::new(), entries };
        // The seed under which the fewest keys share a place.
        let clashes = |seed: &u32| {
            let mut taken = vec![false; size];
            let places = node.entries.iter().map(|entry| place(&entry.key, *seed, size));
            places
                .filter(|place| {
                    taken.get_mut(*place).is_some_and(|taken| std::mem::replace(taken, true))
                })
                .count()
        };
        node.seed = (0..64).min_by_key(clashes).unwrap_or_default();
        node.table = vec![0; size];
        for (at, entry) in node.entries.iter().enumerate() {
            let mut to = place(&entry.key, node.seed, size);
            while node.table.get(to).is_some_and(|taken| *taken != 0) {
                to = (to + 1) % size;
            }
            if let (Some(free), Ok(number)) = (node.table.get_mut(to), u32::try_from(at + 1)) {
                *free = number;
            }
        }
        node
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Option<&Entry> {
        if self.lengths & length_bit(key) == 0 {
            return None;
        }
        let mut at = place(key, self.seed, self.table.len());
        loop {
            let number = usize::try_from(*self.table.get(at)?).ok()?;
            let entry = self.entries.get(number.checked_sub(1)?)?;
            if *entry.key == *key {
                return Some(entry);
            }
            at = (at + 1) % self.table.len();
        }
    }
}

#[inline]
fn length_bit(key: &[u8]) -> u64 {
    1 << key.len().min(63)
}

/// Returns the place of a key in a table whose size is a power of two.
#[inline]
fn place(key: &[u8], seed: u32, size: usize) -> usize {
    let byte = |at: usize| u32::from(key.get(at).copied().unwrap_or_default());
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mixed = (byte(0) | byte(key.len() / 2) << 8 | byte(key.len().wrapping_sub(1)) << 16)
        .wrapping_add(length << 24)
        .wrapping_mul(0x9E37_79B1_u32.wrapping_add(seed.wrapping_mul(0x85EB_CA6B) << 1));
    usize::try_from(mixed >> 12).unwrap_or_default() & (size - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(paths: &[&'static str]) -> Paths {
        Paths::new(paths.iter().enumerate().map(|(slot, path)| (*path, slot, 0)))
    }

    fn wanted(paths: &Paths, keys: &[&str]) -> Vec<usize> {
        let Some((last, parents)) = keys.split_last() else { return Vec::new() };
        let mut node = ROOT;
        for key in parents {
            let child = paths.find(node, key.as_bytes()).and_then(|entry| entry.child);
            let Some(child) = child else { return Vec::new() };
            node = child;
        }
        let entry = paths.find(node, last.as_bytes());
        entry.map_or(Vec::new(), |entry| entry.targets.iter().map(|(slot, _)| *slot).collect())
    }

    #[test]
    fn dots_are_borders_or_parts_of_keys() {
        let paths = of(&["a.b.c", "a.b", "x", "", "a..b"]);
        for keys in [&["a", "b", "c"][..], &["a.b", "c"], &["a", "b.c"], &["a.b.c"]] {
            assert_eq!(wanted(&paths, keys), [0], "{keys:?}");
        }
        assert_eq!(wanted(&paths, &["a", "b"]), [1]);
        assert_eq!(wanted(&paths, &["x"]), [2]);
        assert_eq!(wanted(&paths, &[""]), [3]);
        assert_eq!(wanted(&paths, &["a", "", "b"]), [4]);
        for keys in [&["a"][..], &["b"], &["c"], &["a", "c"], &["x", "y"], &["b", "c"]] {
            assert_eq!(wanted(&paths, keys), [0_usize; 0], "{keys:?}");
        }
    }

    #[test]
    fn many_dots_are_few_nodes() {
        let path = vec!["a"; 2_000].join(".");
        let paths = Paths::new(std::iter::once((path.as_str(), 0, 0)));
        assert_eq!(paths.nodes.len(), MAX_BORDERS + 1);
    }

    #[test]
    fn keys_that_share_a_place_are_told_apart() {
        let keys: Vec<String> = (0..3_000).map(|n| format!("a{n}a")).collect();
        let paths = Paths::new(keys.iter().enumerate().map(|(slot, key)| (key.as_str(), slot, 0)));
        for (slot, key) in keys.iter().enumerate() {
            assert_eq!(wanted(&paths, &[key]), [slot]);
        }
        assert!(paths.find(ROOT, b"a3000a").is_none());
    }
}
