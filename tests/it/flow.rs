//! The chain from a log to a report, against the built-in mock and against public traces.

use crate::tool::{Desk, in_repository, text};
use serde_json::Value;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Returns a public trace that lies beside the checkout, or `None` with a printed reason.
fn public_trace(name: &str) -> Option<PathBuf> {
    let path = in_repository("../shared/traces").join(name);
    if path.is_file() {
        return Some(path);
    }
    eprintln!("skipped: {name} is not beside this checkout");
    None
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a readable file")).expect("JSON")
}

/// Returns the only run directory below `runs`.
fn run_dir(desk: &Desk) -> PathBuf {
    let mut dirs = std::fs::read_dir(desk.path("runs")).unwrap();
    let dir = dirs.next().expect("a run directory").unwrap().path();
    assert!(dirs.next().is_none(), "one run, one directory");
    dir
}

/// A mock that ends with the test.
struct Mock {
    process: Child,
    url: String,
}

impl Mock {
    fn start(desk: &Desk, args: &[&str]) -> Self {
        let mut all = vec!["mock", "--listen", "127.0.0.1:0", "--until-stdin-closes"];
        all.extend(args);
        let mut process = desk
            .command(&all)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the mock starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
        Self { process, url }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn one_command_goes_from_a_week_to_a_report() {
    let desk = Desk::new();
    let (log, pool) =
        (in_repository("sample-traces/litellm-week.jsonl.gz"), in_repository("prompt-pools/small"));
    let done = desk.ok(&[
        "run",
        text(&log),
        "--pool",
        text(&pool),
        "--num-requests",
        "12",
        "--speed",
        "1000",
        "--max-output-tokens",
        "40",
        "-o",
        "runs",
    ]);
    for said in ["hour:", "speed:", "requests:", "report: runs"] {
        assert!(done.stdout.contains(said), "`{said}` is not in\n{}", done.stdout);
    }
    let dir = run_dir(&desk);
    let report = json(&dir.join("report.json"));
    let accounting = &report["accounting"];
    assert_eq!(accounting["planned"], 12, "{accounting}");
    assert_eq!(accounting["succeeded"], 12, "{accounting}");
    let left_out = accounting["not_selected"].as_u64().unwrap_or_default();
    assert!(left_out > 0, "what was left out is counted: {accounting}");
    for file in ["trace.parquet", "trace.rejects.jsonl", "model.json", "plan.parquet"] {
        assert!(dir.join(file).is_file(), "{file} is missing");
    }
    let manifest = json(&dir.join("manifest.json"));
    assert_eq!(manifest["status"], "complete");
}

#[test]
fn the_sample_weeks_truth_is_found_again() {
    let desk = Desk::new();
    let truth = json(&in_repository("sample-traces/truth.json"));
    let log = in_repository("sample-traces/litellm-week.jsonl.gz");
    desk.ok(&["ingest", text(&log), "-o", "trace.parquet"]);
    desk.ok(&["fit", "trace.parquet", "-o", "model.json"]);
    let model = json(&desk.path("model.json"));
    let calls = &truth["calls"];
    assert_eq!(model["rows"]["total"], calls["total"]);
    assert_eq!(model["rows"]["failed"], calls["status"]["failed"]);
    assert_eq!(model["rows"]["cancelled"], calls["status"]["hang_up"]);
    for share in model["mix"]["scenarios"].as_array().unwrap() {
        let what = share["what"].as_str().unwrap();
        for (scenario, planted) in calls["scenarios"].as_object().unwrap() {
            if what.contains(scenario.as_str()) {
                assert_eq!(&share["count"], planted, "{what}");
            }
        }
    }
}

#[test]
fn a_public_azure_trace_loses_nothing() {
    let Some(log) = public_trace("azure2023_code.csv") else { return };
    every_row_is_planned(&log, 8_819);
}

#[test]
fn a_public_mooncake_trace_loses_nothing() {
    let Some(log) = public_trace("mooncake_fast25_synthetic.jsonl") else { return };
    every_row_is_planned(&log, 3_993);
}

/// Ingests a trace and plans it at its own speed; every row must be there.
fn every_row_is_planned(log: &Path, rows: u64) {
    let desk = Desk::new();
    let pool = in_repository("prompt-pools/small");
    desk.ok(&["ingest", text(log), "-o", "trace.parquet"]);
    let args = ["plan", "--trace", "trace.parquet", "--pool", text(&pool), "-o", "plan.parquet"];
    desk.ok(&args);
    let plan = tracewright::table::schedule::ScheduleReader::open(&desk.path("plan.parquet"));
    let plan = plan.expect("a plan");
    assert_eq!(plan.rows(), rows);
    let trace = tracewright::table::trace::TraceReader::open(&desk.path("trace.parquet"));
    let trace = trace.expect("a trace");
    assert_eq!(trace.rows(), rows);
    let arrivals: Vec<i64> =
        trace.flat_map(|batch| batch.unwrap()).map(|row| row.arrival_time.unwrap().0).collect();
    let due: Vec<i64> = plan
        .flat_map(|batch| batch.unwrap())
        .map(|row| match row.release {
            tracewright::domain::schedule::Release::At(at) => i64::try_from(at.0 / 1_000).unwrap(),
            other => panic!("a recorded plan has fixed times, found {other:?}"),
        })
        .collect();
    let offsets: Vec<i64> = arrivals.iter().map(|at| at - arrivals[0]).collect();
    assert_eq!(due, offsets, "arrivals equal the source to the microsecond");
}

/// Plans a few requests of a small log and returns the pool.
fn small_plan(desk: &Desk, rows: u32) -> PathBuf {
    let pool = in_repository("prompt-pools/small");
    let mut log = "TIMESTAMP,ContextTokens,GeneratedTokens\n".to_owned();
    for row in 0..rows {
        let millis = row * 20;
        let (second, milli, input) = (millis / 1000, millis % 1000, 50 + row);
        writeln!(log, "2023-11-16 18:17:{second:02}.{milli:03}0000,{input},8").unwrap();
    }
    desk.write("log.csv", log);
    desk.ok(&["ingest", "log.csv", "-o", "trace.parquet"]);
    desk.ok(&["plan", "--trace", "trace.parquet", "--pool", text(&pool), "-o", "plan.parquet"]);
    pool
}

#[test]
fn every_failure_is_counted_and_none_is_a_latency() {
    let desk = Desk::new();
    let pool = small_plan(&desk, 40);
    let mock = Mock::start(
        &desk,
        &[
            "--ttft",
            "5ms",
            "--tpot",
            "1ms",
            "--fault",
            "http_500:0.2",
            "--fault",
            "stream_error:0.2",
            "--fault",
            "truncated:0.2",
            "--fault",
            "empty:0.2",
        ],
    );
    desk.ok(&[
        "replay",
        "plan.parquet",
        "--pool",
        text(&pool),
        "--url",
        &mock.url,
        "--model",
        "mock",
        "-o",
        "runs",
    ]);
    let dir = run_dir(&desk);
    desk.ok(&["report", text(&dir)]);
    let report = json(&dir.join("report.json"));
    let accounting = &report["accounting"];
    let count = |name: &str| accounting[name].as_u64().unwrap();
    assert_eq!(count("planned"), 40);
    assert_eq!(count("planned"), count("sent") + count("unsent"));
    assert_eq!(count("sent"), count("succeeded") + count("failed"));
    assert!(count("failed") > 10, "{accounting}");
    let classes = accounting["failures"].as_array().unwrap();
    let counted: u64 = classes.iter().map(|class| class["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, count("failed"), "{accounting}");
}

#[test]
fn all_failed_is_no_number_and_a_refusal() {
    let desk = Desk::new();
    let pool = small_plan(&desk, 5);
    let mock = Mock::start(&desk, &["--fault", "http_500:1"]);
    desk.run(&[
        "replay",
        "plan.parquet",
        "--pool",
        text(&pool),
        "--url",
        &mock.url,
        "--model",
        "mock",
        "-o",
        "runs",
    ]);
    let dir = run_dir(&desk);
    let done = desk.run(&["report", text(&dir)]);
    assert_eq!(done.code, Some(4), "{}", done.stderr);
    let report = std::fs::read_to_string(dir.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["accounting"]["succeeded"], 0);
    let pooled = report["latency"].to_string();
    assert!(!pooled.contains("0.0"), "no latency is printed as zero: {pooled}");
}
