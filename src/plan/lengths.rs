//! First pass over a trace: its span, and a sample of lengths to draw unknown ones from.
//!
//! Failed rows and rows without counts keep their arrival in a plan, so they need lengths. These
//! are drawn from rows of the same kind that logged both, near the length that is known, so that
//! inputs and outputs stay as dependent as they were logged. The sample is a reservoir (Vitter's
//! algorithm R) of at most `RESERVOIR` rows a kind over the whole trace, so memory is bounded.
//! `single` and `long_output` are one kind here: what tells them apart is the unknown length.

use crate::domain::convert;
use crate::domain::record::{RequestRecord, Status};
use crate::domain::scenario::Scenario;
use crate::domain::seed::{Seed, Stream};
use crate::domain::time::WallTime;
use rand::RngExt;

/// Rows kept a kind: the 99th percentile of the sample then rests on 40 rows.
const RESERVOIR: usize = 4_096;
/// Rows on each side of the known length among which one is drawn.
const NEIGHBOURS: usize = 16;
/// Kinds of rows, and a last place for all of them together.
const KINDS: usize = 5;
/// The place that holds rows of every kind.
const ALL_KINDS: usize = KINDS - 1;

/// The logged lengths of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    input: u32,
    output: u32,
}

#[derive(Debug)]
struct Reservoir {
    pairs: Vec<Pair>,
    seen: u64,
    rng: Stream,
}

impl Reservoir {
    fn add(&mut self, pair: Pair) {
        self.seen += 1;
        if self.pairs.len() < RESERVOIR {
            self.pairs.push(pair);
            return;
        }
        let at = convert::index(self.rng.random_range(0..self.seen));
        if let Some(kept) = at.and_then(|at| self.pairs.get_mut(at)) {
            *kept = pair;
        }
    }
}

/// What the first pass over a trace learns.
#[derive(Debug)]
pub struct TraceScan {
    /// Rows of the trace.
    pub rows: u64,
    /// First and last arrival; `None` when no row has one.
    pub span: Option<(WallTime, WallTime)>,
    kinds: Vec<Reservoir>,
    seed: Seed,
}

impl TraceScan {
    /// Starts a scan whose sample is drawn by `seed`.
    pub fn new(seed: Seed) -> Self {
        let kind = |index| {
            let rng = seed.stream_of("recorded_lengths_sample", index);
            Reservoir { pairs: Vec::new(), seen: 0, rng }
        };
        Self { rows: 0, span: None, kinds: (0..KINDS as u64).map(kind).collect(), seed }
    }

    /// Adds one row of the trace; rows come in the order of the trace.
    pub fn add(&mut self, record: &RequestRecord) {
        self.rows += 1;
        if let Some(at) = record.arrival_time {
            let (first, last) = self.span.unwrap_or((at, at));
            self.span = Some((first.min(at), last.max(at)));
        }
        let complete = matches!(record.status, Status::Ok | Status::Unknown);
        if let (true, Some(input), Some(output)) = (complete, input(record), output(record)) {
            for place in [place(record.scenario), ALL_KINDS] {
                if let Some(kind) = self.kinds.get_mut(place) {
                    kind.add(Pair { input, output });
                }
            }
        }
    }

    /// Ends the scan.
    pub(super) fn into_lengths(self) -> Lengths {
        let sorted = |mut pairs: Vec<Pair>, key: fn(&Pair) -> u32| {
            pairs.sort_by_key(key);
            pairs
        };
        let kinds = self.kinds.into_iter().map(|kind| Kind {
            by_input: sorted(kind.pairs.clone(), |pair| pair.input),
            by_output: sorted(kind.pairs, |pair| pair.output),
        });
        Lengths { kinds: kinds.collect(), rng: self.seed.stream("recorded_lengths") }
    }
}

/// Returns the known input of a row; a logged 0 is no length that a request can have.
pub(super) fn input(record: &RequestRecord) -> Option<u32> {
    record.input_tokens.filter(|&tokens| tokens > 0)
}

/// Returns the known output of a row; 0 stands for a failure or an unknown.
pub(super) fn output(record: &RequestRecord) -> Option<u32> {
    record.output_tokens.filter(|&tokens| tokens > 0)
}

const fn place(scenario: Scenario) -> usize {
    match scenario {
        Scenario::Single | Scenario::LongOutput => 0,
        Scenario::MultiTurn => 1,
        Scenario::Rag => 2,
        Scenario::Agent => 3,
    }
}

#[derive(Debug)]
struct Kind {
    by_input: Vec<Pair>,
    by_output: Vec<Pair>,
}

/// Draws lengths that the trace does not know.
#[derive(Debug)]
pub(super) struct Lengths {
    kinds: Vec<Kind>,
    rng: Stream,
}

impl Lengths {
    /// Returns an output length for a row of `scenario` with this input.
    pub(super) fn draw_output(&mut self, scenario: Scenario, input: u32) -> Option<u32> {
        let Self { kinds, rng } = self;
        let pairs = choose(kinds, scenario, |kind| &kind.by_input)?;
        near(pairs, input, |pair| pair.input, rng).map(|pair| pair.output)
    }

    /// Returns an input length for a row of `scenario` with this output.
    pub(super) fn draw_input(&mut self, scenario: Scenario, output: u32) -> Option<u32> {
        let Self { kinds, rng } = self;
        let pairs = choose(kinds, scenario, |kind| &kind.by_output)?;
        near(pairs, output, |pair| pair.output, rng).map(|pair| pair.input)
    }

    /// Returns both lengths of one row of `scenario`.
    pub(super) fn draw_both(&mut self, scenario: Scenario) -> Option<(u32, u32)> {
        let Self { kinds, rng } = self;
        let pairs = choose(kinds, scenario, |kind| &kind.by_input)?;
        pairs.get(rng.random_range(0..pairs.len())).map(|pair| (pair.input, pair.output))
    }
}

/// Returns the rows of the scenario's kind, those of all kinds when it has none.
fn choose<'k>(
    kinds: &'k [Kind],
    scenario: Scenario,
    side: impl Fn(&'k Kind) -> &'k Vec<Pair>,
) -> Option<&'k [Pair]> {
    [place(scenario), ALL_KINDS]
        .into_iter()
        .filter_map(|place| kinds.get(place))
        .map(|kind| &side(kind)[..])
        .find(|pairs| !pairs.is_empty())
}

/// Draws one of the rows whose `key` is `value`, or of the [`NEIGHBOURS`] on each side of them.
fn near(pairs: &[Pair], value: u32, key: fn(&Pair) -> u32, rng: &mut Stream) -> Option<Pair> {
    let below = pairs.partition_point(|pair| key(pair) < value);
    let up_to = pairs.partition_point(|pair| key(pair) <= value);
    let range = below.saturating_sub(NEIGHBOURS)..pairs.len().min(up_to + NEIGHBOURS);
    pairs.get(rng.random_range(range)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::record;

    fn scanned(records: &[RequestRecord]) -> TraceScan {
        let mut scan = TraceScan::new(Seed(1));
        for record in records {
            scan.add(record);
        }
        scan
    }

    #[test]
    fn nothing_to_draw_from_is_none() {
        let failed = RequestRecord { status: Status::Error, ..record(0, 5, 5) };
        let scan = scanned(&[failed, record(1, 0, 7), record(2, 7, 0)]);
        assert_eq!((scan.rows, scan.span), (3, Some((WallTime(0), WallTime(2)))));
        let mut lengths = scan.into_lengths();
        assert_eq!(lengths.draw_both(Scenario::Single), None);
        assert_eq!(lengths.draw_output(Scenario::Single, 4), None);
        assert_eq!(lengths.draw_input(Scenario::Single, 4), None);
    }

    #[test]
    fn drawn_lengths_keep_the_dependence() {
        // Output is ten times the input, so a drawn output must be near ten times the known one.
        let records: Vec<_> = (1..2_000).map(|n| record(i64::from(n), n, 10 * n)).collect();
        let mut lengths = scanned(&records).into_lengths();
        for known in [1, 500, 1_999, 5_000] {
            let center = known.min(1_999);
            let output = lengths.draw_output(Scenario::Single, known).unwrap();
            assert!(output.abs_diff(10 * center) <= 160, "{known}: {output}");
            let input = lengths.draw_input(Scenario::Single, 10 * known).unwrap();
            assert!(input.abs_diff(center) <= 16, "{known}: {input}");
        }
        let (input, output) = lengths.draw_both(Scenario::LongOutput).unwrap();
        assert_eq!(output, 10 * input);
    }

    #[test]
    fn another_kind_serves_only_where_the_own_one_is_empty() {
        let rag = RequestRecord { scenario: Scenario::Rag, ..record(0, 900, 90) };
        let mut lengths = scanned(&[rag, record(1, 5, 50)]).into_lengths();
        assert_eq!(lengths.draw_output(Scenario::Rag, 5), Some(90));
        assert_eq!(lengths.draw_output(Scenario::Single, 900), Some(50));
        assert!(lengths.draw_output(Scenario::Agent, 900).is_some());
    }

    #[test]
    fn the_sample_is_bounded_and_fair() {
        let n = 20_000;
        let records: Vec<_> = (1..=n).map(|n| record(i64::from(n), n, n)).collect();
        let lengths = scanned(&records).into_lengths();
        let kept = &lengths.kinds[0].by_input;
        assert_eq!(kept.len(), RESERVOIR);
        // The mean of 4,096 of 20,000 has a standard error of about 81 (5,774/64 · √0.795);
        // four of them are passed with a probability below 0.01 %.
        let mean = kept.iter().map(|pair| u64::from(pair.input)).sum::<u64>() / 4_096;
        assert!(mean.abs_diff(10_000) < 330, "{mean}");
    }
}
