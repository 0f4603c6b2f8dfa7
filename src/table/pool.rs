//! `pool.parquet` and `pool.json`: the texts of a prompt pool and their manifest.
//!
//! The manifest holds the digest of the Parquet file; both readers check it, so that a plan never
//! rests on texts that were changed after the pool was built.

use super::decode::Decoder;
use super::encode::Encoder;
use super::error::TableError;
use super::file::{FileReader, RowWriter};
use super::output::{digest, read_json, write_json};
use super::schema::POOL;
use crate::domain::bucket::log2_bucket;
use crate::domain::pool_index::{PoolEntry, PoolIndex, PoolManifest, PoolText};
use arrow::record_batch::RecordBatch;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// File name of the manifest.
pub const MANIFEST_FILE: &str = "pool.json";

/// Metadata of `pool.parquet`: what the texts were counted with.
#[derive(Debug, Serialize, Deserialize)]
struct PoolMetadata {
    tokenizer: String,
    tokenizer_digest: String,
    seed: u64,
}

/// Writes a pool into `dir`, which is created when missing, and returns the manifest with the
/// digest filled in.
///
/// # Errors
///
/// As [`super::output::PartialFile::create`], for either file.
pub fn write(
    dir: &Path,
    manifest: &PoolManifest,
    texts: &[PoolText],
    force: bool,
) -> Result<PoolManifest, TableError> {
    std::fs::create_dir_all(dir).map_err(|source| TableError::io(dir, "create", source))?;
    let manifest_path = dir.join(MANIFEST_FILE);
    if !force && manifest_path.exists() {
        return Err(TableError::Exists { path: manifest_path });
    }
    let path = texts_path(dir);
    let mut rows = RowWriter::create(&POOL, &path, force, encode)?;
    rows.write(texts)?;
    rows.finish(&PoolMetadata {
        tokenizer: manifest.tokenizer.clone(),
        tokenizer_digest: manifest.tokenizer_digest.clone(),
        seed: manifest.seed,
    })?;
    let manifest = PoolManifest { pool_digest: digest(&path)?, ..manifest.clone() };
    write_json(&manifest_path, &manifest, force)?;
    Ok(manifest)
}

/// Reads the manifest of a pool.
///
/// # Errors
///
/// If the manifest is missing or not a manifest.
pub fn read_manifest(dir: &Path) -> Result<PoolManifest, TableError> {
    read_json(&dir.join(MANIFEST_FILE), "pool", "`pool.json`")
}

/// Reads a pool without its texts, after checking the digest.
///
/// # Errors
///
/// If a file is missing, damaged, or not the one the manifest describes.
pub fn read_index(dir: &Path) -> Result<PoolIndex, TableError> {
    let manifest = checked_manifest(dir)?;
    let wanted = |name: &str| matches!(name, "entry_id" | "kind" | "tokens" | "cut_tokens");
    let mut file = FileReader::open_columns(&POOL, &texts_path(dir), wanted)?;
    let mut entries = Vec::new();
    while let Some(batch) = file.next_rows(decode_entries) {
        entries.extend(batch?);
    }
    Ok(PoolIndex { manifest, entries })
}

/// Reads the texts of a pool, after checking the digest.
///
/// # Errors
///
/// If a file is missing, damaged, or not the one the manifest describes.
pub fn read_texts(dir: &Path) -> Result<Vec<PoolText>, TableError> {
    checked_manifest(dir)?;
    let mut file = FileReader::open(&POOL, &texts_path(dir))?;
    let mut texts = Vec::new();
    while let Some(batch) = file.next_rows(decode_texts) {
        texts.extend(batch?);
    }
    Ok(texts)
}

fn texts_path(dir: &Path) -> PathBuf {
    dir.join(POOL.file)
}

fn checked_manifest(dir: &Path) -> Result<PoolManifest, TableError> {
    let manifest = read_manifest(dir)?;
    let path = texts_path(dir);
    let found = digest(&path)?;
    if found != manifest.pool_digest {
        return Err(TableError::Digest { path, expected: manifest.pool_digest, found });
    }
    Ok(manifest)
}

fn encode(path: &Path, rows: &[PoolText], _first: u64) -> Result<RecordBatch, TableError> {
    let mut to = Encoder::new(&POOL, path, rows);
    to.int("entry_id", |r| Some(r.entry.entry_id))
        .text("kind", |r| Some(&r.entry.kind))
        .int("tokens", |r| Some(r.entry.tokens))
        .int("bucket", |r| log2_bucket(r.entry.tokens))
        .text("text", |r| Some(&r.text))
        .ints("cut_tokens", |r| Some(r.entry.cut_tokens.iter().copied()))
        .ints("cut_bytes", |r| Some(r.cut_bytes.iter().copied()));
    to.finish()
}

fn decode_entries(path: &Path, batch: &RecordBatch) -> Result<Vec<PoolEntry>, TableError> {
    let mut from = Decoder::new(&POOL, path, batch, &blank().entry);
    from.int("entry_id", |r, v| r.entry_id = v)
        .text("kind", |r, v| v.clone_into(&mut r.kind))
        .int("tokens", |r, v| r.tokens = v)
        .ints("cut_tokens", |r, v| r.cut_tokens = v);
    from.finish()
}

fn decode_texts(path: &Path, batch: &RecordBatch) -> Result<Vec<PoolText>, TableError> {
    let mut from = Decoder::new(&POOL, path, batch, &blank());
    from.int("entry_id", |r, v| r.entry.entry_id = v)
        .text("kind", |r, v| v.clone_into(&mut r.entry.kind))
        .int("tokens", |r, v| r.entry.tokens = v)
        .text("text", |r, v| v.clone_into(&mut r.text))
        .ints("cut_tokens", |r, v| r.entry.cut_tokens = v)
        .ints("cut_bytes", |r, v| r.cut_bytes = v);
    from.finish()
}

fn blank() -> PoolText {
    let entry = PoolEntry { entry_id: 0, tokens: 0, kind: String::new(), cut_tokens: Vec::new() };
    PoolText { entry, text: String::new(), cut_bytes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::samples::{Draw, pool_manifest};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn what_is_written_is_read(seed: u64, n in 0_u32..40) {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path().join("pool");
            let texts = Draw::new(seed).texts(n);
            let manifest = write(&dir, &pool_manifest(), &texts, false).unwrap();
            prop_assert_eq!(manifest.pool_digest.len(), 64);
            let index = read_index(&dir).unwrap();
            prop_assert_eq!(&index.manifest, &manifest);
            let entries: Vec<_> = texts.iter().map(|text| text.entry.clone()).collect();
            prop_assert_eq!(index.entries, entries);
            prop_assert_eq!(read_texts(&dir).unwrap(), texts);
        }
    }

    #[test]
    fn refusals_say_where_and_why() {
        let dir = tempfile::tempdir().unwrap();
        let shown = |error: TableError| {
            let hint = error.hint().unwrap_or_default();
            format!("{error}\nhint: {hint}").replace(dir.path().to_str().unwrap(), "DIR")
        };
        insta::assert_snapshot!(shown(read_index(dir.path()).unwrap_err()), @"
        DIR/pool.json: no such file
        hint: build a pool with `tracewright pool build`
        ");
        let manifest = PoolManifest { pool_digest: "0f".into(), ..pool_manifest() };
        write(dir.path(), &manifest, &Draw::new(1).texts(2), false).unwrap();
        let again = write(dir.path(), &manifest, &[], false).unwrap_err();
        insta::assert_snapshot!(shown(again), @"
        DIR/pool.json: exists already
        hint: choose another path, or overwrite with `--force`
        ");
        write_json(&dir.path().join(MANIFEST_FILE), &manifest, true).unwrap();
        let text = shown(read_texts(dir.path()).unwrap_err());
        let digest = digest(&texts_path(dir.path())).unwrap();
        insta::assert_snapshot!(text.replace(&digest, "DIGEST"), @"
        DIR/pool.parquet: digest is `DIGEST`, expected `0f`
        hint: the file was changed after it was made; make it again
        ");
    }
}
