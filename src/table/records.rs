//! Rows of any Parquet or Arrow IPC file as JSON objects: logs that other programs wrote.
//!
//! File -> texts of objects, in order, some hundred rows at a time. Instants of any unit, INT96
//! too, become ISO texts with all their digits: in UTC with its sign where the column has a zone,
//! without any where it has none. Binary columns become hexadecimal texts, nulls are left out.

use super::error::TableError;
use super::output::open;
use arrow::array::{Array as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::json::writer::{LineDelimited, WriterBuilder};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows turned into texts at once: rows of logs may be long.
const ROWS: usize = 256;

/// The rows of one file.
pub struct RecordFile {
    path: PathBuf,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
    batch: Option<RecordBatch>,
    at: usize,
}

impl std::fmt::Debug for RecordFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl RecordFile {
    /// Opens a Parquet file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is cut or no Parquet, or packed in a way that is not read.
    pub fn parquet(path: &Path) -> Result<Self, TableError> {
        let file = open(path, "log")?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)
            .map_err(|_| TableError::NotParquet { path: path.to_owned() })?;
        let groups = builder.metadata().row_groups().iter();
        let mut packings =
            groups.flat_map(RowGroupMetaData::columns).map(ColumnChunkMetaData::compression);
        let is_read = |packing: &Compression| {
            matches!(
                packing,
                Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)
            )
        };
        if let Some(packing) = packings.find(|packing| !is_read(packing)) {
            return Err(TableError::Packing {
                path: path.to_owned(),
                packing: packing.to_string(),
            });
        }
        let reader = builder.with_batch_size(ROWS).build();
        let reader = reader.map_err(|source| TableError::columns(path, "read", source))?;
        Ok(Self::of(path, Box::new(reader)))
    }

    /// Opens an Arrow IPC file or stream.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is cut or no Arrow.
    pub fn arrow(path: &Path) -> Result<Self, TableError> {
        let mut file = open(path, "log")?;
        let mut start = [0; 6];
        let io = |source| TableError::io(path, "read", source);
        file.read_exact(&mut start).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        let columns = |source| TableError::columns(path, "read", source);
        let file = BufReader::new(file);
        let batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>> =
            if start == *b"ARROW1" {
                Box::new(FileReader::try_new(file, None).map_err(columns)?)
            } else {
                Box::new(StreamReader::try_new(file, None).map_err(columns)?)
            };
        Ok(Self::of(path, batches))
    }

    fn of(path: &Path, batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>) -> Self {
        Self { path: path.to_owned(), batches, batch: None, at: 0 }
    }

    /// Returns the next rows, at most 256; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the file is damaged, or has a column that JSON cannot hold.
    pub fn next_rows(&mut self) -> Result<Option<Vec<String>>, TableError> {
        let columns = |source| TableError::columns(&self.path, "read", source);
        loop {
            if let Some(batch) = self.batch.as_ref().filter(|batch| self.at < batch.num_rows()) {
                let length = ROWS.min(batch.num_rows() - self.at);
                let rows = texts(&batch.slice(self.at, length)).map_err(columns)?;
                self.at += length;
                return Ok(Some(rows));
            }
            self.at = 0;
            self.batch = self.batches.next().transpose().map_err(columns)?;
            let Some(batch) = &self.batch else { return Ok(None) };
            self.batch = Some(in_utc(batch).map_err(columns)?);
        }
    }
}

/// Writes rows as JSON objects.
fn texts(batch: &RecordBatch) -> Result<Vec<String>, ArrowError> {
    let mut writer = WriterBuilder::new().build::<_, LineDelimited>(Vec::new());
    writer.write(batch)?;
    writer.finish()?;
    let text = String::from_utf8(writer.into_inner())
        .map_err(|_| ArrowError::JsonError("rows are not UTF-8".to_owned()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Gives every instant that has a zone the zone UTC; names of zones are not known here.
fn in_utc(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut columns = Vec::new();
    let mut fields = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let wanted = type_in_utc(field.data_type());
        let same = wanted == *column.data_type();
        columns.push(if same { column.clone() } else { cast(column, &wanted)? });
        fields.push(Field::new(field.name(), wanted, true));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn type_in_utc(found: &DataType) -> DataType {
    let field = |field: &Arc<Field>| {
        Arc::new(field.as_ref().clone().with_data_type(type_in_utc(field.data_type())))
    };
    match found {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some("+00:00".into())),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        ArrayRef, BinaryArray, Date32Array, FixedSizeBinaryArray, Int64Array, StringArray,
        StructArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray,
    };
    use arrow::ipc::writer::{FileWriter, StreamWriter};
    use parquet::arrow::ArrowWriter;
    use parquet::data_type::{Int96, Int96Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;

    /// 2026-11-24T09:15:02 in seconds.
    const AT: i64 = 1_795_511_702;

    fn sample(rows: usize) -> RecordBatch {
        let at = |scale: i64, more: i64| vec![Some(AT * scale + more); rows];
        let zoned = TimestampMicrosecondArray::from(at(1_000_000, 123_456));
        let zoned: ArrayRef = Arc::new(zoned.with_timezone("Europe/Berlin"));
        let inner =
            vec![(Arc::new(Field::new("at", zoned.data_type().clone(), true)), zoned.clone())];
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("s", Arc::new(TimestampSecondArray::from(at(1, 0)))),
            ("ms", Arc::new(TimestampMillisecondArray::from(at(1_000, 123)))),
            ("ns", Arc::new(TimestampNanosecondArray::from(at(1_000_000_000, 123_456_789)))),
            ("zoned", zoned),
            ("inner", Arc::new(StructArray::from(inner))),
            ("day", Arc::new(Date32Array::from(vec![20_781; rows]))),
            ("bytes", Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]; rows]))),
            (
                "hash",
                Arc::new(
                    FixedSizeBinaryArray::try_from_iter(vec![[1_u8, 2]; rows].into_iter()).unwrap(),
                ),
            ),
            ("text", Arc::new(StringArray::from(vec!["a\n\"b\" \u{e9}"; rows]))),
            ("big", Arc::new(Int64Array::from(vec![Some(i64::MAX); rows]))),
            ("none", Arc::new(Int64Array::from(vec![None; rows]))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
            .unwrap()
    }

    fn all(mut file: RecordFile) -> Vec<String> {
        let mut rows = Vec::new();
        while let Some(more) = file.next_rows().unwrap() {
            assert!(more.len() <= ROWS);
            rows.extend(more);
        }
        rows
    }

    fn parquet_file(path: &Path, batch: &RecordBatch, packing: Compression) {
        let properties = WriterProperties::builder().set_compression(packing).build();
        let file = super::super::output::PartialFile::create(path, true).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.into_inner().unwrap().commit().unwrap();
    }

    #[test]
    fn every_kind_of_column_becomes_json() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.parquet");
        parquet_file(&path, &sample(600), Compression::SNAPPY);
        let rows = all(RecordFile::parquet(&path).unwrap());
        assert_eq!(rows.len(), 600);
        insta::assert_snapshot!(rows[599], @r#"{"s":"2026-11-24T09:15:02","ms":"2026-11-24T09:15:02.123","ns":"2026-11-24T09:15:02.123456789","zoned":"2026-11-24T09:15:02.123456Z","inner":{"at":"2026-11-24T09:15:02.123456Z"},"day":"2026-11-24","bytes":"00ff","hash":"0102","text":"a\n\"b\" é","big":9223372036854775807}"#);
    }

    #[test]
    fn arrow_files_and_streams_give_the_same_rows() {
        let folder = tempfile::tempdir().unwrap();
        let batch = sample(3);
        let (file, stream) = (folder.path().join("a"), folder.path().join("b"));
        let mut bytes = Vec::new();
        let mut writer = FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        std::fs::write(&file, &bytes).unwrap();
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        std::fs::write(&stream, &bytes).unwrap();
        let rows = all(RecordFile::arrow(&file).unwrap());
        assert_eq!(rows.len(), 3);
        assert_eq!(all(RecordFile::arrow(&stream).unwrap()), rows);
        std::fs::write(&stream, &bytes[..bytes.len() / 2]).unwrap();
        let cut = RecordFile::arrow(&stream).and_then(|mut file| file.next_rows().map(|_| ()));
        assert!(cut.is_err());
    }

    #[test]
    fn int96_is_the_instant_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.parquet");
        let schema =
            parquet::schema::parser::parse_message_type("message m { optional int96 at; }");
        let file = super::super::output::PartialFile::create(&path, true).unwrap();
        let mut writer =
            SerializedFileWriter::new(file, Arc::new(schema.unwrap()), Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        // Julian day of 1970-01-01 plus days, and nanoseconds of the day in two halves.
        let nanos: u64 = u64::try_from(AT % 86_400).unwrap() * 1_000_000_000 + 123_456_789;
        let mut value = Int96::new();
        value.set_data(
            u32::try_from(nanos & 0xffff_ffff).unwrap(),
            u32::try_from(nanos >> 32).unwrap(),
            2_440_588 + u32::try_from(AT / 86_400).unwrap(),
        );
        column.typed::<Int96Type>().write_batch(&[value], Some(&[1]), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.into_inner().unwrap().commit().unwrap();
        let rows = all(RecordFile::parquet(&path).unwrap());
        assert_eq!(rows, ["{\"at\":\"2026-11-24T09:15:02.123456789\"}"]);
    }

    #[test]
    fn damage_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.parquet");
        parquet_file(&path, &sample(10), Compression::UNCOMPRESSED);
        let bytes = std::fs::read(&path).unwrap();
        for end in [4, 9, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert!(matches!(RecordFile::parquet(&path), Err(TableError::NotParquet { .. })));
        }
        std::fs::write(&path, b"ARROW1").unwrap();
        assert!(RecordFile::arrow(&path).is_err());
    }
}
