//! Rows to columns: builds the Arrow arrays of one artifact.
//!
//! Each call names a column and says how a row gives its value. The type comes from the schema
//! table; a column that no call fills is null. The first problem is kept and returned by
//! [`Encoder::finish`], so that the calls read as a list.

use super::error::TableError;
use super::schema::{Artifact, Kind, part_fields};
use crate::domain::convert;
use crate::domain::record::Hash128;
use crate::domain::schedule::PromptPart;
use arrow::array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder, Float64Array, ListArray,
    PrimitiveArray, StringArray, StructArray, UInt32Array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    UInt32Type, UInt64Type,
};
use arrow::record_batch::RecordBatch;
use std::path::Path;
use std::sync::Arc;

/// Builds one record batch from a slice of rows.
pub(super) struct Encoder<'a, R> {
    artifact: &'static Artifact,
    path: &'a Path,
    rows: &'a [R],
    arrays: Vec<Option<ArrayRef>>,
    problem: Option<TableError>,
}

impl<'a, R> Encoder<'a, R> {
    /// Starts a batch; `path` is for messages only.
    pub(super) fn new(artifact: &'static Artifact, path: &'a Path, rows: &'a [R]) -> Self {
        let arrays = vec![None; artifact.columns.len()];
        Self { artifact, path, rows, arrays, problem: None }
    }

    /// Fills an integer or time column; a value beyond the column's type is an error.
    pub(super) fn int<T: Whole>(
        &mut self,
        name: &'static str,
        value: impl Fn(&'a R) -> Option<T>,
    ) -> &mut Self {
        if self.is_null(name, |row| value(row).is_none()) {
            return self;
        }
        let values = self.rows.iter().map(value);
        let array = match self.kind(name) {
            Kind::U32 => integers::<UInt32Type, T>(values),
            Kind::U64 => integers::<UInt64Type, T>(values),
            Kind::I16 => integers::<Int16Type, T>(values),
            Kind::I32 => integers::<Int32Type, T>(values),
            Kind::I64 => integers::<Int64Type, T>(values),
            Kind::Time => integers::<TimestampMicrosecondType, T>(values),
            kind => panic!("`{name}` is {}, not an integer", kind.name()),
        };
        self.put_or_fail(name, array)
    }

    /// Fills an integer column with `first`, `first + 1`, …
    pub(super) fn dense(&mut self, name: &'static str, first: u64) -> &mut Self {
        let values = (first..).take(self.rows.len()).map(Some);
        self.put_or_fail(name, integers::<UInt64Type, u64>(values))
    }

    /// Fills a column of truth values.
    pub(super) fn bool(
        &mut self,
        name: &'static str,
        value: impl Fn(&'a R) -> Option<bool>,
    ) -> &mut Self {
        if self.is_null(name, |row| value(row).is_none()) {
            return self;
        }
        let array: BooleanArray = self.rows.iter().map(value).collect();
        self.put(name, Arc::new(array))
    }

    /// Fills a column of floats.
    pub(super) fn float(
        &mut self,
        name: &'static str,
        value: impl Fn(&'a R) -> Option<f64>,
    ) -> &mut Self {
        if self.is_null(name, |row| value(row).is_none()) {
            return self;
        }
        let array: Float64Array = self.rows.iter().map(value).collect();
        self.put(name, Arc::new(array))
    }

    /// Fills a text column.
    pub(super) fn text(
        &mut self,
        name: &'static str,
        value: impl Fn(&'a R) -> Option<&'a str>,
    ) -> &mut Self {
        if self.is_null(name, |row| value(row).is_none()) {
            return self;
        }
        let array: StringArray = self.rows.iter().map(value).collect();
        self.put(name, Arc::new(array))
    }

    /// Fills a column of keyed hashes.
    pub(super) fn hash(
        &mut self,
        name: &'static str,
        value: impl Fn(&'a R) -> Option<Hash128>,
    ) -> &mut Self {
        if self.is_null(name, |row| value(row).is_none()) {
            return self;
        }
        let mut builder = FixedSizeBinaryBuilder::with_capacity(self.rows.len(), 16);
        for row in self.rows {
            match value(row) {
                Some(hash) => builder.append_value(hash.0).expect("a hash has 16 bytes"),
                None => builder.append_null(),
            }
        }
        let array: FixedSizeBinaryArray = builder.finish();
        self.put(name, Arc::new(array))
    }

    /// Fills a column of text lists.
    pub(super) fn texts<I: Iterator<Item = &'a str>>(
        &mut self,
        name: &'static str,
        value: impl Fn(&'a R) -> Option<I>,
    ) -> &mut Self {
        if self.is_null(name, |row| value(row).is_none()) {
            return self;
        }
        let (lengths, flat) = flatten(self.rows.iter().map(value));
        let array: StringArray = flat.into_iter().map(Some).collect();
        self.put_list(name, lengths, Arc::new(array))
    }

    /// Fills a column of integer lists; a value beyond the column's type is an error.
    pub(super) fn ints<T: Whole, I: Iterator<Item = T>>(
        &mut self,
        name: &'static str,
        value: impl Fn(&'a R) -> Option<I>,
    ) -> &mut Self {
        if self.is_null(name, |row| value(row).is_none()) {
            return self;
        }
        let (lengths, flat) = flatten(self.rows.iter().map(value));
        let flat = flat.into_iter().map(Some);
        let array = match self.kind(name) {
            Kind::U32s => integers::<UInt32Type, T>(flat),
            Kind::U64s => integers::<UInt64Type, T>(flat),
            Kind::I64s => integers::<Int64Type, T>(flat),
            kind => panic!("`{name}` is {}, not a list of integers", kind.name()),
        };
        match array {
            Ok(array) => self.put_list(name, lengths, array),
            Err((item, value)) => self.put_or_fail(name, Err((lengths.row_of(item), value))),
        }
    }

    /// Fills a column of prompt parts.
    pub(super) fn parts(
        &mut self,
        name: &'static str,
        value: impl Fn(&'a R) -> &'a [PromptPart],
    ) -> &mut Self {
        let (lengths, flat) = flatten(self.rows.iter().map(|row| Some(value(row).iter())));
        let entries: UInt32Array = flat.iter().map(|part| part.entry_id).collect();
        let cuts: UInt32Array = flat.iter().map(|part| part.cut_tokens).collect();
        let parts = StructArray::new(part_fields(), vec![Arc::new(entries), Arc::new(cuts)], None);
        self.put_list(name, lengths, Arc::new(parts))
    }

    /// Returns the batch.
    ///
    /// # Errors
    ///
    /// The first problem of any column.
    pub(super) fn finish(&mut self) -> Result<RecordBatch, TableError> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let rows = self.rows.len();
        let columns = self.artifact.columns.iter().zip(self.arrays.drain(..));
        let arrays = columns.map(|(column, array)| match array {
            Some(array) => array,
            None if column.nullable => new_null_array(&column.kind.arrow(), rows),
            None => panic!("no value for the column `{}`", column.name),
        });
        let arrays = arrays.collect();
        RecordBatch::try_new(Arc::new(self.artifact.arrow()), arrays)
            .map_err(|source| TableError::columns(self.path, "write", source))
    }

    /// Returns whether no row has a value for a column that may be null: it is filled as one.
    fn is_null(&self, name: &str, is_missing: impl Fn(&'a R) -> bool) -> bool {
        let nullable = self.artifact.column(name).is_some_and(|(_, column)| column.nullable);
        nullable && self.rows.iter().all(is_missing)
    }

    fn kind(&self, name: &str) -> Kind {
        self.artifact.column(name).unwrap_or_else(|| panic!("no column `{name}`")).1.kind
    }

    fn put(&mut self, name: &'static str, array: ArrayRef) -> &mut Self {
        let (at, column) =
            self.artifact.column(name).unwrap_or_else(|| panic!("no column `{name}`"));
        debug_assert_eq!(*array.data_type(), column.kind.arrow(), "{name}");
        self.arrays[at] = Some(array);
        self
    }

    fn put_list(&mut self, name: &'static str, lengths: Lengths, values: ArrayRef) -> &mut Self {
        let field = Arc::new(Field::new("item", values.data_type().clone(), false));
        let offsets = OffsetBuffer::from_lengths(lengths.lengths);
        let nulls = NullBuffer::from(lengths.valid);
        let array = ListArray::new(field, offsets, values, Some(nulls));
        self.put(name, Arc::new(array))
    }

    fn put_or_fail(
        &mut self,
        name: &'static str,
        array: Result<ArrayRef, (usize, i128)>,
    ) -> &mut Self {
        match array {
            Ok(array) => self.put(name, array),
            Err((row, value)) => {
                let kind = self.kind(name).name();
                self.problem.get_or_insert_with(|| TableError::Misfit {
                    path: self.path.to_owned(),
                    column: name,
                    row: convert::count(row),
                    value,
                    kind,
                });
                self
            }
        }
    }
}

/// The lengths of lists and which of them are not null.
struct Lengths {
    lengths: Vec<usize>,
    valid: Vec<bool>,
}

impl Lengths {
    /// Returns the list that holds an item of the flat row.
    fn row_of(&self, item: usize) -> usize {
        let ends = self.lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        ends.take_while(|&end| end <= item).count()
    }
}

/// Returns the lengths of the lists and all their items in one row.
fn flatten<T, I: Iterator<Item = T>>(lists: impl Iterator<Item = Option<I>>) -> (Lengths, Vec<T>) {
    let mut flat = Vec::new();
    let mut lengths = Lengths { lengths: Vec::new(), valid: Vec::new() };
    for list in lists {
        let before = flat.len();
        lengths.valid.push(list.is_some());
        flat.extend(list.into_iter().flatten());
        lengths.lengths.push(flat.len() - before);
    }
    (lengths, flat)
}

/// A whole number that fits columns of integers, or is refused with its value.
pub(super) trait Whole:
    Copy + Into<i128> + TryInto<i16> + TryInto<i32> + TryInto<u32> + TryInto<i64> + TryInto<u64>
{
}

impl<T> Whole for T where
    T: Copy + Into<i128> + TryInto<i16> + TryInto<i32> + TryInto<u32> + TryInto<i64> + TryInto<u64>
{
}

/// Builds an integer array, or returns the index and value of the first misfit.
fn integers<P: ArrowPrimitiveType, T: Whole + TryInto<P::Native>>(
    values: impl Iterator<Item = Option<T>>,
) -> Result<ArrayRef, (usize, i128)> {
    let mut builder = PrimitiveArray::<P>::builder(values.size_hint().0);
    for (at, value) in values.enumerate() {
        match value {
            None => builder.append_null(),
            Some(value) => match value.try_into() {
                Ok(native) => builder.append_value(native),
                Err(_) => return Err((at, value.into())),
            },
        }
    }
    let array = builder.finish();
    Ok(match P::DATA_TYPE {
        DataType::Timestamp(_, _) => Arc::new(array.with_data_type(Kind::Time.arrow())),
        _ => Arc::new(array),
    })
}
