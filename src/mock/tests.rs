//! The mock over real sockets: what a client gets for what it asks.
//!
//! The client is a bare socket, so that every byte of the answer is seen. Nothing asserts how
//! long something takes, only that it does not come before its stated instant.

use super::http::Mock;
use super::{Fault, MockConfig, serve_until};
use crate::domain::count::CountTokens;
use crate::domain::time::Nanos;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Words;
impl CountTokens for Words {
    fn count_tokens(&self, text: &str) -> u32 {
        u32::try_from(text.split_whitespace().count()).unwrap()
    }
    fn tokenizer_name(&self) -> &'static str {
        "words"
    }
}

fn quick() -> MockConfig {
    MockConfig {
        ttft: Nanos::from_millis(4),
        tpot: Nanos::from_millis(1),
        role_delay: Nanos::from_millis(1),
        slow_headers: Nanos::from_millis(3),
        default_output_tokens: 3,
        ..MockConfig::default()
    }
}

async fn start(config: MockConfig) -> SocketAddr {
    let counter: Arc<dyn CountTokens> = Arc::new(Words);
    let mock = Arc::new(Mock::new(config, Some(counter)).unwrap());
    let (tell, bound) = tokio::sync::oneshot::channel();
    let ready = move |addr| tell.send(addr).unwrap();
    tokio::spawn(serve_until(mock, ready, std::future::pending()));
    bound.await.unwrap()
}

async fn faulty(fault: &str) -> SocketAddr {
    let fault: Fault = fault.parse().unwrap();
    start(MockConfig { faults: vec![fault], ..quick() }).await
}

/// An answer: the head, the body without its chunk sizes, and whether the body ended as it should.
#[derive(Debug)]
struct Answer {
    head: String,
    body: String,
    whole: bool,
}

impl Answer {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
    /// The data of every event; `[DONE]` becomes a JSON string.
    fn events(&self) -> Vec<Value> {
        let data = self.body.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| Value::from(data))).collect()
    }
    fn texts(&self) -> Vec<String> {
        let events = self.events();
        let texts = events.iter().filter_map(|event| {
            let choice = event.get("choices")?.get(0)?;
            choice.pointer("/delta/content").or(choice.get("text"))?.as_str().map(str::to_owned)
        });
        texts.filter(|text| !text.is_empty()).collect()
    }
}

async fn send(at: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
    let mut socket = TcpStream::connect(at).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: mock\r\nconnection: close\r\nx-request-id: abc\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A connection that was cut may be reset: what came before it counts.
    drop(socket.read_to_end(&mut bytes).await);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    if !head.contains("transfer-encoding: chunked") {
        return Answer { head: head.to_owned(), body: body.to_owned(), whole: true };
    }
    let (mut rest, mut joined) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return Answer { head: head.to_owned(), body: joined, whole: true };
        }
        joined.push_str(after.get(..size).unwrap());
        rest = after.get(size + 2..).unwrap();
    }
    Answer { head: head.to_owned(), body: joined, whole: false }
}

async fn chat(at: SocketAddr, options: &str) -> Answer {
    let body = format!(r#"{{"model":"m","messages":[{{"content":"one two three"}}]{options}}}"#);
    send(at, "POST", "/v1/chat/completions", &body).await
}

#[tokio::test]
async fn a_streamed_chat_is_role_texts_finish_usage_done() {
    let at = start(quick()).await;
    let options = r#","stream":true,"max_tokens":5,"stream_options":{"include_usage":true}"#;
    let answer = chat(at, options).await;
    assert!(answer.head.contains("content-type: text/event-stream"), "{}", answer.head);
    assert!(answer.head.contains("x-request-id: abc"), "{}", answer.head);
    let events = answer.events();
    assert_eq!(events.len(), 1 + 5 + 3, "one event a token");
    assert_eq!(events[0].pointer("/choices/0/delta/role").unwrap(), "assistant");
    assert_eq!(events[0].pointer("/choices/0/delta/content").unwrap(), "");
    assert_eq!(answer.texts().concat(), "The train left the station");
    assert_eq!(events[6].pointer("/choices/0/finish_reason").unwrap(), "length");
    assert_eq!(events[7]["choices"], Value::Array(Vec::new()));
    assert_eq!(
        events[7]["usage"],
        serde_json::json!({"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8})
    );
    assert_eq!(events[8], "[DONE]");
    assert!(answer.whole);
}

#[tokio::test]
async fn the_limit_is_kept_exactly_and_without_one_the_default_is_sent() {
    let at = start(quick()).await;
    for limit in [1, 2, 40] {
        let answer = chat(at, &format!(r#","stream":true,"max_completion_tokens":{limit}"#)).await;
        assert_eq!(answer.texts().len(), limit);
        assert!(!answer.body.contains("usage"), "usage was not asked for");
    }
    let answer = chat(at, r#","stream":true"#).await;
    assert_eq!(answer.texts().len(), 3);
    assert!(answer.body.contains(r#""finish_reason":"stop""#));
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_one_body() {
    let at = start(quick()).await;
    let answer = chat(at, r#","max_tokens":2"#).await.json();
    assert_eq!(answer.pointer("/choices/0/message/content").unwrap(), "The train");
    assert_eq!(answer.pointer("/choices/0/finish_reason").unwrap(), "length");
    assert_eq!(answer.pointer("/usage/total_tokens").unwrap(), 5);
    let body = r#"{"prompt":"a b","max_tokens":1}"#;
    let answer = send(at, "POST", "/v1/completions", body).await.json();
    assert_eq!(answer.pointer("/choices/0/text").unwrap(), "The");
    assert_eq!(answer.pointer("/usage/prompt_tokens").unwrap(), 2);
    assert_eq!(answer["model"], "mock");
}

#[tokio::test]
async fn a_streamed_completion_has_no_role_chunk() {
    let at = start(quick()).await;
    let body = r#"{"prompt":"a b","max_tokens":2,"stream":true}"#;
    let answer = send(at, "POST", "/v1/completions", body).await;
    assert_eq!(answer.texts(), ["The", " train"]);
    assert_eq!(answer.events().len(), 2 + 2);
}

#[tokio::test]
async fn other_paths_methods_and_bodies_are_refused_in_the_usual_shape() {
    let at = start(quick()).await;
    let cases = [
        ("POST", "/v1/embeddings", "{}", 404),
        ("GET", "/v1/chat/completions", "", 405),
        ("POST", "/v1/chat/completions", "{not json", 400),
        ("POST", "/v1/completions", "{}", 400),
    ];
    for (method, path, body, status) in cases {
        let answer = send(at, method, path, body).await;
        assert_eq!(answer.status(), status, "{method} {path}");
        let json = answer.json();
        assert_eq!(json.pointer("/error/type").unwrap(), "invalid_request_error");
        assert!(json.pointer("/error/message").unwrap().is_string());
    }
    assert_eq!(send(at, "GET", "/health", "").await.status(), 200);
    let models = send(at, "GET", "/v1/models", "").await.json();
    assert_eq!(models.pointer("/data/0/id").unwrap(), "mock");
}

#[tokio::test]
async fn refusing_faults_answer_with_their_status() {
    let answer = chat(faulty("http_500:1").await, "").await;
    assert_eq!(answer.status(), 500);
    assert_eq!(answer.json().pointer("/error/code").unwrap(), "500");
    let answer = chat(faulty("http_429:1").await, "").await;
    assert_eq!(answer.status(), 429);
    assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
}

#[tokio::test]
async fn faults_inside_a_stream_keep_status_200() {
    let options = r#","stream":true,"max_tokens":5"#;
    let answer = chat(faulty("stream_error:1").await, options).await;
    assert_eq!((answer.status(), answer.texts().len(), answer.whole), (200, 3, true));
    let events = answer.events();
    assert!(events[4].pointer("/error/message").is_some(), "after role and three texts");
    assert!(!answer.body.contains(r#""finish_reason":"length""#));

    let answer = chat(faulty("truncated:1").await, options).await;
    assert_eq!((answer.status(), answer.texts().len(), answer.whole), (200, 3, false));
    assert!(!answer.body.contains("[DONE]"));

    let answer = chat(faulty("empty:1").await, options).await;
    assert_eq!((answer.status(), answer.texts().len(), answer.whole), (200, 0, true));
    assert!(answer.body.ends_with("data: [DONE]\n\n"));

    let answer = chat(faulty("slow_headers:1").await, options).await;
    assert_eq!((answer.status(), answer.texts().len(), answer.whole), (200, 5, true));
}

#[tokio::test]
async fn faults_of_whole_answers() {
    let answer = chat(faulty("stream_error:1").await, "").await;
    assert!(answer.status() == 200 && answer.json().get("error").is_some());
    let answer = chat(faulty("truncated:1").await, "").await;
    assert!(!answer.whole && serde_json::from_str::<Value>(&answer.body).is_err());
    let answer = chat(faulty("empty:1").await, "").await;
    assert_eq!(answer.json().pointer("/choices/0/message/content").unwrap(), "");
}

#[tokio::test]
async fn faults_come_by_number_and_seed() {
    let expected: Vec<bool> = {
        let fault: Fault = "http_500:0.5".parse().unwrap();
        let seed = quick().seed;
        (0..12).map(|n| super::fault::of_request(&[fault], seed, n).is_some()).collect()
    };
    let at = faulty("http_500:0.5").await;
    let mut found = Vec::new();
    for _ in 0..12 {
        found.push(chat(at, r#","max_tokens":1"#).await.status() == 500);
    }
    assert_eq!(found, expected);
    assert!(found.contains(&true) && found.contains(&false));
}

#[tokio::test]
async fn stamps_state_what_was_sent_and_never_before_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stamps.jsonl");
    let config = MockConfig { stamps: Some(path.clone()), ..quick() };
    let at = start(config.clone()).await;
    chat(at, r#","stream":true,"max_tokens":4"#).await;
    chat(at, r#","max_tokens":4"#).await;
    send(at, "POST", "/v1/completions", "{}").await;
    let mut lines = read_lines(&path);
    // The line of an answer is written when its body is dropped, which may be after its end.
    while lines.len() < 3 {
        tokio::task::yield_now().await;
        lines = read_lines(&path);
    }
    let ns = |line: &Value, field: &str| line[field].as_u64().unwrap();
    let streamed = &lines[0];
    let headers = ns(streamed, "headers_ns");
    assert!(ns(streamed, "body_ns") >= headers);
    assert!(ns(streamed, "role_ns") >= headers + 1_000_000);
    assert!(ns(streamed, "role_ns") <= ns(streamed, "first_text_ns"));
    assert!(ns(streamed, "first_text_ns") >= headers + 4_000_000);
    assert!(ns(streamed, "last_text_ns") >= headers + 7_000_000);
    assert!(ns(streamed, "done_ns") >= ns(streamed, "last_text_ns"));
    assert_eq!(ns(streamed, "stated_ttft_ns"), 4_000_000);
    assert_eq!((&streamed["sent_tokens"], &streamed["ended"]), (&4.into(), &"complete".into()));
    assert_eq!(streamed["x_request_id"], "abc");
    assert!(ns(&lines[1], "first_text_ns") >= ns(&lines[1], "headers_ns") + 7_000_000);
    assert_eq!((&lines[2]["status"], &lines[2]["ended"]), (&400.into(), &"refused".into()));
    assert_eq!(lines[2]["stated_ttft_ns"], Value::Null);

    let again = Mock::new(config, None).unwrap_err();
    assert!(again.hint().unwrap().contains("--force"));
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_a_line_with_what_it_got() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stamps.jsonl");
    let at = start(MockConfig { stamps: Some(path.clone()), ..quick() }).await;
    let mut socket = TcpStream::connect(at).await.unwrap();
    let body = r#"{"messages":[{"content":"a"}],"stream":true,"max_tokens":200000}"#;
    let length = body.len();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: mock\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(" train") {
        assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0);
    }
    drop(socket);
    while read_lines(&path).is_empty() {
        tokio::task::yield_now().await;
    }
    let line = &read_lines(&path)[0];
    assert_eq!(line["ended"], "dropped");
    assert!(line["sent_tokens"].as_u64().unwrap() >= 2 && line["done_ns"].is_null());
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let at = start(quick()).await;
    let mut socket = TcpStream::connect(at).await.unwrap();
    // The second request follows an error, whose body must have been read.
    let bodies = ["{not json", r#"{"prompt":"a","max_tokens":1}"#];
    for (body, status) in bodies.into_iter().zip(["HTTP/1.1 400", "HTTP/1.1 200"]) {
        let length = body.len();
        let request = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: mock\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"}") {
            assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0);
        }
        assert!(seen.starts_with(status.as_bytes()), "{}", String::from_utf8_lossy(&seen));
    }
}

#[tokio::test]
async fn serving_ends_when_it_is_told_to() {
    let mock = Arc::new(Mock::new(quick(), None).unwrap());
    let (bound, mut addresses) = tokio::sync::mpsc::unbounded_channel();
    let stopped = serve_until(mock, |at| bound.send(at).unwrap(), std::future::ready(Ok(()))).await;
    assert!(stopped.is_ok());
    assert_ne!(addresses.recv().await.unwrap().port(), 0, "the bound port is told");

    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = taken.local_addr().unwrap();
    let mock = Arc::new(Mock::new(MockConfig { listen, ..quick() }, None).unwrap());
    let error = serve_until(mock, |_| {}, std::future::pending()).await.unwrap_err();
    assert!(error.to_string().starts_with("127.0.0.1:"), "{error}");
}

#[expect(clippy::disallowed_methods, reason = "a test reads what the mock wrote")]
fn read_lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_configuration_that_makes_no_sense_is_refused() {
    let late_role = MockConfig { role_delay: Nanos::from_millis(9), ..quick() };
    let no_tokens = MockConfig { default_output_tokens: 0, ..quick() };
    for config in [late_role, no_tokens] {
        assert!(Mock::new(config, None).is_err());
    }
}
