//! What a file is, and what its columns hold: counts and quantiles, never a row.
//!
//! A path in, its [`Kind`] out; a Parquet artifact in, a [`Table`] of facts out. One column is
//! read at a time, so that memory does not grow with the number of columns, and each column's
//! facts have a limit ([`facts`]). Words are counted for columns of known words and names only;
//! of hashes only the number of different ones is told, of free text nothing.

pub mod facts;

use super::error::TableError;
use super::file::{self, FileReader};
use super::output;
use super::schema::{Artifact, CHUNKS, Kind as Type, PLAN, POOL, REQUESTS, TRACE};
use crate::domain::word::word_enum;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    Float64Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt32Type, UInt64Type,
};
use facts::{ColumnFacts, Facts};
use std::io::Read;
use std::path::{Path, PathBuf};

word_enum! {
    /// What a path leads to.
    pub enum Kind {
        /// `trace.parquet`.
        Trace = "trace",
        /// `plan.parquet`.
        Plan = "plan",
        /// `requests.parquet`, or the run directory around it.
        Run = "run",
        /// `chunks.parquet`.
        Chunks = "chunks",
        /// A pool's directory, or a file in it.
        Pool = "pool",
        /// `model.json`.
        Model = "model",
    }
}

/// Columns whose values are words of a fixed list, or names that were checked when they were read.
const WORDS: [(&Artifact, &[&str]); 4] = [
    (
        &TRACE,
        &[
            "source_format",
            "arrival_source",
            "ttft_source",
            "gen_ai_operation_name",
            "gen_ai_provider_name",
            "gen_ai_request_model",
            "gen_ai_response_model",
            "endpoint_family",
            "workload_class",
            "input_token_source",
            "output_token_source",
            "status",
            "error_type",
            "gen_ai_response_finish_reasons",
            "cache_status",
            "cost_currency",
            "session_source",
            "tool_class",
            "rag_label",
            "rag_evidence",
            "prefix_hash_scope",
            "flags",
            "scenario",
        ],
    ),
    (&PLAN, &["scenario", "release_kind", "count_kind", "recorded_status"]),
    (&REQUESTS, &["scenario", "failure", "usage_source", "finish_reason"]),
    (&POOL, &["kind"]),
];

/// The facts about one Parquet file.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Table {
    /// Version of its columns.
    pub schema_version: u32,
    /// Version of the program that wrote it.
    pub tool_version: Option<String>,
    /// BLAKE3 of the file.
    pub digest: String,
    /// Its rows.
    pub rows: u64,
    /// Where it came from.
    pub provenance: serde_json::Value,
    /// Its columns, in the order of the file.
    pub columns: Vec<ColumnFacts>,
}

/// Returns what a path leads to, and the directory or file that is meant.
///
/// # Errors
///
/// If it is missing, cannot be read, or is nothing this program wrote.
pub fn locate(path: &Path) -> Result<(Kind, PathBuf), TableError> {
    let is_file = |name: &str| path.join(name).is_file();
    if path.is_dir() {
        let kind = match (is_file(super::pool::MANIFEST_FILE), is_file("manifest.json")) {
            (true, _) => Kind::Pool,
            (_, true) => Kind::Run,
            _ => return Err(not(path, "a directory without `pool.json` and `manifest.json`")),
        };
        return Ok((kind, path.to_owned()));
    }
    let folder = || path.parent().unwrap_or(Path::new("")).to_owned();
    Ok(match kind_of(path)? {
        Kind::Pool => (Kind::Pool, folder()),
        other => (other, path.to_owned()),
    })
}

/// Returns what a file is, by its metadata.
///
/// # Errors
///
/// As [`locate`].
pub fn kind_of(path: &Path) -> Result<Kind, TableError> {
    let mut head = [0; 4];
    let mut file = output::open(path, "artifact")?;
    let read = file.read(&mut head).map_err(|source| TableError::io(path, "read", source))?;
    match head.get(..read) {
        Some(b"PAR1") => {
            let [artifact, ..] = file::label(path)?;
            match artifact.as_deref() {
                Some("trace") => Ok(Kind::Trace),
                Some("plan") => Ok(Kind::Plan),
                Some("requests") => Ok(Kind::Run),
                Some("chunks") => Ok(Kind::Chunks),
                Some("pool") => Ok(Kind::Pool),
                _ => Err(not(path, "a Parquet file of another program")),
            }
        }
        Some([b'{', ..]) => kind_of_json(path),
        Some([]) => Err(not(path, "an empty file")),
        _ => Err(not(path, "a file of another kind")),
    }
}

/// Largest JSON file that is looked into: a model has some kilobytes.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// The keys that tell this program's JSON files apart.
#[derive(serde::Deserialize)]
struct JsonKeys {
    schema_version: u32,
    mix: Option<serde::de::IgnoredAny>,
    pool_digest: Option<serde::de::IgnoredAny>,
}

fn kind_of_json(path: &Path) -> Result<Kind, TableError> {
    let other = || not(path, "a JSON file of another program");
    if path.metadata().is_ok_and(|there| there.len() > MAX_JSON_BYTES) {
        return Err(other());
    }
    let keys: JsonKeys = output::read_json(path, "artifact", "the file").map_err(|_| other())?;
    match keys {
        JsonKeys { mix: Some(_), schema_version: 1.., .. } => Ok(Kind::Model),
        JsonKeys { pool_digest: Some(_), .. } => Ok(Kind::Pool),
        _ => Err(other()),
    }
}

fn not(path: &Path, found: &'static str) -> TableError {
    TableError::NotAnArtifact { path: path.to_owned(), found }
}

/// Returns the facts about a Parquet file of a kind; `path` is what [`locate`] gave.
///
/// # Errors
///
/// If a file is missing, damaged, or of another schema version.
pub fn table(kind: Kind, path: &Path) -> Result<Table, TableError> {
    let inside = |name: &str| if path.is_dir() { path.join(name) } else { path.to_owned() };
    match kind {
        Kind::Trace => of_artifact(&TRACE, path),
        Kind::Plan => of_artifact(&PLAN, path),
        Kind::Chunks => of_artifact(&CHUNKS, path),
        Kind::Run => of_artifact(&REQUESTS, &inside(REQUESTS.file)),
        Kind::Pool => of_artifact(&POOL, &inside(POOL.file)),
        Kind::Model => Err(TableError::NotParquet { path: path.to_owned() }),
    }
}

fn of_artifact(artifact: &'static Artifact, path: &Path) -> Result<Table, TableError> {
    let whole = FileReader::open_columns(artifact, path, |_| false)?;
    let [_, _, tool_version] = file::label(path)?;
    let words = WORDS.iter().find(|(of, _)| of.name == artifact.name).map_or(&[][..], |(_, w)| w);
    let mut columns = Vec::with_capacity(artifact.columns.len());
    for column in artifact.columns {
        let mut facts = Facts::new(column, words.contains(&column.name));
        let mut file = FileReader::open_columns(artifact, path, |name| name == column.name)?;
        while let Some(batch) = file.next_rows(|_, batch| {
            if let Some(array) = batch.column_by_name(column.name) {
                observe(column.kind, array, &mut facts);
            }
            Ok(Vec::<()>::new())
        }) {
            batch?;
        }
        columns.push(facts.finish());
    }
    Ok(Table {
        schema_version: artifact.version,
        tool_version,
        digest: output::digest(path)?,
        rows: whole.rows(),
        provenance: whole.metadata()?,
        columns,
    })
}

/// Puts the values of one batch into the facts of their column.
fn observe(kind: Type, array: &ArrayRef, facts: &mut Facts) {
    facts.nulls(array.null_count());
    match kind {
        Type::Bool => array.as_boolean().iter().flatten().for_each(|value| facts.truth(value)),
        Type::U32 => whole(array.as_primitive::<UInt32Type>().iter(), facts),
        Type::U64 => whole(array.as_primitive::<UInt64Type>().iter(), facts),
        Type::I16 => whole(array.as_primitive::<Int16Type>().iter(), facts),
        Type::I32 => whole(array.as_primitive::<Int32Type>().iter(), facts),
        Type::I64 => whole(array.as_primitive::<Int64Type>().iter(), facts),
        Type::Time => whole(array.as_primitive::<TimestampMicrosecondType>().iter(), facts),
        Type::F64 => {
            array.as_primitive::<Float64Type>().iter().flatten().for_each(|value| {
                facts.number(value);
            });
        }
        Type::Text => array.as_string::<i32>().iter().flatten().for_each(|text| facts.word(text)),
        Type::Hash => {
            array.as_fixed_size_binary().iter().flatten().for_each(|hash| facts.hash(hash));
        }
        Type::Texts => {
            for list in array.as_list::<i32>().iter().flatten() {
                list.as_string::<i32>().iter().flatten().for_each(|text| facts.word(text));
                facts.length(list.len());
            }
        }
        Type::Hashes | Type::U32s | Type::U64s | Type::I64s | Type::Parts => {
            array.as_list::<i32>().iter().flatten().for_each(|list| facts.length(list.len()));
        }
    }
}

fn whole<T: Into<i128>>(values: impl Iterator<Item = Option<T>>, facts: &mut Facts) {
    values.flatten().for_each(|value| facts.whole(value.into()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::{Flag, Hash128, RequestRecord, Status};
    use crate::domain::time::WallTime;
    use crate::domain::trace::TraceMetadata;
    use crate::table::trace::TraceWriter;

    fn trace(dir: &Path) -> PathBuf {
        let path = dir.join("t.parquet");
        let rows: Vec<RequestRecord> = (0..10_u8)
            .map(|n| {
                let mut row = RequestRecord::unknown("test".into(), 0, 1);
                row.arrival_time = Some(WallTime(i64::from(n) * 1_000_000));
                row.input_tokens = (n > 0).then_some(u32::from(n));
                row.user_hash = Some(Hash128([n % 3; 16]));
                row.status = if n < 7 { Status::Ok } else { Status::Error };
                row.flags = if n == 0 { vec![Flag::CacheHit] } else { Vec::new() };
                row.stream = Some(n < 4);
                row.prefix_block_hashes = vec![7; usize::from(n)];
                row
            })
            .collect();
        let mut writer = TraceWriter::create(&path, false).unwrap();
        writer.write(&rows).unwrap();
        writer.finish(&TraceMetadata { salt_id: "s".to_owned(), ..Default::default() }).unwrap();
        path
    }

    fn column<'a>(table: &'a Table, name: &str) -> &'a ColumnFacts {
        table.columns.iter().find(|column| column.name == name).expect("a column")
    }

    #[test]
    fn a_trace_is_told_column_by_column() {
        let dir = tempfile::tempdir().unwrap();
        let path = trace(dir.path());
        assert_eq!(locate(&path).unwrap(), (Kind::Trace, path.clone()));
        let table = table(Kind::Trace, &path).unwrap();
        assert_eq!((table.rows, table.columns.len()), (10, TRACE.columns.len()));
        assert_eq!(table.provenance["salt_id"], "s");
        let input = column(&table, "gen_ai_usage_input_tokens");
        let numbers = input.numbers.as_ref().unwrap();
        let told = format!("{} {} {} {}", input.nulls, numbers.count, numbers.p50, numbers.max);
        assert_eq!(told, "1 9 5 9");
        let times = column(&table, "arrival_time").times.as_ref().unwrap();
        assert_eq!(times.max, "1970-01-01T00:00:09.000000Z");
        let status = column(&table, "status").words.as_ref().unwrap();
        let shown: Vec<(&str, u64)> =
            status.iter().map(|word| (&*word.value, word.count)).collect();
        assert_eq!(shown, [("ok", 7), ("error", 3)]);
        assert_eq!(column(&table, "flags").words.as_ref().unwrap().len(), 1);
        assert_eq!(column(&table, "user_hash").distinct, Some(3));
        let lengths = column(&table, "prefix_block_hashes").lengths.as_ref().unwrap();
        assert_eq!(lengths.max.to_string(), "9");
        let stream = column(&table, "gen_ai_request_stream").words.as_ref().unwrap();
        assert_eq!(stream.iter().map(|word| word.count).collect::<Vec<_>>(), [6, 4]);
        // No hash, whether of a user or of a block.
        let json = serde_json::to_string(&table).unwrap();
        assert!(!json.contains("0202020202"), "{json}");
    }

    #[test]
    fn other_files_are_refused_with_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let refuse = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let error = locate(&path).unwrap_err();
            error.to_string().replace(&format!("{}/", dir.path().display()), "")
        };
        insta::assert_snapshot!(refuse("a", b""), @"a: expected a trace, a plan, a model, a pool or a run, found an empty file");
        insta::assert_snapshot!(refuse("b", b"PAR1"), @"b: not a Parquet file, or cut short");
        insta::assert_snapshot!(refuse("c", b"{\"a\":1}\n{\"a\":2}\n"), @"c: expected a trace, a plan, a model, a pool or a run, found a JSON file of another program");
        insta::assert_snapshot!(refuse("d", b"time,tokens\n"), @"d: expected a trace, a plan, a model, a pool or a run, found a file of another kind");
        let error = locate(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("a directory without `pool.json` and `manifest.json`"), "{error}");
        let missing = locate(&dir.path().join("none")).unwrap_err();
        assert!(matches!(missing, TableError::Missing { .. }), "{missing}");
    }
}
