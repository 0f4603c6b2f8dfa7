//! Random damage for the readers of logs: no panic, no hang, and every record accounted for.
//!
//! Takes the samples beside the repository, or a few records of its own where they are missing,
//! breaks them at random, and ingests them by their own format, by a wrong one, and by detection.
//! Run it for as long as `FUZZ_SECONDS` says:
//! `FUZZ_SECONDS=600 cargo test --release --test fuzz -- --ignored --nocapture`

#![expect(clippy::disallowed_methods, reason = "a clock ends the run, files are its input")]
#![expect(clippy::print_stderr, reason = "a long run says what it did")]

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tracewright::ingest::privacy::Hasher;
use tracewright::ingest::{CHUNK_BYTES, Format, Hints, Options, Rejects, Zone, ingest};

/// Texts that readers stumble over.
const NASTY: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"-1",
    b"1e999",
    b"NaN",
    b"99999999999999999999",
    b"0.0000001",
    b"null",
    b"true",
    b"\"\"",
    b"{\"a\":",
    b"[[[[[[[[",
    b"\\u0000",
    b"\\ud800",
    b"\\x22",
    b" ",
    b"-",
    b"1795511702.123",
    b"2026-11-24T09:15:02Z",
    b"9999-99-99 99:99:99",
    b"data: ",
    b"[DONE]",
    b"'",
    b"|",
    b"\t",
];

/// Returns the samples, or records of our own.
fn seeds() -> Vec<(Option<Format>, Vec<u8>)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/log-samples"));
    let Ok(manifest) = std::fs::read_to_string(folder.join("manifest.csv")) else {
        eprintln!("the samples are missing: two records of our own are used");
        return vec![
            (None, b"{\"timestamp\":0,\"input_length\":5,\"output_length\":6}\n".repeat(5)),
            (None, b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 10:00:01,20,5\n".to_vec()),
        ];
    };
    let line = |line: &str| {
        let mut cells = line.split(',');
        let (name, format) = (cells.next()?, cells.next()?);
        Some((Format::parse(format), std::fs::read(folder.join(name)).ok()?))
    };
    manifest.lines().skip(1).filter_map(line).collect()
}

fn damage(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    for _ in 0..random.random_range(1..8) {
        if bytes.is_empty() {
            return;
        }
        let at = random.random_range(0..bytes.len());
        let length = random.random_range(0..=64.min(bytes.len() - at));
        match random.random_range(0..7) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => drop(bytes.drain(at..at + length)),
            2 => {
                let copy = bytes[at..at + length].to_vec();
                let to = random.random_range(0..=bytes.len());
                bytes.splice(to..to, copy);
            }
            3 => bytes.truncate(at),
            4 => bytes[at] = random.random(),
            _ => {
                let nasty = NASTY[random.random_range(0..NASTY.len())];
                bytes.splice(at..at + length.min(8), nasty.iter().copied());
            }
        }
    }
}

#[test]
#[ignore = "runs for minutes, as its header says"]
fn readers_survive_random_damage() {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(60));
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(42);
    let seeds = seeds();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let (mut runs, mut traces, mut refusals) = (0_u64, 0_u64, 0_u64);
    while Instant::now() < until {
        let (own, bytes) = &seeds[random.random_range(0..seeds.len())];
        let mut bytes = bytes.clone();
        damage(&mut bytes, &mut random);
        let format = match random.random_range(0..4) {
            0 => None,
            1 => Some(Format::ALL[random.random_range(0..Format::ALL.len())]),
            _ => *own,
        };
        let log = folder.path().join("log");
        std::fs::write(&log, &bytes).unwrap();
        let threads = random.random_range(1..3);
        runs += 1;
        match run(&log, folder.path(), format, threads) {
            Ok(()) => traces += 1,
            Err(message) => {
                assert!(!message.is_empty() && !message.contains('\n'), "{message}");
                refusals += 1;
            }
        }
    }
    eprintln!("{runs} damaged logs: {traces} traces, {refusals} refusals");
    assert!(traces > 0 && refusals > 0);
}

fn run(log: &Path, folder: &Path, format: Option<Format>, threads: usize) -> Result<(), String> {
    let hints =
        Hints { format, map: Vec::new(), zone: Zone::utc(), units: Vec::new(), year: Some(2026) };
    let options = Options {
        hints,
        hasher: Hasher::new(b"a salt for fuzzing"),
        filter: tracewright::ingest::Filter::default(),
        prefix_hashes: true,
        spill_folder: folder.to_owned(),
        sort_bytes: 2_000,
        chunk_bytes: if threads == 1 { 64 } else { CHUNK_BYTES },
        threads,
    };
    let trace: PathBuf = folder.join("trace.parquet");
    let mut rejects = Rejects::create(&trace, true).map_err(|error| error.to_string())?;
    let mut rows = 0_u64;
    let done = ingest(&[log.to_owned()], &options, (&mut rejects).into(), &|_| {}, &mut |batch| {
        rows += tracewright::domain::convert::count(batch.len());
        Ok(())
    });
    // Invariants of the counts are asserted within.
    let done = done.map_err(|error| error.to_string())?;
    assert_eq!(done.metadata.counts.kept, rows);
    Ok(())
}
