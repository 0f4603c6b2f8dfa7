//! WEKA's agentic traces: a line a conversation, with its requests.
//!
//! `t` counts seconds from the conversation's own start, so all conversations begin at 0; that is
//! said as a decision. Requests of subagents stand inside their parent's list and are requests of
//! the conversation like the others. Block ids are local to the conversation. A conversation
//! without requests gives no record. Source: loaders of guidellm and aiperf.

use super::parts::{array, blocks, count, session};
use super::{At, Format, Hints, Made, ObjectAdapter, Origin, Out, Refusal, Shared, fill};
use crate::domain::record::{
    ArrivalSource, Hash128, HashScope, Operation, RequestRecord, Status, TokenSource, TtftSource,
};
use crate::domain::time::WallTime;
use crate::domain::trace::Decision;
use crate::ingest::error::IngestError;
use crate::ingest::loose::FieldError;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

/// Subagents in subagents that are followed.
const MAX_DEPTH: u32 = 16;

wire! { Conversation { id = "id", requests = "requests", block_size = "block_size" } }

wire! { Request {
    time = "t",
    kind = "type",
    model = "model",
    input = "in",
    output = "out",
    blocks = "hash_ids",
    duration = "api_time",
    think = "think_time",
    ttft = "ttft",
    requests = "requests",
} }

struct Weka {
    conversation: Picker,
    request: Picker,
}

/// What the requests of a conversation share.
struct Common {
    at: At,
    session: Option<Hash128>,
    block_size: Option<u32>,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let decision = Decision {
        what: "origin of `t`".to_owned(),
        value: "the start of each conversation".to_owned(),
        why: "the trace does not say when conversations began; all begin at 0".to_owned(),
    };
    let adapter = Weka { conversation: Conversation::picker(), request: Request::picker() };
    Ok((Box::new(adapter), vec![decision]))
}

impl ObjectAdapter for Weka {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let conversation = Conversation::read(&self.conversation, line)?;
        let requests = conversation.requests.json().unwrap_or_default();
        if array(&requests).is_empty() {
            shared.remark("empty conversations");
            return Ok(());
        }
        let common = Common {
            at,
            session: shared.hash(Column::Session, &conversation.id),
            block_size: count(&conversation.block_size),
        };
        self.flatten(&requests, (&common, 0), shared, out);
        Ok(())
    }

    fn origin(&self) -> Origin {
        Origin::Offsets
    }
}

impl Weka {
    /// Reads a list of requests, and those inside them.
    fn flatten(
        &self,
        list: &str,
        (common, depth): (&Common, u32),
        shared: &mut Shared,
        out: &mut Out,
    ) {
        if depth > MAX_DEPTH {
            out.reject(FieldError::new("requests", "is nested too deeply"));
            return;
        }
        for raw in array(list) {
            let request = match Request::read(&self.request, raw.get()) {
                Ok(request) => request,
                Err(error) => {
                    out.reject(error);
                    continue;
                }
            };
            let nested = request.requests.json();
            if nested.is_none() && request.kind.text() != Some("subagent") {
                match row(&request, common, shared) {
                    Ok(Some(row)) => out.keep(row),
                    Ok(None) => out.drop("no_time"),
                    Err(error) => out.reject(error),
                }
            }
            if let Some(nested) = nested {
                self.flatten(&nested, (common, depth + 1), shared, out);
            }
        }
    }
}

fn row(
    request: &Request<'_>,
    common: &Common,
    shared: &mut Shared,
) -> Result<Option<RequestRecord>, FieldError> {
    let seconds = |value, field| {
        Ok::<_, FieldError>(fill::span_us(value, field, fill::SECONDS)?.filter(|span| *span >= 0))
    };
    let Some(arrival) = seconds(&request.time, "t")? else { return Ok(None) };
    let format = shared.name(Format::WekaTrace.as_str());
    let mut row = RequestRecord::unknown(format, common.at.file_id, common.at.line);
    row.arrival_time = Some(WallTime(arrival));
    row.arrival_source = ArrivalSource::RelativeOrigin;
    if let Some(duration) = seconds(&request.duration, "api_time")? {
        fill::duration(&mut row, duration);
        row.status = Status::Ok;
    }
    fill::ttft(&mut row, seconds(&request.ttft, "ttft")?, TtftSource::Logged);
    row.think_time_us = seconds(&request.think, "think_time")?.filter(|think| *think > 0);
    row.operation = Operation::Chat;
    row.stream = match request.kind.text() {
        Some("s") => Some(true),
        Some("n") => Some(false),
        _ => None,
    };
    row.request_model = shared.model(&request.model);
    let counts = (request.input.count("in")?, request.output.count("out")?, None);
    fill::tokens(&mut row, counts, TokenSource::Logged, fill::Zeros::Unknown);
    session(&mut row, common.session);
    // Ids of two conversations mean different blocks: the conversation goes into their hashes.
    let Hash128(own) = common.session.unwrap_or(Hash128([0; 16]));
    let own = own.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    let local = blocks(&request.blocks, &shared.hasher);
    row.prefix_block_hashes = local.into_iter().map(|id| shared.hasher.block(id ^ own)).collect();
    if !row.prefix_block_hashes.is_empty() {
        row.prefix_block_size = common.block_size;
        row.prefix_hash_scope = Some(HashScope::Session);
    }
    Ok(Some(row))
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;

    const FORMAT: Format = Format::WekaTrace;

    fn conversation(id: &str, requests: &str) -> String {
        format!("{{\"id\":\"{id}\",\"block_size\":64,\"tool_tokens\":1,\"requests\":[{requests}]}}")
    }

    #[test]
    fn subagents_are_flat_and_in_the_session() {
        let line = conversation(
            "c",
            r#"{"t":0.5,"type":"s","model":"m-1","in":1320,"out":160,"hash_ids":[0,1],"api_time":3.5,"ttft":0.418},
            {"t":5.2,"type":"subagent","requests":[{"t":5.3,"type":"n","in":5,"out":0},
            {"t":6,"type":"subagent","requests":[{"t":7,"think_time":1.5}]}]},{"t":9,"type":"subagent"}"#,
        );
        let tried = trial::lines(FORMAT, &[&line]);
        let [first, second, third] = &tried.drafts[..] else { panic!("three rows: {tried:?}") };
        assert_eq!(first.row.arrival_time, Some(WallTime(500_000)));
        assert_eq!(
            (first.row.duration_us, first.row.time_to_first_chunk_us),
            (Some(3_500_000), Some(418_000))
        );
        assert_eq!((first.row.input_tokens, first.row.output_tokens), (Some(1_320), Some(160)));
        assert_eq!(first.row.prefix_hash_scope, Some(HashScope::Session));
        assert_eq!((first.row.stream, second.row.stream), (Some(true), Some(false)));
        assert_eq!(second.row.output_tokens, None);
        assert_eq!(
            (third.row.arrival_time, third.row.think_time_us),
            (Some(WallTime(7_000_000)), Some(1_500_000))
        );
        assert_eq!(first.row.session_id_hash, third.row.session_id_hash);
    }

    #[test]
    fn block_ids_are_local() {
        let of = |id: &str| {
            let line = conversation(id, r#"{"t":0,"hash_ids":[0,1]}"#);
            trial::draft(FORMAT, &line).row.prefix_block_hashes
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
    }

    #[test]
    fn empty_deep_and_broken_lists() {
        let mut deep = "{\"t\":1}".to_owned();
        for _ in 0..20 {
            deep = format!("{{\"requests\":[{deep}]}}");
        }
        let broken = r#"{"t":-1},{"t":"canary"},{"in":1},7"#;
        let lines = [conversation("a", ""), conversation("b", &deep), conversation("c", broken)];
        let tried = trial::lines(FORMAT, &[&lines[0], &lines[1], &lines[2]]);
        assert_eq!(tried.drafts.len(), 0);
        assert_eq!(tried.drops, ["no_time", "no_time"]);
        assert_eq!(tried.rejects.len(), 3);
        assert_eq!(tried.shared.remarks["empty conversations"], 1);
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("weka-trace.jsonl") else { return };
        assert_eq!(tried.drafts[1].row.input_tokens, Some(500));
        assert_eq!(tried.drafts[2].row.think_time_us, Some(1_000_000));
    }
}
