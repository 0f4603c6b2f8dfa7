//! Tests of the OTLP adapter: spans in, rows, side spans and joins out.

use super::super::trial;
use super::*;
use crate::domain::record::{Flag, SessionSource, Status, TokenSource};

const FORMAT: Format = Format::OtlpSpans;
const TIMES: &str =
    r#""startTimeUnixNano":"1795511702123000000","endTimeUnixNano":"1795511705623000000""#;

fn attribute(key: &str, value: &str) -> String {
    let value = match value.parse::<i64>() {
        Ok(number) => format!("{{\"intValue\":\"{number}\"}}"),
        Err(_) => match value.parse::<f64>() {
            Ok(number) => format!("{{\"doubleValue\":{number}}}"),
            Err(_) if value.starts_with('{') => value.to_owned(),
            Err(_) => format!("{{\"stringValue\":{}}}", serde_json::to_string(value).unwrap()),
        },
    };
    format!("{{\"key\":\"{key}\",\"value\":{value}}}")
}

fn span(ids: [&str; 3], attributes: &[(&str, &str)], rest: &str) -> String {
    let attributes: Vec<String> =
        attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let [trace, own, parent] = ids;
    format!(
        "{{\"traceId\":\"{trace}\",\"spanId\":\"{own}\",\"parentSpanId\":\"{parent}\",{rest},\
         \"attributes\":[{}]}}",
        attributes.join(",")
    )
}

fn export(spans: &[String]) -> String {
    format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{}]}}]}}]}}", spans.join(","))
}

fn call(attributes: &[(&str, &str)]) -> String {
    let mut all = vec![("gen_ai.operation.name", "chat")];
    all.extend_from_slice(attributes);
    export(&[span(["t", "a", ""], &all, TIMES)])
}

#[test]
fn the_names_of_today() {
    let line = call(&[
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-4o-mini"),
        ("gen_ai.response.id", "canary-r"),
        ("gen_ai.conversation.id", "canary-s"),
        ("gen_ai.request.stream", "{\"boolValue\":true}"),
        ("gen_ai.request.max_tokens", "512"),
        ("gen_ai.response.time_to_first_chunk", "0.418"),
        ("gen_ai.usage.input_tokens", "1320"),
        ("gen_ai.usage.output_tokens", "160"),
        ("gen_ai.usage.cache_read.input_tokens", "1024"),
        (
            "gen_ai.response.finish_reasons",
            "{\"arrayValue\":{\"values\":[{\"stringValue\":\"stop\"},{\"stringValue\":\"length\"}]}}",
        ),
        (
            "gen_ai.input.messages",
            "[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"canary\"}]}]",
        ),
    ]);
    let draft = trial::draft(FORMAT, &line);
    let row = &draft.row;
    assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
    assert_eq!((row.duration_us, row.arrival_resolution_us), (Some(3_500_000), 1));
    assert_eq!(row.time_to_first_chunk_us, Some(418_000));
    assert_eq!(row.ttft_source, Some(TtftSource::Logged));
    assert_eq!((row.input_tokens, row.output_tokens), (Some(1_320), Some(160)));
    assert_eq!(row.cache_read_input_tokens, Some(1_024));
    assert_eq!((row.stream, row.max_tokens), (Some(true), Some(512)));
    assert_eq!((row.status, row.session_source), (Status::Ok, SessionSource::Explicit));
    assert_eq!(row.finish_reasons, ["stop".into(), "length".into()]);
    assert!(!format!("{draft:?}").contains("canary"));
}

#[test]
fn the_engine_joins_its_parent_and_no_other_call() {
    let engine = |own: &str, parent: &str, output: &str| {
        let attributes = [
            ("gen_ai.usage.prompt_tokens", "1320"),
            ("gen_ai.usage.completion_tokens", output),
            ("gen_ai.latency.time_in_queue", "0.012"),
            ("gen_ai.latency.time_to_first_token", "0.418"),
        ];
        span(["t", own, parent], &attributes, TIMES)
    };
    let gateway = |own: &str, output: &str| {
        let attributes = [
            ("gen_ai.request.model", "m-1"),
            ("gen_ai.usage.input_tokens", "1320"),
            ("gen_ai.usage.output_tokens", output),
        ];
        span(["t", own, ""], &attributes, TIMES)
    };
    let lines = [
        export(&[engine("e1", "g1", "160"), engine("e2", "g2", "160")]),
        export(&[gateway("g1", "160"), gateway("g2", "160"), engine("e3", "g1", "7")]),
        export(&[engine("e4", "", "160")]),
    ];
    let tried = trial::lines(FORMAT, &lines.each_ref().map(String::as_str));
    let joins: Vec<_> = tried.drafts.iter().map(|draft| draft.join).collect();
    let key = |index: usize| joins[index].unwrap().key;
    assert_eq!((key(0), key(1)), (key(2), key(3)));
    assert!(key(0) != key(1) && key(4) != key(2));
    assert_eq!(joins[0].unwrap().role, Role::Part(ENGINE));
    assert_eq!(joins[2].unwrap().role, Role::Part(GATEWAY));
    assert_eq!(joins[5], None, "an engine without parent stays alone");
    assert_eq!(tried.drafts[0].row.queue_time_us, Some(12_000));
    assert_eq!(tried.drafts[0].row.input_token_source, TokenSource::Engine);
    assert_eq!(tried.counts().0, 4);
}

#[test]
fn side_spans_sums_and_others() {
    let with = |key: &str, word: &str| span(["t", "a", ""], &[(key, word)], TIMES);
    let line = export(&[
        with("gen_ai.operation.name", "retrieval"),
        with("openinference.span.kind", "TOOL"),
        with("traceloop.span.kind", "workflow"),
        with("url.path", "/health"),
        span(["", "a", ""], &[("openinference.span.kind", "RETRIEVER")], TIMES),
    ]);
    let tried = trial::lines(FORMAT, &[&line]);
    let roles: Vec<_> = tried.drafts.iter().map(|draft| draft.join.unwrap().role).collect();
    assert_eq!(roles, [Role::Retrieval, Role::Tool]);
    assert_eq!(Some(tried.drafts[0].join.unwrap().key), tried.drafts[0].row.trace_id_hash);
    assert_eq!(tried.drafts[0].row.duration_us, Some(3_500_000));
    assert_eq!(tried.drops, ["parent_sum", "not_llm", "side_span"]);
}

#[test]
fn older_containers_numbers_and_events() {
    let span = r#"{"traceId":"t","spanId":"a","startTimeUnixNano":1795511702123000000,"endTimeUnixNano":1795511705623000000,
        "attributes":[{"key":"llm.request.type","value":{"stringValue":"chat"}},{"key":"llm.usage.prompt_tokens","value":{"intValue":1320}},
        {"key":"gen_ai.usage.prompt_tokens","value":{"intValue":1321}},{"key":"odd","value":7},{"key":"odder"}],
        "events":[{"name":"other","timeUnixNano":"1"},{"name":"First Token Stream Event","timeUnixNano":"1795511702541000000"}],
        "status":{"code":"STATUS_CODE_ERROR","message":"canary"}}"#;
    let line = format!(
        "{{\"resourceSpans\":[{{\"scopeSpans\":null,\"instrumentationLibrarySpans\":[{{\"spans\":[{span}]}}]}}]}}"
    );
    let draft = trial::draft(FORMAT, &line);
    let row = &draft.row;
    assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
    assert_eq!((row.input_tokens, &row.flags[..]), (Some(1_321), &[Flag::UsageDiffers][..]));
    assert_eq!(row.time_to_first_chunk_us, Some(418_000));
    assert_eq!(row.ttft_source, Some(TtftSource::Derived));
    assert_eq!((row.status, draft.join), (Status::Error, None));
    assert!(!format!("{draft:?}").contains("canary"));
}

#[test]
fn one_bad_span_does_not_spoil_its_line() {
    let good = span(["t", "a", ""], &[("gen_ai.operation.name", "chat")], TIMES);
    let wrong = span(
        ["t", "b", ""],
        &[("gen_ai.operation.name", "chat"), ("gen_ai.usage.input_tokens", "canary")],
        TIMES,
    );
    let open = "\"startTimeUnixNano\":\"1795511702123000000\",\"endTimeUnixNano\":\"0\"";
    let timeless = "\"startTimeUnixNano\":\"\"";
    let chat = [("gen_ai.operation.name", "chat")];
    let line = export(&[
        good,
        wrong,
        "7".to_owned(),
        span(["t", "c", ""], &chat, open),
        span(["t", "d", ""], &chat, timeless),
    ]);
    let tried = trial::lines(FORMAT, &[&line, "{\"resourceSpans\":[]}", "{\"resourceSpans\":7}"]);
    assert_eq!(tried.drafts.len(), 2);
    assert_eq!(tried.drops, ["no_time"]);
    assert_eq!(tried.rejects.len(), 3);
    assert_eq!(tried.rejects[0].field, "input_tokens");
    assert!(!format!("{:?}", tried.rejects).contains("canary"));
    let open = &tried.drafts[1].row;
    assert_eq!((open.duration_us, open.status), (None, Status::Unknown));
    assert_eq!(tried.shared.remarks["exports without spans"], 1);
}

#[test]
fn the_samples_give_what_their_manifest_says() {
    let genai = trial::sample("otlp-genai-spans.jsonl");
    let legacy = trial::sample("otlp-legacy-spans.jsonl");
    let (Some(genai), Some(legacy)) = (genai, legacy) else { return };
    let [_, first, _, failure] = &genai.drafts[..] else { panic!("two rows, two side spans") };
    assert_eq!(first.row.time_to_first_chunk_us, Some(418_000));
    assert_eq!((failure.row.status, failure.row.input_tokens), (Status::Timeout, None));
    let [engine, openllmetry, openinference, _, gateway] = &legacy.drafts[..] else {
        panic!("four calls and a side span")
    };
    assert_eq!(engine.join.unwrap().key, gateway.join.unwrap().key);
    assert_eq!(openllmetry.row.session_id_hash, openinference.row.session_id_hash);
    assert_eq!(openinference.row.input_tokens, Some(800));
}
