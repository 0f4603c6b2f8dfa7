//! Bodies of all families: what they fill, how turns link, and what hostile bodies do not do.

use super::*;
use crate::domain::record::{Hash128, Operation, SessionSource, Status, ToolClass};
use crate::ingest::format::Zone;
use crate::ingest::privacy::Hasher;

fn shared() -> Shared {
    Shared::new(Hasher::new(b"a salt of the tests"), Zone::utc())
}

/// Reads a request and its answer; an empty text is none.
fn both(request: &str, response: &str) -> Draft {
    let mut draft = Draft::from(RequestRecord::unknown("test".into(), 0, 1));
    let mut shared = shared();
    if !request.is_empty() {
        fill_request(request, &mut draft, &mut shared);
    }
    if !response.is_empty() {
        fill_response(response, &mut draft, &mut shared);
    }
    draft
}

fn row(request: &str, response: &str) -> RequestRecord {
    *both(request, response).row
}

/// Returns whether a request continues another and its answer.
fn continues(child: &Draft, parent: &Draft) -> bool {
    let (Some(child), Some(parent)) = (&child.chain, &parent.chain) else { return false };
    parent.with_answer.is_some_and(|hash| child.prefixes.contains(&hash))
}

const ASK: &str = r#"{"role":"system","content":"You help."},{"role":"user","content":"Where?"}"#;

fn chat(messages: &str) -> String {
    format!("{{\"model\":\"m-1\",\"messages\":[{messages}]}}")
}

fn said(message: &str) -> String {
    format!("{{\"choices\":[{{\"index\":0,\"finish_reason\":\"stop\",\"message\":{message}}}]}}")
}

#[test]
fn a_chat_request_shows_its_limits_and_counts() {
    let body = r#"{"model":"m-1","stream":true,"max_completion_tokens":512,"temperature":0.2,
        "top_p":0.9,"n":2,"messages":[{"role":"developer","content":"x"},
        {"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{}}]},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f"}}]},
        {"content":"x","role":"tool","tool_call_id":"c"}],
        "tools":[{"type":"function","function":{"name":"kb_search"}},{"type":"web_search"}]}"#;
    let row = row(body, "");
    assert_eq!(row.request_model.as_deref(), Some("m-1"));
    assert_eq!((row.stream, row.max_tokens, row.choice_count), (Some(true), Some(512), Some(2)));
    assert_eq!((row.temperature, row.top_p), (Some(0.2), Some(0.9)));
    assert_eq!((row.message_count, row.system_count), (Some(4), Some(1)));
    assert_eq!((row.user_count, row.assistant_count, row.tool_count), (Some(1), Some(1), Some(1)));
    assert_eq!((row.image_count, row.audio_count, row.file_count), (Some(1), Some(0), Some(0)));
    assert_eq!(row.tool_definition_count, Some(2));
    assert_eq!(row.tool_class, [ToolClass::Retrieval, ToolClass::WebSearch]);
    assert_eq!((row.operation, row.rag_label), (Operation::Chat, RagLabel::NoEvidence));
}

#[test]
fn turns_link_through_answers_and_tool_calls_of_any_id() {
    let first = both(&chat(ASK), &said(r#"{"role":"assistant","content":"Here. "}"#));
    let history = format!(
        "{ASK},{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"Here.\"}}]}},\
         {{\"role\":\"user\",\"content\":\"And?\"}}"
    );
    let call = r#""tool_calls":[{"index":0,"id":"ID","type":"function","function":{"name":"f",
        "arguments":"{\"a\": 1, \"b\": 2}"}}]"#;
    let answer = said(&format!("{{\"role\":\"assistant\",\"content\":null,{call}}}"));
    let second = both(&chat(&history), &answer);
    let sorted = call.replace("{\\\"a\\\": 1, \\\"b\\\": 2}", "{\\\"b\\\":2,\\\"a\\\":1}");
    let more = format!(
        "{history},{{\"role\":\"assistant\",\"content\":\"\",{}}},\
         {{\"role\":\"tool\",\"tool_call_id\":\"other\",\"content\":\"x\"}}",
        sorted.replace("ID", "other")
    );
    let third = both(&chat(&more), "");
    assert!(continues(&second, &first) && continues(&third, &second));
    assert!(!continues(&third, &first) || first.chain != second.chain);
    assert!(!continues(&first, &second));
    let turns = [&first, &second, &third].map(|draft| draft.chain.as_ref().unwrap().is_tool_turn);
    assert_eq!(turns, [false, false, true]);
    let (first, second) = (first.chain.unwrap(), second.chain.unwrap());
    assert_eq!((first.prefixes.len(), first.prefixes_no_system.len()), (2, 1));
    assert_eq!(second.exchanges, [first.last_exchange.unwrap()]);
    assert_eq!(second.prefixes_no_system.get(1).copied(), first.with_answer_no_system);
}

#[test]
fn deltas_give_the_hash_of_the_whole() {
    let whole = r#"{"role":"assistant","content":"Over there","tool_calls":[{"id":"1",
        "function":{"name":"f","arguments":"{\"a\":1}"}}]}"#;
    let stream = concat!(
        ": comment\n\nevent: x\ndata: {\"id\":\"c-1\",\"model\":\"m-2\",\"choices\":[{\"index\":0,",
        "\"delta\":{\"role\":\"assistant\",\"content\":\"Over \"},\"finish_reason\":null}]}\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"there\",\"tool_calls\":[{\"index\":0,",
        "\"id\":\"1\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\"}}]}}]}\n\n",
        "data:{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":",
        "{\"arguments\":\"\\\":1}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n"
    );
    let (one, other) = (both(&chat(ASK), &said(whole)), both(&chat(ASK), stream));
    let hash = |draft: &Draft| draft.chain.as_ref().unwrap().with_answer;
    assert!(hash(&one).is_some());
    assert_eq!(hash(&one), hash(&other));
    let row = &other.row;
    assert_eq!((row.stream, row.input_tokens, row.output_tokens), (Some(true), Some(7), Some(3)));
    assert_eq!(row.finish_reasons.iter().map(|why| &**why).collect::<Vec<_>>(), ["tool_calls"]);
    assert_eq!((row.tool_call_count, row.response_model.as_deref()), (Some(1), Some("m-2")));
    assert_eq!(row.response_id_hash, other.chain.as_ref().unwrap().own);
    assert!(row.response_id_hash.is_some() && row.flags.is_empty());
    let array = stream.lines().filter_map(|line| line.strip_prefix("data:")).collect::<Vec<_>>();
    assert_eq!(hash(&one), hash(&both(&chat(ASK), &format!("[{}]", array.join(",")))));
    let cut = stream.lines().take(4).collect::<Vec<_>>().join("\n");
    let cut = both(&chat(ASK), &cut);
    assert_eq!((hash(&cut), cut.row.flags), (None, vec![Flag::TruncatedBody]));
    assert!(!cut.chain.unwrap().is_incomplete);
}

#[test]
fn anthropic_bodies_and_streams() {
    let body = r#"{"model":"c-1","max_tokens":64,"messages":[{"role":"user","content":[{"type":
        "text","text":"Where?","cache_control":{"type":"ephemeral"}}]}],"system":[{"type":"text",
        "text":"You help."}],"tools":[{"name":"get","input_schema":{}}],
        "metadata":{"user_id":"u_session_s-1"}}"#;
    let answer = r#"{"id":"msg","type":"message","role":"assistant","model":"c-1","content":[
        {"type":"thinking","thinking":"hm"},{"type":"text","text":"Let me see."},
        {"type":"tool_use","id":"t","name":"get","input":{"b":1,"a":[]}}],"stop_reason":"tool_use",
        "usage":{"input_tokens":296,"cache_read_input_tokens":1024,"cache_creation_input_tokens":0,
        "output_tokens":160}}"#;
    let first = both(body, answer);
    let row = &first.row;
    assert_eq!((row.input_tokens, row.cache_read_input_tokens), (Some(1320), Some(1024)));
    assert_eq!((row.output_tokens, row.cache_write_input_tokens), (Some(160), Some(0)));
    assert_eq!(row.flags, [Flag::AnthropicCachedAdded]);
    assert_eq!((row.message_count, row.system_count, row.max_tokens), (Some(2), Some(1), Some(64)));
    assert_eq!(row.session_source, SessionSource::Explicit);
    assert!(row.session_id_hash.is_some() && row.user_hash.is_some());
    let stream = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg\",",
        "\"model\":\"c-1\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":296,",
        "\"cache_read_input_tokens\":1024,\"output_tokens\":1}}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",",
        "\"text\":\"\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":",
        "{\"type\":\"text_delta\",\"text\":\"Let me see.\"}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":",
        "\"tool_use\",\"id\":\"t\",\"name\":\"get\",\"input\":{}}}\n\n",
        "data: {\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":[],",
        "\\\"b\\\":1}\"},\"index\":1,\"type\":\"content_block_delta\"}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":",
        "{\"output_tokens\":160}}\n\ndata: {\"type\":\"message_stop\"}\n\n"
    );
    let streamed = both(body, stream);
    assert_eq!(streamed.chain, first.chain);
    assert_eq!((streamed.row.input_tokens, streamed.row.output_tokens), (Some(1320), Some(160)));
    let next = body.replace(
        "]}],\"system\"",
        "]},{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Let me see.\"},\
         {\"type\":\"tool_use\",\"id\":\"u\",\"name\":\"get\",\"input\":{\"a\":[],\"b\":1}}]},\
         {\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"u\",\
         \"content\":\"x\"}]}],\"system\"",
    );
    let next = both(&next, "");
    assert!(continues(&next, &first) && next.chain.as_ref().unwrap().is_tool_turn);
    assert_eq!((next.row.user_count, next.row.tool_count), (Some(1), Some(1)));
}

#[test]
fn responses_link_by_id_and_by_items() {
    let body = r#"{"model":"m","instructions":"You help.","input":"Where?","max_output_tokens":9}"#;
    let answer = r#"{"id":"resp_1","object":"response","status":"completed","error":null,"output":[
        {"type":"reasoning","summary":[]},{"type":"file_search_call","status":"completed"},
        {"type":"function_call","call_id":"1","name":"kb","arguments":"{}"},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Here."}]}],
        "usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,
        "output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}}"#;
    let first = both(body, answer);
    let row = &first.row;
    assert_eq!((row.input_tokens, row.cache_read_input_tokens), (Some(10), Some(4)));
    assert_eq!((row.output_tokens, row.reasoning_output_tokens), (Some(5), Some(2)));
    assert_eq!((row.rag_label, row.tool_call_count), (RagLabel::Explicit, Some(1)));
    assert_eq!((row.operation, row.max_tokens), (Operation::Chat, Some(9)));
    let items = r#"{"instructions":"You help.","input":[{"role":"user","content":"Where?"},
        {"type":"reasoning","summary":[]},
        {"type":"function_call","call_id":"2","name":"kb","arguments":"{ }"},
        {"role":"assistant","content":[{"type":"output_text","text":"Here."}]},
        {"type":"function_call_output","call_id":"2","output":"x"}]}"#;
    let second = both(items, "");
    assert!(continues(&second, &first) && second.chain.as_ref().unwrap().is_tool_turn);
    assert_eq!(second.row.rag_label, RagLabel::Strong);
    let by_id = both(r#"{"input":"And?","previous_response_id":"resp_1"}"#, "");
    assert_eq!(by_id.chain.unwrap().previous, first.chain.as_ref().unwrap().own);
    let event = format!("data: {{\"type\":\"response.completed\",\"response\":{answer}}}\n");
    assert_eq!(both(body, &event.replace('\n', " ")).chain, first.chain);
}

#[test]
fn gemini_bodies() {
    let body = r#"{"contents":[{"role":"user","parts":[{"text":"Where?"},{"inlineData":{"mimeType":
        "image/png","data":"x"}}]},{"role":"model","parts":[{"functionCall":{"name":"search","args":
        {}}}]},{"role":"user","parts":[{"functionResponse":{"name":"search","response":{}}}]}],
        "systemInstruction":{"parts":[{"text":"You help."}]},"generationConfig":{"maxOutputTokens":
        512,"topP":0.5,"candidateCount":1},"tools":[{"functionDeclarations":[{"name":"search"},
        {"name":"f"}]}]}"#;
    let answer = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},
        {"text":"Here."}]},"finishReason":"MAX_TOKENS","groundingMetadata":{}}],"usageMetadata":{
        "promptTokenCount":1320,"candidatesTokenCount":120,"thoughtsTokenCount":40,
        "cachedContentTokenCount":1024,"totalTokenCount":1480},"modelVersion":"g-1"}"#;
    let draft = both(body, answer);
    let row = &draft.row;
    assert_eq!((row.input_tokens, row.cache_read_input_tokens), (Some(1320), Some(1024)));
    assert_eq!((row.output_tokens, row.reasoning_output_tokens), (Some(160), Some(40)));
    assert_eq!((row.message_count, row.tool_count, row.image_count), (Some(4), Some(1), Some(1)));
    assert_eq!((row.max_tokens, row.tool_definition_count), (Some(512), Some(2)));
    assert_eq!(row.rag_label, RagLabel::Strong);
    assert_eq!(row.finish_reasons.first().map(|why| &**why), Some("max_tokens"));
    assert!(draft.chain.unwrap().with_answer.is_some() && row.flags.is_empty());
    let blocked = row_of_answer(r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#);
    assert_eq!(blocked.finish_reasons.first().map(|why| &**why), Some("safety"));
}

fn row_of_answer(body: &str) -> RequestRecord {
    row("", body)
}

#[test]
fn bedrock_ollama_and_tgi_bodies() {
    let bedrock = both(
        r#"{"messages":[{"role":"user","content":[{"text":"Where?"}]}],
            "inferenceConfig":{"maxTokens":512}}"#,
        r#"{"output":{"message":{"role":"assistant","content":[{"text":"Here."}]}},"stopReason":
            "end_turn","usage":{"inputTokens":296,"outputTokens":160,"cacheReadInputTokens":1024,
            "cacheWriteInputTokens":0,"totalTokens":1480}}"#,
    );
    assert_eq!((bedrock.row.max_tokens, bedrock.row.input_tokens), (Some(512), Some(1320)));
    assert_eq!(bedrock.row.flags, [Flag::AnthropicCachedAdded]);
    assert!(bedrock.chain.unwrap().with_answer.is_some());
    let lines = concat!(
        "{\"model\":\"l\",\"message\":{\"role\":\"assistant\",\"content\":\"He\"},\"done\":false}\n",
        "{\"model\":\"l\",\"message\":{\"role\":\"assistant\",\"content\":\"re.\"},\"done\":true,",
        "\"done_reason\":\"stop\",\"prompt_eval_count\":9,\"eval_count\":2}\n"
    );
    let asked = r#"{"messages":[{"role":"user","content":"Where?"}],"options":{"num_predict":5}}"#;
    let ollama = both(asked, lines);
    assert_eq!((ollama.row.input_tokens, ollama.row.max_tokens), (Some(9), Some(5)));
    let hash = |draft: &Draft| draft.chain.as_ref().unwrap().with_answer;
    assert_eq!(hash(&ollama), hash(&both(asked, &said("{\"content\":\"Here.\"}"))));
    let tgi = both(
        r#"{"inputs":"Where?","parameters":{"max_new_tokens":7}}"#,
        r#"{"generated_text":"Here.","details":{"finish_reason":"eos_token","generated_tokens":3}}"#,
    );
    assert_eq!((tgi.row.max_tokens, tgi.row.output_tokens), (Some(7), Some(3)));
    assert_eq!(tgi.row.operation, Operation::TextCompletion);
}

#[test]
fn errors_give_class_and_status() {
    let of = |body: &str| {
        let row = row_of_answer(body);
        (row.status, row.http_status_code, row.error_type.as_deref().map(str::to_owned))
    };
    let (limited, class) = (Status::RateLimited, Some("rate_limit_error".to_owned()));
    let body = r#"{"error":{"message":"canary","type":"rate_limit_error","code":"429"}}"#;
    assert_eq!(of(body), (limited, Some(429), class.clone()));
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"canary"}}"#;
    assert_eq!(of(body), (limited, None, class));
    assert_eq!(of(r#"{"error":"canary"}"#), (Status::Error, None, None));
    assert_eq!(of(r#"{"error":{"code":503,"status":"UNAVAILABLE"}}"#).1, Some(503));
    let class = Some("BadRequestError".to_owned());
    let body = r#"{"object":"error","message":"canary","type":"BadRequestError","code":400}"#;
    assert_eq!(of(body), (Status::Error, Some(400), class));
    assert_eq!(of(r#"{"error":null,"choices":[]}"#).0, Status::Unknown);
    assert_eq!(of(r#"{"message":"canary"}"#).0, Status::Unknown);
}

#[test]
fn what_was_left_out_or_cut_never_links() {
    let of = |request: &str, answer: &str| both(request, answer);
    let redacted = chat(r#"{"role":"user","content":"redacted-by-litellm"}"#);
    let draft = of(&redacted, &said("{\"content\":\"Here.\"}"));
    let chain = draft.chain.unwrap();
    assert!(chain.is_incomplete && chain.prefixes.is_empty() && chain.with_answer.is_none());
    assert_eq!((draft.row.message_count, draft.row.rag_label), (Some(1), RagLabel::Unknowable));
    let draft = of(&chat(ASK), &said("{\"content\":\"redacted-by-litellm\"}"));
    assert!(draft.chain.unwrap().with_answer.is_none());
    let draft = of(&chat(ASK), r#"{"message":"The response was a stream."}"#);
    assert_eq!((draft.row.stream, draft.row.tool_call_count), (Some(true), None));
    assert!(draft.chain.unwrap().with_answer.is_none());
    let marked = chat(r#"{"role":"user","content":"a ... (litellm_truncated 9 chars) ... b"}"#);
    let draft = of(&marked, "");
    assert_eq!((draft.row.flags, draft.row.message_count), (vec![Flag::TruncatedBody], Some(1)));
    assert!(draft.chain.unwrap().is_incomplete);
    let cut = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Wh..."#;
    let draft = of(cut, "");
    assert_eq!((draft.row.stream, draft.row.message_count), (Some(true), None));
    assert_eq!(draft.row.flags, [Flag::TruncatedBody]);
    assert!(draft.chain.unwrap().is_incomplete);
    let draft = of(&chat(ASK), r#"{"id":"x","choices":[{"index":0,"mess"#);
    assert_eq!(draft.row.flags, [Flag::TruncatedBody]);
}

#[test]
fn passages_in_the_prompt_are_evidence() {
    let of = |text: &str| row(&chat(&format!("{{\"role\":\"user\",\"content\":\"{text}\"}}")), "");
    let row = of("<context>\\n[1] one\\n</context>\\nQuestion: x");
    assert_eq!(row.rag_label, RagLabel::Heuristic);
    assert_eq!(row.rag_evidence.first().map(|rule| &**rule), Some("context_tags"));
    assert_eq!(of("plain").rag_label, RagLabel::NoEvidence);
    let answer = r#"{"role":"assistant","content":"<context>"}"#;
    assert_eq!(super::tests::row(&chat(answer), "").rag_label, RagLabel::NoEvidence);
}

#[test]
fn bodies_of_frameworks_and_engines() {
    let langchain = both(
        r#"{"messages":[[{"kwargs":{"content":"Where?","type":"human"}},{"id":["x","AIMessage"],
            "kwargs":{"content":"Here.","type":"ai"}}]]}"#,
        r#"{"generations":[[{"text":"Bye.","message":{"kwargs":{"content":"Bye.","type":"ai"}},
            "generation_info":{"finish_reason":"stop"}}]],"llm_output":{"token_usage":
            {"prompt_tokens":9,"completion_tokens":2}}}"#,
    );
    assert_eq!((langchain.row.user_count, langchain.row.assistant_count), (Some(1), Some(1)));
    assert_eq!((langchain.row.input_tokens, langchain.row.output_tokens), (Some(9), Some(2)));
    let parts = both(
        r#"[{"role":"user","parts":[{"type":"text","content":"Where?"}]},{"role":"assistant",
            "parts":[{"type":"reasoning","content":"hm"},{"type":"text","content":"Here."}]}]"#,
        r#"[{"role":"assistant","parts":[{"type":"text","content":"Bye."}],
            "finish_reason":"stop"}]"#,
    );
    assert_eq!(parts.chain, langchain.chain);
    assert!(parts.chain.as_ref().is_some_and(|chain| chain.with_answer.is_some()));
    assert_eq!(parts.row.finish_reasons.len(), 1);
    let sglang = row_of_answer(
        r#"{"text":"x","meta_info":{"id":"r","finish_reason":{"type":"stop"},"prompt_tokens":1320,
            "completion_tokens":160,"cached_tokens":1024}}"#,
    );
    assert_eq!((sglang.input_tokens, sglang.cache_read_input_tokens), (Some(1320), Some(1024)));
    assert_eq!(sglang.finish_reasons.first().map(|why| &**why), Some("stop"));
    let llama = row_of_answer(
        r#"{"generation":"x","prompt_token_count":9,"generation_token_count":2,
            "stop_reason":"stop"}"#,
    );
    assert_eq!((llama.input_tokens, llama.output_tokens), (Some(9), Some(2)));
    let titan = row_of_answer(
        r#"{"inputTextTokenCount":9,"results":[{"outputText":"x","completionReason":"LENGTH"}]}"#,
    );
    assert_eq!(titan.finish_reasons.first().map(|why| &**why), Some("length"));
    let text = both("\"Where?\"", "\"Here.\"");
    let chat = both(r#"[{"role":"user","content":"Where?"}]"#, &said("{\"content\":\"Here.\"}"));
    assert_eq!(text.chain, chat.chain);
    assert_eq!((text.row.message_count, text.row.tool_call_count), (None, Some(0)));
}

#[test]
fn embeddings_have_no_chain() {
    let answer = r#"{"object":"list","data":[{"object":"embedding","embedding":[0.1]}],
        "usage":{"prompt_tokens":5,"total_tokens":5}}"#;
    let draft = both(r#"{"model":"e","input":["one","two"]}"#, answer);
    assert_eq!((draft.row.operation, draft.chain), (Operation::Embeddings, None));
    assert_eq!((draft.row.input_tokens, draft.row.message_count), (Some(5), None));
    assert!(draft.row.flags.is_empty());
}

#[test]
fn known_fields_are_left() {
    let mut draft = Draft::from(RequestRecord::unknown("test".into(), 0, 1));
    draft.row.input_tokens = Some(7);
    draft.row.stream = Some(false);
    draft.row.status = Status::Ok;
    fill_request(r#"{"stream":true,"messages":[]}"#, &mut draft, &mut shared());
    let answer = r#"{"error":{"code":500},"usage":{"input_tokens":1,"output_tokens":0}}"#;
    fill_response(answer, &mut draft, &mut shared());
    assert_eq!((draft.row.stream, draft.row.input_tokens), (Some(false), Some(7)));
    assert_eq!((draft.row.status, draft.row.output_tokens), (Status::Ok, None));
    assert_eq!(draft.row.flags, [Flag::ZeroMeansUnknown]);
}

#[test]
fn hostile_bodies_do_nothing_worse_than_fill_nothing() {
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    let nested = deep("{\"input\":", "}");
    let mut bodies = vec![
        String::new(),
        "null".to_owned(),
        "not json".to_owned(),
        "\"\\\"{".to_owned(),
        deep("[", "]"),
        nested,
        deep("{\"contentBlockStart\":", "}"),
        deep("{\"message\":", "}"),
        deep("{\"tools\":[{\"functionDeclarations\":[", ""),
        format!("{{\"messages\":{}}}", deep("[{\"content\":", "")),
        format!("{{\"messages\":[{{\"tool_calls\":[{{\"arguments\":{}}}]}}]}}", deep("[", "]")),
        "data: ".repeat(1_000),
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\\q\\u12\"}]}".to_owned(),
    ];
    for key in [
        "messages",
        "input",
        "prompt",
        "system",
        "tools",
        "choices",
        "usage",
        "content",
        "output",
        "candidates",
        "error",
        "delta",
        "metadata",
        "conversation",
        "model",
        "n",
    ] {
        for value in ["null", "1", "-1.5", "\"x\"", "[1,\"x\",null,[],{}]", "{\"id\":[]}", "true"] {
            bodies.push(format!("{{\"{key}\":{value}}}"));
            bodies.push(format!("data: {{\"{key}\":{value}}}"));
        }
    }
    for body in &bodies {
        let draft = both(body, body);
        assert_eq!(draft.row.source_line, Some(1));
    }
}

#[test]
fn no_prefix_of_a_body_panics() {
    let bodies = [chat(ASK), said(r#"{"content":"H\u00e9re","tool_calls":[{"function":{}}]}"#)];
    for body in bodies {
        for (at, _) in body.char_indices() {
            let part = body.get(..at).unwrap();
            let draft = both(part, part);
            let whole = draft.chain.as_ref().is_some_and(|chain| !chain.is_incomplete);
            assert!(!whole, "{part}");
        }
    }
}

#[test]
fn hashes_depend_on_the_salt() {
    let of = |salt: &[u8]| -> Vec<Hash128> {
        let mut draft = Draft::from(RequestRecord::unknown("test".into(), 0, 1));
        let mut shared = Shared::new(Hasher::new(salt), Zone::utc());
        fill_request(&chat(ASK), &mut draft, &mut shared);
        draft.chain.unwrap().prefixes
    };
    assert_eq!(of(b"salt number one!"), of(b"salt number one!"));
    assert_ne!(of(b"salt number one!"), of(b"salt number two!"));
}
