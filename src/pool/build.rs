//! Builds a pool: fragments of the user's texts and of own sentences, fillers, and the proof.
//!
//! In: options, the user's texts, a seed. Out: the manifest, the entries, and what was rejected and
//! why. Lengths follow fixed shares of log2 buckets from 8 to 4,095 tokens. No two entries begin
//! with the same tokens: among the starts ([`Fragment::head`], at most 16 tokens) none is the
//! beginning of another, so prompts of 32 tokens and more that begin with different entries
//! differ within their first 16 tokens. Equal inputs and seed give equal pools, whatever the
//! number of threads. Writes no file: `table::pool` does, and fills in `pool_digest`.

use super::corpus::Corpus;
use super::error::PoolError;
use super::fake_text::{Language, write_text};
use super::fillers;
use super::fragment::{Fragment, MIN_TOKENS, cut_fragment};
use super::parallel::in_order;
use super::proof::{Proof, prove_joints};
use super::tokenizer::Tokenizer;
use super::verify::verify_entry;
use crate::domain::bucket::{bucket_range, log2_bucket};
use crate::domain::convert;
use crate::domain::pool_index::{PoolManifest, PoolText};
use crate::domain::seed::{Seed, Stream};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

/// Version of the pool's files.
pub const SCHEMA_VERSION: u32 = 1;
/// Entries of a pool of own sentences, unless the user says otherwise.
pub const DEFAULT_ENTRIES: u64 = 1_600;
/// Random joins checked, unless the user says otherwise.
pub const DEFAULT_JOINS: u64 = 2_000;
/// Most entries of a pool, fillers aside.
pub const MAX_ENTRIES: u64 = 1_000_000;
/// The kind of entries cut from the user's files.
pub const FILE_KIND: &str = "file";

/// Share of each log2 bucket in a pool, per mille: many short starts, enough long entries that a
/// prompt of 16,384 tokens takes about ten.
const BUCKET_SHARES: [(u32, u64); 9] =
    [(3, 75), (4, 125), (5, 187), (6, 219), (7, 156), (8, 112), (9, 63), (10, 38), (11, 25)];
/// Steps through the shares so that any run of entries holds them evenly; coprime with 1,000.
const SHARE_STEP: u64 = 617;
/// Candidates written at once.
const WAVE: u64 = 256;
/// Candidates tried for each entry wanted before giving up.
const MAX_TRIES: u64 = 6;

/// What kind of pool to build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// Languages to write own sentences in, taking turns.
    pub languages: Vec<Language>,
    /// Entries in all, fillers aside; `None`: all that the files give, or [`DEFAULT_ENTRIES`]
    /// when there are languages to write in.
    pub entries: Option<u64>,
    /// Random joins to check.
    pub joins: u64,
    /// Threads to use; they do not change the result.
    pub threads: NonZeroUsize,
}

/// A finished pool.
#[derive(Clone, Debug)]
pub struct Built {
    /// The manifest; `pool_digest` is empty until the pool is written.
    pub manifest: PoolManifest,
    /// The entries, by entry id; fillers last.
    pub texts: Vec<PoolText>,
    /// Candidates that did not become entries.
    pub rejected: Rejections,
    /// Full-text encodes of the engine per entry, rejected candidates and the part of a text that
    /// was written and cut off included. The checks by the reference are not in it.
    pub encodes_per_entry: f64,
}

/// Candidates that did not become entries, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejections {
    /// The rest of a text, under 8 tokens, or no word boundary near its start.
    pub too_short: u64,
    /// Begins like another entry.
    pub same_start: u64,
    /// The two tokenizers do not agree on it.
    pub disagreement: u64,
    /// More than the entries asked for.
    pub not_needed: u64,
}

impl Rejections {
    /// Returns all of them.
    pub const fn total(&self) -> u64 {
        self.too_short + self.same_start + self.disagreement + self.not_needed
    }
}

/// Builds a pool and proves that its entries can be joined. Calls `progress` with the number of
/// entries so far.
///
/// # Errors
/// [`PoolError::NoSource`], [`PoolError::NoFragments`], [`PoolError::TooFew`],
/// [`PoolError::TooMany`]; [`PoolError::JoinsFailed`] when a join does not add up.
pub fn build(
    options: &BuildOptions,
    corpus: &Corpus,
    seed: Seed,
    progress: &mut dyn FnMut(u64),
) -> Result<Built, PoolError> {
    let wanted = wanted_entries(options, corpus)?;
    let mut pool = Growing::new(wanted);
    pool.add_files(options, corpus, seed, progress);
    pool.add_sentences(options, seed, progress)?;
    if pool.texts.is_empty() {
        let texts = convert::count(corpus.texts.len());
        return Err(PoolError::NoFragments { texts, rejected: pool.rejected.total() });
    }
    let first_filler = next_id(&pool.texts);
    pool.texts.extend(fillers::fillers(&options.tokenizer, first_filler));
    let proof = prove_joints(&options.tokenizer, &pool.texts, seed, options.joins)?;
    if let Proof { checked, failed, first_failure: Some(first) } = proof {
        return Err(PoolError::JoinsFailed { checked, failed, first });
    }
    let entries = convert::float(u64::from(first_filler));
    Ok(Built {
        manifest: manifest(options, seed, &pool.texts, &proof),
        texts: pool.texts,
        rejected: pool.rejected,
        encodes_per_entry: pool.encodes / entries,
    })
}

fn wanted_entries(options: &BuildOptions, corpus: &Corpus) -> Result<u64, PoolError> {
    if options.languages.is_empty() && corpus.texts.is_empty() && corpus.files == 0 {
        return Err(PoolError::NoSource);
    }
    let default = if options.languages.is_empty() { MAX_ENTRIES } else { DEFAULT_ENTRIES };
    let wanted = options.entries.unwrap_or(default);
    if wanted > MAX_ENTRIES {
        return Err(PoolError::TooMany { wanted, limit: MAX_ENTRIES });
    }
    Ok(wanted)
}

/// A pool while it grows.
struct Growing {
    wanted: u64,
    texts: Vec<PoolText>,
    heads: Heads,
    rejected: Rejections,
    encodes: f64,
}

/// One fragment made and checked by a worker.
struct Candidate {
    /// The entry and its start; `None` when none could be cut.
    entry: Option<(PoolText, Vec<u32>)>,
    /// Whether the reference agrees with every count.
    agreed: bool,
    /// Bytes encoded over bytes kept.
    encodes: f64,
}

impl Growing {
    fn new(wanted: u64) -> Self {
        Self {
            wanted,
            texts: Vec::new(),
            heads: Heads::default(),
            rejected: Rejections::default(),
            encodes: 0.0,
        }
    }

    fn len(&self) -> u64 {
        convert::count(self.texts.len())
    }

    /// Cuts the user's texts, each from its start to its end.
    fn add_files(
        &mut self,
        options: &BuildOptions,
        corpus: &Corpus,
        seed: Seed,
        progress: &mut dyn FnMut(u64),
    ) {
        let numbered: Vec<(u64, &String)> = (0..).zip(&corpus.texts).collect();
        let wave = usize::try_from(WAVE).unwrap_or(1);
        for texts in numbered.chunks(wave) {
            let cut = in_order(texts, options.threads, |&(at, text)| {
                cut_text(&options.tokenizer, text, &mut seed.stream_of("pool/files", at))
            });
            for candidate in cut.into_iter().flatten() {
                self.take(candidate);
            }
            progress(self.len());
        }
    }

    /// Writes own sentences until there are enough entries.
    fn add_sentences(
        &mut self,
        options: &BuildOptions,
        seed: Seed,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), PoolError> {
        let languages = convert::count(options.languages.len());
        let missing = self.wanted.saturating_sub(self.len());
        let limit = missing.saturating_mul(MAX_TRIES) + WAVE;
        let mut tried = 0;
        while languages > 0 && self.len() < self.wanted {
            if tried >= limit {
                return Err(PoolError::TooFew { wanted: self.wanted, built: self.len(), tried });
            }
            let wave: Vec<u64> = (tried..tried + WAVE.min(self.wanted - self.len())).collect();
            tried += convert::count(wave.len());
            let written = in_order(&wave, options.threads, |&at| {
                let language = convert::index(at % languages)
                    .and_then(|at| options.languages.get(at))
                    .copied()
                    .unwrap_or(Language::English);
                write_candidate(&options.tokenizer, language, at / languages, seed)
            });
            for candidate in written {
                self.take(candidate);
            }
            progress(self.len());
        }
        Ok(())
    }

    /// Takes a candidate into the pool, or counts why not.
    fn take(&mut self, candidate: Candidate) {
        self.encodes += candidate.encodes;
        let Some((mut text, head)) = candidate.entry else {
            self.rejected.too_short += 1;
            return;
        };
        if !candidate.agreed {
            self.rejected.disagreement += 1;
        } else if self.len() >= self.wanted {
            self.rejected.not_needed += 1;
        } else if self.heads.insert(head) {
            text.entry.entry_id = next_id(&self.texts);
            self.texts.push(text);
        } else {
            self.rejected.same_start += 1;
        }
    }
}

/// The starts of all entries, none the beginning of another.
#[derive(Default)]
struct Heads(BTreeSet<Vec<u32>>);

impl Heads {
    /// Adds a start; false when it begins like one that is there, or one there begins like it.
    fn insert(&mut self, head: Vec<u32>) -> bool {
        let longer = self.0.range(head.clone()..).next();
        let taken = longer.is_some_and(|other| other.starts_with(&head))
            || (1..head.len()).any(|tokens| head.get(..tokens).is_some_and(|h| self.0.contains(h)));
        !taken && self.0.insert(head)
    }
}

/// Cuts a text from its start to its end into candidates; the rest too short for one is the last.
fn cut_text(tokenizer: &Tokenizer, text: &str, stream: &mut Stream) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let mut rest = text;
    let mut at: u64 = stream.random_range(0..1_000);
    while !rest.trim_start().is_empty() {
        let (low, high) = lengths(at, stream);
        at += 1;
        // A rest shorter than its bucket is kept as it is.
        let found = cut_fragment(tokenizer, rest, low, high)
            .or_else(|| cut_fragment(tokenizer, rest, MIN_TOKENS, high));
        let Some((fragment, used)) = found else {
            candidates.push(Candidate { entry: None, agreed: true, encodes: 0.0 });
            match skip_line(rest) {
                Some(after) => rest = after,
                None => break,
            }
            continue;
        };
        rest = rest.get(used..).unwrap_or_default();
        candidates.push(check(tokenizer, fragment, FILE_KIND, 1.0));
    }
    candidates
}

/// Returns what follows the first line of a text, its leading white space aside.
fn skip_line(text: &str) -> Option<&str> {
    text.trim_start().split_once('\n').map(|(_, after)| after)
}

/// Writes candidate number `at` of a language.
fn write_candidate(tokenizer: &Tokenizer, language: Language, at: u64, seed: Seed) -> Candidate {
    let mut stream = seed.stream_of(&format!("pool/{}", language.code()), at);
    let (low, high) = lengths(at, &mut stream);
    let text = write_text(language, high, &mut stream);
    let Some((fragment, used)) = cut_fragment(tokenizer, &text, low, high) else {
        return Candidate { entry: None, agreed: true, encodes: 1.0 };
    };
    // The walk stops at `high` tokens; what lies between the cut and there was encoded in vain.
    let walked = convert::float(u64::from(high)) / convert::float(u64::from(fragment.tokens()));
    let written = convert::float_count(text.len()) / convert::float_count(used.max(1));
    check(tokenizer, fragment, language.code(), walked.min(written))
}

/// Lets the reference tokenizer count a fragment and all its cuts.
fn check(tokenizer: &Tokenizer, fragment: Fragment, kind: &str, encodes: f64) -> Candidate {
    let head = fragment.head.clone();
    let text = fragment.into_entry(0, kind);
    let agreed = verify_entry(tokenizer, &text).is_ok();
    Candidate { entry: Some((text, head)), agreed, encodes }
}

/// Returns the least and most tokens of candidate number `at`: its bucket's low end, and a length
/// drawn from the upper part of the bucket.
fn lengths(at: u64, stream: &mut Stream) -> (u32, u32) {
    let place = at.wrapping_mul(SHARE_STEP) % 1_000;
    let mut below = 0;
    let mut bucket = MIN_TOKENS.ilog2();
    for (next, share) in BUCKET_SHARES {
        if below <= place {
            bucket = next;
        }
        below += share;
    }
    let (low, end) = bucket_range(bucket);
    let low = u32::try_from(low).unwrap_or(MIN_TOKENS);
    let end = u32::try_from(end).unwrap_or(u32::MAX);
    (low, stream.random_range(low + low / 4..end))
}

fn next_id(texts: &[PoolText]) -> u32 {
    super::tokenizer::narrow(texts.len())
}

fn manifest(options: &BuildOptions, seed: Seed, texts: &[PoolText], proof: &Proof) -> PoolManifest {
    let mut buckets = BTreeMap::new();
    let mut kinds = BTreeMap::new();
    let mut tokens = 0;
    for text in texts {
        tokens += u64::from(text.entry.tokens);
        *kinds.entry(text.entry.kind.clone()).or_insert(0) += 1;
        if let Some(bucket) = log2_bucket(text.entry.tokens) {
            *buckets.entry(bucket).or_insert(0) += 1;
        }
    }
    PoolManifest {
        schema_version: SCHEMA_VERSION,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        tokenizer: options.tokenizer.name().to_owned(),
        tokenizer_digest: options.tokenizer.digest(),
        pool_digest: String::new(),
        seed: seed.0,
        entries: convert::count(texts.len()),
        tokens,
        buckets: buckets.into_iter().collect(),
        kinds: kinds.into_iter().collect(),
        joins_checked: proof.checked,
        joins_failed: proof.failed,
    }
}

#[cfg(test)]
mod tests;
