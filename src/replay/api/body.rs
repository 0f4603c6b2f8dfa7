//! Request bodies: planned lengths and a prompt → JSON bytes.
//!
//! Keys of `extra` replace those that the plan does not need; the plan's own (`model`, the prompt,
//! the limit, `stream`) cannot be replaced. Keys come in a fixed order.

use crate::domain::schedule::ScheduledRequest;
use crate::domain::word::word_enum;
use crate::replay::error::ReplayError;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

word_enum! {
    /// The name of the field that limits output tokens; servers disagree about it.
    pub enum MaxTokensField {
        /// Known to nearly every server.
        MaxTokens = "max_tokens",
        /// Wanted by OpenAI's reasoning models.
        MaxCompletionTokens = "max_completion_tokens",
    }
}

/// Keys that come from the plan or that measuring rests on.
const OWN_KEYS: [&str; 7] =
    ["model", "messages", "prompt", "stream", "max_tokens", "max_completion_tokens", "n"];

/// What all bodies of a run share.
#[derive(Clone, Debug, PartialEq)]
pub struct BodyOptions {
    model: String,
    max_tokens_field: MaxTokensField,
    ignore_eos: bool,
    extra: Map<String, Value>,
}

impl BodyOptions {
    /// Returns options for `model`, with `max_tokens` and without further fields.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            max_tokens_field: MaxTokensField::MaxTokens,
            ignore_eos: false,
            extra: Map::new(),
        }
    }

    /// Sends `ignore_eos`, and `min_tokens` where the plan has a minimum.
    #[must_use]
    pub const fn with_ignore_eos(mut self, ignore_eos: bool) -> Self {
        self.ignore_eos = ignore_eos;
        self
    }

    /// Names the field that limits output tokens.
    #[must_use]
    pub const fn with_max_tokens_field(mut self, field: MaxTokensField) -> Self {
        self.max_tokens_field = field;
        self
    }

    /// Merges a JSON object into every body.
    ///
    /// # Errors
    ///
    /// [`ReplayError::ExtraBody`] when `extra` is no object or sets a key of the plan's own.
    pub fn with_extra(mut self, extra: &str) -> Result<Self, ReplayError> {
        let wrong = |reason: String| ReplayError::ExtraBody { reason };
        self.extra = serde_json::from_str(extra).map_err(|error| {
            wrong(format!("not a JSON object: column {} is unexpected", error.column()))
        })?;
        match OWN_KEYS.iter().find(|key| self.extra.contains_key(**key)) {
            Some(key) => Err(wrong(format!("`{key}` is set by the plan"))),
            None => Ok(self),
        }
    }

    /// Returns the model's name.
    pub fn model(&self) -> &str {
        &self.model
    }
}

/// Writes a body with `prompt` as its key and value for the prompt.
pub(super) fn write<P: Serialize>(
    options: &BodyOptions,
    request: &ScheduledRequest,
    (prompt_key, prompt): (&'static str, P),
) -> Vec<u8> {
    let body = Body { options, request, prompt_key, prompt };
    serde_json::to_vec(&body).expect("strings and numbers always serialise")
}

struct Body<'a, P> {
    options: &'a BodyOptions,
    request: &'a ScheduledRequest,
    prompt_key: &'static str,
    prompt: P,
}

impl<P: Serialize> Serialize for Body<'_, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { options, request, prompt_key, prompt } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &options.model)?;
        map.serialize_entry(options.max_tokens_field.as_str(), &request.max_tokens)?;
        map.serialize_entry("stream", &true)?;
        let mut replaceable = vec![("stream_options", json!({ "include_usage": true }))];
        if options.ignore_eos {
            replaceable.push(("ignore_eos", Value::Bool(true)));
            if let Some(least) = request.min_tokens {
                replaceable.push(("min_tokens", least.into()));
            }
        }
        for (key, value) in replaceable {
            if !options.extra.contains_key(key) {
                map.serialize_entry(key, &value)?;
            }
        }
        for (key, value) in &options.extra {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry(prompt_key, prompt)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::api::Api;
    use crate::replay::testing::request;

    fn body(api: Api, options: &BodyOptions) -> String {
        let planned = ScheduledRequest { min_tokens: Some(7), ..request(0, 0) };
        String::from_utf8(api.body(options, &planned, "say \"hi\"\n中")).unwrap()
    }

    #[test]
    fn bodies_as_sent() {
        let plain = BodyOptions::new("m");
        insta::assert_snapshot!(body(Api::Chat, &plain), @r#"{"model":"m","max_tokens":7,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"say \"hi\"\n中"}]}"#);
        let forced = plain.with_ignore_eos(true).with_extra(r#"{"top_k":1,"ignore_eos":false}"#);
        insta::assert_snapshot!(body(Api::Completions, &forced.unwrap()), @r#"{"model":"m","max_tokens":7,"stream":true,"stream_options":{"include_usage":true},"min_tokens":7,"ignore_eos":false,"top_k":1,"prompt":"say \"hi\"\n中"}"#);
        let other =
            BodyOptions::new("m").with_max_tokens_field(MaxTokensField::MaxCompletionTokens);
        assert!(body(Api::Chat, &other).contains("\"max_completion_tokens\":7,"));
    }

    #[test]
    fn extra_fields_cannot_touch_the_plan() {
        let shown = |extra| BodyOptions::new("m").with_extra(extra).unwrap_err().to_string();
        insta::assert_snapshot!(shown(r#"{"stream": false}"#), @"extra body: `stream` is set by the plan");
        insta::assert_snapshot!(shown("[1]"), @"extra body: not a JSON object: column 0 is unexpected");
        insta::assert_snapshot!(shown(r#"{"a": }"#), @"extra body: not a JSON object: column 7 is unexpected");
    }
}
