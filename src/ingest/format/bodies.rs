//! Helpers of logs that hold whole bodies, or parts of them, beside their own columns.
//!
//! Body text -> token counts, and bodies put together from parts so that `content` reads them;
//! addresses -> paths; messages of errors -> a status, never their text. Counts are tokens. Bodies
//! of the OpenAI and Anthropic APIs, after their published references.

use super::parts::{count, flag, path_of};
use super::{Shared, fill};
use crate::domain::record::{Flag, RequestRecord, Status, TokenSource};
use crate::ingest::content;
use crate::ingest::loose::Loose;
use crate::ingest::pick::{Picker, wire};
use std::borrow::Cow;

wire! {
    /// What the body of an answer says of itself.
    Answer {
        prompt = "usage.prompt_tokens",
        input = "usage.input_tokens",
        output = "usage.completion_tokens" | "usage.output_tokens",
        total = "usage.total_tokens",
        cached = "usage.prompt_tokens_details.cached_tokens" | "usage.input_tokens_details.cached_tokens",
        cache_read = "usage.cache_read_input_tokens",
        cache_write = "usage.cache_creation_input_tokens",
        reasoning = "usage.completion_tokens_details.reasoning_tokens" | "usage.output_tokens_details.reasoning_tokens",
        object = "object",
        model = "model",
        error_type = "error.type",
        error_code = "error.code",
    }
}

wire! {
    /// Limits that a request sets.
    Limits {
        stream = "stream",
        temperature = "temperature",
        top_p = "top_p",
        max_tokens = "max_completion_tokens" | "max_tokens" | "max_output_tokens",
        choices = "n",
    }
}

wire! {
    /// What tells the shape of an answer.
    Shape { role = "role", choices = "choices", kind = "type" }
}

wire! {
    /// A body inside an envelope.
    Envelope { body = "body" }
}

/// Token counts of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Input, cached tokens included.
    pub(super) input: Option<u32>,
    /// Input as written.
    pub(super) bare: Option<u32>,
    /// Output.
    pub(super) output: Option<u32>,
    /// The total as written.
    pub(super) total: Option<u32>,
    /// Input read from the cache.
    pub(super) cached: Option<u32>,
    /// Input written to the cache.
    pub(super) cache_write: Option<u32>,
    /// Reasoning.
    pub(super) reasoning: Option<u32>,
}

impl Answer<'_> {
    /// Returns the counts; Anthropic's form counts cached tokens apart, they are added, unless the
    /// total shows that the input has them.
    pub(super) fn counts(&self) -> Counts {
        let prompt = count(&self.prompt);
        let bare = prompt.or_else(|| count(&self.input));
        let details = count(&self.cached);
        let (read, write) = (count(&self.cache_read), count(&self.cache_write));
        let (output, total) = (count(&self.output), count(&self.total));
        let apart = match (prompt, details, bare) {
            (None, None, Some(bare)) => content::cached_apart(bare, (output, total), (read, write)),
            _ => 0,
        };
        Counts {
            input: bare.map(|bare| sum(bare, apart)),
            bare,
            output,
            total,
            cached: details.or(read),
            cache_write: write,
            reasoning: count(&self.reasoning),
        }
    }
}

/// Adds counts, up to what the trace's columns hold.
pub(super) fn sum(one: u32, other: u32) -> u32 {
    one.saturating_add(other).min(i32::MAX.unsigned_abs())
}

/// Reads the counts of an answer's body.
pub(super) fn counts_of(picker: &Picker, body: &str) -> Counts {
    Answer::read(picker, body).map(|answer| answer.counts()).unwrap_or_default()
}

/// Fills counts that a row lacks from a body; where the row's input is the body's without the
/// cached tokens, these are added.
pub(super) fn fill_counts(row: &mut RequestRecord, counts: &Counts) {
    let mut added = false;
    let has_counts = counts.input.max(counts.output).is_some_and(|most| most > 0);
    if has_counts && row.input_tokens.is_none() && row.output_tokens.is_none() {
        let three = (counts.input, counts.output, counts.total);
        fill::tokens(row, three, TokenSource::Provider, fill::Zeros::Unknown);
        added = counts.input != counts.bare;
    } else if counts.input != counts.bare && row.input_tokens == counts.bare {
        row.input_tokens = counts.input;
        added = true;
    }
    if added {
        flag(row, Flag::AnthropicCachedAdded);
    }
    // Some logs write 0 where they did not look.
    let better = |own: Option<u32>, of_body: Option<u32>| match own {
        None | Some(0) => of_body.or(own),
        own => own,
    };
    row.cache_read_input_tokens = better(row.cache_read_input_tokens, counts.cached);
    row.cache_write_input_tokens = better(row.cache_write_input_tokens, counts.cache_write);
    row.reasoning_output_tokens = better(row.reasoning_output_tokens, counts.reasoning);
    row.drop_impossible_parts();
}

/// Fills the limits of a request where the row has none.
pub(super) fn fill_limits(row: &mut RequestRecord, limits: &Limits<'_>) {
    row.stream = row.stream.or(limits.stream.truth());
    row.temperature = row.temperature.or(limits.temperature.float());
    row.top_p = row.top_p.or(limits.top_p.float());
    row.max_tokens = row.max_tokens.or(count(&limits.max_tokens).filter(|limit| *limit > 0));
    row.choice_count = row.choice_count.or(count(&limits.choices));
}

/// Makes a request's body of what a log shows as its input: a body as it is, messages or a text
/// with the parameters beside them.
pub(super) fn request_of<'a>(input: &Loose<'a>, parameters: Option<&str>) -> Option<Cow<'a, str>> {
    match input.json() {
        Some(json) if json.trim_start().starts_with('{') => Some(json),
        Some(json) => Some(Cow::Owned(object("messages", &json, parameters))),
        None => {
            let text = serde_json::to_string(input.text()?).ok()?;
            Some(Cow::Owned(object("prompt", &text, parameters)))
        }
    }
}

/// Makes a JSON object of one member and the members of another object.
pub(super) fn object(key: &str, value: &str, more: Option<&str>) -> String {
    let more = more.and_then(|more| more.trim().strip_prefix('{')?.strip_suffix('}'));
    match more.map(str::trim).filter(|more| !more.is_empty()) {
        Some(more) => format!("{{\"{key}\":{value},{more}}}"),
        None => format!("{{\"{key}\":{value}}}"),
    }
}

/// Makes an answer's body of what a log shows as its output: a body as it is, a message or a text
/// as the one choice.
pub(super) fn answer_of<'a>(output: &Loose<'a>, shape: &Picker) -> Option<Cow<'a, str>> {
    let choice = |message: &str| Cow::Owned(format!("{{\"choices\":[{{\"message\":{message}}}]}}"));
    let Some(json) = output.json() else {
        let text = serde_json::to_string(output.text()?).ok()?;
        return Some(choice(&format!("{{\"role\":\"assistant\",\"content\":{text}}}")));
    };
    let found = Shape::read(shape, &json).ok()?;
    let is_message = found.role.text().is_some()
        && found.choices.is_nothing()
        && found.kind.text() != Some("message");
    Some(if is_message { choice(&json) } else { json })
}

/// Returns a body, taken out of an envelope with the member `body`; `None` for an empty one.
pub(super) fn unwrapped<'a>(value: &Loose<'a>, envelope: &Picker) -> Option<Cow<'a, str>> {
    let outer = value.json()?;
    let inner = Envelope::read(envelope, &outer)
        .ok()
        .and_then(|found| found.body.json().map(Cow::into_owned));
    let body = inner.map_or(outer, Cow::Owned);
    (value_count(&body) > 0).then_some(body)
}

fn value_count(body: &str) -> u32 {
    Loose::of_json(body.trim()).elements().unwrap_or(0)
}

/// Fills operation and endpoint from an address; returns a reason to leave the row out.
pub(super) fn fill_address(
    row: &mut RequestRecord,
    method: &str,
    address: &str,
    shared: &mut Shared,
) -> Option<&'static str> {
    let path = path_of(address);
    if fill::is_probe(method, path, "") {
        return Some("probe");
    }
    if ["/images", "/audio", "/video", "/moderations", "/files", "/mj/", "/suno/"]
        .into_iter()
        .any(|part| path.contains(part))
    {
        return Some("not_llm");
    }
    if let Some(operation) = fill::operation_of(path) {
        row.operation = operation;
    }
    row.endpoint_family = shared.endpoint(&Loose::Text(Cow::Borrowed(path)));
    None
}

/// Returns the status that the message of an error tells of; the message itself is not kept.
pub(super) fn status_of_message(message: &str) -> Status {
    let lower = message.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    if has(&["ratelimit", "rate limit", "rate_limit", "too many requests", "429"]) {
        Status::RateLimited
    } else if has(&["timeout", "timed out", "deadline exceeded"]) {
        Status::Timeout
    } else if has(&["cancelled", "canceled", "cancellederror", "keyboardinterrupt", "aborted"]) {
        Status::Cancelled
    } else {
        Status::Error
    }
}

/// Fills the class of an error from a message that begins with it, as in `RateLimitError(...)`.
pub(super) fn fill_class_of_message(row: &mut RequestRecord, message: &str, shared: &mut Shared) {
    let class = message.split(['(', ':', ' ', '\n']).next().unwrap_or_default();
    fill_error(row, &[Loose::Text(Cow::Borrowed(class))], shared);
}

/// Fills the class of an error with the first value that is one.
pub(super) fn fill_error(row: &mut RequestRecord, values: &[Loose<'_>], shared: &mut Shared) {
    let is_class = |value: &&Loose<'_>| value.text().and_then(super::names::error_class).is_some();
    if let Some(class) = values.iter().find(is_class) {
        row.error_type = shared.error_type(class);
    }
}

/// Fills a cost in US dollars.
pub(super) fn fill_dollars(row: &mut RequestRecord, cost: &Loose<'_>, shared: &mut Shared) {
    row.cost = cost.float().filter(|cost| *cost >= 0.0);
    row.cost_currency = row.cost.map(|_| shared.name("USD"));
}

#[cfg(test)]
mod tests {
    use super::super::trial::shared;
    use super::*;
    use crate::domain::record::Operation;

    fn counts(body: &str) -> Counts {
        counts_of(&Answer::picker(), body)
    }

    fn record() -> RequestRecord {
        RequestRecord::unknown("test".into(), 0, 1)
    }

    #[test]
    fn cached_tokens_are_added_only_where_the_body_counts_them_apart() {
        let openai = counts(
            r#"{"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}"#,
        );
        assert_eq!((openai.input, openai.bare, openai.cached), (Some(9), Some(9), Some(4)));
        let responses = counts(
            r#"{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":2}}"#,
        );
        assert_eq!((responses.input, responses.output), (Some(9), Some(2)));
        let anthropic = counts(
            r#"{"usage":{"input_tokens":3,"cache_read_input_tokens":4,"cache_creation_input_tokens":2,"output_tokens":1}}"#,
        );
        assert_eq!(
            (anthropic.input, anthropic.bare, anthropic.cached),
            (Some(9), Some(3), Some(4))
        );
        // The total shows that the input has them, as it does where `content` reads the object.
        let whole = counts(
            r#"{"usage":{"input_tokens":1000,"cache_read_input_tokens":900,"output_tokens":10,"total_tokens":1010}}"#,
        );
        assert_eq!((whole.input, whole.bare, whole.cached), (Some(1000), Some(1000), Some(900)));
        let apart = counts(
            r#"{"usage":{"input_tokens":100,"cache_read_input_tokens":900,"output_tokens":10,"total_tokens":1010}}"#,
        );
        assert_eq!((apart.input, apart.total), (Some(1000), Some(1010)));
        assert_eq!(counts("[]"), Counts::default());
        assert_eq!(counts(r#"{"usage":null}"#), Counts::default());

        let mut row = record();
        fill_counts(&mut row, &anthropic);
        assert_eq!((row.input_tokens, row.output_tokens), (Some(9), Some(1)));
        assert_eq!(row.flags, [Flag::AnthropicCachedAdded]);
        let mut row = record();
        row.input_tokens = Some(3);
        fill_counts(&mut row, &anthropic);
        assert_eq!((row.input_tokens, row.flags.len()), (Some(9), 1));
        for own in [8, 9] {
            let mut row = record();
            row.input_tokens = Some(own);
            fill_counts(&mut row, &anthropic);
            assert_eq!((row.input_tokens, row.flags.len()), (Some(own), 0));
        }
        let mut row = record();
        fill_counts(&mut row, &counts(r#"{"usage":{"prompt_tokens":0,"completion_tokens":0}}"#));
        assert_eq!((row.input_tokens, row.flags.len()), (None, 0), "the row's own 0 is flagged");
    }

    #[test]
    fn bodies_are_put_together() {
        let text = |text: &'static str| Loose::Text(Cow::Borrowed(text));
        let request = |input: &Loose<'_>, more| request_of(input, more).map(Cow::into_owned);
        assert_eq!(request(&Loose::Json("{\"a\":1}"), None).as_deref(), Some("{\"a\":1}"));
        assert_eq!(
            request(&Loose::Json("[1]"), Some("{\"n\":2}")).as_deref(),
            Some("{\"messages\":[1],\"n\":2}")
        );
        assert_eq!(request(&text("a\"b"), Some("{}")).as_deref(), Some("{\"prompt\":\"a\\\"b\"}"));
        assert_eq!(request(&Loose::Null, None), None);
        let answer = |output: &Loose<'_>| answer_of(output, &Shape::picker()).map(Cow::into_owned);
        assert_eq!(
            answer(&text("x")).as_deref(),
            Some("{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"x\"}}]}")
        );
        assert_eq!(
            answer(&Loose::Json("{\"role\":\"a\"}")).as_deref(),
            Some("{\"choices\":[{\"message\":{\"role\":\"a\"}}]}")
        );
        let whole = "{\"role\":\"assistant\",\"type\":\"message\"}";
        assert_eq!(answer(&Loose::Json(whole)).as_deref(), Some(whole));
        let inner = |value: &Loose<'_>| unwrapped(value, &Envelope::picker()).map(Cow::into_owned);
        assert_eq!(inner(&Loose::Json("{\"body\":{\"a\":1}}")).as_deref(), Some("{\"a\":1}"));
        assert_eq!(inner(&Loose::Json("{\"a\":1}")).as_deref(), Some("{\"a\":1}"));
        assert_eq!(inner(&text("{\"body\":\"{\\\"a\\\":1}\"}")).as_deref(), Some("{\"a\":1}"));
        assert_eq!(inner(&Loose::Json("{}")), None);
        assert_eq!(inner(&Loose::Json("{\"body\":{}}")), None);
    }

    #[test]
    fn addresses_tell_the_operation_and_never_stay() {
        let mut row = record();
        let address = "https://canary.test/v1/embeddings?key=canary";
        assert_eq!(fill_address(&mut row, "POST", address, &mut shared()), None);
        assert_eq!(row.operation, Operation::Embeddings);
        assert_eq!(row.endpoint_family.as_deref(), Some("/v1/embeddings"));
        let mut reason = |method, address| fill_address(&mut row, method, address, &mut shared());
        assert_eq!(reason("GET", "https://host/v1/models"), Some("probe"));
        assert_eq!(reason("POST", "/v1/images/generations"), Some("not_llm"));
        assert_eq!(reason("POST", "https://host"), None);
        assert_eq!(row.endpoint_family, None);
    }

    #[test]
    fn messages_of_errors_give_a_status_and_no_text() {
        assert_eq!(status_of_message("RateLimitError('canary')"), Status::RateLimited);
        assert_eq!(status_of_message("request timed out"), Status::Timeout);
        assert_eq!(status_of_message("Canceled by user"), Status::Cancelled);
        assert_eq!(status_of_message("canary"), Status::Error);
        let (mut row, mut shared) = (record(), shared());
        fill_class_of_message(&mut row, "canary said no", &mut shared);
        assert_eq!(row.error_type, None);
        fill_class_of_message(&mut row, "openai.BadRequestError: canary", &mut shared);
        assert_eq!(row.error_type.as_deref(), Some("BadRequestError"));
    }
}
