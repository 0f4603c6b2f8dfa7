//! The quality table by model: rows, unknown counts, failures, median lengths.
//!
//! Rows as they are written -> one line per model asked for. Medians are exact, from a count per
//! length, so that memory does not grow with rows; lengths of 2^20 tokens and more are counted as
//! 2^20. Of more than [`MAX_MODELS`] names the further ones share a line without medians.

use crate::domain::convert;
use crate::domain::record::RequestRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Models counted apart.
pub const MAX_MODELS: usize = 32;
/// Lengths counted apart, in tokens.
const MAX_LENGTH: u32 = 1 << 20;
/// Lengths below are counted in an array: most are, and longer ones are few.
const DENSE: usize = 1 << 13;

/// What is known of one model, or of the ones that share a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// Rows.
    pub rows: u64,
    /// Rows without input tokens.
    pub missing_input: u64,
    /// Rows without output tokens.
    pub missing_output: u64,
    /// Rows that ended with an error, a timeout or a refusal.
    pub failed: u64,
    input: Lengths,
    output: Lengths,
}

/// Rows by length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lengths {
    counts: Vec<u64>,
    longer: BTreeMap<u32, u64>,
    total: u64,
}

/// All models of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Models {
    named: BTreeMap<Option<Arc<str>>, Model>,
    others: Model,
}

impl Models {
    /// Counts a row.
    pub fn observe(&mut self, row: &RequestRecord) {
        let is_full = self.named.len() >= MAX_MODELS;
        if let Some(model) = self.named.get_mut(&row.request_model) {
            model.observe(row, true);
        } else if is_full {
            self.others.observe(row, false);
        } else {
            self.named.entry(row.request_model.clone()).or_default().observe(row, true);
        }
    }

    /// Returns the models, most rows first, then by name; `None` gathers rows without a name.
    pub fn by_rows(&self) -> Vec<(Option<&str>, &Model)> {
        let mut models: Vec<_> =
            self.named.iter().map(|(name, model)| (name.as_deref(), model)).collect();
        models.sort_by_key(|(_, model)| std::cmp::Reverse(model.rows));
        models
    }

    /// Returns what the models beyond [`MAX_MODELS`] have together; `None` where there are none.
    pub fn others(&self) -> Option<&Model> {
        (self.others.rows > 0).then_some(&self.others)
    }
}

impl Model {
    /// Returns the median of the known input tokens; `None` where none is known.
    pub fn median_input(&self) -> Option<f64> {
        self.input.median()
    }

    /// Returns the median of the known output tokens; `None` where none is known.
    pub fn median_output(&self) -> Option<f64> {
        self.output.median()
    }

    fn observe(&mut self, row: &RequestRecord, with_lengths: bool) {
        self.rows += 1;
        self.missing_input += u64::from(row.input_tokens.is_none());
        self.missing_output += u64::from(row.output_tokens.is_none());
        self.failed += u64::from(row.status.is_failure());
        if with_lengths {
            self.input.add(row.input_tokens);
            self.output.add(row.output_tokens);
        }
    }
}

impl Lengths {
    fn add(&mut self, tokens: Option<u32>) {
        let Some(tokens) = tokens.map(|tokens| tokens.min(MAX_LENGTH)) else { return };
        match convert::index(tokens.into()).filter(|place| *place < DENSE) {
            Some(place) => {
                if self.counts.len() <= place {
                    self.counts.resize(place + 1, 0);
                }
                if let Some(count) = self.counts.get_mut(place) {
                    *count += 1;
                }
            }
            None => *self.longer.entry(tokens).or_insert(0) += 1,
        }
        self.total += 1;
    }

    /// Returns the middle length, or the mean of the two in the middle.
    fn median(&self) -> Option<f64> {
        if self.total == 0 {
            return None;
        }
        let lower = self.at((self.total - 1) / 2)?;
        let upper = self.at(self.total / 2)?;
        Some(f64::midpoint(lower, upper))
    }

    /// Returns the length at a 0-based place of all lengths in order.
    fn at(&self, place: u64) -> Option<f64> {
        let mut seen = 0;
        let mut reached = |count: &u64| {
            seen += count;
            seen > place
        };
        if let Some(found) = self.counts.iter().position(&mut reached) {
            return Some(convert::float_count(found));
        }
        let mut longer = self.longer.iter();
        longer.find(|(_, count)| reached(count)).map(|(length, _)| f64::from(*length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::Status;

    fn row(model: Option<&str>, tokens: Option<u32>, status: Status) -> RequestRecord {
        let mut row = RequestRecord::unknown("test".into(), 0, 1);
        row.request_model = model.map(Into::into);
        (row.input_tokens, row.output_tokens, row.status) = (tokens, Some(7), status);
        row
    }

    #[test]
    fn models_come_by_rows_with_exact_medians() {
        let mut models = Models::default();
        for (model, tokens, status) in [
            (Some("a"), None, Status::Ok),
            (Some("b"), Some(30), Status::Ok),
            (Some("b"), Some(10), Status::Error),
            (Some("b"), Some(20), Status::RateLimited),
            (Some("b"), Some(5_000_000), Status::Cancelled),
            (None, Some(4), Status::Ok),
        ] {
            models.observe(&row(model, tokens, status));
        }
        let found = models.by_rows();
        let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [Some("b"), None, Some("a")]);
        let b = found[0].1;
        assert_eq!((b.rows, b.failed, b.missing_input), (4, 2, 0));
        assert_eq!((b.median_input(), b.median_output()), (Some(25.0), Some(7.0)));
        assert_eq!((found[2].1.median_input(), found[2].1.missing_input), (None, 1));
        assert_eq!(models.others(), None);
    }

    #[test]
    fn further_names_share_a_line() {
        let mut models = Models::default();
        for n in 0..MAX_MODELS + 3 {
            models.observe(&row(Some(&format!("m{n}")), Some(1), Status::Ok));
        }
        assert_eq!(models.by_rows().len(), MAX_MODELS);
        let others = models.others().unwrap();
        assert_eq!((others.rows, others.median_input()), (3, None));
    }
}
