//! Plain completions: the prompt as text out, `choices[].text` in.

use super::Chunk;
use super::wire::{NO_MESSAGE, Part, TextBytes, error_message, finish_reason, usage};
use serde::Deserialize;

/// Returns the body's key for the prompt and its value.
pub(super) const fn prompt(text: &str) -> (&'static str, &str) {
    ("prompt", text)
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
    text: TextBytes,
    reasoning_content: TextBytes,
    finish_reason: Option<String>,
}

/// Reads the data of one event; see [`super::Api::read`].
pub(super) fn read(data: &[u8]) -> Result<Chunk, usize> {
    let event: Event<'_> = serde_json::from_slice(data).map_err(|error| error.column())?;
    let mut chunk = Chunk { usage: usage(event.usage), ..Chunk::default() };
    if event.error.is_some() || event.object.as_deref() == Some("error") {
        chunk.error = Some(error_message(data).unwrap_or_else(|| NO_MESSAGE.to_owned()));
    }
    for choice in event.choices.unwrap_or_default() {
        chunk.content_bytes += choice.text.0;
        chunk.reasoning_bytes += choice.reasoning_content.0;
        chunk.finish_reason = finish_reason(choice.finish_reason).or(chunk.finish_reason);
    }
    Ok(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_and_errors() {
        let chunk = read(br#"{"choices":[{"text":" hi","finish_reason":null}]}"#).unwrap();
        assert_eq!((chunk.content_bytes, chunk.finish_reason), (3, None));
        let chunk = read(br#"{"choices":[{"text":"","finish_reason":"length"}]}"#).unwrap();
        assert_eq!((chunk.text_bytes(), chunk.finish_reason.as_deref()), (0, Some("length")));
        let chunk = read(br#"{"choices":[{"text":"","finish_reason":""}]}"#).unwrap();
        assert_eq!(chunk.finish_reason, None);
        let chunk = read(br#"{"choices":[],"usage":{"prompt_tokens":1}}"#).unwrap();
        assert_eq!(chunk.usage.and_then(|usage| usage.input), Some(1));
        assert_eq!(read(br#"{"error":"x"}"#).unwrap().error.as_deref(), Some("x"));
    }
}
