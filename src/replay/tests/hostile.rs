//! Servers that quote the prompt, lie about numbers, close what they kept, or never end.

use super::server::{After, Script, Server, http, stream};
use super::{PROMPT, STOP, TEXT, class, config, events, one, run, run_at, whole};
use crate::domain::outcome::{Failure, RequestOutcome};
use crate::domain::time::Nanos;
use std::num::NonZeroU32;

/// An answer of one status with a body that ends.
fn refusal(status: u16, body: &str) -> Script {
    Script::new().write(http(status, &format!("content-length: {}", body.len()))).write(body)
}

#[test]
fn a_quoted_prompt_is_left_out() {
    let told = |script: Script| {
        let outcome = one(script);
        assert!(!format!("{outcome:?}").contains("planted"), "{outcome:?}");
        let class = outcome.failure.map_or("none", Failure::as_str);
        format!("{class} {}", outcome.failure_message.unwrap_or_default())
    };
    let quoted = serde_json::json!({"message": format!("Invalid prompt: {PROMPT}")});
    let error = serde_json::json!({"error": quoted}).to_string();
    let left_out = "the server's message repeats the prompt and is left out";
    let refused = format!("http_4xx HTTP 400 Bad Request: {left_out}");
    assert_eq!(told(refusal(400, &error)), refused);
    assert_eq!(told(refusal(400, &format!("<p>{PROMPT}</p>"))), refused);
    assert_eq!(told(stream(&events(&[TEXT, &error]))), format!("stream_error {left_out}"));
    let json = serde_json::to_string(PROMPT).unwrap();
    assert_eq!(told(refusal(400, &json)), "http_4xx HTTP 400 Bad Request");
    assert_eq!(told(refusal(400, &format!(" [{json}]"))), "http_4xx HTTP 400 Bad Request");
    let reason = serde_json::json!({"choices": [{"delta": {}, "finish_reason": PROMPT}]});
    let outcome = one(stream(&events(&[TEXT, &reason.to_string()])));
    assert_eq!((outcome.failure, outcome.finish_reason.as_deref()), (None, Some("other")));
}

#[test]
fn odd_counts_are_unknown_and_no_fault() {
    for count in ["-1", "1e400", "99999999999999999999", "\"7\"", "[]", "null"] {
        let usage = format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":{count},"completion_tokens":3}}}}"#
        );
        let outcome = one(stream(&events(&[TEXT, STOP, &usage, "[DONE]"])));
        assert!(outcome.succeeded(), "{count}: {outcome:?}");
        assert_eq!((outcome.input_tokens, outcome.output_tokens), (None, Some(3)), "{count}");
    }
    for usage in [r#"{"usage":7}"#, r#"{"usage":"x"}"#, r#"{"usage":[]}"#] {
        let outcome = one(stream(&events(&[TEXT, STOP, usage])));
        assert_eq!((outcome.failure, outcome.usage_source), (None, None), "{usage}");
    }
}

#[test]
fn an_error_answer_keeps_its_connection() {
    let server = Server::start(vec![refusal(429, r#"{"error":{"message":"slow down"}}"#)]);
    let mut config = config(&server.url);
    config.max_concurrency = NonZeroU32::new(1);
    let ran = run(&config, 3, Nanos::from_millis(500));
    assert!(ran.outcomes.iter().all(|o| o.failure == Some(Failure::RateLimited)));
    assert_eq!(ran.summary.unwrap().connections_opened, 1);
    assert_eq!(server.posts(), 3);
}

#[test]
fn an_error_body_that_never_ends_is_not_waited_for() {
    // Without a bound of its own this would take the five minutes of the first token.
    let head = http(503, "content-length: 100");
    let (failure, message) = class(Script::new().write(head).write("busy").then(After::Hang));
    assert_eq!(failure, Some(Failure::Http5xx));
    assert_eq!(message, "HTTP 503 Service Unavailable: busy");
}

#[test]
fn a_second_try_takes_a_fresh_connection_and_keeps_the_first_send() {
    // The first two answers overlap and leave two idle connections, which would both die.
    let slow = stream(&whole()).after_headers(500);
    let dies = Script::new().then(After::Close);
    let server = Server::start(vec![slow.clone(), slow, dies, stream(&whole())]);
    let mut config = config(&server.url);
    config.reconnect_stale = true;
    let due = [0, 0, 2_000].map(Nanos::from_millis).to_vec();
    let ran = run_at(&config, due, &std::sync::Arc::default());
    assert!(ran.outcomes.iter().all(RequestOutcome::succeeded), "{:?}", ran.outcomes);
    let last = &ran.outcomes[2];
    assert_eq!(last.connection_reused, Some(false));
    assert!(last.at.sent < last.at.connect_start, "{:?}", last.at);
    assert_eq!(last.in_flight, Some(1));
    let summary = ran.summary.unwrap();
    assert_eq!((summary.reconnected, summary.connections_opened), (1, 3));
    assert_eq!(server.posts(), 4);
}
