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
use crate::domain::schedule::{CountKind, PlanMode};
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
    let checks = [
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
        output_over(report),
        usage_missing(report),
        usage_mixed(report),
        one_burst(report),
        below_template(report),
        unexplained(report),
        slow_connections(report),
        not_selected(report),
        speed(report),
        classic_kinds(report),
        clipped(report),
        drawn(report),
        mock(report),
    ];
    let mut all = late_sends(report);
    all.extend(checks.into_iter().flatten());
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

/// Late departures that are not the client's: the set-up of new connections took the time.
fn slow_connections(report: &Report) -> Found {
    let schedule = &report.schedule;
    let limit = schedule.delay_limit_ms;
    let (all, own) = (schedule.delay.p99_ms?, schedule.own_delay.p99_ms?);
    (all > limit && own <= limit).then(|| {
        found(
            Level::Warning,
            "slow_connections",
            format!("the schedule delay's p99 is {all:.1} ms, {own:.1} ms without the set-up of new connections"),
            "requests left late while their connection was made; latencies from the intended send hold that wait",
        )
    })
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
            format!("p99 rests on fewer than {needed} succeeded requests in: {}", small.join(", ")),
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

/// More output tokens than the request allowed: the server's count cannot be right.
fn output_over(report: &Report) -> Found {
    let output = &report.tokens.output;
    (output.over > 0).then(|| {
        found(
            Level::Warning,
            "output_over",
            format!(
                "{} of {} answers have more output tokens than their limit allowed",
                output.over, output.compared
            ),
            "the limit or the server's count is not what it says; do not quote token rates or TPOT",
        )
    })
}

fn usage_missing(report: &Report) -> Found {
    let sources = &report.tokens.usage_sources;
    (sources.none > 0).then(|| {
        found(
            Level::Warning,
            "usage_missing",
            format!(
                "{} of {} answers have no token count",
                sources.none, report.accounting.succeeded
            ),
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

fn classic_kinds(report: &Report) -> Found {
    (report.plan.mode == PlanMode::Classic).then(|| {
        found(
            Level::Notice,
            "classic_kinds",
            format!("the kinds of all {} requests were drawn by their shares", report.accounting.planned),
            "their lengths are those of the whole trace, not of the kind: do not quote latencies by kind",
        )
    })
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

#[cfg(test)]
mod tests {
    use super::super::example::{facts, failed, ok, plan, unsent};
    use super::super::summarize::summarize;
    use super::*;
    use crate::domain::outcome::{Failure, RequestOutcome, UsageSource};

    fn lines(report: &Report) -> String {
        let lines: Vec<String> = report
            .warnings
            .iter()
            .map(|w| format!("{} {}: {}; {}", w.level, w.code, w.finding, w.advice))
            .collect();
        lines.join("\n")
    }

    /// Ten answers with one flaw each, or several.
    fn flawed() -> Vec<RequestOutcome> {
        let mut outcomes: Vec<RequestOutcome> = (0..10).map(ok).collect();
        outcomes[0].output_tokens = Some(4);
        outcomes[1].usage_source = Some(UsageSource::Local);
        outcomes[2].usage_source = None;
        outcomes[3].largest_read_text_bytes = outcomes[3].text_bytes;
        outcomes[4].input_tokens = Some(58);
        outcomes[5] = failed(5, Failure::Truncated);
        outcomes[6].at.sent = outcomes[6].at.scheduled.map(|due| due.plus(limits::MAX_DELAY_P99));
        outcomes
    }

    #[test]
    fn every_warning_and_notice() {
        let mut facts = facts();
        facts.status = RunStatus::Interrupted;
        facts.recovered = true;
        facts.count_kind = Some(CountKind::Raw);
        facts.target_is_mock = true;
        let mut plan = plan(11);
        plan.speed = Some(0.5);
        let counts = &mut plan.counts;
        (counts.source_rows, counts.not_selected) = (20, 7);
        (counts.input_clipped, counts.output_clipped) = (2, 3);
        (counts.input_drawn, counts.output_drawn) = (4, 5);
        counts.below_template_minimum = 6;
        let mut outcomes = flawed();
        outcomes.push(RequestOutcome { failure: Some(Failure::UnknownAfterKill), ..unsent(10) });
        insta::assert_snapshot!(lines(&summarize(&outcomes, plan, facts).unwrap()), @"
        warning late_sends: the client's own delay has a p99 of 9.1 ms over 10 requests (limit 10.0 ms); the offered load was not quite the planned one: lower the rate, give the client cores of its own, or spread the load over machines
        warning interrupted: the run was interrupted: 10 of 11 requests sent; the numbers cover the first part of the plan only; replay it to the end to compare runs
        warning recovered: the run was killed and its outcomes recovered; 1 requests are lost; up to a second of outcomes before the kill is missing; do not quote the tail
        warning failed_requests: 1 of 10 sent requests failed (10.00 %); they have no latency; quote the error-adjusted percentiles beside the success-only ones
        warning few_samples: p99 rests on fewer than 368 succeeded requests in: all 9, single 5, rag 4; its 95 % interval has no upper end there: treat that p99 as a maximum, or run longer
        warning count_kind: planned input tokens count the content alone (`raw`); the server counted +1.1 tokens a request on average; the server's chat template adds tokens of its own: quote the server's input count, or plan with the template's cost
        warning output_shortfall: 6.7 % of the planned output tokens did not come (1 of 9 answers were shorter); the load is too light: force the length (`min_tokens`, `ignore_eos`) where the server can
        warning usage_missing: 1 of 9 answers have no token count; they are absent from TPOT and token rates; ask the server for usage in the stream
        warning usage_mixed: tokens were counted by the server in 7 answers and here in 1; the two counts differ in small ways; compare token figures with care
        warning one_burst_streams: 1 of 9 streams (11.1 %) brought over 90 % of their text in one read; something between server and client holds the stream back, so TTFT is near E2E and the gaps mean little: turn off buffering in the proxy
        warning below_template_minimum: 6 planned inputs are smaller than the chat template alone; they were longer at the server than planned; count them apart, or use completions
        warning source_rows_unexplained: 2 of 20 source rows are in no count; the plan lost rows without saying why; plan again and report the fault
        notice not_selected: 7 of 20 source rows were left out by a cap; the load is a part of the recorded one; lift the cap to replay all of it
        notice speed: the trace was replayed at 0.5 times its own speed; rates are not those of production; quote them with the factor
        notice clipped: 2 inputs and 3 outputs were cut to the plan's limits; the longest requests are lighter than recorded; raise the limits if the server can
        notice drawn_lengths: 4 inputs and 5 outputs had no recorded length and were drawn; they follow the distribution of the others, not the request that was logged
        notice mock_target: all 10 requests went to the built-in mock; the latencies say nothing about a real server; give `--url` to measure one
        ");
    }

    #[test]
    fn everything_fatal() {
        let none = summarize(&[unsent(0)], plan(1), facts()).unwrap();
        let all = summarize(&[failed(0, Failure::Connect)], plan(1), facts()).unwrap();
        let mut late = ok(1);
        late.at.sent = late.at.scheduled.map(|due| due.plus(limits::LATE_REQUEST));
        let lost = summarize(&[ok(0), late, unsent(2)], plan(4), facts()).unwrap();
        let texts = [lines(&none), lines(&all), lines(&lost)];
        insta::assert_snapshot!(texts.join("\n---\n"), @"
        fatal nothing_sent: none of 1 planned requests was sent; there is nothing to measure; see how the run ended, and replay the plan again
        ---
        fatal all_failed: all 1 sent requests failed; every metric is empty; read the failures below, then send one request by hand
        ---
        fatal late_sends: the client's own delay has a p99 of 49.5 ms over 2 requests (limit 10.0 ms); the offered load was not quite the planned one: lower the rate, give the client cores of its own, or spread the load over machines
        fatal rows_missing: 1 of 4 planned requests have no row; it is not known what became of them; replay the plan again
        fatal unsent_requests: 1 of 4 planned requests were not sent; the load was lighter than planned; raise the client's limits, or lower the rate
        warning few_samples: p99 rests on fewer than 368 succeeded requests in: all 2, single 1, rag 1; its 95 % interval has no upper end there: treat that p99 as a maximum, or run longer
        ");
    }

    #[test]
    fn a_template_that_is_off_is_a_mismatch() {
        let outcomes: Vec<_> =
            (0..400).map(|id| RequestOutcome { input_tokens: Some(51), ..ok(id) }).collect();
        let report = summarize(&outcomes, plan(400), facts()).unwrap();
        insta::assert_snapshot!(lines(&report), @"
        warning input_mismatch: the server counted other input tokens than planned in 400 of 400 requests (mean +1.0); check that the plan's tokenizer is the model's, and that the template's cost is right
        notice few_samples: p99 rests on fewer than 368 succeeded requests in: single 200, rag 200; its 95 % interval has no upper end there: treat that p99 as a maximum, or run longer
        ");
    }

    #[test]
    fn a_raw_count_that_the_server_confirms_is_no_warning() {
        let outcomes: Vec<_> = (0..800).map(ok).collect();
        let mut facts = facts();
        facts.count_kind = Some(CountKind::Raw);
        assert_eq!(summarize(&outcomes, plan(800), facts).unwrap().warnings, []);
    }

    #[test]
    fn p99_needs_368_samples() {
        let codes = |n: u64| {
            let outcomes: Vec<_> = (0..n)
                .map(|id| RequestOutcome {
                    scenario: crate::domain::scenario::Scenario::Rag,
                    ..ok(id)
                })
                .collect();
            summarize(&outcomes, plan(n), facts()).unwrap().warnings.len()
        };
        assert_eq!((codes(367), codes(368)), (1, 0));
    }
}
