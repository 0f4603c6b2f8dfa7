//! Pieces of JSON that both OpenAI-style APIs share, read without copying the text.

use super::Usage as Counts;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// Stands for the words of an error that has none.
pub(super) const NO_MESSAGE: &str = "an error without a message";

/// The length of a JSON string in bytes, escapes decoded; `null` is 0. The text is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextBytes(pub(super) u64);

impl<'de> Deserialize<'de> for TextBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Length;
        impl Visitor<'_> for Length {
            type Value = TextBytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or null")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<TextBytes, E> {
                Ok(TextBytes(crate::domain::convert::count(text.len())))
            }
            fn visit_unit<E: Error>(self) -> Result<TextBytes, E> {
                Ok(TextBytes(0))
            }
        }
        deserializer.deserialize_any(Length)
    }
}

/// A `usage` object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
    prompt_tokens_details: Option<InputDetails>,
    completion_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u32>,
}

impl Usage {
    /// Returns the counts under the program's own words.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            input: self.prompt_tokens,
            cached_input: self.prompt_tokens_details.as_ref().and_then(|d| d.cached_tokens),
            output: self.completion_tokens,
            reasoning: self.completion_tokens_details.as_ref().and_then(|d| d.reasoning_tokens),
        }
    }
}

/// Returns the server's own words in an error answer: `error.message`, `error`, `message`, or the
/// `msg` fields of a `detail` list; `None` when there are none. Other fields may repeat the prompt
/// and are left out.
pub(in crate::replay) fn error_message(json: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    let error = value.get("error").filter(|error| !error.is_null());
    if let Some(error) = error {
        let words = error.get("message").or(Some(error)).and_then(|words| words.as_str());
        let kind = error.get("type").and_then(|kind| kind.as_str());
        return Some(words.or(kind).unwrap_or(NO_MESSAGE).to_owned());
    }
    let plain = value.get("message").or_else(|| value.get("detail"));
    if let Some(list) = plain.and_then(|detail| detail.as_array()) {
        let words: Vec<&str> = list.iter().filter_map(|item| item.get("msg")?.as_str()).collect();
        return Some(words.join("; "));
    }
    plain.and_then(|words| words.as_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_measured_decoded() {
        let bytes = |json| serde_json::from_str::<TextBytes>(json).ok().map(|text| text.0);
        assert_eq!(bytes("null"), Some(0));
        assert_eq!(bytes(r#""""#), Some(0));
        assert_eq!(bytes(r#""a\n\u4e2d""#), Some(5));
        assert_eq!(bytes(r#"["a"]"#), None);
    }

    #[test]
    fn messages_of_errors_without_echoed_input() {
        for (json, words) in [
            (r#"{"error":{"message":"too long","type":"x"}}"#, Some("too long")),
            (r#"{"error":{"type":"overloaded"}}"#, Some("overloaded")),
            (r#"{"error":{"code":1}}"#, Some("an error without a message")),
            (r#"{"error":"busy"}"#, Some("busy")),
            (r#"{"object":"error","message":"no such model"}"#, Some("no such model")),
            (r#"{"detail":"Not Found"}"#, Some("Not Found")),
            (r#"{"detail":[{"msg":"bad field","input":"the prompt"}]}"#, Some("bad field")),
            (r#"{"error":null,"choices":[]}"#, None),
            ("<html>", None),
        ] {
            assert_eq!(error_message(json.as_bytes()).as_deref(), words, "{json}");
        }
    }
}
