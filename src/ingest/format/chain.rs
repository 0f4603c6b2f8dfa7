//! What ties a request to earlier turns of its conversation: keyed hashes, no text.
//!
//! Filled where a log shows messages, response ids or parents; read when sessions are inferred.

use crate::domain::record::Hash128;

/// The links of one request. Empty lists and `None` mean that the log shows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Rolling hash after each message of the request, the first one first.
    pub prefixes: Vec<Hash128>,
    /// The same over the messages without system messages.
    pub prefixes_no_system: Vec<Hash128>,
    /// Hash of each (user, assistant) pair of the request, the last one last.
    pub exchanges: Vec<Hash128>,
    /// Rolling hash of the whole request and its own answer; `None` when no answer is shown.
    pub with_answer: Option<Hash128>,
    /// The same without system messages.
    pub with_answer_no_system: Option<Hash128>,
    /// Hash of the pair of the request's last user message and its own answer.
    pub last_exchange: Option<Hash128>,
    /// Hash of the request's last user message alone.
    pub last_user: Option<Hash128>,
    /// The id of the response this request continues, or of its parent in the log.
    pub previous: Option<Hash128>,
    /// The id by which later requests name this one.
    pub own: Option<Hash128>,
    /// Whether all new messages since the last answer are tool results.
    pub is_tool_turn: bool,
    /// Whether a body was cut or redacted: it can be a parent, never a child.
    pub is_incomplete: bool,
}
