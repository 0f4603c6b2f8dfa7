//! One adapter per family of logs, all of one shape: a record in, a `RequestRecord`, a reason to
//! leave it out, or a refusal that names the field.
//!
//! An adapter is made from a sample of its file, where units and zones are decided once. It keeps
//! no text of a record but names of models, providers and classes of errors, and these only in
//! forms that `names` knows. It knows neither files nor
//! order; sessions and attempts are put together later.

pub mod azure_llm;
pub mod generic;
pub mod length_trace;
pub mod litellm_spendlogs;
pub mod litellm_wire;
mod names;

use super::error::IngestError;
use super::loose::{FieldError, Loose, json_refusal};
use super::privacy::Hasher;
use super::rows::{Header, Row};
use super::sample::Sample;
use super::stamp::Unit;
use crate::domain::record::RequestRecord;
use crate::domain::trace::Decision;
use crate::domain::word::word_enum;
use jiff::tz::TimeZone;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

word_enum! {
    /// A family of logs.
    pub enum Format {
        /// The `LiteLLM_SpendLogs` table, as JSONL or CSV.
        LitellmSpendlogs = "litellm-spendlogs",
        /// The public Azure LLM inference traces of 2023 and 2024.
        AzureLlmPublic = "azure-llm-public",
        /// `timestamp`, `input_length`, `output_length`, as of Mooncake and GuideLLM.
        LengthTrace = "length-trace",
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
}

impl Hints {
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
    /// A line of JSONL.
    Json(&'a str),
    /// A record of CSV.
    Csv(Row<'a>),
}

/// What became of a record.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A request.
    Keep(Box<RequestRecord>),
    /// Left out on purpose, for this reason.
    Drop(&'static str),
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
pub trait Adapter {
    /// Decodes one record.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or contradicts what was decided for its file.
    fn decode(&self, input: Input<'_>, at: At, shared: &mut Shared) -> Result<Outcome, Refusal>;

    /// Returns the kind of the file's times.
    fn origin(&self) -> Origin;
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
    }
}

/// What adapters share over all files: the hashes, the zone, and one copy of each name.
#[derive(Debug)]
pub struct Shared {
    /// Makes hashes of identifiers.
    pub hasher: Hasher,
    /// Zone of times without one.
    pub zone: Zone,
    /// Names replaced by `other` because of their form.
    pub hidden: u64,
    names: HashMap<Box<str>, Arc<str>>,
}

/// Names kept for sharing; further ones are stored row by row.
const MAX_SHARED_NAMES: usize = 10_000;
/// Stands for a name that could be something else.
const OTHER: &str = "other";

impl Shared {
    /// Makes the shared part of an ingest.
    pub fn new(hasher: Hasher, zone: Zone) -> Self {
        Self { hasher, zone, hidden: 0, names: HashMap::new() }
    }

    /// Returns the one copy of a name.
    pub fn name(&mut self, name: &str) -> Arc<str> {
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
        let name = value.text()?;
        Some(if names::is_model(name) { self.name(name) } else { self.other() })
    }

    /// Returns a word such as the name of a provider; as [`Shared::model`].
    pub fn word(&mut self, value: &Loose<'_>) -> Option<Arc<str>> {
        let word = value.text()?;
        Some(if names::is_word(word) { self.name(word) } else { self.other() })
    }

    /// Returns the class of an error; as [`Shared::model`].
    pub fn error_type(&mut self, value: &Loose<'_>) -> Option<Arc<str>> {
        let class = names::error_class(value.text()?);
        Some(if let Some(class) = class { self.name(class) } else { self.other() })
    }

    /// Returns the family of an endpoint; `None` when missing or not known.
    pub fn endpoint(&mut self, value: &Loose<'_>) -> Option<Arc<str>> {
        let known = names::endpoint(value.text()?)?;
        Some(self.name(known))
    }

    fn other(&mut self) -> Arc<str> {
        self.hidden += 1;
        self.name(OTHER)
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
