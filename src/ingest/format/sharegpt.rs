//! `ShareGPT` conversations: `{id, conversations: [{from, value}]}`, from JSONL or a JSON array.
//!
//! There are no times and no tokens. Each turn of a human is one request, whose messages are all
//! up to it; the conversation is the session. Texts are looked at for evidence of retrieval and
//! counted by role, not kept. Some conversations begin with an answer. A conversation without a
//! human's turn is no request (`not_llm`). Source: records as published; there is no definition.

use super::parts::{array, session};
use super::{At, Draft, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared};
use crate::domain::record::{Operation, RequestRecord, Status};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::Loose;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use serde_json::value::RawValue;

wire! { Conversation { id = "id", turns = "conversations" } }

wire! { Turn { from = "from" | "role", value = "value" | "text" | "content" } }

struct ShareGpt {
    conversation: Picker,
    turn: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter = ShareGpt { conversation: Conversation::picker(), turn: Turn::picker() };
    Ok((Box::new(adapter), Vec::new()))
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

impl Speaker {
    fn of(from: &str) -> Option<Self> {
        match from {
            "system" => Some(Self::System),
            "human" | "user" => Some(Self::User),
            "gpt" | "assistant" | "model" | "chatgpt" | "bing" | "bard" | "function_call" => {
                Some(Self::Assistant)
            }
            "tool" | "function" | "observation" | "function_response" => Some(Self::Tool),
            _ => None,
        }
    }
}

/// Messages so far, by speaker.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    all: u32,
    system: u32,
    user: u32,
    assistant: u32,
    tool: u32,
}

impl Counts {
    fn add(&mut self, speaker: Option<Speaker>) {
        self.all += 1;
        match speaker {
            Some(Speaker::System) => self.system += 1,
            Some(Speaker::User) => self.user += 1,
            Some(Speaker::Assistant) => self.assistant += 1,
            Some(Speaker::Tool) => self.tool += 1,
            None => {}
        }
    }
}

impl ObjectAdapter for ShareGpt {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let conversation = Conversation::read(&self.conversation, line)?;
        let turns = conversation.turns.json().unwrap_or_default();
        let turns: Vec<Turn<'_>> = array(&turns).into_iter().map(|raw| self.turn(raw)).collect();
        let place = Loose::Text(format!("{}:{}", at.file_id, at.line).into());
        let own = shared
            .hash(Column::Session, &conversation.id)
            .or_else(|| shared.hash(Column::Session, &place));
        let mut counts = Counts::default();
        for (index, turn) in turns.iter().enumerate() {
            let speaker = speaker_of(turn);
            counts.add(speaker);
            if speaker != Some(Speaker::User) {
                continue;
            }
            let format = shared.name(Format::Sharegpt.as_str());
            let mut row = RequestRecord::unknown(format, at.file_id, at.line);
            row.operation = Operation::Chat;
            session(&mut row, own);
            let answered = turns.get(index + 1).and_then(speaker_of) == Some(Speaker::Assistant);
            row.status = if answered { Status::Ok } else { Status::Unknown };
            let mut draft = Draft::from(row);
            look_at(turn, &mut draft, shared);
            fill_counts(counts, &mut draft.row);
            out.keep(draft);
        }
        if counts.user == 0 {
            out.drop("not_llm");
        }
        Ok(())
    }

    fn origin(&self) -> Origin {
        Origin::Missing
    }
}

impl ShareGpt {
    fn turn<'a>(&self, raw: &'a RawValue) -> Turn<'a> {
        Turn::read(&self.turn, raw.get()).unwrap_or_default()
    }
}

fn speaker_of(turn: &Turn<'_>) -> Option<Speaker> {
    Speaker::of(turn.from.text().unwrap_or_default())
}

/// Looks for evidence in the turn's own text. All texts before it, again and again, would take
/// time by the square of the turns, and the session is known without them.
fn look_at(turn: &Turn<'_>, draft: &mut Draft, shared: &mut Shared) {
    let Some(text) = turn.value.text().and_then(|text| serde_json::to_string(text).ok()) else {
        return;
    };
    let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":{text}}}]}}");
    content::fill_request(&body, draft, shared);
    draft.chain = None;
}

fn fill_counts(counts: Counts, row: &mut RequestRecord) {
    row.message_count = Some(counts.all);
    row.system_count = Some(counts.system);
    row.user_count = Some(counts.user);
    row.assistant_count = Some(counts.assistant);
    row.tool_count = Some(counts.tool);
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use crate::domain::record::ArrivalSource;

    const FORMAT: Format = Format::Sharegpt;

    #[test]
    fn each_turn_of_a_human_is_a_request() {
        let line = r#"{"id":"canary-id","conversations":[{"from":"system","value":"canary"},{"from":"human","value":"canary"},
            {"from":"gpt","value":"canary"},{"from":"tool","value":"x"},{"from":"other"},{"from":"user","value":"canary"}]}"#;
        let tried = trial::lines(FORMAT, &[line]);
        let [first, second] = &tried.drafts[..] else { panic!("two rows") };
        let counts = |row: &RequestRecord| {
            (
                row.message_count,
                row.system_count,
                row.user_count,
                row.assistant_count,
                row.tool_count,
            )
        };
        assert_eq!(counts(&first.row), (Some(2), Some(1), Some(1), Some(0), Some(0)));
        assert_eq!(counts(&second.row), (Some(6), Some(1), Some(2), Some(1), Some(1)));
        assert_eq!((first.row.status, second.row.status), (Status::Ok, Status::Unknown));
        assert_eq!((first.row.arrival_time, first.row.arrival_source), (None, ArrivalSource::None));
        assert_eq!(first.row.session_id_hash, second.row.session_id_hash);
        assert_eq!((first.row.input_tokens, &first.chain), (None, &None));
        assert!(!format!("{:?}", tried.drafts).contains("canary"));
    }

    #[test]
    fn conversations_without_id_or_question() {
        let anonymous =
            r#"{"conversations":[{"from":"gpt","value":"a"},{"from":"human","value":"b"}]}"#;
        let tried =
            trial::lines(FORMAT, &[anonymous, anonymous, r#"{"conversations":[]}"#, "{}", "["]);
        let [first, second] = &tried.drafts[..] else { panic!("two rows") };
        assert_ne!(first.row.session_id_hash, second.row.session_id_hash);
        assert_eq!(tried.drops, ["not_llm", "not_llm"]);
        assert_eq!(tried.rejects.len(), 1);
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("sharegpt.jsonl") else { return };
        assert_eq!(tried.drafts[1].row.message_count, Some(3));
        assert_eq!(tried.drafts[3].row.assistant_count, Some(1));
    }
}
