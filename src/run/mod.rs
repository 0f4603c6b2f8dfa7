//! The run directory: its name, its manifest and the digests of what went into it.

pub mod digest;
pub mod dir;
mod error;
pub mod manifest;

pub use error::RunError;
