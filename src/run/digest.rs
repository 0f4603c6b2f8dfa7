//! The digest of a file: BLAKE3, in hexadecimal, read in small pieces.

use super::error::RunError;
use std::path::Path;

/// Returns the BLAKE3 digest of a file in hexadecimal.
///
/// # Errors
///
/// If the file cannot be read.
pub fn file_digest(path: &Path) -> Result<String, RunError> {
    Ok(crate::table::output::digest(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_abc_and_of_a_missing_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "abc").unwrap();
        // The value that BLAKE3's own tools print for "abc".
        assert_eq!(
            file_digest(&path).unwrap(),
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
        );
        let error = file_digest(&dir.path().join("b")).unwrap_err().to_string();
        assert!(error.ends_with("/b: could not read"), "{error}");
    }
}
