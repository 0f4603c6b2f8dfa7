//! Gives every request a prompt of an exact number of tokens, as parts of pool entries.
//!
//! Pure arithmetic on the pool's index: the cuts of a prompt's parts sum to the tokens asked for,
//! for every length from 1. A prompt is a first part (see `heads`), then whole or cut entries,
//! then a short piece that closes it, and one-token fillers only where no cut fits. The order of
//! the entries is shuffled by the stream `prompts`. The cost is proportional to the number of
//! parts. Two equal prompts are a fact to be told, not hidden: the later one names the earlier.

use super::error::PlanError;
use super::heads::{Head, Heads, PREFIX_TOKENS};
use crate::domain::pool_index::{PoolEntry, PoolIndex};
use crate::domain::schedule::PromptPart;
use crate::domain::seed::{Seed, Stream};
use rand::RngExt;
use rand::seq::SliceRandom;
use std::collections::{BTreeMap, HashMap};

/// The kind of a one-token entry that closes prompts.
const FILLER: &str = "filler";
/// Prompts of this many tokens have room for an opener and [`PREFIX_TOKENS`] of one entry.
const LONG_ENOUGH: u32 = 2 * PREFIX_TOKENS;
/// Up to this many tokens are closed by looking up entries with exactly that cut.
const CLOSE_TOKENS: u32 = 32;
/// Entries kept for each closing length; more would only cost memory.
const CLOSERS_KEPT: usize = 1_024;
/// Entries tried for a long piece before closing with shorter ones.
const BODY_TRIES: usize = 4;
/// Draws of a short prompt before a repeat is accepted.
const SHORT_TRIES: usize = 32;
/// Most one-token words before a first part that has started a prompt before.
const MAX_OPENER: u32 = 8;
/// As many different openers are enough: so many prompts of one pool in one plan are rare.
const OPENERS: u64 = 1 << 20;

/// A prompt and what is known about its like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The parts, in order; their `cut_tokens` sum to the length asked for.
    pub parts: Vec<PromptPart>,
    /// The 0-based call that got the very same parts first.
    pub repeat_of: Option<u64>,
    /// Whether the first 16 tokens start an earlier prompt, since every other start was used up.
    pub prefix_repeat: bool,
}

/// A shuffled list that is gone through again and again.
#[derive(Debug, Default)]
struct Ring {
    items: Vec<usize>,
    at: usize,
}

impl Ring {
    fn next(&mut self) -> Option<usize> {
        let item = self.items.get(self.at).or_else(|| {
            self.at = 0;
            self.items.first()
        });
        self.at += 1;
        item.copied()
    }
}

/// The prompts of one plan, in the order of its requests.
#[derive(Debug)]
pub struct Assigner<'p> {
    entries: &'p [PoolEntry],
    rng: Stream,
    fillers: Vec<usize>,
    /// Texts in shuffled order.
    texts: Vec<usize>,
    heads: Heads,
    /// By the bit length of an entry's tokens: class `k` holds 2^(k−1) to 2^k − 1 tokens.
    bodies: Vec<Ring>,
    /// By length: entries that can be cut at exactly that many tokens.
    closers: Vec<Ring>,
    /// By length below [`LONG_ENOUGH`]: entries with a cut that fits, each to be used once.
    shorts: BTreeMap<u32, Vec<usize>>,
    seen: HashMap<[u8; 16], u64>,
    calls: u64,
    /// Openers handed out.
    opened: u64,
}

impl<'p> Assigner<'p> {
    /// Prepares the pool; O(entries).
    ///
    /// # Errors
    ///
    /// When exact composition is impossible: the pool has no fillers, or its joins do not add up.
    pub fn new(pool: &'p PoolIndex, seed: Seed) -> Result<Self, PlanError> {
        let manifest = &pool.manifest;
        if manifest.joins_failed > 0 {
            let (failed, checked) = (manifest.joins_failed, manifest.joins_checked);
            return Err(PlanError::NotJointSafe { failed, checked });
        }
        let entries = &pool.entries[..];
        let mut rng = seed.stream("prompts");
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.shuffle(&mut rng);
        let is_filler = |at: &usize| entries.get(*at).is_some_and(|entry| entry.kind == FILLER);
        let (mut fillers, texts): (Vec<usize>, Vec<usize>) = order.into_iter().partition(is_filler);
        fillers.retain(|&at| entries.get(at).is_some_and(|entry| entry.cut_tokens == [1]));
        if fillers.is_empty() {
            return Err(PlanError::NoFillers);
        }
        let mut assigner = Self {
            entries,
            rng,
            fillers,
            heads: Heads::new(entries, &texts),
            texts,
            bodies: Vec::new(),
            closers: Vec::new(),
            shorts: BTreeMap::new(),
            seen: HashMap::new(),
            calls: 0,
            opened: 0,
        };
        assigner.sort_texts();
        Ok(assigner)
    }

    /// Fills the look-up tables from the shuffled texts.
    fn sort_texts(&mut self) {
        self.bodies.resize_with(bits(u32::MAX) + 1, Ring::default);
        self.closers.resize_with(slot(CLOSE_TOKENS) + 1, Ring::default);
        for &at in &self.texts {
            let cuts = self.entries.get(at).map_or(&[][..], |entry| &entry.cut_tokens);
            let Some(&tokens) = cuts.last() else { continue };
            if let Some(class) = self.bodies.get_mut(bits(tokens)) {
                class.items.push(at);
            }
            for &cut in cuts.iter().take_while(|&&cut| cut <= CLOSE_TOKENS) {
                if let Some(ring) = self.closers.get_mut(slot(cut))
                    && ring.items.len() < CLOSERS_KEPT
                {
                    ring.items.push(at);
                }
            }
        }
    }

    /// Returns how many prompts can start with 16 tokens that no other prompt starts with.
    pub fn supply(&self) -> u64 {
        self.heads.supply()
    }

    /// Returns parts whose `cut_tokens` sum to exactly `tokens`.
    ///
    /// # Errors
    ///
    /// When `tokens` is 0.
    pub fn parts(&mut self, tokens: u32) -> Result<Vec<PromptPart>, PlanError> {
        self.assign(tokens).map(|assigned| assigned.parts)
    }

    /// Returns the prompt of the next request, and which earlier call it repeats.
    ///
    /// Calls are numbered from 0; made once a planned request, they are its `request_id`.
    ///
    /// # Errors
    ///
    /// When `tokens` is 0.
    pub fn assign(&mut self, tokens: u32) -> Result<Assigned, PlanError> {
        if tokens == 0 {
            return Err(PlanError::EmptyPrompt);
        }
        let head = self.heads.take(tokens);
        let (parts, prefix_repeat) = match head {
            Some(head) if !head.reused => (self.with_head(head, tokens), false),
            Some(head) if tokens >= LONG_ENOUGH => self.with_used_head(head, tokens),
            Some(_) => {
                let parts = self.short(tokens);
                let marked = parts.first().is_some_and(|part| part.cut_tokens >= PREFIX_TOKENS);
                (parts, marked)
            }
            None => (self.short(tokens), false),
        };
        let repeat_of = self.remember(&parts);
        Ok(Assigned { parts, repeat_of, prefix_repeat })
    }

    /// Composes a prompt that starts with `head`, and takes all of it that fits.
    fn with_head(&mut self, head: Head, tokens: u32) -> Vec<PromptPart> {
        let mut parts = Vec::new();
        let cut = cut_of(self.entries, head.at, tokens).unwrap_or(0);
        self.push(&mut parts, head.at, cut);
        self.fill(&mut parts, tokens - cut, Some(head.at));
        parts
    }

    /// Composes a prompt around a first part that an earlier prompt starts with, and returns
    /// whether the two share their first block.
    ///
    /// A few one-token words before it, another choice each time, keep the blocks apart. When no
    /// choice is left, as little as possible is shared: the shortest cut.
    fn with_used_head(&mut self, head: Head, tokens: u32) -> (Vec<PromptPart>, bool) {
        let mut parts = Vec::new();
        let shared = !self.push_opener(&mut parts);
        let left = tokens - sum(&parts);
        let longest = cut_of(self.entries, head.at, left);
        let cut = if shared { head.smallest_cut } else { longest.unwrap_or(0) };
        if cut > 0 {
            self.push(&mut parts, head.at, cut);
        }
        self.fill(&mut parts, left - cut, Some(head.at));
        (parts, shared)
    }

    /// Adds a row of one-token words that starts no other prompt; false when none is left.
    ///
    /// All openers have one length, so none is the start of another.
    fn push_opener(&mut self, parts: &mut Vec<PromptPart>) -> bool {
        let words = u64::try_from(self.fillers.len()).unwrap_or(u64::MAX);
        let supply = |length: &u32| words.saturating_pow(*length);
        let length = (1..MAX_OPENER).find(|length| supply(length) >= OPENERS).unwrap_or(MAX_OPENER);
        let mut number = self.opened;
        if number >= supply(&length) {
            return false;
        }
        self.opened += 1;
        for _ in 0..length {
            let word = usize::try_from(number % words).expect("below the number of fillers");
            self.push(parts, self.fillers[word], 1);
            number /= words;
        }
        true
    }

    /// Composes a prompt for which no unused first part of 16 tokens is there.
    ///
    /// First every text that has a fitting cut is used once; then texts, cuts and fillers are
    /// drawn until the prompt is a new one or [`SHORT_TRIES`] draws were not.
    fn short(&mut self, tokens: u32) -> Vec<PromptPart> {
        if tokens >= LONG_ENOUGH {
            // A pool of long uncuttable texts only: unlikely to start alike, thanks to fillers.
            return self.drawn(tokens);
        }
        let (entries, texts, fillers) = (self.entries, &self.texts, &self.fillers);
        let unused = self.shorts.entry(tokens).or_insert_with(|| {
            let fits = |at: &&usize| cut_of(entries, **at, tokens).is_some();
            fillers
                .iter()
                .filter(|_| tokens == 1)
                .chain(texts.iter().filter(fits))
                .copied()
                .collect()
        });
        let mut parts = Vec::new();
        if let Some(at) = unused.pop() {
            let cut = cut_of(entries, at, tokens).unwrap_or(0);
            self.push(&mut parts, at, cut);
            self.fill_with_fillers(&mut parts, tokens - cut);
            if !self.seen.contains_key(&digest(&parts)) {
                return parts;
            }
        }
        for _ in 0..SHORT_TRIES {
            parts = self.drawn(tokens);
            if !self.seen.contains_key(&digest(&parts)) {
                break;
            }
        }
        parts
    }

    /// Draws a prompt: a random text cut at random, then fillers; for long ones, texts again.
    fn drawn(&mut self, tokens: u32) -> Vec<PromptPart> {
        let mut parts = Vec::new();
        let mut left = tokens;
        if !self.texts.is_empty() && tokens < LONG_ENOUGH {
            let at = self.texts.get(self.rng.random_range(0..self.texts.len())).copied();
            let limit = self.rng.random_range(0..=tokens);
            if let Some(at) = at
                && let Some(cut) = cut_of(self.entries, at, limit)
            {
                self.push(&mut parts, at, cut);
                left -= cut;
            }
        }
        let fillers = left.min(PREFIX_TOKENS);
        self.fill_with_fillers(&mut parts, fillers);
        self.fill(&mut parts, left - fillers, None);
        parts
    }

    /// Adds `left` tokens: long pieces first, then one that closes, then fillers.
    fn fill(&mut self, parts: &mut Vec<PromptPart>, mut left: u32, avoid: Option<usize>) {
        while left > 0 {
            let Some((at, cut)) = self.body(left, avoid).or_else(|| self.closer(left)) else {
                return self.fill_with_fillers(parts, left);
            };
            self.push(parts, at, cut);
            left -= cut;
        }
    }

    /// Returns a piece of more than [`CLOSE_TOKENS`]: cut from the shortest texts that are long
    /// enough, else from the longest there are.
    fn body(&mut self, left: u32, avoid: Option<usize>) -> Option<(usize, u32)> {
        if left <= CLOSE_TOKENS {
            return None;
        }
        // Every entry of class k has at least 2^(k-1) tokens, and 2^bits(left - 1) >= left.
        let enough = bits(left - 1) + 1;
        let filled = |class: &usize| self.bodies.get(*class).is_some_and(|r| !r.items.is_empty());
        let class = (enough..self.bodies.len()).find(filled).or_else(|| {
            let below = enough.min(self.bodies.len());
            (0..below).rev().find(filled)
        })?;
        let ring = self.bodies.get_mut(class)?;
        for _ in 0..BODY_TRIES.min(ring.items.len()) {
            let at = ring.next()?;
            if Some(at) == avoid && ring.items.len() > 1 {
                continue;
            }
            if let Some(cut) = cut_of(self.entries, at, left)
                && cut > CLOSE_TOKENS
            {
                return Some((at, cut));
            }
        }
        None
    }

    /// Returns the longest piece of at most [`CLOSE_TOKENS`] and `left` tokens.
    fn closer(&mut self, left: u32) -> Option<(usize, u32)> {
        (1..=left.min(CLOSE_TOKENS))
            .rev()
            .find_map(|cut| Some((self.closers.get_mut(slot(cut))?.next()?, cut)))
    }

    fn fill_with_fillers(&mut self, parts: &mut Vec<PromptPart>, left: u32) {
        for _ in 0..left {
            let at = self.fillers.get(self.rng.random_range(0..self.fillers.len())).copied();
            self.push(parts, at.expect("a pool without fillers is refused"), 1);
        }
    }

    fn push(&self, parts: &mut Vec<PromptPart>, at: usize, cut_tokens: u32) {
        let entry_id = self.entries.get(at).expect("positions come from the index").entry_id;
        parts.push(PromptPart { entry_id, cut_tokens });
    }

    /// Notes the parts of this call and returns the first call that had the same ones.
    fn remember(&mut self, parts: &[PromptPart]) -> Option<u64> {
        let call = self.calls;
        self.calls += 1;
        let first = *self.seen.entry(digest(parts)).or_insert(call);
        (first != call).then_some(first)
    }
}

/// Returns the tokens of a prompt.
fn sum(parts: &[PromptPart]) -> u32 {
    parts.iter().map(|part| part.cut_tokens).sum()
}

/// Returns the longest cut of the entry at `at` of at most `limit` tokens.
fn cut_of(entries: &[PoolEntry], at: usize, limit: u32) -> Option<u32> {
    entries.get(at).and_then(|entry| entry.largest_cut(limit))
}

/// Returns the number of bits of `value`; 0 for 0.
const fn bits(value: u32) -> usize {
    slot(u32::BITS - value.leading_zeros())
}

/// Returns a small number as an index.
const fn slot(value: u32) -> usize {
    value as usize
}

/// Returns 128 bits of BLAKE3 over the parts: two different prompts never share them in practice.
fn digest(parts: &[PromptPart]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&part.entry_id.to_le_bytes());
        hasher.update(&part.cut_tokens.to_le_bytes());
    }
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{entry, pool, pool_of};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn pools_that_cannot_be_exact_are_refused_by_name() {
        let refused = |pool: &PoolIndex| Assigner::new(pool, Seed(1)).map(|_| ()).unwrap_err();
        assert_eq!(refused(&pool_of(Vec::new())), PlanError::NoFillers);
        assert_eq!(refused(&pool(9, 0)), PlanError::NoFillers);
        let two_tokens = pool_of(vec![entry(0, "filler", &[2])]);
        assert_eq!(refused(&two_tokens), PlanError::NoFillers, "a filler of two tokens is none");
        let mut unsafe_joins = pool(9, 3);
        unsafe_joins.manifest.joins_failed = 2;
        assert_eq!(refused(&unsafe_joins), PlanError::NotJointSafe { failed: 2, checked: 100 });
        let pool = pool(1, 1);
        let nothing = Assigner::new(&pool, Seed(1)).unwrap().parts(0);
        assert_eq!(nothing, Err(PlanError::EmptyPrompt));
    }

    #[test]
    fn every_length_is_exact_and_cut_where_the_pool_can_be_cut() {
        let pool = pool(400, 20);
        let mut assigner = Assigner::new(&pool, Seed(7)).unwrap();
        for tokens in (1..3_000).chain([65_536, 199_999, 200_000]) {
            let parts = assigner.parts(tokens).unwrap();
            assert_eq!(sum(&parts), tokens);
            for part in &parts {
                let entry = &pool.entries[slot(part.entry_id)];
                assert!(entry.cut_tokens.contains(&part.cut_tokens), "{tokens}: {part:?}");
            }
            // An opener, if any, stands before the first part.
            let first = parts.iter().find(|part| part.cut_tokens > 1);
            assert!(tokens < 40 || first.unwrap().cut_tokens >= 16, "{tokens}: {parts:?}");
            // 2,560 is the longest text; each piece of 33 or more is cut within 4 of the rest.
            assert!(parts.len() <= 16 + slot(tokens / 1_280), "{tokens}: {} parts", parts.len());
        }
    }

    #[test]
    fn pools_with_few_or_awkward_cuts_are_exact_too() {
        let fillers_only = pool_of(vec![entry(0, "filler", &[1])]);
        let blocks = pool_of(vec![entry(0, "en", &[100]), entry(1, "filler", &[1])]);
        let no_cut = pool_of(vec![entry(0, "en", &[]), entry(1, "filler", &[1])]);
        for pool in [&fillers_only, &blocks, &no_cut] {
            let mut assigner = Assigner::new(pool, Seed(1)).unwrap();
            for tokens in [1, 2, 15, 16, 17, 31, 32, 99, 100, 101, 116, 117, 5_000] {
                assert_eq!(sum(&assigner.parts(tokens).unwrap()), tokens);
            }
        }
    }

    #[test]
    fn first_parts_are_new_until_all_have_been_used() {
        let pool = pool(200, 10);
        let mut assigner = Assigner::new(&pool, Seed(3)).unwrap();
        let supply = assigner.supply();
        assert_eq!(supply, 200);
        let mut firsts = BTreeSet::new();
        for call in 0..supply {
            let assigned = assigner.assign(40 + u32::try_from(call).unwrap()).unwrap();
            assert!(!assigned.prefix_repeat && assigned.repeat_of.is_none(), "call {call}");
            assert!(firsts.insert(assigned.parts[0].entry_id), "call {call}");
        }
        let mut openers = BTreeSet::new();
        for _ in 0..500 {
            let next = assigner.assign(500).unwrap();
            assert!(!next.prefix_repeat && next.repeat_of.is_none());
            // Ten words: 10^7 openers of seven words each.
            let opener: Vec<u32> = next.parts[..7].iter().map(|part| part.entry_id).collect();
            assert!(next.parts[..7].iter().all(|part| part.cut_tokens == 1), "{next:?}");
            assert!(openers.insert(opener), "an opener is used twice");
        }
    }

    #[test]
    fn a_shared_block_is_told_when_no_opener_is_left() {
        let pool = pool(3, 1);
        let mut assigner = Assigner::new(&pool, Seed(3)).unwrap();
        let shared = |assigner: &mut Assigner<'_>| assigner.assign(500).unwrap().prefix_repeat;
        assert!((0..4).all(|_| !shared(&mut assigner)), "three first parts and one opener");
        let next = assigner.assign(500).unwrap();
        assert!(next.prefix_repeat, "the supply is used up");
        assert!(next.parts[0].cut_tokens <= 20, "and no more than the block is shared");
    }

    #[test]
    fn tiny_prompts_repeat_only_when_nothing_else_is_left() {
        let pool = pool_of((0..5).map(|id| entry(id, "filler", &[1])).collect());
        let mut assigner = Assigner::new(&pool, Seed(3)).unwrap();
        let calls: Vec<Assigned> = (0..7).map(|_| assigner.assign(1).unwrap()).collect();
        assert!(calls[..5].iter().all(|call| call.repeat_of.is_none()));
        for call in &calls[5..] {
            let first = call.repeat_of.expect("five prompts of one token, then repeats");
            assert_eq!(call.parts, calls[usize::try_from(first).unwrap()].parts);
        }
    }

    #[test]
    fn short_prompts_stay_different_while_they_can() {
        let pool = pool(64, 10);
        let mut assigner = Assigner::new(&pool, Seed(3)).unwrap();
        let repeats = (0..300).filter(|_| assigner.assign(12).unwrap().repeat_of.is_some()).count();
        assert_eq!(repeats, 0);
    }

    #[test]
    fn the_seed_decides() {
        let pool = pool(100, 5);
        let draw = |seed| {
            let mut assigner = Assigner::new(&pool, Seed(seed)).unwrap();
            (1..400).map(|tokens| assigner.parts(tokens).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn sums_are_exact(texts in 0_u32..60, seed in 0_u64..1_000, wanted in prop::collection::vec(1_u32..=200_000, 1..20)) {
            let pool = pool(texts, 1 + texts % 7);
            let mut assigner = Assigner::new(&pool, Seed(seed)).unwrap();
            for tokens in wanted {
                prop_assert_eq!(sum(&assigner.parts(tokens).unwrap()), tokens);
            }
        }
    }
}
