//! The parts of a `LiteLLM_SpendLogs` row that are read, as they stand in JSONL and CSV.
//!
//! Nested columns are JSON in JSONL and strings of JSON in CSV; both become borrowed JSON text,
//! parsed only as far as these structs go. A side field of another form is a missing one. Prompts, answers, keys and addresses are skipped.

use crate::ingest::loose::{Elements, Loose, lenient, nested};
use crate::ingest::rows::{Header, Row};
use serde::Deserialize;
use std::borrow::Cow;

/// One row.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) request_id: Loose<'a>,
    #[serde(borrow)]
    pub(super) call_type: Loose<'a>,
    #[serde(borrow)]
    pub(super) api_key: Loose<'a>,
    #[serde(borrow)]
    pub(super) spend: Loose<'a>,
    #[serde(borrow)]
    pub(super) total_tokens: Loose<'a>,
    #[serde(borrow)]
    pub(super) prompt_tokens: Loose<'a>,
    #[serde(borrow)]
    pub(super) completion_tokens: Loose<'a>,
    #[serde(borrow, rename = "startTime")]
    pub(super) start_time: Loose<'a>,
    #[serde(borrow, rename = "endTime")]
    pub(super) end_time: Loose<'a>,
    #[serde(borrow)]
    pub(super) request_duration_ms: Loose<'a>,
    #[serde(borrow, rename = "completionStartTime")]
    pub(super) completion_start_time: Loose<'a>,
    #[serde(borrow)]
    pub(super) model: Loose<'a>,
    #[serde(borrow)]
    pub(super) model_group: Loose<'a>,
    #[serde(borrow)]
    pub(super) custom_llm_provider: Loose<'a>,
    #[serde(borrow)]
    pub(super) user: Loose<'a>,
    #[serde(borrow)]
    pub(super) end_user: Loose<'a>,
    #[serde(borrow)]
    pub(super) team_id: Loose<'a>,
    #[serde(borrow)]
    pub(super) organization_id: Loose<'a>,
    #[serde(borrow)]
    pub(super) session_id: Loose<'a>,
    #[serde(borrow)]
    pub(super) status: Loose<'a>,
    #[serde(borrow)]
    pub(super) cache_hit: Loose<'a>,
    #[serde(borrow)]
    pub(super) cache_key: Loose<'a>,
    #[serde(borrow, deserialize_with = "nested")]
    pub(super) metadata: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "nested")]
    pub(super) messages: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "nested")]
    pub(super) response: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "nested")]
    pub(super) proxy_server_request: Option<Cow<'a, str>>,
}

impl<'a> Wire<'a> {
    /// Reads a row of CSV.
    pub(super) fn of_row(row: Row<'a>, places: &Places) -> Self {
        let cell = |column: &Option<usize>| Loose::cell(row.cell(*column));
        let json = |column: &Option<usize>| row.cell(*column).map(Cow::Borrowed);
        Self {
            request_id: cell(&places.request_id),
            call_type: cell(&places.call_type),
            api_key: cell(&places.api_key),
            spend: cell(&places.spend),
            total_tokens: cell(&places.total_tokens),
            prompt_tokens: cell(&places.prompt_tokens),
            completion_tokens: cell(&places.completion_tokens),
            start_time: cell(&places.start_time),
            end_time: cell(&places.end_time),
            request_duration_ms: cell(&places.request_duration_ms),
            completion_start_time: cell(&places.completion_start_time),
            model: cell(&places.model),
            model_group: cell(&places.model_group),
            custom_llm_provider: cell(&places.custom_llm_provider),
            user: cell(&places.user),
            end_user: cell(&places.end_user),
            team_id: cell(&places.team_id),
            organization_id: cell(&places.organization_id),
            session_id: cell(&places.session_id),
            status: cell(&places.status),
            cache_hit: cell(&places.cache_hit),
            cache_key: cell(&places.cache_key),
            metadata: json(&places.metadata),
            messages: json(&places.messages),
            response: json(&places.response),
            proxy_server_request: json(&places.proxy_server_request),
        }
    }
}

/// Declares the places of the columns, one field per column.
macro_rules! places {
    ($($field:ident = $column:literal),+ $(,)?) => {
        /// The places of the columns in a CSV file; `None` for missing ones.
        #[derive(Debug, Default)]
        pub(super) struct Places { $(pub(super) $field: Option<usize>),+ }

        impl Places {
            /// Looks the columns up in a header.
            pub(super) fn of(header: &Header) -> Self {
                Self { $($field: header.place($column)),+ }
            }
        }
    };
}

places! {
    request_id = "request_id",
    call_type = "call_type",
    api_key = "api_key",
    spend = "spend",
    total_tokens = "total_tokens",
    prompt_tokens = "prompt_tokens",
    completion_tokens = "completion_tokens",
    start_time = "startTime",
    end_time = "endTime",
    request_duration_ms = "request_duration_ms",
    completion_start_time = "completionStartTime",
    model = "model",
    model_group = "model_group",
    custom_llm_provider = "custom_llm_provider",
    user = "user",
    end_user = "end_user",
    team_id = "team_id",
    organization_id = "organization_id",
    session_id = "session_id",
    status = "status",
    cache_hit = "cache_hit",
    cache_key = "cache_key",
    metadata = "metadata",
    messages = "messages",
    response = "response",
    proxy_server_request = "proxy_server_request",
}

/// The column `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    pub(super) status: Loose<'a>,
    #[serde(borrow)]
    pub(super) user_api_key: Loose<'a>,
    #[serde(borrow)]
    pub(super) user_api_key_alias: Loose<'a>,
    #[serde(borrow)]
    pub(super) user_api_key_team_id: Loose<'a>,
    #[serde(borrow)]
    pub(super) user_api_key_team_alias: Loose<'a>,
    #[serde(borrow)]
    pub(super) litellm_trace_id: Loose<'a>,
    #[serde(rename = "vector_store_request_metadata")]
    pub(super) searches: Elements,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) additional_usage_values: Option<Usage<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) usage_object: Option<Usage<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) error_information: Option<ErrorInformation<'a>>,
}

/// Token counts beside the main ones.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage<'a> {
    #[serde(borrow)]
    pub(super) cache_read_input_tokens: Loose<'a>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) prompt_tokens_details: Option<PromptDetails<'a>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) completion_tokens_details: Option<CompletionDetails<'a>>,
}

/// Parts of the input tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails<'a> {
    #[serde(borrow)]
    pub(super) cached_tokens: Loose<'a>,
}

/// Parts of the output tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompletionDetails<'a> {
    #[serde(borrow)]
    pub(super) reasoning_tokens: Loose<'a>,
}

/// What went wrong; the message is not read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorInformation<'a> {
    #[serde(borrow)]
    pub(super) error_code: Loose<'a>,
    #[serde(borrow)]
    pub(super) error_class: Loose<'a>,
}

/// The column `response`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    pub(super) output: Elements,
    pub(super) content: Elements,
}

/// One choice of a response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub(super) finish_reason: Loose<'a>,
    #[serde(deserialize_with = "lenient")]
    pub(super) message: Option<Message>,
}

/// The answer's message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) tool_calls: Elements,
}

/// The column `proxy_server_request`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    pub(super) stream: Loose<'a>,
    #[serde(borrow)]
    pub(super) max_tokens: Loose<'a>,
    #[serde(borrow)]
    pub(super) max_completion_tokens: Loose<'a>,
    #[serde(borrow)]
    pub(super) max_output_tokens: Loose<'a>,
    #[serde(borrow)]
    pub(super) temperature: Loose<'a>,
    #[serde(borrow)]
    pub(super) top_p: Loose<'a>,
    pub(super) messages: Elements,
    pub(super) input: Elements,
    pub(super) prompt: Elements,
    pub(super) tools: Elements,
}
