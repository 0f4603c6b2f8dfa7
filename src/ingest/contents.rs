//! The records as they stand in the logs, for those who ask for them, in a file of their own.
//!
//! `<trace>.contents.jsonl` has one object a record that an adapter kept, those included that later
//! became part of a row, such as attempts and side spans: `source_file_id`, `source_line` (as in the
//! trace) and `record`, JSON as it stood or text. It holds everything the log holds, secrets too, is
//! readable by its owner only, and appears complete or not at all. Written only on request.

use super::error::IngestError;
use super::format::{At, Input};
use crate::table::output::PartialFile;
use serde::Serialize;
use serde_json::value::RawValue;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// One line.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names the trace has")]
struct Line<'a, R: ?Sized> {
    source_file_id: u32,
    source_line: u64,
    record: &'a R,
}

/// The file.
#[derive(Debug)]
pub struct Contents {
    path: PathBuf,
    file: PartialFile,
}

impl Contents {
    /// Returns the path of the contents beside a trace: `trace.parquet` has `trace.contents.jsonl`.
    pub fn path_beside(trace: &Path) -> PathBuf {
        let name = trace.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let stem = name.strip_suffix(".parquet").unwrap_or(&name);
        trace.with_file_name(format!("{stem}.contents.jsonl"))
    }

    /// Begins the contents of a trace.
    ///
    /// # Errors
    ///
    /// If the file exists and `force` is off, or cannot be written.
    pub fn create(trace: &Path, force: bool) -> Result<Self, IngestError> {
        let path = Self::path_beside(trace);
        let file = PartialFile::create_private(&path, force)?;
        Ok(Self { path, file })
    }

    /// Removes the contents of an older trace of this name, where there are any.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub fn remove_old(trace: &Path) -> Result<(), IngestError> {
        let path = Self::path_beside(trace);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(IngestError::Unwritable { path, source })
            }
            _ => Ok(()),
        }
    }

    /// Appends lines.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn append(&mut self, lines: &[u8]) -> Result<(), IngestError> {
        self.file
            .write_all(lines)
            .map_err(|source| IngestError::Unwritable { path: self.path.clone(), source })
    }

    /// Puts the file under its name and returns it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written or renamed.
    pub fn commit(self) -> Result<PathBuf, IngestError> {
        self.file.commit()?;
        Ok(self.path)
    }
}

/// Appends the line of a record.
pub(super) fn line_of(at: At, input: Input<'_>, lines: &mut Vec<u8>) {
    let (source_file_id, source_line) = (at.file_id, at.line);
    let written = match input {
        Input::Json(text) => match serde_json::from_str::<&RawValue>(text) {
            Ok(record) => {
                serde_json::to_writer(&mut *lines, &Line { source_file_id, source_line, record })
            }
            // What serde does not take, the picker did: kept as text.
            Err(_) => serde_json::to_writer(
                &mut *lines,
                &Line { source_file_id, source_line, record: text },
            ),
        },
        Input::Text(text) => {
            serde_json::to_writer(&mut *lines, &Line { source_file_id, source_line, record: text })
        }
        Input::Csv(row) => {
            let record: Vec<Option<&str>> = row.cells().collect();
            serde_json::to_writer(
                &mut *lines,
                &Line { source_file_id, source_line, record: &record },
            )
        }
    };
    debug_assert!(written.is_ok(), "memory takes all texts");
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_the_record_as_it_stands() {
        let mut lines = Vec::new();
        let at = At { file_id: 3, line: 7 };
        line_of(at, Input::Json("{\"a\": 1.50}"), &mut lines);
        line_of(at, Input::Text("a \"b\"\nc"), &mut lines);
        insta::assert_snapshot!(String::from_utf8(lines).unwrap(), @r#"
        {"source_file_id":3,"source_line":7,"record":{"a": 1.50}}
        {"source_file_id":3,"source_line":7,"record":"a \"b\"\nc"}
        "#);
        let beside = |name: &str| Contents::path_beside(Path::new(name));
        assert_eq!(beside("d/t.parquet"), Path::new("d/t.contents.jsonl"));
        assert_eq!(beside("t.v2"), Path::new("t.v2.contents.jsonl"));
    }
}
