//! Requests and answers as the common APIs write them: what they show, and no text of them.
//!
//! Body text -> counts, limits, finish reasons, usage, evidence of retrieval, and keyed hashes that
//! tie turns together. Bodies of OpenAI (chat, completions, responses), Anthropic, Gemini, Bedrock,
//! Ollama, TGI and `SGLang`. The rules `ratio` and `embed_before` need several requests and are not
//! here. Nothing here fails: what cannot be read fills nothing.

mod answer;
mod item;
mod message;
mod rag;
mod request;
pub(super) mod scan;
mod usage;

use super::format::{Draft, Shared};
use crate::domain::record::{Flag, RagLabel, RequestRecord};
use scan::Cursor;
use usage::Usage;

pub(in crate::ingest) use usage::cached_apart;

/// Reads the body of a request into the row: model (where the row has none), stream, limits,
/// messages by role, tools, parts that are no text, evidence of retrieval, and the chain.
///
/// A body that cannot be read fills nothing; one that was cut is flagged.
pub fn fill_request(body: &str, draft: &mut Draft, shared: &mut Shared) {
    let Some(mut chain) = request::read(body, &mut draft.row, shared) else { return };
    if let Some(known) = draft.chain.take() {
        chain.previous = known.previous.or(chain.previous);
        chain.own = known.own.or(chain.own);
        chain.is_incomplete |= known.is_incomplete;
    }
    draft.chain = Some(chain);
}

/// Reads the body of an answer, JSON or server-sent events, into the row: finish reasons, tool
/// calls, response id, model, the chain's own answer, and usage where the row has no counts.
///
/// The request is read first: the answer continues its chain.
pub fn fill_response(body: &str, draft: &mut Draft, shared: &mut Shared) {
    answer::read(body, draft, shared);
}

/// Reads a usage object of any provider into the row, where it lacks counts.
pub fn fill_usage(usage: &str, row: &mut RequestRecord) {
    let mut counts = Usage::default();
    counts.read(&mut Cursor::new(usage));
    counts.fill(row);
}

/// Notes a rule of retrieval that fired, and raises the label to its tier.
fn evidence(row: &mut RequestRecord, shared: &mut Shared, rule: &str, label: RagLabel) {
    let rank = |label: RagLabel| match label {
        RagLabel::Explicit => 4,
        RagLabel::Strong => 3,
        RagLabel::Heuristic => 2,
        RagLabel::NoEvidence => 1,
        RagLabel::Unknowable => 0,
    };
    if rank(label) > rank(row.rag_label) {
        row.rag_label = label;
    }
    if !row.rag_evidence.iter().any(|known| &**known == rule) {
        row.rag_evidence.push(shared.name(rule));
    }
}

/// Sets a flag once.
fn flag(row: &mut RequestRecord, flag: Flag) {
    if !row.flags.contains(&flag) {
        row.flags.push(flag);
    }
}

#[cfg(test)]
mod tests;
