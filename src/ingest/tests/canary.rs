//! Secrets planted in every field of every sample format: none may leave the ingest.
//!
//! Each value of each record is replaced in turn, also those inside JSON that stands in a text, each
//! cell of CSV and each word of a text log. What leaves: rows, trace bytes, rejects, the quality
//! table, decisions, explanations and errors.

#![expect(clippy::disallowed_methods, reason = "reads the samples")]

use super::secrets::{CANARY, WORDS, assert_no_secret};
use super::{hints, shared};
use crate::domain::trace::TraceMetadata;
use crate::ingest::privacy::Hasher;
use crate::ingest::{Format, Options, Rejects, SORT_BYTES, ingest};
use crate::table::trace::TraceWriter;
use serde_json::Value;
use std::path::Path;

/// Records of a sample into which secrets are planted.
const RECORDS: usize = 3;

/// Calls `f` with each variant of `value` in which one value is the secret.
fn variants(value: &Value, secret: &str, f: &mut dyn FnMut(Value)) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                variants(inner, secret, &mut |changed| {
                    let mut fields = fields.clone();
                    fields.insert(key.clone(), changed);
                    f(Value::Object(fields));
                });
            }
        }
        Value::Array(items) => {
            for (place, inner) in items.iter().enumerate() {
                variants(inner, secret, &mut |changed| {
                    let mut items = items.clone();
                    items[place] = changed;
                    f(Value::Array(items));
                });
            }
        }
        Value::String(text) => {
            f(Value::String(secret.to_owned()));
            match serde_json::from_str::<Value>(text) {
                Ok(inner) if inner.is_object() || inner.is_array() => {
                    variants(&inner, secret, &mut |changed| f(Value::String(changed.to_string())));
                }
                _ => {}
            }
        }
        _ => f(Value::String(secret.to_owned())),
    }
}

/// Returns a sample with the secret planted in every place, one place at a time.
fn planted(text: &str, name: &str, secret: &str) -> String {
    let mut lines = Vec::new();
    if has_extension(name, "csv") {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&records[0]).unwrap();
        for record in records.iter().skip(1).take(RECORDS) {
            for place in 0..record.len() {
                let cells = record.iter().enumerate();
                let cells = cells.map(|(n, cell)| if n == place { secret } else { cell });
                writer.write_record(cells).unwrap();
            }
        }
        return String::from_utf8(writer.into_inner().unwrap()).unwrap();
    }
    if has_extension(name, "log") {
        lines.extend(text.lines().map(str::to_owned));
        for line in text.lines().take(2 * RECORDS) {
            let words: Vec<&str> = line.split_inclusive([' ', '"', '\'', '/', '=', ':']).collect();
            for place in 0..words.len() {
                let words = words.iter().enumerate();
                lines.push(words.map(|(n, word)| if n == place { secret } else { word }).collect());
            }
        }
        return lines.join("\n");
    }
    for line in text.lines().take(RECORDS) {
        let record: Value = serde_json::from_str(line).unwrap();
        variants(&record, secret, &mut |changed| lines.push(changed.to_string()));
    }
    lines.push(format!("{secret} is no json"));
    lines.join("\n")
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

/// Returns everything that leaves an ingest of `text`.
fn outputs(text: &str, format: Format) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (log, trace) = (folder.path().join("log"), folder.path().join("trace.parquet"));
    std::fs::write(&log, text).unwrap();
    let mut hints = hints();
    hints.format = Some(format);
    let options = Options {
        hints,
        hasher: Hasher::new(b"a salt for tests"),
        filter: crate::ingest::Filter::default(),
        prefix_hashes: true,
        spill_folder: folder.path().to_owned(),
        sort_bytes: SORT_BYTES,
        chunk_bytes: 1 << 16,
        threads: 2,
    };
    let mut rejects = Rejects::create(&trace, false).unwrap();
    let mut writer = TraceWriter::create(&trace, false).unwrap();
    let mut rows = Vec::new();
    let result = ingest(&[log], &options, (&mut rejects).into(), &|_| {}, &mut |batch| {
        writer.write(&batch)?;
        rows.extend(batch);
        Ok(())
    });
    let mut outputs = vec![format!("{:?}", rejects.reasons()), format!("{rows:?}")];
    match result {
        Ok(done) => {
            writer.finish(&done.metadata).unwrap();
            outputs.push(done.quality.render(&done.metadata));
            outputs.push(format!("{:?} {:?}", done.metadata, done.explained));
        }
        Err(error) => {
            writer.finish(&TraceMetadata::default()).unwrap();
            outputs.push(format!("{error:?} {error} {:?}", error.hint()));
        }
    }
    for path in rejects.commit().unwrap().into_iter().chain([trace]) {
        outputs.push(String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
    }
    outputs
}

#[test]
fn a_secret_in_any_field_of_any_format_leaves_by_no_door() {
    let Some(manifest) = shared("log-samples/manifest.csv") else { return };
    let manifest = std::fs::read_to_string(manifest).unwrap();
    for line in manifest.lines().skip(1) {
        let mut cells = line.split(',');
        let (name, format) = (cells.next().unwrap(), cells.next().unwrap());
        let format = Format::parse(format).unwrap();
        let Some(path) = shared(&format!("log-samples/{name}")) else { return };
        let text = std::fs::read_to_string(path).unwrap();
        for secret in WORDS.iter().chain(&[CANARY]) {
            for output in outputs(&planted(&text, name, secret), format) {
                assert_no_secret(&output, name);
            }
        }
    }
}
