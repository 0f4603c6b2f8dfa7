//! Tests of building, and of the promise itself: composed prompts of exactly N tokens.

use super::*;
use crate::domain::count::CountTokens;
use crate::domain::schedule::PromptPart;
use crate::pool::compose::compose;
use rand::seq::IndexedRandom;
use std::sync::LazyLock;

fn options(tokenizer: &str, languages: &[Language], entries: Option<u64>) -> BuildOptions {
    BuildOptions {
        tokenizer: Tokenizer::named(tokenizer).unwrap(),
        languages: languages.to_vec(),
        entries,
        joins: 50,
        threads: NonZeroUsize::new(2).unwrap(),
    }
}

fn both(tokenizer: &str, entries: u64) -> BuildOptions {
    options(tokenizer, &[Language::English, Language::Chinese], Some(entries))
}

fn corpus(texts: &[&str]) -> Corpus {
    let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
    Corpus { files: convert::count(texts.len()), texts, ..Corpus::default() }
}

fn built(options: &BuildOptions, corpus: &Corpus, seed: u64) -> Built {
    build(options, corpus, Seed(seed), &mut |_| ()).unwrap()
}

/// Draws entries until their cuts sum to `wanted`; fillers close a gap no cut fits.
fn parts(texts: &[PoolText], wanted: u32, stream: &mut Stream) -> Vec<PromptPart> {
    let (fillers, entries): (Vec<_>, Vec<_>) =
        texts.iter().partition(|text| text.entry.kind == "filler");
    let mut parts = Vec::new();
    let mut left = wanted;
    while left > 0 {
        let from = if left < 3 && stream.random_bool(0.5) { &fillers } else { &entries };
        let entry = &from.choose(stream).unwrap().entry;
        if let Some(cut_tokens) = entry.largest_cut(left) {
            parts.push(PromptPart { entry_id: entry.entry_id, cut_tokens });
            left -= cut_tokens;
        }
    }
    parts
}

/// A pool for several tests: building one costs most of their time.
static POOL: LazyLock<Built> =
    LazyLock::new(|| built(&both("o200k_base", ENTRIES), &Corpus::default(), 42));
const ENTRIES: u64 = 90;

fn assert_exact(tokenizer: &str, texts: &[PoolText], lengths: impl Iterator<Item = u32>) {
    let tokenizer = Tokenizer::named(tokenizer).unwrap();
    let mut stream = Seed(12).stream("test");
    for wanted in lengths {
        let text = compose(texts, &parts(texts, wanted, &mut stream)).unwrap();
        assert_eq!(tokenizer.reference_count(&text), wanted, "{tokenizer:?}");
        assert_eq!(tokenizer.count_tokens(&text), wanted, "{tokenizer:?}");
    }
}

fn random_lengths(seed: u64) -> impl Iterator<Item = u32> {
    let mut stream = Seed(seed).stream("lengths");
    (0..6).map(move |_| stream.random_range(600..=32_768)).chain([32_768])
}

#[test]
fn every_length_is_exact_o200k() {
    assert_exact("o200k_base", &POOL.texts, (1..=600).chain(random_lengths(1)));
}

#[test]
fn every_length_is_exact_cl100k() {
    let pool = built(&both("cl100k_base", 60), &Corpus::default(), 11);
    assert_exact("cl100k_base", &pool.texts, (1..=600).chain(random_lengths(2)));
}

#[test]
fn a_pool_of_both_languages_keeps_its_promises() {
    let pool = &*POOL;
    let kinds: BTreeMap<_, _> = pool.manifest.kinds.iter().cloned().collect();
    assert_eq!(kinds["en"] + kinds["zh"], ENTRIES);
    assert!(kinds["en"] >= 40 && kinds["zh"] >= 40 && kinds["filler"] > 300, "{kinds:?}");
    assert_eq!((pool.manifest.joins_checked, pool.manifest.joins_failed), (50, 0));
    assert!(pool.encodes_per_entry >= 1.0 && pool.encodes_per_entry <= 1.5);
    let buckets: Vec<u32> = pool.manifest.buckets.iter().map(|&(bucket, _)| bucket).collect();
    assert_eq!(buckets, [0, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert!((0..).zip(&pool.texts).all(|(id, text)| text.entry.entry_id == id));
    let sum: u64 = pool.texts.iter().map(|text| u64::from(text.entry.tokens)).sum();
    assert_eq!(pool.manifest.tokens, sum);
}

#[test]
fn prompts_with_different_first_entries_differ_within_16_tokens() {
    let (texts, tokenizer) = (&POOL.texts, Tokenizer::named("o200k_base").unwrap());
    let mut seen = BTreeSet::new();
    let long_enough = texts.iter().filter(|text| text.entry.kind != "filler");
    let mut stream = Seed(8).stream("test");
    for text in long_enough {
        let wanted = stream.random_range(32..90);
        let cut_tokens = text.entry.largest_cut(wanted).unwrap();
        let mut all = vec![PromptPart { entry_id: text.entry.entry_id, cut_tokens }];
        if cut_tokens < wanted {
            all.extend(parts(texts, wanted - cut_tokens, &mut stream));
        }
        let ids = tokenizer.reference_ids(&compose(texts, &all).unwrap());
        assert_eq!(ids.len(), wanted as usize);
        assert!(seen.insert(ids[..16].to_vec()), "{all:?}");
    }
    assert_eq!(seen.len() as u64, ENTRIES);
}

#[test]
fn the_same_seed_gives_the_same_pool_on_any_number_of_threads() {
    let mut one = both("o200k_base", 30);
    one.threads = NonZeroUsize::MIN;
    let (a, b) = (both("o200k_base", 30), one);
    let files = corpus(&["The archive holds letters from three families. They were never sorted."]);
    assert_eq!(built(&a, &files, 3).texts, built(&b, &files, 3).texts);
    assert_ne!(built(&a, &files, 3).texts, built(&a, &files, 4).texts);
}

#[test]
fn files_are_cut_to_their_end_and_nothing_is_lost() {
    let first = "The parcel left on Monday, a day late, since the driver was ill. ".repeat(3)
        + "Nobody in the office had noticed that the label was wrong.\n\n## Heading\n\n"
        + "今天上午，仓库收到三十箱货物，其中两箱外包装破损，已经拍照并通知供应商处理。\n"
        + "Text such as <|endoftext|> and <|im_start|> is nothing special in this sentence.";
    let files = corpus(&[&first, "too short", &"x".repeat(300)]);
    let pool = built(&options("o200k_base", &[], None), &files, 1);
    let kept: String = pool
        .texts
        .iter()
        .filter(|text| text.entry.kind == "file")
        .map(|text| &*text.text)
        .collect();
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    assert!(kept.contains("<|endoftext|>"));
    // The end of the first text, under 8 tokens, and both other texts.
    let expected = Rejections { too_short: 3, ..Rejections::default() };
    assert_eq!(pool.rejected, expected);
    assert_eq!(squeeze(&kept) + "specialinthissentence.", squeeze(&first));
}

#[test]
fn entries_beyond_the_number_asked_for_are_counted() {
    let letter = "Mr. Jones wrote from Leeds that the bridge was closed again. ".repeat(90);
    let files = corpus(&[&letter]);
    let pool = built(&options("o200k_base", &[], Some(1)), &files, 1);
    assert_eq!(pool.texts.iter().filter(|text| text.entry.kind == "file").count(), 1);
    assert!(pool.rejected.not_needed > 0, "{:?}", pool.rejected);
}

#[test]
fn what_cannot_be_built_is_said() {
    let refused = |options: &BuildOptions, texts: &[&str]| {
        build(options, &corpus(texts), Seed(1), &mut |_| ()).unwrap_err().to_string()
    };
    let none = options("o200k_base", &[], None);
    insta::assert_snapshot!(refused(&none, &[]), @"pool: no texts given and no language to write in");
    insta::assert_snapshot!(refused(&none, &["short"]), @"pool: no usable fragment in 1 texts, 1 rejected");
    let many = both("o200k_base", MAX_ENTRIES + 1);
    insta::assert_snapshot!(refused(&many, &[]), @"pool: 1000001 entries, expected at most 1000000");
}

#[test]
fn no_start_begins_another() {
    let mut heads = Heads::default();
    assert!(heads.insert(vec![5, 6, 7]));
    for taken in [vec![5, 6, 7], vec![5, 6], vec![5, 6, 7, 8]] {
        assert!(!heads.insert(taken.clone()), "{taken:?}");
    }
    assert!(heads.insert(vec![5, 6, 8]) && heads.insert(vec![4]));
}

#[test]
fn lengths_follow_the_shares() {
    let mut stream = Seed(1).stream("test");
    let mut counts = BTreeMap::new();
    for at in 0..1_000 {
        let (low, high) = lengths(at, &mut stream);
        assert!(low < high && log2_bucket(high) == log2_bucket(low));
        *counts.entry(log2_bucket(low).unwrap()).or_insert(0) += 1;
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), BUCKET_SHARES);
}
