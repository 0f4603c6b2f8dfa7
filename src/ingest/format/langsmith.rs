//! Runs of LangSmith: the bulk export, or what its API lists.
//!
//! Only runs of type `llm` are requests: chains repeat the sums of their children, retrievers and
//! tools are spans of the trace. `session_id` is the project and never a conversation: that is
//! `thread_id`, or another name for it, in `extra.metadata`. Times have no zone and hold UTC. 0
//! tokens stand for "unknown". Messages of LangChain are put into the form of the OpenAI API to be
//! looked at. Source: LangSmith's documentation of the run format.

use super::bodies::{self, Limits};
use super::{
    At, Draft, Format, Hints, Join, Made, Naive, ObjectAdapter, Out, Refusal, Role, Shared, fill,
    parts,
};
use crate::domain::record::{Operation, RequestRecord, Status, TokenSource, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use serde_json::value::RawValue;
use std::borrow::Cow;

wire! {
    /// One run.
    Wire {
        id = "id",
        trace_id = "trace_id",
        dotted_order = "dotted_order",
        kind = "run_type",
        start = "start_time",
        end = "end_time",
        first = "first_token_time",
        status = "status",
        error = "error",
        prompt = "prompt_tokens",
        completion = "completion_tokens",
        total = "total_tokens",
        cached = "prompt_token_details.cache_read",
        reasoning = "completion_token_details.reasoning",
        cost = "total_cost",
        extra = "extra",
        inputs = "inputs",
        outputs = "outputs",
    }
}

wire! {
    /// What stands beside the run's own fields.
    Extra { metadata = "metadata", parameters = "invocation_params" }
}

wire! {
    /// What the client says of the run.
    Metadata {
        thread = "thread_id" | "session_id" | "conversation_id",
        user = "user_id",
        model = "ls_model_name",
        provider = "ls_provider",
        kind = "ls_model_type",
        temperature = "ls_temperature",
        max_tokens = "ls_max_tokens",
    }
}

wire! {
    /// The lists of a run's input and output.
    Lists { messages = "messages", prompts = "prompts", generations = "generations" }
}

wire! {
    /// A message as LangChain writes it.
    Message {
        role = "role" | "kwargs.type" | "data.type" | "type",
        content = "kwargs.content" | "data.content" | "content",
        inner = "message",
    }
}

struct Langsmith {
    wire: Picker,
    extra: Picker,
    metadata: Picker,
    limits: Picker,
    lists: Picker,
    message: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(Langsmith::new()), Vec::new()))
}

impl ObjectAdapter for Langsmith {
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let wire = Wire::read(&self.wire, text)?;
        let role = match wire.kind.text() {
            Some("llm") => None,
            Some("retriever") => Some(Role::Retrieval),
            Some("tool") => Some(Role::Tool),
            Some("chain") => {
                out.drop("parent_sum");
                return Ok(());
            }
            _ => {
                out.drop("side_span");
                return Ok(());
            }
        };
        let format = shared.name(Format::LangsmithRuns.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        if !fill_times(&wire, &mut row, shared)? {
            out.drop("no_time");
            return Ok(());
        }
        row.trace_id_hash = shared.hash(Column::Trace, &wire.trace_id);
        let mut draft = Draft::from(row);
        if let Some(role) = role {
            match draft.row.trace_id_hash {
                Some(key) => {
                    draft.join = Some(Join { key, role });
                    out.keep(draft);
                }
                None => out.drop("side_span"),
            }
            return Ok(());
        }
        fill_status(&wire, &mut draft.row, shared);
        fill_tokens(&wire, &mut draft.row)?;
        self.fill_names(&wire, &mut draft.row, shared);
        if let Some(body) = self.request_body(&wire.inputs) {
            content::fill_request(&body, &mut draft, shared);
        }
        if let Some(body) = self.answer_body(&wire.outputs) {
            content::fill_response(&body, &mut draft, shared);
        }
        out.keep(draft);
        Ok(())
    }
}

/// Fills the times; returns false when the run has no start.
fn fill_times(
    wire: &Wire<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<bool, FieldError> {
    let Some(start) = shared.time(&wire.start, "start_time", Naive::Utc)? else {
        return Ok(false);
    };
    fill::arrival(row, start);
    if let Some(end) = shared.time(&wire.end, "end_time", Naive::Utc)? {
        fill::end(row, end);
    }
    if let Some(first) = shared.time(&wire.first, "first_token_time", Naive::Utc)? {
        fill::ttft(row, Some(first.at.micros_since(start.at)), TtftSource::Derived);
    }
    Ok(true)
}

fn fill_status(wire: &Wire<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    let message = wire.error.text();
    row.status = match (wire.status.text(), message) {
        (_, Some(message)) => bodies::status_of_message(message),
        (Some("error"), None) => Status::Error,
        (Some("interrupted"), None) => Status::Cancelled,
        (Some("success"), None) => Status::Ok,
        // A run that is still going on, or of an older export.
        (_, None) => Status::Unknown,
    };
    if let Some(message) = message {
        bodies::fill_class_of_message(row, message, shared);
    }
}

fn fill_tokens(wire: &Wire<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
    let counts = (
        wire.prompt.count("prompt_tokens")?,
        wire.completion.count("completion_tokens")?,
        wire.total.count("total_tokens")?,
    );
    fill::tokens(row, counts, TokenSource::Logged, fill::Zeros::Unknown);
    row.cache_read_input_tokens = parts::count(&wire.cached);
    row.reasoning_output_tokens = parts::count(&wire.reasoning);
    row.drop_impossible_parts();
    Ok(())
}

/// Returns the id of a run's parent: the last but one part of `dotted_order`, after its time.
fn parent_of(dotted_order: &str) -> Option<&str> {
    let (above, _) = dotted_order.rsplit_once('.')?;
    let parent = above.rsplit_once('.').map_or(above, |(_, parent)| parent);
    parent.split_once('Z').map(|(_, id)| id)
}

impl Langsmith {
    fn new() -> Self {
        Self {
            wire: Wire::picker(),
            extra: Extra::picker(),
            metadata: Metadata::picker(),
            limits: Limits::picker(),
            lists: Lists::picker(),
            message: Message::picker(),
        }
    }

    fn fill_names(&self, wire: &Wire<'_>, row: &mut RequestRecord, shared: &mut Shared) {
        let extra_text = wire.extra.json().unwrap_or_default();
        let extra = Extra::read(&self.extra, &extra_text).unwrap_or_default();
        let text = extra.metadata.json().unwrap_or_default();
        let metadata = Metadata::read(&self.metadata, &text).unwrap_or_default();
        row.operation = match metadata.kind.text() {
            Some("llm") => Operation::TextCompletion,
            _ => Operation::Chat,
        };
        row.request_model = shared.model(&metadata.model);
        row.provider_name = shared.word(&metadata.provider);
        row.temperature = metadata.temperature.float();
        row.max_tokens = parts::count(&metadata.max_tokens).filter(|limit| *limit > 0);
        if let Some(parameters) = extra.parameters.json() {
            let limits = Limits::read(&self.limits, &parameters).unwrap_or_default();
            bodies::fill_limits(row, &limits);
        }
        if row.time_to_first_chunk_us.is_some() {
            row.stream = row.stream.or(Some(true));
        }
        row.request_id_hash = shared.hash(Column::Request, &wire.id);
        row.span_id_hash = row.request_id_hash;
        row.parent_span_id_hash = wire
            .dotted_order
            .text()
            .and_then(parent_of)
            .and_then(|parent| shared.hasher.hash(Column::Request, parent));
        row.user_hash = shared.hash(Column::User, &metadata.user);
        parts::session(row, shared.hash(Column::Session, &metadata.thread));
        bodies::fill_dollars(row, &wire.cost, shared);
    }

    /// Makes a request's body of a run's input.
    fn request_body(&self, inputs: &Loose<'_>) -> Option<String> {
        let text = inputs.json()?;
        let lists = Lists::read(&self.lists, &text).ok()?;
        if let Some(messages) = lists.messages.json() {
            let messages: Vec<String> =
                flat(&messages).iter().filter_map(|message| self.message(message)).collect();
            return Some(format!("{{\"messages\":[{}]}}", messages.join(",")));
        }
        let prompts = lists.prompts.json()?;
        flat(&prompts).first().map(|prompt| bodies::object("prompt", prompt, None))
    }

    /// Makes an answer's body of a run's output.
    fn answer_body(&self, outputs: &Loose<'_>) -> Option<String> {
        let text = outputs.json()?;
        let lists = Lists::read(&self.lists, &text).ok()?;
        let Some(generations) = lists.generations.json() else {
            // Other clients log the answer of the API as it is.
            return Some(text.into_owned()).filter(|text| text.trim() != "{}");
        };
        let choices: Vec<String> = flat(&generations)
            .iter()
            .filter_map(|generation| self.message(generation))
            .map(|message| bodies::object("message", &message, None))
            .collect();
        Some(format!("{{\"choices\":[{}]}}", choices.join(",")))
    }

    /// Writes a message of LangChain as one of the OpenAI API.
    fn message(&self, text: &str) -> Option<String> {
        let found = Message::read(&self.message, text).ok()?;
        if let Loose::Json(inner) = found.inner {
            return self.message(inner);
        }
        let role = match found.role.text()? {
            "human" | "user" | "HumanMessage" => "user",
            "ai" | "assistant" | "AIMessage" | "AIMessageChunk" => "assistant",
            "system" | "developer" | "SystemMessage" => "system",
            "tool" | "function" | "ToolMessage" => "tool",
            _ => return None,
        };
        let content = match &found.content {
            Loose::Json(raw) => Cow::Borrowed(*raw),
            Loose::Text(text) => Cow::Owned(serde_json::to_string(text).ok()?),
            _ => Cow::Borrowed("null"),
        };
        Some(format!("{{\"role\":\"{role}\",\"content\":{content}}}"))
    }
}

/// Returns the elements of an array, and of the arrays in it.
fn flat(array: &str) -> Vec<&str> {
    let elements = |text| serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default();
    let mut found = Vec::new();
    for element in elements(array).into_iter().map(RawValue::get) {
        if element.starts_with('[') {
            found.extend(elements(element).into_iter().map(RawValue::get));
        } else {
            found.push(element);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{Format, trial};
    use super::*;
    use crate::domain::record::SessionSource;

    const FORMAT: Format = Format::LangsmithRuns;
    const CALL: &str = r#"{"id":"r-1","name":"canary","run_type":"llm","inputs":{"messages":[[{"kwargs":{"content":"canary","type":"human"}}]]},"outputs":{},"start_time":"2026-11-24T09:15:02.123000","end_time":"2026-11-24T09:15:05.623000","extra":{"metadata":{"thread_id":"s-1","ls_model_name":"gpt-4o-mini","ls_provider":"openai"},"invocation_params":{"max_tokens":64}},"error":null,"trace_id":"t-1","dotted_order":"20261124T091501800000Zt-1.20261124T091502123000Zr-1","status":"success","session_id":"project","prompt_tokens":1320,"completion_tokens":160,"total_tokens":1480,"prompt_token_details":{"cache_read":1024},"first_token_time":"2026-11-24T09:15:02.541000"}"#;

    #[test]
    fn the_common_call() {
        let row = trial::row(FORMAT, CALL);
        assert_eq!(trial::facts(&row), trial::CALL);
        assert_eq!((row.status, row.zone_assumed), (Status::Ok, true));
        assert_eq!((row.max_tokens, row.stream), (Some(64), Some(true)));
        assert_eq!(row.request_model.as_deref(), Some("gpt-4o-mini"));
        assert!(row.parent_span_id_hash.is_some());
    }

    #[test]
    fn the_project_is_no_conversation() {
        let shared = trial::shared();
        let row = trial::row(FORMAT, CALL);
        assert_eq!(row.session_id_hash, shared.hasher.hash(Column::Session, "s-1"));
        let row = trial::row(FORMAT, &CALL.replace("\"thread_id\":\"s-1\",", ""));
        assert_eq!((row.session_id_hash, row.session_source), (None, SessionSource::None));
    }

    #[test]
    fn extra_may_be_a_text() {
        let extra = r#"{\"metadata\":{\"thread_id\":\"s-1\"}}"#;
        let text = CALL.replace("\"extra\":{", &format!("\"extra\":\"{extra}\",\"x\":{{"));
        assert_eq!(
            trial::row(FORMAT, &text).session_id_hash,
            trial::row(FORMAT, CALL).session_id_hash
        );
    }

    #[test]
    fn other_runs_are_no_requests() {
        let of = |kind: &str| CALL.replace("\"llm\"", &format!("\"{kind}\""));
        assert_eq!(trial::dropped(FORMAT, &of("chain")), "parent_sum");
        assert_eq!(trial::dropped(FORMAT, &of("parser")), "side_span");
        let (call, search) = (trial::draft(FORMAT, CALL), trial::draft(FORMAT, &of("retriever")));
        let join = search.join.unwrap();
        assert_eq!((join.role, Some(join.key)), (Role::Retrieval, call.row.trace_id_hash));
        assert_eq!(trial::draft(FORMAT, &of("tool")).join.unwrap().role, Role::Tool);
    }

    #[test]
    fn errors_give_a_status_and_never_their_text() {
        let failed = |error: &str| {
            let text = CALL.replace("\"error\":null", &format!("\"error\":\"{error}\""));
            let row = trial::row(FORMAT, &text.replace("\"success\"", "\"error\""));
            (row.status, row.error_type.map(|class| class.to_string()))
        };
        assert_eq!(failed("canary timeout"), (Status::Timeout, None));
        let class = Some("RateLimitError".to_owned());
        assert_eq!(failed("RateLimitError('canary')"), (Status::RateLimited, class));
        assert_eq!(failed("canary"), (Status::Error, None));
    }

    #[test]
    fn messages_of_langchain_become_bodies() {
        let adapter = Langsmith::new();
        let body = |text: &'static str| adapter.request_body(&Loose::Json(text)).unwrap();
        insta::assert_snapshot!(
            body(r#"{"messages":[[{"kwargs":{"content":"a","type":"system"}},{"role":"user","content":[{"type":"text"}]}]]}"#),
            @r#"{"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text"}]}]}"#
        );
        insta::assert_snapshot!(body(r#"{"prompts":["a"]}"#), @r#"{"prompt":"a"}"#);
        let answer =
            r#"{"generations":[[{"text":"b","message":{"kwargs":{"content":"b","type":"ai"}}}]]}"#;
        insta::assert_snapshot!(
            adapter.answer_body(&Loose::Json(answer)).unwrap(),
            @r#"{"choices":[{"message":{"role":"assistant","content":"b"}}]}"#
        );
        assert_eq!(adapter.answer_body(&Loose::Json("{}")), None);
    }
}
