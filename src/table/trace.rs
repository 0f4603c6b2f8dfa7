//! `trace.parquet`: observed requests, written and read batch by batch.
//!
//! Rows are in order of arrival; the writer checks it and numbers them (`row_id`). Columns that no
//! field of [`RequestRecord`] feeds are null. Empty lists are null, but for `flags`.

use super::decode::{Decoder, Interner};
use super::encode::Encoder;
use super::error::TableError;
use super::file::{FileReader, RowWriter};
use super::schema::TRACE;
use crate::domain::convert;
use crate::domain::record::{
    ArrivalSource, CacheStatus, Flag, HashScope, Operation, RagLabel, RequestRecord, SessionSource,
    Status, TokenSource, ToolClass, TtftSource, WorkloadClass,
};
use crate::domain::scenario::Scenario;
use crate::domain::time::WallTime;
use crate::domain::trace::TraceMetadata;
use arrow::record_batch::RecordBatch;
use std::path::Path;
use std::sync::Arc;

/// Writes a trace.
#[derive(Debug)]
pub struct TraceWriter {
    rows: RowWriter<RequestRecord>,
    last_arrival: Option<WallTime>,
    /// Memory of the rows not yet encoded, in bytes.
    pending_bytes: usize,
}

/// Rows wait for a full batch up to this many bytes of memory.
const MAX_PENDING_BYTES: usize = 32 << 20;

impl TraceWriter {
    /// Creates `<path>.partial`.
    ///
    /// # Errors
    ///
    /// As [`super::output::PartialFile::create`].
    pub fn create(path: &Path, force: bool) -> Result<Self, TableError> {
        let rows = RowWriter::create(&TRACE, path, force, encode)?;
        Ok(Self { rows, last_arrival: None, pending_bytes: 0 })
    }

    /// Appends rows, which must be in order of arrival; rows without an arrival come first.
    ///
    /// # Errors
    ///
    /// If a row is out of order, a value does not fit its column, or the system refuses.
    pub fn write(&mut self, records: &[RequestRecord]) -> Result<(), TableError> {
        for (at, record) in records.iter().enumerate() {
            if record.arrival_time < self.last_arrival {
                return Err(TableError::Order {
                    path: self.rows.path().to_owned(),
                    column: "arrival_time",
                    row: self.rows.rows() + convert::count(at),
                });
            }
            self.last_arrival = record.arrival_time;
        }
        let mut rest = records;
        while !rest.is_empty() {
            // As many rows as fill the batch, by number or by weight.
            let (mut taken, mut is_heavy) = (0, false);
            for record in rest.iter().take(self.rows.room()) {
                taken += 1;
                self.pending_bytes += record.weight_bytes();
                is_heavy = self.pending_bytes >= MAX_PENDING_BYTES;
                if is_heavy {
                    break;
                }
            }
            let is_full = is_heavy || taken == self.rows.room();
            let (now, later) = rest.split_at(taken);
            if is_full {
                self.rows.write_batch(now)?;
                self.pending_bytes = 0;
            } else {
                self.rows.write(now)?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Writes the metadata and renames the file to its path.
    ///
    /// # Errors
    ///
    /// If the system refuses; no file is left then.
    pub fn finish(self, metadata: &TraceMetadata) -> Result<(), TableError> {
        self.rows.finish(metadata)
    }
}

/// Reads a trace in batches, in order of arrival.
///
/// The n-th record it yields, from 0, has the `row_id` n.
#[derive(Debug)]
pub struct TraceReader {
    file: FileReader,
    metadata: TraceMetadata,
    texts: Interner,
}

impl TraceReader {
    /// Opens a trace.
    ///
    /// # Errors
    ///
    /// If the file is missing, not Parquet, not a trace, or of another schema version.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let file = FileReader::open(&TRACE, path)?;
        let metadata = file.metadata()?;
        Ok(Self { file, metadata, texts: Interner::default() })
    }

    /// Returns where the trace came from.
    pub const fn metadata(&self) -> &TraceMetadata {
        &self.metadata
    }

    /// Returns the rows of the whole trace.
    pub const fn rows(&self) -> u64 {
        self.file.rows()
    }
}

impl Iterator for TraceReader {
    type Item = Result<Vec<RequestRecord>, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.file.next_rows(|path, batch| decode(path, batch, &mut self.texts))
    }
}

/// Returns the columns of records; the first has the `row_id` `first`.
pub(super) fn encode(
    path: &Path,
    rows: &[RequestRecord],
    first: u64,
) -> Result<RecordBatch, TableError> {
    let mut to = Encoder::new(&TRACE, path, rows);
    to.dense("row_id", first);
    encode_origin(&mut to);
    encode_request(&mut to);
    encode_content(&mut to);
    encode_counts(&mut to);
    encode_end_and_session(&mut to);
    to.finish()
}

fn encode_origin(to: &mut Encoder<'_, RequestRecord>) {
    to.text("source_format", |r| Some(&*r.source_format))
        .int("source_file_id", |r| Some(r.source_file_id))
        .int("source_line", |r| r.source_line)
        .hash("request_id_hash", |r| r.request_id_hash)
        .hash("gen_ai_response_id_hash", |r| r.response_id_hash)
        .hash("trace_id_hash", |r| r.trace_id_hash)
        .hash("span_id_hash", |r| r.span_id_hash)
        .hash("parent_span_id_hash", |r| r.parent_span_id_hash)
        .int("arrival_time", |r| r.arrival_time.map(|at| at.0))
        .text("arrival_source", |r| Some(r.arrival_source.as_str()))
        .int("arrival_resolution_us", |r| Some(r.arrival_resolution_us))
        .bool("zone_assumed", |r| Some(r.zone_assumed))
        .int("end_time", |r| r.end_time.map(|at| at.0))
        .int("duration_us", |r| r.duration_us)
        .int("time_to_first_chunk_us", |r| r.time_to_first_chunk_us)
        .text("ttft_source", |r| r.ttft_source.map(TtftSource::as_str))
        .int("queue_time_us", |r| r.queue_time_us)
        .int("prefill_time_us", |r| r.prefill_time_us)
        .int("decode_time_us", |r| r.decode_time_us);
}

fn encode_request(to: &mut Encoder<'_, RequestRecord>) {
    to.text("gen_ai_operation_name", |r| Some(r.operation.as_str()))
        .text("gen_ai_provider_name", |r| r.provider_name.as_deref())
        .text("gen_ai_request_model", |r| r.request_model.as_deref())
        .text("gen_ai_response_model", |r| r.response_model.as_deref())
        .text("endpoint_family", |r| r.endpoint_family.as_deref())
        .text("workload_class", |r| Some(r.workload_class.as_str()))
        .int("gen_ai_request_max_tokens", |r| r.max_tokens)
        .float("gen_ai_request_temperature", |r| r.temperature)
        .float("gen_ai_request_top_p", |r| r.top_p)
        .int("gen_ai_request_choice_count", |r| r.choice_count)
        .bool("gen_ai_request_stream", |r| r.stream);
}

fn encode_content(to: &mut Encoder<'_, RequestRecord>) {
    to.int("message_count", |r| r.message_count)
        .int("system_count", |r| r.system_count)
        .int("user_count", |r| r.user_count)
        .int("assistant_count", |r| r.assistant_count)
        .int("tool_count", |r| r.tool_count)
        .int("tool_definition_count", |r| r.tool_definition_count)
        .int("tool_call_count", |r| r.tool_call_count)
        .texts("tool_class", |r| filled(&r.tool_class).map(|list| list.iter().map(|c| c.as_str())))
        .int("image_count", |r| r.image_count)
        .int("audio_count", |r| r.audio_count)
        .int("file_count", |r| r.file_count)
        .int("context_tokens", |r| r.context_tokens)
        .int("question_tokens", |r| r.question_tokens)
        .text("rag_label", |r| Some(r.rag_label.as_str()))
        .texts("rag_evidence", |r| filled(&r.rag_evidence).map(texts))
        .ints("prefix_block_hashes", |r| {
            filled(&r.prefix_block_hashes).map(|hashes| hashes.iter().copied())
        })
        .int("prefix_block_size", |r| r.prefix_block_size)
        .text("prefix_hash_scope", |r| r.prefix_hash_scope.map(HashScope::as_str))
        .text("scenario", |r| Some(r.scenario.as_str()));
}

fn encode_counts(to: &mut Encoder<'_, RequestRecord>) {
    to.int("gen_ai_usage_input_tokens", |r| r.input_tokens)
        .int("gen_ai_usage_output_tokens", |r| r.output_tokens)
        .int("gen_ai_usage_cache_read_input_tokens", |r| r.cache_read_input_tokens)
        .int("gen_ai_usage_cache_write_input_tokens", |r| r.cache_write_input_tokens)
        .int("gen_ai_usage_reasoning_output_tokens", |r| r.reasoning_output_tokens)
        .int("request_bytes", |r| r.request_bytes)
        .int("response_bytes", |r| r.response_bytes)
        .text("input_token_source", |r| Some(r.input_token_source.as_str()))
        .text("output_token_source", |r| Some(r.output_token_source.as_str()))
        .float("cost", |r| r.cost)
        .text("cost_currency", |r| r.cost_currency.as_deref());
}

fn encode_end_and_session(to: &mut Encoder<'_, RequestRecord>) {
    to.text("status", |r| Some(r.status.as_str()))
        .int("http_response_status_code", |r| r.http_status_code)
        .text("error_type", |r| r.error_type.as_deref())
        .texts("gen_ai_response_finish_reasons", |r| filled(&r.finish_reasons).map(texts))
        .int("attempt_count", |r| Some(r.attempt_count))
        .text("cache_status", |r| r.cache_status.map(CacheStatus::as_str))
        .hash("session_id_hash", |r| r.session_id_hash)
        .text("session_source", |r| Some(r.session_source.as_str()))
        .int("turn_index", |r| r.turn_index)
        .int("parent_row_id", |r| r.parent_row_id)
        .int("think_time_us", |r| r.think_time_us)
        .hash("user_hash", |r| r.user_hash)
        .hash("key_hash", |r| r.key_hash)
        .hash("tenant_hash", |r| r.tenant_hash)
        .texts("flags", |r| Some(r.flags.iter().map(|flag| flag.as_str())));
}

/// Returns a list, or `None` for an empty one: an empty list means that nothing is known.
fn filled<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

fn texts(list: &[Arc<str>]) -> impl Iterator<Item = &str> {
    list.iter().map(|text| &**text)
}

/// Returns the records of one batch.
pub(super) fn decode(
    path: &Path,
    batch: &RecordBatch,
    shared: &mut Interner,
) -> Result<Vec<RequestRecord>, TableError> {
    let mut blank = RequestRecord::unknown(shared.share(""), 0, 0);
    blank.source_line = None;
    let mut from = Decoder::new(&TRACE, path, batch, &blank);
    decode_texts(&mut from, shared);
    decode_words(&mut from);
    decode_times(&mut from);
    decode_numbers(&mut from);
    decode_rest(&mut from);
    from.finish()
}

fn decode_texts(from: &mut Decoder<'_, RequestRecord>, shared: &mut Interner) {
    from.text("source_format", |r, v| r.source_format = shared.share(v))
        .text("gen_ai_provider_name", |r, v| r.provider_name = Some(shared.share(v)))
        .text("gen_ai_request_model", |r, v| r.request_model = Some(shared.share(v)))
        .text("gen_ai_response_model", |r, v| r.response_model = Some(shared.share(v)))
        .text("endpoint_family", |r, v| r.endpoint_family = Some(shared.share(v)))
        .text("error_type", |r, v| r.error_type = Some(shared.share(v)))
        .text("cost_currency", |r, v| r.cost_currency = Some(shared.share(v)))
        .texts("gen_ai_response_finish_reasons", |r, v| {
            r.finish_reasons.push(shared.share(v));
            true
        })
        .texts("rag_evidence", |r, v| {
            r.rag_evidence.push(shared.share(v));
            true
        })
        .texts("tool_class", |r, v| {
            ToolClass::parse(v).map(|class| r.tool_class.push(class)).is_some()
        })
        .texts("flags", |r, v| Flag::parse(v).map(|flag| r.flags.push(flag)).is_some());
}

fn decode_words(from: &mut Decoder<'_, RequestRecord>) {
    from.word("arrival_source", ArrivalSource::parse, |r, v| r.arrival_source = v)
        .word("ttft_source", TtftSource::parse, |r, v| r.ttft_source = Some(v))
        .word("gen_ai_operation_name", Operation::parse, |r, v| r.operation = v)
        .word("workload_class", WorkloadClass::parse, |r, v| r.workload_class = v)
        .word("input_token_source", TokenSource::parse, |r, v| r.input_token_source = v)
        .word("output_token_source", TokenSource::parse, |r, v| r.output_token_source = v)
        .word("status", Status::parse, |r, v| r.status = v)
        .word("cache_status", CacheStatus::parse, |r, v| r.cache_status = Some(v))
        .word("session_source", SessionSource::parse, |r, v| r.session_source = v)
        .word("rag_label", RagLabel::parse, |r, v| r.rag_label = v)
        .word("prefix_hash_scope", HashScope::parse, |r, v| r.prefix_hash_scope = Some(v))
        .word("scenario", Scenario::parse, |r, v| r.scenario = v);
}

fn decode_times(from: &mut Decoder<'_, RequestRecord>) {
    from.int("arrival_time", |r, v| r.arrival_time = Some(WallTime(v)))
        .int("arrival_resolution_us", |r, v| r.arrival_resolution_us = v)
        .bool("zone_assumed", |r, v| r.zone_assumed = v)
        .int("end_time", |r, v| r.end_time = Some(WallTime(v)))
        .int("duration_us", |r, v| r.duration_us = Some(v))
        .int("time_to_first_chunk_us", |r, v| r.time_to_first_chunk_us = Some(v))
        .int("think_time_us", |r, v| r.think_time_us = Some(v));
}

fn decode_numbers(from: &mut Decoder<'_, RequestRecord>) {
    from.int("source_file_id", |r, v| r.source_file_id = v)
        .int("source_line", |r, v| r.source_line = Some(v))
        .int("gen_ai_usage_input_tokens", |r, v| r.input_tokens = Some(v))
        .int("gen_ai_usage_output_tokens", |r, v| r.output_tokens = Some(v))
        .int("gen_ai_usage_cache_read_input_tokens", |r, v| r.cache_read_input_tokens = Some(v))
        .int("gen_ai_usage_cache_write_input_tokens", |r, v| r.cache_write_input_tokens = Some(v))
        .int("gen_ai_usage_reasoning_output_tokens", |r, v| r.reasoning_output_tokens = Some(v))
        .int("queue_time_us", |r, v| r.queue_time_us = Some(v))
        .int("prefill_time_us", |r, v| r.prefill_time_us = Some(v))
        .int("decode_time_us", |r, v| r.decode_time_us = Some(v))
        .int("request_bytes", |r, v| r.request_bytes = Some(v))
        .int("response_bytes", |r, v| r.response_bytes = Some(v))
        .int("gen_ai_request_max_tokens", |r, v| r.max_tokens = Some(v))
        .int("http_response_status_code", |r, v| r.http_status_code = Some(v))
        .int("attempt_count", |r, v| r.attempt_count = v)
        .int("turn_index", |r, v| r.turn_index = Some(v))
        .int("parent_row_id", |r, v| r.parent_row_id = Some(v))
        .int("gen_ai_request_choice_count", |r, v| r.choice_count = Some(v))
        .int("message_count", |r, v| r.message_count = Some(v))
        .int("system_count", |r, v| r.system_count = Some(v))
        .int("user_count", |r, v| r.user_count = Some(v))
        .int("assistant_count", |r, v| r.assistant_count = Some(v))
        .int("tool_count", |r, v| r.tool_count = Some(v))
        .int("image_count", |r, v| r.image_count = Some(v))
        .int("audio_count", |r, v| r.audio_count = Some(v))
        .int("file_count", |r, v| r.file_count = Some(v))
        .int("context_tokens", |r, v| r.context_tokens = Some(v))
        .int("question_tokens", |r, v| r.question_tokens = Some(v))
        .int("tool_definition_count", |r, v| r.tool_definition_count = Some(v))
        .int("tool_call_count", |r, v| r.tool_call_count = Some(v))
        .int("prefix_block_size", |r, v| r.prefix_block_size = Some(v))
        .ints("prefix_block_hashes", |r, v| r.prefix_block_hashes = v);
}

fn decode_rest(from: &mut Decoder<'_, RequestRecord>) {
    from.hash("request_id_hash", |r, v| r.request_id_hash = Some(v))
        .hash("gen_ai_response_id_hash", |r, v| r.response_id_hash = Some(v))
        .hash("trace_id_hash", |r, v| r.trace_id_hash = Some(v))
        .hash("span_id_hash", |r, v| r.span_id_hash = Some(v))
        .hash("parent_span_id_hash", |r, v| r.parent_span_id_hash = Some(v))
        .hash("session_id_hash", |r, v| r.session_id_hash = Some(v))
        .hash("user_hash", |r, v| r.user_hash = Some(v))
        .hash("key_hash", |r, v| r.key_hash = Some(v))
        .hash("tenant_hash", |r, v| r.tenant_hash = Some(v))
        .float("gen_ai_request_temperature", |r, v| r.temperature = Some(v))
        .float("gen_ai_request_top_p", |r, v| r.top_p = Some(v))
        .float("cost", |r, v| r.cost = Some(v))
        .bool("gen_ai_request_stream", |r, v| r.stream = Some(v));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::file::BATCH_ROWS;
    use crate::table::samples::Draw;
    use proptest::prelude::*;

    fn write(path: &Path, slices: &[&[RequestRecord]]) -> Result<(), TableError> {
        let mut writer = TraceWriter::create(path, true)?;
        for slice in slices {
            writer.write(slice)?;
        }
        writer.finish(&TraceMetadata { salt_id: "s".to_owned(), ..TraceMetadata::default() })
    }

    fn read(path: &Path) -> Vec<RequestRecord> {
        TraceReader::open(path).unwrap().flat_map(Result::unwrap).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn what_is_written_is_read(seed: u64, n in 0_usize..40) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("trace.parquet");
            let records = Draw::new(seed).records(n);
            write(&path, &[&records]).unwrap();
            prop_assert_eq!(read(&path), records);
        }
    }

    #[test]
    fn bytes_do_not_depend_on_how_rows_are_sliced() {
        let dir = tempfile::tempdir().unwrap();
        let records = Draw::new(1).records(9_000);
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        write(&a, &[&records]).unwrap();
        write(&b, &records.chunks(7).collect::<Vec<_>>()).unwrap();
        assert!(std::fs::read(a).unwrap() == std::fs::read(b).unwrap());
    }

    #[test]
    fn an_empty_trace_and_its_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.parquet");
        write(&path, &[]).unwrap();
        let mut reader = TraceReader::open(&path).unwrap();
        assert_eq!((reader.rows(), reader.metadata().salt_id.as_str()), (0, "s"));
        assert!(reader.next().is_none());
    }

    #[test]
    fn batches_stay_small() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.parquet");
        let blank = RequestRecord::unknown("x".into(), 0, 1);
        write(&path, &[&vec![blank; BATCH_ROWS + 1]]).unwrap();
        let sizes: Vec<_> =
            TraceReader::open(&path).unwrap().map(|batch| batch.unwrap().len()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), BATCH_ROWS + 1);
        assert!(sizes.iter().all(|&rows| rows <= BATCH_ROWS), "{sizes:?}");
    }

    #[test]
    fn refusals_say_where_and_why() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.parquet");
        let shown = |error: TableError| {
            let hint = error.hint().unwrap_or_default();
            format!("{error}\nhint: {hint}").replace(dir.path().to_str().unwrap(), "DIR")
        };
        let mut records = Draw::new(3).records(9);
        records.reverse();
        insta::assert_snapshot!(shown(write(&path, &[&records]).unwrap_err()), @"
        DIR/trace.parquet: row 1 is out of order by `arrival_time`
        hint: sort the rows before they are written
        ");
        let mut record = RequestRecord::unknown("x".into(), 0, 1);
        record.attempt_count = u16::MAX;
        insta::assert_snapshot!(shown(write(&path, &[&[record]]).unwrap_err()), @"
        DIR/trace.parquet: column `attempt_count`, row 0: `65535` does not fit `Int16`
        hint: look for this value in the input; it cannot be right
        ");
        assert!(!path.exists());
        std::fs::write(&path, "ts,model\n1,2\n").unwrap();
        insta::assert_snapshot!(shown(TraceReader::open(&path).unwrap_err()), @"
        DIR/trace.parquet: not a Parquet file, or cut short
        hint: give a file that `tracewright` wrote; logs go through `tracewright ingest` first
        ");
    }
}
