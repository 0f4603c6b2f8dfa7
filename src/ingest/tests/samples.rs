//! Every sample beside the repository: rows and drops as its manifest says, and one invented call
//! that all gateways, clouds and engines logged, the same from each of them.

#![expect(clippy::disallowed_methods, reason = "reads the samples")]

use super::{Got, hints, read_shared, shared};
use crate::domain::record::TtftSource;
use crate::domain::time::WallTime;
use crate::ingest::{Format, Hints, Zone};

/// The hints a sample needs: what its log does not say.
fn hints_for(name: &str) -> Hints {
    let mut hints = hints();
    match name {
        // Its lines have no year.
        "vllm-requests.log" => hints.year = Some(2026),
        // Local time of a machine one hour ahead of UTC.
        "ollama-gin.log" => hints.zone = Zone::named("Europe/Berlin").unwrap(),
        _ => {}
    }
    hints
}

fn read_sample(name: &str) -> Option<Got> {
    read_shared(&format!("log-samples/{name}"), hints_for(name))
}

#[test]
fn every_sample_gives_the_rows_of_the_manifest() {
    let Some(manifest) = shared("log-samples/manifest.csv") else { return };
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let mut wrong = Vec::new();
    for line in manifest.lines().skip(1) {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
        let cells = reader.records().next().unwrap().unwrap();
        let (name, format, rows) = (&cells[0], &cells[1], &cells[4]);
        let got = match std::panic::catch_unwind(|| read_sample(name)) {
            Ok(Some(got)) => got,
            Ok(None) => return,
            Err(_) => {
                wrong.push(format!("{name}: not read"));
                continue;
            }
        };
        let counts = &got.ingested.metadata.counts;
        let mut dropped: Vec<String> =
            counts.dropped.iter().map(|(why, n)| format!("{why}:{n}")).collect();
        if counts.merged > 0 {
            dropped.push(format!("merged:{}", counts.merged));
        }
        let mut expected: Vec<&str> = cells[5].split_whitespace().collect();
        dropped.sort();
        expected.sort_unstable();
        let found = (got.rows.len().to_string(), dropped.join(" "));
        let wanted = ((*rows).to_owned(), expected.join(" "));
        if found != wanted || got.rejects != *"" {
            wrong.push(format!("{name}: {found:?}, expected {wanted:?}; rejects {}", got.rejects));
        }
        assert_eq!(got.ingested.metadata.files[0].format, format, "{name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A sample, the quantum of its arrivals in microseconds, and what it states of the call: D
/// duration, W duration in whole seconds, T time to first token, H time to headers, I input, C
/// cached, O output tokens.
const COMMON_CALL: &[(&str, i64, &str)] = &[
    ("litellm-spendlogs.csv", 1, "DTICO"),
    ("litellm-spendlogs.jsonl", 1, "DTICO"),
    ("litellm-standard-logging.jsonl", 1, "DTICO"),
    ("one-api-logs.jsonl", 1_000_000, "DIO"),
    ("one-api-logs.csv", 1_000_000, "DIO"),
    ("new-api-logs.jsonl", 1_000_000, "WTICO"),
    ("envoy-ai-gateway.jsonl", 1, "DHIO"),
    ("kong-ai-proxy.jsonl", 1, "DIO"),
    ("apisix-logger.jsonl", 1, "DTIO"),
    ("apisix-access.log", 1_000_000, "DTIO"),
    ("higress-ai-statistics.jsonl", 1, "DTICO"),
    ("portkey-export.jsonl", 1_000_000, "DIO"),
    ("helicone-export.jsonl", 1, "DTICO"),
    ("helicone-export.csv", 1, "IO"),
    ("langfuse-observations-blob.jsonl", 1, "DTICO"),
    ("langfuse-observations-ui.jsonl", 1, "DTICO"),
    ("langsmith-runs.jsonl", 1, "DTIO"),
    ("otlp-genai-spans.jsonl", 1, "DTICO"),
    // The gateway's span begins 3 ms before the engine's: its first token is that much later.
    ("otlp-legacy-spans.jsonl", 3_000, "IO"),
    ("cloudflare-logpush.jsonl", 1_000_000, "D"),
    ("bedrock-invocation.jsonl", 1_000_000, "DICO"),
    ("azure-openai-requestresponse.jsonl", 1, "D"),
    ("azure-apim-llm.jsonl", 1, "IO"),
    ("azure-apim-gatewaylogs.jsonl", 1, "DICO"),
    ("vertex-request-response.jsonl", 1, "DICO"),
    ("openrouter-activity.csv", 1, "DTICO"),
    ("vllm-requests.log", 1_000_000, ""),
    ("sglang-requests.jsonl", 1_000, "DICO"),
    ("sglang-request-metrics.jsonl", 1_000, "DICO"),
    ("tgi-router.jsonl", 1, "DO"),
    ("ollama-gin.log", 1_000_000, "D"),
    ("ollama-responses.jsonl", 1_000, "DIO"),
    ("nginx-json.jsonl", 1_000, "DT"),
    ("nginx-ingress.log", 1_000_000, "D"),
    ("raw-capture.jsonl", 1, "DIO"),
    ("dynamo-request-trace.jsonl", 1, "DTICO"),
];

/// 2026-11-24T09:15:02.123Z.
const ARRIVAL: WallTime = WallTime(1_795_511_702_123_000);

#[test]
fn one_call_is_the_same_in_every_log() {
    let mut wrong = Vec::new();
    for (name, quantum_us, states) in COMMON_CALL {
        let Some(got) = read_sample(name) else { return };
        let near = |at: WallTime| at.micros_since(ARRIVAL).abs() <= *quantum_us + 1_000;
        let row = got.rows.iter().find(|row| row.arrival_time.is_some_and(near));
        let Some(row) = row else {
            let at: Vec<_> = got.rows.iter().map(|row| row.arrival_time).collect();
            wrong.push(format!("{name}: no row at {ARRIVAL}, found {at:?}"));
            continue;
        };
        for fact in states.chars() {
            let (found, expected, within) = match fact {
                'D' => (row.duration_us, 3_500_000, 2_000),
                'W' => (row.duration_us, 3_000_000, 0),
                'T' => (row.time_to_first_chunk_us, 418_000, 1_000),
                'H' => (row.time_to_first_chunk_us, 402_000, 1_000),
                'I' => (row.input_tokens.map(i64::from), 1_320, 0),
                'C' => (row.cache_read_input_tokens.map(i64::from), 1_024, 0),
                _ => (row.output_tokens.map(i64::from), 160, 0),
            };
            if found.is_none_or(|found| (found - expected).abs() > within) {
                wrong.push(format!("{name}: {fact} is {found:?}, expected {expected}"));
            }
            if fact == 'H' {
                assert_eq!(row.ttft_source, Some(TtftSource::Headers), "{name}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn records_one_to_three_of_the_capture_are_one_session() {
    let Some(got) = read_sample("raw-capture.jsonl") else { return };
    let turns: Vec<_> = got.rows.iter().map(|row| (row.source_line, row.turn_index)).collect();
    let session = got.rows[0].session_id_hash;
    assert!(session.is_some());
    let of_first: Vec<_> = got.rows.iter().filter(|row| row.session_id_hash == session).collect();
    let lines: Vec<_> = of_first.iter().map(|row| row.source_line).collect();
    assert_eq!(lines, [Some(1), Some(2), Some(3)], "{turns:?}");
}

#[test]
fn every_format_but_two_has_a_sample() {
    let Some(manifest) = shared("log-samples/manifest.csv") else { return };
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let missing: Vec<&str> = Format::names()
        .into_iter()
        .filter(|format| !manifest.contains(&format!(",{format},")))
        .collect();
    assert_eq!(missing, ["tracewright-run", "generic"]);
}
