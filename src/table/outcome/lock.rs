//! The lock by which a run says that it goes on: held on the forerunner while it is written.
//!
//! It belongs to the open file, so the system gives it up with the process, however that ends. A
//! run that is idle for hours holds it as one that writes each second does.

use crate::table::error::TableError;
use std::fs::{File, TryLockError};
use std::path::Path;

/// Takes the lock of a forerunner that exists; it is held until the file is dropped.
///
/// # Errors
///
/// [`TableError::GoesOn`] while another holder has it; or the system's refusal.
pub(super) fn take(path: &Path) -> Result<File, TableError> {
    // Opened for writing, which network file systems ask for before they lock.
    let file = File::options()
        .append(true)
        .open(path)
        .map_err(|source| TableError::io(path, "open", source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(TableError::GoesOn { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(TableError::io(path, "lock", source)),
    }
}
