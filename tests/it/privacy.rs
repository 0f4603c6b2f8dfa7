//! Planted secrets appear in no output: no file, no message, no report.

use crate::tool::{Desk, Done, in_repository, text};
use tracewright::table::TableError;
use tracewright::table::outcome::OutcomeReader;
use tracewright::table::schedule::ScheduleReader;
use tracewright::table::trace::TraceReader;

/// Stands in every text field of the log.
const CANARY: &str = "canary-7f3a91";
/// Stands in the environment variable with the key.
const KEY: &str = "sk-planted-key-55aa";

/// A LiteLLM row with the canary in every field that may hold a name, a key, an address or a text.
fn row(second: u32) -> String {
    let c = CANARY;
    format!(
        r#"{{"request_id":"{c}-{second}","call_type":"acompletion","api_key":"{c}","spend":0.1,"total_tokens":30,"prompt_tokens":20,"completion_tokens":10,"startTime":"2026-11-24T09:15:{second:02}.000000+00:00","endTime":"2026-11-24T09:15:{second:02}.500000+00:00","completionStartTime":"2026-11-24T09:15:{second:02}.200000+00:00","model":"m","model_id":"{c}","model_group":"g","custom_llm_provider":"openai","api_base":"https://{c}.test/v1?key={c}","user":"{c}","metadata":{{"user_api_key":"{c}","user_api_key_alias":"{c}","user_api_key_user_email":"{c}@x.test","status":"success","error_information":{{"error_message":"{c}"}},"applied_guardrails":["{c}"]}},"cache_hit":"False","cache_key":"{c}","request_tags":["{c}"],"team_id":"{c}","organization_id":"{c}","end_user":"{c}","requester_ip_address":"{c}","messages":[{{"role":"user","content":"{c}"}}],"response":{{"choices":[{{"message":{{"role":"assistant","content":"{c}"}},"finish_reason":"stop"}}]}},"session_id":"{c}","status":"success","proxy_server_request":{{"model":"g","stream":true,"messages":[{{"role":"user","content":"{c}"}}]}}}}"#
    )
}

fn assert_silent(done: &Done, secret: &str) {
    assert!(!done.stdout.contains(secret), "a secret on stdout:\n{}", done.stdout);
    assert!(!done.stderr.contains(secret), "a secret on stderr:\n{}", done.stderr);
}

/// Checks that no file but the inputs holds the secret. Parquet pages are compressed, so the
/// columns are read back as well, by printing every row.
fn assert_no_file_holds(desk: &Desk, secret: &str, inputs: &[&str]) {
    for path in desk.files() {
        if inputs.iter().any(|input| path.ends_with(input)) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{} holds a planted secret", path.display());
        let printed = match path.file_name().and_then(|name| name.to_str()) {
            Some("trace.parquet") => printed(TraceReader::open(&path).unwrap()),
            Some("plan.parquet") => printed(ScheduleReader::open(&path).unwrap()),
            Some("requests.parquet") => {
                printed(OutcomeReader::open(path.parent().unwrap()).unwrap())
            }
            _ => continue,
        };
        assert!(!printed.is_empty() && !printed.contains(secret), "{}", path.display());
    }
}

/// Returns every row of a table as text.
fn printed<T: std::fmt::Debug>(batches: impl Iterator<Item = Result<T, TableError>>) -> String {
    let rows: Vec<String> = batches.map(|batch| format!("{:?}", batch.unwrap())).collect();
    rows.concat()
}

#[test]
fn nothing_of_a_log_but_shapes_and_hashes_leaves_ingest() {
    let desk = Desk::new();
    let mut log: String = (0..20).map(|second| row(second) + "\n").collect();
    log += &row(30).replace("\"prompt_tokens\":20", &format!("\"prompt_tokens\":\"{CANARY}\""));
    log += "\n";
    log += "{\"broken\": \"";
    log += CANARY;
    desk.write("log.jsonl", log);
    let args = ["ingest", "log.jsonl", "--max-reject-share", "1", "-o", "trace.parquet"];
    assert_silent(&desk.ok(&args), CANARY);
    assert!(desk.path("trace.rejects.jsonl").is_file(), "the broken lines were rejected");
    assert_silent(&desk.ok(&["fit", "trace.parquet", "-o", "model.json"]), CANARY);
    assert_no_file_holds(&desk, CANARY, &["log.jsonl"]);
}

#[test]
fn the_key_is_sent_and_never_written() {
    let desk = Desk::new();
    let pool = in_repository("prompt-pools/small");
    desk.write(
        "log.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9000000,50,6\n",
    );
    desk.ok(&["ingest", "log.csv", "-o", "trace.parquet"]);
    desk.ok(&["plan", "--trace", "trace.parquet", "--pool", text(&pool), "-o", "plan.parquet"]);
    // Answers every request with the headers it got, the way a careless gateway quotes a key.
    let echo = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", echo.local_addr().unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in echo.incoming().take(8) {
            let mut stream = stream.unwrap();
            let mut head = vec![0; 16_384];
            let got = std::io::Read::read(&mut stream, &mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..got]).into_owned();
            let said = head
                .to_lowercase()
                .lines()
                .find(|l| l.starts_with("authorization"))
                .map(|line| format!("invalid key: {}", line.replace('"', "")));
            let body = format!("{{\"error\":{{\"message\":\"{}\"}}}}", said.unwrap_or_default());
            let answer = format!(
                "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            drop(std::io::Write::write_all(&mut stream, answer.as_bytes()));
            drop(sender.send(head));
        }
    });
    let output = desk
        .command(&[
            "replay",
            "plan.parquet",
            "--pool",
            text(&pool),
            "--url",
            &url,
            "--model",
            "m",
            "--api-key-env",
            "PLANTED",
            "-o",
            "runs",
        ])
        .env("PLANTED", KEY)
        .output()
        .unwrap();
    assert_silent(&crate::tool::finish(&output), KEY);
    let heads: Vec<String> = receiver.try_iter().collect();
    assert!(heads.iter().any(|head| head.contains(KEY)), "the key reached the server");
    let runs = std::fs::read_dir(desk.path("runs")).unwrap().next().unwrap().unwrap().path();
    assert_silent(&desk.run(&["report", text(&runs)]), KEY);
    assert_silent(&desk.run(&["report", text(&runs), "--output-format", "json"]), KEY);
    assert_no_file_holds(&desk, KEY, &[]);
}
