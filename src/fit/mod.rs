//! From the columns of a trace to a fitted workload with an honest verdict.
//!
//! Rows go into a [`Fitter`] one at a time, in arrival order; out comes a
//! [`WorkloadModel`](crate::domain::workload::WorkloadModel). One pass, no I/O, no clock, no random draw:
//! every statistic is computed from exact integer counts in value order, so that the model depends
//! on the rows alone. Parts of a trace can be fitted apart and merged exactly. [`describe`] prints
//! a model as a table. Formulas and their sources are in `docs/fidelity.md`.

mod arrivals;
mod counts;
mod describe;
mod error;
mod fitter;
mod goodness;
mod law;
mod lengths;
mod maximize;
mod mix;
#[cfg(test)]
mod reference;

pub use describe::describe;
pub use error::FitError;
pub use fitter::{FitOptions, Fitter};
