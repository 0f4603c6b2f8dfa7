//! The rejects: every record that could not be read, in a file beside the trace and in counts.
//!
//! `trace.rejects.jsonl` has one object a record: file, line, byte, field, reason; never text of
//! the record. It appears only when there are rejects, complete or not at all. The summary counts
//! by field and reason and keeps the first place of each.

use super::error::IngestError;
use super::loose::FieldError;
use crate::domain::position::Position;
use crate::table::output::PartialFile;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Different reasons counted apart; further ones are counted together.
const MAX_REASONS: usize = 1_000;

/// One line of the rejects file.
#[derive(Serialize)]
struct RejectLine<'a> {
    file: &'a str,
    line: u64,
    byte: Option<u64>,
    field: &'a str,
    reason: &'a str,
}

/// A reason with its count and the first place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectReason {
    /// Field and reason, in words.
    pub what: String,
    /// Records refused for it.
    pub count: u64,
    /// The first of them.
    pub first: Position,
}

/// Writes and counts the rejects.
#[derive(Debug)]
pub struct Rejects {
    path: PathBuf,
    file: PartialFile,
    total: u64,
    reasons: BTreeMap<String, (u64, Position)>,
}

impl Rejects {
    /// Returns the path of the rejects beside a trace: `trace.parquet` has `trace.rejects.jsonl`,
    /// any other name is kept whole, so that `week.v1` and `week.v2` have rejects of their own.
    pub fn path_beside(trace: &Path) -> PathBuf {
        if trace.extension().is_some_and(|extension| extension == "parquet") {
            return trace.with_extension("rejects.jsonl");
        }
        let mut name = trace.as_os_str().to_owned();
        name.push(".rejects.jsonl");
        PathBuf::from(name)
    }

    /// Begins the rejects of a trace.
    ///
    /// # Errors
    ///
    /// If the file exists and `force` is off, or cannot be written.
    pub fn create(trace: &Path, force: bool) -> Result<Self, IngestError> {
        let path = Self::path_beside(trace);
        let file = PartialFile::create(&path, force)?;
        Ok(Self { path, file, total: 0, reasons: BTreeMap::new() })
    }

    /// Adds a record that could not be read.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn add(&mut self, at: &Position, error: &FieldError) -> Result<(), IngestError> {
        let line = RejectLine {
            file: &at.file,
            line: at.line,
            byte: at.byte,
            field: &error.field,
            reason: &error.reason,
        };
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        self.file
            .write_all(&text)
            .map_err(|source| IngestError::Unwritable { path: self.path.clone(), source })?;
        self.total += 1;
        let mut what = describe(error);
        if !self.reasons.contains_key(&what) && self.reasons.len() >= MAX_REASONS {
            "other reasons".clone_into(&mut what);
        }
        self.reasons.entry(what).or_insert_with(|| (0, at.clone())).0 += 1;
        Ok(())
    }

    /// Returns the records refused so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the reasons, the most frequent first.
    pub fn reasons(&self) -> Vec<RejectReason> {
        let mut reasons: Vec<RejectReason> = self
            .reasons
            .iter()
            .map(|(what, (count, first))| RejectReason {
                what: what.clone(),
                count: *count,
                first: first.clone(),
            })
            .collect();
        reasons.sort_by(|a, b| b.count.cmp(&a.count).then(a.first.cmp(&b.first)));
        reasons
    }

    /// Completes the file; without rejects there is none, and an older one is removed.
    ///
    /// Returns its path when it was written.
    ///
    /// # Errors
    ///
    /// If it cannot be written or removed.
    pub fn commit(self) -> Result<Option<PathBuf>, IngestError> {
        if self.total > 0 {
            self.file.commit()?;
            return Ok(Some(self.path));
        }
        drop(self.file);
        match std::fs::remove_file(&self.path) {
            Ok(()) => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(IngestError::Unwritable { path: self.path, source }),
        }
    }
}

/// Returns field and reason without the place in the line, so that equal reasons count together.
fn describe(error: &FieldError) -> String {
    let reason = error.reason.split(", at byte").next().unwrap_or_default();
    if error.field.is_empty() {
        format!("the record {reason}")
    } else {
        format!("`{}` {reason}", error.field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_are_written_counted_and_kept_apart_by_reason() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.parquet");
        let mut rejects = Rejects::create(&trace, false).unwrap();
        for (line, field, reason) in [
            (3, "", "is not JSON, at byte 7"),
            (4, "prompt_tokens", "is not a number"),
            (9, "", "is not JSON, at byte 12"),
        ] {
            let at = Position { file: "a.jsonl".into(), line, byte: Some(line * 10) };
            rejects.add(&at, &FieldError::new(field, reason)).unwrap();
        }
        let reasons: Vec<_> = rejects
            .reasons()
            .into_iter()
            .map(|r| format!("{} {} {}", r.what, r.count, r.first))
            .collect();
        assert_eq!(
            reasons,
            vec![
                "the record is not JSON 2 a.jsonl:3",
                "`prompt_tokens` is not a number 1 a.jsonl:4"
            ]
        );
        let path = rejects.commit().unwrap().unwrap();
        assert_eq!(path, folder.path().join("trace.rejects.jsonl"));
        let text = String::from_utf8(std::fs::read(path).unwrap()).unwrap();
        insta::assert_snapshot!(text, @r#"
        {"file":"a.jsonl","line":3,"byte":30,"field":"","reason":"is not JSON, at byte 7"}
        {"file":"a.jsonl","line":4,"byte":40,"field":"prompt_tokens","reason":"is not a number"}
        {"file":"a.jsonl","line":9,"byte":90,"field":"","reason":"is not JSON, at byte 12"}
        "#);
        assert!(Rejects::create(&trace, false).is_err(), "an existing file is kept");
        assert_eq!(Rejects::create(&trace, true).unwrap().commit().unwrap(), None);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "an older file is removed");
    }

    #[test]
    fn traces_of_like_names_have_rejects_of_their_own() {
        let beside = |name: &str| Rejects::path_beside(Path::new(name)).display().to_string();
        assert_eq!(beside("out/trace.parquet"), "out/trace.rejects.jsonl");
        assert_eq!(beside("x.v1"), "x.v1.rejects.jsonl");
        assert_eq!(beside("x.v2"), "x.v2.rejects.jsonl");
        assert_eq!(beside("a.parquet.old"), "a.parquet.old.rejects.jsonl");
    }

    #[test]
    fn reasons_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut rejects = Rejects::create(&folder.path().join("t.parquet"), false).unwrap();
        for line in 0..2_000 {
            let at = Position { file: "a".into(), line, byte: None };
            rejects.add(&at, &FieldError::new("", format!("has {line} fields"))).unwrap();
        }
        assert_eq!(rejects.total(), 2_000);
        assert_eq!(rejects.reasons().len(), MAX_REASONS + 1);
        assert_eq!(rejects.reasons()[0].count, 1_000);
    }
}
