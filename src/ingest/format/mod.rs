//! One adapter per family of logs, all of one shape: a record in, a `RequestRecord`, a reason to
//! leave it out, or a refusal that names the field.
//!
//! An adapter is made from a sample of its file, where units and zones are decided once. It keeps
//! no text of a record but names of models, providers and classes of errors, and these only in
//! forms that `names` knows. It knows neither files nor
//! order; sessions and attempts are put together later.

mod access;
pub mod aiperf;
pub mod apisix;
pub mod azure_apim;
pub mod azure_llm;
pub mod azure_lmm;
pub mod azure_openai;
pub mod bedrock;
mod bodies;
pub mod burstgpt;
pub mod chain;
pub mod cloudflare;
#[cfg(test)]
mod decoded;
pub mod dynamo;
pub mod envoy_ai;
pub mod fill;
pub mod generic;
pub mod helicone;
pub mod higress;
pub mod inference_perf;
pub mod kong;
pub mod langfuse;
pub mod langsmith;
pub mod length_trace;
pub mod litellm_spendlogs;
pub mod litellm_standard;
pub mod litellm_wire;
mod names;
pub mod new_api;
pub mod nginx;
pub mod ollama;
pub mod one_api;
pub mod openai_batch;
pub mod openrouter;
pub mod otlp;
mod parts;
pub mod portkey;
pub mod qwen_bailian;
pub mod raw_capture;
pub mod sglang;
pub mod sharegpt;
mod span_fields;
mod span_messages;
mod text;
pub mod tgi;
pub mod tracewright_run;
#[cfg(test)]
mod trial;
#[cfg(test)]
mod tried;
pub mod vertex;
pub mod vidur;
pub mod vllm_custom;
pub mod vllm_text;
pub mod weka;

use super::error::IngestError;
use super::loose::{FieldError, Loose, json_refusal};
use super::privacy::{Column, Hasher, Repeated};
use super::rows::{Header, Row};
use super::sample::Sample;
use super::stamp::{self, Stamp, Unit};
use crate::domain::record::{Hash128, RequestRecord};
use crate::domain::trace::Decision;
use crate::domain::word::word_enum;
use chain::Chain;
use jiff::tz::TimeZone;
use names::{Judged, Rule};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

word_enum! {
    /// A family of logs.
    pub enum Format {
        /// The `LiteLLM_SpendLogs` table.
        LitellmSpendlogs = "litellm-spendlogs",
        /// LiteLLM's logging payload, as in its S3 and GCS logs.
        LitellmStandardLogging = "litellm-standard-logging",
        /// The table `logs` of one-api.
        OneApiLogs = "one-api-logs",
        /// The table `logs` of new-api.
        NewApiLogs = "new-api-logs",
        /// Access logs of Envoy AI Gateway.
        EnvoyAiGateway = "envoy-ai-gateway",
        /// Logs of Kong's ai-proxy.
        KongAi = "kong-ai",
        /// Entries of APISIX's logger plugins.
        ApisixLogger = "apisix-logger",
        /// Access logs of APISIX with its AI fields.
        ApisixAccess = "apisix-access",
        /// Access logs of Higress with ai-statistics.
        HigressAiStatistics = "higress-ai-statistics",
        /// Log exports of Portkey.
        PortkeyExport = "portkey-export",
        /// Exports of Helicone.
        HeliconeExport = "helicone-export",
        /// Observations of Langfuse.
        LangfuseObservations = "langfuse-observations",
        /// Runs of LangSmith.
        LangsmithRuns = "langsmith-runs",
        /// OpenTelemetry spans as OTLP/JSON.
        OtlpSpans = "otlp-spans",
        /// Cloudflare AI Gateway.
        CloudflareLogpush = "cloudflare-logpush",
        /// Model invocation logs of AWS Bedrock.
        BedrockInvocation = "bedrock-invocation",
        /// Request logs of Azure OpenAI.
        AzureOpenaiRequestResponse = "azure-openai-requestresponse",
        /// LLM logs of Azure API Management.
        AzureApimLlm = "azure-apim-llm",
        /// Gateway logs of Azure API Management.
        AzureApimGatewaylogs = "azure-apim-gatewaylogs",
        /// Request-response logs of Vertex AI.
        VertexRequestResponse = "vertex-request-response",
        /// Activity of OpenRouter.
        OpenrouterActivity = "openrouter-activity",
        /// Outputs of the OpenAI Batch API.
        OpenaiBatchOutput = "openai-batch-output",
        /// Request traces of NVIDIA Dynamo.
        DynamoRequestTrace = "dynamo-request-trace",
        /// Request logs of SGLang.
        SglangRequests = "sglang-requests",
        /// The metrics exporter of SGLang.
        SglangRequestMetrics = "sglang-request-metrics",
        /// The router's log of text-generation-inference.
        TgiRouter = "tgi-router",
        /// Ollama's server log.
        OllamaGin = "ollama-gin",
        /// Captured final responses of Ollama.
        OllamaResponses = "ollama-responses",
        /// vLLM's request log.
        VllmText = "vllm-text",
        /// JSON access logs of nginx.
        NginxJson = "nginx-json",
        /// Access logs of ingress-nginx.
        NginxIngress = "nginx-ingress",
        /// Access logs in the combined format.
        NginxCombined = "nginx-combined",
        /// The public Azure LLM inference traces of 2023 and 2024.
        AzureLlmPublic = "azure-llm-public",
        /// The public Azure traces of 2025 with images.
        AzureLmmPublic = "azure-lmm-public",
        /// BurstGPT.
        Burstgpt = "burstgpt",
        /// The Qwen-Bailian traces.
        QwenBailian = "qwen-bailian",
        /// ShareGPT conversations.
        Sharegpt = "sharegpt",
        /// Traces of Vidur.
        Vidur = "vidur",
        /// Inputs of AIPerf with sessions.
        AiperfSessions = "aiperf-sessions",
        /// Custom datasets of vLLM's benchmark.
        VllmCustom = "vllm-custom",
        /// Traces of inference-perf.
        InferencePerfOtel = "inference-perf-otel",
        /// WEKA's agentic traces.
        WekaTrace = "weka-trace",
        /// The requests of a run of this program.
        TracewrightRun = "tracewright-run",
        /// `timestamp`, `input_length`, `output_length`, as of Mooncake and GuideLLM.
        LengthTrace = "length-trace",
        /// Captured requests and responses of whatever shape.
        RawCapture = "raw-capture",
        /// Any CSV or JSONL with `--map`.
        Generic = "generic",
    }
}

impl Format {
    /// Returns the names of all formats.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|format| format.as_str()).collect()
    }
}

/// The zone of times that carry none.
#[derive(Clone, Debug)]
pub struct Zone {
    /// The zone.
    pub zone: TimeZone,
    /// Its name.
    pub name: String,
    /// Whether the user named it.
    pub told: bool,
    /// Times read so far that the zone has twice or never, where clocks are changed.
    pub ambiguous: Cell<u64>,
}

impl Zone {
    /// Returns UTC, assumed.
    pub fn utc() -> Self {
        Self { zone: TimeZone::UTC, name: "UTC".to_owned(), told: false, ambiguous: Cell::new(0) }
    }

    /// Returns the zone of an IANA name.
    ///
    /// # Errors
    ///
    /// If there is no such zone.
    pub fn named(name: &str) -> Result<Self, IngestError> {
        match TimeZone::get(name) {
            Ok(zone) => {
                Ok(Self { zone, name: name.to_owned(), told: true, ambiguous: Cell::new(0) })
            }
            Err(_) => Err(IngestError::BadZone { found: name.to_owned() }),
        }
    }
}

/// What the user said about the input.
#[derive(Clone, Debug)]
pub struct Hints {
    /// The format; `None` lets the file decide.
    pub format: Option<Format>,
    /// Field of the trace and column of the log.
    pub map: Vec<(&'static str, String)>,
    /// Zone of times without one.
    pub zone: Zone,
    /// Units of bare numbers: of one column, or of all.
    pub units: Vec<(Option<String>, Unit)>,
    /// Year of times that carry none: of the first one in the file.
    pub year: Option<i32>,
}

impl Hints {
    /// Returns what a user says who says nothing: the log decides, naive times are UTC.
    pub fn none() -> Self {
        Self { format: None, map: Vec::new(), zone: Zone::utc(), units: Vec::new(), year: None }
    }

    /// Returns the unit told for a column.
    pub fn unit(&self, column: &str) -> Option<Unit> {
        let of_column = |told: &&(Option<String>, Unit)| told.0.as_deref() == Some(column);
        let of_all = |told: &&(Option<String>, Unit)| told.0.is_none();
        let told = self.units.iter().find(of_column).or_else(|| self.units.iter().find(of_all));
        told.map(|(_, unit)| *unit)
    }
}

/// Where a record stands.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Index of the file.
    pub file_id: u32,
    /// 1-based line.
    pub line: u64,
}

/// One record of a log.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A JSON object.
    Json(&'a str),
    /// A record of CSV; only for adapters that ask for rows.
    Csv(Row<'a>),
    /// A line of text, or several that belong together.
    Text(&'a str),
}

/// A row on its way into the trace, with what later stages need to put calls and sessions
/// together.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The row.
    pub row: RequestRecord,
    /// What ties it to other records.
    pub join: Option<Join>,
    /// What ties it to earlier turns of its conversation.
    pub chain: Option<Box<Chain>>,
}

impl From<RequestRecord> for Draft {
    fn from(row: RequestRecord) -> Self {
        Self { row, join: None, chain: None }
    }
}

/// Ties records of one call together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// Equal for the records of one call; a keyed hash.
    pub key: Hash128,
    /// What the record is to the call.
    pub role: Role,
}

/// What a record is to its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of several attempts: a failure is continued by the next.
    Attempt,
    /// One of several records of the same attempt; where both have a value, the higher rank's
    /// counts.
    Part(u8),
    /// A version of the row; the one with the latest stamp (microseconds) counts.
    Version(i64),
    /// No request: a retrieval in the trace `key`, evidence for the requests after it.
    Retrieval,
    /// No request: a tool call in the trace `key`.
    Tool,
}

/// What became of a record, or of one of the several that a record holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A row.
    Keep(Box<Draft>),
    /// Left out on purpose, for this reason.
    Drop(&'static str),
    /// Could not be read.
    Reject(FieldError),
}

/// Collects what became of a record.
#[derive(Debug, Default)]
pub struct Out {
    /// In the order of the record.
    pub items: Vec<Item>,
}

impl Out {
    /// Takes a row.
    pub fn keep(&mut self, draft: impl Into<Draft>) {
        self.items.push(Item::Keep(Box::new(draft.into())));
    }

    /// Leaves a record out for a reason.
    pub fn drop(&mut self, reason: &'static str) {
        self.items.push(Item::Drop(reason));
    }

    /// Refuses one of several records that a line holds.
    pub fn reject(&mut self, error: FieldError) {
        self.items.push(Item::Reject(error));
    }
}

/// Why a record was not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The record goes to the rejects file.
    Reject(FieldError),
    /// The whole ingest stops: a column holds numbers of different units.
    MixedUnits {
        /// The column.
        column: String,
        /// What was expected and found.
        expected: String,
    },
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        Self::Reject(error)
    }
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self::Reject(json_refusal(&error))
    }
}

/// The kind of times of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Dates.
    Dates,
    /// Offsets from an unknown origin.
    Offsets,
    /// None at all.
    Missing,
}

impl Origin {
    /// Returns words for messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dates => "dates",
            Self::Offsets => "offsets from an unknown origin",
            Self::Missing => "missing",
        }
    }
}

/// Reads the records of one file.
pub trait Adapter: Send + Sync {
    /// Decodes one record into `out`: rows, and what was left out.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or contradicts what was decided for its file.
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal>;

    /// Returns the kind of the file's times.
    fn origin(&self) -> Origin {
        Origin::Dates
    }

    /// Returns whether CSV comes as rows; otherwise a row becomes a JSON object of texts.
    fn wants_rows(&self) -> bool {
        false
    }

    /// Returns whether a line of text goes on with the record `so_far`.
    fn continues(&self, _so_far: &str, _line: &str) -> bool {
        false
    }
}

/// An adapter and what was decided while making it.
pub type Made = (Box<dyn Adapter>, Vec<Decision>);

/// Makes the adapter of a format for one file.
///
/// # Errors
///
/// If the file lacks a column the format needs, or holds times of several units.
pub fn make(format: Format, sample: &Sample, hints: &Hints) -> Result<Made, IngestError> {
    match format {
        Format::LitellmSpendlogs => litellm_spendlogs::make(sample, hints),
        Format::AzureLlmPublic => azure_llm::make(sample, hints),
        Format::LengthTrace => length_trace::make(sample, hints),
        Format::Generic => generic::make(sample, hints),
        Format::LitellmStandardLogging => litellm_standard::make(sample, hints),
        Format::OneApiLogs => one_api::make(sample, hints),
        Format::NewApiLogs => new_api::make(sample, hints),
        Format::EnvoyAiGateway => envoy_ai::make(sample, hints),
        Format::KongAi => kong::make(sample, hints),
        Format::ApisixLogger | Format::ApisixAccess => apisix::make(format, sample, hints),
        Format::HigressAiStatistics => higress::make(sample, hints),
        Format::PortkeyExport => portkey::make(sample, hints),
        Format::HeliconeExport => helicone::make(sample, hints),
        Format::LangfuseObservations => langfuse::make(sample, hints),
        Format::LangsmithRuns => langsmith::make(sample, hints),
        Format::OtlpSpans => otlp::make(sample, hints),
        Format::CloudflareLogpush => cloudflare::make(sample, hints),
        Format::BedrockInvocation => bedrock::make(sample, hints),
        Format::AzureOpenaiRequestResponse => azure_openai::make(sample, hints),
        Format::AzureApimLlm | Format::AzureApimGatewaylogs => {
            azure_apim::make(format, sample, hints)
        }
        Format::VertexRequestResponse => vertex::make(sample, hints),
        Format::OpenrouterActivity => openrouter::make(sample, hints),
        Format::OpenaiBatchOutput => openai_batch::make(sample, hints),
        Format::DynamoRequestTrace => dynamo::make(sample, hints),
        Format::SglangRequests | Format::SglangRequestMetrics => {
            sglang::make(format, sample, hints)
        }
        Format::TgiRouter => tgi::make(sample, hints),
        Format::OllamaGin | Format::OllamaResponses => ollama::make(format, sample, hints),
        Format::VllmText => vllm_text::make(sample, hints),
        Format::NginxJson | Format::NginxIngress | Format::NginxCombined => {
            nginx::make(format, sample, hints)
        }
        Format::AzureLmmPublic => azure_lmm::make(sample, hints),
        Format::Burstgpt => burstgpt::make(sample, hints),
        Format::QwenBailian => qwen_bailian::make(sample, hints),
        Format::Sharegpt => sharegpt::make(sample, hints),
        Format::Vidur => vidur::make(sample, hints),
        Format::AiperfSessions => aiperf::make(sample, hints),
        Format::VllmCustom => vllm_custom::make(sample, hints),
        Format::InferencePerfOtel => inference_perf::make(sample, hints),
        Format::WekaTrace => weka::make(sample, hints),
        Format::RawCapture => raw_capture::make(sample, hints),
        Format::TracewrightRun => tracewright_run::make(sample, hints),
    }
}

/// What adapters share over the files that one thread reads: the hashes, the zone, one copy of
/// each name, and what was decided on the way.
#[derive(Debug)]
pub struct Shared {
    /// Makes hashes of identifiers.
    pub hasher: Hasher,
    /// Zone of times without one.
    pub zone: Zone,
    /// Names replaced by `other` because of their form.
    pub hidden: u64,
    /// How instants were read: field, reading, and how many.
    pub readings: Vec<(&'static str, Reading, u64)>,
    /// Things worth a line at the end, with counts.
    pub remarks: BTreeMap<&'static str, u64>,
    names: HashMap<Box<str>, Arc<str>>,
    judged: Judged,
    repeated: RefCell<Repeated>,
}

/// How an instant was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// A text with its zone.
    Zoned,
    /// A text without zone; the source writes UTC.
    NaiveUtc,
    /// A text without zone; the source writes the time of its machine.
    NaiveLocal,
    /// A number of this unit since 1970, by its magnitude.
    Epoch(Unit),
    /// Ticks of 100 ns since year 1.
    Ticks,
}

/// In which zone a source writes times without zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naive {
    /// In UTC.
    Utc,
    /// In that of the machine.
    Local,
}

/// Names kept for sharing; further ones are stored row by row.
const MAX_SHARED_NAMES: usize = 10_000;
/// Stands for a name that could be something else.
const OTHER: &str = "other";

impl Shared {
    /// Makes the shared part of an ingest.
    pub fn new(hasher: Hasher, zone: Zone) -> Self {
        Self {
            hasher,
            zone,
            hidden: 0,
            readings: Vec::new(),
            remarks: BTreeMap::new(),
            names: HashMap::new(),
            judged: Judged::default(),
            repeated: RefCell::default(),
        }
    }

    /// Reads an instant: a text, or a number whose unit its magnitude tells (2001 to 2103).
    /// `None` when there is none.
    ///
    /// # Errors
    ///
    /// If the value is no instant.
    pub fn time(
        &mut self,
        value: &Loose<'_>,
        field: &'static str,
        naive: Naive,
    ) -> Result<Option<Stamp>, FieldError> {
        let Some((stamp, reading)) = stamp::read_any(value, field, naive, &self.zone)? else {
            return Ok(None);
        };
        self.count_reading(field, reading, 1);
        Ok(Some(stamp))
    }

    /// Counts readings of a field.
    pub fn count_reading(&mut self, field: &'static str, reading: Reading, times: u64) {
        let known = self.readings.iter_mut().find(|known| known.0 == field && known.1 == reading);
        match known {
            Some(known) => known.2 += times,
            None => self.readings.push((field, reading, times)),
        }
    }

    /// Counts something worth a line at the end.
    pub fn remark(&mut self, what: &'static str) {
        *self.remarks.entry(what).or_insert(0) += 1;
    }

    /// Returns the keyed hash of an identifier; `None` where the value holds none.
    pub fn hash(&self, column: Column, value: &Loose<'_>) -> Option<Hash128> {
        let id = value.id()?;
        match column {
            Column::User | Column::Key | Column::Tenant => {
                self.repeated.borrow_mut().hash(&self.hasher, column, &id)
            }
            _ => self.hasher.hash(column, &id),
        }
    }

    /// Returns the one copy of a name.
    pub fn name(&mut self, name: &str) -> Arc<str> {
        self.judge(Rule::Own, name, |own| Some(own))
    }

    /// Returns what a rule makes of a text; `other` when it makes nothing of it.
    fn judge(
        &mut self,
        rule: Rule,
        text: &str,
        make: impl FnOnce(&str) -> Option<&str>,
    ) -> Arc<str> {
        let (name, is_hidden) = self.judged.before(rule, text).unwrap_or_else(|| {
            let made = make(text);
            let verdict = (self.shared(made.unwrap_or(OTHER)), made.is_none());
            self.judged.keep(rule, text, verdict.clone());
            verdict
        });
        self.hidden += u64::from(is_hidden);
        name
    }

    fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let fresh: Arc<str> = name.into();
        if self.names.len() < MAX_SHARED_NAMES {
            self.names.insert(name.into(), fresh.clone());
        }
        fresh
    }

    /// Returns the name of a model; `None` when missing, `other` when it could be a person, a key
    /// or an address.
    pub fn model(&mut self, value: &Loose<'_>) -> Option<Arc<str>> {
        let is_model = |name: &&str| names::is_model(name);
        Some(self.judge(Rule::Model, value.text()?, |name| Some(name).filter(is_model)))
    }

    /// Returns a word such as the name of a provider; as [`Shared::model`].
    pub fn word(&mut self, value: &Loose<'_>) -> Option<Arc<str>> {
        let is_word = |word: &&str| names::is_word(word);
        Some(self.judge(Rule::Word, value.text()?, |word| Some(word).filter(is_word)))
    }

    /// Returns the class of an error; as [`Shared::model`].
    pub fn error_type(&mut self, value: &Loose<'_>) -> Option<Arc<str>> {
        Some(self.judge(Rule::Error, value.text()?, names::error_class))
    }

    /// Returns the family of an endpoint; `None` when missing or not known.
    pub fn endpoint(&mut self, value: &Loose<'_>) -> Option<Arc<str>> {
        let known = names::endpoint(value.text()?)?;
        Some(self.name(known))
    }

    /// Returns why generation stopped; words outside the known ones become `other`.
    pub fn finish_reason(&mut self, value: &Loose<'_>) -> Option<Arc<str>> {
        let word = value.text()?;
        let known = FINISH_REASONS.iter().find(|known| known.eq_ignore_ascii_case(word));
        Some(self.name(known.copied().unwrap_or("other")))
    }
}

/// Reasons of the common APIs.
const FINISH_REASONS: &[&str] = &[
    "stop",
    "length",
    "max_tokens",
    "tool_calls",
    "tool_use",
    "function_call",
    "content_filter",
    "end_turn",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "error",
    "abort",
    "eos_token",
    "safety",
    "recitation",
    "cancelled",
    "incomplete",
    "completed",
];

/// Returns the places of columns in a CSV sample; all `None` for JSONL.
pub(super) fn places<const N: usize>(sample: &Sample, names: [&str; N]) -> [Option<usize>; N] {
    let empty = Header::default();
    let header = sample.header().unwrap_or(&empty);
    names.map(|name| header.place(name))
}
