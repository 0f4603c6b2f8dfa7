//! Every container, packed and not, in chunks of any size: the same records in the same places.

use super::super::chunk::{Kind, Plan, Texts, for_each};
use super::super::error::IngestError;
use super::super::format::{Adapter, At, Input, Out, Refusal, Shared};
use super::super::sample::{Records, Sample};
use std::io::Write as _;
use std::path::Path;

/// An adapter that joins lines that begin with a blank, or are blank.
struct Indented;

impl Adapter for Indented {
    fn decode(&self, _: Input<'_>, _: At, _: &mut Shared, _: &mut Out) -> Result<(), Refusal> {
        Ok(())
    }

    fn continues(&self, _: &str, line: &str) -> bool {
        line.is_empty() || line.starts_with(' ')
    }
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Reads the records of a file by a plan, as `LINE:BYTE KIND TEXT`.
fn records(
    path: &Path,
    plan: &Plan,
    chunk_bytes: usize,
) -> Result<(Vec<String>, u64), IngestError> {
    let mut chunks = plan.open(path, &Indented, &|_| {}, chunk_bytes)?;
    let mut found = Vec::new();
    while let Some(chunk) = chunks.next_chunk()? {
        for_each(&chunk, plan, &Indented, &mut |place, input| {
            let text = match input {
                Ok(Input::Json(text)) => format!("J {text}"),
                Ok(Input::Text(text)) => format!("T {text}"),
                Ok(Input::Csv(_)) => "C".to_owned(),
                Err(error) => format!("! {}", error.reason),
            };
            let byte = place.byte.map_or(String::new(), |byte| byte.to_string());
            found.push(format!("{}:{byte} {text}", place.line));
        });
    }
    Ok((found, chunks.lines()))
}

/// Reads a log plain, as gzip in two members and as zstd in two frames, by chunks of four sizes;
/// returns its plan and records, which must all be the same.
fn read(bytes: &[u8]) -> (Plan, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = bytes.split_at(bytes.len() / 2);
    let zst = |part: &[u8]| zstd::stream::encode_all(part, 1).unwrap();
    let packed = [bytes.to_vec(), [gz(one), gz(two)].concat(), [zst(one), zst(two)].concat()];
    let mut first: Option<(Plan, Vec<String>, u64)> = None;
    for (number, bytes) in packed.iter().enumerate() {
        let path = folder.path().join(format!("log{number}"));
        std::fs::write(&path, bytes).unwrap();
        let plan = Sample::read(&path).unwrap().plan;
        for chunk_bytes in [1, 7, 64, 1 << 20] {
            let (found, lines) = records(&path, &plan, chunk_bytes).unwrap();
            let (plan_before, before, lines_before) =
                first.get_or_insert_with(|| (plan.clone(), found.clone(), lines));
            assert_eq!(*before, found, "{number} {chunk_bytes}");
            assert_eq!((&*plan_before, *lines_before), (&plan, lines), "{number} {chunk_bytes}");
        }
    }
    let (plan, found, _) = first.unwrap();
    (plan, found)
}

/// As [`read`], without plan and places, for a log of this kind.
fn texts(kind: Kind, bytes: &[u8]) -> Vec<String> {
    let (plan, found) = read(bytes);
    assert_eq!(plan.kind, kind, "{found:?}");
    found.iter().map(|text| text.split_once(' ').unwrap().1.to_owned()).collect()
}

#[test]
fn lines_of_json() {
    let text = b"{\"a\":1}\r\n\r\n  \n{\"b\":2}\n{\"c\":\"\0\"}\n{\"\xff\":4}\ngarbage\n [{\"e\":5}, 6, {\"e\":7}]\n{\"f\":8}";
    let expected = [
        "1:0 J {\"a\":1}",
        "4:14 J {\"b\":2}",
        "5:22 ! holds NUL bytes",
        "6:32 ! is not UTF-8",
        "7:40 ! is not a JSON object",
        "8:48 J {\"e\":5}",
        "8:48 ! is not a JSON object",
        "8:48 J {\"e\":7}",
        "9:71 J {\"f\":8}",
    ];
    assert_eq!(read(text).1, expected);
    let marked = [b"\xef\xbb\xbf", &text[..]].concat();
    assert_eq!(read(&marked).1, expected);
}

#[test]
fn sixteen_bits_a_letter() {
    let text = "{\"a\":\"\u{e9}\u{1f600}\"}\r\n{\"b\":2}\n";
    let expected = ["1:0 J {\"a\":\"\u{e9}\u{1f600}\"}", "2:16 J {\"b\":2}"];
    let units: Vec<u16> = text.encode_utf16().collect();
    let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    for bytes in
        [[b"\xff\xfe", &little[..]].concat(), [b"\xfe\xff", &big[..]].concat(), little.clone(), big]
    {
        assert_eq!(read(&bytes).1, expected);
    }
    // Half a letter at the end is refused with its line.
    let cut = [b"\xff\xfe", &little[..little.len() - 1]].concat();
    assert_eq!(read(&cut).1[1], "2:16 ! is not UTF-8");
}

#[test]
fn documents() {
    let two = ["J {\"a\":1}", "J {\"b\":2}"];
    for text in [
        "[{\"a\":1},{\"b\":2}]",
        "[\r\n{\"a\":1},\r\n{\"b\":2},\r\n]\r\n",
        "{\"a\":1}{\"b\":2}",
        "{\"object\":\"list\",\"data\":[{\"a\":1},{\"b\":2}],\"has_more\":false}",
        "{\"data\":{\"total\":2,\"items\":[{\"a\":1},{\"b\":2}]},\"success\":true}",
        "{\"result\":[{\"a\":1},{\"b\":2}],\"result_info\":{}}",
        "{\"rows\":[{\"a\":1}]}\n{\"rows\":[{\"b\":2}]}\n",
        "{\"records\":[{\"a\":1},{\"b\":2}]}",
        "{\"took\":1,\"hits\":{\"total\":2,\"hits\":[{\"_index\":\"i\",\"_source\":{\"a\":1}},{\"_index\":\"i\",\"_source\":{\"b\":2}}]}}",
        "{\"owner\":\"o\",\"logEvents\":[{\"id\":\"1\",\"timestamp\":1,\"message\":\"{\\\"a\\\":1}\"},{\"id\":\"2\",\"timestamp\":2,\"message\":\"{\\\"b\\\":2}\"}]}",
        "{\"status\":\"success\",\"data\":{\"resultType\":\"streams\",\"result\":[{\"stream\":{},\"values\":[[\"1\",\"{\\\"a\\\":1}\"]]},{\"stream\":{},\"values\":[[\"2\",\"{\\\"b\\\":2}\"]]}]}}",
        "[{\"line\":\"{\\\"a\\\":1}\",\"timestamp\":\"1\",\"fields\":{}},{\"line\":\"{\\\"b\\\":2}\",\"timestamp\":\"2\",\"fields\":{}}]",
        "[{\"insertId\":\"x\",\"jsonPayload\":{\"a\":1}},{\"insertId\":\"y\",\"jsonPayload\":{\"b\":2}}]",
    ] {
        assert_eq!(texts(Kind::Json, text.as_bytes()), two, "{text}");
    }
    let pretty = "{\n  \"a\": 1\n}\n{\n  \"b\": 2\n}\n";
    assert_eq!(read(pretty.as_bytes()).1, ["1:0 J {\n  \"a\": 1\n}", "4:13 J {\n  \"b\": 2\n}"]);
    // Text inside a document.
    let text = "[{\"line\":\"one\",\"timestamp\":\"1\"},{\"line\":\" more\",\"timestamp\":\"2\"},{\"line\":\"two\",\"timestamp\":\"3\"}]";
    assert_eq!(texts(Kind::Json, text.as_bytes()), ["T one\n more", "T two"]);
}

#[test]
fn envelopes_around_lines() {
    let two = ["J {\"a\":1}", "J {\"b\":2}"];
    for text in [
        "{\"log\":\"{\\\"a\\\":1}\\n\",\"stream\":\"stdout\",\"time\":\"t\"}\n{\"log\":\"{\\\"b\\\":2}\\n\",\"stream\":\"stdout\",\"time\":\"t\"}\n",
        "2026-11-24T09:15:02.123456789Z stdout F {\"a\":1}\n2026-11-24T09:15:02.2+01:00 stderr F {\"b\":2}\n",
        "2026-11-24T09:15:02.1Z stdout F {\"log\":\"{\\\"a\\\":1}\",\"kubernetes\":{\"x\":{}}}\n2026-11-24T09:15:02.1Z stdout F {\"log\":\"{\\\"b\\\":2}\",\"kubernetes\":{}}\n",
        "{\"@timestamp\":\"t\",\"message\":\"{\\\"a\\\":1}\",\"more\":1}\n{\"@timestamp\":\"t\",\"message\":\"{\\\"b\\\":2}\"}\n",
        "{\"insertId\":\"i\",\"jsonPayload\":{\"a\":1}}\n{\"insertId\":\"i\",\"textPayload\":\"{\\\"b\\\":2}\"}\n",
        "{\"_index\":\"i\",\"_id\":\"1\",\"_source\":{\"a\":1}}\n{\"_index\":\"i\",\"_id\":\"2\",\"_source\":{\"b\":2}}\n",
        "Nov 24 09:15:02 host app[1]: {\"a\":1}\nNov 24 09:15:03 host app[1]: {\"b\":2}\n",
        "[2026-11-24 09:15:02] {\"a\":1}\n[2026-11-24 09:15:02] {\"b\":2}\n",
        "{\"MESSAGE\":\"{\\\"a\\\":1}\",\"_PID\":\"1\",\"__CURSOR\":\"c\"}\n{\"MESSAGE\":\"{\\\"b\\\":2}\",\"_PID\":\"1\"}\n",
        "{\"a\":1}\n{\"b\":2}\n",
    ] {
        assert_eq!(texts(Kind::Jsonl, text.as_bytes()), two, "{text}");
    }
    // A message beside fields of its own is a record, not an envelope.
    let own = "{\"message\":\"done\",\"request_time\":1,\"status\":200}\n";
    assert_eq!(texts(Kind::Jsonl, own.as_bytes()), [format!("J {}", own.trim())]);
    // A record without the envelope passes as it is.
    let mixed = "{\"log\":\"{\\\"a\\\":1}\\n\",\"stream\":\"stdout\",\"time\":\"t\"}\n{\"log\":\"{\\\"a\\\":2}\\n\",\"stream\":\"stdout\",\"time\":\"t\"}\n{\"b\":2}\n";
    assert_eq!(texts(Kind::Jsonl, mixed.as_bytes())[2], "J {\"b\":2}");
}

#[test]
fn text_in_envelopes_and_over_lines() {
    let plain = "start of a server\none\n two\n\n  three\n{\"x\":1}\nend";
    let (plan, found) = read(plain.as_bytes());
    assert_eq!((plan.kind, plan.texts), (Kind::Jsonl, Texts::Passed), "one line in six is JSON");
    assert_eq!(found.iter().filter(|text| text.contains(" T ")).count(), 5);
    // Where the text is of a known log, objects in it are parts of it.
    let known = "INFO 11-24 09:15:02 [logger.py:1] Received request a: prompt: 'x\n{\"x\":1}\n";
    assert_eq!(read(known.as_bytes()).0.kind, Kind::Text);
    let plain = "start of a server\none\n two\n\n  three\nend";
    let expected = ["1:0 T start of a server", "2:18 T one\n two\n\n  three", "6:36 T end"];
    assert_eq!(read(plain.as_bytes()).1, expected);
    let line = |line| format!("{{\"log\":\"{line}\\n\",\"stream\":\"stdout\",\"time\":\"t\"}}\n");
    let docker = plain.lines().map(line).collect::<Vec<_>>().concat();
    let expected = ["T start of a server", "T one\n two\n\n  three", "T end"];
    assert_eq!(texts(Kind::Text, docker.as_bytes()), expected);
}

#[test]
fn lines_that_a_runtime_split_are_whole_again() {
    let cri = "2026-11-24T09:15:02.1Z stdout P {\"a\":\n2026-11-24T09:15:02.1Z stderr F {\"e\":0}\n2026-11-24T09:15:02.1Z stdout P  [1\n2026-11-24T09:15:02.2Z stdout F ]}\n2026-11-24T09:15:02.3Z stdout F {\"b\":2}\n2026-11-24T09:15:02.4Z stdout P {\"c\":";
    let expected =
        ["2:38 J {\"e\":0}", "1:0 J {\"a\": [1]}", "5:149 J {\"b\":2}", "6:189 J {\"c\":"];
    assert_eq!(read(cri.as_bytes()).1, expected);
    let line = |log: &str| format!("{{\"log\":\"{log}\",\"stream\":\"stdout\",\"time\":\"t\"}}\n");
    let docker = [
        line("{\\\"a\\\":\\\"x\\\\n"),
        line(" y\\\"}\\n"),
        line("{\\\"b\\\":2}\\n"),
        line("{\\\"b\\\":3}\\n"),
    ];
    let found = texts(Kind::Jsonl, docker.concat().as_bytes());
    assert_eq!(found, ["J {\"a\":\"x\\n y\"}", "J {\"b\":2}", "J {\"b\":3}"]);
}

#[test]
fn only_the_two_streams_of_a_runtime_go_on() {
    let line = |log: &str, stream: &str| {
        format!("{{\"log\":\"{log}\",\"stream\":\"{stream}\",\"time\":\"t\"}}\n")
    };
    let docker = [
        line("{\\\"a\\\":", "stdout"),
        line("{\\\"b\\\":2}", "other"),
        line("{\\\"c\\\":", "stderr"),
        line("3}\\n", "stderr"),
        line("1}\\n", "stdout"),
        line("{\\\"b\\\":4}\\n", "other"),
    ];
    let mut found = texts(Kind::Jsonl, docker.concat().as_bytes());
    found.sort();
    assert_eq!(found, ["J {\"a\":1}", "J {\"b\":2}", "J {\"b\":4}", "J {\"c\":3}"]);
}

#[test]
fn other_lines_beside_json_are_told_by_the_sample() {
    let banner = "Starting\n - on port 80, with {braces}\n".to_owned();
    let found = texts(Kind::Jsonl, (banner.clone() + &"{\"a\":1}\n".repeat(18)).as_bytes());
    assert_eq!(found.iter().filter(|text| text.starts_with("! ")).count(), 2);
    let many = "INFO: something\n".repeat(6) + &"{\"a\":1}\n".repeat(18);
    let (plan, found) = read(many.as_bytes());
    assert_eq!((plan.kind, plan.texts), (Kind::Jsonl, Texts::Passed));
    assert_eq!(found[0], "1:0 T INFO: something");
}

#[test]
fn tables_of_text() {
    let expected = ["2:0 J {\"a\":\"1\",\"b\":\"x\\ny\"}", "4:0 J {\"a\":\"2\",\"b\":null}"];
    for separator in [",", ";", "\t"] {
        for end in ["\n", "\r\n"] {
            let text = format!("a{separator}b{end}1{separator}\"x\ny\"{end}2{separator}{end}");
            let (plan, found) = read(text.as_bytes());
            assert_eq!((plan.kind, plan.delimiter), (Kind::Csv, separator.as_bytes()[0]));
            let found: Vec<String> = found
                .iter()
                .map(|text| {
                    let (place, text) = text.split_once(' ').unwrap();
                    format!("{}:0 {text}", place.split(':').next().unwrap())
                })
                .collect();
            assert_eq!(found, expected);
        }
    }
    let ragged = read(b"a,b\n1,2,3\n\xff,1\n4,5").1;
    assert_eq!(ragged[0], "2:4 ! has 3 fields, the header has 2");
    assert_eq!(ragged[1], "3:10 ! is not UTF-8");
    // Lines of servers have commas too.
    for text in [
        "2026-11-24 09:15:02,123 INFO one\n2026-11-24 09:15:03,123 INFO two\n",
        "10.0.0.1 - - [24/Nov/2026:09:15:02 +0000] \"POST /v1 HTTP/1.1\" 200 5 \"-\" \"a, b\"\n",
    ] {
        assert_eq!(read(text.as_bytes()).0.kind, Kind::Text, "{text}");
    }
    assert_eq!(read(b"arrival\n1\n2\n").0.kind, Kind::Csv);
    assert_eq!(read(b"Starting server, please wait\none\ntwo\nthree, four\n").0.kind, Kind::Text);
    // The end of a record that rotation cut, then records.
    let cut = b"1,\"b\":2,\"c\":3}\n{\"a\":1,\"b\":2,\"c\":3}\n{\"a\":1,\"b\":2,\"c\":3}\n";
    assert_eq!(read(cut).0.kind, Kind::Jsonl);
}

#[test]
fn what_is_not_read_says_what_to_export() {
    let folder = tempfile::tempdir().unwrap();
    let why = |bytes: &[u8]| {
        let path = folder.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        let error = Sample::read(&path).unwrap_err();
        error.to_string().replace(&format!("{}/", folder.path().display()), "")
    };
    insta::assert_snapshot!(why(b"PK\x03\x04rest"), @"log: expected JSON, CSV, text, Parquet, Arrow or SQLite, found a zip archive");
    insta::assert_snapshot!(why(&gz(b"PAR1....PAR1")), @"log: expected text inside the packed file, found a Parquet file");
    insta::assert_snapshot!(why(b"\0\0\0\x10\x0a\x0e\x0a\x0c\x0a"), @"log: expected OTLP as JSON, found it as protobuf");
    let sql = "log: expected a log, found a dump of SQL statements";
    for text in [
        "--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\nCOPY public.logs (id) FROM stdin;\n",
        "COPY public.\"Spend\" (a, b) FROM stdin;\n1\t2\n\\.\n",
        "INSERT INTO `logs` VALUES (1,'x');\n",
        "/*!40101 SET NAMES utf8 */;\nDROP TABLE IF EXISTS `logs`;\n",
        "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n",
    ] {
        assert_eq!(why(text.as_bytes()), sql, "{text}");
    }
    let noise: Vec<u8> =
        (0..4_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    insta::assert_snapshot!(why(&noise[4..]), @"log: expected JSON, CSV, text, Parquet, Arrow or SQLite, found binary data");
}

#[test]
fn tables_of_columns_are_rows_of_objects() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/prompt-pools/small/pool.parquet"));
    let sample = Sample::read(path).unwrap();
    assert_eq!(sample.plan.kind, Kind::Parquet);
    let Records::Jsonl(texts) = &sample.records else { panic!("objects") };
    assert!(!texts.is_empty());
    let (found, rows) = records(path, &sample.plan, 1).unwrap();
    assert_eq!(found.len(), usize::try_from(rows).unwrap());
    assert!(found[1].starts_with("2: J {"), "{}", found[1]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one-api.db");
    let statements =
        "CREATE TABLE logs (id INTEGER PRIMARY KEY, quota); INSERT INTO logs VALUES (7, 5)";
    rusqlite::Connection::open(&path).unwrap().execute_batch(statements).unwrap();
    let sample = Sample::read(&path).unwrap();
    assert_eq!(sample.plan.kind, Kind::Sqlite);
    assert_eq!(
        records(&path, &sample.plan, 1).unwrap(),
        (vec!["1: J {\"id\":7,\"quota\":5}".to_owned()], 1)
    );
}

#[test]
fn the_sample_sees_the_middle_and_the_tail() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let line =
        |part: &str, n: usize| format!("{{\"{part}\":{n},\"x\":\"{}\"}}\n", "y".repeat(2_000));
    let parts = ["head", "middle", "tail"];
    let text: String =
        parts.iter().flat_map(|part| (0..6_000).map(move |n| line(part, n))).collect();
    std::fs::write(&path, &text).unwrap();
    let sample = Sample::read(&path).unwrap();
    let Records::Jsonl(texts) = &sample.records else { panic!("objects") };
    let count =
        |part: &str| texts.iter().filter(|text| text.starts_with(&format!("{{\"{part}"))).count();
    assert_eq!(parts.map(count), [400, 300, 300]);
    assert!(texts[999].starts_with("{\"tail\":5999,"), "the last line is seen");
    std::fs::write(&path, gz(text.as_bytes())).unwrap();
    assert_eq!(Sample::read(&path).unwrap().len(), 1_000);
}

/// Every sample log is read as the container that the manifest names, each line as a record.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn every_sample_is_told_by_its_container() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/log-samples"));
    let Ok(manifest) = std::fs::read(folder.join("manifest.csv")) else {
        eprintln!("skipped: {} is missing", folder.display());
        return;
    };
    let manifest = String::from_utf8(manifest).unwrap();
    let mut wrong = Vec::new();
    for line in manifest.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let path = folder.join(cells[0]);
        let plan = Sample::read(&path).unwrap().plan;
        let found = records(&path, &plan, 1 << 20).unwrap().0;
        let rows: usize = cells[3].parse().unwrap();
        let kind = match plan.kind {
            Kind::Jsonl => "jsonl",
            Kind::Csv => "csv",
            _ => "text",
        };
        let refused = found.iter().any(|text| text.contains(": ! "));
        let enough = kind == "text" || found.len() == rows || kind == "csv";
        if kind != cells[2] || refused || !enough || plan.envelope.is_some() {
            wrong.push(format!("{}: {plan:?}, {} of {rows}", cells[0], found.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
