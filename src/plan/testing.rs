//! Synthetic pools and records for the tests of this stage.

use crate::domain::convert;
use crate::domain::pool_index::{PoolEntry, PoolIndex, PoolManifest};
use crate::domain::record::{RequestRecord, Status};
use crate::domain::time::WallTime;

/// An entry with the given cut table.
pub(super) fn entry(entry_id: u32, kind: &str, cuts: &[u32]) -> PoolEntry {
    let tokens = cuts.last().copied().unwrap_or(0);
    PoolEntry { entry_id, tokens, kind: kind.to_owned(), cut_tokens: cuts.to_vec() }
}

/// A pool of the given entries whose joins all add up.
pub(super) fn pool_of(entries: Vec<PoolEntry>) -> PoolIndex {
    let manifest = PoolManifest {
        schema_version: 1,
        tool_version: "0".to_owned(),
        tokenizer: "test".to_owned(),
        tokenizer_digest: String::new(),
        pool_digest: String::new(),
        seed: 0,
        entries: convert::count(entries.len()),
        tokens: 0,
        buckets: Vec::new(),
        kinds: Vec::new(),
        joins_checked: 100,
        joins_failed: 0,
    };
    PoolIndex { manifest, entries }
}

/// `texts` entries of mixed lengths (up to 2,560 tokens, a cut every 1 to 4) and `fillers`.
pub(super) fn pool(texts: u32, fillers: u32) -> PoolIndex {
    let mut entries = Vec::new();
    for id in 0..texts {
        let tokens = 20_u32 << (id % 8);
        let mut cuts: Vec<u32> = Vec::new();
        let mut at = 1 + id % 4;
        while at < tokens {
            cuts.push(at);
            at += 1 + (at + id) % 4;
        }
        cuts.push(tokens);
        entries.push(entry(id, if id % 2 == 0 { "en" } else { "zh" }, &cuts));
    }
    entries.extend((texts..texts + fillers).map(|id| entry(id, "filler", &[1])));
    pool_of(entries)
}

/// A good record of an arrival in microseconds and both lengths.
pub(super) fn record(arrival_us: i64, input: u32, output: u32) -> RequestRecord {
    RequestRecord {
        arrival_time: Some(WallTime(arrival_us)),
        input_tokens: Some(input),
        output_tokens: Some(output),
        status: Status::Ok,
        ..RequestRecord::unknown("test".into(), 0, 1)
    }
}
