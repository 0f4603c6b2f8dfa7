//! The bytes of answers: server-sent events, whole bodies, and errors, in OpenAI's shapes.
//!
//! Pure functions: what is sent, not when.

use super::request::Api;
use super::words;
use bytes::Bytes;
use serde_json::json;

/// The last event of a stream.
pub(super) const DONE: &str = "data: [DONE]\n\n";

/// Token counts for `usage`; the input is null when nobody counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) input_tokens: Option<u32>,
    pub(super) output_tokens: u32,
}

impl Usage {
    fn json(self) -> serde_json::Value {
        let total = self.input_tokens.map(|input| u64::from(input) + u64::from(self.output_tokens));
        json!({
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": total,
        })
    }
}

/// Writes the answers to one request.
#[derive(Debug)]
pub(super) struct Voice {
    api: Api,
    /// `"created":…,"model":…`, the part that all bodies share.
    common: String,
    id: String,
    before_text: String,
    after_text: &'static str,
}

impl Voice {
    /// A voice for request `number`, created at `created` (seconds since 1970).
    pub(super) fn new(api: Api, number: u64, model: &str, created: u64) -> Self {
        let model = serde_json::Value::from(model);
        let common = format!(r#""created":{created},"model":{model}"#);
        let (prefix, object) = match api {
            Api::Chat => ("chatcmpl", "chat.completion.chunk"),
            Api::Completions => ("cmpl", "text_completion"),
        };
        let id = format!("{prefix}-mock-{number}");
        let head = format!(r#"data: {{"id":"{id}","object":"{object}",{common},"choices":["#);
        let (open, after_text) = match api {
            Api::Chat => {
                (r#"{"index":0,"delta":{"content":""#, "\"},\"finish_reason\":null}]}\n\n")
            }
            Api::Completions => {
                (r#"{"index":0,"text":""#, "\",\"logprobs\":null,\"finish_reason\":null}]}\n\n")
            }
        };
        let before_text = format!("{head}{open}");
        Self { api, common, id, before_text, after_text }
    }

    /// Returns the role-only first chunk of a chat.
    pub(super) fn role(&self) -> Bytes {
        let choice = json!({"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null});
        self.event(&choice.to_string(), None).into()
    }

    /// Returns the chunk with piece `index` of the text.
    pub(super) fn text(&self, index: u32) -> Bytes {
        let piece = words::piece(index);
        let length = self.before_text.len() + piece.len() + self.after_text.len();
        let mut event = String::with_capacity(length);
        event.push_str(&self.before_text);
        event.push_str(piece);
        event.push_str(self.after_text);
        event.into()
    }

    /// Returns the end of a stream: the finish chunk, the usage chunk if asked for, `[DONE]`.
    pub(super) fn finish(&self, reason: &str, usage: Option<Usage>) -> Bytes {
        let choice = match self.api {
            Api::Chat => json!({"index": 0, "delta": {}, "finish_reason": reason}),
            Api::Completions => {
                json!({"index": 0, "text": "", "logprobs": null, "finish_reason": reason})
            }
        };
        let mut end = self.event(&choice.to_string(), None);
        if let Some(usage) = usage {
            end.push_str(&self.event("", Some(usage)));
        }
        end.push_str(DONE);
        end.into()
    }

    fn event(&self, choices: &str, usage: Option<Usage>) -> String {
        let object = match self.api {
            Api::Chat => "chat.completion.chunk",
            Api::Completions => "text_completion",
        };
        let usage = usage.map_or_else(String::new, |usage| format!(r#","usage":{}"#, usage.json()));
        let (id, common) = (&self.id, &self.common);
        format!(
            "data: {{\"id\":\"{id}\",\"object\":\"{object}\",{common},\"choices\":[{choices}]{usage}}}\n\n"
        )
    }

    /// Returns the body of an answer that is not streamed.
    pub(super) fn whole(&self, reason: &str, usage: Usage) -> String {
        let text = words::text(usage.output_tokens);
        let (object, choice) = match self.api {
            Api::Chat => (
                "chat.completion",
                json!({
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": reason,
                }),
            ),
            Api::Completions => (
                "text_completion",
                json!({"index": 0, "text": text, "logprobs": null, "finish_reason": reason}),
            ),
        };
        let (id, common, usage) = (&self.id, &self.common, usage.json());
        format!(
            r#"{{"id":"{id}","object":"{object}",{common},"choices":[{choice}],"usage":{usage}}}"#
        )
    }
}

/// Returns an error body as OpenAI writes it.
pub(super) fn error(message: &str, kind: &str, code: Option<u16>) -> String {
    let code = code.map(|code| code.to_string());
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_json_in_the_shape_of_either_endpoint() {
        let usage = Usage { input_tokens: None, output_tokens: 2 };
        let chat = Voice::new(Api::Chat, 7, "a \"b\"", 1);
        let text = Voice::new(Api::Completions, 7, "m", 1);
        let mut all = Vec::new();
        for event in [chat.role(), chat.text(1), chat.finish("length", Some(usage))] {
            all.push(String::from_utf8(event.to_vec()).unwrap());
        }
        for event in [text.text(0), text.finish("stop", None)] {
            all.push(String::from_utf8(event.to_vec()).unwrap());
        }
        let lines = all.concat().replace("\n\n", "\n");
        for line in lines.lines().filter(|line| !line.ends_with("[DONE]")) {
            let json = line.strip_prefix("data: ").unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(json).is_ok(), "{json}");
        }
        insta::assert_snapshot!(lines, @r#"
        data: {"id":"chatcmpl-mock-7","object":"chat.completion.chunk","created":1,"model":"a \"b\"","choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0}]}
        data: {"id":"chatcmpl-mock-7","object":"chat.completion.chunk","created":1,"model":"a \"b\"","choices":[{"index":0,"delta":{"content":" train"},"finish_reason":null}]}
        data: {"id":"chatcmpl-mock-7","object":"chat.completion.chunk","created":1,"model":"a \"b\"","choices":[{"delta":{},"finish_reason":"length","index":0}]}
        data: {"id":"chatcmpl-mock-7","object":"chat.completion.chunk","created":1,"model":"a \"b\"","choices":[],"usage":{"completion_tokens":2,"prompt_tokens":null,"total_tokens":null}}
        data: [DONE]
        data: {"id":"cmpl-mock-7","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"The","logprobs":null,"finish_reason":null}]}
        data: {"id":"cmpl-mock-7","object":"text_completion","created":1,"model":"m","choices":[{"finish_reason":"stop","index":0,"logprobs":null,"text":""}]}
        data: [DONE]
        "#);
    }
}
