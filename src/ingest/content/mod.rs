//! Requests and answers as the common APIs write them: what they show, and no text of them.
//!
//! Body text -> counts, limits, finish reasons, usage, evidence of retrieval, and keyed hashes that
//! tie turns together. Bodies of OpenAI (chat, completions, responses), Anthropic, Gemini and Ollama.

use super::format::{Draft, Shared};

/// Reads the body of a request into the row: model (where the row has none), stream, limits,
/// messages by role, tools, parts that are no text, evidence of retrieval, and the chain.
///
/// A body that cannot be read fills nothing; one that was cut is flagged.
pub fn fill_request(_body: &str, _draft: &mut Draft, _shared: &mut Shared) {}

/// Reads the body of an answer, JSON or server-sent events, into the row: finish reasons, tool
/// calls, response id, model, the chain's own answer, and usage where the row has no counts.
pub fn fill_response(_body: &str, _draft: &mut Draft, _shared: &mut Shared) {}
