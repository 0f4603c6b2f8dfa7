//! The wire forms of the APIs: a planned request → a body, an event's data → a `Chunk`.
//!
//! Pure: no I/O and no clock. Every chunk is parsed; a chunk is not taken for a token. What counts
//! as generated text: non-empty `content` or `text`, `refusal`, `reasoning_content` or `reasoning`,
//! and tool-call names and arguments. Role-only, null, empty and usage-only chunks never count.

mod body;
pub(super) mod chat;
pub(super) mod completions;
pub(super) mod wire;

pub use body::{BodyOptions, MaxTokensField};

use crate::domain::schedule::ScheduledRequest;
use crate::domain::word::word_enum;

word_enum! {
    /// Which API is spoken.
    pub enum Api {
        /// `POST /v1/chat/completions`: the prompt is one user message.
        Chat = "chat",
        /// `POST /v1/completions`: the prompt is plain text, no template is applied.
        Completions = "completions",
    }
}

impl Api {
    /// Returns the path below the base URL.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
        }
    }

    /// Returns the JSON body of a request; always asks for a stream with usage.
    pub fn body(self, options: &BodyOptions, request: &ScheduledRequest, prompt: &str) -> Vec<u8> {
        match self {
            Self::Chat => body::write(options, request, chat::prompt(prompt)),
            Self::Completions => body::write(options, request, completions::prompt(prompt)),
        }
    }

    /// Reads the data of one event.
    ///
    /// # Errors
    ///
    /// The column at which it stops being a chunk of this API; nothing of the text.
    pub(super) fn read(self, data: &[u8]) -> Result<Chunk, usize> {
        match self {
            Self::Chat => chat::read(data),
            Self::Completions => completions::read(data),
        }
    }
}

/// What one event says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Bytes of visible text.
    pub(super) content_bytes: u64,
    /// Bytes of reasoning text.
    pub(super) reasoning_bytes: u64,
    /// Bytes of tool names and arguments.
    pub(super) tool_bytes: u64,
    /// Why generation stopped.
    pub(super) finish_reason: Option<String>,
    /// The server's counts.
    pub(super) usage: Option<Usage>,
    /// The server's error.
    pub(super) error: Option<String>,
}

impl Chunk {
    /// Returns the bytes of generated text of any kind.
    pub(super) const fn text_bytes(&self) -> u64 {
        self.content_bytes + self.reasoning_bytes + self.tool_bytes
    }
}

/// A server's `usage` object; a count that is not there is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Input tokens.
    pub(super) input: Option<u32>,
    /// Input tokens taken from a cache.
    pub(super) cached_input: Option<u32>,
    /// Output tokens, reasoning included.
    pub(super) output: Option<u32>,
    /// Reasoning tokens among the output tokens.
    pub(super) reasoning: Option<u32>,
}
