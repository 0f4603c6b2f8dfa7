//! Decodes lines of a format, for the tests of the formats, and the sample logs beside the
//! repository: rows and reasons as their manifest says.
//!
//! Lines -> what became of each record. Nothing of this is in the program. Samples stand in
//! `../shared`; where they are missing the test says so and is skipped.

use super::{Adapter, At, Draft, Format, Hints, Input, Item, Out, Refusal, Role, Shared, Zone};
use crate::domain::record::RequestRecord;
use crate::domain::time::WallTime;
use crate::ingest::loose::FieldError;
use crate::ingest::privacy::Hasher;
use crate::ingest::sample::{Records, Sample};
use std::collections::BTreeMap;
use std::path::Path;

/// 2026-11-24T09:15:02.123Z, the arrival of the call that all formats share.
pub(super) const ARRIVAL: WallTime = WallTime(1_795_511_702_123_000);

/// Arrival, duration and time to the first chunk in microseconds; input, cached and output tokens.
pub(super) type Facts =
    (Option<i64>, Option<i64>, Option<i64>, Option<u32>, Option<u32>, Option<u32>);

/// The call that all formats show.
pub(super) const CALL: Facts =
    (Some(ARRIVAL.0), Some(3_500_000), Some(418_000), Some(1320), Some(1024), Some(160));

/// Returns the facts of a row.
pub(super) fn facts(row: &RequestRecord) -> Facts {
    (
        row.arrival_time.map(|arrival| arrival.0),
        row.duration_us,
        row.time_to_first_chunk_us,
        row.input_tokens,
        row.cache_read_input_tokens,
        row.output_tokens,
    )
}

pub(super) fn hints(year: Option<i32>) -> Hints {
    Hints { year, ..Hints::none() }
}

pub(super) fn shared() -> Shared {
    Shared::new(Hasher::new(&[7; 32]), Zone::utc())
}

/// Makes the adapter for a file of these lines.
pub(super) fn adapter(format: Format, lines: &[&str]) -> Box<dyn Adapter> {
    let owned = lines.iter().map(|line| (*line).to_owned()).collect();
    let is_json = lines.iter().all(|line| line.starts_with('{'));
    let records = if is_json { Records::Jsonl(owned) } else { Records::Text(owned) };
    let sample = Sample::new("log".into(), records);
    super::make(format, &sample, &hints(Some(2026))).unwrap().0
}

/// Decodes one record.
pub(super) fn decode(adapter: &dyn Adapter, record: &str) -> Result<Vec<Item>, Refusal> {
    let mut out = Out::default();
    let is_json = record.starts_with('{');
    let input = if is_json { Input::Json(record) } else { Input::Text(record) };
    adapter.decode(input, At { file_id: 0, line: 1 }, &mut shared(), &mut out)?;
    Ok(out.items)
}

/// Decodes a record that gives one draft.
pub(super) fn draft_by(adapter: &dyn Adapter, record: &str) -> Draft {
    let mut items = decode(adapter, record).unwrap();
    match (items.pop(), items.is_empty()) {
        (Some(Item::Keep(draft)), true) => *draft,
        other => panic!("one row expected, found {other:?}"),
    }
}

/// The same with an adapter of its own.
pub(super) fn draft(format: Format, record: &str) -> Draft {
    draft_by(&*adapter(format, &[record]), record)
}

/// Decodes a record that gives one row.
pub(super) fn row(format: Format, record: &str) -> RequestRecord {
    *draft(format, record).row
}

/// Decodes a record that is left out or refused, and says why.
pub(super) fn why_not(format: Format, record: &str) -> String {
    match decode(&*adapter(format, &[record]), record) {
        Err(Refusal::Reject(error)) => format!("{} {}", error.field, error.reason),
        Err(other) => format!("{other:?}"),
        Ok(items) => match items.as_slice() {
            [Item::Drop(reason)] => (*reason).to_owned(),
            other => format!("{other:?}"),
        },
    }
}

/// Cuts a record at every place, and drops every part of it: nothing may panic.
pub(super) fn survives(format: Format, record: &str) {
    let adapter = adapter(format, &[record]);
    let cuts = record.char_indices().map(|(at, _)| at);
    for at in cuts {
        let (head, tail) = record.split_at(at);
        let doubled = format!("{head}{record}");
        let huge = format!("{head}99999999999999999999999{tail}");
        for hostile in [head, tail, &doubled, &huge] {
            decode(&*adapter, hostile).ok();
        }
    }
}

/// Decodes JSON records as one file, all of which give something.
pub(super) fn items(format: Format, records: &[&str]) -> Vec<Item> {
    let (adapter, mut shared, mut out) = (adapter(format, records), shared(), Out::default());
    for (line, record) in (1..).zip(records) {
        let at = At { file_id: 0, line };
        adapter.decode(Input::Json(record), at, &mut shared, &mut out).unwrap();
    }
    out.items
}

/// Returns why a record is left out.
pub(super) fn dropped(format: Format, record: &str) -> &'static str {
    match decode(&*adapter(format, &[record]), record).unwrap().as_slice() {
        [Item::Drop(reason)] => reason,
        other => panic!("expected a drop, got {other:?}"),
    }
}

/// Returns why a record is refused.
pub(super) fn refused(format: Format, record: &str) -> FieldError {
    match decode(&*adapter(format, &[record]), record) {
        Err(Refusal::Reject(error)) => error,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// What became of the records.
#[derive(Debug)]
pub(super) struct Tried {
    /// The rows.
    pub(super) drafts: Vec<Draft>,
    /// Reasons of what was left out.
    pub(super) drops: Vec<&'static str>,
    /// What could not be read.
    pub(super) rejects: Vec<FieldError>,
    /// What the adapter shared.
    pub(super) shared: Shared,
}

/// Decodes lines as objects of one file.
pub(super) fn lines(format: Format, lines: &[&str]) -> Tried {
    let adapter = adapter(format, lines);
    let (drafts, drops, rejects) = (Vec::new(), Vec::new(), Vec::new());
    let mut tried = Tried { drafts, drops, rejects, shared: shared() };
    for (line, number) in lines.iter().zip(1..) {
        let mut out = Out::default();
        let at = At { file_id: 0, line: number };
        match adapter.decode(Input::Json(line), at, &mut tried.shared, &mut out) {
            Ok(()) => {}
            Err(Refusal::Reject(error)) => tried.rejects.push(error),
            Err(other) => panic!("{other:?}"),
        }
        for item in out.items {
            match item {
                Item::Keep(draft) => tried.drafts.push(*draft),
                Item::Drop(reason) => tried.drops.push(reason),
                Item::Reject(error) => tried.rejects.push(error),
            }
        }
    }
    tried
}

impl Tried {
    /// Returns how many rows joining leaves, and the reasons of all others with their counts.
    pub(super) fn counts(&self) -> (usize, BTreeMap<&'static str, usize>) {
        let mut others = BTreeMap::new();
        for reason in &self.drops {
            *others.entry(*reason).or_insert(0) += 1;
        }
        let (mut rows, mut seen) = (0, Vec::new());
        for draft in &self.drafts {
            match draft.join {
                Some(join) if matches!(join.role, Role::Retrieval | Role::Tool) => {
                    *others.entry("side_span").or_insert(0) += 1;
                }
                Some(join) if seen.contains(&join.key) => *others.entry("merged").or_insert(0) += 1,
                Some(join) => {
                    seen.push(join.key);
                    rows += 1;
                }
                None => rows += 1,
            }
        }
        (rows, others)
    }
}

/// Decodes a sample that stands beside the repository and holds it against the manifest; `None`
/// when it is missing.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(super) fn sample(name: &str) -> Option<Tried> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/log-samples"));
    let read =
        |name: &str| Some(String::from_utf8(std::fs::read(folder.join(name)).ok()?).unwrap());
    let (Some(manifest), Some(log)) = (read("manifest.csv"), read(name)) else {
        eprintln!("skipped: {name} is missing beside the repository");
        return None;
    };
    let line = manifest.lines().find(|line| line.split(',').next() == Some(name)).unwrap();
    let cells: Vec<&str> = line.split(',').collect();
    let tried = lines(Format::parse(cells[1]).unwrap(), &log.lines().collect::<Vec<_>>());
    let (rows, others) = tried.counts();
    assert_eq!(rows.to_string(), cells[4], "rows of {name}");
    let mut expected: Vec<&str> = cells[5].split_whitespace().collect();
    expected.sort_unstable();
    let others: Vec<String> = others.iter().map(|(why, count)| format!("{why}:{count}")).collect();
    assert_eq!(others, expected, "what {name} leaves out");
    assert_eq!(tried.rejects, [], "{name}");
    Some(tried)
}
