//! Pieces of JSON that both OpenAI-style APIs share, read without copying the text.

use super::Usage as Counts;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::value::RawValue;
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

/// Longest finish reason that is kept, in bytes.
const MAX_REASON_BYTES: usize = 64;

/// Returns a finish reason fit for a result. It is a foreign text: one that is no plain word is
/// `other`, and an empty one is none, so that a stream that breaks off after it is not complete.
pub(super) fn finish_reason(word: Option<String>) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    word.filter(|word| !word.is_empty()).map(|word| {
        let known = word.len() <= MAX_REASON_BYTES && word.bytes().all(plain);
        if known { word } else { "other".to_owned() }
    })
}

/// A part of an event whose form is not trusted.
pub(super) type Part<'a> = Option<&'a RawValue>;

/// A `usage` object, not trusted: a count may be anything.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Usage<'a> {
    #[serde(borrow)]
    prompt_tokens: Part<'a>,
    #[serde(borrow)]
    completion_tokens: Part<'a>,
    #[serde(borrow)]
    prompt_tokens_details: Part<'a>,
    #[serde(borrow)]
    completion_tokens_details: Part<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details<'a> {
    #[serde(borrow)]
    cached_tokens: Part<'a>,
    #[serde(borrow)]
    reasoning_tokens: Part<'a>,
}

/// Returns the counts of a `usage` object under the program's own words; `None` when it has none.
///
/// A count that is negative, no whole number, a text or beyond 32 bits is not known.
pub(super) fn usage(part: Part<'_>) -> Option<Counts> {
    let count = |part: Part<'_>| part?.get().parse::<u32>().ok();
    let details = |part: Part<'_>| {
        let found: Option<Details<'_>> =
            part.and_then(|part| serde_json::from_str(part.get()).ok());
        found.map_or((None, None), |d| (count(d.cached_tokens), count(d.reasoning_tokens)))
    };
    let usage: Usage<'_> = serde_json::from_str(part?.get()).ok()?;
    let counts = Counts {
        input: count(usage.prompt_tokens),
        cached_input: details(usage.prompt_tokens_details).0,
        output: count(usage.completion_tokens),
        reasoning: details(usage.completion_tokens_details).1,
    };
    (counts != Counts::default()).then_some(counts)
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
    fn counts_that_are_none() {
        fn counts(json: &str) -> Option<Counts> {
            usage(Some(serde_json::from_str(json).expect(json)))
        }
        for count in ["-1", "4294967296", "1e400", "99999999999999999999999", "1.5", r#""7""#, "{}"]
        {
            let json = format!(r#"{{"prompt_tokens":{count},"completion_tokens":4}}"#);
            let known = Counts { output: Some(4), ..Counts::default() };
            assert_eq!(counts(&json), Some(known), "{count}");
            let json = format!(r#"{{"prompt_tokens_details":{{"cached_tokens":{count}}}}}"#);
            assert_eq!(counts(&json), None, "{count}");
        }
        for json in ["{}", "null", "7", r#""x""#, "[]", "[[1]]"] {
            assert_eq!(counts(json), None, "{json}");
        }
        let most = counts(r#"{"prompt_tokens":4294967295}"#).and_then(|counts| counts.input);
        assert_eq!(most, Some(u32::MAX));
    }

    #[test]
    fn finish_reasons_are_plain_words() {
        let long = "x".repeat(65);
        for (given, kept) in [
            ("", None),
            ("stop", Some("stop")),
            ("max_tokens-2", Some("max_tokens-2")),
            ("the prompt", Some("other")),
            ("\u{4e2d}", Some("other")),
            (long.as_str(), Some("other")),
        ] {
            assert_eq!(finish_reason(Some(given.to_owned())).as_deref(), kept, "{given}");
        }
        assert_eq!(finish_reason(None), None);
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
