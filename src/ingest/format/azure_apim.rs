//! Azure API Management: its LLM log and its gateway log.
//!
//! Keys come in any case, on the record or in `properties` (an object or a string). Long messages
//! are split over rows of one correlation id: the row 0 has the counts, the others are parts of it
//! (`split_rows_merged`). 0 tokens, as of streams without usage, are unknown. The gateway log has
//! times, status and bodies; counts come from the backend's answer. Records of both logs with one
//! correlation id are parts of one call: the gateway's for times and status, row 0 for counts.
//! Source: learn.microsoft.com, tables `ApiManagementGatewayLlmLog` and `ApiManagementGatewayLogs`.

use super::parts::{array, bytes, count, family_of, flag, path_of};
use super::{
    Adapter, At, Draft, Format, Hints, Input, Join, Made, Naive, Out, Refusal, Role, Shared, fill,
};
use crate::domain::record::{CacheStatus, Flag, RequestRecord, Status, TokenSource};
use crate::ingest::content;
use crate::ingest::error::IngestError;
use crate::ingest::loose::{FieldError, Loose, json_refusal};
use crate::ingest::pick::{Picker, wire};
use crate::ingest::privacy::Column;
use crate::ingest::sample::Sample;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;

/// Rank of the gateway's record among the parts of a call.
const GATEWAY: u8 = 255;

wire! { Answer {
    input = "usage.prompt_tokens",
    output = "usage.completion_tokens",
    total = "usage.total_tokens",
    cached = "usage.prompt_tokens_details.cached_tokens",
    reasoning = "usage.completion_tokens_details.reasoning_tokens",
} }

struct Llm;

struct Gateway {
    answer: Picker,
}

/// Makes the adapter for one file.
///
/// # Errors
///
/// Never.
pub fn make(format: Format, _: &Sample, _: &Hints) -> Result<Made, IngestError> {
    let adapter: Box<dyn Adapter> = match format {
        Format::AzureApimLlm => Box::new(Llm),
        _ => Box::new(Gateway { answer: Answer::picker() }),
    };
    Ok((adapter, Vec::new()))
}

/// The fields of an object, by names in any case.
#[derive(Default)]
struct Fields<'a>(Vec<(Cow<'a, str>, Loose<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, value)) = map.next_entry::<std::borrow::Cow<'de, str>, Loose<'de>>()? {
            fields.push((key, value));
        }
        Ok(Fields(fields))
    }
}

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Result<Self, FieldError> {
        serde_json::from_str(text).map_err(|error| json_refusal(&error))
    }

    fn get(&self, name: &str) -> Option<&Loose<'a>> {
        let found = self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value).filter(|value| !value.is_nothing())
    }
}

/// A record and its `properties`.
struct Record<'a> {
    outer: Fields<'a>,
    inner: Fields<'a>,
}

impl<'a> Record<'a> {
    /// Returns the first of some names that has a value; properties come first, since the record
    /// itself repeats some names with other meanings.
    fn get(&self, names: &[&str]) -> Loose<'a> {
        let found = names.iter().find_map(|name| self.inner.get(name).or(self.outer.get(name)));
        found.cloned().unwrap_or_default()
    }

    /// Starts the row of the record: its time, ids and join; `None` when it has no time.
    fn start(
        &self,
        (format, at): (Format, At),
        rank: u8,
        shared: &mut Shared,
    ) -> Result<Option<Draft>, FieldError> {
        let time = self.get(&["TimeGenerated", "time", "timestamp", "TimeGenerated [UTC]"]);
        let Some(time) = shared.time(&time, "time", Naive::Utc)? else { return Ok(None) };
        let format = shared.name(format.as_str());
        let mut row = RequestRecord::unknown(format, at.file_id, at.line);
        fill::arrival(&mut row, time);
        row.provider_name = Some(shared.name("azure.ai.openai"));
        row.request_id_hash = shared.hash(Column::Request, &self.get(&["CorrelationId"]));
        let join = row.request_id_hash.map(|key| Join { key, role: Role::Part(rank) });
        Ok(Some(Draft { row: Box::new(row), join, chain: None }))
    }
}

/// Reads a record and hands it on, with its properties opened.
fn open(
    input: Input<'_>,
    out: &mut Out,
    decode: impl FnOnce(&Record<'_>, &mut Out) -> Result<(), FieldError>,
) -> Result<(), Refusal> {
    let Input::Json(line) = input else {
        out.drop("not_llm");
        return Ok(());
    };
    let outer = Fields::read(line)?;
    let text = ["properties", "properties_s"].into_iter().find_map(|name| outer.get(name)?.json());
    let text = text.unwrap_or(Cow::Borrowed("{}"));
    let inner = Fields::read(&text).unwrap_or_default();
    Ok(decode(&Record { outer, inner }, out)?)
}

impl Adapter for Llm {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        open(input, out, |record, out| {
            let part = record.get(&["SequenceNumber"]).count("SequenceNumber")?.unwrap_or(0);
            let later = u8::try_from(part).unwrap_or(u8::MAX).min(GATEWAY - 1);
            let start = record.start((Format::AzureApimLlm, at), GATEWAY - 1 - later, shared)?;
            let Some(mut draft) = start else {
                out.drop("no_time");
                return Ok(());
            };
            fill_llm(record, part > 0, &mut draft, shared)?;
            out.keep(draft);
            Ok(())
        })
    }
}

fn fill_llm(
    record: &Record<'_>,
    is_later: bool,
    draft: &mut Draft,
    shared: &mut Shared,
) -> Result<(), FieldError> {
    let row = &mut draft.row;
    row.response_model = shared.model(&record.get(&["ModelName"]));
    row.request_model =
        shared.model(&record.get(&["DeploymentName"])).or(row.response_model.clone());
    row.response_id_hash = shared.hash(Column::Request, &record.get(&["RequestId"]));
    row.stream = record.get(&["IsStreamCompletion"]).truth();
    if is_later {
        row.flags.push(Flag::SplitRowsMerged);
        return Ok(());
    }
    let input = record.get(&["PromptTokens"]).count("PromptTokens")?;
    let output = record.get(&["CompletionTokens"]).count("CompletionTokens")?;
    let total = record.get(&["TotalTokens"]).count("TotalTokens")?;
    fill::tokens(row, (input, output, total), TokenSource::Provider, fill::Zeros::Unknown);
    // A list cut where the next row goes on is not JSON; it shows nothing here.
    if let Some(messages) = whole_array(&record.get(&["RequestMessages"])) {
        content::fill_request(&format!("{{\"messages\":{messages}}}"), draft, shared);
    }
    if let Some(messages) = whole_array(&record.get(&["ResponseMessages"])) {
        let choice = |message: &serde_json::value::RawValue| {
            format!("{{\"index\":0,\"message\":{}}}", message.get())
        };
        let choices: Vec<String> = array(&messages).into_iter().map(choice).collect();
        let body = format!("{{\"choices\":[{}]}}", choices.join(","));
        content::fill_response(&body, draft, shared);
    }
    Ok(())
}

/// Returns an array, or a string of one, that is complete.
fn whole_array<'a>(value: &Loose<'a>) -> Option<Cow<'a, str>> {
    let text = value.json().filter(|text| text.trim_start().starts_with('['))?;
    serde_json::from_str::<IgnoredAny>(&text).is_ok().then_some(text)
}

impl Adapter for Gateway {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        open(input, out, |record, out| {
            let method = record.get(&["method", "backendMethod"]);
            let urls = [record.get(&["url"]), record.get(&["backendUrl"])];
            let paths = urls.each_ref().map(|url| path_of(url.text().unwrap_or_default()));
            if fill::is_probe(method.text().unwrap_or_default(), paths[0], "") {
                out.drop("probe");
                return Ok(());
            }
            let known = paths.into_iter().find_map(fill::operation_of);
            let Some(operation) = known else {
                out.drop("not_llm");
                return Ok(());
            };
            let start = record.start((Format::AzureApimGatewaylogs, at), GATEWAY, shared)?;
            let Some(mut draft) = start else {
                out.drop("no_time");
                return Ok(());
            };
            let row = &mut draft.row;
            row.operation = operation;
            row.endpoint_family =
                paths.into_iter().find_map(family_of).map(|family| shared.name(family));
            let deployment = paths.into_iter().find_map(deployment_of);
            row.request_model = shared.model(&Loose::cell(deployment));
            fill_gateway(record, row, shared)?;
            self.fill_bodies(record, &mut draft, shared)?;
            out.keep(draft);
            Ok(())
        })
    }
}

fn fill_gateway(
    record: &Record<'_>,
    row: &mut RequestRecord,
    shared: &Shared,
) -> Result<(), FieldError> {
    let duration = record.get(&["durationMs", "TotalTime"]);
    if let Some(duration) = fill::span_us(&duration, "durationMs", fill::MILLIS)? {
        fill::duration(row, duration);
    }
    let codes = [record.get(&["responseCode"]), record.get(&["backendResponseCode"])];
    fill::http_status(row, codes.iter().find_map(|code| count(code).filter(|code| *code > 0)));
    if row.http_status_code.is_none() && record.get(&["isRequestSuccess"]).truth() == Some(false) {
        row.status = Status::Error;
    }
    row.request_bytes = bytes(&record.get(&["requestSize"]));
    row.response_bytes = bytes(&record.get(&["responseSize"]));
    row.key_hash = shared.hash(Column::Key, &record.get(&["apimSubscriptionId"]));
    row.cache_status = match record.get(&["cache"]).text() {
        Some("hit") => Some(CacheStatus::Hit),
        Some("miss") => Some(CacheStatus::Miss),
        Some("none") => Some(CacheStatus::Off),
        _ => None,
    };
    if row.cache_status == Some(CacheStatus::Hit) {
        row.flags.push(Flag::CacheHit);
    }
    Ok(())
}

impl Gateway {
    /// Reads what the bodies show. An answer of server-sent events has counts only if its last
    /// event has; one that was cut has none.
    fn fill_bodies(
        &self,
        record: &Record<'_>,
        draft: &mut Draft,
        shared: &mut Shared,
    ) -> Result<(), FieldError> {
        let request = record.get(&["backendRequestBody", "requestBody"]);
        let response = record.get(&["backendResponseBody", "responseBody"]);
        let answer = response.json().unwrap_or_default();
        let answer = Answer::read(&self.answer, &answer).unwrap_or_default();
        let counts = (
            answer.input.count("prompt_tokens")?,
            answer.output.count("completion_tokens")?,
            answer.total.count("total_tokens")?,
        );
        let row = &mut draft.row;
        fill::tokens(row, counts, TokenSource::Provider, fill::Zeros::Unknown);
        row.cache_read_input_tokens = count(&answer.cached);
        row.reasoning_output_tokens = count(&answer.reasoning);
        row.drop_impossible_parts();
        let request = request.json().or(request.text().map(|text| Cow::Owned(text.to_owned())));
        if let Some(body) = request {
            content::fill_request(&body, draft, shared);
        }
        let response = response.json().or(response.text().map(|text| Cow::Owned(text.to_owned())));
        if let Some(body) = response {
            content::fill_response(&body, draft, shared);
        }
        if record.get(&["truncated"]).truth() == Some(true) {
            flag(&mut draft.row, Flag::TruncatedBody);
        }
        Ok(())
    }
}

/// Returns the deployment that a path names.
fn deployment_of(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/deployments/")?;
    rest.split('/').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::trial;
    use super::*;
    use crate::domain::record::Operation;

    const GATEWAY_LOGS: Format = Format::AzureApimGatewaylogs;
    const LLM: Format = Format::AzureApimLlm;

    #[test]
    fn keys_come_in_any_case_and_place() {
        let flat = r#"{"TimeGenerated":"2026-11-24T09:15:02.123Z","CorrelationId":"c-7","ModelName":"gpt-4o-mini",
            "DeploymentName":"chat","IsStreamCompletion":false,"PromptTokens":1320,"CompletionTokens":160,
            "TotalTokens":1480,"SequenceNumber":0,"RequestMessages":"[{\"role\":\"user\",\"content\":\"canary\"}]"}"#;
        let nested = r#"{"time":"2026-11-24T09:15:02.123Z","correlationId":"c-7","category":"GatewayLlmLogs",
            "properties":"{\"modelName\":\"gpt-4o-mini\",\"deploymentName\":\"chat\",\"isStreamCompletion\":\"False\",\"promptTokens\":\"1320\",\"COMPLETIONTOKENS\":160,\"totalTokens\":1480,\"sequenceNumber\":0}"}"#;
        for line in [flat, nested] {
            let draft = trial::draft(LLM, line);
            let row = &draft.row;
            assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
            assert_eq!((row.input_tokens, row.output_tokens), (Some(1_320), Some(160)));
            assert_eq!((row.stream, row.flags.len()), (Some(false), 0));
            assert_eq!(row.request_model.as_deref(), Some("chat"));
            assert_eq!(draft.join.unwrap().role, Role::Part(254));
            assert!(!format!("{draft:?}").contains("canary"));
        }
    }

    #[test]
    fn later_rows_of_a_split_call_have_no_counts() {
        let line = |part: &str| {
            format!(
                r#"{{"TimeGenerated":"2026-11-24T09:15:02Z","CorrelationId":"c-7","PromptTokens":0,
                "CompletionTokens":0,"TotalTokens":0,"SequenceNumber":{part},"RequestMessages":" x\"}}]"}}"#
            )
        };
        let later = trial::draft(LLM, &line("1"));
        assert_eq!(later.row.flags, [Flag::SplitRowsMerged]);
        assert_eq!(later.join.unwrap().role, Role::Part(253));
        assert_eq!(trial::draft(LLM, &line("900")).join.unwrap().role, Role::Part(0));
        // A stream without usage: unknown, not zero.
        let first = trial::draft(LLM, &line("0")).row;
        assert_eq!((first.input_tokens, &first.flags[..]), (None, &[Flag::ZeroMeansUnknown][..]));
        let tried = trial::lines(LLM, &[&line("-1"), "{\"PromptTokens\":1}", "[]"]);
        assert_eq!((tried.rejects.len(), &tried.drops[..]), (2, &["no_time"][..]));
    }

    fn gateway(properties: &str) -> String {
        format!(
            r#"{{"time":"2026-11-24T09:15:02.123Z","category":"GatewayLogs","durationMs":3500,
            "correlationId":"c-7","isRequestSuccess":true,"properties":{{{properties}}}}}"#
        )
    }

    #[test]
    fn counts_come_from_the_body_of_the_answer() {
        let line = gateway(
            r#""method":"POST","url":"https://a.test/openai/deployments/chat/chat/completions?x=canary",
            "responseCode":200,"requestSize":10,"cache":"none","apimSubscriptionId":"canary",
            "backendResponseBody":"{\"usage\":{\"prompt_tokens\":1320,\"completion_tokens\":160,\"total_tokens\":1480,\"prompt_tokens_details\":{\"cached_tokens\":1024}}}""#,
        );
        let draft = trial::draft(GATEWAY_LOGS, &line);
        let row = &draft.row;
        assert_eq!(row.arrival_time, Some(trial::ARRIVAL));
        assert_eq!((row.duration_us, row.status), (Some(3_500_000), Status::Ok));
        assert_eq!((row.input_tokens, row.output_tokens), (Some(1_320), Some(160)));
        assert_eq!(row.cache_read_input_tokens, Some(1_024));
        assert_eq!((row.operation, row.request_bytes), (Operation::Chat, Some(10)));
        assert_eq!(row.endpoint_family.as_deref(), Some("/v1/chat/completions"));
        assert_eq!(row.request_model.as_deref(), Some("chat"));
        assert_eq!(row.cache_status, Some(CacheStatus::Off));
        assert!(!format!("{draft:?}").contains("canary"));
        // The same call in the other log is a part of it, of lower rank.
        let other =
            r#"{"TimeGenerated":"2026-11-24T09:15:02Z","CorrelationId":"c-7","PromptTokens":1}"#;
        let other = trial::draft(LLM, other).join.unwrap();
        assert_eq!(other.key, draft.join.unwrap().key);
        assert_ne!(other.role, draft.join.unwrap().role);
    }

    #[test]
    fn failures_without_bodies_and_other_apis() {
        let url = r#""method":"POST","url":"https://a.test/v1/embeddings""#;
        let row = trial::draft(
            GATEWAY_LOGS,
            &gateway(&format!("{url},\"responseCode\":0,\"backendResponseCode\":401")),
        )
        .row;
        assert_eq!((row.status, row.http_status_code), (Status::Error, Some(401)));
        assert_eq!(row.operation, Operation::Embeddings);
        let cut = gateway(&format!(
            "{url},\"responseCode\":200,\"truncated\":1,\"backendResponseBody\":\"{{\\\"usa\""
        ));
        let row = trial::draft(GATEWAY_LOGS, &cut).row;
        assert_eq!((row.input_tokens, &row.flags[..]), (None, &[Flag::TruncatedBody][..]));
        let others = [
            gateway(r#""method":"GET","url":"https://a.test/v1/models""#),
            gateway(r#""method":"POST","url":"https://a.test/orders""#),
        ];
        let tried = trial::lines(GATEWAY_LOGS, &[&others[0], &others[1]]);
        assert_eq!(tried.drops, ["probe", "not_llm"]);
    }

    #[test]
    fn the_samples_give_what_their_manifest_says() {
        let llm = trial::sample("azure-apim-llm.jsonl");
        let gateway = trial::sample("azure-apim-gatewaylogs.jsonl");
        let (Some(llm), Some(gateway)) = (llm, gateway) else { return };
        assert_eq!(llm.drafts[1].row.input_tokens, Some(21_350));
        let [first, cut, events, refused] = &gateway.drafts[..] else { panic!("four rows") };
        assert_eq!(first.row.cache_read_input_tokens, Some(1_024));
        assert!(cut.row.flags.contains(&Flag::TruncatedBody));
        assert_eq!((events.row.input_tokens, events.row.output_tokens), (None, None));
        assert_eq!(
            (refused.row.http_status_code, refused.row.duration_us),
            (Some(401), Some(40_000))
        );
    }
}
