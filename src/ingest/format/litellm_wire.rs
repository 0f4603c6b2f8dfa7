//! The parts of a `LiteLLM_SpendLogs` row that are read, picked in one pass.
//!
//! In JSONL the nested columns are objects, and what is wanted of `metadata` is picked with the
//! rest; in CSV they are texts that hold JSON. Keys, addresses and tags beside these are skipped,
//! prompts and answers are counted at most.

use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use std::borrow::Cow;

wire! {
    /// One row.
    Wire {
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
        messages = "messages",
        response = "response",
        proxy_server_request = "proxy_server_request",
        metadata = "metadata",
        meta_status = "metadata.status",
        meta_key = "metadata.user_api_key",
        meta_key_alias = "metadata.user_api_key_alias",
        meta_team = "metadata.user_api_key_team_id",
        meta_team_alias = "metadata.user_api_key_team_alias",
        meta_trace = "metadata.litellm_trace_id",
        meta_searches = "metadata.vector_store_request_metadata",
        added_cached = "metadata.additional_usage_values.prompt_tokens_details.cached_tokens",
        added_cache_read = "metadata.additional_usage_values.cache_read_input_tokens",
        added_reasoning = "metadata.additional_usage_values.completion_tokens_details.reasoning_tokens",
        usage_cached = "metadata.usage_object.prompt_tokens_details.cached_tokens",
        usage_cache_read = "metadata.usage_object.cache_read_input_tokens",
        usage_reasoning = "metadata.usage_object.completion_tokens_details.reasoning_tokens",
        error_code = "metadata.error_information.error_code",
        error_class = "metadata.error_information.error_class",
    }
}

/// Returns the row's metadata as an object of its own, when it is a text that holds JSON.
///
/// # Errors
///
/// If it is something else than an object or nothing.
pub(super) fn metadata_in_text(wire: &Wire<'_>) -> Result<Option<String>, FieldError> {
    match (&wire.metadata, wire.metadata.json()) {
        (Loose::Null, _) => Ok(None),
        (Loose::Json(raw), _) if raw.starts_with('{') => Ok(None),
        (Loose::Text(_), Some(text)) => Ok(Some(format!("{{\"metadata\":{text}}}"))),
        _ => Err(no_metadata()),
    }
}

/// Reads the metadata of a text that [`metadata_in_text`] gave.
///
/// # Errors
///
/// If it holds no object.
pub(super) fn read_metadata<'a>(picker: &Picker, text: &'a str) -> Result<Wire<'a>, FieldError> {
    let wire = Wire::read(picker, text).map_err(|_| no_metadata())?;
    match wire.metadata {
        Loose::Json(raw) if raw.starts_with('{') => Ok(wire),
        _ => Err(no_metadata()),
    }
}

fn no_metadata() -> FieldError {
    FieldError::new("metadata", "is not the JSON object that LiteLLM writes")
}

/// Returns the JSON text of a stored body; `None` where nothing is stored.
pub(super) fn body<'a>(column: &Loose<'a>) -> Option<Cow<'a, str>> {
    column.json().filter(|text| !matches!(&**text, "{}" | "[]"))
}
