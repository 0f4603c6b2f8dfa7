//! AWS Bedrock: model invocation logs, as in its S3 objects and in `CloudWatch`.
//!
//! Times have whole seconds. The input count of Anthropic models leaves cached tokens out: they are
//! added (`anthropic_cached_added`); for other models the total of the answer's usage decides.
//! Durations stand only in the answer: `metrics.latencyMs`, or the invocation metrics of a stream's
//! last chunk (milliseconds). A body may be a string, a list of chunks, or kept apart in S3; the
//! objects kept apart are left out (`side_object`). Model ARNs are cut to the model's name.
//! Source: docs.aws.amazon.com, model-invocation-logging; records in aws-samples repositories.

use super::parts::{add_cached, array, count, session};
use super::{At, Draft, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{Operation, RequestRecord, Status, TokenSource, TtftSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use std::borrow::Cow;

wire! { Record {
    schema = "schemaType",
    time = "timestamp",
    id = "requestId",
    operation = "operation",
    model = "modelId",
    error = "errorCode",
    account = "accountId",
    arn = "identity.arn",
    metadata = "requestMetadata",
    request = "input.inputBodyJson",
    input = "input.inputTokenCount",
    read = "input.cacheReadInputTokenCount",
    write = "input.cacheWriteInputTokenCount",
    response = "output.outputBodyJson",
    output = "output.outputTokenCount",
} }

wire! { Metadata {
    session = "session_id" | "sessionId" | "session" | "conversation_id" | "conversationId",
    user = "user_id" | "userId" | "user",
} }

wire! { Asked {
    messages = "messages",
    prompt = "prompt" | "inputText",
    limit = "inferenceConfig.maxTokens" | "max_tokens" | "max_tokens_to_sample" | "textGenerationConfig.maxTokenCount" | "max_gen_len",
    temperature = "inferenceConfig.temperature" | "temperature" | "textGenerationConfig.temperature",
    top_p = "inferenceConfig.topP" | "top_p" | "textGenerationConfig.topP",
    tools = "toolConfig.tools",
} }

wire! { Answer {
    latency = "metrics.latencyMs" | "metadata.metrics.latencyMs" | "amazon-bedrock-invocationMetrics.invocationLatency",
    first = "amazon-bedrock-invocationMetrics.firstByteLatency",
    total = "usage.totalTokens" | "metadata.usage.totalTokens",
    stop = "stopReason" | "messageStop.stopReason",
} }

struct Bedrock {
    record: Picker,
    metadata: Picker,
    asked: Picker,
    answer: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter = Bedrock {
        record: Record::picker(),
        metadata: Metadata::picker(),
        asked: Asked::picker(),
        answer: Answer::picker(),
    };
    Ok((Box::new(adapter), Vec::new()))
}

impl ObjectAdapter for Bedrock {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let record = Record::read(&self.record, line)?;
        let name = model_name(record.model.text().unwrap_or_default());
        if record.schema.is_nothing() {
            out.drop("side_object");
            return Ok(());
        }
        if ["image", "canvas", "reel", "stability.", "sonic"].iter().any(|kind| name.contains(kind))
        {
            out.drop("not_llm");
            return Ok(());
        }
        let Some(time) = shared.time(&record.time, "timestamp", Naive::Utc)? else {
            out.drop("no_time");
            return Ok(());
        };
        let format = shared.name(Format::BedrockInvocation.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, time);
        let request = record.request.json().unwrap_or_default();
        let response = record.response.json().unwrap_or_default();
        let asked = Asked::read(&self.asked, &request).unwrap_or_default();
        let answer = self.answer(&response);
        self.fill_names(&record, &asked, &mut row, shared);
        fill_times(&answer, &mut row)?;
        fill_status(&record, &mut row, shared);
        fill_tokens(&record, answer.total, name, &mut row)?;
        row.finish_reasons =
            shared.finish_reason(&Loose::cell(answer.stop.as_deref())).into_iter().collect();
        let mut draft = Draft::from(row);
        if !request.is_empty() {
            content::fill_request(&request, &mut draft, shared);
        }
        if !response.is_empty() {
            content::fill_response(&as_events(&response), &mut draft, shared);
        }
        fill_limits(&asked, &mut draft.row);
        out.keep(draft);
        Ok(())
    }
}

/// What an answer says beside its text.
#[derive(Debug, Default)]
struct Said {
    latency_ms: Option<f64>,
    first_ms: Option<f64>,
    total: Option<u32>,
    stop: Option<String>,
}

impl Bedrock {
    /// Reads an answer, or the chunks of one: of several values the last counts.
    fn answer(&self, response: &str) -> Said {
        let mut said = Said::default();
        let chunks = if response.starts_with('[') { array(response) } else { Vec::new() };
        let chunks = chunks.into_iter().map(serde_json::value::RawValue::get);
        for text in chunks.chain([response]) {
            let Ok(answer) = Answer::read(&self.answer, text) else { continue };
            said.latency_ms = answer.latency.float().or(said.latency_ms);
            said.first_ms = answer.first.float().or(said.first_ms);
            said.total = count(&answer.total).or(said.total);
            said.stop = answer.stop.text().map(str::to_owned).or(said.stop);
        }
        said
    }

    fn fill_names(
        &self,
        record: &Record<'_>,
        asked: &Asked<'_>,
        row: &mut RequestRecord,
        shared: &mut Shared,
    ) {
        let name = model_name(record.model.text().unwrap_or_default());
        row.request_model = shared.model(&Loose::Text(Cow::Borrowed(name)));
        row.response_model.clone_from(&row.request_model);
        row.provider_name = Some(shared.name("aws.bedrock"));
        row.request_id_hash = shared.hash(Column::Request, &record.id);
        row.key_hash = shared.hash(Column::Key, &record.arn);
        row.tenant_hash = shared.hash(Column::Tenant, &record.account);
        let metadata = record.metadata.json().unwrap_or_default();
        let metadata = Metadata::read(&self.metadata, &metadata).unwrap_or_default();
        session(row, shared.hash(Column::Session, &metadata.session));
        row.user_hash = shared.hash(Column::User, &metadata.user);
        let operation = record.operation.text().unwrap_or_default();
        row.stream = match operation {
            "ConverseStream" | "InvokeModelWithResponseStream" => Some(true),
            "Converse" | "InvokeModel" => Some(false),
            _ => None,
        };
        row.operation = if name.contains("embed") {
            Operation::Embeddings
        } else if name.contains("rerank") {
            Operation::Rerank
        } else if operation.starts_with("Converse") || !asked.messages.is_nothing() {
            Operation::Chat
        } else if !asked.prompt.is_nothing() {
            Operation::TextCompletion
        } else {
            Operation::Unknown
        };
    }
}

fn fill_times(said: &Said, row: &mut RequestRecord) -> Result<(), FieldError> {
    let micros = |value: Option<f64>, field| match value {
        Some(value) => fill::span_us(&Loose::Float(value), field, fill::MILLIS),
        None => Ok(None),
    };
    if let Some(duration) = micros(said.latency_ms, "latencyMs")? {
        fill::duration(row, duration);
    }
    fill::ttft(row, micros(said.first_ms, "firstByteLatency")?, TtftSource::Logged);
    Ok(())
}

fn fill_status(record: &Record<'_>, row: &mut RequestRecord, shared: &mut Shared) {
    row.error_type = shared.error_type(&record.error);
    row.status = match record.error.text() {
        Some(code) if code.contains("Throttling") || code.contains("TooManyRequests") => {
            Status::RateLimited
        }
        Some(code) if code.contains("Timeout") => Status::Timeout,
        Some(_) => Status::Error,
        None if record.output.is_nothing() && record.response.is_nothing() => Status::Unknown,
        None => Status::Ok,
    };
}

fn fill_tokens(
    record: &Record<'_>,
    total: Option<u32>,
    name: &str,
    row: &mut RequestRecord,
) -> Result<(), FieldError> {
    let input = record.input.count("inputTokenCount")?;
    let output = record.output.count("outputTokenCount")?;
    fill::tokens(row, (input, output, None), TokenSource::Provider, fill::Zeros::Unknown);
    row.cache_read_input_tokens = record.read.count("cacheReadInputTokenCount")?;
    row.cache_write_input_tokens = record.write.count("cacheWriteInputTokenCount")?;
    let cached = [row.cache_read_input_tokens, row.cache_write_input_tokens];
    let cached: u64 = cached.into_iter().flatten().map(u64::from).sum();
    let wide = |count: Option<u32>| u64::from(count.unwrap_or(0));
    let apart = total
        .is_some_and(|total| cached > 0 && u64::from(total) == wide(input) + wide(output) + cached);
    if name.contains("anthropic") || name.contains("claude") || apart {
        add_cached(row);
    }
    row.drop_impossible_parts();
    Ok(())
}

fn fill_limits(asked: &Asked<'_>, row: &mut RequestRecord) {
    row.max_tokens = row.max_tokens.or_else(|| count(&asked.limit));
    row.temperature = row.temperature.or_else(|| asked.temperature.float());
    row.top_p = row.top_p.or_else(|| asked.top_p.float());
    row.tool_definition_count = row.tool_definition_count.or_else(|| asked.tools.elements());
}

/// Returns the name of a model out of its id or ARN; empty where an ARN names a resource of the
/// account and no model.
fn model_name(id: &str) -> &str {
    if !id.starts_with("arn:") {
        return id;
    }
    match id.rsplit_once('/') {
        Some((kind, name))
            if kind.ends_with(":foundation-model") || kind.ends_with(":inference-profile") =>
        {
            name
        }
        _ => "",
    }
}

/// Returns a list of chunks as server-sent events; any other body as it is.
fn as_events(response: &str) -> Cow<'_, str> {
    if !response.starts_with('[') {
        return Cow::Borrowed(response);
    }
    let event = |chunk: &serde_json::value::RawValue| {
        format!("data: {}\n\n", chunk.get().replace(['\n', '\r'], " "))
    };
    Cow::Owned(array(response).into_iter().map(event).collect())
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use crate::domain::record::Flag;

    const FORMAT: Format = Format::BedrockInvocation;

    fn record(rest: &str) -> String {
        format!(
            "{{\"schemaType\":\"ModelInvocationLog\",\"timestamp\":\"2026-11-24T09:15:02Z\",{rest}}}"
        )
    }

    #[test]
    fn cached_tokens_of_anthropic_models_are_added() {
        let line = record(
            r#""operation":"Converse","modelId":"eu.anthropic.claude-test-v1:0","accountId":"000000000007",
            "input":{"inputTokenCount":296,"cacheReadInputTokenCount":1024,"cacheWriteInputTokenCount":0,
            "inputBodyJson":"{\"messages\":[],\"inferenceConfig\":{\"maxTokens\":64,\"topP\":0.5}}"},
            "output":{"outputTokenCount":160,"outputBodyJson":"{\"stopReason\":\"max_tokens\",\"metrics\":{\"latencyMs\":3500}}"},
            "requestMetadata":{"session":"canary-s","note":"canary"}"#,
        );
        let row = trial::draft(FORMAT, &line).row;
        assert_eq!(row.arrival_time, Some(trial::ARRIVAL.plus_micros(-123_000)));
        assert_eq!(row.arrival_resolution_us, 1_000_000);
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1_320), Some(160)));
        assert_eq!(row.cache_read_input_tokens, Some(1_024));
        assert_eq!(row.flags, [Flag::AnthropicCachedAdded]);
        assert_eq!((row.duration_us, row.stream), (Some(3_500_000), Some(false)));
        assert_eq!((row.max_tokens, row.top_p), (Some(64), Some(0.5)));
        assert_eq!(row.finish_reasons, ["max_tokens".into()]);
        assert!(row.session_id_hash.is_some() && row.tenant_hash.is_some());
    }

    #[test]
    fn other_models_are_judged_by_their_total() {
        let of = |total: u32| {
            let line = record(&format!(
                r#""modelId":"amazon.nova-test-v1:0","input":{{"inputTokenCount":300,"cacheReadInputTokenCount":100}},
                "output":{{"outputTokenCount":10,"outputBodyJson":{{"usage":{{"totalTokens":{total}}}}}}}"#
            ));
            trial::draft(FORMAT, &line).row.input_tokens
        };
        assert_eq!(of(410), Some(400));
        assert_eq!(of(310), Some(300));
    }

    #[test]
    fn a_stream_has_its_latencies_in_the_last_chunk() {
        let line = record(
            r#""operation":"InvokeModelWithResponseStream","modelId":"anthropic.claude-test-v1:0",
            "input":{"inputTokenCount":9},"output":{"outputTokenCount":4,"outputBodyJson":[{"type":"message_start"},
            {"type":"message_stop","amazon-bedrock-invocationMetrics":{"invocationLatency":3500,"firstByteLatency":418}}]}"#,
        );
        let row = trial::draft(FORMAT, &line).row;
        assert_eq!((row.duration_us, row.time_to_first_chunk_us), (Some(3_500_000), Some(418_000)));
        assert_eq!((row.stream, row.status), (Some(true), Status::Ok));
        assert_eq!(as_events("[{\"a\":1},{\"b\":\n2}]"), "data: {\"a\":1}\n\ndata: {\"b\": 2}\n\n");
    }

    #[test]
    fn arns_give_names_of_models_only() {
        let arn = "arn:aws:bedrock:eu-central-1:000000000007:";
        for (id, name) in [
            ("anthropic.claude-x-v1:0", "anthropic.claude-x-v1:0"),
            ("inference-profile/eu.anthropic.claude-x-v1:0", "eu.anthropic.claude-x-v1:0"),
            ("foundation-model/amazon.titan-x", "amazon.titan-x"),
            ("application-inference-profile/canary", ""),
            ("provisioned-model/canary", ""),
        ] {
            let id = if id.contains('/') { format!("{arn}{id}") } else { id.to_owned() };
            assert_eq!(model_name(&id), name);
        }
    }

    #[test]
    fn errors_side_objects_and_images() {
        let line = record(r#""modelId":"m-1","errorCode":"ThrottlingException","input":{}"#);
        let row = trial::draft(FORMAT, &line).row;
        assert_eq!((row.status, row.input_tokens), (Status::RateLimited, None));
        assert_eq!(row.error_type.as_deref(), Some("ThrottlingException"));
        let image = record("\"modelId\":\"amazon.nova-canvas-v1:0\"");
        let tried = trial::lines(FORMAT, &["{\"messages\":[]}", &image, "{\"schemaType\":\"x\"}"]);
        assert_eq!(tried.drops, ["side_object", "not_llm", "no_time"]);
        let wrong = record(r#""input":{"inputTokenCount":"canary"}"#);
        let tried = trial::lines(FORMAT, &[&wrong]);
        assert_eq!(tried.rejects[0].field, "inputTokenCount");
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("bedrock-invocation.jsonl") else { return };
        let [first, stream, apart, error] = &tried.drafts[..] else { panic!("four rows") };
        assert_eq!(first.row.input_tokens, Some(1_320));
        assert_eq!(first.row.request_model.as_deref(), Some("eu.anthropic.claude-invented-v1:0"));
        assert_eq!(stream.row.time_to_first_chunk_us, Some(402_000));
        assert_eq!((apart.row.input_tokens, apart.row.duration_us), (Some(41_200), None));
        assert_eq!(error.row.status, Status::RateLimited);
    }
}
