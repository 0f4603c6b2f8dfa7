//! `plan.parquet`: planned requests, written and read batch by batch.
//!
//! `request_id` ascends. The plan names its prompts by pool entry and holds no text and no hash.

use super::decode::Decoder;
use super::encode::Encoder;
use super::error::TableError;
use super::file::{FileReader, RowWriter};
use super::schema::PLAN;
use crate::domain::convert;
use crate::domain::record::Status;
use crate::domain::scenario::Scenario;
use crate::domain::schedule::{CountKind, PlanMetadata, Release, ScheduledRequest};
use crate::domain::time::Nanos;
use arrow::record_batch::RecordBatch;
use std::path::Path;

/// Writes a plan.
#[derive(Debug)]
pub struct ScheduleWriter {
    rows: RowWriter<ScheduledRequest>,
    next_id: u64,
}

impl ScheduleWriter {
    /// Creates `<path>.partial`.
    ///
    /// # Errors
    ///
    /// As [`super::output::PartialFile::create`].
    pub fn create(path: &Path, force: bool) -> Result<Self, TableError> {
        Ok(Self { rows: RowWriter::create(&PLAN, path, force, encode)?, next_id: 0 })
    }

    /// Appends rows, whose `request_id` must ascend.
    ///
    /// # Errors
    ///
    /// If a row is out of order, a value does not fit its column, or the system refuses.
    pub fn write(&mut self, requests: &[ScheduledRequest]) -> Result<(), TableError> {
        for (at, request) in requests.iter().enumerate() {
            if request.request_id < self.next_id {
                return Err(TableError::Order {
                    path: self.rows.path().to_owned(),
                    column: "request_id",
                    row: self.rows.rows() + convert::count(at),
                });
            }
            self.next_id = request.request_id.saturating_add(1);
        }
        self.rows.write(requests)
    }

    /// Writes the metadata and renames the file to its path.
    ///
    /// # Errors
    ///
    /// If the system refuses; no file is left then.
    pub fn finish(self, metadata: &PlanMetadata) -> Result<(), TableError> {
        self.rows.finish(metadata)
    }
}

/// Reads a plan in batches, in order of `request_id`.
#[derive(Debug)]
pub struct ScheduleReader {
    file: FileReader,
    metadata: PlanMetadata,
}

impl ScheduleReader {
    /// Opens a plan.
    ///
    /// # Errors
    ///
    /// If the file is missing, not Parquet, not a plan, or of another schema version.
    pub fn open(path: &Path) -> Result<Self, TableError> {
        let file = FileReader::open(&PLAN, path)?;
        let metadata = file.metadata()?;
        Ok(Self { file, metadata })
    }

    /// Returns how the plan was made.
    pub const fn metadata(&self) -> &PlanMetadata {
        &self.metadata
    }

    /// Returns the rows of the whole plan.
    pub const fn rows(&self) -> u64 {
        self.file.rows()
    }
}

impl Iterator for ScheduleReader {
    type Item = Result<Vec<ScheduledRequest>, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.file.next_rows(decode)
    }
}

fn encode(path: &Path, rows: &[ScheduledRequest], _first: u64) -> Result<RecordBatch, TableError> {
    let mut to = Encoder::new(&PLAN, path, rows);
    to.int("request_id", |r| Some(r.request_id))
        .text("scenario", |r| Some(r.scenario.as_str()))
        .int("session_id", |r| r.session_id)
        .int("turn_index", |r| r.turn_index)
        .text("release_kind", |r| Some(r.release.kind()))
        .int("scheduled_ns", |r| match r.release {
            Release::At(at) => Some(at.0),
            _ => None,
        })
        .int("after_request_id", |r| match r.release {
            Release::After { request_id, .. } => Some(request_id),
            _ => None,
        })
        .int("delay_ns", |r| match r.release {
            Release::After { delay, .. } => Some(delay.0),
            _ => None,
        })
        .parts("prompt_parts", |r| &r.prompt_parts)
        .int("input_tokens", |r| Some(r.input_tokens))
        .text("count_kind", |r| Some(r.count_kind.as_str()))
        .int("content_tokens", |r| Some(r.content_tokens))
        .int("template_tokens", |r| r.template_tokens)
        .int("max_tokens", |r| Some(r.max_tokens))
        .int("min_tokens", |r| r.min_tokens)
        .bool("stream", |r| Some(r.stream))
        .ints("prefix_block_ids", |r| {
            let ids = &r.prefix_block_ids;
            (!ids.is_empty()).then(|| ids.iter().copied())
        })
        .text("recorded_status", |r| r.recorded_status.map(Status::as_str))
        .int("repeat_of", |r| r.repeat_of);
    to.finish()
}

/// A row whose release is not yet put together.
#[derive(Clone)]
struct Row {
    request: ScheduledRequest,
    kind: String,
    scheduled: Option<u64>,
    after: Option<u64>,
    delay: Option<u64>,
}

impl Row {
    fn blank() -> Self {
        let request = ScheduledRequest {
            request_id: 0,
            scenario: Scenario::Single,
            session_id: None,
            turn_index: None,
            release: Release::WhenFree,
            prompt_parts: Vec::new(),
            input_tokens: 0,
            count_kind: CountKind::Raw,
            content_tokens: 0,
            template_tokens: None,
            max_tokens: 0,
            min_tokens: None,
            stream: true,
            prefix_block_ids: Vec::new(),
            recorded_status: None,
            repeat_of: None,
        };
        Self { request, kind: String::new(), scheduled: None, after: None, delay: None }
    }

    /// Returns the request, or `None` when kind and values of its release do not go together.
    fn into_request(self) -> Option<ScheduledRequest> {
        let release = match (self.kind.as_str(), self.scheduled, self.after, self.delay) {
            ("at", Some(at), _, _) => Release::At(Nanos(at)),
            ("after", _, Some(request_id), Some(delay)) => {
                Release::After { request_id, delay: Nanos(delay) }
            }
            ("when_free", ..) => Release::WhenFree,
            _ => return None,
        };
        Some(ScheduledRequest { release, ..self.request })
    }
}

fn decode(path: &Path, batch: &RecordBatch) -> Result<Vec<ScheduledRequest>, TableError> {
    let mut from = Decoder::new(&PLAN, path, batch, &Row::blank());
    from.int("request_id", |r, v| r.request.request_id = v)
        .word("scenario", Scenario::parse, |r, v| r.request.scenario = v)
        .int("session_id", |r, v| r.request.session_id = Some(v))
        .int("turn_index", |r, v| r.request.turn_index = Some(v))
        .text("release_kind", |r, v| v.clone_into(&mut r.kind))
        .int("scheduled_ns", |r, v| r.scheduled = Some(v))
        .int("after_request_id", |r, v| r.after = Some(v))
        .int("delay_ns", |r, v| r.delay = Some(v))
        .parts("prompt_parts", |r, v| r.request.prompt_parts = v)
        .int("input_tokens", |r, v| r.request.input_tokens = v)
        .word("count_kind", CountKind::parse, |r, v| r.request.count_kind = v)
        .int("content_tokens", |r, v| r.request.content_tokens = v)
        .int("template_tokens", |r, v| r.request.template_tokens = Some(v))
        .int("max_tokens", |r, v| r.request.max_tokens = v)
        .int("min_tokens", |r, v| r.request.min_tokens = Some(v))
        .bool("stream", |r, v| r.request.stream = v)
        .ints("prefix_block_ids", |r, v| r.request.prefix_block_ids = v)
        .word("recorded_status", Status::parse, |r, v| r.request.recorded_status = Some(v))
        .int("repeat_of", |r, v| r.request.repeat_of = Some(v));
    let rows = from.finish()?.into_iter().enumerate();
    rows.map(|(at, row)| {
        let kind = row.kind.clone();
        row.into_request().ok_or_else(|| TableError::Value {
            path: path.to_owned(),
            column: "release_kind",
            row: convert::count(at),
            problem: format!("`{kind}` without the columns it needs"),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::samples::{Draw, plan_metadata};
    use crate::table::trace::TraceReader;
    use proptest::prelude::*;

    fn write(path: &Path, plan: &[ScheduledRequest]) -> Result<(), TableError> {
        let mut writer = ScheduleWriter::create(path, true)?;
        writer.write(plan)?;
        writer.finish(&plan_metadata())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn what_is_written_is_read(seed: u64, n in 0_u64..40) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("plan.parquet");
            let plan = Draw::new(seed).plan(n);
            write(&path, &plan).unwrap();
            let reader = ScheduleReader::open(&path).unwrap();
            prop_assert_eq!(reader.rows(), n);
            prop_assert_eq!(reader.metadata(), &plan_metadata());
            let read: Vec<_> = reader.flat_map(Result::unwrap).collect();
            prop_assert_eq!(read, plan);
        }
    }

    #[test]
    fn refusals_say_where_and_why() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.parquet");
        let shown = |error: TableError| {
            let hint = error.hint().unwrap_or_default();
            format!("{error}\nhint: {hint}").replace(dir.path().to_str().unwrap(), "DIR")
        };
        let mut plan = Draw::new(1).plan(3);
        plan.swap(1, 2);
        insta::assert_snapshot!(shown(write(&path, &plan).unwrap_err()), @"
        DIR/plan.parquet: row 2 is out of order by `request_id`
        hint: sort the rows before they are written
        ");
        plan.sort_by_key(|request| request.request_id);
        if let Some(last) = plan.last_mut() {
            last.release = Release::At(Nanos(u64::MAX));
        }
        insta::assert_snapshot!(shown(write(&path, &plan).unwrap_err()), @"
        DIR/plan.parquet: column `scheduled_ns`, row 2: `18446744073709551615` does not fit `Int64`
        hint: look for this value in the input; it cannot be right
        ");
        write(&path, &[]).unwrap();
        insta::assert_snapshot!(shown(TraceReader::open(&path).unwrap_err()), @"
        DIR/plan.parquet: expected a trace, found a plan
        hint: make a trace with `tracewright ingest LOG -o trace.parquet`
        ");
    }
}
