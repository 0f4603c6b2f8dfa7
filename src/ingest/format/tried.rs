//! Runs an adapter in tests: lines in, and what became of them.
//!
//! Stands for the reading around an adapter, without files, sorting and joining; counts what the
//! joining will merge, so that a sample can be held against its manifest.

use super::{At, Draft, Format, Hints, Input, Item, Out, Refusal, Role, Shared, Zone, make};
use crate::domain::time::WallTime;
use crate::ingest::loose::FieldError;
use crate::ingest::privacy::Hasher;
use crate::ingest::sample::{Records, Sample};
use std::collections::BTreeMap;
use std::path::Path;

/// Arrival of the invented call that all samples share.
pub(super) const COMMON_ARRIVAL: WallTime = WallTime(1_795_511_702_123_000);

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
    let records = Records::Jsonl(lines.iter().map(|line| (*line).to_owned()).collect());
    let sample = Sample::new("log".into(), records);
    let hints = Hints::none();
    let (adapter, _) = make(format, &sample, &hints).unwrap();
    let shared = Shared::new(Hasher::new(b"a salt for tests"), Zone::utc());
    let mut tried = Tried { drafts: Vec::new(), drops: Vec::new(), rejects: Vec::new(), shared };
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

/// Decodes one line that gives one row.
pub(super) fn row(format: Format, line: &str) -> Draft {
    let mut tried = lines(format, &[line]);
    assert!(tried.drops.is_empty() && tried.rejects.is_empty(), "{tried:?}");
    assert_eq!(tried.drafts.len(), 1, "{tried:?}");
    tried.drafts.remove(0)
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
