//! The words of the field, as plain data and pure functions.
//!
//! Everything the stages hand to each other is defined here. This module imports nothing else of
//! the crate, does no I/O, reads no clock, starts no thread and is deterministic.

pub mod bucket;
pub mod convert;
pub mod count;
pub mod limits;
pub mod metric;
pub mod outcome;
pub mod percentiles;
pub mod pool_index;
pub mod position;
pub mod proportion;
pub mod record;
pub mod scenario;
pub mod schedule;
pub mod seed;
pub mod time;
pub mod trace;
pub mod trend;
pub mod word;
pub mod workload;
