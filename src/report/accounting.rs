//! Where every request went: from the source's rows to each class of failure.
//!
//! Fates of outcomes and the plan's counts in, a table that adds up out:
//! planned = sent + unsent and sent = succeeded + failed, asserted. *Sent* means tried: a request
//! whose connection was refused counts as sent and failed, though no byte of it left.

use crate::domain::convert;
use crate::domain::outcome::{Failure, RequestOutcome};
use crate::domain::proportion::{Proportion, wilson};
use crate::domain::schedule::{PlanCounts, PlanMode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What became of one planned request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A complete answer.
    Succeeded,
    /// Tried, without a complete answer.
    Failed(Failure),
    /// Never tried; with the reason, if the recorder gave one.
    Unsent(Option<Failure>),
}

impl Fate {
    /// Returns the fate of `outcome`.
    pub const fn of(outcome: &RequestOutcome) -> Self {
        match outcome.failure {
            reason if !outcome.was_tried() => Self::Unsent(reason),
            None => Self::Succeeded,
            Some(failure) => Self::Failed(failure),
        }
    }

    /// Returns whether the request was tried.
    pub const fn was_tried(self) -> bool {
        !matches!(self, Self::Unsent(_))
    }
}

/// One class of failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureClass {
    /// The class.
    pub class: Failure,
    /// The coarse word: `ERROR`, `TIMEOUT`, `EXCEPTION` or `EMPTY`.
    pub group: String,
    /// Requests that failed so.
    pub count: u64,
    /// Their share of the sent requests, with its 95 % interval.
    pub of_sent: Option<Proportion>,
    /// HTTP status codes seen with it, with their counts.
    pub http_status_codes: BTreeMap<u16, u64>,
    /// One message of the server or the system, the first in sorting order; never a request's text.
    pub example: Option<String>,
}

/// Where every request went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accounting {
    /// Rows of the trace; 0 for a plan that was not made from one.
    pub source_rows: u64,
    /// Source rows outside the window of time.
    pub outside_window: u64,
    /// Source rows left out by a cap.
    pub not_selected: u64,
    /// Source rows that a gateway's cache had answered.
    pub cache_hits: u64,
    /// Source rows without an arrival time, in a trace where others have one.
    pub without_arrival: u64,
    /// Source rows that generate no text: embeddings and reranking.
    pub not_generation: u64,
    /// Source rows that nothing above explains; `None` when the plan does not follow a trace row
    /// by row.
    pub source_rows_unexplained: Option<u64>,
    /// Requests of the plan: sent + unsent.
    pub planned: u64,
    /// Requests that were tried: succeeded + failed.
    pub sent: u64,
    /// Requests that were not tried.
    pub unsent: u64,
    /// Unsent requests that were cancelled before their time.
    pub unsent_cancelled: u64,
    /// Unsent requests of which a killed run left no trace.
    pub unsent_unknown_after_kill: u64,
    /// Unsent requests that have no row in the run at all.
    pub unsent_without_row: u64,
    /// Complete answers.
    pub succeeded: u64,
    /// Tried, without a complete answer.
    pub failed: u64,
    /// Failed before a byte of the request was handed to a socket; part of `failed`.
    pub failed_before_first_byte: u64,
    /// Failed requests as a share of the sent ones, with the 95 % interval.
    pub failed_of_sent: Option<Proportion>,
    /// Failures by class, in the order of the classes; classes that did not occur are left out.
    pub failures: Vec<FailureClass>,
    /// Failures by coarse word.
    pub failure_groups: BTreeMap<String, u64>,
}

/// Counts of one class while folding.
#[derive(Clone, Debug, Default)]
struct ClassCounts {
    count: u64,
    codes: BTreeMap<u16, u64>,
    example: Option<String>,
}

/// Folds fates.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    rows: u64,
    succeeded: u64,
    unsent: u64,
    unsent_cancelled: u64,
    unsent_unknown: u64,
    before_first_byte: u64,
    classes: BTreeMap<Failure, ClassCounts>,
}

impl Ledger {
    /// Counts one outcome and returns its fate.
    pub(super) fn add(&mut self, outcome: &RequestOutcome) -> Fate {
        let fate = Fate::of(outcome);
        self.rows += 1;
        match fate {
            Fate::Succeeded => self.succeeded += 1,
            Fate::Failed(class) => self.add_failure(class, outcome),
            Fate::Unsent(reason) => {
                self.unsent += 1;
                self.unsent_cancelled += u64::from(reason == Some(Failure::Cancelled));
                self.unsent_unknown += u64::from(reason == Some(Failure::UnknownAfterKill));
            }
        }
        fate
    }

    fn add_failure(&mut self, class: Failure, outcome: &RequestOutcome) {
        self.before_first_byte += u64::from(!outcome.was_sent);
        let counts = self.classes.entry(class).or_default();
        counts.count += 1;
        if let Some(code) = outcome.http_status_code {
            *counts.codes.entry(code).or_default() += 1;
        }
        if let Some(message) = &outcome.failure_message
            && counts.example.as_ref().is_none_or(|example| message < example)
        {
            counts.example = Some(message.clone());
        }
    }

    /// Returns the rows counted so far.
    pub(super) const fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the account against a plan of at least as many requests as rows were counted.
    ///
    /// # Panics
    ///
    /// If the parts do not add up, which is a bug in this file.
    pub(super) fn finish(self, mode: PlanMode, plan: &PlanCounts) -> Accounting {
        let planned = plan.planned.max(self.rows);
        let without_row = planned - self.rows;
        let failed: u64 = self.classes.values().map(|class| class.count).sum();
        let sent = self.succeeded + failed;
        let unsent = self.unsent + without_row;
        assert_eq!(planned, sent + unsent, "planned = sent + unsent");
        let mut failure_groups = BTreeMap::new();
        let mut failures = Vec::new();
        for (class, counts) in self.classes {
            *failure_groups.entry(class.group().to_owned()).or_default() += counts.count;
            failures.push(FailureClass {
                class,
                group: class.group().to_owned(),
                count: counts.count,
                of_sent: wilson(counts.count, sent),
                http_status_codes: counts.codes,
                example: counts.example,
            });
        }
        let left_out = plan.without_arrival
            + plan.outside_window
            + plan.not_selected
            + plan.cache_hits
            + plan.not_generation;
        let explained = planned + left_out;
        Accounting {
            source_rows: plan.source_rows,
            outside_window: plan.outside_window,
            not_selected: plan.not_selected,
            cache_hits: plan.cache_hits,
            without_arrival: plan.without_arrival,
            not_generation: plan.not_generation,
            source_rows_unexplained: (mode == PlanMode::Recorded)
                .then(|| plan.source_rows.saturating_sub(explained)),
            planned,
            sent,
            unsent,
            unsent_cancelled: self.unsent_cancelled,
            unsent_unknown_after_kill: self.unsent_unknown,
            unsent_without_row: without_row,
            succeeded: self.succeeded,
            failed,
            failed_before_first_byte: self.before_first_byte,
            failed_of_sent: wilson(failed, sent),
            failures,
            failure_groups,
        }
    }
}

impl Accounting {
    /// Returns whether requests were sent and none of them succeeded.
    pub const fn all_failed(&self) -> bool {
        self.sent > 0 && self.succeeded == 0
    }

    /// Returns the failed share of the sent requests; 0 when none was sent.
    pub fn failed_share(&self) -> f64 {
        self.failed_of_sent.map_or(0.0, |proportion| proportion.share)
    }

    /// Returns the share of the planned requests that were sent; `None` for an empty plan.
    pub fn sent_share(&self) -> Option<f64> {
        (self.planned > 0).then(|| convert::float(self.sent) / convert::float(self.planned))
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{failed, ok, unsent};
    use super::*;
    use crate::domain::time::Nanos;

    #[test]
    fn every_class_is_counted_in_its_group() {
        let mut ledger = Ledger::default();
        for (index, class) in Failure::ALL.iter().enumerate() {
            ledger.add(&failed(convert::count(index), *class));
        }
        ledger.add(&ok(100));
        let plan =
            PlanCounts { planned: 19, source_rows: 25, not_selected: 5, ..PlanCounts::default() };
        let account = ledger.finish(PlanMode::Recorded, &plan);
        assert_eq!((account.planned, account.sent, account.failed), (19, 19, 18));
        assert_eq!(account.failures.len(), Failure::ALL.len());
        assert!(account.failures.iter().all(|class| class.count == 1));
        let groups: Vec<_> =
            account.failure_groups.iter().map(|(word, n)| format!("{word} {n}")).collect();
        assert_eq!(groups, ["EMPTY 1", "ERROR 4", "EXCEPTION 9", "TIMEOUT 4"]);
        assert_eq!(account.source_rows_unexplained, Some(1));
    }

    #[test]
    fn a_refused_connection_is_sent_and_failed_but_an_unreached_row_is_unsent() {
        let mut refused = failed(0, Failure::Connect);
        refused.was_sent = false;
        assert_eq!(Fate::of(&refused), Fate::Failed(Failure::Connect));
        let mut waiting = unsent(1);
        assert_eq!(Fate::of(&waiting), Fate::Unsent(None));
        waiting.failure = Some(Failure::Cancelled);
        assert_eq!(Fate::of(&waiting), Fate::Unsent(Some(Failure::Cancelled)));
        waiting.at.dispatched = Some(Nanos(5));
        assert_eq!(Fate::of(&waiting), Fate::Failed(Failure::Cancelled));
    }

    #[test]
    fn rows_that_are_missing_are_unsent() {
        let mut ledger = Ledger::default();
        ledger.add(&ok(0));
        let plan = PlanCounts { planned: 3, ..PlanCounts::default() };
        let account = ledger.finish(PlanMode::Classic, &plan);
        assert_eq!((account.unsent, account.unsent_without_row, account.sent), (2, 2, 1));
        assert_eq!(account.source_rows_unexplained, None);
    }
}
