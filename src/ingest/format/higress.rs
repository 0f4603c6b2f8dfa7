//! To be written.

use super::{Hints, Made};
use crate::ingest::error::IngestError;
use crate::ingest::sample::Sample;

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Err(IngestError::NoInput)
}
