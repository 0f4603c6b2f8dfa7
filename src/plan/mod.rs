//! Trace or model + pool index + seed → planned requests. Pure: no I/O, no clock, no threads.
//!
//! [`recorded`] keeps the trace's own timestamps and lengths; [`classic`] draws Poisson arrivals,
//! lognormal inputs and exponential outputs from a model. Both give every request a prompt of an
//! exact number of tokens through [`assign`], and both stream: what they hold does not grow with
//! the lengths of the prompts. Equal inputs and an equal seed give equal plans.

pub mod assign;
pub mod check;
pub mod classic;
mod error;
mod heads;
pub mod lengths;
pub mod options;
pub mod pace;
pub mod recorded;
pub mod speed;
pub mod summary;

#[cfg(test)]
pub(crate) mod testing;

pub use error::PlanError;
