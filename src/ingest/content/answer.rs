//! Bodies of answers: JSON, arrays of chunks, lines of JSON, or server-sent events.
//!
//! Body text -> finish reasons, tool calls, response id, model, usage, errors, and the hash of the
//! conversation with its answer. Deltas are put together as they are read; a stream without an end
//! gives no hash. Bodies of OpenAI, Anthropic, Gemini, Bedrock, Ollama and TGI: the public API
//! references of these projects.

mod outcome;

use super::message::{Message, Role};
use super::scan::{Cursor, Raw};
use super::usage::Usage;
use super::{flag, item};
use crate::domain::record::{Flag, Hash128, Operation};
use crate::ingest::format::{Draft, Shared};
use crate::ingest::loose::Loose;
use std::borrow::Cow;

/// Tool calls of one streamed answer that are put together.
const MAX_CALLS: usize = 256;
/// Choices of one answer that are told apart.
const MAX_CHOICES: u32 = 128;
/// What a gateway writes in place of an answer it did not keep.
const WAS_STREAM: &str = "The response was a stream.";

/// What an answer shows, as it is read.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is set by keys of its own")]
struct Answer<'a> {
    message: Message<'a>,
    /// Calls that come in pieces: place, name, arguments.
    pieces: Vec<(u32, String, String)>,
    /// Hashes of items of the Responses API.
    items: Vec<Hash128>,
    item_calls: u32,
    other_calls: u32,
    finish: Vec<(u32, Cow<'a, str>)>,
    id: Option<Raw<'a>>,
    model: Option<Raw<'a>>,
    usage: Usage,
    error: Option<Failure<'a>>,
    searched: bool,
    is_shown: bool,
    operation: Option<Operation>,
    was_stream: bool,
    is_redacted: bool,
    is_done: bool,
}

/// What an error says of itself, without its message.
#[derive(Default)]
struct Failure<'a> {
    kind: Option<Raw<'a>>,
    code: Loose<'a>,
    status: Option<Raw<'a>>,
}

/// One object, member by member, where the meaning depends on several.
#[derive(Default)]
struct Chunk<'a> {
    kind: &'a str,
    index: u32,
    delta: Delta<'a>,
    status: Option<Raw<'a>>,
    why: Option<Raw<'a>>,
    code: Loose<'a>,
    is_error: bool,
}

/// A piece of an answer.
#[derive(Default)]
struct Delta<'a> {
    text: Option<Raw<'a>>,
    arguments: Option<Raw<'a>>,
    name: Option<Raw<'a>>,
    input: &'a str,
}

/// Reads a body into a draft.
pub(super) fn read(body: &str, draft: &mut Draft, shared: &mut Shared) {
    let text = body.trim_start();
    if text.starts_with('"') {
        let Some(raw) = Cursor::new(text).string() else { return };
        let inner = raw.text();
        let start = inner.trim_start();
        if start.starts_with(['{', '['])
            || start.starts_with("data:")
            || start.starts_with("event:")
        {
            return read(start, draft, shared);
        }
        let mut answer = Answer { is_shown: true, ..Answer::default() };
        answer.message.push_text(raw);
        return answer.finish(draft, shared, true);
    }
    let mut answer = Answer::default();
    let is_stream = !text.starts_with(['{', '[']);
    let was_cut = if is_stream {
        if !answer.events(text, shared) {
            return;
        }
        draft.row.stream = draft.row.stream.or(Some(true));
        !answer.is_done && answer.finish.is_empty() && answer.error.is_none()
    } else {
        let mut cursor = Cursor::new(text);
        answer.values(&mut cursor, shared);
        cursor.failed() || memchr::memmem::find(text.as_bytes(), b"litellm_truncated").is_some()
    };
    if was_cut {
        flag(&mut draft.row, Flag::TruncatedBody);
    }
    answer.finish(draft, shared, !was_cut);
}

impl<'a> Answer<'a> {
    /// Reads server-sent events; returns whether there were any.
    fn events(&mut self, text: &'a str, shared: &Shared) -> bool {
        let mut found = false;
        for line in text.lines() {
            let Some(data) = line.strip_prefix("data:").map(str::trim) else { continue };
            found = true;
            if data == "[DONE]" {
                self.is_done = true;
            } else if data.starts_with(['{', '[']) {
                self.values(&mut Cursor::new(data), shared);
            }
        }
        found
    }

    /// Reads objects one after the other, or an array of them.
    fn values(&mut self, cursor: &mut Cursor<'a>, shared: &Shared) {
        while !cursor.failed() {
            match cursor.peek() {
                Some(b'{') => self.object(cursor, shared, 0),
                Some(b'[') => cursor.elements(|cursor| self.object(cursor, shared, 0)),
                _ => return,
            }
        }
    }

    /// Reads one object: a whole answer, or a chunk of one.
    fn object(&mut self, cursor: &mut Cursor<'a>, shared: &Shared, depth: u32) {
        let mut chunk = Chunk::default();
        cursor.members(|key, cursor| match key {
            "choices" => self.choices(cursor),
            "content" | "parts" => {
                self.is_shown = true;
                self.message.content(cursor, 0);
            }
            "output" => self.output(cursor, shared),
            "candidates" => cursor.elements(|cursor| self.candidate(cursor)),
            "message" | "response" => self.inner(key, cursor, (shared, depth)),
            "data" => self.data(cursor),
            "embeddings" | "embedding" => self.operation = Some(Operation::Embeddings),
            "generated_text" | "generation" | "completion" | "text" | "outputText" => {
                self.text(cursor);
            }
            "generations" | "results" | "outputs" => self.first(cursor, shared, depth),
            "meta_info" | "llm_output" | "generation_info" => {
                cursor.members(|key, cursor| self.about(key, cursor));
            }
            "details" => self.details(cursor),
            _ => self.field(key, cursor, &mut chunk),
        });
        self.take(chunk);
    }

    /// Reads the first of several answers, or of lists of them.
    fn first(&mut self, cursor: &mut Cursor<'a>, shared: &Shared, depth: u32) {
        let mut is_first = depth == 0;
        cursor.elements(|cursor| {
            if !std::mem::take(&mut is_first) {
                return;
            }
            if cursor.peek() == Some(b'[') {
                let mut is_first = true;
                return cursor.elements(|cursor| {
                    if std::mem::take(&mut is_first) {
                        self.generation(cursor);
                    }
                });
            }
            self.object(cursor, shared, 1);
        });
    }

    /// Reads `LangChain`'s answer, whose text stands beside the message that holds it too.
    fn generation(&mut self, cursor: &mut Cursor<'a>) {
        let mut text = None;
        cursor.members(|key, cursor| match key {
            "text" => text = cursor.string(),
            "message" => self.bare(cursor),
            "generation_info" => cursor.members(|key, cursor| self.about(key, cursor)),
            _ => {}
        });
        if let Some(text) = text.filter(|_| self.message.is_empty()) {
            self.is_shown = true;
            self.message.push_text(text);
        }
    }

    /// Reads what engines and frameworks say beside an answer.
    fn about(&mut self, key: &str, cursor: &mut Cursor<'a>) {
        match key {
            "id" => self.id = self.id.or(cursor.string()),
            "model_name" => self.model = self.model.or(cursor.string()),
            "finish_reason" => self.why(0, cursor),
            "token_usage" => self.usage.read(cursor),
            _ => self.usage.member(key, cursor),
        }
    }

    /// Reads the members that are no content.
    fn field(&mut self, key: &str, cursor: &mut Cursor<'a>, chunk: &mut Chunk<'a>) {
        match key {
            "id" | "responseId" | "response_id" => self.id = self.id.or(cursor.string()),
            "model" | "modelVersion" => self.model = self.model.or(cursor.string()),
            "type" => chunk.kind = cursor.string().map_or("", |kind| kind.inside),
            "object" => match cursor.string().map_or("", |object| object.inside) {
                "error" => chunk.is_error = true,
                "response" => self.operation = Some(Operation::Chat),
                object if object.starts_with("chat.completion") => {
                    self.operation = Some(Operation::Chat);
                }
                "text_completion" => self.operation = Some(Operation::TextCompletion),
                _ => {}
            },
            "usage" | "usageMetadata" | "usage_metadata" => self.usage.read(cursor),
            "metadata" => cursor.members(|key, cursor| {
                if key == "usage" {
                    self.usage.read(cursor);
                }
            }),
            "prompt_eval_count"
            | "eval_count"
            | "prompt_token_count"
            | "generation_token_count"
            | "inputTextTokenCount" => self.usage.member(key, cursor),
            "error" => self.failure(cursor),
            "stop_reason" | "stopReason" | "done_reason" | "finish_reason" | "completionReason" => {
                self.why(0, cursor);
            }
            "messageStop" => cursor.members(|key, cursor| {
                if key == "stopReason" {
                    self.why(0, cursor);
                }
            }),
            "contentBlockStart" | "contentBlockDelta" => cursor.members(|key, cursor| match key {
                "delta" | "start" => self.delta(cursor, &mut chunk.delta),
                "contentBlockIndex" => chunk.index = cursor.count().unwrap_or(0),
                _ => {}
            }),
            "delta" | "content_block" => self.delta(cursor, &mut chunk.delta),
            "index" => chunk.index = cursor.count().unwrap_or(0),
            "tool_calls" => self.message.tool_calls(cursor),
            "status" => chunk.status = cursor.string(),
            "code" => chunk.code = cursor.loose(),
            "incomplete_details" | "promptFeedback" => cursor.members(|key, cursor| {
                if matches!(key, "reason" | "blockReason") {
                    chunk.why = cursor.string();
                }
            }),
            "done" => self.is_done |= cursor.loose().truth() == Some(true),
            _ => {}
        }
    }

    /// Takes what a chunk means as a whole.
    fn take(&mut self, chunk: Chunk<'a>) {
        let Chunk { kind, index, delta, status, why, code, is_error } = chunk;
        if is_error || kind == "error" {
            let kind = Some(Raw { inside: kind, escaped: false });
            self.error.get_or_insert(Failure { kind, code, status: None });
        }
        if let Some(name) = delta.name {
            self.piece(index, &name.text(), delta.input);
        }
        if let Some(text) = delta.arguments {
            self.piece(index, "", &text.text());
        }
        if let Some(text) = delta.text {
            self.is_shown = true;
            self.message.push_text(text);
        }
        match (status.map(|status| status.inside), why) {
            (Some("incomplete"), Some(why)) if why.inside == "content_filter" => {
                self.set_why(0, Cow::Borrowed(why.inside));
            }
            (Some("failed"), _) => self.set_why(0, Cow::Borrowed("error")),
            (Some(word @ ("completed" | "incomplete" | "cancelled")), _) => {
                self.set_why(0, Cow::Borrowed(word));
            }
            (_, Some(why)) => self.set_why(0, why.text()),
            _ => {}
        }
        self.is_done |= kind == "message_stop";
    }

    fn choices(&mut self, cursor: &mut Cursor<'a>) {
        let mut place = 0_u32;
        cursor.elements(|cursor| {
            let mut index = place;
            place += 1;
            let mut other = Message::default();
            cursor.members(|key, cursor| match key {
                "index" => index = cursor.count().unwrap_or(index),
                "finish_reason" => self.why(index, cursor),
                "message" if index == 0 => self.bare(cursor),
                "message" => {
                    item::read(&mut other, cursor);
                }
                "text" if index == 0 => self.text(cursor),
                "delta" if index == 0 => self.chat_delta(cursor),
                _ => {}
            });
            self.other_calls = self.other_calls.saturating_add(other.calls);
        });
    }

    fn text(&mut self, cursor: &mut Cursor<'a>) {
        if let Some(text) = cursor.string() {
            self.is_shown = true;
            self.message.push_text(text);
        }
    }

    /// Reads a message that is the answer, or a chunk of it.
    fn bare(&mut self, cursor: &mut Cursor<'a>) {
        self.is_shown = true;
        item::read(&mut self.message, cursor);
    }

    /// Reads what streams of OpenAI's kind add.
    fn chat_delta(&mut self, cursor: &mut Cursor<'a>) {
        self.is_shown = true;
        cursor.members(|key, cursor| match key {
            "content" | "refusal" => self.message.content(cursor, 0),
            "annotations" => self.searched |= item::names_sources(cursor),
            "function_call" => self.call_piece(cursor),
            "tool_calls" => cursor.elements(|cursor| self.call_piece(cursor)),
            _ => {}
        });
    }

    fn call_piece(&mut self, cursor: &mut Cursor<'a>) {
        let (mut index, mut name, mut arguments) = (0, None, None);
        cursor.members(|key, cursor| match key {
            "index" => index = cursor.count().unwrap_or(0),
            "name" => name = cursor.string(),
            "arguments" => arguments = cursor.string(),
            "function" => cursor.members(|key, cursor| match key {
                "name" => name = cursor.string(),
                "arguments" => arguments = cursor.string(),
                _ => {}
            }),
            _ => {}
        });
        let text = |raw: Option<Raw<'a>>| raw.map(Raw::text).unwrap_or_default();
        self.piece(index, &text(name), &text(arguments));
    }

    fn piece(&mut self, index: u32, name: &str, arguments: &str) {
        let count = self.pieces.len();
        match self.pieces.iter_mut().find(|piece| piece.0 == index) {
            Some(piece) => {
                piece.1.push_str(name);
                piece.2.push_str(arguments);
            }
            None if count < MAX_CALLS => {
                self.pieces.push((index, name.to_owned(), arguments.to_owned()));
            }
            None => {}
        }
    }

    /// Reads what streams of Anthropic's kind add: a delta, or the start of a block.
    fn delta(&mut self, cursor: &mut Cursor<'a>, delta: &mut Delta<'a>) {
        let mut kind = "";
        cursor.members(|key, cursor| match key {
            "type" => kind = cursor.string().map_or("", |kind| kind.inside),
            "text" => delta.text = cursor.string(),
            "partial_json" => delta.arguments = cursor.string(),
            "name" => delta.name = cursor.string(),
            "input" => match cursor.string() {
                Some(text) => delta.arguments = Some(text),
                None => delta.input = cursor.raw(),
            },
            "toolUse" => cursor.members(|key, cursor| match key {
                "name" => delta.name = cursor.string(),
                "input" => delta.arguments = cursor.string(),
                _ => {}
            }),
            "stop_reason" => self.why(0, cursor),
            _ => {}
        });
        if delta.input == "{}" {
            delta.input = "";
        }
        self.searched |= matches!(kind, "server_tool_use" | "web_search_tool_result");
        if kind == "server_tool_use" {
            delta.name = delta.name.filter(|name| !name.inside.starts_with("web_"));
        }
    }

    fn why(&mut self, index: u32, cursor: &mut Cursor<'a>) {
        if let Some(why) = cursor.string() {
            self.set_why(index, why.text());
        } else if cursor.peek() == Some(b'{') {
            // SGLang: `{"type": "stop", "matched": ...}`.
            cursor.members(|key, cursor| {
                if let Some(why) = cursor.string().filter(|_| key == "type") {
                    self.set_why(index, why.text());
                }
            });
        }
    }

    fn set_why(&mut self, index: u32, why: Cow<'a, str>) {
        match self.finish.iter_mut().find(|known| known.0 == index) {
            Some(known) => known.1 = why,
            None if index < MAX_CHOICES => self.finish.push((index, why)),
            None => {}
        }
    }

    /// Reads the output: items of the Responses API, or the message of Bedrock.
    fn output(&mut self, cursor: &mut Cursor<'a>, shared: &Shared) {
        match cursor.peek() {
            Some(b'[') => {
                self.items.clear();
                self.item_calls = 0;
                cursor.elements(|cursor| {
                    let mut message = Message::default();
                    let is_message = item::read(&mut message, cursor);
                    self.searched |= message.searched;
                    if is_message {
                        self.is_shown = true;
                        self.is_redacted |= message.is_redacted();
                        self.item_calls = self.item_calls.saturating_add(message.calls);
                        message.role = Role::Assistant;
                        self.items.push(message.digest(&shared.hasher));
                    }
                });
            }
            Some(b'{') => cursor.members(|key, cursor| {
                if key == "message" {
                    self.bare(cursor);
                }
            }),
            _ => self.text(cursor),
        }
    }

    fn candidate(&mut self, cursor: &mut Cursor<'a>) {
        let mut index = 0;
        cursor.members(|key, cursor| match key {
            "index" => index = cursor.count().unwrap_or(0),
            "content" => self.bare(cursor),
            "finishReason" | "finish_reason" => self.why(index, cursor),
            "groundingMetadata" | "grounding_metadata" => {
                self.searched |= Loose::of_json(cursor.raw()).elements().is_some_and(|n| n > 0);
            }
            _ => {}
        });
    }

    /// Reads `message` or `response`: an answer within, Ollama's text of one (`response`), or a
    /// note (`message`), which is none.
    fn inner(&mut self, key: &str, cursor: &mut Cursor<'a>, (shared, depth): (&Shared, u32)) {
        if cursor.peek() == Some(b'{') && depth == 0 {
            return self.object(cursor, shared, 1);
        }
        let Some(text) = cursor.string() else { return };
        self.was_stream |= text.inside == WAS_STREAM;
        if key == "response" && !self.was_stream {
            self.is_shown = true;
            self.message.push_text(text);
        }
    }

    fn data(&mut self, cursor: &mut Cursor<'a>) {
        cursor.elements(|cursor| {
            cursor.members(|key, _| {
                if key == "embedding" {
                    self.operation = Some(Operation::Embeddings);
                }
            });
        });
    }

    /// Reads TGI's details.
    fn details(&mut self, cursor: &mut Cursor<'a>) {
        cursor.members(|key, cursor| match key {
            "finish_reason" => self.why(0, cursor),
            "generated_tokens" => self.usage.member(key, cursor),
            _ => {}
        });
    }

    fn failure(&mut self, cursor: &mut Cursor<'a>) {
        let mut failure = Failure::default();
        match cursor.peek() {
            Some(b'{') => cursor.members(|key, cursor| match key {
                "type" | "error_type" => failure.kind = cursor.string(),
                "code" => failure.code = cursor.loose(),
                "status" => failure.status = cursor.string(),
                _ => {}
            }),
            Some(b'"') => cursor.skip(),
            _ => return,
        }
        self.error.get_or_insert(failure);
    }
}
