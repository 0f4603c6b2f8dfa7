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
pub mod dynamo;
pub mod envoy_ai;
pub mod fill;
pub mod generic;
pub mod helicone;
pub mod higress;
pub mod id;
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
mod shared;
pub mod sharegpt;
mod span_fields;
mod span_messages;
mod text;
pub mod tgi;
pub mod tracewright_run;
#[cfg(test)]
mod trial;
pub mod vertex;
pub mod vidur;
pub mod vllm_custom;
pub mod vllm_text;
pub mod weka;

pub use id::Format;
pub(super) use names::could_be_data;
pub use shared::{Naive, Reading, Shared};

use super::error::IngestError;
use super::loose::{FieldError, json_refusal};
use super::rows::{Header, Row};
use super::sample::Sample;
use super::stamp::Unit;
use crate::domain::record::{Hash128, RequestRecord};
use crate::domain::trace::Decision;
use chain::Chain;
use jiff::tz::TimeZone;
use std::cell::Cell;

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
    /// The row; boxed, since drafts pass through several queues.
    pub row: Box<RequestRecord>,
    /// What ties it to other records.
    pub join: Option<Join>,
    /// What ties it to earlier turns of its conversation.
    pub chain: Option<Box<Chain>>,
}

impl From<RequestRecord> for Draft {
    fn from(row: RequestRecord) -> Self {
        Self { row: Box::new(row), join: None, chain: None }
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

/// Reads the records of a file whose records are JSON objects, rows of tables included.
///
/// Most formats are: what is no object in such a file is `not_llm`, said once here.
pub trait ObjectAdapter: Send + Sync {
    /// Decodes one object into `out`; as [`Adapter::decode`].
    ///
    /// # Errors
    ///
    /// As [`Adapter::decode`].
    fn decode_object(
        &self,
        text: &str,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal>;

    /// Returns the kind of the file's times.
    fn origin(&self) -> Origin {
        Origin::Dates
    }
}

impl<T: ObjectAdapter> Adapter for T {
    fn decode(
        &self,
        input: Input<'_>,
        at: At,
        shared: &mut Shared,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let Input::Json(text) = input else {
            out.drop("not_llm");
            return Ok(());
        };
        self.decode_object(text, at, shared, out)
    }

    fn origin(&self) -> Origin {
        ObjectAdapter::origin(self)
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

/// Returns the places of columns in a CSV sample; all `None` for JSONL.
pub(super) fn places<const N: usize>(sample: &Sample, names: [&str; N]) -> [Option<usize>; N] {
    let empty = Header::default();
    let header = sample.header().unwrap_or(&empty);
    names.map(|name| header.place(name))
}
