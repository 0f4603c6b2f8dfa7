//! Messages in attributes of spans -> the body of a request as the OpenAI API writes it.
//!
//! Three shapes: lists of `{role, parts}` as OpenTelemetry has them, lists of `{role, content}`,
//! and flat attributes of one field of one message each (`gen_ai.prompt.0.role`,
//! `llm.input_messages.0.message.content`). The body is read by `content` and dropped there; no
//! text goes further. Media and reasoning parts are left out.

use super::parts::array;
use crate::ingest::loose::Loose;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Messages that flat attributes may have; an index above is no message's.
const MAX_INDEX: u32 = 100_000;

/// A message as OpenTelemetry has it, or as the APIs have it.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Loose<'a>,
    #[serde(borrow, default)]
    parts: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Loose<'a>,
}

/// A part of a message.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
    #[serde(borrow, default)]
    content: Loose<'a>,
    #[serde(borrow, default)]
    id: Loose<'a>,
    #[serde(borrow, default)]
    name: Loose<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "result")]
    response: Option<&'a RawValue>,
}

/// A message of the body.
#[derive(Default, Serialize)]
struct Written<'a> {
    role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Calls<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Text<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Text<'a> {
    Own(String),
    Raw(&'a RawValue),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Calls<'a> {
    Own(Vec<Call>),
    Raw(&'a RawValue),
}

#[derive(Serialize)]
struct Call {
    id: String,
    r#type: &'static str,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Serialize)]
struct Request<'a> {
    messages: Vec<Written<'a>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Written<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<String>,
}

#[derive(Serialize)]
struct Response<'a> {
    choices: Vec<Choice<'a>>,
}

/// Returns the body of a request with a list of messages, and instructions in front of them.
pub(super) fn request(messages: &str, instructions: Option<&str>) -> Option<String> {
    let list: Vec<Message<'_>> = serde_json::from_str(messages).ok()?;
    let mut written = Vec::new();
    let parts: Vec<&RawValue> = instructions.map(array).unwrap_or_default();
    if !parts.is_empty() {
        written.push(Written { role: "system".to_owned(), ..of_parts(&parts) });
    }
    written.extend(list.into_iter().map(|message| write(&message)));
    serde_json::to_string(&Request { messages: written }).ok()
}

/// Returns the body of an answer with a list of messages, one a choice.
pub(super) fn response(messages: &str) -> Option<String> {
    let list: Vec<Message<'_>> = serde_json::from_str(messages).ok()?;
    let choices = list.iter().zip(0..).map(|(message, index)| Choice {
        index,
        message: write(message),
        finish_reason: message.finish_reason.text().map(str::to_owned),
    });
    serde_json::to_string(&Response { choices: choices.collect() }).ok()
}

/// Returns the body of an answer of one text.
pub(super) fn response_text(text: &str) -> Option<String> {
    let content = Some(Text::Own(text.to_owned()));
    let message = Written { role: "assistant".to_owned(), content, ..Written::default() };
    let choices = vec![Choice { index: 0, message, finish_reason: None }];
    serde_json::to_string(&Response { choices }).ok()
}

fn write<'a>(message: &Message<'a>) -> Written<'a> {
    let role = message.role.text().unwrap_or("user").to_owned();
    match &message.parts {
        Some(parts) => Written { role, ..of_parts(parts) },
        None => Written {
            role,
            content: message.content.map(Text::Raw),
            tool_calls: message.tool_calls.map(Calls::Raw),
            tool_call_id: message.tool_call_id.map(Text::Raw),
        },
    }
}

/// Writes the parts of a message; the role is left to the caller.
fn of_parts<'a>(parts: &[&'a RawValue]) -> Written<'a> {
    let (mut texts, mut calls, mut answers_to) = (Vec::new(), Vec::new(), None);
    for raw in parts {
        let Ok(part) = serde_json::from_str::<Part<'a>>(raw.get()) else { continue };
        let id = part.id.text().unwrap_or_default().to_owned();
        match part.kind.text() {
            Some("text") => texts.extend(part.content.text().map(str::to_owned)),
            Some("tool_call") => calls.push(Call {
                id,
                r#type: "function",
                function: Function {
                    name: part.name.text().unwrap_or_default().to_owned(),
                    arguments: part.arguments.map_or_else(String::new, |raw| raw.get().to_owned()),
                },
            }),
            Some("tool_call_response") => {
                answers_to = Some(Text::Own(id));
                let answer = part.response.map(|raw| Loose::of_json(raw.get()));
                texts.extend(answer.as_ref().map(|answer| match answer {
                    Loose::Text(text) => text.clone().into_owned(),
                    other => other.json().unwrap_or_default().into_owned(),
                }));
            }
            _ => {}
        }
    }
    Written {
        role: String::new(),
        content: (!texts.is_empty()).then(|| Text::Own(texts.join("\n"))),
        tool_calls: (!calls.is_empty()).then_some(Calls::Own(calls)),
        tool_call_id: answers_to,
    }
}

/// Messages gathered from flat attributes, by index.
#[derive(Debug, Default)]
pub(super) struct Flat<'a> {
    asked: BTreeMap<u32, Pieces<'a>>,
    answered: BTreeMap<u32, Pieces<'a>>,
}

#[derive(Debug, Default)]
struct Pieces<'a> {
    role: Option<Cow<'a, str>>,
    content: Option<Cow<'a, str>>,
    calls: BTreeMap<u32, String>,
}

impl<'a> Flat<'a> {
    /// Returns whether an attribute is a field of a message.
    pub(super) fn knows(key: &str) -> bool {
        Self::place(key).is_some()
    }

    /// Splits a key: whether it is of the answer, the message's index, and the field.
    fn place(key: &str) -> Option<(bool, u32, &str)> {
        let (is_answer, rest) = [
            (false, "gen_ai.prompt."),
            (false, "llm.input_messages."),
            (true, "gen_ai.completion."),
            (true, "llm.output_messages."),
        ]
        .into_iter()
        .find_map(|(is_answer, prefix)| Some((is_answer, key.strip_prefix(prefix)?)))?;
        let (index, field) = rest.split_once('.')?;
        let index = index.parse().ok().filter(|index| *index <= MAX_INDEX)?;
        Some((is_answer, index, field.strip_prefix("message.").unwrap_or(field)))
    }

    /// Takes an attribute; others are ignored.
    pub(super) fn offer(&mut self, key: &str, value: Loose<'a>) {
        let Some((is_answer, index, field)) = Self::place(key) else { return };
        let Loose::Text(text) = value else { return };
        let list = if is_answer { &mut self.answered } else { &mut self.asked };
        if !(matches!(field, "role" | "content") || field.starts_with("tool_calls.")) {
            return;
        }
        let pieces = list.entry(index).or_default();
        if let Some(call) = field.strip_prefix("tool_calls.") {
            let Some((call, field)) = call.split_once('.') else { return };
            let Ok(call) = call.parse() else { return };
            let name = pieces.calls.entry(call).or_default();
            if field == "name" || field == "tool_call.function.name" {
                *name = text.into_owned();
            }
        } else if field == "role" {
            pieces.role = Some(text);
        } else {
            pieces.content = Some(text);
        }
    }

    /// Returns the body of the request; `None` when no message is shown.
    pub(super) fn request(&self) -> Option<String> {
        let messages: Vec<Written<'_>> =
            self.asked.values().map(|pieces| pieces.write("user")).collect();
        let shown = !messages.is_empty();
        shown.then(|| serde_json::to_string(&Request { messages }).ok()).flatten()
    }

    /// Returns the body of the answer; `None` when none is shown.
    pub(super) fn response(&self) -> Option<String> {
        let choice = |(index, pieces): (u32, &Pieces<'a>)| Choice {
            index,
            message: pieces.write("assistant"),
            finish_reason: None,
        };
        let choices: Vec<Choice<'_>> = (0..).zip(self.answered.values()).map(choice).collect();
        let shown = !choices.is_empty();
        shown.then(|| serde_json::to_string(&Response { choices }).ok()).flatten()
    }
}

impl Pieces<'_> {
    fn write(&self, role: &str) -> Written<'static> {
        let call = |(index, name): (&u32, &String)| Call {
            id: index.to_string(),
            r#type: "function",
            function: Function { name: name.clone(), arguments: String::new() },
        };
        let calls: Vec<Call> = self.calls.iter().map(call).collect();
        Written {
            role: self.role.as_deref().unwrap_or(role).to_owned(),
            content: self.content.as_deref().map(|text| Text::Own(text.to_owned())),
            tool_calls: (!calls.is_empty()).then_some(Calls::Own(calls)),
            tool_call_id: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_contents_and_calls() {
        let messages = r#"[{"role":"user","parts":[{"type":"text","content":"a"},{"type":"text","content":"b"},{"type":"blob"}]},
            {"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"f","arguments":{"x":1}}]},
            {"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"r"}]}]"#;
        let instructions = r#"[{"type":"text","content":"s"}]"#;
        insta::assert_snapshot!(request(messages, Some(instructions)).unwrap(), @r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a\nb"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","content":"r","tool_call_id":"c1"}]}"#);
    }

    #[test]
    fn messages_of_the_apis_stay_as_they_are() {
        let messages =
            r#"[{"role":"user","content":[{"type":"text","text":"a"}]},{"content":"b"}]"#;
        insta::assert_snapshot!(request(messages, None).unwrap(), @r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"user","content":"b"}]}"#);
        let answer = r#"[{"role":"assistant","parts":[{"type":"text","content":"a"}],"finish_reason":"stop"}]"#;
        insta::assert_snapshot!(response(answer).unwrap(), @r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}"#);
        assert_eq!(request("{}", None), None);
        assert_eq!(request("[7]", None), None);
        assert_eq!(response("["), None);
    }

    #[test]
    fn flat_attributes_are_put_in_order() {
        let mut flat = Flat::default();
        for (key, value) in [
            ("llm.input_messages.10.message.content", "c"),
            ("llm.input_messages.2.message.content", "b"),
            ("gen_ai.prompt.0.role", "system"),
            ("gen_ai.prompt.0.content", "a"),
            ("llm.output_messages.0.message.tool_calls.0.tool_call.function.name", "f"),
            ("llm.output_messages.0.message.tool_calls.0.tool_call.id", "x"),
            ("gen_ai.prompt.x.content", "no"),
        ] {
            flat.offer(key, Loose::Text(value.into()));
        }
        insta::assert_snapshot!(flat.request().unwrap(), @r#"{"messages":[{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"user","content":"c"}]}"#);
        insta::assert_snapshot!(flat.response().unwrap(), @r#"{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"0","type":"function","function":{"name":"f","arguments":""}}]}}]}"#);
        assert_eq!(Flat::default().request(), None);
        assert!(Flat::knows("gen_ai.prompt.0.role") && !Flat::knows("gen_ai.prompt.role"));
    }
}
