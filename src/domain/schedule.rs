//! Planned requests: what `plan` writes and `replay` sends.

use super::record::Status;
use super::scenario::Scenario;
use super::time::Nanos;
use super::word::word_enum;
use serde::{Deserialize, Serialize};

/// When a request is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// At an offset from the start of the run.
    At(Nanos),
    /// `delay` after the end of another request (the next turn of a session).
    After {
        /// The request whose end is waited for.
        request_id: u64,
        /// The wait after that end.
        delay: Nanos,
    },
    /// As soon as a slot is free (closed loop).
    WhenFree,
}

impl Release {
    /// Returns the offset at which a request is due, when that is fixed.
    pub const fn at(self) -> Option<Nanos> {
        match self {
            Self::At(due) => Some(due),
            Self::After { .. } | Self::WhenFree => None,
        }
    }

    /// Returns the word of the column `release_kind`.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::At(_) => "at",
            Self::After { .. } => "after",
            Self::WhenFree => "when_free",
        }
    }
}

word_enum! {
    /// Which count a plan's `input_tokens` holds.
    pub enum CountKind {
        /// Tokens of the content alone; the server's chat template adds its own on top.
        Raw = "raw",
        /// Tokens at the server, template included.
        Templated = "templated",
        /// Something in the request cannot be counted here (tools, images).
        Partial = "partial",
    }
}

/// The first `cut_tokens` tokens of a pool entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PromptPart {
    /// The pool entry.
    pub entry_id: u32,
    /// Tokens taken from its start; a value of the entry's cut table.
    pub cut_tokens: u32,
}

/// One planned request.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledRequest {
    /// Dense, in order of release.
    pub request_id: u64,
    /// The kind of request.
    pub scenario: Scenario,
    /// A dense session number, not a hash.
    pub session_id: Option<u64>,
    /// 0-based turn within the session.
    pub turn_index: Option<u32>,
    /// When it is released.
    pub release: Release,
    /// The prompt, as cut pool entries in order.
    pub prompt_parts: Vec<PromptPart>,
    /// The target of input tokens at the server.
    pub input_tokens: u32,
    /// Which count `input_tokens` holds.
    pub count_kind: CountKind,
    /// Tokens of the content: the sum over `prompt_parts`.
    pub content_tokens: u32,
    /// Tokens the chat template adds, when known.
    pub template_tokens: Option<u32>,
    /// The limit on output tokens.
    pub max_tokens: u32,
    /// The forced minimum of output tokens.
    pub min_tokens: Option<u32>,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Densely renumbered prefix blocks; no hashes.
    pub prefix_block_ids: Vec<u64>,
    /// How the recorded request ended, for a plan made from a trace.
    pub recorded_status: Option<Status>,
    /// The planned request whose prompt this one repeats.
    pub repeat_of: Option<u64>,
}

word_enum! {
    /// What a plan promises.
    pub enum PlanMode {
        /// The trace's own timestamps and lengths.
        Recorded = "recorded",
        /// Blocks or sessions of the trace drawn anew.
        Resample = "resample",
        /// Everything from `model.json`.
        Model = "model",
        /// Lognormal prompts, exponential completions, Poisson arrivals.
        Classic = "classic",
    }
}

/// Counts of what planning did to the requests; part of the plan's metadata.
///
/// For a plan made from a trace every source row is in exactly one of `planned`,
/// `without_arrival`, `outside_window`, `cache_hits`, `not_generation` and `not_selected`; see
/// [`PlanCounts::add_up`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanCounts {
    /// Rows of the trace; 0 for a plan drawn from a model.
    pub source_rows: u64,
    /// Requests in the plan.
    pub planned: u64,
    /// Source rows without an arrival time, in a trace where others have one.
    pub without_arrival: u64,
    /// Source rows outside `--from`/`--to`.
    pub outside_window: u64,
    /// Source rows left out by a cap.
    pub not_selected: u64,
    /// Source rows left out since they were answered from the gateway's cache: no engine saw them.
    pub cache_hits: u64,
    /// Source rows left out since they generate no text: embeddings and reranking.
    pub not_generation: u64,
    /// Requests whose input length was unknown and was drawn from the fit or the trace.
    pub input_drawn: u64,
    /// Requests whose output length was unknown and was drawn from the fit or the trace.
    pub output_drawn: u64,
    /// Requests whose input was cut to `--max-input-tokens`.
    pub input_clipped: u64,
    /// Requests whose output was cut to `--max-output-tokens`.
    pub output_clipped: u64,
    /// Targets below the template's own cost.
    pub below_template_minimum: u64,
    /// Prompts that repeat an earlier one in full.
    pub repeats: u64,
    /// Prompts that start with the first part (16 tokens or more) of an earlier one.
    pub prefix_repeats: u64,
    /// Requests whose input is above the long-context threshold.
    pub long_context: u64,
    /// Recorded failures that are in the plan.
    pub recorded_failures: u64,
}

impl PlanCounts {
    /// Returns whether every row of the trace is accounted for; meaningful for plans of a trace.
    pub const fn add_up(&self) -> bool {
        let left_out = self.without_arrival
            + self.outside_window
            + self.cache_hits
            + self.not_generation
            + self.not_selected;
        self.source_rows == self.planned + left_out
    }
}

/// Provenance of a plan; everything needed to make it again. Holds no wall-clock time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanMetadata {
    /// What the plan promises.
    pub mode: PlanMode,
    /// The seed.
    pub seed: u64,
    /// BLAKE3 of the trace file, when one was read.
    pub trace_digest: Option<String>,
    /// BLAKE3 of the model file, when one was read.
    pub model_digest: Option<String>,
    /// Digest of the prompt pool.
    pub pool_digest: String,
    /// The tokenizer's name.
    pub tokenizer: String,
    /// Digest of the tokenizer.
    pub tokenizer_digest: String,
    /// Speed applied to the gaps of the trace.
    pub speed: Option<f64>,
    /// Requests per second of a synthetic plan.
    pub request_rate_per_s: Option<f64>,
    /// Arrival of the trace's first planned request, in microseconds since the Unix epoch.
    pub trace_origin_us: Option<i64>,
    /// Prompts above this many tokens are flagged as long context.
    pub long_context_tokens: u32,
    /// What planning did.
    pub counts: PlanCounts,
}
