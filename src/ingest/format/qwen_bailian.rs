//! The Qwen-Bailian traces: lengths, prefix blocks and who continues whom; no texts.
//!
//! Times are seconds from an unknown origin; a block has 16 tokens. `parent_chat_id` names the
//! request that this one continues, -1 none; a parent may lie outside the trace. `type` tells
//! searches and files in the prompt apart: explicit evidence of retrieval (`trace_type`).
//! Source: alibaba-edu/qwen-bailian-usagetraces-anon.

use super::chain::Chain;
use super::parts::{blocks, explicit_rag};
use super::{At, Draft, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared, fill};
use crate::domain::record::{
    ArrivalSource, HashScope, Operation, RagLabel, RequestRecord, TokenSource,
};
use crate::ingest::error::IngestError;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use crate::ingest::stamp::{TimeColumn, Unit};

/// Tokens in a block.
const BLOCK: u32 = 16;

wire! { Record {
    time = "timestamp",
    own = "chat_id",
    parent = "parent_chat_id",
    input = "input_length",
    output = "output_length",
    kind = "type",
    blocks = "hash_ids",
} }

struct QwenBailian {
    record: Picker,
    time: TimeColumn,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// If its times are no numbers.
pub fn make(sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    let values = sample.column("timestamp");
    let told = hints.unit("timestamp");
    let unit = Some(told.unwrap_or(Unit::Seconds));
    let (time, mut decisions) =
        TimeColumn::decide(&sample.file, "timestamp", &values, unit, &hints.zone)?;
    if told.is_none() {
        for decision in &mut decisions {
            decision.why = decision.why.replacen("`--time-unit`", "the format's unit", 1);
        }
    }
    Ok((Box::new(QwenBailian { record: Record::picker(), time }), decisions))
}

impl ObjectAdapter for QwenBailian {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let record = Record::read(&self.record, line)?;
        let Some(arrival) = self.time.read(&record.time, "timestamp", &shared.zone)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::QwenBailian.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, arrival);
        if self.time.is_relative() {
            row.arrival_source = ArrivalSource::RelativeOrigin;
        }
        row.operation = Operation::Chat;
        let input = record.input.count("input_length")?;
        let output = record.output.count("output_length")?;
        fill::tokens(&mut row, (input, output, None), TokenSource::Logged, fill::Zeros::Unknown);
        row.prefix_block_hashes = blocks(&record.blocks, &shared.hasher);
        if !row.prefix_block_hashes.is_empty() {
            row.prefix_block_size = Some(BLOCK);
            row.prefix_hash_scope = Some(HashScope::Dataset);
        }
        match record.kind.text() {
            Some("search" | "file") => explicit_rag(&mut row, "trace_type", shared),
            // The trace's own word for a prompt without either.
            Some(_) => row.rag_label = RagLabel::NoEvidence,
            None => {}
        }
        row.request_id_hash = shared.hash(Column::Request, &record.own);
        let has_parent = record.parent.id().is_some_and(|id| id != "-1");
        let previous = shared.hash(Column::Request, &record.parent).filter(|_| has_parent);
        let chain = Chain { own: row.request_id_hash, previous, ..Chain::default() };
        out.keep(Draft { row: Box::new(row), join: None, chain: Some(Box::new(chain)) });
        Ok(())
    }

    fn origin(&self) -> Origin {
        if self.time.is_relative() { Origin::Offsets } else { Origin::Dates }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use crate::domain::time::WallTime;

    const FORMAT: Format = Format::QwenBailian;

    #[test]
    fn whole_numbers_are_seconds_too() {
        let line = |own: i32, parent: i32, kind: &str| {
            format!(
                "{{\"chat_id\":{own},\"parent_chat_id\":{parent},\"timestamp\":31,\"type\":\"{kind}\",\
                 \"input_length\":88,\"output_length\":0,\"hash_ids\":[9007199254740993,9007199254740992]}}"
            )
        };
        let tried = trial::lines(FORMAT, &[&line(11, -1, "text"), &line(12, 11, "search")]);
        let [first, second] = &tried.drafts[..] else { panic!("two rows") };
        assert_eq!(first.row.arrival_time, Some(WallTime(31_000_000)));
        assert_eq!(first.row.arrival_source, ArrivalSource::RelativeOrigin);
        assert_eq!((first.row.input_tokens, first.row.output_tokens), (Some(88), None));
        let [one, two] = first.row.prefix_block_hashes[..] else { panic!("two blocks") };
        assert_ne!(one, two);
        assert_eq!(first.row.prefix_block_size, Some(16));
        let chains = [first, second].map(|draft| draft.chain.clone().unwrap());
        assert_eq!(chains[0].previous, None);
        assert!(chains[1].previous.is_some() && chains[1].previous == chains[0].own);
        assert_eq!(first.row.rag_label, RagLabel::NoEvidence);
        assert_eq!(second.row.rag_label, RagLabel::Explicit);
        assert_eq!(second.row.rag_evidence, ["trace_type".into()]);
    }

    #[test]
    fn what_is_no_record() {
        let lines =
            ["{\"chat_id\":1}", "{\"timestamp\":1,\"input_length\":-1}", "{\"timestamp\":-1}"];
        let tried = trial::lines(FORMAT, &lines);
        assert_eq!(tried.drops, ["no_time"]);
        assert_eq!(tried.rejects.len(), 2);
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("qwen-bailian.jsonl") else { return };
        let [_, search, file] = &tried.drafts[..] else { panic!("three rows") };
        assert_eq!(search.row.arrival_time, Some(WallTime(31_250_000)));
        assert_eq!(search.row.prefix_block_hashes.len(), 6);
        assert!(file.chain.as_ref().unwrap().previous.is_some());
    }
}
