//! Texts in, prompt pool out: joint-safe fragments whose token counts are exact.
//!
//! `corpus` reads the user's texts, `fake_text` writes sentences of its own, `fragment` cuts both
//! into pieces that may be joined freely, `build` collects them into a pool and has `proof` and
//! `verify` check them with a second tokenizer, `compose` joins parts into a prompt.
//!
//! The rule that makes sums exact is in [`fragment`]. This module writes no files (`table::pool`
//! does) and chooses no prompts (`plan` does). The only user of tokenizer crates.

pub mod build;
pub mod compose;
pub mod corpus;
pub mod error;
pub mod fake_text;
mod fillers;
pub mod fragment;
mod grammar_en;
mod grammar_zh;
mod parallel;
pub mod proof;
pub mod tokenizer;
pub mod verify;

pub use build::{BuildOptions, Built, Rejections, build};
pub use compose::{Texts, compose};
pub use error::PoolError;
pub use tokenizer::Tokenizer;
