//! Which keys decide for which format: one line a rule, in order of priority.
//!
//! A rule is a list of needs that all hold; the first rule that holds gets a record's vote. Rows of
//! CSV are objects of texts here. To add a format, add a line.

use super::super::format::Format;
use serde_json::Value;

/// What a rule asks of a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    /// A value at a path (keys joined by dots; a key with dots in it is found too).
    Has(&'static str),
    /// One of these paths.
    Any(&'static [&'static str]),
    /// Nothing at a path.
    Lacks(&'static str),
    /// A text at a path.
    Is(&'static str, &'static str),
    /// A text at a path that begins so.
    Starts(&'static str, &'static str),
    /// An array at a path.
    Array(&'static str),
    /// An object at a path.
    Object(&'static str),
    /// A key of the record that begins so.
    KeyStarts(&'static str),
    /// An object at a path with a child object that has one of these keys.
    ChildHas(&'static str, &'static [&'static str]),
}

/// A rule: these needs decide for this format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) format: Format,
    pub(super) needs: &'static [Need],
}

use Need::{Any, Array, ChildHas, Has, Is, KeyStarts, Lacks, Object, Starts};

/// Turns lines of `format: needs` into rules.
macro_rules! rules {
    ($($format:ident: $($need:expr),+;)+) => {
        &[$(Rule { format: Format::$format, needs: &[$($need),+] }),+]
    };
}

/// Rules for JSON objects and rows of CSV.
pub(super) const OBJECTS: &[Rule] = rules! {
    OtlpSpans: Array("resourceSpans");
    BedrockInvocation: Is("schemaType", "ModelInvocationLog");
    DynamoRequestTrace: Starts("schema", "dynamo.request.trace.");
    DynamoRequestTrace: Starts("event.schema", "dynamo.request.trace.");
    AzureOpenaiRequestResponse: Is("category", "RequestResponse"), Has("properties");
    AzureOpenaiRequestResponse: Is("Category", "RequestResponse"), Any(&["properties_s", "Properties"]);
    AzureApimGatewaylogs: Is("category", "GatewayLogs"), Has("correlationId");
    AzureApimLlm: Is("Type", "ApiManagementGatewayLlmLog");
    AzureApimLlm: Is("category", "GatewayLlmLogs");
    AzureApimLlm: Has("CorrelationId"), Has("PromptTokens"), Has("IsStreamCompletion");
    AzureApimLlm: Has("correlationId"), Has("promptTokens"), Has("isStreamCompletion");
    LitellmSpendlogs: Has("request_id"), Has("call_type"), Has("api_key"), Has("spend"), Has("startTime"), Has("endTime");
    LitellmStandardLogging: Has("call_type"), Has("startTime"), Has("hidden_params"), Has("model_map_information");
    NewApiLogs: Has("created_at"), Has("type"), Has("quota"), Has("token_name"), Has("use_time");
    OneApiLogs: Has("created_at"), Has("type"), Has("quota"), Has("token_name"), Lacks("use_time");
    KongAi: Has("started_at"), Has("latencies"), Has("request"), ChildHas("ai", &["usage", "meta"]);
    KongAi: Has("started_at"), Object("latencies"), Has("request"), Has("service");
    ApisixLogger: Object("llm_summary");
    ApisixLogger: Has("start_time"), Has("apisix_latency"), Has("route_id"), Has("request");
    HigressAiStatistics: Has("ai_log"), Has("authority"), Has("start_time");
    HigressAiStatistics: Has("input_token"), Has("authority");
    EnvoyAiGateway: Has("start_time"), KeyStarts("gen_ai.");
    EnvoyAiGateway: Has("start_time"), Has("response_code"), Any(&["llm_input_token", "input_tokens", "genai_tokens_input"]);
    PortkeyExport: Has("ai_org"), Has("ai_model"), Any(&["req_units", "response_time"]);
    HeliconeExport: Has("request_created_at"), Has("response_created_at"), Has("response_status");
    LangsmithRuns: Has("run_type"), Has("dotted_order");
    LangfuseObservations: Has("trace_id"), Has("parent_observation_id"), Has("type");
    LangfuseObservations: Has("traceId"), Has("type"), Any(&["usageDetails", "parentObservationId"]);
    LangfuseObservations: Has("trace_id"), Has("usage_details"), Has("type");
    CloudflareLogpush: Has("Gateway"), Has("Endpoint"), Has("Provider"), Has("StatusCode"), Has("Timestamp");
    CloudflareLogpush: Has("tokens_in"), Has("tokens_out"), Has("request_content_type");
    VertexRequestResponse: Has("logging_time"), Has("full_request"), Has("full_response");
    OpenrouterActivity: Has("generation_id"), Has("model_permaslug"), Has("tokens_prompt");
    OpenrouterActivity: Has("native_tokens_prompt"), Has("tokens_prompt"), Has("generation_time");
    OpenaiBatchOutput: Has("custom_id"), Has("response"), Has("id");
    OpenaiBatchOutput: Has("custom_id"), Has("method"), Has("url"), Has("body");
    SglangRequests: Starts("event", "request."), Has("rid"), Has("obj");
    SglangRequestMetrics: Has("request_parameters"), Has("e2e_latency");
    TgiRouter: Starts("target", "text_generation_router");
    OllamaResponses: Has("model"), Has("created_at"), Has("done");
    AzureLmmPublic: Has("TIMESTAMP"), Has("NumImages"), Has("ContextTokens"), Has("GeneratedTokens");
    AzureLlmPublic: Has("TIMESTAMP"), Has("ContextTokens"), Has("GeneratedTokens");
    Burstgpt: Has("Timestamp"), Has("Request tokens"), Has("Response tokens"), Has("Log Type");
    QwenBailian: Has("chat_id"), Has("parent_chat_id"), Has("input_length");
    Vidur: Has("num_prefill_tokens"), Has("num_decode_tokens");
    Sharegpt: Array("conversations");
    WekaTrace: Array("requests"), Has("block_size"), Has("tool_tokens");
    InferencePerfOtel: Array("spans"), Has("span_count");
    TracewrightRun: Has("was_sent"), Has("planned_input_tokens"), Has("scheduled_ns");
    AiperfSessions: Has("session_id"), Array("turns");
    AiperfSessions: Has("session_id"), Any(&["timestamp", "delay", "delay_ms"]), Any(&["output_length", "input_length", "text_input", "messages", "payload"]);
    AiperfSessions: Has("delay"), Has("input_length");
    LengthTrace: Has("timestamp"), Has("input_length"), Has("output_length");
    NginxJson: Has("request_time"), Has("status"), Any(&["upstream_response_time", "body_bytes_sent", "bytes_sent"]);
    VllmCustom: Has("prompt"), Lacks("response"), Lacks("completion"), Lacks("timestamp"), Lacks("messages");
    RawCapture: Any(&["request", "request_body", "requestBody", "req", "http_request"]), Any(&["response", "response_body", "responseBody", "resp", "http_response", "output", "usage"]);
    RawCapture: Object("input"), Any(&["output", "response", "usage"]);
    RawCapture: Array("input"), Any(&["output", "response"]);
    RawCapture: Object("body"), Any(&["response", "response_body", "output", "usage"]);
    RawCapture: Any(&["messages", "request.messages"]), Any(&["timestamp", "time", "ts", "created_at", "start_time"]);
};

/// A log of sums: no rows of requests can come of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    needs: &'static [Need],
    /// What it is.
    pub(super) what: &'static str,
    /// Which export to take instead.
    pub(super) instead: &'static str,
}

/// Exports of sums over many requests; they go before all formats.
pub(super) const SUMS: &[Sums] = &[
    Sums {
        needs: &[Has("date"), Has("requests"), Has("prompt_tokens"), Lacks("generation_id")],
        what: "OpenRouter's activity summed by day and model",
        instead: "export the activity by generation (a CSV with `generation_id`), or fetch \
                  `/generation` for each id",
    },
    Sums {
        needs: &[Starts("object", "organization.usage.")],
        what: "sums of OpenAI's usage API",
        instead: USAGE_INSTEAD,
    },
    Sums {
        needs: &[Is("object", "bucket"), Array("results")],
        what: "buckets of OpenAI's usage API",
        instead: USAGE_INSTEAD,
    },
    Sums {
        needs: &[Is("object", "page"), Array("data")],
        what: "a page of OpenAI's usage API",
        instead: USAGE_INSTEAD,
    },
    Sums {
        needs: &[Has("num_model_requests"), Has("input_tokens")],
        what: "an export of OpenAI's usage, summed over requests",
        instead: USAGE_INSTEAD,
    },
    Sums {
        needs: &[Has("date"), Has("api_requests"), Has("spend")],
        what: "LiteLLM's spend summed by day",
        instead: "export the table `LiteLLM_SpendLogs`",
    },
    Sums {
        needs: &[Has("token_used"), Has("count"), Has("quota")],
        what: "new-api's table `quota_data`, summed by hour",
        instead: "export the table `logs`",
    },
    Sums {
        needs: &[Has("row_id"), Has("source_format"), Has("arrival_source")],
        what: "a trace that was ingested already",
        instead: TRACE_INSTEAD,
    },
];

/// What to do with a trace.
const TRACE_INSTEAD: &str = "it needs no ingest: give it to `fit`, `plan`, `inspect` or `export`";

/// OpenAI keeps no log of single requests.
const USAGE_INSTEAD: &str = "take the log of the gateway or of the client in front of it";

impl Sums {
    /// Returns whether every need holds.
    pub(super) fn holds(&self, record: &Value) -> bool {
        self.needs.iter().all(|need| need.holds(record))
    }
}

impl Rule {
    /// Returns whether every need holds.
    pub(super) fn holds(&self, record: &Value) -> bool {
        self.needs.iter().all(|need| need.holds(record))
    }
}

impl Need {
    /// Returns whether the need holds.
    pub(super) fn holds(self, record: &Value) -> bool {
        match self {
            Has(path) => at(record, path).is_some(),
            Any(paths) => paths.iter().any(|path| at(record, path).is_some()),
            Lacks(path) => at(record, path).is_none(),
            Is(path, word) => at(record, path).and_then(Value::as_str) == Some(word),
            Starts(path, prefix) => at(record, path)
                .and_then(Value::as_str)
                .is_some_and(|text| text.starts_with(prefix)),
            Array(path) => opened(record, path).is_some_and(|value| value.is_array()),
            Object(path) => opened(record, path).is_some_and(|value| value.is_object()),
            KeyStarts(prefix) => record
                .as_object()
                .is_some_and(|fields| fields.keys().any(|key| key.starts_with(prefix))),
            ChildHas(path, keys) => opened(record, path).is_some_and(|value| {
                value.as_object().is_some_and(|children| {
                    children.values().any(|child| keys.iter().any(|key| child.get(key).is_some()))
                })
            }),
        }
    }

    /// Returns the need in words, for `--explain`.
    pub(super) fn describe(self) -> String {
        match self {
            Has(path) => format!("has `{path}`"),
            Any(paths) => format!("has one of `{}`", paths.join("`, `")),
            Lacks(path) => format!("has no `{path}`"),
            Is(path, word) => format!("`{path}` is `{word}`"),
            Starts(path, prefix) => format!("`{path}` begins with `{prefix}`"),
            Array(path) => format!("`{path}` is an array"),
            Object(path) => format!("`{path}` is an object"),
            KeyStarts(prefix) => format!("has a key that begins with `{prefix}`"),
            ChildHas(path, keys) => {
                format!("`{path}` has an object with one of `{}`", keys.join("`, `"))
            }
        }
    }
}

/// Returns the value at a path.
fn at<'v>(record: &'v Value, path: &str) -> Option<&'v Value> {
    let fields = record.as_object()?;
    if let Some(value) = fields.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let (key, rest) = path.split_at(dot);
        at(fields.get(key)?, rest.strip_prefix('.')?)
    })
}

/// Returns the value at a path, taken out of a text that holds JSON.
fn opened(record: &Value, path: &str) -> Option<Value> {
    let value = at(record, path)?;
    match value.as_str() {
        Some(text) => serde_json::from_str(text).ok(),
        None => Some(value.clone()),
    }
}

/// Returns the format that a line of text is of.
pub(super) fn of_text(line: &str) -> Option<(Format, &'static str)> {
    let has = |part: &str| line.contains(part);
    if has("Received request ") && (has(": prompt: ") || has(": params: ")) {
        return Some((Format::VllmText, "`Received request ID: (prompt|params):`"));
    }
    if has("[GIN] ") && line.matches(" | ").count() >= 3 {
        return Some((Format::OllamaGin, "`[GIN] DATE - TIME | STATUS | ...`"));
    }
    let kinds = ["\"traditional_http\" \"", "\"ai_chat\" \"", "\"ai_stream\" \""];
    if kinds.into_iter().any(has) {
        return Some((Format::ApisixAccess, "`\"(traditional_http|ai_chat|ai_stream)\" \"`"));
    }
    let tail = line.rsplit_once('"').map_or("", |(_, tail)| tail);
    if tail.contains("] [") && has(" [") && has("] \"") {
        return Some((Format::NginxIngress, "the tail `[upstream-name] [...] ...`"));
    }
    let head = line.split_once(" [").filter(|(_, rest)| rest.contains("] \""));
    if head.is_some() && line.matches('"').count() >= 4 {
        return Some((Format::NginxCombined, "`ADDRESS - USER [TIME] \"REQUEST\" STATUS BYTES`"));
    }
    None
}
