//! Outcomes to columns and back.
//!
//! Chunk instants are stored as deltas: the first value is the first chunk's instant, each further
//! one the gap before its chunk.

use crate::domain::convert;
use crate::domain::metric::{self, Anchor};
use crate::domain::outcome::{Failure, Instants, RequestOutcome, UsageSource};
use crate::domain::scenario::Scenario;
use crate::domain::time::Nanos;
use crate::table::decode::Decoder;
use crate::table::encode::Encoder;
use crate::table::error::TableError;
use crate::table::schema::{CHUNKS, REQUESTS};
use arrow::array::ArrayRef;
use arrow::datatypes::{FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use std::path::Path;
use std::sync::Arc;

/// An instant's column, and how an outcome gives and takes it.
type Instant = (&'static str, fn(&Instants) -> Option<Nanos>, fn(&mut Instants, Nanos));

/// Pairs each column of an instant with its field.
macro_rules! instants {
    ($($column:literal $field:ident;)+) => {
        &[$(($column, |at| at.$field, |at, value| at.$field = Some(value))),+]
    };
}

const INSTANTS: &[Instant] = instants! {
    "scheduled_ns" scheduled;
    "dispatched_ns" dispatched;
    "connect_start_ns" connect_start;
    "connected_ns" connected;
    "tls_done_ns" tls_done;
    "sent_ns" sent;
    "request_written_ns" request_written;
    "first_byte_ns" first_byte;
    "headers_ns" headers;
    "first_event_ns" first_event;
    "first_reasoning_ns" first_reasoning;
    "first_content_ns" first_content;
    "first_tool_ns" first_tool;
    "first_text_ns" first_text;
    "last_text_ns" last_text;
    "done_marker_ns" done_marker;
    "closed_ns" closed;
};

/// A derived column and its metric.
type Derived = (&'static str, fn(&RequestOutcome) -> Option<Nanos>);

const DERIVED: &[Derived] = &[
    ("ttft_ns", |r| metric::ttft(&r.at, Anchor::Actual)),
    ("ttft_from_intended_ns", |r| metric::ttft(&r.at, Anchor::Intended)),
    ("ttft_content_ns", |r| metric::ttft_content(&r.at, Anchor::Actual)),
    ("ttft_content_from_intended_ns", |r| metric::ttft_content(&r.at, Anchor::Intended)),
    ("tpot_ns", |r| metric::tpot(&r.at, r.output_tokens)),
    ("e2e_ns", |r| metric::e2e(&r.at, Anchor::Actual)),
    ("e2e_from_intended_ns", |r| metric::e2e(&r.at, Anchor::Intended)),
    ("schedule_delay_ns", |r| metric::schedule_delay(&r.at)),
    ("mean_chunk_gap_ns", |r| metric::mean_chunk_gap(&r.chunks)),
];

/// Returns the columns of `requests.parquet`; a failed request has no latency but its delay.
pub(super) fn encode_requests(
    path: &Path,
    rows: &[RequestOutcome],
    _first: u64,
) -> Result<RecordBatch, TableError> {
    let mut to = Encoder::new(&REQUESTS, path, rows);
    to.int("request_id", |r| Some(r.request_id))
        .text("scenario", |r| Some(r.scenario.as_str()))
        .int("session_id", |r| r.session_id)
        .int("turn_index", |r| r.turn_index)
        .int("planned_input_tokens", |r| Some(r.planned_input_tokens))
        .int("planned_max_tokens", |r| Some(r.planned_max_tokens))
        .bool("was_sent", |r| Some(r.was_sent))
        .int("http_status_code", |r| r.http_status_code)
        .text("failure", |r| r.failure.map(Failure::as_str))
        .text("failure_message", |r| r.failure_message.as_deref())
        .int("input_tokens", |r| r.input_tokens)
        .int("cached_input_tokens", |r| r.cached_input_tokens)
        .int("output_tokens", |r| r.output_tokens)
        .int("reasoning_tokens", |r| r.reasoning_tokens)
        .text("usage_source", |r| r.usage_source.map(UsageSource::as_str))
        .text("finish_reason", |r| r.finish_reason.as_deref())
        .bool("connection_reused", |r| r.connection_reused)
        .int("text_bytes", |r| Some(r.text_bytes))
        .int("largest_read_text_bytes", |r| Some(r.largest_read_text_bytes))
        .int("in_flight", |r| r.in_flight);
    for (column, get, _) in INSTANTS {
        to.int(column, |r| get(&r.at).map(|at| at.0));
    }
    for (column, metric) in DERIVED {
        let of_delay = *column == "schedule_delay_ns";
        to.int(column, |r| {
            let counts = of_delay || r.succeeded();
            counts.then(|| metric(r)).flatten().map(|span| span.0)
        });
    }
    to.finish()
}

/// Returns the columns of `chunks.parquet`.
pub(super) fn encode_chunks(
    path: &Path,
    rows: &[RequestOutcome],
    _first: u64,
) -> Result<RecordBatch, TableError> {
    let mut to = Encoder::new(&CHUNKS, path, rows);
    to.int("request_id", |r| Some(r.request_id))
        .ints("chunk_deltas_ns", |r| Some(deltas(&r.chunks)));
    to.finish()
}

fn deltas(chunks: &[Nanos]) -> impl Iterator<Item = i128> + '_ {
    let before = std::iter::once(0).chain(chunks.iter().map(|chunk| i128::from(chunk.0)));
    chunks.iter().zip(before).map(|(chunk, before)| i128::from(chunk.0) - before)
}

/// Returns the schema of the forerunner: the columns of the requests and the chunks beside them.
pub(super) fn schema() -> Schema {
    let chunks = CHUNKS.arrow();
    let fields: Vec<FieldRef> =
        REQUESTS.arrow().fields().iter().chain(chunks.fields().iter().skip(1)).cloned().collect();
    Schema::new(fields)
}

/// Returns a batch of the forerunner.
pub(super) fn encode_both(path: &Path, rows: &[RequestOutcome]) -> Result<RecordBatch, TableError> {
    let requests = encode_requests(path, rows, 0)?;
    let chunks = encode_chunks(path, rows, 0)?;
    let arrays: Vec<ArrayRef> =
        requests.columns().iter().chain(chunks.columns().iter().skip(1)).cloned().collect();
    RecordBatch::try_new(Arc::new(schema()), arrays)
        .map_err(|source| TableError::columns(path, "write", source))
}

/// Returns the outcomes of a batch of the forerunner.
pub(super) fn decode_both(
    path: &Path,
    batch: &RecordBatch,
) -> Result<Vec<RequestOutcome>, TableError> {
    let mut rows = decode_requests(path, batch)?;
    for (row, chunks) in rows.iter_mut().zip(decode_chunks(path, batch)?) {
        row.chunks = chunks.instants;
    }
    Ok(rows)
}

/// Returns the outcomes of a batch of `requests.parquet`, without chunks.
pub(super) fn decode_requests(
    path: &Path,
    batch: &RecordBatch,
) -> Result<Vec<RequestOutcome>, TableError> {
    let mut from = Decoder::new(&REQUESTS, path, batch, &RequestOutcome::blank());
    from.int("request_id", |r, v| r.request_id = v)
        .word("scenario", Scenario::parse, |r, v| r.scenario = v)
        .int("session_id", |r, v| r.session_id = Some(v))
        .int("turn_index", |r, v| r.turn_index = Some(v))
        .int("planned_input_tokens", |r, v| r.planned_input_tokens = v)
        .int("planned_max_tokens", |r, v| r.planned_max_tokens = v)
        .bool("was_sent", |r, v| r.was_sent = v)
        .int("http_status_code", |r, v| r.http_status_code = Some(v))
        .word("failure", Failure::parse, |r, v| r.failure = Some(v))
        .text("failure_message", |r, v| r.failure_message = Some(v.to_owned()))
        .int("input_tokens", |r, v| r.input_tokens = Some(v))
        .int("cached_input_tokens", |r, v| r.cached_input_tokens = Some(v))
        .int("output_tokens", |r, v| r.output_tokens = Some(v))
        .int("reasoning_tokens", |r, v| r.reasoning_tokens = Some(v))
        .word("usage_source", UsageSource::parse, |r, v| r.usage_source = Some(v))
        .text("finish_reason", |r, v| r.finish_reason = Some(v.to_owned()))
        .bool("connection_reused", |r, v| r.connection_reused = Some(v))
        .int("text_bytes", |r, v| r.text_bytes = v)
        .int("largest_read_text_bytes", |r, v| r.largest_read_text_bytes = v)
        .int("in_flight", |r, v| r.in_flight = Some(v));
    for (column, _, set) in INSTANTS {
        from.int(column, |r, v| set(&mut r.at, Nanos(v)));
    }
    from.finish()
}

/// The chunks of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    /// The request.
    pub(super) request_id: u64,
    /// When each chunk came.
    pub(super) instants: Vec<Nanos>,
    deltas: Vec<i64>,
}

/// Returns the chunks of a batch.
pub(super) fn decode_chunks(path: &Path, batch: &RecordBatch) -> Result<Vec<Chunks>, TableError> {
    let mut from = Decoder::new(&CHUNKS, path, batch, &Chunks::default());
    from.int("request_id", |r, v| r.request_id = v)
        .ints("chunk_deltas_ns", |r, deltas| r.deltas = deltas);
    let mut rows = from.finish()?;
    for (at, row) in rows.iter_mut().enumerate() {
        let sum = row.deltas.iter().try_fold((0_u64, Vec::new()), |(sum, mut all), &delta| {
            let instant = sum.checked_add_signed(delta)?;
            all.push(Nanos(instant));
            Some((instant, all))
        });
        let Some((_, instants)) = sum else {
            return Err(TableError::Value {
                path: path.to_owned(),
                column: "chunk_deltas_ns",
                row: convert::count(at),
                problem: "a chunk before the start of the run".to_owned(),
            });
        };
        row.instants = instants;
        row.deltas = Vec::new();
    }
    Ok(rows)
}
