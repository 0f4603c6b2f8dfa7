//! `tracewright pool`: builds prompt pools and counts them again.

use super::failure::Failed;
use super::globals::Globals;
use super::print;
use crate::domain::bucket::{bucket_range, log2_bucket};
use crate::domain::pool_index::PoolManifest;
use crate::domain::seed::Seed;
use crate::pool::build::{BuildOptions, Built, DEFAULT_ENTRIES, DEFAULT_JOINS, build};
use crate::pool::corpus::Corpus;
use crate::pool::fake_text::Language;
use crate::pool::proof::{Proof, prove_joints};
use crate::pool::verify::{Verified, check_vocabulary, verify};
use crate::pool::{Texts, Tokenizer};
use crate::table;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Build a pool of prompts with exact token counts, or check one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Build(BuildArgs),
    Verify(VerifyArgs),
}

/// Build a pool from texts of yours, from own sentences, or from both
///
/// Without texts and without `--fake`, sentences are written in English and Chinese.
#[derive(Debug, clap::Args)]
pub(crate) struct BuildArgs {
    /// Text files (`.txt`, `.md`, `.jsonl` with `text`) and folders of them
    #[arg(value_name = "TEXT|DIR")]
    texts: Vec<PathBuf>,
    /// Languages to write sentences in, taking turns
    #[arg(long, value_delimiter = ',', value_name = "LANGUAGES")]
    fake: Vec<FakeLanguage>,
    /// Tokenizer that counts: `o200k_base` or `cl100k_base`
    #[arg(long, default_value = "o200k_base", value_name = "NAME")]
    tokenizer: String,
    /// Entries in all, one-token fillers aside
    ///
    /// Texts come first, sentences fill the rest. Default: 1600 with sentences; without them, all
    /// that the texts give.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    entries: Option<u64>,
    /// Random joins of entries whose counts are checked
    #[arg(long, default_value_t = DEFAULT_JOINS, value_name = "N")]
    joins: u64,
    /// Folder to write the pool to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Count every entry and every cut of a pool again with the reference tokenizer
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Folder of the pool
    #[arg(value_name = "DIR")]
    pool: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FakeLanguage {
    /// English
    En,
    /// Chinese, simplified characters
    Zh,
}

impl From<FakeLanguage> for Language {
    fn from(language: FakeLanguage) -> Self {
        match language {
            FakeLanguage::En => Self::English,
            FakeLanguage::Zh => Self::Chinese,
        }
    }
}

/// What pool to build; all that `run` needs to say.
#[derive(Clone, Debug)]
pub(crate) struct PoolRequest {
    /// Files and folders of texts.
    pub(crate) texts: Vec<PathBuf>,
    /// Languages to write sentences in; both when there are no texts either.
    pub(crate) languages: Vec<Language>,
    /// The tokenizer's name.
    pub(crate) tokenizer: String,
    /// Entries in all, fillers aside.
    pub(crate) entries: Option<u64>,
    /// Random joins to check.
    pub(crate) joins: u64,
}

impl PoolRequest {
    /// The pool that is built when nothing is said: sentences in both languages.
    pub(crate) fn usual() -> Self {
        Self {
            texts: Vec::new(),
            languages: Vec::new(),
            tokenizer: "o200k_base".to_owned(),
            entries: None,
            joins: DEFAULT_JOINS,
        }
    }
}

pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Build(args) => run_build(args, globals),
        Action::Verify(args) => run_verify(args, globals),
    }
}

fn run_build(args: &BuildArgs, globals: &Globals) -> anyhow::Result<ExitCode> {
    let request = PoolRequest {
        texts: args.texts.clone(),
        languages: args.fake.iter().map(|&language| language.into()).collect(),
        tokenizer: args.tokenizer.clone(),
        entries: args.entries,
        joins: args.joins,
    };
    let built = build_pool(&request, &args.output, globals)?;
    print::to_stdout(&summary(&args.output, &built));
    Ok(ExitCode::SUCCESS)
}

/// Builds a pool and writes it to the folder `out`.
pub(crate) fn build_pool(
    request: &PoolRequest,
    out: &Path,
    globals: &Globals,
) -> anyhow::Result<Built> {
    let options = options(request)?;
    let corpus = Corpus::read(&request.texts)?;
    if corpus.skipped_files + corpus.empty_texts > 0 {
        let line = format!(
            "note: {} files of other kinds skipped, {} texts empty",
            corpus.skipped_files, corpus.empty_texts
        );
        print::note(globals, &line);
    }
    let total = options.entries.unwrap_or(DEFAULT_ENTRIES);
    let bar = print::progress(globals, total, "pool: entries");
    let mut built = build(&options, &corpus, globals.seed(), &mut |entries| {
        bar.set_length(total.max(entries));
        bar.set_position(entries);
    })?;
    bar.finish_and_clear();
    built.manifest = table::pool::write(out, &built.manifest, &built.texts, globals.force)?;
    Ok(built)
}

fn options(request: &PoolRequest) -> anyhow::Result<BuildOptions> {
    let mut languages = request.languages.clone();
    if languages.is_empty() && request.texts.is_empty() {
        languages = vec![Language::English, Language::Chinese];
    }
    Ok(BuildOptions {
        tokenizer: Tokenizer::named(&request.tokenizer)?,
        languages,
        entries: request.entries,
        joins: request.joins,
        threads: threads(),
    })
}

fn threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn run_verify(args: &VerifyArgs, globals: &Globals) -> anyhow::Result<ExitCode> {
    let manifest = table::pool::read_manifest(&args.pool)?;
    let texts = Texts::new(table::pool::read_texts(&args.pool)?)?;
    let tokenizer = Tokenizer::named(&manifest.tokenizer)?;
    check_vocabulary(&tokenizer, &manifest.tokenizer_digest)?;
    let bar = print::progress(globals, manifest.entries, "pool: verified");
    let verified = verify(&tokenizer, texts.all(), threads(), &|| bar.inc(1));
    bar.finish_and_clear();
    let proof = prove_joints(&tokenizer, texts.all(), Seed(manifest.seed), manifest.joins_checked)?;
    print::to_stdout(&verdict(&args.pool, tokenizer.name(), &verified, &proof));
    match complaint(&manifest, &verified, &proof) {
        None => Ok(ExitCode::SUCCESS),
        Some(what) => {
            let hint = "build the pool again with `tracewright pool build`".to_owned();
            Err(Failed::new(format!("{}: {what}", args.pool.display()), hint).into())
        }
    }
}

/// Returns the first thing wrong with a pool.
fn complaint(manifest: &PoolManifest, verified: &Verified, proof: &Proof) -> Option<String> {
    let counted = (verified.entries, verified.tokens);
    if let Some(first) = &verified.first_wrong {
        return Some(format!("{} entries are wrong, first: {first}", verified.wrong));
    }
    if let Some(first) = &proof.first_failure {
        return Some(format!("{} joins do not add up, first: {first}", proof.failed));
    }
    if verified.repeated_starts > 0 {
        return Some(format!("{} entries begin like another one", verified.repeated_starts));
    }
    (counted != (manifest.entries, manifest.tokens)).then(|| {
        let (entries, tokens) = counted;
        format!(
            "{entries} entries of {tokens} tokens, expected {} of {}",
            manifest.entries, manifest.tokens
        )
    })
}

/// Returns the lines that `pool verify` prints.
fn verdict(pool: &Path, tokenizer: &str, verified: &Verified, proof: &Proof) -> String {
    format!(
        "{}: counted again with `{tokenizer}` of tiktoken-rs\n\
         entries           {:>9}  wrong {}\n\
         cuts              {:>9}\n\
         tokens            {:>9}\n\
         repeated starts   {:>9}\n\
         joins             {:>9}  failed {}\n",
        pool.display(),
        verified.entries,
        verified.wrong,
        verified.cuts,
        verified.tokens,
        verified.repeated_starts,
        proof.checked,
        proof.failed,
    )
}

/// Returns the lines that `pool build` prints: entries per bucket and kind, and how it went.
pub(crate) fn summary(out: &Path, built: &Built) -> String {
    let manifest = &built.manifest;
    let mut counts: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    let mut tokens: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in built.texts.iter().map(|text| &text.entry) {
        if let Some(bucket) = log2_bucket(entry.tokens) {
            *counts.entry((bucket, &entry.kind)).or_default() += 1;
        }
        *tokens.entry(&entry.kind).or_default() += u64::from(entry.tokens);
    }
    let cells = |cell: &dyn Fn(&str) -> Option<u64>| {
        let shown = |kind: &str| cell(kind).map(|number| number.to_string()).unwrap_or_default();
        manifest.kinds.iter().map(|(kind, _)| shown(kind)).collect::<Vec<_>>()
    };
    let names = manifest.kinds.iter().map(|(kind, _)| kind.clone()).collect();
    let mut rows = vec![("tokens".to_owned(), names)];
    for &(bucket, _) in &manifest.buckets {
        let (low, end) = bucket_range(bucket);
        let name = if end - low == 1 { low.to_string() } else { format!("{low}-{}", end - 1) };
        rows.push((name, cells(&|kind| counts.get(&(bucket, kind)).copied())));
    }
    let of_kind = |kind: &str| manifest.kinds.iter().find(|(name, _)| name == kind);
    rows.push(("entries".to_owned(), cells(&|kind| of_kind(kind).map(|(_, entries)| *entries))));
    rows.push(("tokens".to_owned(), cells(&|kind| tokens.get(kind).copied())));
    let title = format!(
        "{}: {} entries, {} tokens of `{}`, seed {}\n\n",
        out.display(),
        manifest.entries,
        manifest.tokens,
        manifest.tokenizer,
        manifest.seed
    );
    let table: Vec<String> = rows.iter().map(|(name, cells)| row(name, cells)).collect();
    title + &table.concat() + &how_it_went(built)
}

fn row(name: &str, cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>9}")).collect();
    let line = format!("{name:<10}{}", cells.concat());
    format!("{}\n", line.trim_end())
}

fn how_it_went(built: &Built) -> String {
    let (manifest, rejected) = (&built.manifest, &built.rejected);
    let checks = format!(
        "\njoins checked by bpe-openai and tiktoken-rs: {}, failed: {}\n\
         text encodes per entry: {:.2} (and every entry and cut counted again by tiktoken-rs)\n",
        manifest.joins_checked, manifest.joins_failed, built.encodes_per_entry
    );
    if rejected.total() == 0 {
        return checks;
    }
    let left_out = format!(
        "left out: {} too short, {} with the start of another, {} where the tokenizers disagree, \
         {} beyond `--entries`\n",
        rejected.too_short, rejected.same_start, rejected.disagreement, rejected.not_needed
    );
    checks + &left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globals() -> Globals {
        Globals { seed: 42, quiet: true, no_progress: true, force: false }
    }

    fn request(tokenizer: &str) -> PoolRequest {
        PoolRequest {
            texts: Vec::new(),
            languages: vec![Language::English],
            tokenizer: tokenizer.to_owned(),
            entries: Some(12),
            joins: 10,
        }
    }

    #[test]
    fn a_pool_is_built_shown_and_verified() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("pool");
        let built = build_pool(&request("o200k_base"), &out, &globals()).unwrap();
        insta::assert_snapshot!(summary(Path::new("pool"), &built), @r#"
        pool: 589 entries, 2835 tokens of `o200k_base`, seed 42

        tokens           en   filler
        1                        577
        8-15              1
        16-31             2
        32-63             2
        64-127            2
        128-255           2
        256-511           2
        512-1023          1
        entries          12      577
        tokens         2258      577

        joins checked by bpe-openai and tiktoken-rs: 10, failed: 0
        text encodes per entry: 1.15 (and every entry and cut counted again by tiktoken-rs)
        "#);
        let args = VerifyArgs { pool: out.clone() };
        assert_eq!(run_verify(&args, &globals()).unwrap(), ExitCode::SUCCESS);
        let again = build_pool(&request("o200k_base"), &out, &globals()).unwrap_err();
        assert!(again.to_string().contains("exists"), "{again}");
    }

    #[test]
    fn a_pool_that_counts_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("pool");
        let mut built = build_pool(&request("o200k_base"), &out, &globals()).unwrap();
        let cuts = &mut built.texts[3].entry.cut_tokens;
        cuts.remove(0);
        built.texts[3].cut_bytes.remove(1);
        table::pool::write(&out, &built.manifest, &built.texts, true).unwrap();
        let error = run_verify(&VerifyArgs { pool: out.clone() }, &globals()).unwrap_err();
        let shown = super::super::failure::render(&error);
        insta::assert_snapshot!(shown.replace(&out.display().to_string(), "POOL"), @r#"
        error: POOL: 1 entries are wrong, first: pool entry 3: the cut at 2 tokens has 1
        hint: build the pool again with `tracewright pool build`
        "#);
    }

    #[test]
    fn an_unknown_tokenizer_is_named_before_anything_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let request = PoolRequest { texts: vec!["missing.txt".into()], ..request("llama") };
        let error = build_pool(&request, folder.path(), &globals()).unwrap_err();
        insta::assert_snapshot!(super::super::failure::render(&error), @r#"
        error: tokenizer `llama`: not known, expected one of `o200k_base`, `cl100k_base`
        hint: name the tokenizer of the model under test; most recent models count close to `o200k_base`
        "#);
    }

    #[test]
    fn each_complaint_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("pool");
        let manifest = build_pool(&request("o200k_base"), &out, &globals()).unwrap().manifest;
        let good =
            Verified { entries: manifest.entries, tokens: manifest.tokens, ..Verified::default() };
        let proof = Proof { checked: 10, ..Proof::default() };
        assert_eq!(complaint(&manifest, &good, &proof), None);
        let repeated = Verified { repeated_starts: 2, ..good.clone() };
        insta::assert_snapshot!(complaint(&manifest, &repeated, &proof).unwrap(), @"2 entries begin like another one");
        let fewer = Verified { entries: 1, tokens: 9, ..good.clone() };
        assert!(
            complaint(&manifest, &fewer, &proof)
                .unwrap()
                .starts_with("1 entries of 9 tokens, expected ")
        );
        let failed = Proof { failed: 1, first_failure: Some("[..]".into()), ..proof };
        insta::assert_snapshot!(complaint(&manifest, &good, &failed).unwrap(), @"1 joins do not add up, first: [..]");
    }
}
