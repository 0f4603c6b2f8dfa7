//! A run's `requests.parquet` and `chunks.parquet`, and their forerunner during the run.
//!
//! While a run goes on, outcomes are appended to `requests.arrows.partial`, an Arrow IPC stream
//! that can be read up to its last batch. [`OutcomeRecorder::finish`] sorts it by `request_id` and
//! turns it into the two Parquet files; after a kill, [`recover`] does the same and marks every
//! planned request without an outcome as `unknown_after_kill`. The recorder holds a lock on the
//! forerunner, so that nobody recovers a run that goes on. Latencies in the columns come from
//! `domain::metric`.

mod columns;
mod lock;
mod sorted;

use super::error::TableError;
use super::file::{FileReader, RowWriter};
use super::ipc::{Ending, IpcReader, IpcWriter};
use super::schema::{CHUNKS, REQUESTS};
use crate::domain::outcome::{Failure, RequestOutcome};
use crate::domain::schedule::ScheduledRequest;
use crate::domain::time::{NANOS_PER_SECOND, Nanos};
use serde::{Deserialize, Serialize};
use sorted::Sorted;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};

/// File name of the forerunner.
pub const PARTIAL_FILE: &str = "requests.arrows.partial";
/// Outcomes that are held back at most before they are written.
pub const FLUSH_ROWS: usize = 1_000;

/// Metadata of `requests.parquet`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeMetadata {
    /// Whether the run was killed and its outcomes were recovered.
    pub recovered: bool,
    /// Outcomes that were recorded.
    pub recorded: u64,
    /// Planned requests without an outcome.
    pub unknown_after_kill: u64,
}

/// Records outcomes during a run.
#[derive(Debug)]
pub struct OutcomeRecorder {
    dir: PathBuf,
    stream: IpcWriter,
    pending: Vec<RequestOutcome>,
    pending_since: Option<Nanos>,
    recorded: Ids,
    /// Held as long as this lives: the run goes on.
    _lock: File,
}

impl OutcomeRecorder {
    /// Creates the forerunner in a run directory.
    ///
    /// # Errors
    ///
    /// If the directory holds outcomes already, or the system refuses, also the lock.
    pub fn create(dir: &Path) -> Result<Self, TableError> {
        let path = dir.join(PARTIAL_FILE);
        for path in [dir.join(REQUESTS.file), path.clone()] {
            if path.exists() {
                return Err(TableError::Exists { path });
            }
        }
        let stream = IpcWriter::create(&path, &columns::schema())?;
        Ok(Self {
            _lock: lock::take(&path)?,
            dir: dir.to_owned(),
            stream,
            pending: Vec::new(),
            pending_since: None,
            recorded: Ids::default(),
        })
    }

    /// Appends outcomes, in any order.
    ///
    /// They are written when [`FLUSH_ROWS`] are held back, or when they span one second of the
    /// run by their last instants. A caller that waits for outcomes calls
    /// [`OutcomeRecorder::flush`] at least each second.
    ///
    /// # Errors
    ///
    /// If a request was recorded before, a value does not fit its column, or the system refuses.
    pub fn append(&mut self, outcomes: &[RequestOutcome]) -> Result<(), TableError> {
        for outcome in outcomes {
            if !self.recorded.insert(outcome.request_id) {
                return Err(TableError::Twice {
                    path: self.dir.join(PARTIAL_FILE),
                    request_id: outcome.request_id,
                });
            }
            self.pending.push(outcome.clone());
            let last = outcome.at.closed.or(outcome.at.sent).or(outcome.at.scheduled);
            let since = self.pending_since.or(last);
            self.pending_since = since;
            let span = last.zip(since).and_then(|(last, since)| last.since(since));
            let one_second = span.is_some_and(|span| span.0 >= NANOS_PER_SECOND);
            if one_second || self.pending.len() >= FLUSH_ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes what is held back.
    ///
    /// # Errors
    ///
    /// If a value does not fit its column, or the system refuses.
    pub fn flush(&mut self) -> Result<(), TableError> {
        if !self.pending.is_empty() {
            let path = self.dir.join(PARTIAL_FILE);
            self.stream.write(&columns::encode_both(&path, &self.pending)?)?;
            self.stream.flush()?;
            self.pending.clear();
            self.pending_since = None;
        }
        Ok(())
    }

    /// Returns the outcomes recorded so far.
    pub fn rows(&self) -> u64 {
        self.recorded.count
    }

    /// Writes `requests.parquet` and `chunks.parquet` and removes the forerunner.
    ///
    /// # Errors
    ///
    /// If the system refuses; the forerunner then stays and [`recover`] can be tried.
    pub fn finish(mut self) -> Result<(), TableError> {
        self.flush()?;
        self.stream.finish()?;
        let nothing = std::iter::empty::<Result<Vec<ScheduledRequest>, TableError>>();
        convert_partial(&self.dir, nothing, Ending::Whole).map(|_| ())
    }
}

/// A set of ids that lie close together: one bit each, 64 to a word.
#[derive(Debug, Default)]
struct Ids {
    words: BTreeMap<u64, u64>,
    count: u64,
}

impl Ids {
    /// Adds an id; returns whether it is new.
    fn insert(&mut self, id: u64) -> bool {
        let word = self.words.entry(id / 64).or_default();
        let bit = 1 << (id % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(new);
        new
    }
}

/// Returns whether a run directory holds a forerunner, so that [`recover`] is needed.
pub fn needs_recovery(dir: &Path) -> bool {
    dir.join(PARTIAL_FILE).exists()
}

/// Turns the forerunner that a killed run left behind into `requests.parquet` and
/// `chunks.parquet`.
///
/// `planned` are the batches of the run's plan (a [`super::schedule::ScheduleReader`]). A planned
/// request without an outcome becomes a row with the failure `unknown_after_kill`; whether it was
/// sent is not known, and `was_sent` is false.
///
/// # Errors
///
/// If there is no forerunner, the run that writes it goes on, or a file cannot be read or written.
pub fn recover(
    dir: &Path,
    planned: impl IntoIterator<Item = Result<Vec<ScheduledRequest>, TableError>>,
) -> Result<OutcomeMetadata, TableError> {
    let partial = dir.join(PARTIAL_FILE);
    let _held = partial.exists().then(|| lock::take(&partial)).transpose()?;
    convert_partial(dir, planned, Ending::MayBreakOff)
}

fn convert_partial(
    dir: &Path,
    planned: impl IntoIterator<Item = Result<Vec<ScheduledRequest>, TableError>>,
    ending: Ending,
) -> Result<OutcomeMetadata, TableError> {
    let partial = dir.join(PARTIAL_FILE);
    if !partial.exists() {
        let made_by = super::error::made_by("requests");
        return Err(TableError::Missing { path: partial, made_by });
    }
    let mut outcomes = Sorted::new(dir, IpcReader::open(&partial, ending)?)?;
    let mut output = Output::create(dir)?;
    let mut metadata =
        OutcomeMetadata { recovered: ending == Ending::MayBreakOff, ..Default::default() };
    let mut next = outcomes.next().transpose()?;
    for batch in planned {
        for planned in batch? {
            while let Some(outcome) = next.take_if(|next| next.request_id < planned.request_id) {
                output.write(outcome, &mut metadata.recorded)?;
                next = outcomes.next().transpose()?;
            }
            if next.as_ref().is_none_or(|next| next.request_id > planned.request_id) {
                output.write(unknown_after_kill(&planned), &mut metadata.unknown_after_kill)?;
            }
        }
    }
    while let Some(outcome) = next {
        output.write(outcome, &mut metadata.recorded)?;
        next = outcomes.next().transpose()?;
    }
    output.finish(&metadata)?;
    drop(outcomes);
    std::fs::remove_file(&partial).map_err(|source| TableError::io(&partial, "remove", source))?;
    Ok(metadata)
}

/// The two Parquet files of a run.
struct Output {
    requests: RowWriter<RequestOutcome>,
    chunks: RowWriter<RequestOutcome>,
}

impl Output {
    fn create(dir: &Path) -> Result<Self, TableError> {
        let requests = dir.join(REQUESTS.file);
        let chunks = dir.join(CHUNKS.file);
        Ok(Self {
            requests: RowWriter::create(&REQUESTS, &requests, true, columns::encode_requests)?,
            chunks: RowWriter::create(&CHUNKS, &chunks, true, columns::encode_chunks)?,
        })
    }

    fn write(&mut self, mut outcome: RequestOutcome, counter: &mut u64) -> Result<(), TableError> {
        *counter += 1;
        self.requests.write(std::slice::from_ref(&outcome))?;
        if !outcome.chunks.is_empty() {
            outcome.failure_message = None;
            self.chunks.write(std::slice::from_ref(&outcome))?;
        }
        Ok(())
    }

    /// Renames the chunks first: a run directory with `requests.parquet` is complete.
    fn finish(self, metadata: &OutcomeMetadata) -> Result<(), TableError> {
        self.chunks.finish(metadata)?;
        self.requests.finish(metadata)
    }
}

/// Returns the outcome of a planned request of which nothing is known.
fn unknown_after_kill(planned: &ScheduledRequest) -> RequestOutcome {
    RequestOutcome { failure: Some(Failure::UnknownAfterKill), ..RequestOutcome::planned(planned) }
}

/// Reads the outcomes of a run in batches, in order of `request_id`, chunks joined back in.
#[derive(Debug)]
pub struct OutcomeReader {
    requests: FileReader,
    metadata: OutcomeMetadata,
    chunks: Option<FileReader>,
    ahead: VecDeque<columns::Chunks>,
}

impl OutcomeReader {
    /// Opens the outcomes in a run directory; without `chunks.parquet` no request has chunks.
    ///
    /// # Errors
    ///
    /// If a file is missing, not Parquet, not of a run, or of another schema version. After a
    /// kill there is no `requests.parquet` until [`recover`] has made it.
    pub fn open(dir: &Path) -> Result<Self, TableError> {
        let path = dir.join(REQUESTS.file);
        if !path.exists() && needs_recovery(dir) {
            let made_by =
                "the run goes on or was killed; `tracewright report` recovers a killed one";
            return Err(TableError::Missing { path, made_by });
        }
        let requests = FileReader::open(&REQUESTS, &path)?;
        let metadata = requests.metadata()?;
        let chunks = dir.join(CHUNKS.file);
        let chunks = chunks.exists().then(|| FileReader::open(&CHUNKS, &chunks)).transpose()?;
        Ok(Self { requests, metadata, chunks, ahead: VecDeque::new() })
    }

    /// Returns what is known of the recording.
    pub const fn metadata(&self) -> &OutcomeMetadata {
        &self.metadata
    }

    /// Returns the rows of the whole run.
    pub const fn rows(&self) -> u64 {
        self.requests.rows()
    }

    /// Puts the chunks of a request into it.
    fn join(&mut self, outcome: &mut RequestOutcome) -> Result<(), TableError> {
        loop {
            if self.ahead.front().is_some_and(|front| front.request_id >= outcome.request_id) {
                let found = self.ahead.pop_front_if(|at| at.request_id == outcome.request_id);
                outcome.chunks = found.map(|found| found.instants).unwrap_or_default();
                return Ok(());
            }
            if self.ahead.pop_front().is_some() {
                continue;
            }
            let Some(file) = &mut self.chunks else { return Ok(()) };
            match file.next_rows(columns::decode_chunks) {
                Some(batch) => self.ahead = batch?.into(),
                None => self.chunks = None,
            }
        }
    }
}

impl Iterator for OutcomeReader {
    type Item = Result<Vec<RequestOutcome>, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.requests.next_rows(columns::decode_requests)?;
        Some(rows.and_then(|mut rows| {
            rows.iter_mut().try_for_each(|row| self.join(row))?;
            Ok(rows)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::convert;
    use crate::domain::outcome::Instants;
    use crate::table::samples::{Draw, plan_metadata};
    use crate::table::schedule::{ScheduleReader, ScheduleWriter};
    use proptest::prelude::*;

    fn read(dir: &Path) -> Vec<RequestOutcome> {
        OutcomeReader::open(dir).unwrap().flat_map(Result::unwrap).collect()
    }

    fn shown(dir: &Path, error: &TableError) -> String {
        let hint = error.hint().unwrap_or_default();
        format!("{error}\nhint: {hint}").replace(dir.to_str().unwrap(), "DIR")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn what_is_recorded_is_read_in_order(seed: u64, n in 0_u64..40) {
            let dir = tempfile::tempdir().unwrap();
            let ids: Vec<u64> = (0..n).rev().collect();
            let mut outcomes = Draw::new(seed).outcomes(&ids);
            let mut recorder = OutcomeRecorder::create(dir.path()).unwrap();
            recorder.append(&outcomes).unwrap();
            recorder.finish().unwrap();
            prop_assert!(!needs_recovery(dir.path()));
            outcomes.reverse();
            prop_assert_eq!(read(dir.path()), outcomes);
        }

        #[test]
        fn a_killed_run_is_recovered_up_to_its_last_batch(seed: u64, cut in 0.0_f64..1.0) {
            let dir = tempfile::tempdir().unwrap();
            let mut draw = Draw::new(seed);
            let plan = draw.plan(30);
            let plan_path = dir.path().join("plan.parquet");
            let mut writer = ScheduleWriter::create(&plan_path, false).unwrap();
            writer.write(&plan).unwrap();
            writer.finish(&plan_metadata()).unwrap();
            let ids: Vec<u64> = plan.iter().rev().step_by(2).map(|p| p.request_id).collect();
            let outcomes = draw.outcomes(&ids);
            let mut recorder = OutcomeRecorder::create(dir.path()).unwrap();
            for outcome in &outcomes {
                recorder.append(std::slice::from_ref(outcome)).unwrap();
                recorder.flush().unwrap();
            }
            drop(recorder);
            let partial = dir.path().join(PARTIAL_FILE);
            let bytes = std::fs::read(&partial).unwrap();
            let kept = convert::round_to_u64(convert::float_count(bytes.len()) * cut);
            let kept = convert::index(kept).unwrap();
            std::fs::write(&partial, &bytes[..kept]).unwrap();

            let metadata = recover(dir.path(), ScheduleReader::open(&plan_path).unwrap()).unwrap();
            let rows = read(dir.path());
            let ids: Vec<_> = rows.iter().map(|row| row.request_id).collect();
            let planned: Vec<_> = plan.iter().map(|planned| planned.request_id).collect();
            prop_assert_eq!(ids, planned, "one row for each planned request");
            let recorded = convert::index(metadata.recorded).unwrap();
            prop_assert_eq!(metadata.recorded + metadata.unknown_after_kill, 30);
            for (at, outcome) in outcomes.iter().enumerate() {
                let row = rows.iter().find(|row| row.request_id == outcome.request_id).unwrap();
                if at < recorded {
                    prop_assert_eq!(row, outcome, "whole batches are kept");
                } else {
                    prop_assert_eq!(row.failure, Some(Failure::UnknownAfterKill));
                }
            }
        }
    }

    #[test]
    fn ids_at_the_edges_of_words() {
        let mut ids = Ids::default();
        for id in [0, 63, 64, 127, u64::MAX] {
            assert!(ids.insert(id), "{id}");
            assert!(!ids.insert(id), "{id}");
        }
        assert_eq!(ids.count, 5);
    }

    #[test]
    fn outcomes_are_on_disk_after_a_second_of_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut outcomes = Draw::new(1).outcomes(&[0, 1, 2]);
        for (outcome, closed) in outcomes.iter_mut().zip([0, 999_999_999, 1_000_000_000]) {
            outcome.at.closed = Some(Nanos(closed));
        }
        let mut recorder = OutcomeRecorder::create(dir.path()).unwrap();
        let size = || std::fs::metadata(dir.path().join(PARTIAL_FILE)).unwrap().len();
        let empty = size();
        recorder.append(&outcomes[..2]).unwrap();
        assert_eq!(size(), empty);
        recorder.append(&outcomes[2..]).unwrap();
        assert!(size() > empty);
    }

    #[test]
    fn a_run_that_is_idle_is_not_recovered() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut recorder = OutcomeRecorder::create(dir).unwrap();
        recorder.append(&Draw::new(1).outcomes(&[0])).unwrap();
        recorder.flush().unwrap();
        insta::assert_snapshot!(shown(dir, &recover(dir, []).unwrap_err()), @"
        DIR/requests.arrows.partial: the run is still going on: this file is being written
        hint: wait until it ends, or stop it with Ctrl-C
        ");
        assert!(needs_recovery(dir), "the forerunner is still there");
        drop(recorder);
        assert_eq!(recover(dir, []).unwrap().recorded, 1);
        assert_eq!(read(dir).len(), 1);
    }

    #[test]
    fn no_latency_of_a_failed_request_but_its_delay() {
        let at = Instants {
            scheduled: Some(Nanos(5)),
            sent: Some(Nanos(7)),
            first_text: Some(Nanos(9)),
            closed: Some(Nanos(20)),
            ..Instants::default()
        };
        let ok = RequestOutcome { was_sent: true, at, ..RequestOutcome::blank() };
        let failed = RequestOutcome { failure: Some(Failure::Truncated), ..ok.clone() };
        let batch = columns::encode_requests(Path::new("x"), &[ok, failed], 0).unwrap();
        let cells = |name: &str| {
            let column = batch.column_by_name(name).unwrap();
            let column: &arrow::array::Int64Array = column.as_any().downcast_ref().unwrap();
            column.iter().collect::<Vec<_>>()
        };
        assert_eq!(cells("ttft_ns"), [Some(2), None]);
        assert_eq!(cells("ttft_from_intended_ns"), [Some(4), None]);
        assert_eq!(cells("e2e_ns"), [Some(13), None]);
        assert_eq!(cells("schedule_delay_ns"), [Some(2), Some(2)]);
        assert_eq!(cells("closed_ns"), [Some(20), Some(20)]);
    }

    #[test]
    fn refusals_say_where_and_why() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        insta::assert_snapshot!(shown(dir, &OutcomeReader::open(dir).unwrap_err()), @"
        DIR/requests.parquet: no such file
        hint: give a run directory that `tracewright replay` wrote
        ");
        insta::assert_snapshot!(shown(dir, &recover(dir, []).unwrap_err()), @"
        DIR/requests.arrows.partial: no such file
        hint: give a run directory that `tracewright replay` wrote
        ");
        let mut recorder = OutcomeRecorder::create(dir).unwrap();
        let twice = Draw::new(1).outcomes(&[4, 4]);
        insta::assert_snapshot!(shown(dir, &recorder.append(&twice).unwrap_err()), @"
        DIR/requests.arrows.partial: request 4 was recorded twice
        hint: this is a bug of tracewright; please report it
        ");
        insta::assert_snapshot!(shown(dir, &OutcomeRecorder::create(dir).unwrap_err()), @"
        DIR/requests.arrows.partial: exists already
        hint: choose another path, or overwrite with `--force`
        ");
        insta::assert_snapshot!(shown(dir, &OutcomeReader::open(dir).unwrap_err()), @"
        DIR/requests.parquet: no such file
        hint: the run goes on or was killed; `tracewright report` recovers a killed one
        ");
    }
}
