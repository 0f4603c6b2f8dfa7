//! The real binary, from outside: exit codes, messages, files, and the whole chain.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests read and write their own files, say what they skip, and end on a surprise"
)]

mod bad_input;
mod docs;
mod export;
mod flow;
mod privacy;
mod tool;
