//! Broken input: one clear line, the right exit code, nothing half-written under its final name.

use crate::tool::{Desk, Done, in_repository, text};
use std::io::Write;

/// Runs `ingest FILE` and checks that it fails cleanly, then returns what it said.
fn refused(desk: &Desk, file: &str) -> Done {
    let done = desk.run(&["ingest", file, "-o", "trace.parquet", "--quiet"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(!desk.path("trace.parquet").exists(), "a trace stands under its final name");
    assert!(
        desk.files().iter().all(|path| path.extension().is_none_or(|ext| ext != "partial")),
        "a partial file is left: {:?}",
        desk.files()
    );
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert!(lines[0].starts_with("error: "), "{}", done.stderr);
    assert!(lines[0].contains(file), "the message names the file: {}", done.stderr);
    assert!(lines.iter().any(|line| line.starts_with("hint: ")), "{}", done.stderr);
    assert!(lines.len() <= 4, "one clear line, not a page: {}", done.stderr);
    done
}

#[test]
fn an_empty_file() {
    let desk = Desk::new();
    desk.write("empty.jsonl", "");
    assert!(refused(&desk, "empty.jsonl").stderr.contains("empty"));
}

#[test]
fn a_binary_file() {
    let desk = Desk::new();
    let bytes: Vec<u8> =
        (0..20_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    desk.write("photo.jpg", bytes);
    refused(&desk, "photo.jpg");
}

#[test]
fn a_directory() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("logs")).unwrap();
    assert!(refused(&desk, "logs").stderr.contains("directory"));
}

#[test]
fn a_missing_file() {
    let desk = Desk::new();
    refused(&desk, "nowhere.jsonl");
}

#[test]
fn a_csv_with_a_wrong_header() {
    let desk = Desk::new();
    desk.write("odd.csv", "when,how_many\n2026-01-01T00:00:00Z,5\n");
    let done = refused(&desk, "odd.csv");
    assert!(done.stderr.contains("when"), "the header found is shown: {}", done.stderr);
    assert!(done.stderr.contains("--map"), "{}", done.stderr);
}

#[test]
fn a_file_cut_in_the_middle_of_its_gzip_stream() {
    let desk = Desk::new();
    let whole = std::fs::read(in_repository("sample-traces/litellm-week.jsonl.gz")).unwrap();
    desk.write("cut.jsonl.gz", &whole[..whole.len() / 2]);
    refused(&desk, "cut.jsonl.gz");
}

#[test]
fn an_output_that_cannot_be_written() {
    let desk = Desk::new();
    desk.write("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,5,6\n");
    let done = desk.run(&["ingest", "a.csv", "-o", "no/such/folder/trace.parquet", "--quiet"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("no/such/folder"), "{}", done.stderr);
}

#[test]
fn an_output_that_exists_is_kept_without_force() {
    let desk = Desk::new();
    desk.write("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,5,6\n");
    desk.write("trace.parquet", "mine");
    let done = desk.run(&["ingest", "a.csv", "-o", "trace.parquet", "--quiet"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("--force"), "{}", done.stderr);
    assert_eq!(std::fs::read(desk.path("trace.parquet")).unwrap(), b"mine");
    desk.ok(&["ingest", "a.csv", "-o", "trace.parquet", "--quiet", "--force"]);
}

#[test]
fn an_artifact_of_the_wrong_kind() {
    let desk = Desk::new();
    desk.write("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,5,6\n");
    desk.write("text.parquet", "not a Parquet file at all");
    let done = desk.run(&["fit", "text.parquet", "-o", "model.json"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("text.parquet"), "{}", done.stderr);
    let pool = in_repository("prompt-pools/small/pool.parquet");
    let done = desk.run(&["fit", text(&pool), "-o", "model.json"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("pool"), "says what it is: {}", done.stderr);
    assert!(!desk.path("model.json").exists());
}

#[test]
fn a_url_where_nobody_listens() {
    let desk = Desk::new();
    let pool = in_repository("prompt-pools/small");
    desk.write("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,5,6\n");
    desk.ok(&["ingest", "a.csv", "-o", "trace.parquet", "--quiet"]);
    desk.ok(&["plan", "--trace", "trace.parquet", "--pool", text(&pool), "-o", "plan.parquet"]);
    // A port that was free a moment ago: nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let done = desk.run(&[
        "replay",
        "plan.parquet",
        "--pool",
        text(&pool),
        "--url",
        &url,
        "--model",
        "m",
        "-o",
        "runs",
    ]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("127.0.0.1:{port}")), "{}", done.stderr);
    assert!(done.stderr.contains("hint: "), "{}", done.stderr);
}

#[test]
fn a_trace_without_times_fits_lengths_and_refuses_a_recorded_plan() {
    let desk = Desk::new();
    let mut file = Vec::new();
    writeln!(file, "in,out").unwrap();
    for n in 1..200 {
        writeln!(file, "{},{}", n * 7 % 190 + 1, n).unwrap();
    }
    desk.write("lengths.csv", file);
    desk.ok(&[
        "ingest",
        "lengths.csv",
        "--map",
        "input_tokens=in",
        "--map",
        "output_tokens=out",
        "-o",
        "trace.parquet",
    ]);
    desk.ok(&["fit", "trace.parquet", "-o", "model.json"]);
    let pool = in_repository("prompt-pools/small");
    let done = desk.run(&[
        "plan",
        "--trace",
        "trace.parquet",
        "--pool",
        text(&pool),
        "-o",
        "plan.parquet",
    ]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("classic"), "says what to do: {}", done.stderr);
    assert!(!desk.path("plan.parquet").exists());
}

#[test]
fn usage_errors_have_their_own_code() {
    let desk = Desk::new();
    assert_eq!(desk.run(&[]).code, Some(2));
    assert_eq!(desk.run(&["plan", "--no-such-flag"]).code, Some(2));
    assert_eq!(desk.run(&["--help"]).code, Some(0));
}
