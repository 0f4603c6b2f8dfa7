//! OpenTelemetry spans of LLM calls, as OTLP/JSON: a line an export of many spans.
//!
//! Spans of models become rows, in nanoseconds UTC; agents, chains and workflows repeat the sums
//! of their children (`parent_sum`); retrievals and tools are side spans of their trace. One call
//! seen by a gateway and by the engine below it is one row: the engine's span is joined with its
//! parent when trace and both counts agree too, so calls that differ in any of these stay apart.
//! The gateway's times and status count, and the engine's phases and first token.
//! Sources: open-telemetry/opentelemetry-proto; for names see `span_fields`.

use super::chain::Chain;
use super::parts::{array, joined};
use super::span_fields::{Fields, Kind};
use super::span_messages::{self, Flat};
use super::{
    At, Draft, Format, Hints, Join, Made, Naive, ObjectAdapter, Out, Refusal, Role, Shared, fill,
};
use crate::domain::record::{Operation, RequestRecord, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose, json_refusal};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Ranks of the spans of one call.
const GATEWAY: u8 = 2;
const ENGINE: u8 = 1;

/// Names of events at the first chunk of an answer.
const FIRST_CHUNK: &[&str] = &[
    "First Token Stream Event",
    "llm.content.completion.chunk",
    "gen_ai.content.completion.chunk",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Export<'a> {
    #[serde(borrow, default)]
    resource_spans: Option<Vec<Resource<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    #[serde(borrow, default)]
    scope_spans: Option<Vec<Scope<'a>>>,
    /// The name before 2022.
    #[serde(borrow, default)]
    instrumentation_library_spans: Option<Vec<Scope<'a>>>,
}

#[derive(Deserialize)]
struct Scope<'a> {
    #[serde(borrow, default)]
    spans: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    #[serde(borrow, default)]
    trace_id: Loose<'a>,
    #[serde(borrow, default, rename = "spanId")]
    own_id: Loose<'a>,
    #[serde(borrow, default)]
    parent_span_id: Loose<'a>,
    #[serde(borrow, default)]
    name: Loose<'a>,
    #[serde(borrow, default)]
    start_time_unix_nano: Loose<'a>,
    #[serde(borrow, default)]
    end_time_unix_nano: Loose<'a>,
    #[serde(borrow, default)]
    attributes: Option<Vec<Attribute<'a>>>,
    #[serde(borrow, default)]
    events: Loose<'a>,
    #[serde(borrow, default)]
    status: Loose<'a>,
}

#[derive(Deserialize)]
struct Attribute<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Loose<'a>,
}

/// The value of an attribute: one of these.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnyValue<'a> {
    #[serde(borrow, rename = "stringValue")]
    string: Loose<'a>,
    #[serde(borrow, rename = "intValue")]
    int: Loose<'a>,
    #[serde(borrow, rename = "doubleValue")]
    double: Loose<'a>,
    #[serde(borrow, rename = "boolValue")]
    bool: Loose<'a>,
    #[serde(borrow, rename = "arrayValue")]
    array: Loose<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Values<'a> {
    #[serde(borrow)]
    values: Vec<AnyValue<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event<'a> {
    #[serde(borrow)]
    name: Loose<'a>,
    #[serde(borrow)]
    time_unix_nano: Loose<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpanStatus<'a> {
    #[serde(borrow)]
    code: Loose<'a>,
}

struct Otlp;

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    Ok((Box::new(Otlp), Vec::new()))
}

impl ObjectAdapter for Otlp {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let export: Export<'_> = serde_json::from_str(line)?;
        let resources = export.resource_spans.unwrap_or_default().into_iter();
        let scopes = resources.flat_map(|resource| {
            let older = resource.instrumentation_library_spans.unwrap_or_default();
            resource.scope_spans.unwrap_or_default().into_iter().chain(older)
        });
        for raw in scopes.flat_map(|scope| scope.spans.unwrap_or_default()) {
            match serde_json::from_str::<Span<'_>>(raw.get()) {
                Ok(span) => decode_span(&span, at, shared, out),
                Err(error) => out.reject(json_refusal(&error)),
            }
        }
        if out.items.is_empty() {
            shared.remark("exports without spans");
        }
        Ok(())
    }
}

fn decode_span(span: &Span<'_>, at: At, shared: &mut Shared, out: &mut Out) {
    let (mut fields, mut flat) = (Fields::default(), Flat::default());
    for attribute in span.attributes.iter().flatten() {
        if Fields::knows(&attribute.key) {
            fields.offer(&attribute.key, value_of(&attribute.value));
        }
        if Flat::knows(&attribute.key) {
            flat.offer(&attribute.key, value_of(&attribute.value));
        }
    }
    let kind = match fields.kind() {
        Kind::Other if span.name.text() == Some("llm_request") => Kind::Call(Operation::Unknown),
        kind => kind,
    };
    let role = match kind {
        Kind::Other => return out.drop("not_llm"),
        Kind::Sum => return out.drop("parent_sum"),
        Kind::Call(_) => None,
        Kind::Retrieval => Some(Role::Retrieval),
        Kind::Tool => Some(Role::Tool),
    };
    let mut row = match start(span, at, shared) {
        Ok(Some(row)) => row,
        Ok(None) => return out.drop("no_time"),
        Err(error) => return out.reject(error),
    };
    if let Some(role) = role {
        match row.trace_id_hash {
            Some(key) => {
                let join = Some(Join { key, role });
                out.keep(Draft { row: Box::new(row), join, chain: None });
            }
            None => out.drop("side_span"),
        }
        return;
    }
    if let Kind::Call(operation) = kind {
        row.operation = operation;
    }
    match call(span, (&fields, &flat), row, shared) {
        Ok(draft) => out.keep(draft),
        Err(error) => out.reject(error),
    }
}

/// Returns the value of an attribute; a list and JSON in a text stay JSON.
fn value_of<'a>(value: &Loose<'a>) -> Loose<'a> {
    let Loose::Json(text) = value else { return Loose::Null };
    let any: AnyValue<'a> = serde_json::from_str(text).unwrap_or_default();
    let plain = [any.string, any.int, any.double, any.bool];
    let plain = plain.into_iter().find(|value| !value.is_nothing());
    plain.unwrap_or(any.array)
}

/// Starts the row of a span: times and ids; `None` when it has no start.
fn start(
    span: &Span<'_>,
    at: At,
    shared: &mut Shared,
) -> Result<Option<RequestRecord>, FieldError> {
    let started = shared.time(&span.start_time_unix_nano, "startTimeUnixNano", Naive::Utc)?;
    let Some(started) = started else { return Ok(None) };
    let format = shared.name(Format::OtlpSpans.as_str());
    let mut row = RequestRecord::unknown(format, at.file_id, at.line);
    fill::arrival(&mut row, started);
    // A span that was not ended has 0 there.
    let ended = &span.end_time_unix_nano;
    if ended.id().is_some_and(|id| id != "0")
        && let Some(ended) = shared.time(ended, "endTimeUnixNano", Naive::Utc)?
    {
        fill::end(&mut row, ended);
    }
    row.trace_id_hash = shared.hash(Column::Trace, &span.trace_id);
    row.span_id_hash = shared.hash(Column::Trace, &span.own_id);
    row.parent_span_id_hash = shared.hash(Column::Trace, &span.parent_span_id);
    Ok(Some(row))
}

/// Reads the call of a model.
fn call(
    span: &Span<'_>,
    (fields, flat): (&Fields<'_>, &Flat<'_>),
    mut row: RequestRecord,
    shared: &mut Shared,
) -> Result<Draft, FieldError> {
    fields.fill(&mut row, failed(span), shared)?;
    if row.time_to_first_chunk_us.is_none()
        && let (Some(first), Some(arrival)) = (first_chunk(span, shared), row.arrival_time)
    {
        let ttft = first.at.micros_since(arrival);
        fill::ttft(&mut row, Some(ttft), TtftSource::Derived);
    }
    let join = join_of(span, fields, &row, shared);
    let own = row.response_id_hash;
    let previous = shared.hash(Column::Request, &fields.previous.value);
    let chain = previous.is_some().then(|| Box::new(Chain { previous, own, ..Chain::default() }));
    let mut draft = Draft { row: Box::new(row), join, chain };
    fill_content(fields, flat, &mut draft, shared);
    let reasons = reasons(&fields.reasons.value);
    if draft.row.finish_reasons.is_empty() {
        draft.row.finish_reasons =
            reasons.iter().filter_map(|reason| shared.finish_reason(reason)).collect();
    }
    Ok(draft)
}

/// Returns what joins the spans of one call. A client's or gateway's span is known by its own id,
/// an engine's by its parent's; trace and counts must agree, and a span without counts stays alone.
fn join_of(
    span: &Span<'_>,
    fields: &Fields<'_>,
    row: &RequestRecord,
    shared: &Shared,
) -> Option<Join> {
    let is_engine = fields.is_engine() || span.name.text() == Some("llm_request");
    let (upper, rank) =
        if is_engine { (&span.parent_span_id, ENGINE) } else { (&span.own_id, GATEWAY) };
    let input = row.input_tokens?.to_string();
    let output = row.output_tokens?.to_string();
    let ids = [span.trace_id.text()?, upper.text()?, &input, &output];
    Some(Join { key: joined(shared, &ids)?, role: Role::Part(rank) })
}

/// Returns whether the span's status says that it failed; `None` where it says nothing.
fn failed(span: &Span<'_>) -> Option<bool> {
    let text = span.status.json()?;
    let status: SpanStatus<'_> = serde_json::from_str(&text).ok()?;
    match status.code.id()?.as_ref() {
        "1" | "STATUS_CODE_OK" => Some(false),
        "2" | "STATUS_CODE_ERROR" => Some(true),
        _ => None,
    }
}

/// Returns when the first chunk came, by the span's events.
fn first_chunk(span: &Span<'_>, shared: &mut Shared) -> Option<crate::ingest::stamp::Stamp> {
    let Loose::Json(events) = span.events else { return None };
    let events = array(events)
        .into_iter()
        .filter_map(|raw| serde_json::from_str::<Event<'_>>(raw.get()).ok());
    let mut first =
        events.filter(|event| event.name.text().is_some_and(|name| FIRST_CHUNK.contains(&name)));
    shared.time(&first.next()?.time_unix_nano, "timeUnixNano", Naive::Utc).ok()?
}

/// Returns the reasons of a list, of JSON in a text, or of one text.
fn reasons<'a>(value: &Loose<'a>) -> Vec<Loose<'a>> {
    match value {
        Loose::Json(text) if text.starts_with('{') => {
            let list: Values<'_> = serde_json::from_str(text).unwrap_or_default();
            list.values.into_iter().map(|value| value.string).collect()
        }
        Loose::Json(text) => serde_json::from_str(text).unwrap_or_default(),
        Loose::Text(text) if text.starts_with('[') => {
            let list: Vec<String> = serde_json::from_str(text).unwrap_or_default();
            list.into_iter().map(|reason| Loose::Text(reason.into())).collect()
        }
        other => vec![other.clone()],
    }
}

/// Reads messages that were recorded on a span.
pub(super) fn fill_content(
    fields: &Fields<'_>,
    flat: &Flat<'_>,
    draft: &mut Draft,
    shared: &mut Shared,
) {
    let instructions = fields.system.value.json();
    let asked = fields.asked.value.json();
    let asked = asked.and_then(|list| span_messages::request(&list, instructions.as_deref()));
    if let Some(body) = asked.or_else(|| flat.request()) {
        content::fill_request(&body, draft, shared);
    }
    let answered = fields.answered.value.json();
    let answered = answered.and_then(|list| span_messages::response(&list));
    let text = fields.answer_text.value.text();
    let answered = answered
        .or_else(|| flat.response())
        .or_else(|| text.and_then(span_messages::response_text));
    if let Some(body) = answered {
        content::fill_response(&body, draft, shared);
    }
}

#[cfg(test)]
mod tests;
