//! What adapters share over the files that one thread reads: hashes, zone, names, decisions.
//!
//! One per thread; counts of several threads are added up at the end (`ingest::remarks`). Names are
//! kept once, and only in forms that `names` knows: anything else becomes `other`.

use super::Zone;
use super::names::{self, Judged, Rule};
use crate::domain::record::Hash128;
use crate::ingest::loose::{FieldError, Loose};
use crate::ingest::privacy::{Column, Hasher, Repeated};
use crate::ingest::stamp::{self, Stamp, Unit};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

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
