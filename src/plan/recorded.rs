//! Keeps a trace's own timestamps and lengths.
//!
//! Trace rows in arrival order, batch by batch → planned requests. The first planned row leaves
//! at offset 0; each other one at `(arrival − origin) / speed`, in exact integer arithmetic. The
//! window is `from <= arrival < to`. Every row that is not planned is counted by reason: no row
//! is dropped silently. Recorded turns of a session leave at their own time (planned history).
//! What this does not do: sample, smooth, or rebuild shared prefixes in the prompts' text.

use super::assign::Assigner;
use super::error::PlanError;
use super::lengths::{self, Lengths, TraceScan};
use super::options::RecordedOptions;
use crate::domain::convert;
use crate::domain::record::{CacheStatus, Flag, Hash128, Operation, RequestRecord};
use crate::domain::scenario::{LONG_OUTPUT_TOKENS, Scenario};
use crate::domain::schedule::{CountKind, PlanCounts, Release, ScheduledRequest};
use crate::domain::time::WallTime;
use std::collections::HashMap;
use std::hash::Hash;

/// What is known once every row has been planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Where every row went.
    pub counts: PlanCounts,
    /// Arrival of the first planned row.
    pub origin: WallTime,
}

/// Plans a trace as it was recorded.
#[derive(Debug)]
pub struct RecordedPlanner<'p> {
    options: RecordedOptions,
    window: (Option<WallTime>, Option<WallTime>),
    span: (WallTime, WallTime),
    lengths: Lengths,
    assigner: Assigner<'p>,
    sessions: Renumber<Hash128>,
    blocks: Renumber<u64>,
    counts: PlanCounts,
    origin: Option<WallTime>,
    last_arrival: Option<WallTime>,
}

impl<'p> RecordedPlanner<'p> {
    /// Starts a plan of the trace that `scan` has seen in full.
    ///
    /// # Errors
    ///
    /// When the trace is empty or has no times, or the window ends before it starts.
    pub fn new(
        scan: TraceScan,
        options: RecordedOptions,
        assigner: Assigner<'p>,
    ) -> Result<Self, PlanError> {
        if scan.rows == 0 {
            return Err(PlanError::EmptyTrace);
        }
        let span = scan.span.ok_or(PlanError::NoTimes { rows: scan.rows })?;
        let edge = |edge: Option<super::options::Edge>| edge.map(|edge| edge.instant(span.0));
        let window = (edge(options.from), edge(options.to));
        if let (Some(from), Some(to)) = window
            && to <= from
        {
            return Err(PlanError::BackwardWindow { from, to });
        }
        Ok(Self {
            options,
            window,
            span,
            lengths: scan.into_lengths(),
            assigner,
            sessions: Renumber::default(),
            blocks: Renumber::default(),
            counts: PlanCounts::default(),
            origin: None,
            last_arrival: None,
        })
    }

    /// Plans the next rows of the trace.
    ///
    /// # Errors
    ///
    /// When rows are not in arrival order, a length can be neither read nor drawn, or an offset
    /// does not fit into 64 bits.
    pub fn plan(&mut self, records: &[RequestRecord]) -> Result<Vec<ScheduledRequest>, PlanError> {
        let mut planned = Vec::with_capacity(records.len());
        for record in records {
            if let Some(arrival) = self.select(record)? {
                planned.push(self.schedule(record, arrival)?);
            }
        }
        Ok(planned)
    }

    /// Ends the plan.
    ///
    /// # Errors
    ///
    /// When no row was left to plan.
    pub fn finish(self) -> Result<Recorded, PlanError> {
        debug_assert!(self.counts.add_up(), "a row is counted twice or not at all");
        let (first, last) = self.span;
        let rows = self.counts.source_rows;
        let origin = self.origin.ok_or(PlanError::NothingSelected { rows, first, last })?;
        Ok(Recorded { counts: self.counts, origin })
    }

    /// Returns the arrival of a row that is planned; any other row is counted by its reason.
    fn select(&mut self, record: &RequestRecord) -> Result<Option<WallTime>, PlanError> {
        let row = self.counts.source_rows;
        self.counts.source_rows += 1;
        let Some(arrival) = record.arrival_time else {
            self.counts.without_arrival += 1;
            return Ok(None);
        };
        if self.last_arrival.is_some_and(|last| arrival < last) {
            return Err(PlanError::NotSorted { row });
        }
        self.last_arrival = Some(arrival);
        let (from, to) = self.window;
        let reason = if from.is_some_and(|from| arrival < from)
            || to.is_some_and(|to| arrival >= to)
        {
            &mut self.counts.outside_window
        } else if !self.options.keep_cache_hits && answered_from_cache(record) {
            &mut self.counts.cache_hits
        } else if matches!(record.operation, Operation::Embeddings | Operation::Rerank) {
            &mut self.counts.not_generation
        } else if self.options.common.num_requests.is_some_and(|cap| self.counts.planned >= cap) {
            &mut self.counts.not_selected
        } else {
            return Ok(Some(arrival));
        };
        *reason += 1;
        Ok(None)
    }

    fn schedule(
        &mut self,
        record: &RequestRecord,
        arrival: WallTime,
    ) -> Result<ScheduledRequest, PlanError> {
        let request_id = self.counts.planned;
        let origin = *self.origin.get_or_insert(arrival);
        let gap_us = u64::try_from(arrival.micros_since(origin)).unwrap_or(0);
        let offset = self.options.speed.offset(gap_us).ok_or(PlanError::TooSlow { request_id })?;
        let (input, output) = self.known_or_drawn(record)?;
        let scenario = match record.scenario {
            // The classifier's last rule needs the output length, which only now is there.
            Scenario::Single | Scenario::LongOutput if lengths::output(record).is_none() => {
                if output >= LONG_OUTPUT_TOKENS {
                    Scenario::LongOutput
                } else {
                    Scenario::Single
                }
            }
            recorded => recorded,
        };
        let common = self.options.common;
        let (input_tokens, max_tokens) = common.clip(input, output, &mut self.counts);
        let assigned = self.assigner.assign(input_tokens)?;
        self.counts.planned += 1;
        self.counts.repeats += u64::from(assigned.repeat_of.is_some());
        self.counts.prefix_repeats += u64::from(assigned.prefix_repeat);
        self.counts.recorded_failures += u64::from(record.status.is_failure());
        Ok(ScheduledRequest {
            request_id,
            scenario,
            session_id: record.session_id_hash.map(|hash| self.sessions.number(hash)),
            turn_index: record.turn_index,
            release: Release::At(offset),
            prompt_parts: assigned.parts,
            input_tokens,
            // No chat template is known here, so the target is the content itself.
            count_kind: CountKind::Raw,
            content_tokens: input_tokens,
            template_tokens: None,
            max_tokens,
            min_tokens: common.force_output.then_some(max_tokens),
            stream: record.stream.unwrap_or(true),
            prefix_block_ids: record
                .prefix_block_hashes
                .iter()
                .map(|&hash| self.blocks.number(hash))
                .collect(),
            recorded_status: Some(record.status),
            repeat_of: assigned.repeat_of,
        })
    }

    fn known_or_drawn(&mut self, record: &RequestRecord) -> Result<(u32, u32), PlanError> {
        let scenario = record.scenario;
        let known = (lengths::input(record), lengths::output(record));
        self.counts.input_drawn += u64::from(known.0.is_none());
        self.counts.output_drawn += u64::from(known.1.is_none());
        let pair = match known {
            (Some(input), Some(output)) => Some((input, output)),
            (Some(input), None) => {
                self.lengths.draw_output(scenario, input).map(|output| (input, output))
            }
            (None, Some(output)) => {
                self.lengths.draw_input(scenario, output).map(|input| (input, output))
            }
            (None, None) => self.lengths.draw_both(scenario),
        };
        let field = if known.0.is_none() { "input_tokens" } else { "output_tokens" };
        pair.ok_or(PlanError::NoLengths { field, row: self.counts.source_rows - 1 })
    }
}

/// Returns whether the gateway answered by itself, so that no engine saw the request.
fn answered_from_cache(record: &RequestRecord) -> bool {
    matches!(record.cache_status, Some(CacheStatus::Hit | CacheStatus::SemanticHit))
        || record.flags.contains(&Flag::CacheHit)
}

/// Dense numbers for hashes, in the order of their first appearance.
#[derive(Debug)]
struct Renumber<K>(HashMap<K, u64>);

impl<K> Default for Renumber<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Renumber<K> {
    fn number(&mut self, key: K) -> u64 {
        let next = convert::count(self.0.len());
        *self.0.entry(key).or_insert(next)
    }
}

#[cfg(test)]
mod tests;
