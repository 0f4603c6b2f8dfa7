//! One Parquet file of one artifact: writer and reader under every artifact's own.
//!
//! Writing is in batches of a fixed number of rows, so the bytes do not depend on how a caller
//! slices its rows, on the clock or on threads. Reading checks that the file is Parquet, is the
//! artifact asked for, has a schema version this program knows and has the expected columns.

use super::decode::same_type;
use super::error::TableError;
use super::output::{PartialFile, open};
use super::schema::{
    Artifact, Column, KEY_ARTIFACT, KEY_METADATA, KEY_SCHEMA_VERSION, KEY_TOOL_VERSION, Kind,
    TOOL_VERSION,
};
use crate::domain::convert;
use arrow::datatypes::{Field, SchemaRef};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows in a row group.
pub(super) const ROW_GROUP_ROWS: usize = 65_536;
/// Encoded bytes in a row group: the writer holds one in memory.
const ROW_GROUP_BYTES: usize = 64 << 20;
/// Rows that are turned into columns at once, in writing and in reading.
pub(super) const BATCH_ROWS: usize = 8_192;

/// Writes one artifact.
pub(super) struct FileWriter {
    artifact: &'static Artifact,
    path: PathBuf,
    writer: ArrowWriter<PartialFile>,
}

impl std::fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FileWriter {
    /// Creates `<path>.partial`.
    pub(super) fn create(
        artifact: &'static Artifact,
        path: &Path,
        force: bool,
    ) -> Result<Self, TableError> {
        let file = PartialFile::create(path, force)?;
        let schema = Arc::new(artifact.arrow());
        let writer = ArrowWriter::try_new(file, schema, Some(properties(artifact)?))
            .map_err(|source| TableError::columns(path, "write", source))?;
        Ok(Self { artifact, path: path.to_owned(), writer })
    }

    /// Returns the path the file will have.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one batch.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), TableError> {
        self.writer.write(batch).map_err(|source| TableError::columns(&self.path, "write", source))
    }

    /// Writes the metadata and the footer, and renames the file to its path.
    pub(super) fn finish<M: Serialize>(mut self, metadata: &M) -> Result<(), TableError> {
        let text = serde_json::to_string(metadata).map_err(|source| TableError::Json {
            path: self.path.clone(),
            what: "the metadata to write",
            source,
        })?;
        for (key, value) in [
            (KEY_ARTIFACT, self.artifact.name.to_owned()),
            (KEY_SCHEMA_VERSION, self.artifact.version.to_string()),
            (KEY_TOOL_VERSION, TOOL_VERSION.to_owned()),
            (KEY_METADATA, text),
        ] {
            self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        let file = self
            .writer
            .into_inner()
            .map_err(|source| TableError::columns(&self.path, "write", source))?;
        file.commit()
    }
}

/// Turns rows into a batch; the number is that of the first row in the file.
type Encode<R> = fn(&Path, &[R], u64) -> Result<RecordBatch, TableError>;

/// Writes rows of one type, in batches of [`BATCH_ROWS`] however the caller slices them.
#[derive(Debug)]
pub(super) struct RowWriter<R> {
    file: FileWriter,
    encode: Encode<R>,
    pending: Vec<R>,
    written: u64,
}

impl<R: Clone> RowWriter<R> {
    /// Creates `<path>.partial`.
    pub(super) fn create(
        artifact: &'static Artifact,
        path: &Path,
        force: bool,
        encode: Encode<R>,
    ) -> Result<Self, TableError> {
        let file = FileWriter::create(artifact, path, force)?;
        Ok(Self { file, encode, pending: Vec::new(), written: 0 })
    }

    /// Returns the path the file will have.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the rows given so far.
    pub(super) fn rows(&self) -> u64 {
        self.written + convert::count(self.pending.len())
    }

    /// Appends rows.
    pub(super) fn write(&mut self, mut rows: &[R]) -> Result<(), TableError> {
        while !rows.is_empty() {
            let room = BATCH_ROWS - self.pending.len();
            let (now, later) = rows.split_at(room.min(rows.len()));
            self.pending.extend_from_slice(now);
            rows = later;
            if self.pending.len() == BATCH_ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes what is pending, the metadata and the footer, and renames the file to its path.
    pub(super) fn finish<M: Serialize>(mut self, metadata: &M) -> Result<(), TableError> {
        self.flush()?;
        self.file.finish(metadata)
    }

    /// Returns how many rows the pending batch still takes, at least one.
    pub(super) fn room(&self) -> usize {
        BATCH_ROWS - self.pending.len()
    }

    /// Ends the pending batch with these rows and writes it; alone they are not copied.
    pub(super) fn write_batch(&mut self, rows: &[R]) -> Result<(), TableError> {
        if self.pending.is_empty() {
            return self.encode(rows);
        }
        self.pending.extend_from_slice(rows);
        self.flush()
    }

    /// Writes what is pending as a batch of its own; nothing pending is no batch.
    pub(super) fn flush(&mut self) -> Result<(), TableError> {
        let mut pending = std::mem::take(&mut self.pending);
        let encoded = self.encode(&pending);
        pending.clear();
        self.pending = pending;
        encoded
    }

    fn encode(&mut self, rows: &[R]) -> Result<(), TableError> {
        if rows.is_empty() {
            return Ok(());
        }
        let batch = (self.encode)(self.file.path(), rows, self.written)
            .map_err(|error| error.at_row(self.written))?;
        self.file.write(&batch)?;
        self.written += convert::count(rows.len());
        Ok(())
    }
}

/// Returns how every artifact is written.
fn properties(artifact: &Artifact) -> Result<WriterProperties, TableError> {
    let level = ZstdLevel::try_new(1)
        .map_err(|source| TableError::columns(Path::new(artifact.file), "write", source))?;
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(format!("tracewright version {TOOL_VERSION}"))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES));
    for path in artifact.columns.iter().filter_map(delta_path) {
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    for column in artifact.columns.iter().filter(|column| is_unique(column)) {
        // Bytes of hashes that hardly repeat: nothing to share, to pack or to skip by.
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_compression(path.clone(), Compression::UNCOMPRESSED)
            .set_column_statistics_enabled(path, EnabledStatistics::None);
    }
    Ok(properties.build())
}

/// Returns whether a column holds hashes of which each row has its own.
fn is_unique(column: &Column) -> bool {
    let repeats = ["session", "user", "key", "tenant"];
    column.kind == Kind::Hash && !repeats.iter().any(|word| column.name.starts_with(word))
}

/// Returns the Parquet path of a column of times or numbers of rows: its values hardly repeat, but
/// lie close together, so that differences pack better than a dictionary.
fn delta_path(column: &Column) -> Option<ColumnPath> {
    let spans = matches!(column.unit, "us" | "ns");
    let name = column.name.to_owned();
    match column.kind {
        Kind::Time => Some(ColumnPath::from(name)),
        Kind::I64 if spans => Some(ColumnPath::from(name)),
        Kind::U64 if name.ends_with("_id") => Some(ColumnPath::from(name)),
        Kind::I64s => Some(ColumnPath::new(vec![name, "list".to_owned(), "item".to_owned()])),
        _ => None,
    }
}

/// Reads one artifact, batch by batch.
pub(super) struct FileReader {
    path: PathBuf,
    rows: u64,
    rows_read: u64,
    metadata: String,
    batches: ParquetRecordBatchReader,
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FileReader {
    /// Opens a file and checks what it is.
    pub(super) fn open(artifact: &'static Artifact, path: &Path) -> Result<Self, TableError> {
        Self::open_columns(artifact, path, |_| true)
    }

    /// Opens a file for the columns whose name `wanted` accepts.
    pub(super) fn open_columns(
        artifact: &'static Artifact,
        path: &Path,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, TableError> {
        let file = open(path, artifact.name)?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)
            .map_err(|_| TableError::NotParquet { path: path.to_owned() })?;
        check_artifact(artifact, path, &builder)?;
        check_columns(artifact, path, builder.schema())?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or_default();
        let metadata = value(&builder, KEY_METADATA).unwrap_or_default().to_owned();
        let fields = builder.schema().fields().iter().enumerate();
        let roots: Vec<usize> =
            fields.filter(|(_, field)| wanted(field.name())).map(|(at, _)| at).collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let batches = builder
            .with_batch_size(BATCH_ROWS)
            .with_projection(mask)
            .build()
            .map_err(|source| TableError::columns(path, "read", source))?;
        Ok(Self { path: path.to_owned(), rows, rows_read: 0, metadata, batches })
    }

    /// Returns the rows of the file.
    pub(super) const fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the artifact's own metadata.
    pub(super) fn metadata<M: DeserializeOwned>(&self) -> Result<M, TableError> {
        serde_json::from_str(&self.metadata).map_err(|source| TableError::Json {
            path: self.path.clone(),
            what: "`tracewright.metadata`",
            source,
        })
    }

    /// Returns the rows of the next batch, as `decode` reads them.
    pub(super) fn next_rows<R>(
        &mut self,
        decode: impl FnOnce(&Path, &RecordBatch) -> Result<Vec<R>, TableError>,
    ) -> Option<Result<Vec<R>, TableError>> {
        let batch = match self.batches.next()? {
            Ok(batch) => batch,
            Err(source) => return Some(Err(TableError::columns(&self.path, "read", source))),
        };
        let first = self.rows_read;
        self.rows_read += convert::count(batch.num_rows());
        Some(decode(&self.path, &batch).map_err(|error| error.at_row(first)))
    }
}

/// Returns what a Parquet file says it is: artifact, schema version and tool version, each `None`
/// where it is silent.
pub(super) fn label(path: &Path) -> Result<[Option<String>; 3], TableError> {
    let file = open(path, "artifact")?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|_| TableError::NotParquet { path: path.to_owned() })?;
    let keys = [KEY_ARTIFACT, KEY_SCHEMA_VERSION, KEY_TOOL_VERSION];
    Ok(keys.map(|key| value(&builder, key).map(str::to_owned)))
}

/// Returns the value of a key of the Parquet metadata.
fn value<'a>(builder: &'a ParquetRecordBatchReaderBuilder<File>, key: &str) -> Option<&'a str> {
    let pairs = builder.metadata().file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref())
}

fn check_artifact(
    artifact: &'static Artifact,
    path: &Path,
    builder: &ParquetRecordBatchReaderBuilder<File>,
) -> Result<(), TableError> {
    let found = value(builder, KEY_ARTIFACT);
    if found != Some(artifact.name) {
        let found = found.map_or_else(
            || "a Parquet file of another program".to_owned(),
            |found| format!("a {found}"),
        );
        return Err(TableError::WrongArtifact {
            path: path.to_owned(),
            expected: artifact.name,
            found,
        });
    }
    let found = value(builder, KEY_SCHEMA_VERSION).unwrap_or("none");
    if found != artifact.version.to_string() {
        return Err(TableError::SchemaVersion {
            path: path.to_owned(),
            artifact: artifact.name,
            expected: artifact.version,
            found: found.to_owned(),
        });
    }
    Ok(())
}

fn check_columns(artifact: &Artifact, path: &Path, schema: &SchemaRef) -> Result<(), TableError> {
    for column in artifact.columns {
        let expected = column.kind.arrow();
        let found = schema.field_with_name(column.name).ok().map(Field::data_type);
        if !found.is_some_and(|found| same_type(found, &expected)) {
            return Err(TableError::ColumnType {
                path: path.to_owned(),
                column: column.name.to_owned(),
                expected: column.kind.name().to_owned(),
                found: found.map_or_else(|| "missing".to_owned(), |found| format!("`{found}`")),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::schema::{CHUNKS, PLAN, TRACE};
    use arrow::array::{ArrayRef, Int64Array, ListArray, UInt64Array};
    use arrow::datatypes::Int64Type;

    /// Writes a file as another program would: any columns, any metadata.
    fn foreign(path: &Path, columns: Vec<(&str, ArrayRef)>, metadata: &[(&str, &str)]) {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = PartialFile::create(path, true).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        for (key, value) in metadata {
            let pair = KeyValue::new((*key).to_owned(), (*value).to_owned());
            writer.append_key_value_metadata(pair);
        }
        writer.into_inner().unwrap().commit().unwrap();
    }

    fn ids() -> (&'static str, ArrayRef) {
        ("request_id", Arc::new(UInt64Array::from(vec![Some(7), None])))
    }

    fn refused(path: &Path, artifact: &'static Artifact) -> String {
        let error = FileReader::open(artifact, path).unwrap_err();
        let dir = path.parent().unwrap().to_str().unwrap();
        format!("{error}\nhint: {}", error.hint().unwrap()).replace(dir, "DIR")
    }

    #[test]
    fn files_of_others_are_refused_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        foreign(&path, vec![ids()], &[]);
        insta::assert_snapshot!(refused(&path, &TRACE), @"
        DIR/a.parquet: expected a trace, found a Parquet file of another program
        hint: make a trace with `tracewright ingest LOG -o trace.parquet`
        ");
        let plan = (KEY_ARTIFACT, "plan");
        foreign(&path, vec![ids()], &[plan, (KEY_SCHEMA_VERSION, "2")]);
        insta::assert_snapshot!(refused(&path, &PLAN), @"
        DIR/a.parquet: schema version 2 of a plan, expected 1
        hint: make the plan again with this version of tracewright (0.1.0)
        ");
        foreign(&path, vec![ids()], &[plan, (KEY_SCHEMA_VERSION, "1")]);
        insta::assert_snapshot!(refused(&path, &PLAN), @"
        DIR/a.parquet: column `scenario` is missing, expected `Utf8`
        hint: the file was changed by another program; make it again
        ");
        let wrong = ("request_id", Arc::new(Int64Array::from(vec![7])) as ArrayRef);
        foreign(&path, vec![wrong], &[plan, (KEY_SCHEMA_VERSION, "1")]);
        insta::assert_snapshot!(refused(&path, &PLAN), @"
        DIR/a.parquet: column `request_id` is `Int64`, expected `UInt64`
        hint: the file was changed by another program; make it again
        ");
    }

    #[test]
    fn a_null_where_none_may_be_is_refused_with_its_row() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
            Some(vec![Some(1), Some(2)]),
            Some(vec![]),
        ]);
        let columns = vec![ids(), ("chunk_deltas_ns", Arc::new(lists) as ArrayRef)];
        foreign(&path, columns, &[(KEY_ARTIFACT, "chunks"), (KEY_SCHEMA_VERSION, "1")]);
        let mut file = FileReader::open(&CHUNKS, &path).unwrap();
        let decode = |path: &Path, batch: &RecordBatch| {
            let mut from = crate::table::decode::Decoder::new(&CHUNKS, path, batch, &0_u64);
            from.int("request_id", |row, id| *row = id);
            from.finish()
        };
        let error = file.next_rows(decode).unwrap().unwrap_err();
        let text = error.to_string().replace(dir.path().to_str().unwrap(), "DIR");
        insta::assert_snapshot!(text, @"DIR/a.parquet: column `request_id`, row 1: null, expected a value");
    }

    #[test]
    fn rows_of_several_row_groups() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let encode: Encode<u64> = |path, rows, _first| {
            let mut to = crate::table::encode::Encoder::new(&CHUNKS, path, rows);
            to.int("request_id", |id| Some(*id))
                .ints("chunk_deltas_ns", |id| Some([*id].into_iter()));
            to.finish()
        };
        let ids: Vec<u64> = (0..=convert::count(ROW_GROUP_ROWS)).collect();
        let mut writer = RowWriter::create(&CHUNKS, &path, false, encode).unwrap();
        writer.write(&ids).unwrap();
        writer.finish(&()).unwrap();
        let mut file = FileReader::open(&CHUNKS, &path).unwrap();
        assert_eq!(file.rows(), convert::count(ids.len()));
        let mut read = Vec::new();
        while let Some(batch) = file.next_rows(|path, batch| {
            let mut from = crate::table::decode::Decoder::new(&CHUNKS, path, batch, &0_u64);
            from.int("request_id", |row, id| *row = id);
            from.finish()
        }) {
            let batch = batch.unwrap();
            assert!(batch.len() <= BATCH_ROWS);
            read.extend(batch);
        }
        assert!(read == ids);
    }

    #[test]
    fn metadata_that_is_no_json_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        FileWriter::create(&CHUNKS, &path, false).unwrap().finish(&"x").unwrap();
        let file = FileReader::open(&CHUNKS, &path).unwrap();
        assert_eq!(file.metadata::<String>().unwrap(), "x");
        let error = file.metadata::<u64>().unwrap_err();
        let text = error.to_string().replace(dir.path().to_str().unwrap(), "DIR");
        insta::assert_snapshot!(text, @"DIR/a.parquet: `tracewright.metadata` does not have the expected form");
    }

    #[test]
    fn times_and_ids_are_packed_as_differences() {
        let packed = |artifact: &Artifact| -> Vec<String> {
            artifact.columns.iter().filter_map(delta_path).map(|path| path.string()).collect()
        };
        assert_eq!(packed(&CHUNKS), ["request_id", "chunk_deltas_ns.list.item"]);
        let trace = packed(&TRACE);
        assert!(trace.contains(&"arrival_time".to_owned()), "{trace:?}");
        assert!(!trace.contains(&"gen_ai_usage_input_tokens".to_owned()), "{trace:?}");
    }
}
