//! Bodies of requests: OpenAI (chat, completions, responses), Anthropic, Gemini, Bedrock, Ollama,
//! TGI and `SGLang`.
//!
//! Body text -> limits, counts, tools, evidence of retrieval, and the chain of keyed hashes. The
//! family is not asked for: each key means the same wherever it occurs. Fields that the row has
//! already are left as they are. Shapes: the public API references of these projects.

use super::message::{Message, Role};
use super::scan::{Cursor, Fault, Raw};
use super::{evidence, flag, item, rag};
use crate::domain::record::{
    Flag, Hash128, Operation, RagLabel, RequestRecord, SessionSource, ToolClass,
};
use crate::ingest::format::Shared;
use crate::ingest::format::chain::Chain;
use crate::ingest::loose::Loose;
use crate::ingest::privacy::Column;

/// Calls looked through for the one that a result answers.
const MAX_OPEN_CALLS: usize = 64;
/// How deep a body within `input` is followed.
const MAX_INPUT_DEPTH: u32 = 2;
/// Tools whose class is kept.
const MAX_TOOLS: usize = 1_000;
/// Mark of texts that the gateway cut in the middle.
const TRUNCATED: &str = "litellm_truncated";
/// In the user ids of Claude Code: what follows names the session.
const SESSION_MARK: &str = "_session_";

/// What a body shows, as it is read.
#[expect(clippy::struct_excessive_bools, reason = "each is set by keys of its own")]
struct Reader<'a, 'd> {
    row: &'d mut RequestRecord,
    shared: &'d mut Shared,
    message: Message<'a>,
    system: Vec<Hash128>,
    turns: Vec<(Role, Hash128)>,
    calls: Vec<(&'a str, bool)>,
    media: [u32; 3],
    tools: Option<Vec<ToolClass>>,
    previous: Option<Hash128>,
    has_list: bool,
    has_text: bool,
    has_role: bool,
    is_redacted: bool,
    hint: Option<Operation>,
    fired: Fired,
    depth: u32,
}

/// Which rules of retrieval fired.
#[derive(Default)]
struct Fired {
    tool_result: bool,
    context: bool,
    searched: bool,
}

/// Reads a body into a row; returns the chain where messages or a parent are shown.
pub(super) fn read(body: &str, row: &mut RequestRecord, shared: &mut Shared) -> Option<Box<Chain>> {
    let mut cursor = Cursor::new(body);
    if let Some(text) = cursor.string() {
        if text.text().trim_start().starts_with(['{', '[']) {
            return read(&text.text(), row, shared);
        }
        cursor = Cursor::new(body);
    }
    let mut reader = Reader::new(row, shared);
    match cursor.peek() {
        Some(b'{') => cursor.members(|key, cursor| reader.member(key, cursor)),
        Some(b'[') => reader.list(&mut cursor),
        Some(b'"') => reader.prompt(&mut cursor),
        _ => return None,
    }
    if reader.has_role && !reader.has_list && !cursor.failed() {
        cursor = Cursor::new(body);
        reader.has_list = true;
        reader.element(&mut cursor);
    }
    let marked = memchr::memmem::find(body.as_bytes(), TRUNCATED.as_bytes()).is_some();
    let ends = body.trim_end();
    let was_cut = cursor.fault() == Some(Fault::Cut)
        || (cursor.failed() && (ends.ends_with("...") || ends.ends_with('\u{2026}')))
        || marked;
    if was_cut {
        flag(reader.row, Flag::TruncatedBody);
    }
    reader.finish(!cursor.failed(), !was_cut)
}

impl<'a, 'd> Reader<'a, 'd> {
    fn new(row: &'d mut RequestRecord, shared: &'d mut Shared) -> Self {
        Self {
            row,
            shared,
            message: Message::default(),
            system: Vec::new(),
            turns: Vec::new(),
            calls: Vec::new(),
            media: [0; 3],
            tools: None,
            previous: None,
            has_list: false,
            has_text: false,
            has_role: false,
            is_redacted: false,
            hint: None,
            fired: Fired::default(),
            depth: 0,
        }
    }

    fn member(&mut self, key: &str, cursor: &mut Cursor<'a>) {
        match key {
            "messages" => self.listed(Operation::Chat, cursor),
            "contents" => self.listed(Operation::GenerateContent, cursor),
            "input" => self.input(cursor),
            "prompt" | "inputs" | "inputText" => {
                self.hint.get_or_insert(Operation::TextCompletion);
                self.prompt(cursor);
            }
            // SGLang's prompt; in the Responses API an object of settings.
            "text" => self.prompt(cursor),
            "system" | "systemInstruction" | "system_instruction" | "instructions" => {
                self.system(cursor);
            }
            "images" => self.pictures(cursor),
            "role" => self.has_role = true,
            "model" => {
                let model = self.shared.model(&cursor.loose());
                self.row.request_model = self.row.request_model.take().or(model);
            }
            "stream" => self.row.stream = self.row.stream.or(cursor.loose().truth()),
            "generationConfig"
            | "generation_config"
            | "inferenceConfig"
            | "options"
            | "parameters"
            | "sampling_params"
            | "textGenerationConfig" => {
                cursor.members(|key, cursor| limit(self.row, key, cursor));
            }
            "tools" | "functions" => self.tools(cursor),
            "toolConfig" => cursor.members(|key, cursor| {
                if key == "tools" {
                    self.tools(cursor);
                }
            }),
            "previous_response_id" => {
                self.hint.get_or_insert(Operation::Chat);
                self.previous = self.shared.hash(Column::Request, &cursor.loose());
            }
            "reasoning" | "store" | "include" | "truncation" => {
                self.hint.get_or_insert(Operation::Chat);
            }
            "encoding_format" | "dimensions" => self.hint = Some(Operation::Embeddings),
            "documents" => self.hint = Some(Operation::Rerank),
            "conversation" => self.conversation(cursor),
            "metadata" => cursor.members(|key, cursor| {
                if key == "user_id" {
                    self.user(cursor);
                }
            }),
            "user" | "safety_identifier" => self.user(cursor),
            _ => limit(self.row, key, cursor),
        }
    }

    fn listed(&mut self, hint: Operation, cursor: &mut Cursor<'a>) {
        self.hint.get_or_insert(hint);
        self.list(cursor);
    }

    fn list(&mut self, cursor: &mut Cursor<'a>) {
        match cursor.peek() {
            Some(b'[') => {
                self.has_list = true;
                cursor.elements(|cursor| self.element(cursor));
            }
            Some(b'{') => {
                self.has_list = true;
                self.element(cursor);
            }
            _ => {
                let redacted = cursor.string().is_some();
                self.is_redacted |= redacted;
            }
        }
    }

    /// Reads one message of the list, or a list within it, as `LangChain` writes them.
    fn element(&mut self, cursor: &mut Cursor<'a>) {
        if cursor.peek() == Some(b'[') {
            return cursor.elements(|cursor| self.one(cursor));
        }
        self.one(cursor);
    }

    fn one(&mut self, cursor: &mut Cursor<'a>) {
        self.message.clear();
        if item::read(&mut self.message, cursor) {
            let hash = self.take_message();
            self.turns.push((self.message.role, hash));
        }
        self.fired.searched |= self.message.searched;
    }

    /// Counts the message just read, looks for evidence in it, and returns its hash.
    fn take_message(&mut self) -> Hash128 {
        let message = &mut self.message;
        let counts = [message.images, message.audio, message.files];
        for (sum, count) in self.media.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
        self.is_redacted |= message.is_redacted();
        match message.role {
            Role::Tool => {
                let is_lookup = |id: &&str| {
                    let known = self.calls.iter().rev().take(MAX_OPEN_CALLS);
                    known.copied().any(|(call, is_lookup)| is_lookup && call == *id)
                };
                self.fired.tool_result |=
                    message.from_lookup || message.answers.iter().any(is_lookup);
            }
            Role::System | Role::User => {
                self.fired.context = self.fired.context || message.has_context();
            }
            Role::Assistant | Role::Other => {}
        }
        self.calls.append(&mut message.made);
        message.digest(&self.shared.hasher)
    }

    fn system(&mut self, cursor: &mut Cursor<'a>) {
        self.message.clear();
        self.message.content(cursor, 0);
        if cursor.failed() || self.message.is_empty() {
            return;
        }
        self.message.role = Role::System;
        let hash = self.take_message();
        self.system.push(hash);
    }

    fn input(&mut self, cursor: &mut Cursor<'a>) {
        match cursor.peek() {
            // A capture that puts the whole body here.
            Some(b'{') if self.depth < MAX_INPUT_DEPTH => {
                self.depth += 1;
                cursor.members(|key, cursor| self.member(key, cursor));
                self.depth -= 1;
            }
            Some(b'[') => {
                let before = self.turns.len();
                let had_list = self.has_list;
                self.list(cursor);
                // Texts or tokens to embed are no messages.
                let has_turns = self.turns.len() > before;
                self.has_list = had_list || has_turns;
                self.has_text |= !has_turns;
                if has_turns {
                    self.hint.get_or_insert(Operation::Chat);
                }
            }
            _ => self.prompt(cursor),
        }
    }

    /// Reads a prompt: a text, or a list of texts.
    fn prompt(&mut self, cursor: &mut Cursor<'a>) {
        self.message.clear();
        match cursor.peek() {
            Some(b'"') => {
                let Some(text) = cursor.string() else { return };
                self.message.push_text(text);
            }
            Some(b'[') => self.message.content(cursor, 0),
            _ => return,
        }
        if cursor.failed() {
            return;
        }
        self.has_text = true;
        self.message.role = Role::User;
        let hash = self.take_message();
        self.turns.push((Role::User, hash));
    }

    fn pictures(&mut self, cursor: &mut Cursor<'a>) {
        let [images, ..] = &mut self.media;
        cursor.elements(|cursor| {
            cursor.skip();
            *images = images.saturating_add(1);
        });
    }

    /// Reads the tools offered, of all families.
    fn tools(&mut self, cursor: &mut Cursor<'a>) {
        let mut found = self.tools.take().unwrap_or_default();
        let mut grounded = false;
        cursor.elements(|cursor| tool(cursor, &mut found, &mut grounded));
        self.fired.searched |= grounded;
        self.tools = Some(found);
    }

    fn conversation(&mut self, cursor: &mut Cursor<'a>) {
        let mut id = cursor.string();
        if id.is_none() {
            cursor.members(|key, cursor| {
                if key == "id" {
                    id = cursor.string();
                }
            });
        }
        if let Some(id) = id {
            self.session(&id.loose());
        }
    }

    fn session(&mut self, id: &Loose<'_>) {
        if self.row.session_id_hash.is_some() {
            return;
        }
        self.row.session_id_hash = self.shared.hash(Column::Session, id);
        if self.row.session_id_hash.is_some() {
            self.row.session_source = SessionSource::Explicit;
        }
    }

    /// Reads who asks; Claude Code puts its session behind the user.
    fn user(&mut self, cursor: &mut Cursor<'a>) {
        let Some(id) = cursor.string().map(Raw::text) else { return };
        let (user, session) = id.split_once(SESSION_MARK).unwrap_or((&id, ""));
        if !session.is_empty() {
            self.session(&Loose::cell(Some(session)));
        }
        let user = self.shared.hash(Column::User, &Loose::cell(Some(user)));
        self.row.user_hash = self.row.user_hash.or(user);
    }

    /// Puts what was read into the row. `is_read`: to the end; `is_uncut`: no text was cut.
    fn finish(mut self, is_read: bool, is_uncut: bool) -> Option<Box<Chain>> {
        let is_whole = is_read && is_uncut && !self.is_redacted;
        self.set_operation();
        if let Some(tools) = &self.tools {
            let count = u32::try_from(tools.len()).unwrap_or(u32::MAX);
            self.row.tool_definition_count = self.row.tool_definition_count.or(Some(count));
            if self.row.tool_class.is_empty() {
                self.row.tool_class = tools.iter().take(MAX_TOOLS).copied().collect();
            }
        }
        let is_visible = self.has_list || self.has_text;
        if is_visible && is_read {
            self.set_counts();
        }
        let label = &mut self.row.rag_label;
        if is_visible && is_whole && *label == RagLabel::Unknowable {
            *label = RagLabel::NoEvidence;
        }
        let Fired { tool_result, context, searched } = self.fired;
        for (fired, rule, label) in [
            (searched, "vector_store_meta", RagLabel::Explicit),
            (tool_result, "tool_result", RagLabel::Strong),
            (context, "context_tags", RagLabel::Heuristic),
        ] {
            if fired {
                evidence(self.row, self.shared, rule, label);
            }
        }
        let generates = self.row.is_generation();
        if !generates || !(is_visible || self.previous.is_some() || !is_whole) {
            return None;
        }
        let mut chain = Chain { previous: self.previous, ..Chain::default() };
        chain.is_incomplete = !is_whole;
        if is_whole {
            self.link(&mut chain);
        }
        Some(Box::new(chain))
    }

    fn set_operation(&mut self) {
        if self.row.operation == Operation::Unknown
            && let Some(hint) = self.hint
        {
            self.row.operation = hint;
        }
    }

    fn set_counts(&mut self) {
        let row = &mut *self.row;
        let of = |role: Role| {
            let count = self.turns.iter().filter(|(turn, _)| *turn == role).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        if self.has_list {
            let leading = u32::try_from(self.system.len()).unwrap_or(u32::MAX);
            let all = u32::try_from(self.turns.len()).unwrap_or(u32::MAX);
            row.message_count = row.message_count.or(Some(all.saturating_add(leading)));
            let system = of(Role::System).saturating_add(leading);
            row.system_count = row.system_count.or(Some(system));
            row.user_count = row.user_count.or_else(|| Some(of(Role::User)));
            row.assistant_count = row.assistant_count.or_else(|| Some(of(Role::Assistant)));
            row.tool_count = row.tool_count.or_else(|| Some(of(Role::Tool)));
        }
        let [images, audio, files] = self.media;
        row.image_count = row.image_count.or(Some(images));
        row.audio_count = row.audio_count.or(Some(audio));
        row.file_count = row.file_count.or(Some(files));
    }

    /// Rolls the hashes of the messages into those of the conversation.
    fn link(&self, chain: &mut Chain) {
        let hasher = &self.shared.hasher;
        let start = Hash128([0; 16]);
        let (mut all, mut no_system) = (start, start);
        let (mut tools, mut others) = (0_u32, 0_u32);
        let is_system = |turn: &(Role, Hash128)| turn.0 == Role::System;
        let has_system = !self.system.is_empty() || self.turns.iter().any(is_system);
        let leading = self.system.iter().map(|hash| (Role::System, *hash));
        for (role, hash) in leading.chain(self.turns.iter().copied()) {
            all = hasher.roll(all, &hash.0);
            chain.prefixes.push(all);
            if has_system && role != Role::System {
                no_system = hasher.roll(no_system, &hash.0);
                chain.prefixes_no_system.push(no_system);
            }
            match role {
                Role::User => chain.last_user = Some(hash),
                Role::Assistant => {
                    (tools, others) = (0, 0);
                    chain.exchanges.extend(chain.last_user.map(|user| hasher.roll(user, &hash.0)));
                }
                Role::Tool => tools += 1,
                Role::System | Role::Other => {}
            }
            others += u32::from(role == Role::User);
        }
        if !has_system {
            chain.prefixes_no_system.clone_from(&chain.prefixes);
        }
        chain.is_tool_turn = tools > 0 && others == 0;
    }
}

/// Reads one tool: the one of OpenAI or Anthropic, or the several that Gemini puts into one.
fn tool(cursor: &mut Cursor<'_>, found: &mut Vec<ToolClass>, grounded: &mut bool) {
    let mut name = None;
    let mut kind = None;
    let mut inner = Vec::new();
    cursor.members(|key, cursor| match key {
        "name" => name = cursor.string(),
        "type" => kind = cursor.string(),
        "function" | "toolSpec" | "custom" => cursor.members(|key, cursor| {
            if key == "name" {
                name = cursor.string();
            }
        }),
        "functionDeclarations" | "function_declarations" => cursor.elements(|cursor| {
            let mut name = None;
            cursor.members(|key, cursor| {
                if key == "name" {
                    name = cursor.string();
                }
            });
            inner.push(class_of(name));
        }),
        "googleSearch" | "googleSearchRetrieval" | "google_search" | "urlContext" => {
            inner.push(ToolClass::WebSearch);
        }
        "codeExecution" | "code_execution" => inner.push(ToolClass::Code),
        "retrieval" => {
            inner.push(ToolClass::Retrieval);
            *grounded = true;
        }
        _ => {}
    });
    if inner.is_empty() {
        found.push(class_of(name.or(kind)));
    }
    found.append(&mut inner);
}

fn class_of(name: Option<Raw<'_>>) -> ToolClass {
    name.map_or(ToolClass::Other, |name| rag::class_of(&name.text()))
}

/// Reads a limit or a setting of sampling.
fn limit(row: &mut RequestRecord, key: &str, cursor: &mut Cursor<'_>) {
    match key {
        "max_tokens"
        | "max_completion_tokens"
        | "max_output_tokens"
        | "maxOutputTokens"
        | "maxTokens"
        | "max_new_tokens"
        | "num_predict"
        | "max_tokens_to_sample"
        | "maxTokenCount"
        | "max_gen_len" => row.max_tokens = row.max_tokens.or(cursor.count()),
        "temperature" => row.temperature = row.temperature.or(cursor.loose().float()),
        "top_p" | "topP" => row.top_p = row.top_p.or(cursor.loose().float()),
        "n" | "candidateCount" | "candidate_count" => {
            row.choice_count = row.choice_count.or(cursor.count());
        }
        _ => {}
    }
}
