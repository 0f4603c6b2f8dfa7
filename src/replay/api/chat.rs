//! Chat completions: one user message out, `choices[].delta` in.

use super::Chunk;
use super::wire::{NO_MESSAGE, Part, TextBytes, error_message, finish_reason, usage};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

/// Returns the body's key for the prompt and its value.
pub(super) const fn prompt(text: &str) -> (&'static str, [Message<'_>; 1]) {
    ("messages", [Message { role: "user", content: text }])
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    object: Option<String>,
    choices: Option<Vec<Choice>>,
    #[serde(borrow)]
    usage: Part<'a>,
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: TextBytes,
    refusal: TextBytes,
    reasoning_content: TextBytes,
    reasoning: TextBytes,
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToolCall {
    function: Option<Function>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function {
    name: TextBytes,
    arguments: TextBytes,
}

/// Reads the data of one event; see [`super::Api::read`].
pub(super) fn read(data: &[u8]) -> Result<Chunk, usize> {
    let event: Event<'_> = serde_json::from_slice(data).map_err(|error| error.column())?;
    let mut chunk = Chunk { usage: usage(event.usage), ..Chunk::default() };
    if event.error.is_some() || event.object.as_deref() == Some("error") {
        chunk.error = Some(error_message(data).unwrap_or_else(|| NO_MESSAGE.to_owned()));
    }
    for choice in event.choices.unwrap_or_default() {
        chunk.finish_reason = finish_reason(choice.finish_reason).or(chunk.finish_reason);
        let Some(delta) = choice.delta else { continue };
        chunk.content_bytes += delta.content.0 + delta.refusal.0;
        // Some servers send the same text under both names; it counts once.
        chunk.reasoning_bytes += delta.reasoning_content.0.max(delta.reasoning.0);
        for function in delta.tool_calls.into_iter().flatten().filter_map(|call| call.function) {
            chunk.tool_bytes += function.name.0 + function.arguments.0;
        }
    }
    Ok(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::api::Usage as Counts;

    fn text(json: &str) -> (u64, u64, u64) {
        let chunk = read(json.as_bytes()).expect(json);
        (chunk.content_bytes, chunk.reasoning_bytes, chunk.tool_bytes)
    }

    #[test]
    fn only_generated_text_counts() {
        for (delta, bytes) in [
            (r#"{"role":"assistant"}"#, (0, 0, 0)),
            (r#"{"role":"assistant","content":null}"#, (0, 0, 0)),
            (r#"{"role":"assistant","content":""}"#, (0, 0, 0)),
            (r#"{"content":"hi"}"#, (2, 0, 0)),
            (r#"{"content":"","reasoning_content":"hm"}"#, (0, 2, 0)),
            (r#"{"reasoning":"hm","reasoning_content":"hm"}"#, (0, 2, 0)),
            (r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}"#, (0, 0, 1)),
            (r#"{"tool_calls":[]}"#, (0, 0, 0)),
            (r#"{"tool_calls":null}"#, (0, 0, 0)),
            ("{}", (0, 0, 0)),
            ("null", (0, 0, 0)),
        ] {
            let json = format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
            assert_eq!(text(&json), bytes, "{delta}");
        }
        for json in [r#"{"choices":[]}"#, r#"{"choices":null}"#, "{}", r#"{"usage":null}"#] {
            assert_eq!(text(json), (0, 0, 0), "{json}");
        }
    }

    #[test]
    fn usage_with_and_without_choices() {
        let json = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,
            "prompt_tokens_details":{"cached_tokens":8},
            "completion_tokens_details":{"reasoning_tokens":3}},"timings":{"x":1.5}}"#;
        let counts =
            Counts { input: Some(9), cached_input: Some(8), output: Some(4), reasoning: Some(3) };
        assert_eq!(read(json.as_bytes()).unwrap().usage, Some(counts));
        let json = r#"{"choices":[{"delta":{}}],"usage":{"completion_tokens":4,
            "prompt_tokens_details":null}}"#;
        let counts = Counts { output: Some(4), ..Counts::default() };
        assert_eq!(read(json.as_bytes()).unwrap().usage, Some(counts));
    }

    #[test]
    fn an_empty_finish_reason_is_none() {
        let reason = |json: &str| read(json.as_bytes()).unwrap().finish_reason;
        assert_eq!(reason(r#"{"choices":[{"delta":{},"finish_reason":""}]}"#), None);
        let two = r#"{"choices":[{"finish_reason":"stop"},{"finish_reason":""}]}"#;
        assert_eq!(reason(two).as_deref(), Some("stop"));
    }

    #[test]
    fn errors_and_ends() {
        let chunk = read(br#"{"error":{"message":"out of memory","code":500}}"#).unwrap();
        assert_eq!(chunk.error.as_deref(), Some("out of memory"));
        let chunk = read(br#"{"object":"error","message":"gone"}"#).unwrap();
        assert_eq!(chunk.error.as_deref(), Some("gone"));
        assert_eq!(read(br#"{"error":null,"choices":[]}"#).unwrap().error, None);
        let chunk = read(br#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#);
        assert_eq!(chunk.unwrap().finish_reason.as_deref(), Some("stop"));
        assert_eq!(read(br#"{"choices":[{"delta":{"content":["x"]}}]}"#), Err(33));
        assert!(read(b"hello").is_err());
    }
}
