//! The real binary, from outside: exit codes, messages, files, and the whole chain.

#![allow(clippy::disallowed_methods, reason = "tests read and write their own files")]

mod bad_input;
mod docs;
mod flow;
mod privacy;
mod tool;
