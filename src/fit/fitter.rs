//! The one pass over a trace: which row enters which fit, and the model at the end.
//!
//! `RequestRecord`s in arrival order go in, a `WorkloadModel` comes out. Rows that failed keep
//! their arrival but not their lengths; an unknown end is taken as good; lengths of zero or
//! without a count are counted, not fitted; an answer cut by its limit or by the client is known
//! only as "longer than this". Embeddings and rerankings are counted and in no fit. Answers from a gateway's cache stay in and are counted. Draws
//! nothing, reads no clock, keeps no row.

use super::arrivals::Arrivals;
use super::error::FitError;
use super::lengths::LengthTables;
use super::mix::MixCounts;
use crate::domain::convert;
use crate::domain::limits;
use crate::domain::record::{ArrivalSource, CacheStatus, RequestRecord, Status, TokenSource};
use crate::domain::time::WallTime;
use crate::domain::workload::{
    ArrivalModel, Family, FitMethod, LengthFit, LengthModel, MODEL_SCHEMA_VERSION, RowCounts,
    Verdict, WorkloadModel,
};

/// What the user decides about a fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitOptions {
    /// An input of more tokens than this is a long context.
    pub long_context_tokens: u32,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { long_context_tokens: limits::LONG_CONTEXT_TOKENS }
    }
}

/// Rows that a reader of the model must know of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Remarks {
    cache_hits: u64,
    /// Arrivals that are ends, or may be.
    doubtful_arrivals: u64,
    estimated_tokens: u64,
}

/// Folds the rows of a trace into a workload model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitter {
    options: FitOptions,
    rows: RowCounts,
    input: LengthTables,
    output: LengthTables,
    arrivals: Arrivals,
    mix: MixCounts,
    remarks: Remarks,
}

impl Fitter {
    /// Returns a fitter for a whole trace, or for its first part.
    pub fn new(options: FitOptions) -> Self {
        Self::with_origin(options, None)
    }

    /// Returns a fitter for a later part of a trace whose first arrival is `origin`: windows and
    /// minutes are counted from there, so that parts merge exactly.
    pub fn for_part(options: FitOptions, origin: WallTime) -> Self {
        Self::with_origin(options, Some(origin))
    }

    fn with_origin(options: FitOptions, origin: Option<WallTime>) -> Self {
        Self {
            options,
            rows: RowCounts::default(),
            input: LengthTables::default(),
            output: LengthTables::default(),
            arrivals: Arrivals::new(origin),
            mix: MixCounts::default(),
            remarks: Remarks::default(),
        }
    }

    /// Adds one row.
    ///
    /// # Errors
    ///
    /// When it arrives before the row added last, or before the origin of a part.
    pub fn add(&mut self, record: &RequestRecord) -> Result<(), FitError> {
        let row = self.rows.total + 1;
        if !record.is_generation() {
            self.rows.total = row;
            self.rows.not_generation += 1;
            return Ok(());
        }
        let minute = match record.arrival_time {
            Some(at) => Some(self.arrivals.add(at, row)?),
            None => None,
        };
        self.rows.total = row;
        self.rows.with_arrival = self.arrivals.n();
        self.rows.with_ending += u64::from(record.shows_if_cut());
        match record.status {
            Status::Ok => self.rows.ok += 1,
            Status::Cancelled => self.rows.cancelled += 1,
            Status::Unknown => self.rows.unknown_status += 1,
            Status::Error | Status::Timeout | Status::RateLimited => self.rows.failed += 1,
        }
        if !record.status.is_failure() {
            self.input.add(record.input_tokens, false, minute);
            self.output.add(record.output_tokens, record.output_is_censored(), minute);
        }
        self.mix.add(record, self.options.long_context_tokens);
        self.remark(record);
        Ok(())
    }

    fn remark(&mut self, record: &RequestRecord) {
        let hit = matches!(record.cache_status, Some(CacheStatus::Hit | CacheStatus::SemanticHit));
        self.remarks.cache_hits += u64::from(hit);
        let doubtful = matches!(
            record.arrival_source,
            ArrivalSource::EndOnly | ArrivalSource::UnknownStartOrEnd
        );
        self.remarks.doubtful_arrivals += u64::from(doubtful);
        let estimated = [record.input_token_source, record.output_token_source]
            .iter()
            .any(|s| matches!(s, TokenSource::GatewayEstimate | TokenSource::BytesEstimate));
        self.remarks.estimated_tokens += u64::from(estimated);
    }

    /// Appends the part of the trace that follows this one; equal to one fitter over both.
    ///
    /// # Errors
    ///
    /// When the parts overlap in time, or differ in options or origin. The parts are then
    /// unchanged.
    pub fn merge(&mut self, later: &Self) -> Result<(), FitError> {
        if self.options != later.options {
            return Err(FitError::PartsDiffer { what: "options" });
        }
        self.arrivals.merge(&later.arrivals)?;
        self.rows.total += later.rows.total;
        self.rows.with_arrival += later.rows.with_arrival;
        self.rows.ok += later.rows.ok;
        self.rows.failed += later.rows.failed;
        self.rows.cancelled += later.rows.cancelled;
        self.rows.unknown_status += later.rows.unknown_status;
        self.rows.not_generation += later.rows.not_generation;
        self.rows.with_ending += later.rows.with_ending;
        self.input.merge(&later.input);
        self.output.merge(&later.output);
        self.mix.merge(&later.mix);
        self.remarks.cache_hits += later.remarks.cache_hits;
        self.remarks.doubtful_arrivals += later.remarks.doubtful_arrivals;
        self.remarks.estimated_tokens += later.remarks.estimated_tokens;
        Ok(())
    }

    /// Returns the model of all rows added.
    ///
    /// # Errors
    ///
    /// When there are no rows, or none of them has a length above zero to fit.
    pub fn finish(
        &self,
        tool_version: &str,
        trace_digest: Option<String>,
    ) -> Result<WorkloadModel, FitError> {
        if self.rows.total == 0 {
            return Err(FitError::NoRows);
        }
        if self.input.n() == 0 && self.output.n() == 0 {
            return Err(FitError::NoLengths {
                rows: self.rows.total,
                failed: self.rows.failed,
                no_input: self.input.without(),
                no_output: self.output.without(),
            });
        }
        let input_tokens = self.input.finish("input_tokens", Family::Lognormal);
        let output_tokens = self.output.finish("output_tokens", Family::Exponential);
        let arrivals = self.arrivals.finish();
        let warnings = self.warnings([&input_tokens, &output_tokens], arrivals.as_ref());
        Ok(WorkloadModel {
            schema_version: MODEL_SCHEMA_VERSION,
            tool_version: tool_version.to_owned(),
            trace_digest,
            rows: self.rows.clone(),
            input_tokens,
            output_tokens,
            arrivals,
            mix: self.mix.finish(self.options.long_context_tokens),
            warnings,
        })
    }

    fn warnings(&self, lengths: [&LengthModel; 2], arrivals: Option<&ArrivalModel>) -> Vec<String> {
        let [input, output] = lengths;
        let mut warnings: Vec<String> = [(input, Family::Lognormal), (output, Family::Exponential)]
            .iter()
            .flat_map(|&(length, classic)| length_warnings(length, classic))
            .collect();
        match arrivals {
            None => warnings.push(
                "no row has an arrival time: nothing is known of arrivals, and a recorded replay is impossible"
                    .to_owned(),
            ),
            Some(arrivals) => warnings.extend(arrival_warnings(arrivals)),
        }
        let mut remark = |count: u64, text: &str| {
            if count > 0 {
                warnings.push(format!("{count} of {} rows {text}", self.rows.total));
            }
        };
        let untimed = arrivals
            .map_or(0, |_| self.rows.total - self.rows.not_generation - self.rows.with_arrival);
        remark(untimed, "have no arrival time; they are in the lengths only");
        remark(
            self.remarks.doubtful_arrivals,
            "have the time of their end, or of an unstated instant, as arrival",
        );
        remark(
            self.remarks.cache_hits,
            "were answered by the gateway's cache; they are in the fits, though no engine saw them",
        );
        remark(self.remarks.estimated_tokens, "have token counts that are only estimates");
        remark(
            self.mix.heuristic_rag(),
            "look like RAG by a rule of thumb only; they are not counted as RAG",
        );
        warnings
    }
}

/// Returns what a reader must know of one length.
fn length_warnings(length: &LengthModel, classic: Family) -> Vec<String> {
    let mut warnings = Vec::new();
    let field = &length.field;
    if length.n == 0 {
        warnings.push(format!("no row has {field} above zero: nothing was fitted"));
        return warnings;
    }
    match length.fit(classic, FitMethod::Discrete) {
        None => warnings.push(format!(
            "{classic} could not be fitted to {field}: all lengths are equal, or too few ended by themselves"
        )),
        Some(fit) => match fit.verdict {
            Verdict::DoesNotFit => warnings.push(format!(
                "{field}: the {classic} that `classic` plans draw from does not fit{}; such plans will be off, use `--mode recorded`",
                distance_in_words(fit)
            )),
            Verdict::TooFew => warnings.push(format!(
                "{field}: {} lengths are too few to judge a fit",
                length.n - length.censored
            )),
            Verdict::Rough | Verdict::Close | Verdict::Indistinguishable => {}
        },
    }
    if length.censored > 0 {
        let share = 100.0 * convert::float(length.censored) / convert::float(length.n);
        warnings.push(format!(
            "{} of {} {field} ({share:.1} %) were cut by a limit or the client; the discrete fits are of natural lengths, measured quantiles are of logged ones",
            length.censored, length.n
        ));
    }
    warnings
}

/// Returns ` (D 0.107, W1 45 % of the mean)`.
fn distance_in_words(fit: &LengthFit) -> String {
    let (Some(d), Some(w1)) = (fit.ks_d, fit.w1_over_mean) else { return String::new() };
    format!(" (D {d:.3}, W1 {:.0} % of the mean)", 100.0 * w1)
}

/// Returns what a reader must know of the arrivals.
fn arrival_warnings(arrivals: &ArrivalModel) -> Vec<String> {
    let gaps = arrivals.n.saturating_sub(1);
    // Ties of this many gaps come from a clock that ticks, not from users.
    let ticks = gaps >= 30 && convert::float(arrivals.zero_gaps) > 0.3 * convert::float(gaps);
    let text = format!(
        "{} of {gaps} gaps are exactly zero: the log's clock is coarse, and gap CV and short windows overstate bursts",
        arrivals.zero_gaps
    );
    ticks.then_some(text).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::Hash128;
    use proptest::prelude::*;

    fn row(at: Option<i64>, input: Option<u32>, output: Option<u32>) -> RequestRecord {
        let mut record = RequestRecord::unknown("test".into(), 0, 1);
        record.arrival_time = at.map(WallTime);
        record.input_tokens = input;
        record.output_tokens = output;
        record.status = Status::Ok;
        record
    }

    fn fitted(rows: &[RequestRecord]) -> Fitter {
        let mut fitter = Fitter::new(FitOptions::default());
        for row in rows {
            fitter.add(row).unwrap();
        }
        fitter
    }

    #[test]
    fn nothing_to_fit_is_an_error() {
        let empty = Fitter::new(FitOptions::default()).finish("0", None);
        assert_eq!(empty, Err(FitError::NoRows));
        let failed = RequestRecord { status: Status::Error, ..row(None, Some(5), Some(5)) };
        let rows = [row(None, Some(0), None), row(None, None, Some(0)), failed];
        let found = fitted(&rows).finish("0", None);
        let want = FitError::NoLengths { rows: 3, failed: 1, no_input: 2, no_output: 2 };
        assert_eq!(found, Err(want));
    }

    #[test]
    fn every_row_is_accounted_for() {
        let with = |status, reason: &str| RequestRecord {
            status,
            finish_reasons: vec![reason.into()],
            ..row(Some(0), Some(7), Some(9))
        };
        let rows = [
            with(Status::Ok, "stop"),
            with(Status::Ok, "length"),
            with(Status::Cancelled, ""),
            with(Status::Unknown, "stop"),
            with(Status::Timeout, "stop"),
            with(Status::RateLimited, "stop"),
            row(None, Some(0), None),
        ];
        let model = fitted(&rows).finish("0", None).unwrap();
        let counts = &model.rows;
        assert_eq!((counts.total, counts.with_arrival), (7, 6));
        assert_eq!(
            counts.total,
            counts.ok + counts.failed + counts.cancelled + counts.unknown_status
        );
        let output = &model.output_tokens;
        assert_eq!((output.n, output.censored, output.missing, output.zero), (4, 2, 1, 0));
        let input = &model.input_tokens;
        assert_eq!((input.n, input.censored, input.missing, input.zero), (4, 0, 0, 1));
        for length in [input, output] {
            assert_eq!(length.n + length.zero + length.missing + counts.failed, counts.total);
        }
        assert!(input.fit(Family::Lognormal, FitMethod::Discrete).is_none(), "all equal");
        assert!(input.fit(Family::Exponential, FitMethod::Discrete).is_some());
    }

    #[test]
    fn embeddings_are_counted_and_in_no_fit() {
        let mut rows = vec![row(Some(0), Some(7), Some(9)), row(Some(5), Some(900), None)];
        let without = fitted(&rows[..1]).finish("0", None).unwrap();
        rows[1].operation = crate::domain::record::Operation::Embeddings;
        let mut model = fitted(&rows).finish("0", None).unwrap();
        assert_eq!((model.rows.total, model.rows.not_generation), (2, 1));
        assert_eq!((model.rows.ok, model.rows.with_arrival), (1, 1));
        model.rows = without.rows.clone();
        assert_eq!(model, without);
    }

    #[test]
    fn an_output_at_its_limit_is_cut() {
        let limited = |limit| RequestRecord { max_tokens: limit, ..row(None, Some(7), Some(9)) };
        let rows = [limited(Some(9)), limited(Some(8)), limited(Some(10)), limited(None)];
        let model = fitted(&rows).finish("0", None).unwrap();
        assert_eq!((model.output_tokens.censored, model.rows.with_ending), (2, 3));
    }

    #[test]
    fn warnings_say_what_a_reader_must_know() {
        let mut rows: Vec<_> = (0..200)
            .map(|i| row(Some(i / 50), Some(if i % 2 == 0 { 10 } else { 9_000 }), Some(7)))
            .collect();
        rows[0].cache_status = Some(CacheStatus::Hit);
        rows[1].input_token_source = TokenSource::BytesEstimate;
        rows[2].arrival_source = ArrivalSource::EndOnly;
        rows[3].status = Status::Cancelled;
        rows.push(row(None, Some(10), None));
        let model = fitted(&rows).finish("0", None).unwrap();
        insta::assert_snapshot!(model.warnings.join("\n"), @r#"
        input_tokens: the lognormal that `classic` plans draw from does not fit (D 0.340, W1 145 % of the mean); such plans will be off, use `--mode recorded`
        output_tokens: the exponential that `classic` plans draw from does not fit (D 0.601, W1 34 % of the mean); such plans will be off, use `--mode recorded`
        1 of 200 output_tokens (0.5 %) were cut by a limit or the client; the discrete fits are of natural lengths, measured quantiles are of logged ones
        196 of 199 gaps are exactly zero: the log's clock is coarse, and gap CV and short windows overstate bursts
        1 of 201 rows have no arrival time; they are in the lengths only
        1 of 201 rows have the time of their end, or of an unstated instant, as arrival
        1 of 201 rows were answered by the gateway's cache; they are in the fits, though no engine saw them
        1 of 201 rows have token counts that are only estimates
        "#);
        let untimed = fitted(&[row(None, None, Some(3))]).finish("0", None).unwrap();
        insta::assert_snapshot!(untimed.warnings.join("\n"), @r#"
        no row has input_tokens above zero: nothing was fitted
        output_tokens: 1 lengths are too few to judge a fit
        no row has an arrival time: nothing is known of arrivals, and a recorded replay is impossible
        "#);
        assert!(untimed.arrivals.is_none());
    }

    #[test]
    fn an_unsorted_trace_is_refused() {
        let mut fitter = fitted(&[row(Some(9), Some(1), Some(1))]);
        let before = fitter.clone();
        let found = fitter.add(&row(Some(8), Some(1), Some(1)));
        assert!(matches!(found, Err(FitError::Unsorted { row: 2, .. })), "{found:?}");
        assert_eq!(fitter, before, "a refused row leaves no trace");
    }

    #[test]
    fn parts_with_other_options_do_not_merge() {
        let other = Fitter::new(FitOptions { long_context_tokens: 1 });
        let found = fitted(&[]).merge(&other);
        assert_eq!(found, Err(FitError::PartsDiffer { what: "options" }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn parts_merge_to_the_whole(
            raw in proptest::collection::vec(
                (0i64..90_000_000, 0u32..50, 0u32..2_000, 0usize..6, 0u8..9), 1..60),
            cut in 0usize..60,
        ) {
            let mut at = 0;
            let rows: Vec<RequestRecord> = raw.iter().map(|&(gap, input, output, status, session)| {
                at += gap;
                let mut record = row(Some(at), Some(input + 1), Some(output));
                record.status = Status::ALL[status];
                record.session_id_hash = (session > 0).then_some(Hash128([session; 16]));
                record
            }).collect();
            let cut = cut.min(rows.len());
            let mut merged = fitted(&rows[..cut]);
            let mut rest = Fitter::for_part(FitOptions::default(), rows[0].arrival_time.unwrap());
            for row in &rows[cut..] {
                rest.add(row).unwrap();
            }
            merged.merge(&rest).unwrap();
            let whole = fitted(&rows);
            prop_assert_eq!(&merged, &whole);
            prop_assert_eq!(merged.finish("0", None), whole.finish("0", None));
        }
    }
}
