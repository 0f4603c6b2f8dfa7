//! Errors of reading and writing artifacts.
//!
//! Each is one line: which file, what is wrong, what was expected and what was found. The hint
//! says what to do about it.

use std::path::{Path, PathBuf};

/// Why an artifact could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The output is there already and may not be replaced.
    #[error("{}: exists already", path.display())]
    Exists {
        /// The output.
        path: PathBuf,
    },
    /// The output is there and is a device, a pipe or a link.
    #[error("{}: not a regular file, and so not replaced", path.display())]
    NotAFile {
        /// The output, or the name under which it would be written first.
        path: PathBuf,
    },
    /// The operating system refused to read or write.
    #[error("{}: could not {action}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, as a verb: `read`, `create`, `rename`.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not there.
    #[error("{}: no such file", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// How such a file is made, as a hint.
        made_by: &'static str,
    },
    /// The file is not Parquet, or its end is missing.
    #[error("{}: not a Parquet file, or cut short", path.display())]
    NotParquet {
        /// The file.
        path: PathBuf,
    },
    /// The file is Parquet, packed in a way that this build does not unpack.
    #[error("{}: expected zstd, snappy or no compression, found {packing}", path.display())]
    Packing {
        /// The file.
        path: PathBuf,
        /// The compression, as Parquet names it.
        packing: String,
    },
    /// The file is Parquet, but of another kind.
    #[error("{}: expected a {expected}, found {found}", path.display())]
    WrongArtifact {
        /// The file.
        path: PathBuf,
        /// The artifact that was asked for.
        expected: &'static str,
        /// What the file says it is.
        found: String,
    },
    /// The file or directory is nothing that this program wrote.
    #[error("{}: expected a trace, a plan, a model, a pool or a run, found {found}", path.display())]
    NotAnArtifact {
        /// The file or directory.
        path: PathBuf,
        /// What it is instead.
        found: &'static str,
    },
    /// The file's schema version is not one this program reads.
    #[error("{}: schema version {found} of a {artifact}, expected {expected}", path.display())]
    SchemaVersion {
        /// The file.
        path: PathBuf,
        /// The kind of artifact.
        artifact: &'static str,
        /// The version this program reads.
        expected: u32,
        /// The version of the file.
        found: String,
    },
    /// A column is missing or has another type.
    #[error("{}: column `{column}` is {found}, expected `{expected}`", path.display())]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The type in the schema.
        expected: String,
        /// The type in the file, or `missing`.
        found: String,
    },
    /// A value is null, out of range or not a word of its column.
    #[error("{}: column `{column}`, row {row}: {problem}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// The row, from 0.
        row: u64,
        /// What was found and what was expected.
        problem: String,
    },
    /// A value to be written is beyond the type of its column.
    #[error("{}: column `{column}`, row {row}: `{value}` does not fit `{kind}`", path.display())]
    Misfit {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// The row, from 0.
        row: u64,
        /// The value.
        value: i128,
        /// The type of the column.
        kind: &'static str,
    },
    /// Rows arrive in the wrong order.
    #[error("{}: row {row} is out of order by `{column}`", path.display())]
    Order {
        /// The file.
        path: PathBuf,
        /// The column that must ascend.
        column: &'static str,
        /// The row, from 0.
        row: u64,
    },
    /// The same request was recorded twice.
    #[error("{}: request {request_id} was recorded twice", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The request.
        request_id: u64,
    },
    /// A run that is to be recovered is still being written.
    #[error("{}: the run is still going on: this file is being written", path.display())]
    GoesOn {
        /// The file.
        path: PathBuf,
    },
    /// A JSON file or the JSON in a Parquet file does not have the expected form.
    #[error("{}: {what} does not have the expected form", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Which JSON, for example `model.json`.
        what: &'static str,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// A file is not the one its manifest describes.
    #[error("{}: digest is `{found}`, expected `{expected}`", path.display())]
    Digest {
        /// The file.
        path: PathBuf,
        /// The digest in the manifest.
        expected: String,
        /// The digest of the file.
        found: String,
    },
    /// The Arrow or Parquet library refused.
    #[error("{}: could not {action} the columns", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
        /// `read` or `write`.
        action: &'static str,
        /// The library's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The binary was built without a feature that this needs.
    #[error("{}: this build has no `{feature}`, which {needed_for} needs", path.display())]
    FeatureOff {
        /// The file that was to be read.
        path: PathBuf,
        /// The Cargo feature.
        feature: &'static str,
        /// What needs it.
        needed_for: &'static str,
    },
}

impl TableError {
    /// Returns what the user can do, where something can be done.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Exists { .. } => "choose another path, or overwrite with `--force`".to_owned(),
            Self::NotAFile { .. } => "choose another path, or remove what is there".to_owned(),
            Self::Io { path, source, .. } => return io_hint(path, source),
            Self::Missing { made_by, .. } => (*made_by).to_owned(),
            Self::NotParquet { .. } | Self::NotAnArtifact { .. } => {
                "give a file that `tracewright` wrote; logs go through `tracewright ingest` first"
                    .to_owned()
            }
            Self::Packing { .. } => "write it again with zstd or snappy".to_owned(),
            Self::WrongArtifact { expected, .. } => made_by(expected).to_owned(),
            Self::SchemaVersion { artifact, .. } => format!(
                "make the {artifact} again with this version of tracewright ({})",
                super::schema::TOOL_VERSION
            ),
            Self::ColumnType { .. } | Self::Value { .. } => {
                "the file was changed by another program; make it again".to_owned()
            }
            Self::Misfit { .. } => {
                "look for this value in the input; it cannot be right".to_owned()
            }
            Self::Order { .. } => "sort the rows before they are written".to_owned(),
            Self::GoesOn { .. } => "wait until it ends, or stop it with Ctrl-C".to_owned(),
            Self::Twice { .. } => "this is a bug of tracewright; please report it".to_owned(),
            Self::Json { .. } => "the file was changed or made by another version".to_owned(),
            Self::Digest { .. } => {
                "the file was changed after it was made; make it again".to_owned()
            }
            Self::Columns { action, .. } if *action == "read" => {
                "the file is damaged; make it again".to_owned()
            }
            Self::Columns { .. } => return None,
            Self::FeatureOff { feature, .. } => {
                format!("build with `cargo build --features {feature}`")
            }
        })
    }

    /// Turns the row of a batch into the row of the file; `first` is the batch's first row.
    pub(super) fn at_row(mut self, first: u64) -> Self {
        if let Self::Value { row, .. } | Self::Misfit { row, .. } = &mut self {
            *row += first;
        }
        self
    }

    /// Wraps a system error.
    pub(super) fn io(path: &Path, action: &'static str, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), action, source }
    }

    /// Wraps an error of the Arrow or Parquet library.
    pub(super) fn columns(
        path: &Path,
        action: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Columns { path: path.to_owned(), action, source: source.into() }
    }
}

/// Returns how an artifact is made, as a hint.
pub(super) fn made_by(artifact: &str) -> &'static str {
    match artifact {
        "trace" => "make a trace with `tracewright ingest LOG -o trace.parquet`",
        "plan" => "make a plan with `tracewright plan`",
        "requests" | "chunks" => "give a run directory that `tracewright replay` wrote",
        "pool" => "build a pool with `tracewright pool build`",
        "model" => "fit a model with `tracewright fit`",
        _ => "give a file that `tracewright` wrote",
    }
}

/// Returns what to do about a system error.
fn io_hint(path: &Path, source: &std::io::Error) -> Option<String> {
    match source.kind() {
        std::io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty())?;
            (!parent.is_dir()).then(|| format!("create the directory `{}` first", parent.display()))
        }
        std::io::ErrorKind::PermissionDenied => Some("check who may write there".to_owned()),
        std::io::ErrorKind::StorageFull => Some("free some space".to_owned()),
        _ => None,
    }
}
