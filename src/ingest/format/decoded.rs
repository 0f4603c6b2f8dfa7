//! What tests of adapters share: decoding of single records, and of samples against the manifest.
//!
//! Record text -> what became of it. For tests only; nothing is sorted, joined or written.

use super::{Adapter, At, Draft, Hints, Input, Item, Made, Out, Refusal, Role, Shared, Zone};
use super::{
    azure_lmm, burstgpt, helicone, langfuse, langsmith, litellm_standard, new_api, one_api,
    openai_batch, openrouter, portkey, vidur, vllm_custom,
};
use crate::domain::record::RequestRecord;
use crate::ingest::error::IngestError;
use crate::ingest::loose::FieldError;
use crate::ingest::privacy::Hasher;
use crate::ingest::sample::{Records, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// The function that makes an adapter.
pub(super) type Maker = fn(&Sample, &Hints) -> Result<Made, IngestError>;

/// Arrival, duration and time to the first chunk in microseconds; input, cached and output tokens.
pub(super) type Facts =
    (Option<i64>, Option<i64>, Option<i64>, Option<u32>, Option<u32>, Option<u32>);

/// Arrival of the call that all formats show, 2026-11-24T09:15:02.123Z.
pub(super) const ARRIVAL_US: i64 = 1_795_511_702_123_000;
/// The call that all formats show.
pub(super) const CALL: Facts =
    (Some(ARRIVAL_US), Some(3_500_000), Some(418_000), Some(1320), Some(1024), Some(160));

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

/// Returns what adapters share, with a fixed salt.
pub(super) fn shared() -> Shared {
    Shared::new(Hasher::new(b"a salt for tests"), Zone::utc())
}

fn adapter(make: Maker, records: &[&str]) -> Box<dyn Adapter> {
    let hints = Hints::none();
    let records = records.iter().map(|record| (*record).to_owned()).collect();
    let sample = Sample::new("log".into(), Records::Jsonl(records));
    make(&sample, &hints).unwrap().0
}

/// Decodes records as one file.
pub(super) fn items(make: Maker, records: &[&str]) -> Vec<Item> {
    let (adapter, mut shared, mut out) = (adapter(make, records), shared(), Out::default());
    for (line, record) in (1..).zip(records) {
        let decoded =
            adapter.decode(Input::Json(record), At { file_id: 0, line }, &mut shared, &mut out);
        decoded.unwrap();
    }
    out.items
}

/// Decodes a record of which one row comes.
pub(super) fn draft(make: Maker, record: &str) -> Draft {
    match <[Item; 1]>::try_from(items(make, &[record])) {
        Ok([Item::Keep(draft)]) => *draft,
        other => panic!("expected one row, got {other:?}"),
    }
}

/// Decodes a record of which one row comes, and returns the row.
pub(super) fn row(make: Maker, record: &str) -> RequestRecord {
    *draft(make, record).row
}

/// Returns why a record is left out.
pub(super) fn dropped(make: Maker, record: &str) -> &'static str {
    match <[Item; 1]>::try_from(items(make, &[record])) {
        Ok([Item::Drop(reason)]) => reason,
        other => panic!("expected a drop, got {other:?}"),
    }
}

/// Returns why a record is refused.
pub(super) fn refused(make: Maker, record: &str) -> FieldError {
    let mut out = Out::default();
    let at = At { file_id: 0, line: 1 };
    match adapter(make, &[record]).decode(Input::Json(record), at, &mut shared(), &mut out) {
        Err(Refusal::Reject(error)) => error,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// The adapter of each sample tested here.
const SAMPLES: &[(&str, Maker)] = &[
    ("litellm-standard-logging", litellm_standard::make),
    ("one-api-logs", one_api::make),
    ("new-api-logs", new_api::make),
    ("portkey-export", portkey::make),
    ("helicone-export", helicone::make),
    ("langfuse-observations", langfuse::make),
    ("langsmith-runs", langsmith::make),
    ("openrouter-activity", openrouter::make),
    ("openai-batch-output", openai_batch::make),
    ("azure-lmm-public", azure_lmm::make),
    ("burstgpt", burstgpt::make),
    ("vidur", vidur::make),
    ("vllm-custom", vllm_custom::make),
];

/// Returns the records of a sample; rows of CSV as objects of texts.
fn records(name: &str, bytes: &[u8]) -> Vec<String> {
    let is_csv = std::path::Path::new(name).extension().is_some_and(|extension| extension == "csv");
    if !is_csv {
        return String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
    }
    let mut reader = csv::Reader::from_reader(bytes);
    let names = reader.headers().unwrap().clone();
    let object = |row: csv::StringRecord| {
        let cells: BTreeMap<_, _> = names.iter().zip(row.iter()).collect();
        serde_json::to_string(&cells).unwrap()
    };
    reader.records().map(|row| object(row.unwrap())).collect()
}

/// Returns the rows that are left when records of one call are joined, and what was left out.
fn count(items: &[Item]) -> (usize, BTreeMap<&'static str, usize>) {
    let (mut rows, mut left_out, mut keys) = (0, BTreeMap::new(), BTreeSet::new());
    for item in items {
        let reason = match item {
            Item::Drop(reason) => Some(*reason),
            Item::Reject(error) => panic!("{error:?}"),
            Item::Keep(draft) => match draft.join {
                Some(join) => match join.role {
                    Role::Retrieval | Role::Tool => Some("side_span"),
                    _ if keys.insert(join.key) => None,
                    Role::Version(_) => Some("older_version"),
                    Role::Attempt | Role::Part(_) => Some("merged"),
                },
                None => None,
            },
        };
        match reason {
            Some(reason) => *left_out.entry(reason).or_insert(0) += 1,
            None => rows += 1,
        }
    }
    (rows, left_out)
}

#[test]
fn samples_give_the_rows_and_drops_of_the_manifest() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/log-samples/");
    let Ok(manifest) = std::fs::read(format!("{folder}manifest.csv")) else {
        #[expect(clippy::print_stderr, reason = "a skipped test says so")]
        {
            eprintln!("skipped: {folder} is missing");
        }
        return;
    };
    let mut seen = 0;
    for line in csv::Reader::from_reader(manifest.as_slice()).records() {
        let line = line.unwrap();
        let (name, rows, left_out) = (&line[0], &line[4], &line[5]);
        let Some((_, make)) = SAMPLES.iter().find(|(format, _)| *format == &line[1]) else {
            continue;
        };
        let records = records(name, &std::fs::read(format!("{folder}{name}")).unwrap());
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        let (found, reasons) = count(&items(*make, &records));
        assert_eq!(found.to_string(), *rows, "{name}: {reasons:?}");
        let expected: BTreeMap<&str, usize> = left_out
            .split_whitespace()
            .map(|part| part.split_once(':').unwrap())
            .map(|(reason, count)| (reason, count.parse().unwrap()))
            .collect();
        assert_eq!(reasons, expected, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 17, "samples of these formats");
}
