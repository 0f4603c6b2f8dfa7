//! What `export` writes is read again, by `ingest` or as the other tool's documents say.

use crate::tool::{Desk, in_repository, text};
use serde_json::Value;
use std::path::Path;
use tracewright::domain::record::RequestRecord;
use tracewright::table::trace::TraceReader;

/// Times in ms with equal ones, shared prefixes, a last block that is not full.
const LOG: &str = r#"{"timestamp":0,"input_length":1320,"output_length":160,"hash_ids":[40,41,42]}
{"timestamp":3000,"input_length":1662,"output_length":180,"hash_ids":[40,41,42,43]}
{"timestamp":3000,"input_length":90,"output_length":1,"hash_ids":[7]}
{"timestamp":3250,"input_length":1025,"output_length":2,"hash_ids":[40,41,9]}
"#;

/// A LiteLLM row; `session` is shared by turns, 0 output tokens stand for a failure.
fn litellm(second: u32, session: &str, output: u32) -> String {
    let status = if output > 0 { "success" } else { "failure" };
    format!(
        r#"{{"request_id":"r{second}","call_type":"acompletion","api_key":"k","spend":0.1,"prompt_tokens":2{second:02},"completion_tokens":{output},"startTime":"2026-11-24T09:15:{second:02}.000250+00:00","endTime":"2026-11-24T09:15:{second:02}.500000+00:00","model":"m","model_group":"m","custom_llm_provider":"openai","cache_hit":"False","session_id":"{session}","status":"{status}"}}"#
    ) + "\n"
}

fn rows(path: &Path) -> Vec<RequestRecord> {
    TraceReader::open(path).expect("a trace").flat_map(|batch| batch.unwrap()).collect()
}

/// Arrivals since the first one, and both lengths.
fn shape(rows: &[RequestRecord]) -> Vec<(i64, Option<u32>, Option<u32>)> {
    let at = |row: &RequestRecord| row.arrival_time.expect("an arrival").0;
    rows.iter().map(|row| (at(row) - at(&rows[0]), row.input_tokens, row.output_tokens)).collect()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn mooncake_comes_back_as_it_was() {
    let desk = Desk::new();
    desk.write("log.jsonl", LOG);
    desk.ok(&["ingest", "log.jsonl", "-o", "trace.parquet"]);
    desk.ok(&["export", "trace.parquet", "--format", "mooncake", "-o", "out.jsonl"]);
    // Ids are numbered anew, from 0, in the order in which they first appear.
    let ids: Vec<String> =
        lines(&desk.path("out.jsonl")).iter().map(|line| line["hash_ids"].to_string()).collect();
    assert_eq!(ids, ["[0,1,2]", "[0,1,2,3]", "[4]", "[0,1,5]"]);
    desk.ok(&["ingest", "out.jsonl", "-o", "again.parquet"]);
    let (before, after) = (rows(&desk.path("trace.parquet")), rows(&desk.path("again.parquet")));
    assert_eq!(shape(&after), shape(&before));
    assert_eq!(after.len(), 4);
    let lists = |rows: &[RequestRecord]| -> Vec<usize> {
        rows.iter().map(|row| row.prefix_block_hashes.len()).collect()
    };
    assert_eq!(lists(&after), lists(&before));
    let exists = desk.run(&["export", "trace.parquet", "--format", "mooncake", "-o", "out.jsonl"]);
    assert!(exists.stderr.contains("exists already"), "{}", exists.stderr);
}

#[test]
fn guidellm_comes_back_as_it_was_in_seconds() {
    let desk = Desk::new();
    let log: String = [1, 5, 9].map(|second| litellm(second, "", 7 + second)).concat();
    desk.write("log.jsonl", log);
    desk.ok(&["ingest", "log.jsonl", "-o", "trace.parquet"]);
    desk.ok(&["export", "trace.parquet", "--format", "guidellm", "-o", "out.jsonl"]);
    desk.ok(&["ingest", "out.jsonl", "--time-unit", "s", "-o", "again.parquet"]);
    let before = rows(&desk.path("trace.parquet"));
    assert_eq!(shape(&rows(&desk.path("again.parquet"))), shape(&before));
    assert_eq!(before.len(), 3);
}

#[test]
fn aiperf_gets_sessions_as_numbers_and_delays() {
    let desk = Desk::new();
    let turns = [(1, "s-canary", 5), (4, "s-canary", 6), (9, "t-canary", 7), (12, "s-canary", 8)];
    let log: String = turns.map(|(at, session, out)| litellm(at, session, out)).concat();
    desk.write("log.jsonl", log);
    desk.ok(&["ingest", "log.jsonl", "-o", "trace.parquet"]);
    // Each request stands for itself unless sessions are asked for.
    desk.ok(&["export", "trace.parquet", "--format", "aiperf", "-o", "alone.jsonl"]);
    let alone = lines(&desk.path("alone.jsonl"));
    assert!(alone.iter().all(|line| line["session_id"].is_null() && line["delay"].is_null()));
    desk.ok(&["ingest", "alone.jsonl", "--time-unit", "ms", "-o", "alone.parquet"]);
    let (whole, again) = (rows(&desk.path("trace.parquet")), rows(&desk.path("alone.parquet")));
    assert_eq!(shape(&again), shape(&whole));
    let with = ["export", "trace.parquet", "--format", "aiperf", "--sessions", "-o", "out.jsonl"];
    let done = desk.ok(&with);
    assert!(done.stdout.contains("turns with a delay           2"), "{}", done.stdout);
    let got = lines(&desk.path("out.jsonl"));
    let before = rows(&desk.path("trace.parquet"));
    // A text, as AIPerf's model demands; the session on one row only is none.
    let sessions: Vec<&Value> = got.iter().map(|line| &line["session_id"]).collect();
    assert_eq!(sessions, [&"0".into(), &"0".into(), &Value::Null, &"0".into()]);
    let mut ends = None;
    for ((line, row), (offset, input, output)) in got.iter().zip(&before).zip(shape(&before)) {
        assert_eq!(line["input_length"], Value::from(input.unwrap()));
        assert_eq!(line["output_length"], Value::from(output.unwrap()));
        let millis = |key: &str| {
            let micros = format!("{:.0}", line[key].as_f64()? * 1_000.0);
            micros.parse::<i64>().ok()
        };
        let end = row.end_time.unwrap().0 - before[0].arrival_time.unwrap().0;
        match millis("delay") {
            Some(delay) => assert_eq!(ends.unwrap() + delay, offset, "after the turn before"),
            None => assert_eq!(millis("timestamp"), Some(offset)),
        }
        if line["session_id"] == "0" {
            ends = Some(end);
        }
    }
}

#[test]
fn a_data_set_has_every_row_and_no_hash() {
    let desk = Desk::new();
    let log = litellm(1, "s", 5) + &litellm(2, "s", 0) + &litellm(3, "", 9);
    desk.write("log.jsonl", log);
    desk.ok(&["ingest", "log.jsonl", "-o", "trace.parquet"]);
    desk.ok(&["export", "trace.parquet", "--format", "dataset-json", "-o", "rows.json"]);
    let document = std::fs::read_to_string(desk.path("rows.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let names: Vec<&str> = document["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    let cells = |name: &str| -> Vec<&Value> {
        let place = names.iter().position(|known| *known == name).expect("a column");
        document["rows"].as_array().unwrap().iter().map(|row| &row[place]).collect()
    };
    let before = rows(&desk.path("trace.parquet"));
    let number = |value: Option<u32>| value.map_or(Value::Null, Value::from);
    let inputs: Vec<Value> = before.iter().map(|row| number(row.input_tokens)).collect();
    let outputs: Vec<Value> = before.iter().map(|row| number(row.output_tokens)).collect();
    assert_eq!(cells("input_tokens"), inputs.iter().collect::<Vec<_>>());
    assert_eq!(cells("output_tokens"), outputs.iter().collect::<Vec<_>>());
    assert_eq!(
        cells("offset_us"),
        [0, 1_000_000, 2_000_000].map(Value::from).iter().collect::<Vec<_>>()
    );
    assert_eq!(
        cells("session"),
        [Value::from(0), Value::from(0), Value::Null].iter().collect::<Vec<_>>()
    );
    assert_eq!(document["counts"]["rows"], 3);
}

#[test]
fn what_lacks_a_count_is_named_or_refused() {
    let desk = Desk::new();
    desk.write("log.jsonl", litellm(1, "", 5) + &litellm(2, "", 0));
    desk.ok(&["ingest", "log.jsonl", "-o", "trace.parquet"]);
    let args = ["export", "trace.parquet", "--format", "guidellm", "-o", "out.jsonl"];
    let done = desk.ok(&args);
    assert!(done.stdout.contains("left out: no_output_tokens   1"), "{}", done.stdout);
    let strict = ["--force", "--require-complete"];
    let refused = desk.run(&[&args[..], &strict[..]].concat());
    assert_eq!(refused.code, Some(1));
    let said = "trace.parquet: 1 of 2 requests lack what the format needs: no_output_tokens 1";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    assert_eq!(lines(&desk.path("out.jsonl")).len(), 1, "the older file stays");
    let wrong = desk.run(&["export", "log.jsonl", "--format", "guidellm", "-o", "o"]);
    assert!(wrong.stderr.contains("found a JSON file of another program"), "{}", wrong.stderr);
}

#[test]
fn a_plan_is_exported_and_inspected() {
    let desk = Desk::new();
    desk.write("log.jsonl", LOG);
    let pool = in_repository("prompt-pools/small");
    desk.ok(&["ingest", "log.jsonl", "-o", "trace.parquet"]);
    desk.ok(&["plan", "--trace", "trace.parquet", "--pool", text(&pool), "-o", "plan.parquet"]);
    desk.ok(&["export", "plan.parquet", "--format", "mooncake", "-o", "out.jsonl"]);
    desk.ok(&["ingest", "out.jsonl", "-o", "again.parquet"]);
    let (before, after) = (rows(&desk.path("trace.parquet")), rows(&desk.path("again.parquet")));
    assert_eq!(shape(&after), shape(&before));
    for (artifact, kind) in
        [("trace.parquet", "trace"), ("plan.parquet", "plan"), (text(&pool), "pool")]
    {
        let done = desk.ok(&["inspect", artifact, "--json"]);
        let told: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(told["artifact"], kind);
        assert!(told["table"]["rows"].as_u64().unwrap() > 0);
        assert!(desk.ok(&["inspect", artifact]).stdout.contains("\nrows "));
    }
}
