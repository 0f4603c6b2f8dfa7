//! What a reader must know before quoting a number, in words.
//!
//! A report's numbers in, sentences out: each names a number and what to do. *Fatal* findings make
//! the run not believable, *warnings* qualify it, *notices* only tell. Limits are those of
//! `domain::limits`.

use super::facts::RunStatus;
use super::schedule::ScheduleVerdict;
use super::summarize::{ALL, Report};
use crate::domain::limits;
use crate::domain::percentiles;
use crate::domain::schedule::CountKind;
use crate::domain::word::word_enum;
use serde::{Deserialize, Serialize};

word_enum! {
    /// How grave a finding is.
    pub enum Level {
        /// The numbers do not measure what was planned.
        Fatal = "fatal",
        /// The numbers must be quoted with this.
        Warning = "warning",
        /// Good to know.
        Notice = "notice",
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// How grave it is.
    pub level: Level,
    /// A fixed word for programs.
    pub code: String,
    /// What was found, with its number.
    pub finding: String,
    /// What to do, or how to read the numbers.
    pub advice: String,
}

/// What a check yields.
type Found = Option<Warning>;

/// Builds a finding.
fn found(level: Level, code: &str, finding: impl Into<String>, advice: &str) -> Warning {
    Warning { level, code: code.to_owned(), finding: finding.into(), advice: advice.to_owned() }
}

/// Returns all findings about `report`, the gravest first, else in a fixed order.
pub(super) fn of(report: &Report) -> Vec<Warning> {
    let mut all: Vec<Warning> = [
        nothing_sent(report),
        all_failed(report),
        rows_missing(report),
        unsent(report),
        interrupted(report),
        recovered(report),
        failed(report),
        few_samples(report),
        raw_count(report),
        input_mismatch(report),
        output_shortfall(report),
        usage_missing(report),
        usage_mixed(report),
        one_burst(report),
        below_template(report),
        unexplained(report),
        no_chunks(report),
        not_selected(report),
        speed(report),
        clipped(report),
        drawn(report),
        mock(report),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.extend(late_sends(report));
    all.sort_by_key(|warning| warning.level);
    all
}

fn nothing_sent(report: &Report) -> Found {
    let account = &report.accounting;
    (account.sent == 0).then(|| {
        found(
            Level::Fatal,
            "nothing_sent",
            format!("none of {} planned requests was sent", account.planned),
            "there is nothing to measure; see how the run ended, and replay the plan again",
        )
    })
}

fn all_failed(report: &Report) -> Found {
    report.accounting.all_failed().then(|| {
        found(
            Level::Fatal,
            "all_failed",
            format!("all {} sent requests failed", report.accounting.sent),
            "every metric is empty; read the failures below, then send one request by hand",
        )
    })
}

fn rows_missing(report: &Report) -> Found {
    let missing = report.accounting.unsent_without_row;
    (missing > 0 && report.accounting.sent > 0).then(|| {
        found(
            Level::Fatal,
            "rows_missing",
            format!("{missing} of {} planned requests have no row", report.accounting.planned),
            "it is not known what became of them; replay the plan again",
        )
    })
}

fn unsent(report: &Report) -> Found {
    let account = &report.accounting;
    let skipped = account.unsent - account.unsent_without_row;
    let complete = report.run.status == RunStatus::Complete;
    (complete && skipped > 0 && account.sent > 0).then(|| {
        found(
            Level::Fatal,
            "unsent_requests",
            format!("{skipped} of {} planned requests were not sent", account.planned),
            "the load was lighter than planned; raise the client's limits, or lower the rate",
        )
    })
}

fn late_sends(report: &Report) -> Vec<Warning> {
    let level = match report.schedule.verdict {
        ScheduleVerdict::Invalid => Level::Fatal,
        ScheduleVerdict::Warn => Level::Warning,
        ScheduleVerdict::Valid | ScheduleVerdict::NotJudged => return Vec::new(),
    };
    let advice = "the offered load was not quite the planned one: lower the rate, give the client \
                  cores of its own, or spread the load over machines";
    let reasons = report.schedule.reasons.iter();
    reasons.map(|reason| found(level, "late_sends", reason.clone(), advice)).collect()
}

fn interrupted(report: &Report) -> Found {
    let account = &report.accounting;
    (report.run.status == RunStatus::Interrupted).then(|| {
        found(
            Level::Warning,
            "interrupted",
            format!("the run was interrupted: {} of {} requests sent", account.sent, account.planned),
            "the numbers cover the first part of the plan only; replay it to the end to compare runs",
        )
    })
}

fn recovered(report: &Report) -> Found {
    report.run.recovered.then(|| {
        found(
            Level::Warning,
            "recovered",
            format!(
                "the run was killed and its outcomes recovered; {} requests are lost",
                report.accounting.unsent_unknown_after_kill
            ),
            "up to a second of outcomes before the kill is missing; do not quote the tail",
        )
    })
}

fn failed(report: &Report) -> Found {
    let account = &report.accounting;
    if account.failed == 0 || account.all_failed() {
        return None;
    }
    let grave = account.failed_share() > limits::WARN_FAILED_SHARE;
    let level = if grave { Level::Warning } else { Level::Notice };
    Some(found(
        level,
        "failed_requests",
        format!(
            "{} of {} sent requests failed ({:.2} %)",
            account.failed,
            account.sent,
            account.failed_share() * 100.0
        ),
        "they have no latency; quote the error-adjusted percentiles beside the success-only ones",
    ))
}

/// The percentile that the sample-size rule looks at.
const HIGHEST: f64 = 0.99;

fn few_samples(report: &Report) -> Found {
    let needed = percentiles::samples_for_bounded_interval(HIGHEST)?;
    let is_small = |n: u64| n > 0 && n < needed;
    let groups = report.latency.iter().filter(|group| is_small(group.succeeded));
    let small: Vec<String> =
        groups.map(|group| format!("{} {}", group.group, group.succeeded)).collect();
    let pooled_is_small = report.group(ALL).is_some_and(|all| is_small(all.succeeded));
    let level = if pooled_is_small { Level::Warning } else { Level::Notice };
    (!small.is_empty()).then(|| {
        found(
            level,
            "few_samples",
            format!(
                "p99 rests on fewer than {needed} succeeded requests in: {}",
                small.join(", ")
            ),
            "its 95 % interval has no upper end there: treat that p99 as a maximum, or run longer",
        )
    })
}

fn raw_count(report: &Report) -> Found {
    let input = &report.tokens.input;
    let proven = input.compared > 0 && input.different == 0;
    let advice = "the server's chat template adds tokens of its own: quote the server's input \
                  count, or plan with the template's cost";
    let finding = match report.run.count_kind {
        Some(CountKind::Raw) => "planned input tokens count the content alone (`raw`)",
        Some(CountKind::Partial) => "planned input tokens leave parts uncounted (`partial`)",
        Some(CountKind::Templated) => return None,
        None => "it is not known what the planned input tokens count",
    };
    let seen = input.mean_difference.filter(|_| input.compared > 0).map_or_else(
        || format!("{finding}; the server gave no count to compare"),
        |mean| format!("{finding}; the server counted {mean:+.1} tokens a request on average"),
    );
    (!proven).then(|| found(Level::Warning, "count_kind", seen, advice))
}

fn input_mismatch(report: &Report) -> Found {
    let input = &report.tokens.input;
    let share = crate::domain::proportion::wilson(input.different, input.compared)?.share;
    // With a raw count a difference is expected, and `count_kind` has said so.
    let expected = report.run.count_kind != Some(CountKind::Templated);
    (share > limits::WARN_INPUT_MISMATCH && !expected).then(|| {
        found(
            Level::Warning,
            "input_mismatch",
            format!(
                "the server counted other input tokens than planned in {} of {} requests (mean {:+.1})",
                input.different,
                input.compared,
                input.mean_difference.unwrap_or_default()
            ),
            "check that the plan's tokenizer is the model's, and that the template's cost is right",
        )
    })
}

fn output_shortfall(report: &Report) -> Found {
    let output = &report.tokens.output;
    let share = output.shortfall_share.filter(|share| *share > limits::WARN_OUTPUT_SHORTFALL)?;
    Some(found(
        Level::Warning,
        "output_shortfall",
        format!(
            "{:.1} % of the planned output tokens did not come ({} of {} answers were shorter)",
            share * 100.0,
            output.short,
            output.compared
        ),
        "the load is too light: force the length (`min_tokens`, `ignore_eos`) where the server can",
    ))
}

fn usage_missing(report: &Report) -> Found {
    let sources = &report.tokens.usage_sources;
    (sources.none > 0).then(|| {
        found(
            Level::Warning,
            "usage_missing",
            format!("{} of {} answers have no token count", sources.none, report.accounting.succeeded),
            "they are absent from TPOT and token rates; ask the server for usage in the stream",
        )
    })
}

fn usage_mixed(report: &Report) -> Found {
    let sources = &report.tokens.usage_sources;
    (sources.server > 0 && sources.local > 0).then(|| {
        found(
            Level::Warning,
            "usage_mixed",
            format!(
                "tokens were counted by the server in {} answers and here in {}",
                sources.server, sources.local
            ),
            "the two counts differ in small ways; compare token figures with care",
        )
    })
}

fn one_burst(report: &Report) -> Found {
    let bursts = &report.one_burst_streams;
    let share = bursts.share.filter(|share| *share > limits::WARN_ONE_READ_STREAMS)?;
    Some(found(
        Level::Warning,
        "one_burst_streams",
        format!(
            "{} of {} streams ({:.1} %) brought over {:.0} % of their text in one read",
            bursts.one_burst,
            bursts.streams,
            share * 100.0,
            limits::ONE_READ_SHARE * 100.0
        ),
        "something between server and client holds the stream back, so TTFT is near E2E and the \
         gaps mean little: turn off buffering in the proxy",
    ))
}

fn below_template(report: &Report) -> Found {
    let below = report.plan.counts.below_template_minimum;
    (below > 0).then(|| {
        found(
            Level::Warning,
            "below_template_minimum",
            format!("{below} planned inputs are smaller than the chat template alone"),
            "they were longer at the server than planned; count them apart, or use completions",
        )
    })
}

fn unexplained(report: &Report) -> Found {
    let rows = report.accounting.source_rows_unexplained.filter(|rows| *rows > 0)?;
    Some(found(
        Level::Warning,
        "source_rows_unexplained",
        format!("{rows} of {} source rows are in no count", report.accounting.source_rows),
        "the plan lost rows without saying why; plan again and report the fault",
    ))
}

fn no_chunks(report: &Report) -> Found {
    (!report.run.chunks_recorded).then(|| {
        found(
            Level::Notice,
            "no_chunks",
            "the instants of chunks were not recorded, so there are 0 chunk gaps",
            "a stall inside a stream shows only in E2E; record chunks to see it",
        )
    })
}

fn not_selected(report: &Report) -> Found {
    let account = &report.accounting;
    (account.not_selected > 0).then(|| {
        found(
            Level::Notice,
            "not_selected",
            format!(
                "{} of {} source rows were left out by a cap",
                account.not_selected, account.source_rows
            ),
            "the load is a part of the recorded one; lift the cap to replay all of it",
        )
    })
}

fn speed(report: &Report) -> Found {
    // A factor written by the user: anything but exactly 1 changes the load.
    let speed = report.plan.speed.filter(|speed| (speed - 1.0).abs() > f64::EPSILON)?;
    Some(found(
        Level::Notice,
        "speed",
        format!("the trace was replayed at {speed} times its own speed"),
        "rates are not those of production; quote them with the factor",
    ))
}

fn clipped(report: &Report) -> Found {
    let counts = &report.plan.counts;
    (counts.input_clipped + counts.output_clipped > 0).then(|| {
        found(
            Level::Notice,
            "clipped",
            format!(
                "{} inputs and {} outputs were cut to the plan's limits",
                counts.input_clipped, counts.output_clipped
            ),
            "the longest requests are lighter than recorded; raise the limits if the server can",
        )
    })
}

fn drawn(report: &Report) -> Found {
    let counts = &report.plan.counts;
    (counts.input_drawn + counts.output_drawn > 0).then(|| {
        found(
            Level::Notice,
            "drawn_lengths",
            format!(
                "{} inputs and {} outputs had no recorded length and were drawn",
                counts.input_drawn, counts.output_drawn
            ),
            "they follow the distribution of the others, not the request that was logged",
        )
    })
}

fn mock(report: &Report) -> Found {
    report.run.target_is_mock.then(|| {
        found(
            Level::Notice,
            "mock_target",
            format!("all {} requests went to the built-in mock", report.accounting.sent),
            "the latencies say nothing about a real server; give `--url` to measure one",
        )
    })
}
