//! Was the load that left the load that was planned? The client-bound verdict.
//!
//! Scheduled and actual instants in, delays and a verdict out, by the rules and limits of
//! `domain::limits` (restated in `docs/metrics.md`). The *schedule delay* is sent − scheduled. The
//! set-up of a new connection is inside it and is the network's and the server's; what is judged is
//! the rest, the client's *own delay*. The *dispatch delay* is the dispatcher's part of that. Rows
//! of an interrupted run that were not yet due are not held against it.

use super::latency::Distribution;
use super::windows;
use crate::domain::convert;
use crate::domain::limits;
use crate::domain::metric;
use crate::domain::outcome::RequestOutcome;
use crate::domain::percentiles;
use crate::domain::time::{NANOS_PER_SECOND, Nanos};
use crate::domain::trend;
use crate::domain::word::word_enum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

word_enum! {
    /// Whether the client kept the plan.
    pub enum ScheduleVerdict {
        /// Every limit is kept with room to spare.
        Valid = "valid",
        /// Half of a limit is passed.
        Warn = "warn",
        /// A limit is broken: the offered load was not the planned one.
        Invalid = "invalid",
        /// No request had both a planned and an actual instant.
        NotJudged = "not_judged",
    }
}

/// The window of [`limits::RATE_WINDOW`] in which the smallest share of the due requests left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorstWindow {
    /// Where it begins, in seconds from the start of the run.
    pub start_s: f64,
    /// Requests due in it.
    pub planned: u64,
    /// Those of them that had left by its end plus [`limits::LATE_REQUEST`].
    pub achieved: u64,
    /// `achieved / planned`.
    pub achieved_share: f64,
}

/// How punctual the client was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Punctuality {
    /// The verdict.
    pub verdict: ScheduleVerdict,
    /// Why, one sentence a rule; empty when valid.
    pub reasons: Vec<String>,
    /// Sent − scheduled.
    pub delay: Distribution,
    /// The same less the set-up of a new connection: what the rules judge.
    pub own_delay: Distribution,
    /// The largest p99 of the own delay in a valid run, in milliseconds.
    pub delay_limit_ms: f64,
    /// Let go − scheduled: the dispatcher's own part of the delay.
    pub dispatch_delay: Distribution,
    /// Requests sent before they were due; a fault of the client, 0 in a sound run.
    pub early: u64,
    /// Requests whose own delay is above [`limits::LATE_REQUEST`].
    pub late: u64,
    /// `late` as a share of the requests with a delay.
    pub late_share: Option<f64>,
    /// The worst window with at least [`limits::RATE_WINDOW_MIN_PLANNED`] requests due.
    pub worst_window: Option<WorstWindow>,
    /// The most requests overdue by more than [`limits::LATE_REQUEST`] at one time.
    pub largest_backlog: Option<u64>,
    /// Median own delay of the last tenth of the requests minus that of the first tenth, in order of
    /// schedule; `None` below 20 requests.
    pub drift_ms: Option<f64>,
    /// Mann-Kendall score of the own delay's medians by second; above 3.29 the delay grows.
    pub trend_z: Option<f64>,
}

/// Folds instants.
#[derive(Clone, Debug, Default)]
pub(super) struct Timetable {
    /// (scheduled, left) of tried requests; left is scheduled plus the own delay, or the dispatch
    /// when nothing was sent.
    departures: Vec<(u64, u64)>,
    /// Scheduled instants of requests that were not tried.
    not_tried: Vec<u64>,
    delays: Vec<u64>,
    own_delays: Vec<u64>,
    dispatch_delays: Vec<u64>,
    early: u64,
    client_dropped: u64,
}

/// What the rules need beside the timetable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// The median TTFT from the actual send.
    pub(super) median_ttft_ms: Option<f64>,
    /// Whether the run was stopped before its end.
    pub(super) interrupted: bool,
}

impl Timetable {
    /// Takes a tried request.
    pub(super) fn add_tried(&mut self, outcome: &RequestOutcome, client_fault: bool) {
        self.client_dropped += u64::from(client_fault);
        let at = &outcome.at;
        if let Some(delay) = metric::schedule_delay(at) {
            self.delays.push(delay.0);
        } else if at.sent.is_some() && at.scheduled.is_some() {
            self.early += 1;
        }
        self.dispatch_delays.extend(metric::dispatch_delay(at).map(|delay| delay.0));
        let own_delay = metric::own_delay(at);
        self.own_delays.extend(own_delay.map(|delay| delay.0));
        if let Some(scheduled) = at.scheduled {
            let left = own_delay.map(|delay| scheduled.plus(delay)).or(at.sent).or(at.dispatched);
            self.departures.extend(left.map(|left| (scheduled.0, left.0)));
        }
    }

    /// Takes a request that was not tried.
    pub(super) fn add_not_tried(&mut self, outcome: &RequestOutcome) {
        self.not_tried.extend(outcome.at.scheduled.map(|scheduled| scheduled.0));
    }

    /// Returns the scheduled instants that were due while the run lasted.
    ///
    /// Of an interrupted run these end with the last departure.
    pub(super) fn due(&self, interrupted: bool) -> Vec<u64> {
        let last_left = self.departures.iter().map(|departure| departure.1).max().unwrap_or(0);
        let skipped = self.not_tried.iter().filter(|due| !interrupted || **due <= last_left);
        self.departures.iter().map(|departure| departure.0).chain(skipped.copied()).collect()
    }

    /// Returns the numbers and the verdict.
    pub(super) fn finish(mut self, context: Context) -> Punctuality {
        let mut intervals = self.departures.clone();
        let tried = intervals.len();
        let mut due = self.due(context.interrupted);
        // Due, but never let go: overdue until the end of time.
        intervals.extend(due.drain(tried..).map(|scheduled| (scheduled, u64::MAX)));
        let late = self.own_delays.iter().filter(|delay| **delay > limits::LATE_REQUEST.0).count();
        let late = convert::count(late);
        let drift_ms = drift_ms(&mut self.departures);
        let trend_z = trend_z(&self.departures);
        let delay = Distribution::of_nanos(&mut self.delays);
        let own_delay = Distribution::of_nanos(&mut self.own_delays);
        let mut result = Punctuality {
            verdict: ScheduleVerdict::NotJudged,
            reasons: Vec::new(),
            late_share: (delay.n > 0).then(|| convert::float(late) / convert::float(delay.n)),
            delay,
            own_delay,
            delay_limit_ms: delay_limit_ms(context.median_ttft_ms),
            dispatch_delay: Distribution::of_nanos(&mut self.dispatch_delays),
            early: self.early,
            late,
            worst_window: worst_window(&intervals),
            largest_backlog: (!intervals.is_empty()).then(|| largest_backlog(&intervals)),
            drift_ms,
            trend_z,
        };
        if !intervals.is_empty() {
            let facts = Judged {
                numbers: &result,
                due: convert::count(intervals.len()),
                client_dropped: self.client_dropped,
            };
            (result.verdict, result.reasons) = facts.judge();
        }
        result
    }
}

/// Returns the worst full-enough window; the earliest of equals.
fn worst_window(intervals: &[(u64, u64)]) -> Option<WorstWindow> {
    let width = limits::RATE_WINDOW.0;
    let mut windows: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for &(scheduled, left) in intervals {
        let index = scheduled / width;
        let closes = (index + 1).saturating_mul(width).saturating_add(limits::LATE_REQUEST.0);
        let counts = windows.entry(index).or_default();
        counts.0 += 1;
        counts.1 += u64::from(left <= closes);
    }
    let full = windows.iter().filter(|(_, counts)| counts.0 >= limits::RATE_WINDOW_MIN_PLANNED);
    full.map(|(index, &(planned, achieved))| WorstWindow {
        start_s: Nanos(index * width).as_secs_f64(),
        planned,
        achieved,
        achieved_share: convert::float(achieved) / convert::float(planned),
    })
    .min_by(|a, b| a.achieved_share.total_cmp(&b.achieved_share))
}

/// Returns the most requests overdue by more than the lateness limit at one time.
fn largest_backlog(intervals: &[(u64, u64)]) -> u64 {
    let overdue: Vec<(u64, u64)> = intervals
        .iter()
        .map(|&(scheduled, left)| (scheduled.saturating_add(limits::LATE_REQUEST.0), left))
        .filter(|(overdue, left)| overdue < left)
        .collect();
    windows::most_at_once(&overdue)
}

/// Returns the delays of departures, in milliseconds, sorted.
fn sorted_delays(departures: &[(u64, u64)]) -> Vec<f64> {
    let mut delays: Vec<f64> = departures
        .iter()
        .map(|&(scheduled, left)| Nanos(left.saturating_sub(scheduled)).as_millis_f64())
        .collect();
    percentiles::sort(&mut delays);
    delays
}

/// Sorts the departures by schedule and returns the drift, see [`Punctuality::drift_ms`].
fn drift_ms(departures: &mut [(u64, u64)]) -> Option<f64> {
    departures.sort_unstable();
    let tenth = departures.len() / 10;
    if tenth < 2 {
        return None;
    }
    let first = departures.get(..tenth)?;
    let last = departures.get(departures.len() - tenth..)?;
    let median = |part| percentiles::quantile(&sorted_delays(part), 0.5);
    Some(median(last)? - median(first)?)
}

/// The most medians that the trend test looks at; it compares each pair of them.
const MAX_TREND_POINTS: u64 = 2_000;

/// Returns the score of the delay's trend over departures sorted by schedule.
///
/// The step is one second, or longer in a run of more than [`MAX_TREND_POINTS`] seconds.
fn trend_z(departures: &[(u64, u64)]) -> Option<f64> {
    let (first, last) = (departures.first()?.0, departures.last()?.0);
    let step = NANOS_PER_SECOND.max((last - first).div_ceil(MAX_TREND_POINTS));
    let medians: Vec<f64> = departures
        .chunk_by(|a, b| (a.0 - first) / step == (b.0 - first) / step)
        .filter_map(|second| percentiles::quantile(&sorted_delays(second), 0.5))
        .collect();
    trend::mann_kendall(&medians)
}

/// Returns the largest p99 of a delay that a valid run may have, in milliseconds.
fn delay_limit_ms(median_ttft_ms: Option<f64>) -> f64 {
    let of_ttft = median_ttft_ms.unwrap_or(0.0) * limits::MAX_DELAY_TTFT_SHARE;
    limits::MAX_DELAY_P99.as_millis_f64().max(of_ttft)
}

/// The numbers under judgement.
#[derive(Debug)]
struct Judged<'a> {
    numbers: &'a Punctuality,
    due: u64,
    client_dropped: u64,
}

/// What one rule says.
type Finding = Option<(ScheduleVerdict, String)>;

/// Returns the finding for a `value` that must not pass `limit`; half of it gives a warning.
fn above(value: f64, limit: f64, sentence: impl Fn() -> String) -> Finding {
    let verdict = if value > limit {
        ScheduleVerdict::Invalid
    } else if value > limit * limits::WARN_SHARE {
        ScheduleVerdict::Warn
    } else {
        return None;
    };
    Some((verdict, sentence()))
}

impl Judged<'_> {
    /// Returns the verdict and the reasons, the worst first.
    fn judge(&self) -> (ScheduleVerdict, Vec<String>) {
        let rules = [
            self.early(),
            self.dropped(),
            self.delay(),
            self.late(),
            self.window(),
            self.backlog(),
            self.trend(),
        ];
        let mut found: Vec<(ScheduleVerdict, String)> = rules.into_iter().flatten().collect();
        found.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
        let verdict = found.first().map_or(ScheduleVerdict::Valid, |(verdict, _)| *verdict);
        (verdict, found.into_iter().map(|(_, reason)| reason).collect())
    }

    fn early(&self) -> Finding {
        let early = self.numbers.early;
        let reason = format!("{early} requests were sent before they were due");
        (early > 0).then_some((ScheduleVerdict::Invalid, reason))
    }

    fn dropped(&self) -> Finding {
        let dropped = self.client_dropped;
        let reason = format!("{dropped} requests failed for want of this machine's own resources");
        (dropped > 0).then_some((ScheduleVerdict::Invalid, reason))
    }

    fn delay(&self) -> Finding {
        let p99 = self.numbers.own_delay.p99_ms?;
        let limit = self.numbers.delay_limit_ms;
        above(p99, limit, || {
            format!(
                "the client's own delay has a p99 of {p99:.1} ms over {} requests (limit {limit:.1} ms)",
                self.numbers.own_delay.n
            )
        })
    }

    fn late(&self) -> Finding {
        let share = self.numbers.late_share?;
        above(share, limits::MAX_LATE_SHARE, || {
            format!(
                "{:.1} % of the requests left more than {:.0} ms late (limit {:.1} %)",
                share * 100.0,
                limits::LATE_REQUEST.as_millis_f64(),
                limits::MAX_LATE_SHARE * 100.0
            )
        })
    }

    /// A shortfall of one request is let pass: in a window of 50 it is already 2 %.
    fn window(&self) -> Finding {
        let worst = self.numbers.worst_window.as_ref()?;
        let missing = worst.planned - worst.achieved;
        let finding = above(1.0 - worst.achieved_share, 1.0 - limits::MIN_ACHIEVED_SHARE, || {
            format!(
                "of {} requests due in the {:.0} s from {:.0} s on, {} had left in time ({:.1} %, limit {:.0} %)",
                worst.planned,
                limits::RATE_WINDOW.as_secs_f64(),
                worst.start_s,
                worst.achieved,
                worst.achieved_share * 100.0,
                limits::MIN_ACHIEVED_SHARE * 100.0
            )
        });
        finding.filter(|_| missing > 1)
    }

    fn backlog(&self) -> Finding {
        let backlog = self.numbers.largest_backlog?;
        if self.due < limits::BACKLOG_MIN_REQUESTS {
            return None;
        }
        let share = convert::float(backlog) / convert::float(self.due);
        above(share, limits::MAX_BACKLOG_SHARE, || {
            format!(
                "up to {backlog} of {} requests were overdue at one time ({:.2} %, limit {:.1} %)",
                self.due,
                share * 100.0,
                limits::MAX_BACKLOG_SHARE * 100.0
            )
        })
    }

    /// A trend alone only warns, and only when the drift is large enough to matter.
    fn trend(&self) -> Finding {
        let (z, drift) = (self.numbers.trend_z?, self.numbers.drift_ms?);
        let matters = drift > limits::MAX_DELAY_P99.as_millis_f64() * limits::WARN_SHARE;
        let grows = z > limits::TREND_Z && matters;
        let reason = format!(
            "the delay grew by {drift:.1} ms from the first to the last tenth of the run: the client did not keep up"
        );
        grows.then_some((ScheduleVerdict::Warn, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{ok, unsent};
    use super::*;

    const MS: u64 = 1_000_000;
    const CONTEXT: Context = Context { median_ttft_ms: Some(100.0), interrupted: false };

    /// `n` requests, one each 10 ms, sent `delay_ms(i)` after they were due.
    fn run(n: u64, delay_ms: impl Fn(u64) -> u64) -> Timetable {
        let mut table = Timetable::default();
        for i in 0..n {
            let mut outcome = ok(i);
            let due = i * 10 * MS;
            outcome.at.scheduled = Some(Nanos(due));
            outcome.at.dispatched = Some(Nanos(due + delay_ms(i) * MS));
            outcome.at.sent = outcome.at.dispatched;
            table.add_tried(&outcome, false);
        }
        table
    }

    #[test]
    fn nothing_is_not_judged() {
        let none = Timetable::default().finish(CONTEXT);
        assert_eq!(none.verdict, ScheduleVerdict::NotJudged);
        assert_eq!((none.late_share, none.worst_window, none.largest_backlog), (None, None, None));
    }

    #[test]
    fn a_punctual_client_is_valid() {
        let result = run(2_000, |i| i % 3).finish(CONTEXT);
        assert_eq!((result.verdict, result.reasons), (ScheduleVerdict::Valid, vec![]));
        assert_eq!((result.late, result.late_share, result.early), (0, Some(0.0), 0));
        assert_eq!(result.delay.max_ms, Some(2.0));
        assert_eq!(result.worst_window.unwrap().achieved_share.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn half_of_a_limit_warns() {
        let result = run(2_000, |_| 7).finish(CONTEXT);
        assert_eq!(result.verdict, ScheduleVerdict::Warn);
        insta::assert_snapshot!(
            result.reasons.join("\n"),
            @"the client's own delay has a p99 of 7.0 ms over 2000 requests (limit 10.0 ms)"
        );
        let slow = Context { median_ttft_ms: Some(1_000.0), ..CONTEXT };
        assert_eq!(run(2_000, |_| 7).finish(slow).verdict, ScheduleVerdict::Valid, "5 % of 1 s");
    }

    #[test]
    fn a_late_client_is_invalid_by_every_rule() {
        // Ever later, as a client whose sleeps add up: 92 % of the planned rate.
        let result = run(2_000, |i| i).finish(CONTEXT);
        assert_eq!(result.verdict, ScheduleVerdict::Invalid);
        insta::assert_snapshot!(result.reasons.join("\n"), @"
        the client's own delay has a p99 of 1979.0 ms over 2000 requests (limit 10.0 ms)
        97.5 % of the requests left more than 50 ms late (limit 1.0 %)
        of 1000 requests due in the 10 s from 10 s on, 823 had left in time (82.3 %, limit 99 %)
        up to 178 of 2000 requests were overdue at one time (8.90 %, limit 0.5 %)
        the delay grew by 1800.0 ms from the first to the last tenth of the run: the client did not keep up
        ");
    }

    #[test]
    fn one_late_request_does_not_condemn_a_run() {
        let result = run(2_000, |i| if i == 999 { 400 } else { 1 }).finish(CONTEXT);
        assert_eq!(result.verdict, ScheduleVerdict::Valid, "{:?}", result.reasons);
        assert_eq!((result.late, result.largest_backlog), (1, Some(1)));
    }

    #[test]
    fn slow_connections_are_not_the_clients_delay() {
        let mut table = Timetable::default();
        for i in 0..400 {
            let mut outcome = ok(i);
            let due = i * 10 * MS;
            outcome.at.scheduled = Some(Nanos(due));
            outcome.at.dispatched = outcome.at.scheduled;
            outcome.at.connect_start = outcome.at.scheduled;
            outcome.at.connected = Some(Nanos(due + 80 * MS));
            outcome.at.sent = Some(Nanos(due + 81 * MS));
            table.add_tried(&outcome, false);
        }
        let result = table.finish(CONTEXT);
        assert_eq!((result.delay.max_ms, result.own_delay.max_ms), (Some(81.0), Some(1.0)));
        assert_eq!((result.verdict, result.late), (ScheduleVerdict::Valid, 0));
    }

    #[test]
    fn a_stall_of_two_seconds_is_seen() {
        let result =
            run(3_000, |i| if (1_000..1_200).contains(&i) { 2_000 - (i - 1_000) * 10 } else { 0 })
                .finish(CONTEXT);
        assert_eq!(result.verdict, ScheduleVerdict::Invalid);
        assert_eq!(result.late, 195, "due more than 50 ms before the stall ended");
        assert_eq!(result.largest_backlog, Some(195));
    }

    #[test]
    fn skipped_rows_count_against_a_complete_run_only() {
        let table = || {
            let mut table = run(1_000, |_| 0);
            for i in 1_000..1_100 {
                let mut row = unsent(i);
                row.at.scheduled = Some(Nanos(i * 10 * MS));
                table.add_not_tried(&row);
            }
            table
        };
        assert_eq!(table().finish(CONTEXT).verdict, ScheduleVerdict::Invalid);
        let stopped = Context { interrupted: true, ..CONTEXT };
        assert_eq!(table().finish(stopped).verdict, ScheduleVerdict::Valid);
    }

    #[test]
    fn early_and_dropped_are_invalid() {
        let mut table = Timetable::default();
        let mut early = ok(0);
        early.at.scheduled = early.at.sent.map(|sent| sent.plus(Nanos(1)));
        table.add_tried(&early, true);
        let result = table.finish(CONTEXT);
        assert_eq!((result.verdict, result.early), (ScheduleVerdict::Invalid, 1));
        insta::assert_snapshot!(result.reasons.join("\n"), @"
        1 requests were sent before they were due
        1 requests failed for want of this machine's own resources
        ");
    }
}
