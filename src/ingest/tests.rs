//! Tests of the whole ingest: samples, public traces, broken files, planted secrets.
//!
//! Logs in, rows and rejects out, through the same function as the verb. Samples and public traces
//! stand beside the repository; a test that does not find them says so and is skipped.

use super::*;
use crate::domain::record::{ArrivalSource, CacheStatus, Flag, ROW_BYTES, RagLabel, Status};
use crate::domain::scenario::Scenario;
use crate::domain::time::WallTime;
use std::io::Write as _;

mod canary;
mod damage;
mod samples;
mod secrets;

/// What a test gets from an ingest.
#[derive(Debug)]
struct Got {
    rows: Vec<RequestRecord>,
    ingested: Ingested,
    rejects: String,
}

fn hints() -> Hints {
    Hints::none()
}

fn mapped(map: &[&str]) -> Hints {
    let map = map.iter().map(|text| format::generic::parse_map(text).unwrap()).collect();
    Hints { map, ..hints() }
}

fn read_with(inputs: &[PathBuf], hints: Hints, run_rows: usize) -> Result<Got, String> {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.parquet");
    let options = Options {
        hints,
        hasher: Hasher::new(b"a salt for tests"),
        filter: Filter::default(),
        prefix_hashes: true,
        spill_folder: folder.path().to_owned(),
        sort_bytes: run_rows * ROW_BYTES,
        chunk_bytes: 200,
        threads: 3,
    };
    let mut rejects = Rejects::create(&trace, false).unwrap();
    let mut rows = Vec::new();
    let ingested = ingest(inputs, &options, (&mut rejects).into(), &|_| {}, &mut |batch| {
        rows.extend(batch);
        Ok(())
    });
    let file = rejects.commit().unwrap();
    let rejects = file
        .map_or_else(String::new, |path| String::from_utf8(std::fs::read(path).unwrap()).unwrap());
    match ingested {
        Ok(ingested) => Ok(Got { rows, ingested, rejects }),
        Err(error) => Err(format!("{error}")),
    }
}

fn read_text(text: &str, hints: Hints) -> Result<Got, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, text).unwrap();
    read_with(&[path], hints, 1_000)
        .map_err(|error| error.replace(&format!("{}/", folder.path().display()), ""))
}

/// Returns a shared file, or prints why the test is skipped.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")).join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is missing", path.display());
    None
}

fn read_shared(path: &str, hints: Hints) -> Option<Got> {
    Some(read_with(&[shared(path)?], hints, 1_000).unwrap())
}

#[test]
fn litellm_rows_are_the_same_from_jsonl_and_csv() {
    let json = read_shared("log-samples/litellm-spendlogs.jsonl", hints());
    let csv = read_shared("log-samples/litellm-spendlogs.csv", hints());
    let (Some(json), Some(csv)) = (json, csv) else { return };
    assert_eq!(csv.ingested.metadata.counts.read, 5);
    assert_eq!(csv.ingested.metadata.counts.lines, 6);
    for (json, csv) in json.rows.iter().zip(&csv.rows) {
        assert!(csv.zone_assumed && !json.zone_assumed);
        let csv = RequestRecord {
            zone_assumed: false,
            source_line: csv.source_line.map(|line| line - 1),
            ..csv.clone()
        };
        // The dump of the table has no bodies but for the first row.
        assert_eq!(*json, csv);
    }
    let [first, rag, failure, hit] = &json.rows[..] else { panic!("four rows") };
    assert_eq!(first.time_to_first_chunk_us, Some(418_000));
    assert_eq!(first.cache_read_input_tokens, Some(1_024));
    assert_eq!((first.stream, first.message_count), (Some(true), Some(2)));
    assert_eq!(first.rag_label, RagLabel::NoEvidence);
    assert_eq!(&*first.finish_reasons[0], "stop");
    assert_eq!(rag.scenario, Scenario::Rag);
    assert_eq!((rag.turn_index, rag.parent_row_id), (Some(1), Some(0)));
    assert_eq!(rag.think_time_us, Some(25_381_000));
    assert_eq!(rag.time_to_first_chunk_us, None, "a first chunk at the end is none");
    assert_eq!(failure.status, Status::RateLimited);
    assert_eq!((failure.input_tokens, failure.output_tokens), (None, None));
    assert_eq!(failure.flags, [Flag::ZeroMeansUnknown]);
    assert_eq!((failure.http_status_code, failure.session_id_hash), (Some(429), None));
    assert_eq!(failure.rag_label, RagLabel::Unknowable);
    assert_eq!(hit.cache_status, Some(CacheStatus::Hit));
    assert_eq!(hit.flags, [Flag::CacheHit]);
}

/// A row of `LiteLLM_SpendLogs` with some fields replaced.
fn spend(changes: &[(&str, serde_json::Value)]) -> String {
    let mut row = serde_json::json!({
        "request_id": "r", "call_type": "acompletion", "api_key": "k", "spend": 0.1,
        "total_tokens": 30, "prompt_tokens": 20, "completion_tokens": 10,
        "startTime": "2026-11-24 09:15:02.000", "endTime": "2026-11-24 09:15:05.000",
        "completionStartTime": "2026-11-24 09:15:03.000", "model": "m", "model_group": "g",
        "custom_llm_provider": "openai", "user": "u", "metadata": {}, "cache_hit": "False",
        "cache_key": "c", "team_id": "t", "end_user": "e", "messages": {}, "response": {},
        "session_id": "s", "status": "success", "proxy_server_request": {}
    });
    for (field, value) in changes {
        row[field] = value.clone();
    }
    row.to_string()
}

fn one(changes: &[(&str, serde_json::Value)]) -> RequestRecord {
    read_text(&spend(changes), hints()).unwrap().rows.remove(0)
}

#[test]
fn client_hang_ups_are_not_successes() {
    for error in [
        serde_json::json!({"error_information": {"error_class": "ClientDisconnect", "error_code": "499"}}),
        serde_json::json!({"error_information": {"error_code": 499}}),
    ] {
        let row = one(&[("metadata", error)]);
        assert_eq!(row.status, Status::Cancelled);
        assert_eq!(row.flags, [Flag::ClientHangUp]);
        assert!(row.output_is_censored());
        assert_eq!(row.output_tokens, Some(10));
    }
    assert_eq!(one(&[]).status, Status::Ok);
}

#[test]
fn odd_litellm_rows_are_marked() {
    let before = serde_json::json!("2026-11-24 09:15:01.000");
    let row = one(&[("endTime", before)]);
    assert_eq!((row.duration_us, row.end_time), (None, None));
    assert_eq!(row.flags, [Flag::NegativeDuration]);
    let same = serde_json::json!("2026-11-24 09:15:02.000");
    let row = one(&[("endTime", same), ("total_tokens", 31.into())]);
    assert_eq!(row.flags, [Flag::StartEqualsEnd, Flag::TokenSumMismatch]);
    let usage = serde_json::json!({"usage_object": {"cache_read_input_tokens": 21,
        "completion_tokens_details": {"reasoning_tokens": 4}}});
    let row = one(&[("metadata", usage)]);
    assert_eq!((row.cache_read_input_tokens, row.reasoning_output_tokens), (None, Some(4)));
    assert_eq!(row.flags, [Flag::CachedExceedsInput]);
    let cut = serde_json::json!("{\"messages\": [\"litellm_trunc");
    assert_eq!(one(&[("proxy_server_request", cut)]).flags, [Flag::TruncatedBody]);
    let tools = serde_json::json!({"tools": [{"name": "x"}], "max_tokens": 50});
    let row = one(&[("proxy_server_request", tools)]);
    assert_eq!((row.scenario, row.max_tokens), (Scenario::Agent, Some(50)));
}

#[test]
fn rows_that_are_no_requests_are_counted_by_reason() {
    let text = [
        spend(&[]),
        spend(&[("call_type", "acreate_batch".into())]),
        spend(&[("startTime", serde_json::Value::Null)]),
        spend(&[(
            "metadata",
            serde_json::json!({"user_api_key_alias": "litellm-internal-health-check"}),
        )]),
        // A caller can write any tag: it decides nothing.
        spend(&[
            ("request_id", "r2".into()),
            ("request_tags", serde_json::json!(["litellm-internal-health-check"])),
        ]),
    ];
    let got = read_text(&text.join("\n"), hints()).unwrap();
    let dropped: Vec<_> = got.ingested.metadata.counts.dropped.into_iter().collect();
    let expected = ["no_time", "not_llm", "probe"].map(|reason| (reason.to_owned(), 1));
    assert_eq!(dropped, expected);
    assert_eq!(got.rows.len(), 2);
}

#[test]
fn retries_become_one_row_and_no_session() {
    let trace = serde_json::json!({"litellm_trace_id": "call-1"});
    let failure = [
        ("metadata", trace.clone()),
        ("status", "failure".into()),
        ("prompt_tokens", 0.into()),
        ("completion_tokens", 0.into()),
        ("total_tokens", 0.into()),
    ];
    let success = [
        ("metadata", trace),
        ("startTime", "2026-11-24 09:15:06.000".into()),
        ("endTime", "2026-11-24 09:15:09.000".into()),
    ];
    let got = read_text(&[spend(&success), spend(&failure)].join("\n"), hints()).unwrap();
    assert_eq!(got.rows.len(), 1);
    let row = &got.rows[0];
    assert_eq!((row.attempt_count, row.status, row.input_tokens), (2, Status::Ok, Some(20)));
    assert_eq!(row.duration_us, Some(7_000_000));
    assert_eq!(row.flags, [Flag::AttemptsMerged]);
    assert_eq!(row.session_id_hash, None, "attempts of one call are one row");
    assert_eq!(got.ingested.metadata.counts.merged, 1);
}

#[test]
fn broken_records_are_rejected_with_their_place() {
    let mut text = vec![
        spend(&[]),
        spend(&[("prompt_tokens", (-1).into())]),
        "not json".to_owned(),
        "[1, 2]".to_owned(),
        spend(&[("status", "odd".into())]),
        spend(&[("metadata", 5.into())]),
    ];
    let mut cut = spend(&[]);
    cut.truncate(40);
    text.push(cut);
    let got = read_text(&text.join("\r\n"), hints()).unwrap();
    assert_eq!((got.rows.len(), got.ingested.metadata.counts.rejected), (1, 6));
    assert_eq!(got.ingested.metadata.counts.lines, 7);
    assert!(got.ingested.reject_share() > 0.8);
    let found: Vec<String> = got
        .rejects
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| format!("{} {} {}", line["line"], line["field"], line["reason"]))
        .collect();
    insta::assert_snapshot!(found.join("\n"), @r#"
    2 "prompt_tokens" "is negative, not a whole number"
    3 "" "is not a JSON object"
    4 "" "is not a JSON object"
    5 "status" "is neither `success` nor `failure`"
    6 "metadata" "is not the JSON object that LiteLLM writes"
    7 "" "ends in the middle of its JSON, at byte 40"
    "#);
}

#[test]
fn broken_csv_records_are_rejected_with_their_place() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
        2023-11-16 10:00:00.1234567,611,37\r\n\
        2023-11-16 10:00:01,1203\r\n\
        yesterday,58,0\r\n\
        ,58,0\r\n\
        2023-11-16 09:00:00,58,0";
    let got = read_text(text, hints()).unwrap();
    let counts = &got.ingested.metadata.counts;
    assert_eq!((counts.read, counts.kept, counts.rejected), (5, 2, 2));
    assert_eq!(counts.dropped["no_time"], 1);
    assert_eq!((got.rows[0].status, got.rows[0].output_tokens), (Status::Error, Some(0)));
    assert_eq!(got.rows[1].source_line, Some(2));
    assert!(got.rejects.contains(r#""line":3,"byte":77,"field":"","reason":"has 2 fields"#));
    assert!(got.rejects.contains(r#""line":4"#), "{}", got.rejects);
}

#[test]
fn azure_code_is_exact_to_the_microsecond() {
    let Some(got) = read_shared("traces/azure2023_code.csv", hints()) else { return };
    assert_eq!(got.rows.len(), 8_819);
    let arrival = |row: &RequestRecord| row.arrival_time.unwrap().to_string();
    assert_eq!(arrival(&got.rows[0]), "2023-11-16T18:17:03.979960Z");
    assert_eq!(arrival(&got.rows[8_818]), "2023-11-16T19:14:19.928016Z");
    assert!(got.rows.iter().all(|row| row.zone_assumed && row.arrival_resolution_us == 1));
    let sum: u64 = got.rows.iter().map(|row| u64::from(row.input_tokens.unwrap())).sum();
    assert_eq!(sum, 18_059_974);
    let decision = &got.ingested.metadata.decisions[0];
    assert_eq!((decision.what.as_str(), decision.value.as_str()), ("zone of `TIMESTAMP`", "UTC"));
}

#[test]
fn mooncake_is_milliseconds_with_keyed_blocks() {
    let Some(got) = read_shared("traces/mooncake_fast25_synthetic.jsonl", hints()) else { return };
    assert_eq!(got.rows.len(), 3_993);
    let last = got.rows.last().unwrap();
    assert_eq!(last.arrival_time, Some(WallTime(1_022_025_000)));
    assert_eq!(last.arrival_source, ArrivalSource::RelativeOrigin);
    assert_eq!(last.prefix_block_size, Some(512));
    let (first, second) = (&got.rows[0].prefix_block_hashes, &got.rows[1].prefix_block_hashes);
    assert_eq!((first.len(), second.len()), (79, 72));
    assert!(first.iter().all(|hash| *hash > 1_000 && !second.contains(hash)));
    let decision = &got.ingested.metadata.decisions[0];
    assert!(decision.why.contains("requests/s"), "{decision:?}");
    let seconds = Hints { units: vec![(None, stamp::Unit::Seconds)], ..hints() };
    let got = read_shared("traces/mooncake_fast25_synthetic.jsonl", seconds).unwrap();
    let last = got.rows.last().unwrap();
    assert_eq!(last.arrival_time, Some(WallTime(1_022_025_000_000)));
    assert_eq!(last.prefix_block_size, None);
}

#[test]
fn a_map_reads_any_table() {
    let map = mapped(&["input_tokens=num_prefill_tokens", "output_tokens=num_decode_tokens"]);
    let Some(got) = read_shared("traces/etalon_sharegpt8k_lengths.csv", map) else { return };
    assert_eq!(got.rows.len(), 30_731);
    assert!(got.rows.iter().all(|row| row.arrival_source == ArrivalSource::None));
    assert!(got.rows.iter().all(|row| row.arrival_time.is_none()));
    let map = mapped(&[
        "arrival=arrival_time_ns",
        "input_tokens=input_toks",
        "output_tokens=output_toks",
    ]);
    let got = read_shared("traces/llmservingsim_sharegpt300_counts.csv", map).unwrap();
    assert_eq!(got.rows.len(), 300);
    assert_eq!(got.rows[0].arrival_time, Some(WallTime(46_926)));
    assert_eq!(got.rows[0].arrival_source, ArrivalSource::RelativeOrigin);
}

#[test]
fn a_map_reads_paths_of_json() {
    let text = r#"{"t": 1795511731.5, "usage": {"in": 7, "out": "9"}, "ms": 250, "code": 499, "user": {"id": 5}, "conv": "c"}
{"t": 1795511730, "usage": {"in": 0}, "ms": 1000, "code": 200, "conv": "c"}
{"usage": {"in": 1}}"#;
    let got = read_text(
        text,
        mapped(&[
            "end=t",
            "input_tokens=usage.in",
            "output_tokens=usage.out",
            "duration=ms",
            "http_status=code",
            "user=user.id",
            "session=conv",
        ]),
    )
    .unwrap();
    assert_eq!(got.ingested.metadata.counts.dropped["no_time"], 1);
    let [first, second] = &got.rows[..] else { panic!("two rows") };
    assert_eq!(first.arrival_time, Some(WallTime(1_795_511_729_000_000)));
    assert_eq!(first.arrival_source, ArrivalSource::EndMinusDuration);
    assert_eq!((first.status, first.input_tokens), (Status::Ok, None));
    assert_eq!(first.flags, [Flag::ZeroMeansUnknown]);
    assert_eq!((second.status, second.output_tokens), (Status::Cancelled, Some(9)));
    assert!(second.user_hash.is_some());
    assert_eq!(second.think_time_us, Some(1_250_000));
}

#[test]
fn a_map_that_does_not_fit_is_an_error() {
    let error = |text: &str, map: &[&str]| read_text(text, mapped(map)).unwrap_err();
    insta::assert_snapshot!(error("a,b\n1,2\n", &["input_tokens=c"]), @"log: no column `c`; found a, b");
    insta::assert_snapshot!(error("{\"a\":1}\n", &["input_tokens=b.c"]), @"log: no column `b.c`; found no value of it in the first 1 records");
    let bad = format::generic::parse_map("speed=x").unwrap_err();
    insta::assert_snapshot!(bad, @"--map: expected `FIELD=COLUMN` with a known field, found `speed=x`");
}

#[test]
fn times_of_two_kinds_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let (offsets, dates) = (folder.path().join("a.jsonl"), folder.path().join("b.csv"));
    std::fs::write(&offsets, r#"{"timestamp":0,"input_length":1,"output_length":1}"#).unwrap();
    std::fs::write(&dates, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 10:00:00,1,1\n")
        .unwrap();
    let error = read_with(&[offsets.clone(), dates], hints(), 10).unwrap_err();
    assert!(error.contains("b.csv: its times are dates, those of the files before"), "{error}");
    let got = read_with(&[offsets.clone(), offsets], hints(), 10).unwrap();
    assert_eq!(got.ingested.metadata.files.len(), 2);
    assert_eq!(got.rows[1].source_file_id, 1);
}

#[test]
fn nothing_left_is_an_error_with_counts() {
    let probe = spend(&[("api_key", "litellm-internal-health-check".into())]);
    let error = read_text(&probe, hints()).unwrap_err();
    insta::assert_snapshot!(error, @"no request left of 1 records: 1 dropped (probe 1), 0 rejected");
}

#[test]
fn packing_and_run_size_do_not_change_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let line = |n: u64| {
        spend(&[
            ("request_id", format!("r{n}").into()),
            ("session_id", format!("s{}", n % 50).into()),
            ("startTime", format!("2026-11-24 09:{:02}:00.000", n * 37 % 60).into()),
        ])
    };
    let text: Vec<String> = (0..500).map(line).collect();
    let text = text.join("\n");
    let (head, tail) = text.as_bytes().split_at(text.len() / 3);
    let mut packed = Vec::new();
    for part in [head, tail] {
        let mut encoder = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap();
    }
    let (plain, gz) = (folder.path().join("log"), folder.path().join("log.gz"));
    std::fs::write(&plain, &text).unwrap();
    std::fs::write(&gz, &packed).unwrap();
    let expected = read_with(&[plain], hints(), 10_000).unwrap();
    assert_eq!(expected.rows.len(), 500);
    for run_rows in [1, 7, 499] {
        assert_eq!(
            read_with(std::slice::from_ref(&gz), hints(), run_rows).unwrap().rows,
            expected.rows
        );
    }
    let cut = packed.len() - 3;
    std::fs::write(&gz, &packed[..cut]).unwrap();
    let error = read_with(&[gz], hints(), 10).unwrap_err();
    assert!(
        error.ends_with(&format!(
            "log.gz: the gzip stream is cut at byte {cut}, before its end mark"
        ))
    );
}

#[test]
fn side_fields_of_another_form_are_missing_ones() {
    let odd = serde_json::json!({"additional_usage_values": "", "usage_object": 7,
        "error_information": "", "litellm_trace_id": {}});
    let row = one(&[("metadata", odd), ("response", serde_json::json!({"choices": "none"}))]);
    assert_eq!((row.status, row.error_type, row.flags), (Status::Ok, None, Vec::new()));
    let redacted = serde_json::json!("redacted-by-litellm");
    assert_eq!(one(&[("messages", redacted)]).flags, [], "not cut, but no JSON");
    let usage = serde_json::json!({"usage_object": {"prompt_tokens_details": "",
        "cache_read_input_tokens": 8}});
    let row = one(&[("metadata", usage.clone()), ("prompt_tokens", 0.into())]);
    assert_eq!(row.cache_read_input_tokens, Some(8), "nothing contradicts it");
    assert_eq!(row.flags, [Flag::ZeroMeansUnknown, Flag::TokenSumMismatch]);
}

#[test]
fn rows_that_ask_for_no_answer_are_left_out() {
    let text = ["aget_responses", "adelete_responses", "alist_input_items", "aresponses"]
        .map(|call| spend(&[("call_type", call.into())]));
    let got = read_text(&text.join("\n"), hints()).unwrap();
    assert_eq!(got.ingested.metadata.counts.dropped["not_llm"], 3);
    assert_eq!(got.rows.len(), 1);
}

#[test]
fn one_odd_value_rejects_one_row() {
    let text = "at,turn,code,in\n0,1,200,1\n1,3000000000,200,1\n2,1,1000,1\n3,1,200,99999999999\n";
    let map = ["arrival=at", "turn=turn", "http_status=code", "input_tokens=in"];
    let got = read_text(text, mapped(&map)).unwrap();
    assert_eq!((got.rows.len(), got.ingested.metadata.counts.rejected), (1, 3));
    for reason in ["is above 2147483647", "is no HTTP status from 100 to 999"] {
        assert!(got.rejects.contains(reason), "{}", got.rejects);
    }
}

#[test]
fn code_and_word_say_the_same_in_either_order() {
    let text = "c,s\n429,error\n200,\n,failed\n200,error\n500,success\n200,timeout\n503,odd\n";
    let status = |map: [&str; 2]| {
        let got = read_text(text, mapped(&map)).unwrap();
        got.rows.iter().map(|row| row.status).collect::<Vec<_>>()
    };
    let found = status(["http_status=c", "status=s"]);
    let [error, ok] = [Status::Error, Status::Ok];
    assert_eq!(found, [Status::RateLimited, ok, error, error, error, Status::Timeout, error]);
    assert_eq!(status(["status=s", "http_status=c"]), found);
}

#[test]
fn times_that_contradict_each_other_are_marked() {
    let text = "at,end,ms,first,out,think\n10,9,500,100,5,9\n20,21,500,501,5,5\n";
    let map = [
        "arrival=at",
        "end=end",
        "duration=ms",
        "ttft=first",
        "output_tokens=out",
        "reasoning_tokens=think",
    ];
    let units = vec![
        (Some("at".to_owned()), stamp::Unit::Seconds),
        (Some("end".to_owned()), stamp::Unit::Seconds),
    ];
    let got = read_text(text, Hints { units, ..mapped(&map) }).unwrap();
    let [first, second] = &got.rows[..] else { panic!("two rows") };
    assert_eq!((first.end_time, first.time_to_first_chunk_us), (None, Some(100_000)));
    assert_eq!(first.flags, [Flag::NegativeDuration, Flag::ReasoningExceedsOutput]);
    assert_eq!((second.time_to_first_chunk_us, second.ttft_source), (None, None));
    assert_eq!(second.flags, [Flag::TtftExceedsDuration]);
}

#[test]
fn placeholders_among_numbers_stop_nothing() {
    let text = "at,in\nNone,1\n-,1\n5,1\n6.0,NULL\n,1\n";
    let got = read_text(text, mapped(&["arrival=at", "input_tokens=in"])).unwrap();
    assert_eq!(got.ingested.metadata.counts.dropped["no_time"], 3);
    assert_eq!(got.rows[1].arrival_time, Some(WallTime(6_000)));
}
