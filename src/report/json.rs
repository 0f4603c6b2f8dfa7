//! A report as JSON: the fields of [`Report`], two blanks a level.
//!
//! Absent numbers are `null`, never 0; nothing is rounded. The set of keys is pinned by a test:
//! a key that goes or changes its meaning needs a new `SCHEMA_VERSION`.

use super::summarize::Report;

/// Returns `report` as pretty JSON that ends with a line feed.
///
/// # Errors
///
/// If a value has no JSON form, which is a bug in a serialiser.
pub fn render(report: &Report) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::example::{facts, failed, ok, plan};
    use super::super::summarize::summarize;
    use super::*;
    use crate::domain::outcome::Failure;
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// Collects the paths of all leaves; a list's items share the path `[]`.
    fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    paths(field, &format!("{path}.{key}"), found);
                }
            }
            Value::Array(items) => {
                for item in items {
                    paths(item, &format!("{path}[]"), found);
                }
            }
            _ => {
                found.insert(path.trim_start_matches('.').to_owned());
            }
        }
    }

    #[test]
    fn reads_back_as_it_was_written() {
        let mut outcomes: Vec<_> = (0..9).map(ok).collect();
        outcomes.push(failed(9, Failure::Http5xx));
        let report = summarize(&outcomes, plan(10), facts()).unwrap();
        let text = render(&report).unwrap();
        assert!(text.ends_with("}\n"));
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "the snapshot holds every key")]
    fn the_keys_are_stable() {
        let mut outcomes: Vec<_> = (0..99).map(ok).collect();
        outcomes.push(failed(99, Failure::Http5xx));
        let report = summarize(&outcomes, plan(100), facts()).unwrap();
        let value: Value = serde_json::from_str(&render(&report).unwrap()).unwrap();
        let mut found = BTreeSet::new();
        paths(&value, "", &mut found);
        // One latency stands for all: they have the same keys.
        let other = |path: &String| {
            path.starts_with("latency[].success_only.") && !path.contains(".tpot.")
                || path.starts_with("latency[].error_adjusted.")
                    && !path.contains(".ttft_from_actual.")
        };
        found.retain(|path| !other(path));
        let keys: Vec<String> = found.into_iter().collect();
        insta::assert_snapshot!(keys.join("\n"), @"
        accounting.cache_hits
        accounting.failed
        accounting.failed_before_first_byte
        accounting.failed_of_sent.lower
        accounting.failed_of_sent.share
        accounting.failed_of_sent.upper
        accounting.failure_groups.ERROR
        accounting.failures[].class
        accounting.failures[].count
        accounting.failures[].example
        accounting.failures[].group
        accounting.failures[].http_status_codes.503
        accounting.failures[].of_sent.lower
        accounting.failures[].of_sent.share
        accounting.failures[].of_sent.upper
        accounting.not_generation
        accounting.not_selected
        accounting.outside_window
        accounting.planned
        accounting.sent
        accounting.source_rows
        accounting.source_rows_unexplained
        accounting.succeeded
        accounting.unsent
        accounting.unsent_cancelled
        accounting.unsent_unknown_after_kill
        accounting.unsent_without_row
        accounting.without_arrival
        connections.connect_time.max_ms
        connections.connect_time.mean_ms
        connections.connect_time.min_ms
        connections.connect_time.n
        connections.connect_time.p50_ms
        connections.connect_time.p90_ms
        connections.connect_time.p95_ms
        connections.connect_time.p99_9_ms
        connections.connect_time.p99_ms
        connections.new
        connections.reused
        connections.unknown
        definitions[].meaning
        definitions[].term
        latency[].error_adjusted.ttft_from_actual.failed
        latency[].error_adjusted.ttft_from_actual.n
        latency[].error_adjusted.ttft_from_actual.p50_ms
        latency[].error_adjusted.ttft_from_actual.p90_ms
        latency[].error_adjusted.ttft_from_actual.p95_ms
        latency[].error_adjusted.ttft_from_actual.p99_ms
        latency[].failed
        latency[].group
        latency[].succeeded
        latency[].success_only.tpot.max_ms
        latency[].success_only.tpot.mean_ms
        latency[].success_only.tpot.min_ms
        latency[].success_only.tpot.n
        latency[].success_only.tpot.p50_ms
        latency[].success_only.tpot.p90_ms
        latency[].success_only.tpot.p95_ms
        latency[].success_only.tpot.p99_9_ms
        latency[].success_only.tpot.p99_ms
        one_burst_streams.one_burst
        one_burst_streams.share
        one_burst_streams.streams
        plan.counts.below_template_minimum
        plan.counts.cache_hits
        plan.counts.input_clipped
        plan.counts.input_drawn
        plan.counts.long_context
        plan.counts.not_generation
        plan.counts.not_selected
        plan.counts.output_clipped
        plan.counts.output_drawn
        plan.counts.outside_window
        plan.counts.planned
        plan.counts.prefix_repeats
        plan.counts.recorded_failures
        plan.counts.repeats
        plan.counts.source_rows
        plan.counts.without_arrival
        plan.long_context_tokens
        plan.mode
        plan.model_digest
        plan.pool_digest
        plan.request_rate_per_s
        plan.seed
        plan.speed
        plan.tokenizer
        plan.tokenizer_digest
        plan.trace_digest
        plan.trace_origin_us
        run.api
        run.count_kind
        run.long_context_tokens
        run.model
        run.name
        run.recovered
        run.scheduling_class
        run.status
        run.target
        run.target_is_mock
        run.tokenizer
        schedule.delay.max_ms
        schedule.delay.mean_ms
        schedule.delay.min_ms
        schedule.delay.n
        schedule.delay.p50_ms
        schedule.delay.p90_ms
        schedule.delay.p95_ms
        schedule.delay.p99_9_ms
        schedule.delay.p99_ms
        schedule.delay_limit_ms
        schedule.dispatch_delay.max_ms
        schedule.dispatch_delay.mean_ms
        schedule.dispatch_delay.min_ms
        schedule.dispatch_delay.n
        schedule.dispatch_delay.p50_ms
        schedule.dispatch_delay.p90_ms
        schedule.dispatch_delay.p95_ms
        schedule.dispatch_delay.p99_9_ms
        schedule.dispatch_delay.p99_ms
        schedule.drift_ms
        schedule.early
        schedule.largest_backlog
        schedule.late
        schedule.late_share
        schedule.own_delay.max_ms
        schedule.own_delay.mean_ms
        schedule.own_delay.min_ms
        schedule.own_delay.n
        schedule.own_delay.p50_ms
        schedule.own_delay.p90_ms
        schedule.own_delay.p95_ms
        schedule.own_delay.p99_9_ms
        schedule.own_delay.p99_ms
        schedule.trend_z
        schedule.verdict
        schedule.worst_window.achieved
        schedule.worst_window.achieved_share
        schedule.worst_window.planned
        schedule.worst_window.start_s
        schema_version
        throughput.achieved_requests_per_s
        throughput.offered_requests_per_s
        throughput.output_tokens_per_s
        throughput.peak_due_100ms
        throughput.peak_due_1s
        throughput.peak_in_flight
        throughput.peak_sends_100ms
        throughput.peak_sends_1s
        throughput.requests_per_s
        throughput.span_s
        throughput.total_tokens_per_s
        throughput.without_output_tokens
        tokens.input.cached
        tokens.input.cached_share
        tokens.input.compared
        tokens.input.different
        tokens.input.equal
        tokens.input.largest_difference
        tokens.input.mean_difference
        tokens.input.smallest_difference
        tokens.output.compared
        tokens.output.over
        tokens.output.planned
        tokens.output.reached
        tokens.output.reasoning
        tokens.output.received
        tokens.output.short
        tokens.output.shortfall_share
        tokens.tokens_per_chunk
        tokens.usage_sources.local
        tokens.usage_sources.none
        tokens.usage_sources.server
        tool_version
        verdict.reasons[]
        verdict.word
        warnings[].advice
        warnings[].code
        warnings[].finding
        warnings[].level
        ");
    }
}
