//! pool.
