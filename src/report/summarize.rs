//! Outcomes, the plan's provenance and the run's facts → [`Report`].
//!
//! Batches may come in any order and size. Memory is about 200 bytes a request plus 8 bytes a
//! chunk gap. Nothing is averaged over averages: every number comes from the samples.

use super::accounting::{Accounting, Fate, Ledger};
use super::definitions::{self, Definition};
use super::facts::{RunFacts, RunStatus};
use super::latency::{GroupLatency, Samples};
use super::schedule::{Context, Punctuality, Timetable};
use super::throughput::{Flow, Throughput};
use super::tokens::{Connections, Counts, OneBurstStreams, Tokens};
use super::verdict::Verdict;
use super::warnings::{self, Warning};
use crate::domain::metric::Latency;
use crate::domain::outcome::{Failure, RequestOutcome};
use crate::domain::scenario::Scenario;
use crate::domain::schedule::PlanMetadata;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the shape of `report.json`. It changes when a key goes or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;
/// The group of all requests.
pub const ALL: &str = "all";
/// The group of requests above the long-context threshold.
pub const LONG_CONTEXT: &str = "long_context";

/// Everything a run's outcomes say. A number that was not measured is `None`, never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of the program that made the report.
    pub tool_version: String,
    /// Whether the numbers below may be believed, and why not.
    pub verdict: Verdict,
    /// The run.
    pub run: RunFacts,
    /// The plan's provenance.
    pub plan: PlanMetadata,
    /// Where every request went.
    pub accounting: Accounting,
    /// Latency: `all` first, then each kind of request that occurs, then `long_context`.
    pub latency: Vec<GroupLatency>,
    /// How punctual the client was.
    pub schedule: Punctuality,
    /// Rates and peaks.
    pub throughput: Throughput,
    /// Tokens planned and counted.
    pub tokens: Tokens,
    /// New and reused connections.
    pub connections: Connections,
    /// Streams that came in one burst.
    pub one_burst_streams: OneBurstStreams,
    /// What to know before quoting a number, the gravest first.
    pub warnings: Vec<Warning>,
    /// What each metric means.
    pub definitions: Vec<Definition>,
}

impl Report {
    /// Returns the latency of the group called `name`.
    pub fn group(&self, name: &str) -> Option<&GroupLatency> {
        self.latency.iter().find(|group| group.group == name)
    }
}

/// Why outcomes do not make a report.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportError {
    /// The run holds more requests than the plan.
    #[error("run `{run}`: {rows} requests, expected at most {planned} (those of the plan)")]
    MoreRowsThanPlanned {
        /// The run's name.
        run: String,
        /// Rows of the run.
        rows: u64,
        /// Requests of the plan.
        planned: u64,
    },
}

impl ReportError {
    /// Returns what the user can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::MoreRowsThanPlanned { .. } => Some(
                "the run's plan.parquet is not the plan that was replayed; put the right one there"
                    .to_owned(),
            ),
        }
    }
}

/// Folds outcomes into a [`Report`].
#[derive(Debug)]
pub struct Summarizer {
    facts: RunFacts,
    plan: PlanMetadata,
    ledger: Ledger,
    groups: BTreeMap<Scenario, Samples>,
    long_context: Samples,
    timetable: Timetable,
    flow: Flow,
    counts: Counts,
}

impl Summarizer {
    /// Starts with no outcomes.
    pub fn new(facts: RunFacts, plan: PlanMetadata) -> Self {
        Self {
            facts,
            plan,
            ledger: Ledger::default(),
            groups: BTreeMap::new(),
            long_context: Samples::default(),
            timetable: Timetable::default(),
            flow: Flow::default(),
            counts: Counts::default(),
        }
    }

    /// Takes a batch of outcomes, in any order.
    pub fn add(&mut self, outcomes: &[RequestOutcome]) {
        for outcome in outcomes {
            let fate = self.ledger.add(outcome);
            if fate.was_tried() {
                let client_fault = fate == Fate::Failed(Failure::ClientResource);
                self.timetable.add_tried(outcome, client_fault);
                self.flow.add_tried(outcome);
                self.counts.add_tried(outcome);
            } else {
                self.timetable.add_not_tried(outcome);
                continue;
            }
            let kind = self.groups.entry(outcome.scenario).or_default();
            let is_long = outcome.planned_input_tokens > self.facts.long_context_tokens;
            let groups = std::iter::once(kind).chain(is_long.then_some(&mut self.long_context));
            if fate == Fate::Succeeded {
                groups.for_each(|samples| samples.add_success(outcome));
                self.counts.add_success(outcome);
            } else {
                groups.for_each(Samples::add_failure);
            }
        }
    }

    /// Returns the report.
    ///
    /// # Errors
    ///
    /// If there were more outcomes than the plan has requests.
    pub fn finish(self) -> Result<Report, ReportError> {
        let (rows, planned) = (self.ledger.rows(), self.plan.counts.planned);
        if rows > planned {
            return Err(ReportError::MoreRowsThanPlanned { run: self.facts.name, rows, planned });
        }
        let interrupted = self.facts.status == RunStatus::Interrupted;
        let latency = finish_groups(self.groups, self.long_context);
        let median_ttft_ms = latency
            .first()
            .and_then(|all| all.of(Latency::TtftFromActual))
            .and_then(|ttft| ttft.p50_ms);
        let due = self.timetable.due(interrupted);
        let (tokens, connections, one_burst_streams) = self.counts.finish();
        let mut report = Report {
            schema_version: SCHEMA_VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            verdict: Verdict::default(),
            accounting: self.ledger.finish(self.plan.mode, &self.plan.counts),
            latency,
            schedule: self.timetable.finish(Context { median_ttft_ms, interrupted }),
            throughput: self.flow.finish(due),
            tokens,
            connections,
            one_burst_streams,
            warnings: Vec::new(),
            definitions: definitions::all(),
            run: self.facts,
            plan: self.plan,
        };
        report.warnings = warnings::of(&report);
        report.verdict = Verdict::of(&report.warnings);
        Ok(report)
    }
}

/// Returns the numbers of every group, `all` first; `long_context` only when it occurs.
fn finish_groups(groups: BTreeMap<Scenario, Samples>, long: Samples) -> Vec<GroupLatency> {
    let mut all = Samples::default();
    for samples in groups.values() {
        all.merge(samples);
    }
    let mut finished = vec![all.finish(ALL)];
    finished.extend(groups.into_iter().map(|(kind, samples)| samples.finish(kind.as_str())));
    let long = long.finish(LONG_CONTEXT);
    finished.extend((long.succeeded + long.failed > 0).then_some(long));
    finished
}

/// Returns the report of outcomes that are already in memory.
///
/// # Errors
///
/// As [`Summarizer::finish`].
pub fn summarize(
    outcomes: &[RequestOutcome],
    plan: PlanMetadata,
    facts: RunFacts,
) -> Result<Report, ReportError> {
    let mut summarizer = Summarizer::new(facts, plan);
    summarizer.add(outcomes);
    summarizer.finish()
}

#[cfg(test)]
mod tests {
    use super::super::example::{facts, failed, ok, plan, unsent};
    use super::super::schedule::ScheduleVerdict;
    use super::super::verdict::VerdictWord;
    use super::*;

    #[test]
    fn no_outcomes() {
        let report = summarize(&[], plan(0), facts()).unwrap();
        assert_eq!(report.accounting.planned, 0);
        assert_eq!(report.latency.len(), 1);
        assert_eq!(report.schedule.verdict, ScheduleVerdict::NotJudged);
        assert_eq!(report.throughput, Throughput::default());
        assert_eq!(report.verdict.word, VerdictWord::NotBelievable, "nothing was sent");
    }

    #[test]
    fn all_failed_is_null_and_never_zero() {
        let outcomes: Vec<_> = (0..20).map(|id| failed(id, Failure::Connect)).collect();
        let report = summarize(&outcomes, plan(20), facts()).unwrap();
        assert!(report.accounting.all_failed());
        assert_eq!(report.verdict.word, VerdictWord::NotBelievable);
        for group in &report.latency {
            assert!(group.success_only.values().all(|d| d.n == 0 && d.p50_ms.is_none()));
        }
        assert_eq!(report.throughput.requests_per_s, None);
        assert_eq!(report.tokens, Tokens::default());
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.contains(r#""requests_per_s":null"#), "{text}");
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report, "a round trip");
    }

    #[test]
    fn groups_are_all_then_kinds_then_long_context() {
        let mut outcomes: Vec<_> = (0..10).map(ok).collect();
        outcomes[3].planned_input_tokens = 4_001;
        outcomes[4].planned_input_tokens = 4_000;
        let report = summarize(&outcomes, plan(10), facts()).unwrap();
        let groups: Vec<_> =
            report.latency.iter().map(|g| (g.group.as_str(), g.succeeded)).collect();
        assert_eq!(groups, [("all", 10), ("single", 5), ("rag", 5), ("long_context", 1)]);
    }

    #[test]
    fn more_rows_than_planned_is_an_error() {
        let error = summarize(&[ok(0), ok(1)], plan(1), facts()).unwrap_err();
        insta::assert_snapshot!(
            format!("error: {error}\nhint: {}", error.hint().unwrap()),
            @"
        error: run `2026-01-02T03-04-05Z-example`: 2 requests, expected at most 1 (those of the plan)
        hint: the run's plan.parquet is not the plan that was replayed; put the right one there
        "
        );
    }

    #[test]
    fn a_sound_run_is_believable() {
        let outcomes: Vec<_> = (0..400).map(ok).collect();
        let report = summarize(&outcomes, plan(400), facts()).unwrap();
        let grave: Vec<_> = report.warnings.iter().map(|warning| &warning.finding).collect();
        assert_eq!(report.verdict.word, VerdictWord::Believable, "{grave:?}");
    }

    proptest::proptest! {
        #[test]
        fn the_account_adds_up_and_order_does_not_matter(
            fates in proptest::collection::vec(0u64..6, 0..60), cut in 0usize..60,
        ) {
            let outcomes: Vec<_> = (0u64..).zip(&fates).map(|(id, fate)| match fate {
                0 => unsent(id),
                1 => failed(id, Failure::IdleTimeout),
                2 => failed(id, Failure::Http5xx),
                _ => ok(id),
            }).collect();
            let planned = u64::try_from(outcomes.len()).unwrap() + 3;
            let report = summarize(&outcomes, plan(planned), facts()).unwrap();
            let account = &report.accounting;
            proptest::prop_assert_eq!(account.planned, account.sent + account.unsent);
            proptest::prop_assert_eq!(account.sent, account.succeeded + account.failed);
            let classes: u64 = account.failures.iter().map(|class| class.count).sum();
            proptest::prop_assert_eq!(classes, account.failed);

            let mut again = Summarizer::new(facts(), plan(planned));
            let (head, tail) = outcomes.split_at(cut.min(outcomes.len()));
            again.add(tail);
            again.add(head);
            proptest::prop_assert_eq!(again.finish().unwrap(), report);
        }
    }
}
