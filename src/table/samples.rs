//! Random rows for the round-trip tests: every field, every word, nulls and extremes.

use crate::domain::outcome::{Failure, Instants, RequestOutcome, UsageSource};
use crate::domain::pool_index::{PoolEntry, PoolManifest, PoolText};
use crate::domain::record::{
    ArrivalSource, CacheStatus, Flag, Hash128, HashScope, Operation, RagLabel, RequestRecord,
    SessionSource, Status, TokenSource, ToolClass, TtftSource, WorkloadClass,
};
use crate::domain::scenario::Scenario;
use crate::domain::schedule::{
    CountKind, PlanCounts, PlanMetadata, PlanMode, PromptPart, Release, ScheduledRequest,
};
use crate::domain::seed::{Seed, Stream};
use crate::domain::time::{Nanos, WallTime};
use rand::RngExt;
use std::sync::Arc;

/// Draws values; every draw of an option is null in two of five cases.
pub(crate) struct Draw(Stream);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Seed(seed).stream("samples"))
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.0.random_range(0..5) > 1).then(|| value(self))
    }

    fn some<T>(&mut self, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.0.random_range(0_usize..4)).map(|_| value(self)).collect()
    }

    fn word<W: Copy>(&mut self, all: &[W]) -> W {
        all[self.0.random_range(0..all.len())]
    }

    /// Zero, the largest value up to `max`, or anything between.
    fn up_to(&mut self, max: u32) -> u32 {
        match self.0.random_range(0..4) {
            0 => 0,
            1 => max,
            _ => self.0.random_range(0..=max),
        }
    }

    fn u32(&mut self) -> u32 {
        self.up_to(u32::MAX)
    }

    /// What a signed 32-bit column holds.
    fn u31(&mut self) -> u32 {
        self.up_to(i32::MAX.unsigned_abs())
    }

    fn i64(&mut self) -> i64 {
        match self.0.random_range(0..4) {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => self.0.random(),
        }
    }

    fn nanos(&mut self) -> Nanos {
        Nanos(self.0.random_range(0..=i64::MAX.unsigned_abs()))
    }

    fn text(&mut self) -> Arc<str> {
        self.word(&["gpt-4o", "", "模型 \u{1F600}", "a\"b\\c\n\0"]).into()
    }

    fn hash(&mut self) -> Hash128 {
        Hash128(self.0.random())
    }

    /// Records in order of arrival.
    pub(crate) fn records(&mut self, n: usize) -> Vec<RequestRecord> {
        let mut records: Vec<_> = (0..n).map(|_| self.record()).collect();
        records.sort_by_key(|record| record.arrival_time);
        records
    }

    #[expect(clippy::too_many_lines, reason = "one line a field")]
    fn record(&mut self) -> RequestRecord {
        let origin = RequestRecord {
            source_line: self.maybe(|d| d.0.random()),
            request_id_hash: self.maybe(Self::hash),
            trace_id_hash: self.maybe(Self::hash),
            response_id_hash: self.maybe(Self::hash),
            span_id_hash: self.maybe(Self::hash),
            parent_span_id_hash: self.maybe(Self::hash),
            queue_time_us: self.maybe(Self::i64),
            prefill_time_us: self.maybe(Self::i64),
            decode_time_us: self.maybe(Self::i64),
            arrival_time: self.maybe(|d| WallTime(d.i64())),
            arrival_source: self.word(ArrivalSource::ALL),
            arrival_resolution_us: self.i64(),
            zone_assumed: self.0.random(),
            end_time: self.maybe(|d| WallTime(d.i64())),
            duration_us: self.maybe(Self::i64),
            time_to_first_chunk_us: self.maybe(Self::i64),
            ttft_source: self.maybe(|d| d.word(TtftSource::ALL)),
            operation: self.word(Operation::ALL),
            workload_class: self.word(WorkloadClass::ALL),
            ..RequestRecord::unknown(self.text(), self.u32(), 0)
        };
        let asked = RequestRecord {
            provider_name: self.maybe(Self::text),
            request_model: self.maybe(Self::text),
            response_model: self.maybe(Self::text),
            endpoint_family: self.maybe(Self::text),
            input_tokens: self.maybe(Self::u32),
            output_tokens: self.maybe(Self::u32),
            cache_read_input_tokens: self.maybe(Self::u32),
            cache_write_input_tokens: self.maybe(Self::u32),
            reasoning_output_tokens: self.maybe(Self::u32),
            request_bytes: self.maybe(|d| d.u32().into()),
            response_bytes: self.maybe(|d| d.u32().into()),
            choice_count: self.maybe(Self::u31),
            cost_currency: self.maybe(Self::text),
            input_token_source: self.word(TokenSource::ALL),
            output_token_source: self.word(TokenSource::ALL),
            max_tokens: self.maybe(Self::u32),
            temperature: self.maybe(|d| d.0.random()),
            top_p: self.maybe(|d| d.0.random()),
            stream: self.maybe(|d| d.0.random()),
            ..origin
        };
        let ended = RequestRecord {
            status: self.word(Status::ALL),
            http_status_code: self.maybe(|d| d.0.random_range(0..=32_767)),
            error_type: self.maybe(Self::text),
            finish_reasons: self.some(Self::text),
            attempt_count: self.0.random_range(0..=32_767),
            cache_status: self.maybe(|d| d.word(CacheStatus::ALL)),
            cost: self.maybe(|d| d.0.random()),
            flags: self.some(|d| d.word(Flag::ALL)),
            ..asked
        };
        let known = RequestRecord {
            session_id_hash: self.maybe(Self::hash),
            session_source: self.word(SessionSource::ALL),
            turn_index: self.maybe(Self::u31),
            parent_row_id: self.maybe(|d| d.0.random()),
            think_time_us: self.maybe(Self::i64),
            user_hash: self.maybe(Self::hash),
            key_hash: self.maybe(Self::hash),
            tenant_hash: self.maybe(Self::hash),
            ..ended
        };
        RequestRecord {
            message_count: self.maybe(Self::u31),
            system_count: self.maybe(Self::u31),
            user_count: self.maybe(Self::u31),
            assistant_count: self.maybe(Self::u31),
            tool_count: self.maybe(Self::u31),
            tool_class: self.some(|d| d.word(ToolClass::ALL)),
            image_count: self.maybe(Self::u31),
            audio_count: self.maybe(Self::u31),
            file_count: self.maybe(Self::u31),
            context_tokens: self.maybe(Self::u32),
            question_tokens: self.maybe(Self::u32),
            prefix_hash_scope: self.maybe(|d| d.word(HashScope::ALL)),
            tool_definition_count: self.maybe(Self::u31),
            tool_call_count: self.maybe(Self::u31),
            rag_label: self.word(RagLabel::ALL),
            rag_evidence: self.some(Self::text),
            prefix_block_hashes: self.some(|d| d.0.random()),
            prefix_block_size: self.maybe(Self::u31),
            scenario: self.word(Scenario::ALL),
            ..known
        }
    }

    /// Planned requests with ascending ids, some of them left out.
    pub(super) fn plan(&mut self, n: u64) -> Vec<ScheduledRequest> {
        (0..n).map(|at| ScheduledRequest { request_id: at * 3, ..self.planned() }).collect()
    }

    fn planned(&mut self) -> ScheduledRequest {
        ScheduledRequest {
            request_id: 0,
            scenario: self.word(Scenario::ALL),
            session_id: self.maybe(|d| d.0.random()),
            turn_index: self.maybe(Self::u32),
            release: match self.0.random_range(0..3) {
                0 => Release::At(self.nanos()),
                1 => Release::After { request_id: self.0.random(), delay: self.nanos() },
                _ => Release::WhenFree,
            },
            prompt_parts: self.some(|d| PromptPart { entry_id: d.u32(), cut_tokens: d.u32() }),
            input_tokens: self.u32(),
            count_kind: self.word(CountKind::ALL),
            content_tokens: self.u32(),
            template_tokens: self.maybe(Self::u32),
            max_tokens: self.u32(),
            min_tokens: self.maybe(Self::u32),
            stream: self.0.random(),
            prefix_block_ids: self.some(|d| d.0.random()),
            recorded_status: self.maybe(|d| d.word(Status::ALL)),
            repeat_of: self.maybe(|d| d.0.random()),
        }
    }

    /// Outcomes of the requests `ids`, in that order.
    pub(super) fn outcomes(&mut self, ids: &[u64]) -> Vec<RequestOutcome> {
        ids.iter().map(|&request_id| RequestOutcome { request_id, ..self.outcome() }).collect()
    }

    fn outcome(&mut self) -> RequestOutcome {
        let mut chunks = self.some(Self::nanos);
        chunks.sort();
        RequestOutcome {
            request_id: 0,
            scenario: self.word(Scenario::ALL),
            session_id: self.maybe(|d| d.0.random()),
            turn_index: self.maybe(Self::u32),
            planned_input_tokens: self.u32(),
            planned_max_tokens: self.u32(),
            was_sent: self.0.random(),
            at: self.instants(),
            chunks,
            http_status_code: self.maybe(|d| d.0.random()),
            failure: self.maybe(|d| d.word(Failure::ALL)),
            failure_message: self.maybe(|d| d.text().to_string()),
            input_tokens: self.maybe(Self::u32),
            cached_input_tokens: self.maybe(Self::u32),
            output_tokens: self.maybe(Self::u32),
            reasoning_tokens: self.maybe(Self::u32),
            usage_source: self.maybe(|d| d.word(UsageSource::ALL)),
            finish_reason: self.maybe(|d| d.text().to_string()),
            connection_reused: self.maybe(|d| d.0.random()),
            text_bytes: self.0.random(),
            largest_read_text_bytes: self.0.random(),
            in_flight: self.maybe(Self::u32),
        }
    }

    fn instants(&mut self) -> Instants {
        Instants {
            scheduled: self.maybe(Self::nanos),
            dispatched: self.maybe(Self::nanos),
            connect_start: self.maybe(Self::nanos),
            connected: self.maybe(Self::nanos),
            tls_done: self.maybe(Self::nanos),
            sent: self.maybe(Self::nanos),
            request_written: self.maybe(Self::nanos),
            first_byte: self.maybe(Self::nanos),
            headers: self.maybe(Self::nanos),
            first_event: self.maybe(Self::nanos),
            first_reasoning: self.maybe(Self::nanos),
            first_content: self.maybe(Self::nanos),
            first_tool: self.maybe(Self::nanos),
            first_text: self.maybe(Self::nanos),
            last_text: self.maybe(Self::nanos),
            done_marker: self.maybe(Self::nanos),
            closed: self.maybe(Self::nanos),
        }
    }

    /// Texts of a pool.
    pub(super) fn texts(&mut self, n: u32) -> Vec<PoolText> {
        let text = |d: &mut Self, entry_id| PoolText {
            entry: PoolEntry {
                entry_id,
                tokens: d.u32(),
                kind: d.text().to_string(),
                cut_tokens: d.some(Self::u32),
            },
            text: d.text().to_string(),
            cut_bytes: d.some(Self::u32),
        };
        (0..n).map(|entry_id| text(self, entry_id)).collect()
    }
}

/// A plan's metadata with a number that has no short binary form.
pub(super) fn plan_metadata() -> PlanMetadata {
    PlanMetadata {
        mode: PlanMode::Recorded,
        seed: u64::MAX,
        trace_digest: Some("ab".to_owned()),
        model_digest: None,
        pool_digest: "cd".to_owned(),
        tokenizer: "o200k_base".to_owned(),
        tokenizer_digest: "ef".to_owned(),
        speed: Some(1.5),
        request_rate_per_s: None,
        trace_origin_us: Some(-1),
        long_context_tokens: 4_000,
        counts: PlanCounts { planned: 3, ..PlanCounts::default() },
    }
}

/// A pool's manifest without digest.
pub(super) fn pool_manifest() -> PoolManifest {
    PoolManifest {
        schema_version: 1,
        tool_version: "0".to_owned(),
        tokenizer: "o200k_base".to_owned(),
        tokenizer_digest: "ef".to_owned(),
        pool_digest: String::new(),
        seed: 42,
        entries: 2,
        tokens: 9,
        buckets: vec![(0, 1), (3, 1)],
        kinds: vec![("en".to_owned(), 2)],
        joins_checked: 1,
        joins_failed: 0,
    }
}
