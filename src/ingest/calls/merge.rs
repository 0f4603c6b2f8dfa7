//! Makes one row of the records of a call.
//!
//! Drafts of one call -> one draft. Of attempts the last success counts, else the last, as the
//! client saw the whole call: with the arrival of the first and the model asked for first. Of parts
//! the higher rank counts field by field and the lower fills what is missing; token counts are never
//! summed. Times to the first chunk, waits and cached counts are the engine's where one is among the
//! parts; arrival and end those of the part that knows them best. Of versions the latest counts.

use crate::domain::record::{ArrivalSource, Flag, RequestRecord, SessionSource, Status};
use crate::domain::record::{Operation, TokenSource};
use crate::domain::time::WallTime;
use crate::ingest::format::chain::Chain;
use crate::ingest::format::{Draft, Role};

/// Attempts counted at most: what the trace's column holds.
const MAX_ATTEMPTS: u16 = i16::MAX.unsigned_abs();
/// About the bytes of a draft beside its row and its hashes.
const DRAFT_BYTES: usize = 150;

/// Returns about how many bytes of memory a draft takes.
pub(super) fn weight_bytes(draft: &Draft) -> usize {
    let hashes = draft.chain.as_deref().map_or(0, |chain| {
        8 + chain.prefixes.len() + chain.prefixes_no_system.len() + chain.exchanges.len()
    });
    draft.row.weight_bytes() + DRAFT_BYTES + 16 * hashes
}

/// Makes one draft of two attempts in order of arrival.
pub(super) fn attempts(first: Draft, second: Draft) -> Draft {
    let second_counts = first.row.status.is_failure();
    let begins = first.row.arrival_time;
    let begin_known = (first.row.arrival_source, first.row.arrival_resolution_us);
    let zone_assumed = first.row.zone_assumed;
    let asked = first.row.request_model.clone();
    let (mut kept, other) = if second_counts { (second, first) } else { (first, second) };
    let row = &mut kept.row;
    let waited = row.arrival_time.zip(begins).map_or(0, |(own, first)| own.micros_since(first));
    row.arrival_time = begins;
    (row.arrival_source, row.arrival_resolution_us) = begin_known;
    row.zone_assumed = zone_assumed;
    row.request_model = asked.or(row.request_model.take());
    row.trace_id_hash = row.trace_id_hash.or(other.row.trace_id_hash);
    row.session_id_hash = row.session_id_hash.or(other.row.session_id_hash);
    if row.session_source == SessionSource::None {
        row.session_source = other.row.session_source;
    }
    row.duration_us = row.duration_us.map(|duration| duration + waited);
    row.time_to_first_chunk_us = row.time_to_first_chunk_us.map(|ttft| ttft + waited);
    row.attempt_count = row.attempt_count.saturating_add(other.row.attempt_count).min(MAX_ATTEMPTS);
    row.rag_label = row.rag_label.min(other.row.rag_label);
    add_evidence(row, &other.row);
    add_flags(row, &[Flag::AttemptsMerged]);
    kept.join = kept.join.or(other.join);
    kept.chain = kept.chain.or(other.chain);
    kept
}

/// Returns the later one of two versions.
pub(super) fn later_version(first: Draft, second: Draft) -> Draft {
    let stamp = |draft: &Draft| match draft.join.map(|join| join.role) {
        Some(Role::Version(stamp)) => stamp,
        _ => i64::MIN,
    };
    let mut kept = if stamp(&second) >= stamp(&first) { second } else { first };
    add_flags(&mut kept.row, &[Flag::Deduplicated]);
    kept
}

/// Adds a part to a call and returns the whole; `parts` keeps the records behind it.
pub(super) fn add_part(mut whole: Draft, later: Draft, parts: &mut Vec<(u8, Draft)>) -> Draft {
    if parts.is_empty() {
        parts.push((rank(&whole), whole.clone()));
    }
    parts.push((rank(&later), later));
    // The sort is stable: of equal ranks the earlier one counts.
    parts.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    for (place, (_, part)) in parts.iter().enumerate() {
        if place == 0 {
            whole.clone_from(part);
        } else {
            fill(&mut whole.row, &part.row);
            fill_chain(&mut whole.chain, part.chain.as_deref());
        }
    }
    put_times(&mut whole.row, parts);
    whole.row.drop_impossible_parts();
    add_flags(&mut whole.row, &[Flag::SplitRowsMerged]);
    whole
}

fn rank(draft: &Draft) -> u8 {
    match draft.join.map(|join| join.role) {
        Some(Role::Part(rank)) => rank,
        _ => 0,
    }
}

/// Takes each named field from `from` where `into` has none.
macro_rules! fill_missing {
    ($into:ident, $from:ident: $($field:ident),+ $(,)?) => {
        $(if $into.$field.is_none() { $into.$field.clone_from(&$from.$field); })+
    };
}

/// Takes from `other` what `row` lacks, times aside.
fn fill(row: &mut RequestRecord, other: &RequestRecord) {
    fill_missing!(row, other: request_id_hash, trace_id_hash, response_id_hash, span_id_hash,
        parent_span_id_hash, queue_time_us, prefill_time_us, decode_time_us, provider_name,
        request_model, response_model, endpoint_family, cache_read_input_tokens,
        cache_write_input_tokens, reasoning_output_tokens, request_bytes, response_bytes,
        max_tokens, temperature, top_p, choice_count, stream, http_status_code, error_type,
        cache_status, user_hash, key_hash, tenant_hash, message_count, system_count, user_count,
        assistant_count, tool_count, tool_definition_count, tool_call_count, image_count,
        audio_count, file_count, context_tokens, question_tokens);
    if row.input_tokens.is_none() && other.input_tokens.is_some() {
        row.input_tokens = other.input_tokens;
        row.input_token_source = other.input_token_source;
    }
    if row.output_tokens.is_none() && other.output_tokens.is_some() {
        row.output_tokens = other.output_tokens;
        row.output_token_source = other.output_token_source;
    }
    if row.cost.is_none() {
        row.cost = other.cost;
        row.cost_currency.clone_from(&other.cost_currency);
    }
    if row.operation == Operation::Unknown {
        row.operation = other.operation;
    }
    if row.status == Status::Unknown {
        row.status = other.status;
    }
    if row.finish_reasons.is_empty() {
        row.finish_reasons.clone_from(&other.finish_reasons);
    }
    if row.tool_class.is_empty() {
        row.tool_class.clone_from(&other.tool_class);
    }
    if row.prefix_block_hashes.is_empty() {
        row.prefix_block_hashes.clone_from(&other.prefix_block_hashes);
        row.prefix_block_size = other.prefix_block_size;
        row.prefix_hash_scope = other.prefix_hash_scope;
    }
    if row.session_id_hash.is_none() {
        row.session_id_hash = other.session_id_hash;
        row.session_source = other.session_source;
        row.turn_index = row.turn_index.or(other.turn_index);
    }
    row.attempt_count = row.attempt_count.max(other.attempt_count);
    row.rag_label = row.rag_label.min(other.rag_label);
    add_evidence(row, other);
    add_flags(row, &other.flags);
}

fn add_evidence(row: &mut RequestRecord, other: &RequestRecord) {
    if !other.rag_evidence.is_empty() {
        row.rag_evidence.extend(other.rag_evidence.iter().cloned());
        row.rag_evidence.sort_unstable();
        row.rag_evidence.dedup();
    }
}

fn add_flags(row: &mut RequestRecord, flags: &[Flag]) {
    row.flags.extend(flags);
    row.flags.sort_unstable();
    row.flags.dedup();
}

/// Returns how well a source knows its arrivals; less is better.
const fn arrival_grade(source: ArrivalSource) -> u8 {
    match source {
        ArrivalSource::Logged | ArrivalSource::RelativeOrigin => 0,
        ArrivalSource::EndMinusDuration | ArrivalSource::DelayAfterParent => 1,
        ArrivalSource::UnknownStartOrEnd | ArrivalSource::Synthetic => 2,
        ArrivalSource::EndOnly => 3,
        ArrivalSource::None => 4,
    }
}

/// Returns whether a part was written by the engine.
fn is_engine(row: &RequestRecord) -> bool {
    row.input_token_source == TokenSource::Engine
        || row.queue_time_us.is_some()
        || row.prefill_time_us.is_some()
        || row.decode_time_us.is_some()
}

/// Puts arrival, end, duration and first chunk of the whole, from the parts by rank.
fn put_times(row: &mut RequestRecord, parts: &[(u8, Draft)]) {
    let rows = || parts.iter().map(|(_, part)| &*part.row);
    let grade = |row: &RequestRecord| {
        if row.arrival_time.is_none() { u8::MAX } else { arrival_grade(row.arrival_source) }
    };
    // `min_by_key` takes the first of equal ones: the highest rank.
    let Some(begins) = rows().min_by_key(|row| grade(row)) else { return };
    row.arrival_time = begins.arrival_time;
    row.arrival_source = begins.arrival_source;
    row.arrival_resolution_us = begins.arrival_resolution_us;
    row.zone_assumed = begins.zone_assumed;
    let span = |row: &&RequestRecord| row.end_time.is_some() && row.duration_us.is_some();
    let ends = rows().find(span).or_else(|| rows().find(|row| row.end_time.is_some()));
    row.end_time = ends.and_then(|ends| ends.end_time);
    row.duration_us = match (ends, begins.duration_us) {
        // One part knows both ends of its span.
        (Some(ends), Some(own)) if std::ptr::eq(ends, begins) => Some(own),
        (Some(ends), _) => span_between(begins.arrival_time, ends.end_time)
            .or_else(|| rows().find_map(|row| row.duration_us)),
        (None, _) => rows().find_map(|row| row.duration_us),
    };
    let engine = rows().find(|row| is_engine(row));
    let first_chunk = engine
        .filter(|row| row.time_to_first_chunk_us.is_some())
        .or_else(|| rows().find(|row| row.time_to_first_chunk_us.is_some()));
    if let Some(from) = first_chunk {
        row.time_to_first_chunk_us = moved(from, row);
        row.ttft_source = from.ttft_source;
    }
    if let Some(cached) = engine.and_then(|row| row.cache_read_input_tokens) {
        row.cache_read_input_tokens = Some(cached);
    }
}

fn span_between(from: Option<WallTime>, to: Option<WallTime>) -> Option<i64> {
    let span = to?.micros_since(from?);
    (span >= 0).then_some(span)
}

/// Returns a part's time to the first chunk, counted from the arrival of the whole.
///
/// Where the clocks of two machines disagree about it, it stays as it was.
fn moved(part: &RequestRecord, whole: &RequestRecord) -> Option<i64> {
    let ttft = part.time_to_first_chunk_us?;
    let later = part.arrival_time?.micros_since(whole.arrival_time?);
    let seen = ttft.saturating_add(later.max(0));
    let fits = arrival_grade(part.arrival_source) < 2
        && whole.duration_us.is_none_or(|duration| seen <= duration);
    Some(if fits { seen } else { ttft })
}

/// Takes from another part what a chain lacks.
fn fill_chain(chain: &mut Option<Box<Chain>>, other: Option<&Chain>) {
    let Some(other) = other else { return };
    let Some(chain) = chain.as_deref_mut() else {
        *chain = Some(Box::new(other.clone()));
        return;
    };
    if chain.prefixes.is_empty() {
        chain.prefixes.clone_from(&other.prefixes);
        chain.is_tool_turn = other.is_tool_turn;
    }
    if chain.prefixes_no_system.is_empty() {
        chain.prefixes_no_system.clone_from(&other.prefixes_no_system);
    }
    if chain.exchanges.is_empty() {
        chain.exchanges.clone_from(&other.exchanges);
    }
    fill_missing!(chain, other: with_answer, with_answer_no_system, last_exchange, last_user, previous, own);
    chain.is_incomplete |= other.is_incomplete;
}
