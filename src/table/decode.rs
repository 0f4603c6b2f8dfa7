//! Columns to rows: the mirror of `encode`.
//!
//! Rows start blank; each call sets one field of every row whose value is not null. A null where
//! the schema allows none, a number that does not fit or a word that is not of its column is an
//! error; the first one is kept and returned by [`Decoder::finish`].

use super::error::TableError;
use super::schema::{Artifact, Kind};
use crate::domain::convert;
use crate::domain::record::Hash128;
use crate::domain::schedule::PromptPart;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    UInt32Type, UInt64Type,
};
use arrow::record_batch::RecordBatch;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// Distinct texts that are shared between rows; further ones get their own copy.
const MAX_INTERNED: usize = 65_536;

/// Shares equal texts between rows.
#[derive(Debug, Default)]
pub(super) struct Interner(HashSet<Arc<str>>);

impl Interner {
    /// Returns a shared copy of `text`.
    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.0.get(text) {
            return Arc::clone(shared);
        }
        let shared: Arc<str> = text.into();
        if self.0.len() < MAX_INTERNED {
            self.0.insert(Arc::clone(&shared));
        }
        shared
    }
}

/// Fills rows from one record batch.
pub(super) struct Decoder<'a, R> {
    artifact: &'static Artifact,
    path: &'a Path,
    batch: &'a RecordBatch,
    rows: Vec<R>,
    problem: Option<TableError>,
}

impl<'a, R: Clone> Decoder<'a, R> {
    /// Starts with as many copies of `blank` as the batch has rows; `path` is for messages only.
    pub(super) fn new(
        artifact: &'static Artifact,
        path: &'a Path,
        batch: &'a RecordBatch,
        blank: &R,
    ) -> Self {
        let rows = vec![blank.clone(); batch.num_rows()];
        Self { artifact, path, batch, rows, problem: None }
    }

    /// Reads an integer or time column.
    pub(super) fn int<T: TryFrom<i128>>(
        &mut self,
        name: &'static str,
        set: impl Fn(&mut R, T),
    ) -> &mut Self {
        let Some(array) = self.array(name) else { return self };
        let mut misfit = None;
        let rows = &mut self.rows;
        each_integer(&array, &mut |at, value| match (T::try_from(value), rows.get_mut(at)) {
            (Ok(value), Some(row)) => set(row, value),
            _ => misfit = misfit.or(Some((at, value))),
        });
        if let Some((at, value)) = misfit {
            self.fail(name, at, format!("`{value}` is out of range"));
        }
        self
    }

    /// Reads a column of truth values.
    pub(super) fn bool(&mut self, name: &'static str, set: impl Fn(&mut R, bool)) -> &mut Self {
        let Some(array) = self.array(name) else { return self };
        for (row, value) in self.rows.iter_mut().zip(array.as_boolean()) {
            if let Some(value) = value {
                set(row, value);
            }
        }
        self
    }

    /// Reads a column of floats.
    pub(super) fn float(&mut self, name: &'static str, set: impl Fn(&mut R, f64)) -> &mut Self {
        let Some(array) = self.array(name) else { return self };
        let values = array.as_primitive::<arrow::datatypes::Float64Type>();
        for (row, value) in self.rows.iter_mut().zip(values) {
            if let Some(value) = value {
                set(row, value);
            }
        }
        self
    }

    /// Reads a text column.
    pub(super) fn text(
        &mut self,
        name: &'static str,
        mut set: impl FnMut(&mut R, &str),
    ) -> &mut Self {
        let Some(array) = self.array(name) else { return self };
        for (row, value) in self.rows.iter_mut().zip(array.as_string::<i32>()) {
            if let Some(value) = value {
                set(row, value);
            }
        }
        self
    }

    /// Reads a column of words from a closed vocabulary.
    pub(super) fn word<W>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Option<W>,
        set: impl Fn(&mut R, W),
    ) -> &mut Self {
        let Some(array) = self.array(name) else { return self };
        let mut unknown = None;
        for (at, (row, value)) in self.rows.iter_mut().zip(array.as_string::<i32>()).enumerate() {
            let Some(value) = value else { continue };
            match parse(value) {
                Some(word) => set(row, word),
                None => unknown = unknown.or_else(|| Some((at, value.to_owned()))),
            }
        }
        if let Some((at, value)) = unknown {
            self.fail(name, at, format!("unknown word `{value}`"));
        }
        self
    }

    /// Reads a column of keyed hashes.
    pub(super) fn hash(&mut self, name: &'static str, set: impl Fn(&mut R, Hash128)) -> &mut Self {
        let Some(array) = self.array(name) else { return self };
        for (row, value) in self.rows.iter_mut().zip(array.as_fixed_size_binary()) {
            if let Some(Ok(bytes)) = value.map(<[u8; 16]>::try_from) {
                set(row, Hash128(bytes));
            }
        }
        self
    }

    /// Reads a column of text lists; empty and null lists set nothing.
    pub(super) fn texts(
        &mut self,
        name: &'static str,
        mut set: impl FnMut(&mut R, &str) -> bool,
    ) -> &mut Self {
        let Some(array) = self.array(name) else { return self };
        let mut unknown = None;
        for (at, list) in lists(array.as_list::<i32>()) {
            for value in list.as_string::<i32>().iter().flatten() {
                if !self.rows.get_mut(at).is_some_and(|row| set(row, value)) {
                    unknown = unknown.or_else(|| Some((at, value.to_owned())));
                }
            }
        }
        if let Some((at, value)) = unknown {
            self.fail(name, at, format!("unknown word `{value}`"));
        }
        self
    }

    /// Reads a column of integer lists; null lists set nothing.
    pub(super) fn ints<T: TryFrom<i128>>(
        &mut self,
        name: &'static str,
        set: impl Fn(&mut R, Vec<T>),
    ) -> &mut Self {
        let Some(array) = self.array(name) else { return self };
        let mut misfit = None;
        for (at, list) in lists(array.as_list::<i32>()) {
            let mut values = Vec::with_capacity(list.len());
            each_integer(&list, &mut |_, value| match T::try_from(value) {
                Ok(value) => values.push(value),
                Err(_) => misfit = misfit.or(Some((at, value))),
            });
            if let Some(row) = self.rows.get_mut(at) {
                set(row, values);
            }
        }
        if let Some((at, value)) = misfit {
            self.fail(name, at, format!("`{value}` is out of range"));
        }
        self
    }

    /// Reads a column of prompt parts.
    pub(super) fn parts(
        &mut self,
        name: &'static str,
        set: impl Fn(&mut R, Vec<PromptPart>),
    ) -> &mut Self {
        let Some(array) = self.array(name) else { return self };
        for (at, list) in lists(array.as_list::<i32>()) {
            let list = list.as_struct();
            let entries = list.column(0).as_primitive::<UInt32Type>().values();
            let cuts = list.column(1).as_primitive::<UInt32Type>().values();
            let parts = entries.iter().zip(cuts);
            let parts = parts.map(|(&entry_id, &cut_tokens)| PromptPart { entry_id, cut_tokens });
            if let Some(row) = self.rows.get_mut(at) {
                set(row, parts.collect());
            }
        }
        self
    }

    /// Returns the rows.
    ///
    /// # Errors
    ///
    /// The first problem of any column.
    pub(super) fn finish(&mut self) -> Result<Vec<R>, TableError> {
        match self.problem.take() {
            Some(problem) => Err(problem),
            None => Ok(std::mem::take(&mut self.rows)),
        }
    }

    /// Returns a column after checking its nulls; the type was checked when the file was opened.
    fn array(&mut self, name: &'static str) -> Option<ArrayRef> {
        let (_, column) = self.artifact.column(name).unwrap_or_else(|| panic!("no `{name}`"));
        let found = self
            .batch
            .column_by_name(name)
            .filter(|array| same_type(array.data_type(), &column.kind.arrow()));
        let Some(array) = found else {
            self.fail(name, 0, format!("missing, or not `{}`", column.kind.name()));
            return None;
        };
        if !column.nullable && array.null_count() > 0 {
            let at = (0..array.len()).find(|&at| array.is_null(at)).unwrap_or_default();
            self.fail(name, at, "null, expected a value".to_owned());
            return None;
        }
        Some(Arc::clone(array))
    }

    fn fail(&mut self, column: &'static str, row: usize, problem: String) {
        let path = self.path;
        self.problem.get_or_insert_with(|| TableError::Value {
            path: path.to_owned(),
            column,
            row: convert::count(row),
            problem,
        });
    }
}

/// Returns whether two types are the same but for the names and nullability of list elements.
pub(super) fn same_type(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => same_type(a.data_type(), b.data_type()),
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.name() == b.name() && same_type(a.data_type(), b.data_type()))
        }
        _ => a == b,
    }
}

/// Returns the lists that are not null, with their rows.
fn lists(array: &ListArray) -> impl Iterator<Item = (usize, ArrayRef)> + '_ {
    array.iter().enumerate().filter_map(|(at, list)| list.map(|list| (at, list)))
}

/// Calls `f` for each value that is not null; other than integer arrays give nothing.
fn each_integer(array: &ArrayRef, f: &mut dyn FnMut(usize, i128)) {
    fn each<P: ArrowPrimitiveType>(array: &PrimitiveArray<P>, f: &mut dyn FnMut(usize, i128))
    where
        P::Native: Into<i128>,
    {
        for (at, value) in array.iter().enumerate() {
            if let Some(value) = value {
                f(at, value.into());
            }
        }
    }
    match array.data_type() {
        DataType::UInt32 => each(array.as_primitive::<UInt32Type>(), f),
        DataType::UInt64 => each(array.as_primitive::<UInt64Type>(), f),
        DataType::Int16 => each(array.as_primitive::<Int16Type>(), f),
        DataType::Int32 => each(array.as_primitive::<Int32Type>(), f),
        DataType::Int64 => each(array.as_primitive::<Int64Type>(), f),
        kind if *kind == Kind::Time.arrow() => {
            each(array.as_primitive::<TimestampMicrosecondType>(), f);
        }
        _ => {}
    }
}
