//! Finds the turn that a request continues.
//!
//! Drafts in order of arrival -> for each the turn before it, by the first rule that finds one:
//!
//! 1. `response_chain`: the request names an earlier response.
//! 2. `message_chain`: its messages are an earlier request's, that request's answer, and more; where
//!    answers are not logged, an earlier request's and at least two more.
//! 3. `message_chain_nosystem`: the same without system messages.
//! 4. `last_exchange`: its last exchange is that of an earlier request of the same user or key,
//!    within an hour (sliding windows, summarised histories).
//! 5. `block_chain`: an earlier request's full blocks are a proper prefix of its blocks, and the
//!    last shared one was in at most 40 requests lately (a system prompt is in many more).
//!
//! A parent must have ended before (2 to 5), within a day, and belong to the same user, or key where
//! no user is known. Of several the latest counts. A failure without an answer is no parent; a
//! request that was cut is no child. No text and no session id is looked at.

use super::sketch::Sketch;
use super::window::{DAY_US, KINDS, Kind, Turn, Window, half, key};
use crate::domain::record::{Hash128, HashScope, RequestRecord, SessionSource};
use crate::ingest::format::Draft;
use crate::ingest::format::chain::Chain;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

/// How long the last exchange alone ties turns, in microseconds.
const HOUR_US: i64 = 3_600_000_000;
/// How long after an error an equal request counts as sent again, in microseconds.
const RETRY_US: i64 = 10_000_000;
/// Messages of a request that are looked up, the last ones.
const MAX_MESSAGES: usize = 256;
/// Requests that may hold a block that still ties turns.
const RARE: u8 = 40;

/// Looks for parents among the turns of the last day.
#[derive(Debug, Default)]
pub(super) struct Chains {
    window: Window,
    blocks: Sketch,
}

/// What was seen in a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The request as a parent of later ones.
    pub(super) turn: Turn,
    /// The turn it continues.
    pub(super) link: Option<LinkFound>,
    /// Whether it is an earlier request sent again.
    pub(super) is_retry: bool,
    /// Whether it only brings results of tools.
    pub(super) is_tool_turn: bool,
}

/// A turn and the one it continues.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkFound {
    pub(super) rule: SessionSource,
    /// Number of the parent among the turns.
    pub(super) parent: u64,
    pub(super) parent_row: u64,
    pub(super) depth: u32,
    pub(super) think_us: Option<i64>,
    /// Whether there were other turns to choose from.
    pub(super) several: bool,
}

/// What a parent is asked for.
#[derive(Clone, Copy)]
struct Child {
    arrival_us: i64,
    /// Ends up to here are before the arrival, as far as the clock tells.
    ended_us: i64,
    /// Who sent it; 0 when not known.
    owner: u64,
}

impl Child {
    fn of(row: &RequestRecord) -> Option<Self> {
        let arrival_us = row.arrival_time?.0;
        let rounding = if row.arrival_resolution_us > 1 { row.arrival_resolution_us } else { 0 };
        Some(Self { arrival_us, ended_us: arrival_us.saturating_add(rounding), owner: owner(row) })
    }

    /// Returns whether a turn had ended at the arrival, and was not older than `age_us`.
    fn may_follow(&self, turn: &Turn, age_us: i64) -> bool {
        let ended = match turn.end_us {
            Some(end) => end <= self.ended_us,
            None => turn.arrival_us < self.arrival_us,
        };
        ended && self.arrival_us.saturating_sub(turn.arrival_us) <= age_us
    }
}

fn owner(row: &RequestRecord) -> u64 {
    row.user_hash.or(row.key_hash).map_or(0, |hash| half(hash).max(1))
}

impl Chains {
    /// Looks for the turn a request continues; `None` where it shows nothing to go by.
    pub(super) fn look(&mut self, draft: &Draft, row_id: u64) -> Option<Seen> {
        let row = &draft.row;
        let shared = row.prefix_hash_scope != Some(HashScope::Session);
        let blocks = if shared { rolling(&row.prefix_block_hashes) } else { Vec::new() };
        let chain = draft.chain.as_deref();
        if !row.is_generation() || (chain.is_none() && blocks.is_empty()) {
            return None;
        }
        if let Some(arrival) = row.arrival_time {
            self.window.forget(arrival.0);
        }
        let child = Child::of(row);
        let found = chain
            .and_then(|chain| self.by_response(chain))
            .or_else(|| self.by_messages(chain?, row, child?))
            .or_else(|| self.by_blocks(&blocks, row, child?));
        for block in &blocks {
            self.blocks.add(*block);
        }
        let link = found.and_then(|(rule, parent, several)| {
            let turn = self.window.turn(parent)?;
            let think = row.arrival_time.zip(turn.end_us);
            Some(LinkFound {
                rule,
                parent,
                parent_row: turn.row_id,
                depth: turn.depth.saturating_add(1),
                think_us: think.map(|(at, end)| at.0.saturating_sub(end)),
                several,
            })
        });
        Some(Seen {
            turn: as_parent(draft, row_id, &blocks),
            link,
            is_retry: child.is_some_and(|child| self.is_retry(chain, child)),
            is_tool_turn: chain.is_some_and(|chain| chain.is_tool_turn),
        })
    }

    /// Adds a request to those that later ones may continue.
    pub(super) fn add(&mut self, turn: Turn) {
        self.window.add(turn);
    }

    /// Returns a turn by its number, to change it.
    pub(super) fn turn_mut(&mut self, number: u64) -> Option<&mut Turn> {
        self.window.turn_mut(number)
    }

    /// Returns how many turns were forgotten before their time.
    pub(super) const fn forgotten(&self) -> u64 {
        self.window.forgotten
    }

    #[cfg(test)]
    pub(super) fn limit(&mut self, max_bytes: usize) {
        self.window.max_bytes = max_bytes;
    }

    fn by_response(&self, chain: &Chain) -> Option<(SessionSource, u64, bool)> {
        let named = key(Kind::Own, half(chain.previous?), 0);
        let (parent, several) = self.window.find(Kind::Own, named, |_| true)?;
        Some((SessionSource::ResponseChain, parent, several))
    }

    fn by_messages(
        &self,
        chain: &Chain,
        row: &RequestRecord,
        child: Child,
    ) -> Option<(SessionSource, u64, bool)> {
        // One message may be an opener that many use; without answers nothing is continued.
        let messages = chain.prefixes_no_system.len().max(chain.exchanges.len() * 2);
        if chain.is_incomplete || messages < 2 || row.assistant_count == Some(0) {
            return None;
        }
        let by = |kind, prefixes: &[Hash128]| self.by_prefixes(kind, prefixes, child);
        // One of the two turns may not say who sent it.
        let stranger = Child { owner: 0, ..child };
        let other = if child.owner == 0 { Kind::Anyone } else { Kind::Messages };
        by(Kind::Messages, &chain.prefixes)
            .or_else(|| self.by_prefixes(other, &chain.prefixes, stranger))
            .map(|(parent, several)| (SessionSource::MessageChain, parent, several))
            .or_else(|| {
                by(Kind::NoSystem, &chain.prefixes_no_system)
                    .map(|(parent, several)| (SessionSource::MessageChainNoSystem, parent, several))
            })
            .or_else(|| self.by_exchange(chain, child))
    }

    /// Walks the prefixes of a request from the longest.
    fn by_prefixes(&self, kind: Kind, prefixes: &[Hash128], child: Child) -> Option<(u64, bool)> {
        // At least one message is new, and two where the answer is not known to be there.
        let (_, known) = prefixes.split_last()?;
        known.iter().rev().take(MAX_MESSAGES).enumerate().find_map(|(left_out, prefix)| {
            let key = key(kind, half(*prefix), child.owner);
            self.window.find(kind, key, |turn| {
                child.may_follow(turn, DAY_US) && (turn.has_answer || left_out > 0)
            })
        })
    }

    fn by_exchange(&self, chain: &Chain, child: Child) -> Option<(SessionSource, u64, bool)> {
        // Without an owner, common openers with common answers would tie strangers.
        let last = chain.exchanges.last().filter(|_| child.owner != 0)?;
        let key = key(Kind::Exchange, half(*last), child.owner);
        let (parent, several) =
            self.window.find(Kind::Exchange, key, |turn| child.may_follow(turn, HOUR_US))?;
        Some((SessionSource::LastExchange, parent, several))
    }

    fn by_blocks(
        &self,
        blocks: &[u64],
        row: &RequestRecord,
        child: Child,
    ) -> Option<(SessionSource, u64, bool)> {
        let (_, shared) = blocks.split_last()?;
        let grows = |turn: &Turn| {
            turn.input_tokens.zip(row.input_tokens).is_none_or(|(before, now)| before < now)
        };
        // From the longest; a prefix that is in many requests has only commoner ones before it.
        let rare = shared.iter().rev().take_while(|block| self.blocks.count(**block) <= RARE);
        for block in rare {
            let key = key(Kind::Blocks, *block, child.owner);
            let found = self
                .window
                .find(Kind::Blocks, key, |turn| child.may_follow(turn, DAY_US) && grows(turn));
            if let Some((parent, several)) = found {
                return Some((SessionSource::BlockChain, parent, several));
            }
        }
        None
    }

    /// Returns whether the same messages are on their way, or failed just before.
    fn is_retry(&self, chain: Option<&Chain>, child: Child) -> bool {
        let Some(list) = chain.and_then(|chain| chain.prefixes.last()) else { return false };
        let key = key(Kind::List, half(*list), child.owner);
        let again = |turn: &Turn| {
            let end = turn.end_us.unwrap_or(turn.arrival_us);
            let after = child.arrival_us.saturating_sub(end);
            after < 0 || (turn.failed && after <= RETRY_US)
        };
        self.window.find(Kind::List, key, again).is_some()
    }
}

/// Returns the request as later ones will look for it.
fn as_parent(draft: &Draft, row_id: u64, blocks: &[u64]) -> Turn {
    let row = &draft.row;
    let mut turn = Turn {
        row_id,
        arrival_us: row.arrival_time.map_or(i64::MIN, |at| at.0),
        end_us: row.end_time.map(|at| at.0),
        session: seed(draft, row_id, blocks),
        depth: 0,
        is_announced: false,
        failed: row.status.is_failure(),
        has_answer: false,
        input_tokens: row.input_tokens,
        keys: [0; KINDS],
        before: [0; KINDS],
    };
    let owner = owner(row);
    let mut set = |kind, hash: Option<Hash128>, owner| {
        if let Some(hash) = hash {
            turn.set(kind, key(kind, half(hash), owner));
        }
    };
    let mut has_answer = false;
    if let Some(chain) = draft.chain.as_deref() {
        set(Kind::Own, chain.own, 0);
        set(Kind::List, chain.prefixes.last().copied(), owner);
        set(Kind::Exchange, chain.last_exchange, owner);
        has_answer = chain.with_answer.is_some() || chain.with_answer_no_system.is_some();
        let asks = !chain.prefixes_no_system.is_empty();
        if has_answer {
            set(Kind::Messages, chain.with_answer, owner);
            set(Kind::NoSystem, chain.with_answer_no_system, owner);
            set(Kind::Anyone, chain.with_answer.filter(|_| owner != 0), 0);
        } else if asks && !row.status.is_failure() {
            set(Kind::Messages, chain.prefixes.last().copied(), owner);
            set(Kind::NoSystem, chain.prefixes_no_system.last().copied(), owner);
        }
    }
    turn.has_answer = has_answer;
    if let Some(last) = full_blocks(row, blocks).last().filter(|_| !turn.failed) {
        turn.set(Kind::Blocks, key(Kind::Blocks, *last, owner));
    }
    turn
}

/// Returns the blocks that the prompt fills; the last one may be filled in part, and then no later
/// request has it.
fn full_blocks<'b>(row: &RequestRecord, blocks: &'b [u64]) -> &'b [u64] {
    let full = row
        .input_tokens
        .zip(row.prefix_block_size.filter(|size| *size > 0))
        .and_then(|(tokens, size)| usize::try_from(tokens / size).ok());
    full.and_then(|full| blocks.get(..full)).unwrap_or(blocks)
}

/// Returns a hash of each prefix of the blocks.
fn rolling(blocks: &[u64]) -> Vec<u64> {
    let mut so_far = 0_u64;
    let mut next = |block: &u64| {
        so_far = (so_far.rotate_left(23) ^ *block).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        so_far ^= so_far >> 29;
        so_far
    };
    blocks.iter().map(&mut next).collect()
}

/// Returns what the id of the session is made of when the request turns out to be its first turn:
/// its own id, or else its place in the log.
fn seed(draft: &Draft, row_id: u64, blocks: &[u64]) -> Hash128 {
    let row = &draft.row;
    let list = draft.chain.as_deref().and_then(|chain| chain.prefixes.last());
    let half = |salt: u64| {
        let mut state = foldhash::quality::FixedState::with_seed(salt).build_hasher();
        (row.request_id_hash, row.arrival_time, list, blocks.last()).hash(&mut state);
        (row.input_tokens, row.output_tokens, row.trace_id_hash, owner(row)).hash(&mut state);
        if row.request_id_hash.is_none() {
            (row.source_file_id, row.source_line, row_id).hash(&mut state);
        }
        u128::from(state.finish())
    };
    Hash128(((half(1) << 64) | half(2)).to_be_bytes())
}
