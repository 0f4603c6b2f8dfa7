//! Artifacts on disk: the only users of Arrow, Parquet and polars.
//!
//! [`schema`] is the contract with the notebooks; every other module turns rows of `domain` into
//! the columns it lists, or back. Files are written as `<path>.partial` and renamed, hold no
//! wall-clock time, and are read and written batch by batch. Equal rows and metadata give equal
//! bytes.

mod decode;
mod encode;
mod error;
mod file;
mod formats;
pub mod inspect;
mod ipc;
pub mod model;
pub mod outcome;
pub mod output;
pub mod pool;
pub mod query;
pub mod records;
#[cfg(test)]
pub(crate) mod samples;
pub mod schedule;
pub mod schema;
pub mod trace;

pub use error::TableError;
pub use formats::formats_markdown;
