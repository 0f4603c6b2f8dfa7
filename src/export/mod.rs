//! Requests of a trace or a plan → the inputs of other load generators, and a data set.
//!
//! Rows of `domain` in, text out, row by row: JSON lines for Mooncake's readers, AIPerf and
//! GuideLLM ([`lines`]), one JSON document for notebooks ([`dataset`]). No hash of ours leaves:
//! sessions, users and prefix blocks are numbered densely ([`blocks`]). Rows that the other tool
//! could not read are left out and counted by reason. No files are opened here.
//!
//! What the tools read: Mooncake's traces (kvcache-ai/Mooncake), AIPerf's `MooncakeTrace`
//! (ai-dynamo/aiperf, `dataset/loader/models.py`), GuideLLM's `trace_synthetic` and `mooncake`
//! (vllm-project/guidellm, `docs/guides/trace_replay.md`).

pub mod blocks;
pub mod dataset;
pub mod lines;
pub mod request;

pub use lines::Exporter;
pub use request::Request;

use crate::domain::word::word_enum;

word_enum! {
    /// What to write.
    pub enum Format {
        /// JSON lines with `timestamp` in ms, `input_length`, `output_length`, `hash_ids`.
        Mooncake = "mooncake",
        /// The same with sessions and delays, as AIPerf reads them.
        Aiperf = "aiperf",
        /// JSON lines with `timestamp` in s, `input_length`, `output_length`.
        Guidellm = "guidellm",
        /// One JSON document: a header with the columns, then rows.
        DatasetJson = "dataset-json",
    }
}

impl Format {
    /// Returns whether the format has prefix blocks of one size.
    pub const fn has_blocks(self) -> bool {
        matches!(self, Self::Mooncake | Self::Aiperf)
    }
}
