//! Traces that inference-perf replays: an object a session, with spans of flat attributes.
//!
//! Times are ISO texts in UTC without a zone. The names of attributes are those of `span_fields`;
//! spans that call no model are left out as in OTLP. The trace is the session. An object without
//! spans gives no record. Source: kubernetes-sigs/inference-perf, its OpenTelemetry trace replay.

use super::otlp::fill_content;
use super::parts::{array, session};
use super::span_fields::{Fields, Kind};
use super::span_messages::Flat;
use super::{
    At, Draft, Format, Hints, Join, Made, Naive, ObjectAdapter, Out, Refusal, Role, Shared, fill,
};
use crate::domain::record::{Operation, RequestRecord};
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose, json_refusal};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

wire! { Trace { id = "trace_id", spans = "spans" } }

wire! { Span {
    trace = "trace_id",
    id = "span_id",
    parent = "parent_span_id",
    start = "start_time",
    end = "end_time",
    status = "status" | "status.status_code",
    attributes = "attributes",
} }

struct InferencePerf {
    trace: Picker,
    span: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter = InferencePerf { trace: Trace::picker(), span: Span::picker() };
    Ok((Box::new(adapter), Vec::new()))
}

/// Attributes of a span.
#[derive(Default)]
struct Attributes<'a> {
    fields: Fields<'a>,
    flat: Flat<'a>,
}

impl<'de> Visitor<'de> for Attributes<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if Fields::knows(&key) {
                self.fields.offer(&key, map.next_value()?);
            } else if Flat::knows(&key) {
                self.flat.offer(&key, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(self)
    }
}

impl ObjectAdapter for InferencePerf {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let trace = Trace::read(&self.trace, line)?;
        let spans = trace.spans.json().unwrap_or_default();
        let spans = array(&spans);
        if spans.is_empty() {
            shared.remark("empty traces");
        }
        for raw in spans {
            let read = Span::read(&self.span, raw.get());
            if let Err(error) = read.and_then(|span| decode(&span, (&trace.id, at), shared, out)) {
                out.reject(error);
            }
        }
        Ok(())
    }
}

fn decode(
    span: &Span<'_>,
    (trace, at): (&Loose<'_>, At),
    shared: &mut Shared,
    out: &mut Out,
) -> Result<(), FieldError> {
    let text = span.attributes.json().unwrap_or(std::borrow::Cow::Borrowed("{}"));
    let Attributes { fields, flat } = serde_json::Deserializer::from_str(&text)
        .deserialize_map(Attributes::default())
        .map_err(|error| FieldError { field: "attributes".into(), ..json_refusal(&error) })?;
    let role = match fields.kind() {
        Kind::Call(_) => None,
        Kind::Retrieval => Some(Role::Retrieval),
        Kind::Tool => Some(Role::Tool),
        Kind::Sum => {
            out.drop("parent_sum");
            return Ok(());
        }
        Kind::Other => {
            out.drop("not_llm");
            return Ok(());
        }
    };
    let Some(start) = shared.time(&span.start, "start_time", Naive::Utc)? else {
        out.drop("no_time");
        return Ok(());
    };
    let format = shared.name(Format::InferencePerfOtel.as_str());
    let mut row = RequestRecord::unknown(format, at.file_id, at.line);
    fill::arrival(&mut row, start);
    if let Some(end) = shared.time(&span.end, "end_time", Naive::Utc)? {
        fill::end(&mut row, end);
    }
    let id = if span.trace.is_nothing() { trace } else { &span.trace };
    row.trace_id_hash = shared.hash(Column::Trace, id);
    row.span_id_hash = shared.hash(Column::Trace, &span.id);
    row.parent_span_id_hash = shared.hash(Column::Trace, &span.parent);
    if let Some(role) = role {
        match row.trace_id_hash {
            Some(key) => {
                out.keep(Draft { row: Box::new(row), join: Some(Join { key, role }), chain: None });
            }
            None => out.drop("side_span"),
        }
        return Ok(());
    }
    row.operation = match fields.kind() {
        Kind::Call(Operation::Unknown) if !fields.asked.value.is_nothing() => Operation::Chat,
        Kind::Call(operation) => operation,
        _ => Operation::Unknown,
    };
    let failed = match span.status.text() {
        Some("OK" | "STATUS_CODE_OK") => Some(false),
        Some("ERROR" | "STATUS_CODE_ERROR") => Some(true),
        _ => None,
    };
    fields.fill(&mut row, failed, shared)?;
    let of_trace = shared.hash(Column::Session, id);
    let known = row.session_id_hash.or(of_trace);
    session(&mut row, known);
    let mut draft = Draft::from(row);
    fill_content(&fields, &flat, &mut draft, shared);
    out.keep(draft);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use crate::domain::record::{SessionSource, Status};

    const FORMAT: Format = Format::InferencePerfOtel;

    fn trace(spans: &str) -> String {
        format!("{{\"trace_id\":\"canary-t\",\"span_count\":1,\"spans\":[{spans}]}}")
    }

    #[test]
    fn attributes_are_flat_and_the_trace_is_the_session() {
        let line = trace(
            r#"{"span_id":"a","start_time":"2026-11-24T09:15:02.123000","end_time":"2026-11-24T09:15:05.623000","status":"OK",
            "attributes":{"gen_ai.request.model":"m-1","gen_ai.usage.input_tokens":1320,"gen_ai.usage.output_tokens":160,
            "gen_ai.response.time_to_first_chunk":0.418,"gen_ai.input.messages":"[{\"role\":\"user\",\"content\":\"canary\"}]",
            "gen_ai.output.text":"canary","other":{"a":[1]}}},
            {"start_time":"2026-11-24T09:16:00","status":"ERROR","attributes":{"gen_ai.request.model":"m-1"}}"#,
        );
        let tried = trial::lines(FORMAT, &[&line]);
        let [first, second] = &tried.drafts[..] else { panic!("two rows: {tried:?}") };
        let row = &first.row;
        assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
        assert_eq!((row.duration_us, row.zone_assumed), (Some(3_500_000), true));
        assert_eq!(row.time_to_first_chunk_us, Some(418_000));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1_320), Some(160)));
        assert_eq!((row.operation, row.status), (Operation::Chat, Status::Ok));
        assert_eq!(row.session_source, SessionSource::Explicit);
        assert_eq!(row.session_id_hash, second.row.session_id_hash);
        assert_eq!((second.row.status, second.row.input_tokens), (Status::Error, None));
        assert!(!format!("{:?}", tried.drafts).contains("canary"));
    }

    #[test]
    fn empty_traces_and_other_spans() {
        let others = trace(
            r#"{"start_time":"2026-11-24T09:16:00","attributes":{"gen_ai.operation.name":"retrieval"}},
            {"attributes":{"gen_ai.operation.name":"invoke_agent"}},{"attributes":{}},{"attributes":"{"},
            {"attributes":{"gen_ai.operation.name":"chat"}},
            {"start_time":"canary","attributes":{"gen_ai.operation.name":"chat"}}"#,
        );
        let tried = trial::lines(FORMAT, &[&trace(""), &others]);
        assert_eq!(tried.shared.remarks["empty traces"], 1);
        assert_eq!(tried.drops, ["parent_sum", "not_llm", "no_time"]);
        assert_eq!(tried.drafts[0].join.unwrap().role, Role::Retrieval);
        let fields: Vec<_> = tried.rejects.iter().map(|error| &*error.field).collect();
        assert_eq!(fields, ["attributes", "start_time"]);
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("inference-perf-otel.jsonl") else { return };
        assert_eq!(tried.drafts[1].row.input_tokens, Some(1_350));
        assert_eq!(tried.drafts[2].row.status, Status::Error);
    }
}
