//! Arrivals: rate, gaps and dispersion of counts, folded in one pass over sorted arrivals.
//!
//! Instants (microseconds) go in, in order; gap sums and sums of squares are kept as integers, and
//! per window width only the bins at the two ends stay open. So memory is constant, and two parts
//! of a trace that follow each other merge exactly, as long as both count their bins from the
//! first arrival of the whole trace. Index of dispersion = Var N / E N (Gusella 1991) with the
//! population variance; bins start at the first arrival, the partial last one is dropped.

use super::error::FitError;
use crate::domain::convert;
use crate::domain::time::WallTime;
use crate::domain::workload::{ArrivalModel, Dispersion};

/// Widths of the dispersion windows, in seconds.
const WINDOWS_S: [u64; 4] = [1, 10, 60, 300];
const MICROS: u64 = 1_000_000;
/// Gap CVs between these are close to a Poisson process.
const POISSON_CV: (f64, f64) = (0.8, 1.25);
/// From this gap CV on, arrivals are far burstier than Poisson.
const FAR_BURSTIER_CV: f64 = 3.0;
/// With fewer gaps than this, their CV says little.
const MIN_GAPS: u64 = 30;

/// Counts in the windows of one width.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WindowCounts {
    width_us: u64,
    /// The first bin with an arrival: (index from the origin, count).
    head: Option<(u64, u64)>,
    /// The last bin with an arrival, when it is not the first.
    tail: Option<(u64, u64)>,
    /// Σ count and Σ count² of the bins between head and tail.
    sum: u128,
    squares: u128,
}

impl WindowCounts {
    const fn new(width_us: u64) -> Self {
        Self { width_us, head: None, tail: None, sum: 0, squares: 0 }
    }

    fn add(&mut self, offset_us: u64) {
        self.add_bin((offset_us / self.width_us, 1));
    }

    /// Adds a bin that is the last one so far or after it.
    fn add_bin(&mut self, (index, count): (u64, u64)) {
        match (&mut self.head, &mut self.tail) {
            (None, _) => self.head = Some((index, count)),
            (Some(head), None) if head.0 == index => head.1 += count,
            (Some(_), None) => self.tail = Some((index, count)),
            (Some(_), Some(tail)) if tail.0 == index => tail.1 += count,
            (Some(_), Some(tail)) => {
                let closed = u128::from(tail.1);
                *tail = (index, count);
                self.sum += closed;
                self.squares += closed * closed;
            }
        }
    }

    /// Adds the bins of the part that follows.
    fn merge(&mut self, later: &Self) {
        let Some(head) = later.head else { return };
        self.add_bin(head);
        let Some(tail) = later.tail else { return };
        // The bin that was open between the parts is complete now, and so are those inside.
        self.add_bin(tail);
        self.sum += later.sum;
        self.squares += later.squares;
    }

    /// Closes all bins before the one that holds the end of the trace.
    fn finish(&self, span_us: u64) -> Dispersion {
        let windows = span_us / self.width_us;
        let ends = [self.head, self.tail].into_iter().flatten().filter(|&(bin, _)| bin < windows);
        let (mut sum, mut squares) = (self.sum, self.squares);
        for (_, count) in ends {
            sum += u128::from(count);
            squares += u128::from(count) * u128::from(count);
        }
        let index = variance(windows, sum, squares)
            .filter(|_| windows >= 2 && sum > 0)
            .map(|variance| variance * convert::float(windows) / convert::float_wide(sum));
        Dispersion { window_s: convert::float(self.width_us) / 1e6, windows, index }
    }
}

/// Returns the population variance from integer sums; `None` for n = 0.
fn variance(n: u64, sum: u128, squares: u128) -> Option<f64> {
    let mean = convert::float_wide(sum) / convert::float(n);
    let exact = || {
        let spread = squares.checked_mul(u128::from(n))?.checked_sub(sum.checked_mul(sum)?)?;
        Some(convert::float_wide(spread) / convert::float(n) / convert::float(n))
    };
    // Only spans of thousands of years overflow 128 bits; there the float form is good enough.
    let rounded = || convert::float_wide(squares) / convert::float(n) - mean * mean;
    (n > 0).then(|| exact().unwrap_or_else(rounded))
}

/// The arrivals of a trace, or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrivals {
    /// First arrival of the whole trace; bins and minutes count from here.
    origin: Option<WallTime>,
    n: u64,
    first: WallTime,
    last: WallTime,
    gap_squares: u128,
    zero_gaps: u64,
    max_gap_us: u64,
    windows: [WindowCounts; 4],
}

impl Arrivals {
    /// Returns an empty accumulator; without an `origin` the first arrival becomes it.
    pub(super) fn new(origin: Option<WallTime>) -> Self {
        Self {
            origin,
            n: 0,
            first: WallTime::default(),
            last: WallTime::default(),
            gap_squares: 0,
            zero_gaps: 0,
            max_gap_us: 0,
            windows: WINDOWS_S.map(|seconds| WindowCounts::new(seconds * MICROS)),
        }
    }

    /// Adds an arrival that is not before the one added last, and returns its 0-based minute from
    /// the origin. `row` is for the message.
    pub(super) fn add(&mut self, at: WallTime, row: u64) -> Result<u64, FitError> {
        if self.n == 0 {
            self.first = at;
        } else {
            let gap = span_us(self.last, at);
            self.add_gap(gap.ok_or(FitError::Unsorted { row, previous: self.last, found: at })?);
        }
        let origin = *self.origin.get_or_insert(at);
        let Some(offset_us) = span_us(origin, at) else {
            return Err(FitError::BeforeOrigin { row, origin, found: at });
        };
        self.last = at;
        self.n += 1;
        for window in &mut self.windows {
            window.add(offset_us);
        }
        Ok(offset_us / (60 * MICROS))
    }

    fn add_gap(&mut self, gap_us: u64) {
        self.gap_squares += u128::from(gap_us) * u128::from(gap_us);
        self.zero_gaps += u64::from(gap_us == 0);
        self.max_gap_us = self.max_gap_us.max(gap_us);
    }

    /// Appends the part that follows this one.
    pub(super) fn merge(&mut self, later: &Self) -> Result<(), FitError> {
        if later.n == 0 {
            return Ok(());
        }
        if self.n == 0 {
            if self.origin.is_some_and(|origin| later.origin != Some(origin)) {
                return Err(FitError::PartsDiffer { what: "starts of the trace" });
            }
            *self = later.clone();
            return Ok(());
        }
        if self.origin != later.origin {
            return Err(FitError::PartsDiffer { what: "starts of the trace" });
        }
        let overlap = FitError::PartsOverlap { ends: self.last, begins: later.first };
        self.add_gap(span_us(self.last, later.first).ok_or(overlap)?);
        self.gap_squares += later.gap_squares;
        self.zero_gaps += later.zero_gaps;
        self.max_gap_us = self.max_gap_us.max(later.max_gap_us);
        for (mine, theirs) in self.windows.iter_mut().zip(&later.windows) {
            mine.merge(theirs);
        }
        self.last = later.last;
        self.n += later.n;
        Ok(())
    }

    /// Returns the number of arrivals.
    pub(super) const fn n(&self) -> u64 {
        self.n
    }

    /// Returns the model; `None` without arrivals.
    pub(super) fn finish(&self) -> Option<ArrivalModel> {
        let gaps = self.n.checked_sub(1)?;
        let span_us = span_us(self.first, self.last)?;
        let span_s = convert::float(span_us) / 1e6;
        let mean_us = convert::float(span_us) / convert::float(gaps);
        let gap_cv = variance(gaps, u128::from(span_us), self.gap_squares)
            .filter(|_| span_us > 0)
            .map(|variance| variance.sqrt() / mean_us);
        let dispersion: Vec<Dispersion> =
            self.windows.iter().map(|window| window.finish(span_us)).collect();
        let rate_per_s = (span_us > 0).then(|| convert::float(gaps) / span_s);
        Some(ArrivalModel {
            n: self.n,
            span_s,
            rate_per_s,
            gap_cv,
            zero_gaps: self.zero_gaps,
            max_gap_s: (gaps > 0).then(|| convert::float(self.max_gap_us) / 1e6),
            sentence: sentence(gaps, gap_cv, &dispersion),
            dispersion,
        })
    }
}

/// Returns the microseconds from `earlier` to `later`; `None` when that is negative.
fn span_us(earlier: WallTime, later: WallTime) -> Option<u64> {
    u64::try_from(later.micros_since(earlier)).ok()
}

/// Returns what the arrivals mean for a Poisson replay, in words.
fn sentence(gaps: u64, gap_cv: Option<f64>, dispersion: &[Dispersion]) -> String {
    if gaps < MIN_GAPS {
        return format!("{gaps} gaps between arrivals are too few to compare with Poisson");
    }
    let Some(cv) = gap_cv else {
        return format!("all {gaps} gaps are zero: the log's clock does not tell arrivals apart");
    };
    let uneven = most_uneven(dispersion);
    let counts = uneven.map(|(window_s, index)| {
        format!("counts per {window_s} s vary {index:.1} times as much as Poisson's")
    });
    let (low, high) = POISSON_CV;
    let gaps_say = format!("gap CV {cv:.2}");
    let kinder = "a Poisson replay will be kinder than your traffic";
    if cv > high {
        let far = if cv >= FAR_BURSTIER_CV { "far burstier" } else { "burstier" };
        let counts = counts.map(|counts| format!("; {counts}")).unwrap_or_default();
        format!("{gaps_say}: {far} than Poisson (1.0); {kinder}{counts}")
    } else if let Some(counts) = counts {
        let like = if cv < low { "more even than Poisson (1.0)" } else { "near Poisson (1.0)" };
        format!("{gaps_say}: {like}, but {counts}: the rate changes with time; {kinder}")
    } else if cv < low {
        let harder = "a Poisson replay will be burstier than your traffic";
        format!("{gaps_say}: more even than Poisson (1.0); {harder}")
    } else {
        format!("{gaps_say}: near Poisson (1.0) at every window; a Poisson replay is fair")
    }
}

/// Returns the window (seconds) with the largest index of dispersion, when it is beyond what a
/// Poisson process would show: 1 + 4 standard deviations √(2/(windows − 1)), and at least 1.5.
fn most_uneven(dispersion: &[Dispersion]) -> Option<(f64, f64)> {
    let found = dispersion.iter().filter_map(|d| {
        let index = d.index?;
        let noise = (2.0 / convert::float(d.windows.saturating_sub(1))).sqrt();
        (index > 1.5 && index > 1.0 + 4.0 * noise).then_some((d.window_s, index))
    });
    found.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::seed::Seed;
    use proptest::prelude::*;
    use rand_distr::Distribution;

    fn folded(origin: Option<WallTime>, micros: &[i64]) -> Arrivals {
        let mut arrivals = Arrivals::new(origin);
        for (row, &at) in micros.iter().enumerate() {
            arrivals.add(WallTime(at), convert::count(row) + 1).unwrap();
        }
        arrivals
    }

    #[test]
    fn no_and_one_and_simultaneous_arrivals() {
        assert!(Arrivals::new(None).finish().is_none());
        let one = folded(None, &[-5]).finish().unwrap();
        assert_eq!((one.n, one.rate_per_s, one.gap_cv, one.max_gap_s), (1, None, None, None));
        let two = folded(None, &[7, 7]).finish().unwrap();
        assert_eq!((two.zero_gaps, two.rate_per_s, two.gap_cv), (1, None, None));
        assert_eq!(two.max_gap_s, Some(0.0));
    }

    #[test]
    fn bins_on_paper() {
        // Arrivals at 0, 0.5, 1, 2.9 and 4 s. Whole 1 s bins before the end: 2, 1, 1, 0 (the
        // arrival at 4 s opens a bin that is dropped). Mean 1, variance ½.
        let model = folded(None, &[0, 500_000, 1_000_000, 2_900_000, 4_000_000]).finish().unwrap();
        assert_eq!(model.dispersion[0], Dispersion { window_s: 1.0, windows: 4, index: Some(0.5) });
        assert_eq!(model.dispersion[1], Dispersion { window_s: 10.0, windows: 0, index: None });
        assert_eq!(model.rate_per_s, Some(1.0));
        // Gaps .5, .5, 1.9, 1.1: mean 1, variance (.25 + .25 + .81 + .01)/4 = .33.
        assert!((model.gap_cv.unwrap() - 0.33f64.sqrt()).abs() < 1e-12);
        assert_eq!(model.max_gap_s, Some(1.9));
    }

    #[test]
    fn order_and_origin_are_checked() {
        let mut arrivals = folded(Some(WallTime(10)), &[20]);
        let unsorted = arrivals.add(WallTime(19), 2);
        assert!(matches!(unsorted, Err(FitError::Unsorted { row: 2, .. })), "{unsorted:?}");
        let early = folded(Some(WallTime(10)), &[]).add(WallTime(9), 1);
        assert!(matches!(early, Err(FitError::BeforeOrigin { row: 1, .. })), "{early:?}");
        let overlap = arrivals.merge(&folded(Some(WallTime(10)), &[15]));
        assert!(matches!(overlap, Err(FitError::PartsOverlap { .. })), "{overlap:?}");
        let differs = arrivals.merge(&folded(None, &[30]));
        assert!(matches!(differs, Err(FitError::PartsDiffer { .. })), "{differs:?}");
    }

    #[test]
    fn spans_beyond_any_calendar_do_not_overflow() {
        let model = folded(None, &[0, 1, i64::MAX]).finish().unwrap();
        assert!((model.gap_cv.unwrap() - 1.0).abs() < 1e-9, "one gap has it all: {model:?}");
        let many = variance(u64::MAX, u128::MAX / 4, u128::MAX / 2).unwrap();
        assert!(many.is_finite());
    }

    #[test]
    fn a_poisson_process_is_called_fair() {
        // CV of n = 20,000 exponential gaps: 1 with standard error 1/√n = 0.007; the index in
        // 2,000 windows of 1 s: 1 ± 0.032. Both stay far inside the limits of the words.
        let mut stream = Seed(3).stream("arrivals-test");
        let mut at = 0.0;
        let mut micros = Vec::new();
        for _ in 0..20_000 {
            let gap: f64 = rand_distr::Exp1.sample(&mut stream);
            at += gap * 1e5;
            micros.push(i64::try_from(convert::round_to_u64(at)).unwrap());
        }
        let model = folded(None, &micros).finish().unwrap();
        assert!((model.gap_cv.unwrap() - 1.0).abs() < 0.03, "{model:?}");
        assert!((model.dispersion[0].index.unwrap() - 1.0).abs() < 0.13, "{model:?}");
        assert!(model.sentence.ends_with("a Poisson replay is fair"), "{}", model.sentence);
    }

    #[test]
    fn sentences() {
        let say = |cv, index| {
            sentence(9_999, Some(cv), &[Dispersion { window_s: 60.0, windows: 200, index }])
        };
        let shown = [
            say(13.2, Some(164.0)),
            say(1.5, None),
            say(1.05, Some(16.0)),
            say(0.5, None),
            say(1.0, Some(1.4)),
            sentence(29, Some(2.0), &[]),
            sentence(30, None, &[]),
        ];
        insta::assert_snapshot!(shown.join("\n"), @r#"
        gap CV 13.20: far burstier than Poisson (1.0); a Poisson replay will be kinder than your traffic; counts per 60 s vary 164.0 times as much as Poisson's
        gap CV 1.50: burstier than Poisson (1.0); a Poisson replay will be kinder than your traffic
        gap CV 1.05: near Poisson (1.0), but counts per 60 s vary 16.0 times as much as Poisson's: the rate changes with time; a Poisson replay will be kinder than your traffic
        gap CV 0.50: more even than Poisson (1.0); a Poisson replay will be burstier than your traffic
        gap CV 1.00: near Poisson (1.0) at every window; a Poisson replay is fair
        29 gaps between arrivals are too few to compare with Poisson
        all 30 gaps are zero: the log's clock does not tell arrivals apart
        "#);
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole(
            gaps in proptest::collection::vec(prop_oneof![Just(0i64), 0i64..2_000_000, 0i64..700_000_000], 1..80),
            cuts in (0usize..80, 0usize..80),
        ) {
            let mut at = 1_700_000_000_000_000;
            let micros: Vec<i64> = gaps.iter().map(|gap| { at += gap; at }).collect();
            let origin = Some(WallTime(micros[0]));
            let (a, b) = (cuts.0.min(cuts.1).min(micros.len()), cuts.0.max(cuts.1).min(micros.len()));
            let mut merged = folded(origin, &micros[..a]);
            let mut rest = folded(origin, &micros[a..b]);
            rest.merge(&folded(origin, &micros[b..])).unwrap();
            merged.merge(&rest).unwrap();
            let whole = folded(None, &micros);
            prop_assert_eq!(&merged, &whole);
            prop_assert_eq!(merged.finish(), whole.finish());
        }
    }
}
