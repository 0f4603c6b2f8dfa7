//! Where something stands in an input file.

use std::sync::Arc;

/// A place in an input: file as the user named it, 1-based line, and the byte within the file
/// when it is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The 1-based line (or row, for formats without lines); 0 means the file as a whole.
    pub line: u64,
    /// The byte offset of the line's start in the decompressed stream.
    pub byte: Option<u64>,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line == 0 {
            return write!(f, "{}", self.file);
        }
        write!(f, "{}:{}", self.file, self.line)
    }
}
