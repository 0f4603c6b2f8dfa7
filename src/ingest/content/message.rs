//! One message in a form that is the same for every API, and its keyed hash.
//!
//! Role, text and tool calls are taken from whatever shape a client or a server wrote; ids of tool
//! calls, reasoning, white space at the end, cache marks and the order of argument keys are left
//! out, so that an answer has the same hash when a client sends it back. Pictures, audio and files
//! count as a hash of their bytes. The text lives as long as the call.
//! Shapes: the public API references of OpenAI, Anthropic, Gemini, Bedrock and Ollama.

use super::rag;
use super::scan::{Cursor, Raw};
use crate::domain::record::Hash128;
use crate::ingest::loose::Loose;
use crate::ingest::privacy::Hasher;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// How deep contents within contents are followed.
const MAX_CONTENT_DEPTH: u32 = 4;
/// How deep arguments are sorted; below, they are taken as they stand.
const MAX_SORT_DEPTH: u32 = 32;
/// Stands in place of texts that the gateway left out.
const REDACTED: &str = "redacted-by-litellm";

/// Who speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// The operator, or a developer.
    System,
    /// The user; also where no role is given.
    #[default]
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
    /// Any other word.
    Other,
}

impl Role {
    /// Returns the role of a word.
    pub(super) fn of(word: &str) -> Self {
        match word {
            "system" | "developer" => Self::System,
            "user" | "human" => Self::User,
            "assistant" | "model" | "ai" | "gpt" => Self::Assistant,
            "tool" | "function" | "ipython" => Self::Tool,
            _ => Self::Other,
        }
    }

    const fn tag(self) -> u8 {
        match self {
            Self::System => b's',
            Self::User => b'u',
            Self::Assistant => b'a',
            Self::Tool => b't',
            Self::Other => b'o',
        }
    }
}

/// A part that is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Image,
    Audio,
    File,
}

/// One message as it is read; used again for the next.
#[derive(Debug, Default)]
pub(super) struct Message<'a> {
    /// Who speaks.
    pub(super) role: Role,
    /// Tool calls in it.
    pub(super) calls: u32,
    /// Pictures in it.
    pub(super) images: u32,
    /// Audio parts in it.
    pub(super) audio: u32,
    /// Files in it.
    pub(super) files: u32,
    /// Tool results in it.
    pub(super) results: u32,
    /// Ids of its tool calls, and whether the tool looks things up.
    pub(super) made: Vec<(&'a str, bool)>,
    /// Ids of the calls whose results it holds.
    pub(super) answers: Vec<&'a str>,
    /// Whether it names a tool that looks things up as the source of its result.
    pub(super) from_lookup: bool,
    /// Whether a search of the provider's own was run.
    pub(super) searched: bool,
    /// Whether a part is marked as a search result by its type.
    pub(super) has_search_part: bool,
    text: String,
    tail: String,
    media: Vec<(Media, &'a str)>,
}

/// A part of a content, member by member.
#[derive(Debug, Default)]
struct Part<'a> {
    kind: Option<Raw<'a>>,
    text: Option<Raw<'a>>,
    name: Option<Raw<'a>>,
    id: Option<Raw<'a>>,
    arguments: Option<Loose<'a>>,
    media: Option<(Media, &'a str)>,
    is_thought: bool,
}

/// A tool call, member by member.
#[derive(Debug, Default)]
pub(super) struct Call<'a> {
    /// Its id.
    pub(super) id: Option<Raw<'a>>,
    /// Name of the tool.
    pub(super) name: Option<Raw<'a>>,
    /// Arguments: JSON, or a text that holds it.
    pub(super) arguments: Option<Loose<'a>>,
}

impl<'a> Message<'a> {
    /// Makes room for the next message.
    pub(super) fn clear(&mut self) {
        let (mut text, mut tail) = (std::mem::take(&mut self.text), std::mem::take(&mut self.tail));
        text.clear();
        tail.clear();
        *self = Self { text, tail, ..Self::default() };
    }

    /// Returns whether nothing was said.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.tail.is_empty() && self.media.is_empty()
    }

    /// Returns whether the gateway put a mark in place of the text.
    pub(super) fn is_redacted(&self) -> bool {
        self.text == REDACTED
    }

    /// Returns whether its text has the shape of retrieved passages.
    pub(super) fn has_context(&self) -> bool {
        self.has_search_part || rag::has_context(&self.text)
    }

    /// Appends text.
    pub(super) fn push_text(&mut self, text: Raw<'_>) {
        text.push_to(&mut self.text);
    }

    /// Reads a content: a text, parts, or one part.
    pub(super) fn content(&mut self, cursor: &mut Cursor<'a>, depth: u32) {
        match cursor.peek() {
            Some(b'"') => {
                cursor.string_into(&mut self.text);
            }
            Some(b'[') if depth < MAX_CONTENT_DEPTH => {
                cursor.elements(|cursor| self.part(cursor, depth));
            }
            Some(b'{') if depth < MAX_CONTENT_DEPTH => self.part(cursor, depth),
            _ => cursor.skip(),
        }
    }

    fn part(&mut self, cursor: &mut Cursor<'a>, depth: u32) {
        if cursor.string_into(&mut self.text) {
            return;
        }
        let mut part = Part::default();
        cursor.members(|key, cursor| match key {
            "type" => part.kind = cursor.string(),
            "text" | "refusal" => part.text = cursor.string(),
            "json" => self.tail.push_str(cursor.raw()),
            "thought" => part.is_thought = cursor.loose().truth() == Some(true),
            "name" => part.name = cursor.string(),
            "id" | "tool_use_id" => part.id = cursor.string(),
            "input" | "arguments" => part.arguments = Some(cursor.loose()),
            "content" if part.kind.is_some_and(|kind| is_thought(kind.inside)) => cursor.skip(),
            "content" | "response" | "result" => self.content(cursor, depth + 1),
            "parts" if depth == 0 => self.content(cursor, depth + 1),
            "functionCall" | "function_call" | "toolUse" => self.call(cursor),
            "functionResponse" | "function_response" | "toolResult" => self.result(cursor, depth),
            "source" | "file" | "file_data" | "file_id" | "file_url" | "document" | "video" => {
                part.media = Some((Media::File, cursor.raw()));
            }
            "image_url" | "image" => part.media = Some((Media::Image, cursor.raw())),
            "input_audio" | "audio" => part.media = Some((Media::Audio, cursor.raw())),
            "inlineData" | "inline_data" | "fileData" => part.media = Some(inline(cursor)),
            _ => {}
        });
        self.take(part);
    }

    /// Takes a part by its type, once all its members are known.
    fn take(&mut self, part: Part<'a>) {
        let kind = part.kind.map_or("", |kind| kind.inside);
        match kind {
            _ if is_thought(kind) => return,
            "tool_call" | "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                self.searched |= kind == "server_tool_use"
                    && part.name.is_some_and(|name| name.inside.starts_with("web_"));
                let Part { id, name, arguments, .. } = part;
                return self.take_call(Call { id, name, arguments });
            }
            "tool_result" | "mcp_tool_result" | "tool_call_response" => {
                self.results += 1;
                self.answers.extend(part.id.map(|id| id.inside));
            }
            "web_search_tool_result" | "web_fetch_tool_result" => self.searched = true,
            "search_result" => self.has_search_part = true,
            _ => {}
        }
        if let Some((media, bytes)) = part.media {
            let media = match kind {
                "image" | "image_url" | "input_image" => Media::Image,
                "input_audio" | "audio" => Media::Audio,
                _ => media,
            };
            let is_text_result = kind == "search_result";
            if !is_text_result {
                self.take_media(media, bytes);
            }
        }
        if let Some(text) = part.text.filter(|_| !part.is_thought) {
            self.push_text(text);
        }
    }

    fn take_media(&mut self, media: Media, bytes: &'a str) {
        match media {
            Media::Image => self.images += 1,
            Media::Audio => self.audio += 1,
            Media::File => self.files += 1,
        }
        self.media.push((media, bytes));
    }

    /// Reads a list of pictures, as Ollama writes them.
    pub(super) fn pictures(&mut self, cursor: &mut Cursor<'a>) {
        cursor.elements(|cursor| {
            let bytes = cursor.raw();
            self.take_media(Media::Image, bytes);
        });
    }

    /// Reads a list of tool calls.
    pub(super) fn tool_calls(&mut self, cursor: &mut Cursor<'a>) {
        cursor.elements(|cursor| self.call(cursor));
    }

    /// Reads one tool call: `{id, function: {name, arguments}}`, or without the shell.
    pub(super) fn call(&mut self, cursor: &mut Cursor<'a>) {
        let mut call = Call::default();
        let mut seen = false;
        cursor.members(|key, cursor| {
            seen = true;
            call_member(&mut call, key, cursor);
        });
        if seen && !cursor.failed() {
            self.take_call(call);
        }
    }

    /// Takes a tool call whose members are known.
    pub(super) fn take_call(&mut self, call: Call<'a>) {
        let name = call.name.map(Raw::text).unwrap_or_default();
        if let Some(id) = call.id {
            self.made.push((id.inside, rag::is_lookup(&name)));
        }
        match call.arguments {
            Some(Loose::Text(text)) => self.add_call(&name, &text),
            Some(Loose::Json(text)) => self.add_call(&name, text),
            _ => self.add_call(&name, ""),
        }
    }

    /// Takes a tool call by its name and the JSON text of its arguments.
    pub(super) fn add_call(&mut self, name: &str, arguments: &str) {
        self.calls = self.calls.saturating_add(1);
        self.tail.push('\u{2}');
        self.tail.push_str(name);
        self.tail.push('\u{3}');
        canonical_json(arguments, &mut self.tail);
    }

    /// Reads a tool's result, as Gemini and Bedrock write it.
    fn result(&mut self, cursor: &mut Cursor<'a>, depth: u32) {
        self.results += 1;
        cursor.members(|key, cursor| match key {
            "name" => {
                self.from_lookup |= cursor.string().is_some_and(|name| rag::is_lookup(name.inside));
            }
            "toolUseId" => self.answers.extend(cursor.string().map(|id| id.inside)),
            "response" => canonical_json(cursor.raw(), &mut self.tail),
            "content" => self.content(cursor, depth + 1),
            _ => {}
        });
    }

    /// Returns the hash of the message, which is spent by it.
    pub(super) fn digest(&mut self, hasher: &Hasher) -> Hash128 {
        if self.role == Role::Assistant {
            drop_thoughts(&mut self.text);
        }
        let length = self.text.trim_end().len();
        self.text.truncate(length);
        if !is_composed(&self.text) {
            self.text = self.text.nfc().collect();
        }
        self.text.push('\u{1}');
        self.text.push_str(&self.tail);
        for (_, bytes) in &self.media {
            self.text.push('\u{4}');
            self.text.push_str(&Hasher::hex(hasher.roll(Hash128([0; 16]), bytes.as_bytes())));
        }
        hasher.roll(Hash128([self.role.tag(); 16]), self.text.as_bytes())
    }
}

/// Returns whether a part of this type is reasoning, which clients do not send back.
fn is_thought(kind: &str) -> bool {
    matches!(kind, "thinking" | "redacted_thinking" | "reasoning")
}

/// Takes one member of a tool call, or of the function within it.
fn call_member<'a>(call: &mut Call<'a>, key: &str, cursor: &mut Cursor<'a>) {
    match key {
        "id" | "toolUseId" => call.id = cursor.string(),
        "name" => call.name = cursor.string(),
        "arguments" | "args" | "input" => call.arguments = Some(cursor.loose()),
        "function" | "custom" => cursor.members(|key, cursor| match key {
            "name" => call.name = cursor.string(),
            "arguments" | "input" => call.arguments = Some(cursor.loose()),
            _ => {}
        }),
        _ => {}
    }
}

/// Reads `{mimeType, data}`.
fn inline<'a>(cursor: &mut Cursor<'a>) -> (Media, &'a str) {
    let mut found = (Media::File, "");
    cursor.members(|key, cursor| match key {
        "mimeType" | "mime_type" => {
            let kind = cursor.string().map_or("", |kind| kind.inside);
            if kind.starts_with("image") {
                found.0 = Media::Image;
            } else if kind.starts_with("audio") {
                found.0 = Media::Audio;
            }
        }
        "data" | "fileUri" | "file_uri" => found.1 = cursor.raw(),
        _ => {}
    });
    found
}

/// Leaves out the reasoning that some engines put in front of an answer.
fn drop_thoughts(text: &mut String) {
    let rest = text.trim_start().strip_prefix("<think>");
    if let Some((_, answer)) = rest.and_then(|rest| rest.split_once("</think>")) {
        *text = answer.trim_start().to_owned();
    }
}

/// Returns whether a text is surely in composed form (NFC).
fn is_composed(text: &str) -> bool {
    // Below U+0300, and in the blocks of Cyrillic, Han and Hangul, nothing composes.
    let plain = |c: char| {
        matches!(c, '\0'..='\u{2ff}' | '\u{400}'..='\u{482}' | '\u{2010}'..='\u{2027}'
            | '\u{3001}'..='\u{3029}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
    };
    text.is_ascii() || text.chars().all(plain) || is_nfc_quick(text.chars()) == IsNormalized::Yes
}

/// Appends JSON in one form: keys sorted, no white space, strings without escapes. What is no JSON
/// is appended as it stands, and nothing counts as no arguments.
pub(super) fn canonical_json(text: &str, out: &mut String) {
    let start = out.len();
    let mut cursor = Cursor::new(text);
    if cursor.peek().is_none() {
        out.push_str("{}");
        return;
    }
    sorted(&mut cursor, out, 0);
    if cursor.failed() || cursor.peek().is_some() {
        out.truncate(start);
        out.push_str(text.trim());
    }
}

fn sorted(cursor: &mut Cursor<'_>, out: &mut String, depth: u32) {
    match cursor.peek() {
        Some(b'{') if depth < MAX_SORT_DEPTH => {
            out.push('{');
            let start = out.len();
            let mut spans: Vec<(usize, usize)> = Vec::new();
            cursor.members(|key, cursor| {
                let from = out.len();
                out.push_str(key);
                out.push_str("\u{5}:");
                sorted(cursor, out, depth + 1);
                spans.push((from, out.len()));
            });
            let member = |span: &(usize, usize)| out.get(span.0..span.1).unwrap_or_default();
            if !spans.is_sorted_by(|first, second| member(first) <= member(second)) {
                spans.sort_by(|first, second| member(first).cmp(member(second)));
                let in_order: String = spans.iter().map(member).collect();
                out.truncate(start);
                out.push_str(&in_order);
            }
            out.push('}');
        }
        Some(b'[') if depth < MAX_SORT_DEPTH => {
            out.push('[');
            cursor.elements(|cursor| {
                sorted(cursor, out, depth + 1);
                out.push(',');
            });
            out.push(']');
        }
        Some(b'"') => {
            if let Some(text) = cursor.string() {
                out.push('"');
                text.push_to(out);
                out.push_str("\u{5}\"");
            }
        }
        _ => out.push_str(cursor.raw()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        let mut out = String::new();
        canonical_json(text, &mut out);
        out.replace('\u{5}', "")
    }

    #[test]
    fn arguments_have_one_form() {
        let one = canonical(r#"{"b": [1, {"z": "A", "a": null}], "a": true}"#);
        assert_eq!(one, canonical("{\"a\":true,\"b\":[1,{\"a\":null,\"z\":\"\\u0041\"}]}"));
        assert_eq!(one, r#"{a:trueb:[1,{a:nullz:"A"},]}"#);
        assert_eq!(canonical("  "), "{}");
        assert_eq!(canonical("{\"a\": 1"), "{\"a\": 1");
        assert_eq!(canonical("{} {}"), "{} {}");
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert_eq!(canonical(&deep).matches('[').count(), 500);
    }

    fn digest(role: Role, content: &str) -> Hash128 {
        let mut message = Message { role, ..Message::default() };
        message.content(&mut Cursor::new(content), 0);
        message.digest(&Hasher::new(b"a salt of the tests"))
    }

    #[test]
    fn shapes_of_one_text_have_one_hash() {
        let text = digest(Role::User, "\"Hi \\u00e9 \\n\"");
        assert_eq!(text, digest(Role::User, "\"Hi e\\u0301\""));
        let parts = r#"[{"type":"text","text":"Hi ","cache_control":{"type":"x"}},{"text":"é"}]"#;
        assert_eq!(text, digest(Role::User, parts));
        assert_ne!(text, digest(Role::Assistant, "\"Hi é\""));
        assert_ne!(text, digest(Role::User, "\"Hi e\""));
        let thoughts = r#"[{"type":"thinking","thinking":"x"},{"type":"text","text":"Hi é"}]"#;
        assert_eq!(text, digest(Role::User, thoughts));
        let inline = "\"<think>x</think>\\n\\nHi\"";
        assert_eq!(digest(Role::Assistant, inline), digest(Role::Assistant, "\"Hi\""));
        assert_ne!(digest(Role::User, inline), digest(Role::User, "\"Hi\""));
    }

    #[test]
    fn composed_text_is_known_fast_and_right() {
        for text in ["", "plain", "\u{e9}", "\u{4e2d}\u{6587}\u{3002}", "\u{d55c}", "\u{1f600}"] {
            assert!(is_composed(text), "{text}");
            assert_eq!(text.nfc().collect::<String>(), text);
        }
        for text in ["e\u{301}", "\u{1112}\u{1161}", "\u{304b}\u{3099}"] {
            assert!(!is_composed(text), "{text}");
        }
    }

    #[test]
    fn parts_are_counted_by_kind() {
        let mut message = Message::default();
        let content = r#"[{"type":"image_url","image_url":{"url":"data:x"}},{"image":{"bytes":"x"}},
            {"type":"image","source":{"data":"x"}},{"inlineData":{"data":"x","mimeType":"audio/wav"}},
            {"type":"input_audio","input_audio":{"data":"x"}},{"type":"document","source":{}},
            {"type":"file","file":{"file_id":"x"}},{"type":"tool_use","id":"1","name":"n"},
            {"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{}}]},7,null]"#;
        message.content(&mut Cursor::new(content), 0);
        assert_eq!((message.images, message.audio, message.files), (4, 2, 2));
        assert_eq!((message.calls, message.results), (1, 1));
    }

    #[test]
    fn pictures_tell_messages_apart() {
        let of = |bytes: &str| {
            digest(Role::User, &format!("[{{\"type\":\"image_url\",\"image_url\":\"{bytes}\"}}]"))
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
    }
}
