//! One request as the exports see it, from a row of a trace or of a plan.
//!
//! Times are microseconds: an instant of the trace, or an offset of the plan (cut from
//! nanoseconds). Nothing is filled in: what the row does not know is `None`.

use crate::domain::record::{CacheStatus, HashScope, RequestRecord};
use crate::domain::schedule::{Release, ScheduledRequest};

/// One request to export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its number in the input.
    pub number: u64,
    /// When it is due.
    pub at_us: Option<i64>,
    /// The earlier request whose end it waits for, and how long after that.
    pub after: Option<(u64, i64)>,
    /// Input tokens.
    pub input_tokens: Option<u32>,
    /// Output tokens.
    pub output_tokens: Option<u32>,
    /// What tells sessions apart; never written.
    pub session: Option<u128>,
    /// What tells prefix blocks apart, in the order of the prompt; never written.
    pub blocks: &'a [u64],
    /// Tokens in a block, where known.
    pub block_size: Option<u32>,
    /// Whether equal blocks mean equal texts only within the session.
    pub blocks_are_local: bool,
    /// Answered from the gateway's cache.
    pub is_cache_hit: bool,
    /// Whether text was asked for.
    pub is_generation: bool,
}

impl<'a> Request<'a> {
    /// Returns the request of a row of a trace; `row_id` is its place there.
    pub fn of_trace(row: &'a RequestRecord, row_id: u64) -> Self {
        let hit = |status| matches!(status, CacheStatus::Hit | CacheStatus::SemanticHit);
        Self {
            number: row_id,
            at_us: row.arrival_time.map(|at| at.0),
            after: row.parent_row_id.zip(row.think_time_us),
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            session: row.session_id_hash.map(|hash| u128::from_be_bytes(hash.0)),
            blocks: &row.prefix_block_hashes,
            block_size: row.prefix_block_size,
            blocks_are_local: row.prefix_hash_scope == Some(HashScope::Session),
            is_cache_hit: row.cache_status.is_some_and(hit),
            is_generation: row.is_generation(),
        }
    }

    /// Returns the request of a row of a plan. Its output is the limit that the plan sets.
    pub fn of_plan(row: &'a ScheduledRequest) -> Self {
        let micros = |nanos: u64| i64::try_from(nanos / 1_000).unwrap_or(i64::MAX);
        let after = match row.release {
            Release::After { request_id, delay } => Some((request_id, micros(delay.0))),
            Release::At(_) | Release::WhenFree => None,
        };
        Self {
            number: row.request_id,
            at_us: row.release.at().map(|at| micros(at.0)),
            after,
            input_tokens: Some(row.input_tokens),
            output_tokens: Some(row.max_tokens),
            session: row.session_id.map(u128::from),
            blocks: &row.prefix_block_ids,
            block_size: None,
            blocks_are_local: false,
            is_cache_hit: false,
            is_generation: true,
        }
    }
}
