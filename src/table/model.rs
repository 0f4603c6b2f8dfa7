//! `model.json`: the fitted workload as indented JSON.

use super::error::TableError;
use super::output::{read_json, write_json};
use crate::domain::workload::{MODEL_SCHEMA_VERSION, WorkloadModel};
use std::path::Path;

/// Writes a model.
///
/// # Errors
///
/// As [`super::output::PartialFile::create`].
pub fn write(path: &Path, model: &WorkloadModel, force: bool) -> Result<(), TableError> {
    write_json(path, model, force)
}

/// The part of a model that says whether the rest can be read.
#[derive(serde::Deserialize)]
struct Version {
    schema_version: u32,
}

/// Reads a model.
///
/// # Errors
///
/// If the file is missing, not a model, or of another schema version.
pub fn read(path: &Path) -> Result<WorkloadModel, TableError> {
    let version: Version = read_json(path, "model", "`model.json`")?;
    if version.schema_version != MODEL_SCHEMA_VERSION {
        return Err(TableError::SchemaVersion {
            path: path.to_owned(),
            artifact: "model",
            expected: MODEL_SCHEMA_VERSION,
            found: version.schema_version.to_string(),
        });
    }
    read_json(path, "model", "`model.json`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.json");
        std::fs::write(&path, text).unwrap();
        let error = read(&path).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        format!("{error}\ncaused by: {cause}\nhint: {}", error.hint().unwrap())
            .replace(dir.path().to_str().unwrap(), "DIR")
    }

    #[test]
    fn refusals_say_where_and_why() {
        insta::assert_snapshot!(shown("[]"), @"
        DIR/model.json: `model.json` does not have the expected form
        caused by: invalid length 0, expected struct Version with 1 element at line 1 column 2
        hint: the file was changed or made by another version
        ");
        insta::assert_snapshot!(shown(r#"{"schema_version": 7}"#), @"
        DIR/model.json: schema version 7 of a model, expected 1
        caused by: 
        hint: make the model again with this version of tracewright (0.1.0)
        ");
        insta::assert_snapshot!(shown(r#"{"schema_version": 1, "rows": 3}"#), @"
        DIR/model.json: `model.json` does not have the expected form
        caused by: invalid type: integer `3`, expected struct RowCounts at line 1 column 31
        hint: the file was changed or made by another version
        ");
    }
}
