//! Replays of small plans against a small server, down to the files of the run directory.

use super::target::{TargetArgs, config};
use super::*;
use crate::domain::outcome::Failure;
use crate::domain::pool_index::{PoolEntry, PoolManifest, PoolText};
use crate::domain::scenario::Scenario;
use crate::domain::schedule::{CountKind, PlanCounts, PlanMetadata, PlanMode, PromptPart, Release};
use crate::replay::Target;
use crate::replay::api::Api;
use crate::table::{outcome::OutcomeReader, schedule::ScheduleWriter};
use clap::Parser;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

const KEY: &str = "sk-planted-key";

#[derive(Debug, Parser)]
struct Typed {
    #[command(flatten)]
    target: TargetArgs,
}

/// Answers each POST with one streamed token, or refuses it and repeats the key.
fn answer(mut socket: TcpStream, refuse: bool) -> Option<()> {
    let mut reader = BufReader::new(socket.try_clone().ok()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).ok()? > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    let (status, body) = if length == 0 {
        ("404 Not Found", "nothing here".to_owned())
    } else if refuse {
        ("401 Unauthorized", format!(r#"{{"error":{{"message":"bad key {KEY}"}}}}"#))
    } else {
        let chunk = r#"{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
        ("200 OK", format!("data: {chunk}\n\ndata: [DONE]\n\n"))
    };
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
    write!(socket, "{head}content-length: {}\r\n\r\n{body}", body.len()).ok()
}

fn serve(refuse: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            thread::spawn(move || answer(socket, refuse));
        }
    });
    url
}

fn write_pool(dir: &Path) -> String {
    let entry = PoolEntry { entry_id: 0, tokens: 3, kind: "en".into(), cut_tokens: vec![1, 2, 3] };
    let text = PoolText { entry, text: " planted prompt text".into(), cut_bytes: vec![8, 15, 20] };
    let manifest = PoolManifest {
        schema_version: 1,
        tool_version: "0".into(),
        tokenizer: "t".into(),
        tokenizer_digest: "d".into(),
        pool_digest: String::new(),
        seed: 1,
        entries: 1,
        tokens: 3,
        buckets: vec![(1, 1)],
        kinds: vec![("en".into(), 1)],
        joins_checked: 0,
        joins_failed: 0,
    };
    pool_table::write(dir, &manifest, &[text], false).unwrap().pool_digest
}

fn write_plan(path: &Path, pool_digest: String, count: u64, min_tokens: Option<u32>) {
    let metadata = PlanMetadata {
        mode: PlanMode::Recorded,
        seed: 7,
        trace_digest: None,
        model_digest: None,
        pool_digest,
        tokenizer: "t".into(),
        tokenizer_digest: "d".into(),
        speed: None,
        request_rate_per_s: None,
        trace_origin_us: None,
        long_context_tokens: 4_000,
        counts: PlanCounts::default(),
    };
    let row = |request_id| ScheduledRequest {
        request_id,
        scenario: Scenario::Single,
        session_id: None,
        turn_index: None,
        release: Release::At(Nanos::from_millis(request_id)),
        prompt_parts: vec![PromptPart { entry_id: 0, cut_tokens: 2 }],
        input_tokens: 2,
        count_kind: CountKind::Raw,
        content_tokens: 2,
        template_tokens: None,
        max_tokens: 1,
        min_tokens,
        stream: true,
        prefix_block_ids: Vec::new(),
        recorded_status: None,
        repeat_of: None,
    };
    let mut writer = ScheduleWriter::create(path, false).unwrap();
    writer.write(&(0..count).map(row).collect::<Vec<_>>()).unwrap();
    writer.finish(&metadata).unwrap();
}

struct Replayed {
    root: tempfile::TempDir,
    done: anyhow::Result<(RunDir, ReplaySummary)>,
}

/// Replays 20 requests against a small server.
fn replayed(refuse: bool, pool_digest: Option<&str>) -> Replayed {
    let root = tempfile::tempdir().unwrap();
    let (pool, plan) = (root.path().join("pool"), root.path().join("plan.parquet"));
    let digest = write_pool(&pool);
    write_plan(&plan, pool_digest.map_or(digest, str::to_owned), 20, None);
    let url = serve(refuse);
    let header = format!("X-Api-Key: {KEY}");
    let typed = ["x", "--url", &url, "--model", "m", "--header", &header, "--reconnect-stale"];
    let typed = Typed::try_parse_from(typed).unwrap().target;
    let globals = Globals { seed: 42, quiet: true, no_progress: true, force: false };
    let runs = root.path().join("runs");
    let place = Place::Below(&runs);
    let order = Order { plan: &plan, pool: &pool, target: &typed, name: "test", place };
    let mut config = config(&typed, &globals).unwrap();
    let headers = [("x-api-key".to_owned(), KEY.to_owned())];
    config.target = Target::new(&url, Api::Chat, Some(KEY), &headers).unwrap();
    let done = replay_with(&order, &config, &globals);
    Replayed { root, done }
}

fn outcomes(dir: &RunDir) -> Vec<RequestOutcome> {
    OutcomeReader::open(dir.path()).unwrap().flat_map(Result::unwrap).collect()
}

#[test]
fn a_run_directory_holds_every_row_and_no_secret() {
    for refuse in [false, true] {
        let Replayed { root: _root, done } = replayed(refuse, None);
        let (dir, summary) = done.unwrap();
        assert_eq!((summary.planned, summary.sent), (20, 20));
        let rows = outcomes(&dir);
        let ids: Vec<u64> = rows.iter().map(|row| row.request_id).collect();
        assert_eq!(ids, (0..20).collect::<Vec<_>>());
        let expected = refuse.then_some(Failure::Http4xx);
        assert!(rows.iter().all(|row| row.failure == expected), "{:?}", rows.first());
        let manifest = RunManifest::read(&dir).unwrap();
        assert_eq!((manifest.status, manifest.planned), (RunStatus::Complete, 20));
        assert_eq!((manifest.seed, manifest.ended_at.is_some()), (7, true));
        assert!(dir.plan().is_file());
        assert_eq!(manifest.settings.get("reconnected").map(String::as_str), Some("0"));
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let path = file.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            for secret in [KEY, "planted prompt"] {
                let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
                assert!(!found, "`{secret}` in {}", path.display());
            }
        }
    }
}

#[test]
fn a_plan_that_forces_lengths_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    for (name, rows, min_tokens) in [("a", 3, Some(1)), ("b", 3, None), ("c", 0, Some(1))] {
        let path = root.path().join(name);
        write_plan(&path, "d".to_owned(), rows, min_tokens);
        assert_eq!(forces_lengths(&path).unwrap(), name == "a", "{name}");
    }
    insta::assert_snapshot!([NOT_FORCED, STOPPING].join("\n"), @"
    the plan asks for exact output lengths; without --ignore-eos the server may stop early, and the report will show the shortfall
    stopping: nothing new is sent; Ctrl-C again cuts what is in flight
    ");
}

#[test]
fn a_copied_plan_stands_whole_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let (from, to) = (root.path().join("from"), root.path().join("plan.parquet"));
    copy_whole(&from, &to).unwrap_err();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    std::fs::write(&from, "plan").unwrap();
    copy_whole(&from, &to).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), b"plan");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2, "no partial file");
}

#[test]
fn another_pool_is_refused() {
    let Replayed { root, done } = replayed(false, Some("other"));
    let shown = failure::render(&done.unwrap_err());
    let shown = shown.replace(root.path().to_str().unwrap(), "DIR");
    let found = pool_table::read_manifest(&root.path().join("pool")).unwrap().pool_digest;
    insta::assert_snapshot!(shown.replace(&found, "DIGEST"), @"
    error: DIR/pool: pool `DIGEST`, but DIR/plan.parquet was made with `other`
    hint: give the pool that the plan was made with, or plan again
    ");
    assert!(!root.path().join("runs").exists(), "nothing was made");
}

#[test]
fn what_was_typed_wrongly() {
    let typed = |more: &[&str]| {
        let given = [&["x", "--model", "m", "--url", "http://h"], more].concat();
        let target = Typed::try_parse_from(given).unwrap().target;
        let globals = Globals { seed: 42, quiet: true, no_progress: true, force: false };
        failure::render(&config(&target, &globals).unwrap_err())
    };
    insta::assert_snapshot!(typed(&["--api-key-env", "NO_SUCH_VARIABLE_HERE"]), @"
    error: the variable `NO_SUCH_VARIABLE_HERE` is not set
    hint: export `NO_SUCH_VARIABLE_HERE`, or leave `--api-key-env` out
    ");
    insta::assert_snapshot!(typed(&["--extra-body", "7"]), @r#"
    error: extra body: not a JSON object: column 1 is unexpected
    hint: give a JSON object, for example `--extra-body '{"temperature": 0}'`
    "#);
}

#[test]
fn exit_codes() {
    let code = |planned, failed, interrupted| {
        let summary = ReplaySummary { planned, failed, interrupted, ..ReplaySummary::default() };
        format!("{:?}", exit_code(&summary))
    };
    let expected = |code: u8| format!("{:?}", ExitCode::from(code));
    assert_eq!(code(3, 0, false), expected(0));
    assert_eq!(code(3, 2, false), expected(0));
    assert_eq!(code(3, 3, false), expected(4));
    assert_eq!(code(0, 0, false), expected(0));
    assert_eq!(code(3, 3, true), expected(130));
}
