//! Vertex AI: request-response logging, exported from `BigQuery` as JSON, CSV or Parquet.
//!
//! `logging_time` is the end; the arrival is the answer's `createTime`, else end minus latency.
//! Thoughts stand beside the candidates' tokens: the output is their sum; tokens of tool results
//! are input. Columns may be JSON or strings of it. A blocked answer has no candidates. A
//! retrieval or search tool in the request, or grounding in the answer, is explicit evidence of
//! RAG. Source: cloud.google.com, request-response logging; elastic/integrations, `gcp` `vertexai`.

use super::parts::{array, bytes, count, explicit_rag};
use super::{At, Draft, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{Operation, RequestRecord, Status, TokenSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use std::borrow::Cow;

wire! { Record {
    time = "logging_time",
    id = "request_id",
    model = "model" | "deployed_model_id",
    method = "api_method",
    request = "full_request",
    response = "full_response",
    metadata = "metadata",
} }

wire! { Metadata { latency = "request_latency", request = "request_size", response = "response_size" } }

wire! { Asked {
    limit = "generationConfig.maxOutputTokens" | "generation_config.max_output_tokens",
    temperature = "generationConfig.temperature" | "generation_config.temperature",
    top_p = "generationConfig.topP" | "generation_config.top_p",
    choices = "generationConfig.candidateCount" | "generation_config.candidate_count",
    tools = "tools",
} }

wire! { Tool {
    retrieval = "retrieval",
    search = "googleSearch" | "google_search" | "googleSearchRetrieval" | "google_search_retrieval" | "enterpriseWebSearch" | "enterprise_web_search",
} }

wire! { Answer {
    input = "usageMetadata.promptTokenCount" | "usage_metadata.prompt_token_count",
    candidates = "usageMetadata.candidatesTokenCount" | "usage_metadata.candidates_token_count",
    thoughts = "usageMetadata.thoughtsTokenCount" | "usage_metadata.thoughts_token_count",
    cached = "usageMetadata.cachedContentTokenCount" | "usage_metadata.cached_content_token_count",
    tools = "usageMetadata.toolUsePromptTokenCount" | "usage_metadata.tool_use_prompt_token_count",
    total = "usageMetadata.totalTokenCount" | "usage_metadata.total_token_count",
    created = "createTime" | "create_time",
    id = "responseId" | "response_id",
    model = "modelVersion" | "model_version",
    blocked = "promptFeedback.blockReason" | "prompt_feedback.block_reason",
    error = "error.code",
    list = "candidates",
} }

wire! { Candidate {
    reason = "finishReason" | "finish_reason",
    grounding = "groundingMetadata" | "grounding_metadata",
} }

struct Vertex {
    record: Picker,
    metadata: Picker,
    asked: Picker,
    tool: Picker,
    answer: Picker,
    candidate: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter = Vertex {
        record: Record::picker(),
        metadata: Metadata::picker(),
        asked: Asked::picker(),
        tool: Tool::picker(),
        answer: Answer::picker(),
        candidate: Candidate::picker(),
    };
    Ok((Box::new(adapter), Vec::new()))
}

impl ObjectAdapter for Vertex {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let record = Record::read(&self.record, line)?;
        let method = record.method.text().unwrap_or_default();
        if method.to_ascii_lowercase().contains("counttokens") {
            out.drop("not_llm");
            return Ok(());
        }
        let (request, response) = (text_of(&record.request), text_of(&record.response));
        let asked = Asked::read(&self.asked, &request).unwrap_or_default();
        let answer = Answer::read(&self.answer, last(&response)).unwrap_or_default();
        let metadata = record.metadata.json().unwrap_or_default();
        let metadata = Metadata::read(&self.metadata, &metadata).unwrap_or_default();
        let format = shared.name(Format::VertexRequestResponse.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        if !fill_times(&record, &metadata, &answer, &mut row, shared)? {
            out.drop("no_time");
            return Ok(());
        }
        fill_names(&record, &answer, &mut row, shared);
        fill_tokens(&answer, &mut row)?;
        row.request_bytes = bytes(&metadata.request);
        row.response_bytes = bytes(&metadata.response);
        let mut draft = Draft::from(row);
        if !request.is_empty() {
            content::fill_request(&request, &mut draft, shared);
        }
        if !response.is_empty() {
            content::fill_response(&response, &mut draft, shared);
        }
        fill_limits(&asked, &mut draft.row);
        self.fill_answer(&answer, &mut draft.row, shared);
        if self.retrieves(&asked) {
            explicit_rag(&mut draft.row, "vector_store_meta", shared);
        }
        out.keep(draft);
        Ok(())
    }
}

impl Vertex {
    /// Reads the ends of the candidates, and their grounding.
    fn fill_answer(&self, answer: &Answer<'_>, row: &mut RequestRecord, shared: &mut Shared) {
        let list = answer.list.json().unwrap_or_default();
        let mut reasons = Vec::new();
        for candidate in array(&list) {
            let candidate = Candidate::read(&self.candidate, candidate.get()).unwrap_or_default();
            reasons.extend(shared.finish_reason(&candidate.reason));
            if candidate.grounding.elements().is_some_and(|parts| parts > 0) {
                explicit_rag(row, "vector_store_meta", shared);
            }
        }
        reasons.extend(shared.finish_reason(&answer.blocked));
        if row.finish_reasons.is_empty() {
            row.finish_reasons = reasons;
        }
    }

    /// Returns whether a tool looks documents up on the server's side.
    fn retrieves(&self, asked: &Asked<'_>) -> bool {
        let tools = asked.tools.json().unwrap_or_default();
        array(&tools).into_iter().any(|tool| {
            let tool = Tool::read(&self.tool, tool.get()).unwrap_or_default();
            !tool.retrieval.is_nothing() || !tool.search.is_nothing()
        })
    }
}

/// Returns the JSON of a column; empty where there is none.
fn text_of<'a>(value: &Loose<'a>) -> Cow<'a, str> {
    value.json().unwrap_or_default()
}

/// Returns the last of a list of chunks, which has the counts; any other text as it is.
fn last(response: &str) -> &str {
    if !response.trim_start().starts_with('[') {
        return response;
    }
    array(response).last().map_or("", |chunk| chunk.get())
}

/// Fills the times; returns false when there is none.
fn fill_times(
    record: &Record<'_>,
    metadata: &Metadata<'_>,
    answer: &Answer<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<bool, Refusal> {
    let latency = fill::span_us(&metadata.latency, "request_latency", fill::MILLIS)?;
    if let Some(created) = shared.time(&answer.created, "createTime", Naive::Utc)? {
        fill::arrival(row, created);
        if let Some(latency) = latency {
            fill::duration(row, latency);
        }
        return Ok(true);
    }
    let Some(end) = shared.time(&record.time, "logging_time", Naive::Utc)? else {
        return Ok(false);
    };
    fill::arrival_from_end(row, end, latency);
    Ok(true)
}

fn fill_names(
    record: &Record<'_>,
    answer: &Answer<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) {
    let method = record.method.text().unwrap_or_default();
    // `publishers/google/models/NAME`; anything else in front may name a project.
    let name = record.model.text().and_then(|path| path.rsplit('/').next());
    row.request_model = shared.model(&Loose::cell(name));
    row.response_model = shared.model(&answer.model).or(row.request_model.clone());
    row.provider_name = Some(shared.name("gcp.vertex_ai"));
    row.request_id_hash = shared.hash(Column::Request, &record.id);
    row.response_id_hash = shared.hash(Column::Request, &answer.id);
    row.stream = match method {
        "" => None,
        method => Some(method.to_ascii_lowercase().contains("stream")),
    };
    row.operation = if name.is_some_and(|name| name.contains("embedding")) {
        Operation::Embeddings
    } else if method.to_ascii_lowercase().ends_with("generatecontent") {
        Operation::GenerateContent
    } else if method.to_ascii_lowercase().ends_with("rawpredict") {
        Operation::Chat
    } else {
        Operation::Unknown
    };
    fill::http_status(row, count(&answer.error));
    if row.http_status_code.is_none() {
        let answered = !answer.list.is_nothing() || !answer.input.is_nothing();
        row.status = if answered { Status::Ok } else { Status::Unknown };
    }
}

fn fill_tokens(answer: &Answer<'_>, row: &mut RequestRecord) -> Result<(), FieldError> {
    let sum = |first: Option<u32>, second: Option<u32>| match (first, second) {
        (Some(first), Some(second)) => Some(first.saturating_add(second)),
        (first, second) => first.or(second),
    };
    let thoughts = answer.thoughts.count("thoughtsTokenCount")?;
    let prompt = answer.input.count("promptTokenCount")?;
    let tools = answer.tools.count("toolUsePromptTokenCount")?.filter(|_| prompt.is_some());
    let output = sum(answer.candidates.count("candidatesTokenCount")?, thoughts);
    let counts = (sum(prompt, tools), output, answer.total.count("totalTokenCount")?);
    fill::tokens(row, counts, TokenSource::Provider, fill::Zeros::Unknown);
    row.cache_read_input_tokens = answer.cached.count("cachedContentTokenCount")?;
    row.reasoning_output_tokens = thoughts;
    row.drop_impossible_parts();
    Ok(())
}

fn fill_limits(asked: &Asked<'_>, row: &mut RequestRecord) {
    row.max_tokens = row.max_tokens.or_else(|| count(&asked.limit));
    row.temperature = row.temperature.or_else(|| asked.temperature.float());
    row.top_p = row.top_p.or_else(|| asked.top_p.float());
    row.choice_count = row.choice_count.or_else(|| count(&asked.choices));
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use crate::domain::record::{ArrivalSource, RagLabel};

    const FORMAT: Format = Format::VertexRequestResponse;

    fn record(request: &str, response: &str) -> String {
        format!(
            r#"{{"logging_time":"2026-11-24T09:15:05.623Z","request_id":"7","model":"publishers/google/models/gemini-test-1",
            "api_method":"streamGenerateContent","full_request":{request},"full_response":{response},
            "metadata":{{"request_latency":3500}}}}"#
        )
    }

    #[test]
    fn thoughts_are_output_beside_the_candidates() {
        let answer = r#"{"usageMetadata":{"promptTokenCount":1320,"candidatesTokenCount":120,
            "thoughtsTokenCount":40,"cachedContentTokenCount":1024,"totalTokenCount":1480},
            "candidates":[{"finishReason":"STOP"}],"createTime":"2026-11-24T09:15:02.123Z"}"#;
        let asked = r#"{"generationConfig":{"maxOutputTokens":512,"temperature":0.5}}"#;
        let string = |text: &str| serde_json::to_string(text).unwrap();
        for line in [record(asked, answer), record(&string(asked), &string(answer))] {
            let row = trial::draft(FORMAT, &line).row;
            assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
            assert_eq!(row.arrival_source, ArrivalSource::Logged);
            assert_eq!(row.duration_us, Some(3_500_000));
            assert_eq!((row.input_tokens, row.output_tokens), (Some(1_320), Some(160)));
            assert_eq!(row.cache_read_input_tokens, Some(1_024));
            assert_eq!(row.reasoning_output_tokens, Some(40));
            assert_eq!((row.max_tokens, row.temperature), (Some(512), Some(0.5)));
            assert_eq!(row.finish_reasons, ["stop".into()]);
            assert_eq!(row.request_model.as_deref(), Some("gemini-test-1"));
            assert_eq!((row.stream, row.flags.len()), (Some(true), 0));
        }
    }

    #[test]
    fn without_a_creation_the_end_counts() {
        let chunks = r#"[{"usageMetadata":{"promptTokenCount":1}},{"usageMetadata":{"promptTokenCount":9,
            "toolUsePromptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":14}}]"#;
        let row = trial::draft(FORMAT, &record("null", chunks)).row;
        assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
        assert_eq!(row.arrival_source, ArrivalSource::EndMinusDuration);
        assert_eq!((row.input_tokens, row.output_tokens), (Some(12), Some(2)));
        assert!(row.flags.is_empty());
    }

    #[test]
    fn evidence_of_retrieval() {
        let label = |request: &str, response: &str| {
            let row = trial::draft(FORMAT, &record(request, response)).row;
            (row.rag_label == RagLabel::Explicit, row.rag_evidence.len())
        };
        assert_eq!(
            label(r#"{"tools":[{"functionDeclarations":[]},{"googleSearch":{}}]}"#, "{}"),
            (true, 1)
        );
        assert_eq!(label(r#"{"tools":[{"retrieval":{"vertexRagStore":{}}}]}"#, "{}"), (true, 1));
        let grounded = r#"{"candidates":[{"groundingMetadata":{"webSearchQueries":["canary"]}}]}"#;
        assert_eq!(label("{}", grounded), (true, 1));
        assert!(!label(r#"{"tools":[{"functionDeclarations":[{"name":"f"}]}]}"#, "{}").0);
    }

    #[test]
    fn blocked_answers_and_missing_times() {
        let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":12,"totalTokenCount":12}}"#;
        let row = trial::draft(FORMAT, &record("{}", blocked)).row;
        assert_eq!((row.output_tokens, row.output_token_source), (None, TokenSource::Missing));
        assert_eq!((row.status, &*row.finish_reasons[0]), (Status::Ok, "safety"));
        let tried =
            trial::lines(FORMAT, &["{\"full_request\":{}}", "{\"api_method\":\"countTokens\"}"]);
        assert_eq!(tried.drops, ["no_time", "not_llm"]);
        let wrong = record("{}", r#"{"usageMetadata":{"promptTokenCount":"canary"}}"#);
        assert_eq!(trial::lines(FORMAT, &[&wrong]).rejects[0].field, "promptTokenCount");
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("vertex-request-response.jsonl") else { return };
        let [first, strings, blocked] = &tried.drafts[..] else { panic!("three rows") };
        assert_eq!(first.row.arrival_time, Some(trial::ARRIVAL));
        assert_eq!((first.row.output_tokens, first.row.duration_us), (Some(160), Some(3_500_200)));
        assert_eq!((strings.row.input_tokens, strings.row.stream), (Some(1_350), Some(false)));
        assert_eq!(blocked.row.rag_label, RagLabel::Explicit);
    }
}
