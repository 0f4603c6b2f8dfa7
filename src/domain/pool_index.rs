//! The index of a prompt pool: lengths and ids, never texts.
//!
//! `plan` chooses prompts by arithmetic on this index. An entry is a joint-safe fragment: cut at
//! any point of its cut table and joined to any other fragment, its tokens add up. So a prompt of
//! N tokens is a list of parts whose `cut_tokens` sum to N.

use serde::{Deserialize, Serialize};

/// One entry of a pool, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEntry {
    /// Dense, starting at 0.
    pub entry_id: u32,
    /// Tokens of the whole entry; the last value of `cut_tokens`.
    pub tokens: u32,
    /// Language or kind of the text: `en`, `zh`, `filler`, `file`.
    pub kind: String,
    /// The token counts at which the entry can be cut, ascending, without 0.
    pub cut_tokens: Vec<u32>,
}

impl PoolEntry {
    /// Returns the largest cut of at most `limit` tokens.
    pub fn largest_cut(&self, limit: u32) -> Option<u32> {
        let above = self.cut_tokens.partition_point(|&tokens| tokens <= limit);
        above.checked_sub(1).and_then(|at| self.cut_tokens.get(at)).copied()
    }
}

/// One entry of a pool with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolText {
    /// The entry.
    pub entry: PoolEntry,
    /// Its text; begins and ends so that the tokenizer splits at a joint with any other entry.
    pub text: String,
    /// The byte offset in `text` of each value of `entry.cut_tokens`.
    pub cut_bytes: Vec<u32>,
}

/// What `plan` knows of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolIndex {
    /// Where it came from.
    pub manifest: PoolManifest,
    /// Every entry, by `entry_id`; `filler` entries hold one token each.
    pub entries: Vec<PoolEntry>,
}

/// The manifest of a pool (`pool.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolManifest {
    /// Version of the pool's files.
    pub schema_version: u32,
    /// Version of the tool that built it.
    pub tool_version: String,
    /// The tokenizer's name.
    pub tokenizer: String,
    /// BLAKE3 of the tokenizer's vocabulary.
    pub tokenizer_digest: String,
    /// BLAKE3 of the pool's Parquet file.
    pub pool_digest: String,
    /// The seed it was built with.
    pub seed: u64,
    /// Entries in the pool.
    pub entries: u64,
    /// Tokens in the pool.
    pub tokens: u64,
    /// Entries per log2 bucket: `[bucket, entries]`.
    pub buckets: Vec<(u32, u64)>,
    /// Entries per kind of text.
    pub kinds: Vec<(String, u64)>,
    /// Random joins whose counts were checked to add up.
    pub joins_checked: u64,
    /// Joins among them that did not add up; a pool with any is not joint-safe.
    pub joins_failed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_cut_at_the_edges() {
        let entry =
            PoolEntry { entry_id: 0, tokens: 9, kind: "en".into(), cut_tokens: vec![2, 5, 9] };
        for (limit, cut) in
            [(0, None), (1, None), (2, Some(2)), (4, Some(2)), (9, Some(9)), (99, Some(9))]
        {
            assert_eq!(entry.largest_cut(limit), cut, "limit {limit}");
        }
    }
}
