//! What a client asks for: the body of a completion request, in as far as the mock cares.
//!
//! Input: the bytes of a body. Output: an [`Asked`] whose numbers are in range, or the sentence
//! for a 400 answer. Fields the mock does not know are ignored, as real servers do.

use super::MAX_OUTPUT_TOKENS;
use crate::domain::count::CountTokens;
use serde::Deserialize;

/// The two ways to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
}

#[derive(Debug, Deserialize)]
struct Body {
    model: Option<String>,
    messages: Option<Vec<Message>>,
    prompt: Option<Prompt>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Message {
    content: Option<Content>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
}

/// The prompt, for counting.
#[derive(Debug)]
pub(super) enum Input {
    /// Texts, each counted by itself; the counts are added up without any template.
    Texts(Vec<String>),
    /// Token ids.
    Ids(u32),
}

impl Input {
    /// Returns the number of tokens; `None` for texts without a counter.
    pub(super) fn tokens(&self, counter: Option<&dyn CountTokens>) -> Option<u32> {
        match self {
            Self::Ids(count) => Some(*count),
            Self::Texts(texts) => {
                let counter = counter?;
                let counts = texts.iter().map(|text| counter.count_tokens(text));
                Some(counts.fold(0, u32::saturating_add))
            }
        }
    }
}

/// A request that makes sense.
#[derive(Debug)]
pub(super) struct Asked {
    /// The model named, if any.
    pub(super) model: Option<String>,
    /// The prompt.
    pub(super) input: Input,
    /// The limit on output tokens, 1 to [`MAX_OUTPUT_TOKENS`].
    pub(super) max_tokens: Option<u32>,
    /// Whether to stream.
    pub(super) stream: bool,
    /// Whether a stream ends with a usage chunk.
    pub(super) include_usage: bool,
}

impl Asked {
    /// Reads a body; the error is the sentence for the client.
    pub(super) fn read(api: Api, body: &[u8]) -> Result<Self, String> {
        let body: Body = serde_json::from_slice(body)
            .map_err(|error| format!("body is not a JSON request: {error}"))?;
        if body.n.is_some_and(|n| n != 1) {
            return Err("`n` must be 1 here".to_owned());
        }
        let max_tokens = match api {
            Api::Chat => body.max_completion_tokens.or(body.max_tokens),
            Api::Completions => body.max_tokens,
        };
        Ok(Self {
            input: read_input(api, body.messages, body.prompt)?,
            model: body.model,
            max_tokens: max_tokens.map(in_range).transpose()?,
            stream: body.stream.unwrap_or(false),
            include_usage: body.stream_options.and_then(|o| o.include_usage).unwrap_or(false),
        })
    }
}

fn in_range(tokens: u64) -> Result<u32, String> {
    u32::try_from(tokens)
        .ok()
        .filter(|tokens| (1..=MAX_OUTPUT_TOKENS).contains(tokens))
        .ok_or_else(|| format!("`max_tokens` is {tokens}, expected 1 to {MAX_OUTPUT_TOKENS}"))
}

fn read_input(
    api: Api,
    messages: Option<Vec<Message>>,
    prompt: Option<Prompt>,
) -> Result<Input, String> {
    if api == Api::Chat {
        let messages = messages.filter(|messages| !messages.is_empty());
        let messages = messages.ok_or_else(|| "`messages` is missing or empty".to_owned())?;
        return Ok(Input::Texts(messages.into_iter().flat_map(texts_of).collect()));
    }
    match prompt {
        None => Err("`prompt` is missing".to_owned()),
        Some(Prompt::Text(text)) => Ok(Input::Texts(vec![text])),
        Some(Prompt::Ids(ids)) => Ok(Input::Ids(u32::try_from(ids.len()).unwrap_or(u32::MAX))),
        Some(Prompt::Texts(texts)) if texts.len() == 1 => Ok(Input::Texts(texts)),
        Some(Prompt::Texts(texts)) => {
            Err(format!("`prompt` has {} texts, expected one here", texts.len()))
        }
    }
}

fn texts_of(message: Message) -> Vec<String> {
    match message.content {
        None => Vec::new(),
        Some(Content::Text(text)) => vec![text],
        Some(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Letters;
    impl CountTokens for Letters {
        fn count_tokens(&self, text: &str) -> u32 {
            u32::try_from(text.len()).unwrap()
        }
        fn tokenizer_name(&self) -> &'static str {
            "letters"
        }
    }

    fn chat(body: &str) -> Result<Asked, String> {
        Asked::read(Api::Chat, body.as_bytes())
    }

    #[test]
    fn prompts_are_counted_part_by_part() {
        let asked = chat(
            r#"{"messages":[{"role":"system","content":"abc"},{"role":"user","content":[
                {"type":"text","text":"de"},{"type":"image_url","image_url":{"url":"x"}}]},
                {"role":"assistant","content":null}]}"#,
        )
        .unwrap();
        assert_eq!(asked.input.tokens(Some(&Letters)), Some(5));
        assert_eq!(asked.input.tokens(None), None);
        let ids = Asked::read(Api::Completions, br#"{"prompt":[1,2,3]}"#).unwrap();
        assert_eq!(ids.input.tokens(None), Some(3));
    }

    #[test]
    fn limits_are_read_under_either_name() {
        let max = |rest: &str| {
            chat(&format!(r#"{{"messages":[{{"content":"a"}}]{rest}}}"#)).map(|a| a.max_tokens)
        };
        assert_eq!(max(""), Ok(None));
        assert_eq!(max(r#","max_tokens":7"#), Ok(Some(7)));
        assert_eq!(max(r#","max_tokens":7,"max_completion_tokens":9"#), Ok(Some(9)));
        assert!(max(r#","max_tokens":0"#).is_err());
        assert!(max(r#","max_tokens":262145"#).is_err());
        assert!(max(r#","max_tokens":-1"#).is_err());
    }

    #[test]
    fn a_body_without_a_prompt_is_refused_with_its_reason() {
        let refusals = [
            chat("{").unwrap_err(),
            chat("{}").unwrap_err(),
            chat(r#"{"messages":[]}"#).unwrap_err(),
            chat(r#"{"messages":[{"content":"a"}],"n":2}"#).unwrap_err(),
            Asked::read(Api::Completions, b"{}").unwrap_err(),
            Asked::read(Api::Completions, br#"{"prompt":["a","b"]}"#).unwrap_err(),
        ];
        insta::assert_snapshot!(refusals.join("\n"), @r"
        body is not a JSON request: EOF while parsing an object at line 1 column 1
        `messages` is missing or empty
        `messages` is missing or empty
        `n` must be 1 here
        `prompt` is missing
        `prompt` has 2 texts, expected one here
        ");
    }
}
