//! Errors of the run directory.

use crate::table::TableError;
use std::path::PathBuf;

/// Why a run directory could not be made, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A file of the run could not be read or written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The directory could not be created.
    #[error("{}: could not create the run directory", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Every name for the directory is taken.
    #[error("{}: the run directory and {tried} further names exist already", path.display())]
    Taken {
        /// The first name.
        path: PathBuf,
        /// Names tried after it.
        tried: u32,
    },
    /// The directory holds no manifest.
    #[error("{}: not a run directory, it has no `manifest.json`", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// The manifest is not of the expected form.
    #[error("{}: the manifest does not have the expected form", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The parser's reason.
        source: serde_json::Error,
    },
    /// The manifest's schema version is not one this program reads.
    #[error("{}: schema version {found} of a manifest, expected {expected}", path.display())]
    SchemaVersion {
        /// The manifest.
        path: PathBuf,
        /// The version this program reads.
        expected: u32,
        /// The version of the file.
        found: u32,
    },
}

impl RunError {
    /// Returns what the user can do, where something can be done.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Table(error) => return error.hint(),
            Self::Create { .. } => "check that the parent directory may be written to".to_owned(),
            Self::Taken { .. } => "choose another name, or remove old runs".to_owned(),
            Self::NotARun { .. } => {
                "give a run directory that `tracewright replay` wrote".to_owned()
            }
            Self::Manifest { .. } => "the file was changed or made by another version".to_owned(),
            Self::SchemaVersion { .. } => "report the run with the version that made it".to_owned(),
        })
    }
}
