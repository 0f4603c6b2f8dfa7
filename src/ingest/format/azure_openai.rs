//! Azure OpenAI: `RequestResponse` records of its diagnostic settings, and their export from Log
//! Analytics.
//!
//! There are no tokens and no texts: lengths in bytes only. Times are ticks of 100 ns since year 1
//! in `properties`, which may be a string; `time` stands in for them. The end may be before the
//! start (`negative_duration`). Operations that ask for no text are left out (`not_llm`).
//! Source: elastic/integrations, `azure_openai`, test records; learn.microsoft.com.

use super::parts::bytes;
use super::{At, Format, Hints, Made, Naive, ObjectAdapter, Out, Refusal, Shared, fill};
use crate::domain::record::{Operation, RequestRecord};
use crate::ingest::error::IngestError;
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;

wire! { Record {
    time = "time" | "TimeGenerated" | "TimeGenerated [UTC]",
    operation = "operationName" | "OperationName",
    duration = "durationMs" | "DurationMs",
    status = "resultSignature" | "ResultSignature",
    id = "correlationId" | "CorrelationId",
    properties = "properties" | "Properties" | "properties_s",
} }

wire! { Properties {
    start = "requestTime",
    end = "responseTime",
    request = "requestLength",
    response = "responseLength",
    stream = "streamType",
    deployment = "modelDeploymentName",
    model = "modelName",
    user = "objectId",
} }

struct AzureOpenai {
    record: Picker,
    properties: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(_: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter = AzureOpenai { record: Record::picker(), properties: Properties::picker() };
    Ok((Box::new(adapter), Vec::new()))
}

impl ObjectAdapter for AzureOpenai {
    fn decode_object(
        &self,
        line: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let record = Record::read(&self.record, line)?;
        let Some(operation) = operation(record.operation.text().unwrap_or_default()) else {
            out.drop("not_llm");
            return Ok(());
        };
        let text = record.properties.json().unwrap_or_default();
        let properties = Properties::read(&self.properties, &text).unwrap_or_default();
        let format = shared.name(Format::AzureOpenaiRequestResponse.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        row.operation = operation;
        if !fill_times(&record, &properties, &mut row, shared)? {
            out.drop("no_time");
            return Ok(());
        }
        fill::http_status(&mut row, record.status.count("").ok().flatten());
        row.request_bytes = bytes(&properties.request);
        row.response_bytes = bytes(&properties.response);
        row.stream = match properties.stream.text() {
            Some("Streaming") => Some(true),
            Some("Non-Streaming") => Some(false),
            _ => None,
        };
        row.response_model = shared.model(&properties.model);
        row.request_model = shared.model(&properties.deployment).or(row.response_model.clone());
        row.provider_name = Some(shared.name("azure.ai.openai"));
        row.request_id_hash = shared.hash(Column::Request, &record.id);
        row.user_hash = shared.hash(Column::User, &properties.user);
        out.keep(row);
        Ok(())
    }
}

/// Fills the times; returns false when there is none.
fn fill_times(
    record: &Record<'_>,
    properties: &Properties<'_>,
    row: &mut RequestRecord,
    shared: &mut Shared,
) -> Result<bool, Refusal> {
    let start = match shared.time(&properties.start, "requestTime", Naive::Utc)? {
        Some(start) => Some(start),
        None => shared.time(&record.time, "time", Naive::Utc)?,
    };
    let Some(start) = start else { return Ok(false) };
    fill::arrival(row, start);
    let end = shared.time(&properties.end, "responseTime", Naive::Utc)?;
    match end.filter(|_| !properties.start.is_nothing()) {
        Some(end) => fill::end(row, end),
        None => {
            if let Some(duration) = fill::span_us(&record.duration, "durationMs", fill::MILLIS)? {
                fill::duration(row, duration);
            }
        }
    }
    Ok(true)
}

/// Returns what an operation asks for; `None` when it asks for no text.
fn operation(name: &str) -> Option<Operation> {
    let name = name.to_ascii_lowercase();
    let has = |part: &str| name.contains(part);
    if ["list", "get", "delete", "cancel", "input"].iter().any(|verb| name.starts_with(verb)) {
        None
    } else if has("chatcompletion") || has("response") || has("messages_create") {
        Some(Operation::Chat)
    } else if has("completion") {
        Some(Operation::TextCompletion)
    } else if has("embedding") {
        Some(Operation::Embeddings)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use crate::domain::record::{Flag, Status, TokenSource};

    const FORMAT: Format = Format::AzureOpenaiRequestResponse;

    #[test]
    fn ticks_count_and_properties_may_be_a_string() {
        let inner = r#"{"requestTime":639311085021230000,"responseTime":639311085056230000,
            "requestLength":6120,"responseLength":0,"objectId":"canary","streamType":"Streaming",
            "modelDeploymentName":"chat","modelName":"gpt-4o-mini"}"#;
        for properties in [inner.to_owned(), serde_json::to_string(inner).unwrap()] {
            let line = format!(
                r#"{{"category":"RequestResponse","operationName":"ChatCompletions_Create",
                "durationMs":1,"resultSignature":"200","time":"2026-11-24T09:15:09Z","properties":{properties}}}"#
            );
            let row = trial::draft(FORMAT, &line).row;
            assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
            assert_eq!(row.duration_us, Some(3_500_000));
            assert_eq!((row.status, row.stream), (Status::Ok, Some(true)));
            assert_eq!((row.request_bytes, row.response_bytes), (Some(6_120), None));
            assert_eq!((row.input_tokens, row.input_token_source), (None, TokenSource::Missing));
            assert_eq!(row.request_model.as_deref(), Some("chat"));
        }
    }

    #[test]
    fn the_export_of_log_analytics_has_other_names() {
        let line = r#"{"Category":"RequestResponse","OperationName":"Embeddings_Create","DurationMs":"3500",
            "ResultSignature":"429","TimeGenerated":"2026-11-24T09:15:02.123Z","properties_s":"{}"}"#;
        let row = trial::draft(FORMAT, line).row;
        assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
        assert_eq!((row.duration_us, row.status), (Some(3_500_000), Status::RateLimited));
        assert_eq!(row.operation, Operation::Embeddings);
    }

    #[test]
    fn operations_that_ask_for_no_text() {
        for name in ["ListModels", "Assistants_Create", "GetResponse", "Threads_Create", ""] {
            assert_eq!(operation(name), None, "{name}");
        }
        assert_eq!(operation("ExtensionsChatCompletions_Create"), Some(Operation::Chat));
        assert_eq!(operation("Completions_Create"), Some(Operation::TextCompletion));
        let line =
            r#"{"operationName":"Completions_Create","properties":{"requestTime":"canary"}}"#;
        let tried = trial::lines(FORMAT, &["{\"operationName\":\"Completions_Create\"}", line]);
        assert_eq!(tried.drops, ["no_time"]);
        assert_eq!(tried.rejects[0].field, "requestTime");
    }

    #[test]
    fn the_sample_gives_what_its_manifest_says() {
        let Some(tried) = trial::sample("azure-openai-requestresponse.jsonl") else { return };
        let [first, string, negative] = &tried.drafts[..] else { panic!("three rows") };
        assert_eq!(first.row.duration_us, Some(3_500_000));
        assert_eq!(string.row.request_bytes, Some(7_000));
        assert_eq!((negative.row.duration_us, negative.row.status), (None, Status::RateLimited));
        assert_eq!(negative.row.flags, [Flag::NegativeDuration]);
    }
}
