//! Planted secrets: no key, person, address or text of a log reaches a trace, its rejects or what is
//! printed.

use super::{hints, mapped, read_text, spend};
use crate::domain::record::ROW_BYTES;
use crate::ingest::privacy::Hasher;
use crate::ingest::{Options, Rejects, ingest};
use crate::table::trace::{TraceReader, TraceWriter};

/// A text that must not appear in any output.
pub(super) const CANARY: &str = "CANARY 7f3a-secret";

/// Secrets in the form of one word: a key, a person, an address.
pub(super) const WORDS: [&str; 5] =
    ["sk_live_canary7f3a", "canary.person", "10.66.66.66", "AKIACANARY7EXAMPLE", "jane@acme"];

/// Puts a secret into every string of a value.
fn plant(value: &mut serde_json::Value, secret: &str) {
    match value {
        serde_json::Value::String(text) => secret.clone_into(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| plant(item, secret)),
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(|field| plant(field, secret));
        }
        _ => {}
    }
}

pub(super) fn assert_no_secret(output: &str, whose: &str) {
    for secret in WORDS.iter().chain(&["CANARY", "7f3a-secret"]) {
        assert!(!output.contains(secret), "{whose}: {secret}: {output}");
    }
}

#[test]
fn a_mapped_secret_reaches_no_row() {
    let row = |secret: &str| {
        let path = format!("/v1/{secret}/chat/completions?user={secret}");
        format!("{secret},{secret},{secret},{path},{secret},{secret},{secret}\n")
    };
    let rows: String = WORDS.iter().chain(&[CANARY]).map(|secret| row(secret)).collect();
    let text = format!("m,r,p,e,x,f,s\n{rows}");
    let map = [
        "model=m",
        "response_model=r",
        "provider=p",
        "endpoint=e",
        "error=x",
        "finish_reason=f",
        "status=s",
    ];
    let got = read_text(&text, mapped(&map)).unwrap();
    assert_eq!(got.rows.len(), 6);
    assert_eq!(got.rows[0].request_model.as_deref(), Some("other"));
    assert_no_secret(&format!("{got:?}"), "generic");
    let hidden = &got.ingested.metadata.decisions[0];
    assert_eq!((hidden.what.as_str(), hidden.value.as_str()), ("names kept as `other`", "24"));
}

#[test]
fn a_planted_secret_reaches_no_output() {
    let body = serde_json::json!({
        "metadata": {"error_information": {"error_class": "x", "error_message": "x", "error_code": "x"},
            "litellm_trace_id": "x", "user_api_key_alias": "x", "tags": ["x"]},
        "request_tags": ["x"], "requester_ip_address": "x", "api_base": "x", "organization_id": "x",
        "response": {"choices": [{"finish_reason": "x", "message": {"content": "x"}}]},
        "proxy_server_request": {"model": "x", "messages": [{"content": "x"}], "stream": "x"},
        "messages": [{"role": "x"}]
    });
    let mut base: serde_json::Value = serde_json::from_str(&spend(&[])).unwrap();
    for (field, value) in body.as_object().unwrap() {
        base[field] = value.clone();
    }
    let mut lines = Vec::new();
    let fields: Vec<String> = base.as_object().unwrap().keys().cloned().collect();
    for (field, secret) in fields
        .iter()
        .flat_map(|field| WORDS.iter().chain(&[CANARY]).map(move |word| (field, *word)))
    {
        let mut row = base.clone();
        if row[field].is_number() {
            row[field] = "x".into();
        }
        plant(&mut row[field], secret);
        lines.push(row.to_string());
    }
    lines.push(format!("{CANARY} is no json"));
    let folder = tempfile::tempdir().unwrap();
    let (log, trace) = (folder.path().join("log"), folder.path().join("trace.parquet"));
    std::fs::write(&log, lines.join("\n")).unwrap();
    let options = Options {
        hints: hints(),
        hasher: Hasher::new(b"a salt for tests"),
        filter: crate::ingest::Filter::default(),
        prefix_hashes: true,
        spill_folder: folder.path().to_owned(),
        sort_bytes: 3 * ROW_BYTES,
        chunk_bytes: 200,
        threads: 3,
    };
    let mut rejects = Rejects::create(&trace, false).unwrap();
    let mut writer = TraceWriter::create(&trace, false).unwrap();
    let mut rows = Vec::new();
    let ingested = ingest(&[log], &options, (&mut rejects).into(), &|_| {}, &mut |batch| {
        writer.write(&batch)?;
        rows.extend(batch);
        Ok(())
    })
    .unwrap();
    writer.finish(&ingested.metadata).unwrap();
    assert!(ingested.metadata.counts.rejected >= 6, "{:?}", ingested.metadata.counts);
    let mut outputs = vec![format!("{:?}", rejects.reasons()), format!("{rows:?}")];
    outputs.push(ingested.quality.render(&ingested.metadata));
    outputs.push(format!("{:?}", TraceReader::open(&trace).unwrap().metadata()));
    for path in [rejects.commit().unwrap().unwrap(), trace] {
        outputs.push(String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
    }
    for output in outputs {
        assert_no_secret(&output, "litellm");
    }
}
