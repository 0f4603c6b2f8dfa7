//! Damaged and hostile logs: each container with each kind of damage.
//!
//! Damage to one record costs that record and no other: it is rejected, with its place. Damage to a
//! container is an error that names the file. Nothing panics, hangs, or loses a record silently:
//! `ingest` itself asserts that its counts add up.

use super::{Got, hints, read_with, spend};
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What damage to the middle one of three records comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    /// The record is rejected.
    Rejected,
    /// The record is left out for this reason.
    Dropped(&'static str),
    /// Nothing: the record can be read all the same.
    Nothing,
}

/// A record that starts at this second.
fn record(second: u32) -> String {
    spend(&[
        ("request_id", json!(format!("r{second}"))),
        ("startTime", json!(format!("2026-11-24 09:15:{second:02}.000"))),
        ("endTime", json!(format!("2026-11-24 09:16:{second:02}.000"))),
        ("session_id", json!(format!("s{second}"))),
    ])
}

/// Damages to a record: name, the damaged text, and the cost.
fn damages() -> Vec<(&'static str, Vec<u8>, Cost)> {
    let good = record(20);
    let with = |field: &str, value: serde_json::Value| {
        let second = record(20);
        let mut row: serde_json::Value = serde_json::from_str(&second).unwrap();
        row[field] = value;
        row.to_string().into_bytes()
    };
    let replaced = |from: &str, to: &str| good.replace(from, to).into_bytes();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut not_utf8 = good.clone().into_bytes();
    let at = good.find("acompletion").unwrap();
    not_utf8[at] = 0xff;
    vec![
        ("cut", good.as_bytes()[..good.len() / 2].to_vec(), Cost::Rejected),
        ("garbage", b"@@@ no json @@@".to_vec(), Cost::Rejected),
        ("an array", b"[1,2,3]".to_vec(), Cost::Rejected),
        ("a wrong type", with("prompt_tokens", json!({"a": 1})), Cost::Rejected),
        ("a text for a number", with("prompt_tokens", json!("many")), Cost::Rejected),
        ("a huge number", replaced("\"prompt_tokens\":20", "\"prompt_tokens\":1e300"), Cost::Rejected),
        ("beyond all numbers", replaced("\"prompt_tokens\":20", "\"prompt_tokens\":1e999"), Cost::Rejected),
        ("a negative", with("prompt_tokens", json!(-5)), Cost::Rejected),
        ("a fraction", with("prompt_tokens", json!(1.5)), Cost::Rejected),
        // Python writes it where a number is missing.
        ("NaN", replaced("\"prompt_tokens\":20", "\"prompt_tokens\":NaN"), Cost::Nothing),
        ("a word without quotes", replaced("\"prompt_tokens\":20", "\"prompt_tokens\":many"), Cost::Rejected),
        ("a key twice", replaced("\"prompt_tokens\":20", "\"prompt_tokens\":1,\"prompt_tokens\":20"), Cost::Nothing),
        ("deep nesting", with("metadata", json!("x")).iter().map(|b| *b as char).collect::<String>().replace("\"x\"", &deep).into_bytes(), Cost::Rejected),
        ("another format", br#"{"time":"2026-11-24T09:15:34+00:00","msec":"1795511734.104","status":"200","request_time":"3.100","body_bytes_sent":"4100"}"#.to_vec(), Cost::Dropped("no_time")),
        ("not UTF-8", not_utf8, Cost::Rejected),
        ("no time", with("startTime", json!(null)), Cost::Dropped("no_time")),
        ("a word for a time", with("startTime", json!("yesterday")), Cost::Rejected),
        ("a time beyond all calendars", with("startTime", json!("2026-13-45 99:99:99")), Cost::Rejected),
        ("garbage after the object", format!("{good} }}").into_bytes(), Cost::Rejected),
    ]
}

/// Ways to put lines into a file: name, and the bytes.
fn line_containers(lines: &[Vec<u8>]) -> Vec<(&'static str, Vec<u8>)> {
    let plain = lines.join(&b'\n');
    let crlf = lines.join(&b"\r\n"[..]);
    let mut mark = b"\xef\xbb\xbf".to_vec();
    mark.extend_from_slice(&plain);
    let members: Vec<u8> =
        lines.iter().flat_map(|line| gzip(&[line.as_slice(), b"\n"].concat())).collect();
    let frames: Vec<u8> = lines
        .iter()
        .flat_map(|line| zstd::encode_all(&[line.as_slice(), b"\n"].concat()[..], 1).unwrap())
        .collect();
    vec![
        ("lines", plain.clone()),
        ("lines with CRLF", crlf),
        ("lines with a byte-order mark", mark),
        ("gzip", gzip(&plain)),
        ("gzip, a member a line", members),
        ("zstd", zstd::encode_all(&plain[..], 1).unwrap()),
        ("zstd, a frame a line", frames),
    ]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn read_bytes(folder: &Path, name: &str, bytes: &[u8]) -> Result<Got, String> {
    let path: PathBuf = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    let mut hints = hints();
    hints.format = Some(crate::ingest::Format::LitellmSpendlogs);
    read_with(&[path], hints, 1_000)
}

#[test]
fn damage_to_a_record_costs_that_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut cases = 0;
    for (damage, text, cost) in damages() {
        let lines = [record(10).into_bytes(), text, record(30).into_bytes()];
        for (container, bytes) in line_containers(&lines) {
            let what = format!("{damage} in {container}");
            let got = read_bytes(folder.path(), "log", &bytes)
                .unwrap_or_else(|why| panic!("{what}: {why}"));
            let counts = &got.ingested.metadata.counts;
            let dropped: Vec<&str> = counts.dropped.keys().map(String::as_str).collect();
            let found = (counts.kept, counts.rejected, dropped);
            let expected = match cost {
                Cost::Rejected => (2, 1, vec![]),
                Cost::Dropped(reason) => (2, 0, vec![reason]),
                Cost::Nothing => (3, 0, vec![]),
            };
            assert_eq!(found, expected, "{what}: {}", got.rejects);
            if cost == Cost::Rejected {
                assert!(got.rejects.contains("\"line\":2,"), "{what}: {}", got.rejects);
            }
            cases += 1;
        }
    }
    assert!(cases >= 60, "{cases}");
}

#[test]
fn a_cut_or_spoilt_container_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<Vec<u8>> = (0..50).map(|second| record(second).into_bytes()).collect();
    let plain = lines.join(&b'\n');
    // Without a checksum, a damaged frame may still give bytes: other ones.
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(&plain).unwrap();
    let packed = [("log.gz", gzip(&plain)), ("log.zst", encoder.finish().unwrap())];
    for (name, bytes) in packed {
        for cut in [8, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
            let error = read_bytes(folder.path(), name, &bytes[..cut]).unwrap_err();
            assert!(error.contains(name), "{name} cut at {cut}: {error}");
        }
        let error =
            read_bytes(folder.path(), name, &[&bytes[..], b"garbage"].concat()).unwrap_err();
        assert!(error.contains(name), "{name}: {error}");
        for at in [bytes.len() / 3, bytes.len() / 2] {
            let mut spoilt = bytes.clone();
            for byte in spoilt.iter_mut().skip(at).take(40) {
                *byte ^= 0x55;
            }
            let error = read_bytes(folder.path(), name, &spoilt).unwrap_err();
            assert!(error.contains(name), "{name} spoilt at {at}: {error}");
        }
    }
    for (name, bytes) in [("empty", &b""[..]), ("blank", b"\n \n"), ("binary", b"\0\x01\x02\x03")] {
        assert!(read_bytes(folder.path(), name, bytes).is_err(), "{name}");
    }
}

#[test]
fn arrays_lose_nothing_silently() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..50).map(record).collect();
    let array = format!("[{}]", lines.join(",\n"));
    let got = read_bytes(folder.path(), "array.json", array.as_bytes()).unwrap();
    assert_eq!(got.ingested.metadata.counts.kept, 50);
    let pretty: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pretty = serde_json::to_vec_pretty(&pretty).unwrap();
    let got = read_bytes(folder.path(), "pretty.json", &pretty).unwrap();
    assert_eq!(got.ingested.metadata.counts.kept, 50);
    for cut in (1..array.len()).step_by(97) {
        match read_bytes(folder.path(), "array.json", &array.as_bytes()[..cut]) {
            Ok(got) => assert!(got.ingested.metadata.counts.rejected > 0, "cut at {cut}"),
            Err(error) => assert!(
                error.contains("array.json") || error.contains("0 dropped, 1 rejected"),
                "cut at {cut}: {error}"
            ),
        }
    }
}

#[test]
fn an_open_quote_in_csv_costs_one_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    for (columns, broken) in [("", "10,\"20"), (",note", "10,20,\"open")] {
        let header = format!("TIMESTAMP,ContextTokens,GeneratedTokens{columns}\n");
        let row = |n: u32| {
            let whole = if columns.is_empty() { "10,20" } else { "10,20,x" };
            format!("2023-11-16 10:00:{n:02},{}\n", if n == 10 { broken } else { whole })
        };
        let text = header + &(0..60).map(row).collect::<Vec<_>>().concat();
        std::fs::write(&path, text).unwrap();
        let got = read_with(std::slice::from_ref(&path), hints(), 1_000).unwrap();
        let counts = &got.ingested.metadata.counts;
        assert_eq!((counts.read, counts.kept, counts.rejected), (60, 59, 1), "{}", got.rejects);
        assert!(got.rejects.contains("\"line\":12,"), "{}", got.rejects);
        assert_eq!(got.rows[30].source_line, Some(33));
    }
}
