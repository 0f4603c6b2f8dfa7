//! Inputs of AIPerf with sessions: a line a turn, or a line a session with `turns`.
//!
//! Times are milliseconds. A later turn has a `delay` after the previous answer in place of a
//! time. The input does not say how long answers took, so such a row has no arrival here: its
//! source is `delay_after_parent`, its think time the delay, and `ingest::delays` places it behind
//! the session's row before it. `output_length` is what was asked for.
//! Source: ai-dynamo/aiperf, `src/aiperf/dataset/loader/models.py`.

use super::parts::{array, blocks, count, session};
use super::{At, Draft, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared, fill};
use crate::domain::record::{ArrivalSource, HashScope, Operation, RequestRecord, TokenSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::Loose;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::{Records, Sample};
use crate::ingest::stamp::{TimeColumn, Unit};

wire! { Turn {
    time = "timestamp",
    delay = "delay" | "delay_ms",
    session = "session_id",
    input = "input_length",
    output = "output_length",
    blocks = "hash_ids",
    block_size = "block_size",
    model = "model",
    text = "text_input" | "text",
    messages = "messages",
    payload = "payload",
    turns = "turns",
} }

struct Aiperf {
    turn: Picker,
    time: TimeColumn,
    origin: Origin,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// If its times are no numbers.
pub fn make(sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    let turn = Turn::picker();
    let mut values = Vec::new();
    if let Records::Jsonl(lines) = &sample.records {
        for line in lines {
            let Ok(first) = Turn::read(&turn, line) else { continue };
            values.push(first.time);
            let Loose::Json(turns) = first.turns else { continue };
            let times =
                array(turns).into_iter().filter_map(|raw| Turn::read(&turn, raw.get()).ok());
            values.extend(times.map(|turn| turn.time));
        }
    }
    let told = hints.unit("timestamp");
    let unit = Some(told.unwrap_or(Unit::Millis));
    let (time, mut decisions) =
        TimeColumn::decide(&sample.file, "timestamp", &values, unit, &hints.zone)?;
    if told.is_none() {
        for decision in &mut decisions {
            decision.why = decision.why.replacen("`--time-unit`", "the format's unit", 1);
        }
    }
    let origin = if values.iter().all(Loose::is_nothing) {
        Origin::Missing
    } else if time.is_relative() {
        Origin::Offsets
    } else {
        Origin::Dates
    };
    Ok((Box::new(Aiperf { turn, time, origin }), decisions))
}

impl ObjectAdapter for Aiperf {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let turn = Turn::read(&self.turn, line)?;
        let Some(turns) = turn.turns.json() else {
            let draft = self.row(&turn, &turn.session, at, shared)?;
            out.keep(draft);
            return Ok(());
        };
        let turns = array(&turns);
        if turns.is_empty() {
            out.drop("not_llm");
        }
        for raw in turns {
            let read = Turn::read(&self.turn, raw.get()).map_err(Refusal::from);
            match read.and_then(|one| self.row(&one, &turn.session, at, shared)) {
                Ok(draft) => out.keep(draft),
                Err(Refusal::Reject(error)) => out.reject(error),
                Err(stop) => return Err(stop),
            }
        }
        Ok(())
    }

    fn origin(&self) -> Origin {
        self.origin
    }
}

impl Aiperf {
    fn row(
        &self,
        turn: &Turn<'_>,
        of_session: &Loose<'_>,
        at: At,
        shared: &mut Shared,
    ) -> Result<Draft, Refusal> {
        let format = shared.name(Format::AiperfSessions.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        let delay = fill::span_us(&turn.delay, "delay", fill::MILLIS)?;
        if let Some(arrival) = self.time.read(&turn.time, "timestamp", &shared.zone)? {
            fill::arrival(&mut row, arrival);
            if self.origin == Origin::Offsets {
                row.arrival_source = ArrivalSource::RelativeOrigin;
            }
        } else if delay.is_some() {
            row.arrival_source = ArrivalSource::DelayAfterParent;
            row.think_time_us = delay;
        }
        row.operation = Operation::Chat;
        let input = turn.input.count("input_length")?;
        let output = turn.output.count("output_length")?;
        fill::tokens(&mut row, (input, output, None), TokenSource::Logged, fill::Zeros::Unknown);
        row.request_model = shared.model(&turn.model);
        let own = shared.hash(Column::Session, of_session);
        session(&mut row, own);
        row.prefix_block_hashes = blocks(&turn.blocks, &shared.hasher);
        if !row.prefix_block_hashes.is_empty() {
            row.prefix_block_size = count(&turn.block_size);
            row.prefix_hash_scope = Some(HashScope::Dataset);
        }
        let mut draft = Draft::from(row);
        if let Some(body) = body(turn) {
            content::fill_request(&body, &mut draft, shared);
        }
        Ok(draft)
    }
}

/// Returns the request that a turn shows.
fn body(turn: &Turn<'_>) -> Option<String> {
    if let Some(payload) = turn.payload.json() {
        return Some(payload.into_owned());
    }
    if let Some(messages) = turn.messages.json() {
        return Some(format!("{{\"messages\":{messages}}}"));
    }
    let text = serde_json::to_string(turn.text.text()?).ok()?;
    Some(format!("{{\"messages\":[{{\"role\":\"user\",\"content\":{text}}}]}}"))
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use crate::domain::time::WallTime;

    const FORMAT: Format = Format::AiperfSessions;

    #[test]
    fn a_delay_is_no_time() {
        let lines = [
            r#"{"timestamp":1500,"session_id":"s","input_length":10,"output_length":5,"hash_ids":[0,1]}"#,
            r#"{"delay":2500,"session_id":"s","input_length":20,"output_length":0}"#,
        ];
        let tried = trial::lines(FORMAT, &lines);
        let [first, second] = &tried.drafts[..] else { panic!("two rows") };
        assert_eq!(first.row.arrival_time, Some(WallTime(1_500_000)));
        assert_eq!(first.row.arrival_source, ArrivalSource::RelativeOrigin);
        assert_eq!(first.row.prefix_block_hashes.len(), 2);
        assert_eq!(second.row.arrival_time, None);
        assert_eq!(second.row.arrival_source, ArrivalSource::DelayAfterParent);
        assert_eq!(second.row.think_time_us, Some(2_500_000));
        assert_eq!(second.row.output_tokens, None);
        assert_eq!(first.row.session_id_hash, second.row.session_id_hash);
    }

    #[test]
    fn a_line_may_hold_a_whole_session() {
        let line = r#"{"session_id":"s","turns":[{"timestamp":2,"text":"canary"},{"delay":"x"},{"delay":7}]}"#;
        let tried = trial::lines(FORMAT, &[line, r#"{"session_id":"s","turns":[]}"#]);
        let [first, last] = &tried.drafts[..] else { panic!("two rows") };
        assert_eq!(first.row.arrival_time, Some(WallTime(2_000)));
        assert_eq!(last.row.think_time_us, Some(7_000));
        assert!(first.row.session_id_hash.is_some());
        assert_eq!((tried.rejects.len(), &tried.drops[..]), (1, &["not_llm"][..]));
        assert!(!format!("{:?}", tried.drafts).contains("canary"));
    }

    #[test]
    fn files_without_times_and_with_dates() {
        let row =
            trial::draft(FORMAT, r#"{"session_id":"s","text_input":"a","output_length":5}"#).row;
        assert_eq!((row.arrival_time, row.arrival_source), (None, ArrivalSource::None));
        let row = trial::draft(FORMAT, r#"{"session_id":"s","timestamp":1795511702123}"#).row;
        assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
        assert_eq!(row.arrival_source, ArrivalSource::Logged);
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("aiperf-sessions.jsonl") else { return };
        let sessions: Vec<_> = tried.drafts.iter().map(|draft| draft.row.session_id_hash).collect();
        assert!(sessions[0] == sessions[1] && sessions[1] != sessions[2]);
        assert_eq!(tried.drafts[3].row.arrival_time, Some(WallTime(5_000_000)));
    }
}
