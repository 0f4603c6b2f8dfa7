//! Outcomes, a plan and facts for the tests of this module.
//!
//! Round numbers, invented, so that every expected value can be worked out by hand.
//! Times are written in milliseconds from the start of the run.

use super::facts::{RunFacts, RunStatus};
use crate::domain::outcome::{Failure, Instants, RequestOutcome, UsageSource};
use crate::domain::scenario::Scenario;
use crate::domain::schedule::{CountKind, PlanCounts, PlanMetadata, PlanMode};
use crate::domain::time::Nanos;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// Request `id` of one each 100 ms: sent when due, TTFT 100 ms, ten chunks 10 ms apart, end
/// 200 ms after the send; 50 tokens in, 10 out.
pub(super) fn ok(id: u64) -> RequestOutcome {
    let due = id * 100 * MS;
    let at = |ms: u64| Some(Nanos(due + ms * MS));
    RequestOutcome {
        request_id: id,
        scenario: if id.is_multiple_of(2) { Scenario::Single } else { Scenario::Rag },
        session_id: None,
        turn_index: None,
        planned_input_tokens: 50,
        planned_max_tokens: 10,
        was_sent: true,
        at: Instants {
            scheduled: at(0),
            dispatched: at(0),
            sent: at(0),
            request_written: at(1),
            first_byte: at(50),
            headers: at(50),
            first_event: at(60),
            first_content: at(100),
            first_text: at(100),
            last_text: at(190),
            done_marker: at(200),
            closed: at(200),
            ..Instants::default()
        },
        chunks: (0..10).map(|i| Nanos(due + (100 + 10 * i) * MS)).collect(),
        http_status_code: Some(200),
        failure: None,
        failure_message: None,
        input_tokens: Some(50),
        cached_input_tokens: Some(16),
        output_tokens: Some(10),
        reasoning_tokens: None,
        usage_source: Some(UsageSource::Server),
        finish_reason: Some("length".to_owned()),
        connection_reused: Some(true),
        text_bytes: 50,
        largest_read_text_bytes: 5,
        in_flight: Some(1),
    }
}

/// Request `id`, failed 200 ms after its send.
pub(super) fn failed(id: u64, class: Failure) -> RequestOutcome {
    let mut outcome = ok(id);
    outcome.failure = Some(class);
    outcome.failure_message = Some(format!("the answer was {class}"));
    outcome.http_status_code = match class {
        Failure::Http5xx => Some(503),
        Failure::RateLimited => Some(429),
        _ => None,
    };
    outcome.at.first_text = None;
    outcome.at.last_text = None;
    outcome.chunks.clear();
    outcome
}

/// Request `id`, never tried.
pub(super) fn unsent(id: u64) -> RequestOutcome {
    let planned = ok(id);
    RequestOutcome {
        was_sent: false,
        at: Instants { scheduled: planned.at.scheduled, ..Instants::default() },
        chunks: Vec::new(),
        http_status_code: None,
        input_tokens: None,
        cached_input_tokens: None,
        output_tokens: None,
        usage_source: None,
        finish_reason: None,
        connection_reused: None,
        text_bytes: 0,
        largest_read_text_bytes: 0,
        in_flight: None,
        ..planned
    }
}

/// A recorded plan of `planned` requests.
pub(super) fn plan(planned: u64) -> PlanMetadata {
    PlanMetadata {
        mode: PlanMode::Recorded,
        seed: 42,
        trace_digest: Some("aa11".to_owned()),
        model_digest: None,
        pool_digest: "bb22".to_owned(),
        tokenizer: "o200k_base".to_owned(),
        tokenizer_digest: "cc33".to_owned(),
        speed: Some(1.0),
        request_rate_per_s: None,
        trace_origin_us: Some(1_700_000_000_000_000),
        long_context_tokens: 4_000,
        counts: PlanCounts { source_rows: planned, planned, ..PlanCounts::default() },
    }
}

/// A complete run against a real server.
pub(super) fn facts() -> RunFacts {
    RunFacts {
        name: "2026-01-02T03-04-05Z-example".to_owned(),
        target: "http://127.0.0.1:8000".to_owned(),
        target_is_mock: false,
        api: "chat".to_owned(),
        model: "example".to_owned(),
        status: RunStatus::Complete,
        recovered: false,
        scheduling_class: Some("SCHED_OTHER".to_owned()),
        server: BTreeMap::new(),
        long_context_tokens: 4_000,
        tokenizer: "o200k_base".to_owned(),
        count_kind: Some(CountKind::Templated),
    }
}
