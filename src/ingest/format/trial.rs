//! Decodes lines of a format, for the tests of the formats, and the sample logs beside the
//! repository: rows and reasons as their manifest says.
//!
//! Lines -> what became of each record. Nothing of this is in the program. Samples stand in
//! `../shared`; where they are missing the test says so and is skipped.

#![expect(clippy::disallowed_methods, reason = "a test reads the samples")]

use super::{Adapter, At, Draft, Format, Hints, Input, Item, Out, Refusal, Shared, Zone};
use crate::domain::record::RequestRecord;
use crate::domain::time::WallTime;
use crate::ingest::privacy::Hasher;
use crate::ingest::sample::{Records, Sample};
use std::collections::BTreeMap;
use std::path::Path;

/// 2026-11-24T09:15:02.123Z, the arrival of the call that all formats share.
pub(super) const ARRIVAL: WallTime = WallTime(1_795_511_702_123_000);

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

/// Formats whose samples are decoded here.
const SAMPLED: &[Format] = &[
    Format::EnvoyAiGateway,
    Format::KongAi,
    Format::ApisixLogger,
    Format::ApisixAccess,
    Format::HigressAiStatistics,
    Format::VllmText,
    Format::SglangRequests,
    Format::SglangRequestMetrics,
    Format::TgiRouter,
    Format::OllamaGin,
    Format::OllamaResponses,
    Format::NginxJson,
    Format::NginxIngress,
    Format::NginxCombined,
];

/// Puts lines together to records, as the adapter says.
fn records(adapter: &dyn Adapter, lines: &[&str]) -> Vec<String> {
    let mut records: Vec<String> = Vec::new();
    for line in lines {
        match records.last_mut().filter(|so_far| adapter.continues(so_far, line)) {
            Some(so_far) => {
                so_far.push('\n');
                so_far.push_str(line);
            }
            None => records.push((*line).to_owned()),
        }
    }
    records
}

/// Returns rows, and `reason:count` of all others in alphabetic order, as the manifest writes them.
fn outcome(format: Format, text: &str) -> (usize, String) {
    let lines: Vec<&str> = text.lines().collect();
    let adapter = adapter(format, &lines);
    let mut reasons = BTreeMap::new();
    let (mut rows, mut calls) = (0, Vec::new());
    for record in records(&*adapter, &lines) {
        for item in decode(&*adapter, &record).unwrap() {
            match item {
                Item::Keep(draft) => {
                    assert!(draft.row.arrival_time.is_some(), "{record}");
                    rows += 1;
                    calls.extend(draft.join.map(|join| join.key));
                }
                Item::Drop(reason) => *reasons.entry(reason).or_insert(0) += 1,
                Item::Reject(error) => panic!("{error:?}"),
            }
        }
    }
    let parts = calls.len();
    calls.sort_unstable();
    calls.dedup();
    let merged = parts - calls.len();
    if merged > 0 {
        reasons.insert("merged", merged);
    }
    let reasons: Vec<String> = reasons.iter().map(|(why, n)| format!("{why}:{n}")).collect();
    (rows - merged, reasons.join(" "))
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn samples_give_what_their_manifest_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/log-samples");
    let Ok(manifest) = std::fs::read_to_string(folder.join("manifest.csv")) else {
        eprintln!("skipped: no sample logs beside the repository");
        return;
    };
    let mut seen = 0;
    for line in manifest.lines() {
        let cells: Vec<&str> = line.split(',').collect();
        let [file, id, _, _, rows, dropped, ..] = cells.as_slice() else { continue };
        let Some(format) = SAMPLED.iter().find(|format| format.as_str() == *id) else { continue };
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let mut expected: Vec<&str> = dropped.split_whitespace().collect();
        expected.sort_unstable();
        let expected = (rows.parse().unwrap(), expected.join(" "));
        assert_eq!(outcome(*format, &text), expected, "{file}");
        seen += 1;
    }
    assert_eq!(seen, SAMPLED.len());
}
