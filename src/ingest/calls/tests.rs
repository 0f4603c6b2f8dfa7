//! Every rule of calls, and what just misses it.

use super::*;
use crate::domain::record::{ArrivalSource, Flag, Hash128, RagLabel, RequestRecord, Status};
use crate::domain::record::{Operation, TokenSource};
use crate::domain::time::WallTime;
use crate::ingest::format::Join;
use crate::ingest::format::chain::Chain;

const SECOND: i64 = 1_000_000;

/// A row that starts and ends at these seconds, with the trace id `key` (0 is none).
fn row(key: u8, seconds: (i64, i64), status: Status) -> RequestRecord {
    let mut row = RequestRecord::unknown("litellm-standard-logging".into(), 0, 1);
    row.trace_id_hash = (key > 0).then_some(Hash128([key; 16]));
    row.arrival_time = Some(WallTime(seconds.0 * SECOND));
    row.arrival_source = ArrivalSource::Logged;
    row.end_time = Some(WallTime(seconds.1 * SECOND));
    row.duration_us = Some((seconds.1 - seconds.0) * SECOND);
    row.status = status;
    row
}

/// The same without trace id, tied by the key 7.
fn tied(role: Role, seconds: (i64, i64), status: Status) -> Draft {
    let join = Some(Join { key: Hash128([7; 16]), role });
    Draft { row: Box::new(row(0, seconds, status)), join, chain: None }
}

fn run(drafts: Vec<Draft>) -> (Vec<Draft>, CallCounts) {
    let mut calls = Calls::new(drafts.into_iter().map(Ok));
    let rows: Vec<Draft> = calls.by_ref().map(Result::unwrap).collect();
    assert!(calls.open.is_empty() && calls.waiting_bytes == 0, "nothing is left behind");
    assert!(rows.is_sorted_by_key(|draft| draft.row.arrival_time), "still in order");
    (rows, calls.counts())
}

fn merged(rows: Vec<RequestRecord>) -> (Vec<(i64, Status, u16)>, u64) {
    let (rows, counts) = run(rows.into_iter().map(Draft::from).collect());
    let rows = rows.iter().map(|draft| &draft.row);
    let shown =
        rows.map(|row| (row.arrival_time.unwrap().0 / SECOND, row.status, row.attempt_count));
    (shown.collect(), counts.merged)
}

#[test]
fn failures_are_continued_until_a_success() {
    let rows = vec![
        row(1, (0, 2), Status::Error),
        row(0, (1, 9), Status::Ok),
        row(1, (3, 4), Status::RateLimited),
        row(1, (5, 8), Status::Ok),
        row(1, (9, 10), Status::Ok),
    ];
    let expected = vec![(0, Status::Ok, 3), (1, Status::Ok, 1), (9, Status::Ok, 1)];
    assert_eq!(merged(rows), (expected, 2));
}

#[test]
fn the_kept_row_has_all_that_the_first_attempt_knows_of_the_arrival() {
    let mut first = row(1, (0, 2), Status::Error);
    first.arrival_source = ArrivalSource::EndMinusDuration;
    first.arrival_resolution_us = SECOND;
    first.zone_assumed = true;
    let (rows, _) = run(vec![first.into(), row(1, (3, 4), Status::Ok).into()]);
    let kept = &rows[0].row;
    assert_eq!((kept.status, kept.arrival_time), (Status::Ok, Some(WallTime(0))));
    assert_eq!(kept.arrival_source, ArrivalSource::EndMinusDuration);
    assert_eq!((kept.arrival_resolution_us, kept.zone_assumed), (SECOND, true));
}

#[test]
fn the_kept_row_spans_the_whole_call() {
    let mut last = row(1, (12, 14), Status::Ok);
    last.time_to_first_chunk_us = Some(500_000);
    let (rows, _) = run(vec![row(1, (0, 10), Status::Timeout).into(), last.into()]);
    assert_eq!(rows[0].row.duration_us, Some(14 * SECOND));
    assert_eq!(rows[0].row.time_to_first_chunk_us, Some(12_500_000));
    assert_eq!(rows[0].row.flags, [Flag::AttemptsMerged]);
}

#[test]
fn other_calls_are_left_alone() {
    let apart = |change: fn(&mut RequestRecord)| {
        let mut second = row(1, (3, 4), Status::Ok);
        change(&mut second);
        let mut first = row(1, (0, 2), Status::Error);
        first.input_tokens = Some(7);
        let rows: Vec<_> = [first, second].map(|row| Ok(row.into())).into_iter().collect();
        let mut calls = Calls::new(rows.into_iter());
        calls.by_ref().for_each(drop);
        calls.counts().merged
    };
    assert_eq!(apart(|_| {}), 1);
    assert_eq!(apart(|row| row.trace_id_hash = Some(Hash128([9; 16]))), 0);
    assert_eq!(apart(|row| row.trace_id_hash = None), 0);
    assert_eq!(apart(|row| row.request_model = Some("other".into())), 1, "a fallback");
    assert_eq!(apart(|row| row.input_tokens = Some(8)), 0);
    assert_eq!(apart(|row| row.input_tokens = Some(7)), 1);
    assert_eq!(apart(|row| row.arrival_time = Some(WallTime(1_999_999))), 0, "overlaps");
    let coarse = |row: &mut RequestRecord| {
        row.arrival_time = Some(WallTime(1_000_001));
        row.arrival_resolution_us = SECOND;
    };
    assert_eq!(apart(coarse), 1, "less than the clock tells");
    assert_eq!(apart(|row| row.arrival_time = Some(WallTime(62 * SECOND))), 1);
    assert_eq!(apart(|row| row.arrival_time = Some(WallTime(62 * SECOND + 1))), 0, "too late");
}

#[test]
fn a_session_id_links_attempts_of_one_model_in_a_few_seconds() {
    let apart = |change: fn(&mut RequestRecord)| {
        let mut rows = [row(0, (0, 2), Status::Error), row(0, (3, 4), Status::Ok)];
        for row in &mut rows {
            row.source_format = "litellm-spendlogs".into();
            row.session_id_hash = Some(Hash128([5; 16]));
        }
        rows[0].input_tokens = Some(7);
        change(&mut rows[1]);
        let (rows, counts) = run(rows.map(Draft::from).to_vec());
        assert_eq!(rows.len() + usize::from(counts.merged > 0), 2);
        assert_eq!(counts.merged, counts.by_session);
        counts.merged
    };
    assert_eq!(apart(|_| {}), 1);
    assert_eq!(apart(|row| row.trace_id_hash = Some(Hash128([9; 16]))), 1, "on one row only");
    assert_eq!(apart(|row| row.source_format = "generic".into()), 0);
    assert_eq!(apart(|row| row.session_id_hash = None), 0);
    assert_eq!(apart(|row| row.request_model = Some("other".into())), 0);
    assert_eq!(apart(|row| row.input_tokens = Some(8)), 0);
    assert_eq!(apart(|row| row.arrival_time = Some(WallTime(7 * SECOND))), 1);
    assert_eq!(apart(|row| row.arrival_time = Some(WallTime(7 * SECOND + 1))), 0, "too late");
}

#[test]
fn two_trace_ids_of_one_session_are_two_calls() {
    let mut rows = [row(1, (0, 2), Status::Error), row(2, (3, 4), Status::Ok)];
    for row in &mut rows {
        row.source_format = "litellm-spendlogs".into();
        row.session_id_hash = Some(Hash128([5; 16]));
    }
    assert_eq!(merged(rows.to_vec()).1, 0);
}

#[test]
fn a_fallback_keeps_the_model_asked_for_first() {
    let mut rows = [row(1, (0, 2), Status::Error), row(1, (3, 4), Status::Ok)];
    for (row, model) in rows.iter_mut().zip(["first", "second"]) {
        row.request_model = Some(model.into());
        row.response_model = Some(model.into());
    }
    let (rows, _) = run(rows.map(Draft::from).to_vec());
    assert_eq!(rows[0].row.request_model.as_deref(), Some("first"));
    assert_eq!(rows[0].row.response_model.as_deref(), Some("second"));
}

#[test]
fn hang_ups_and_successes_end_a_call() {
    for status in [Status::Ok, Status::Cancelled, Status::Unknown] {
        let rows = vec![row(1, (0, 2), status), row(1, (3, 4), Status::Ok)];
        assert_eq!(merged(rows).1, 0, "{status}");
    }
}

#[test]
fn a_full_queue_lets_the_oldest_go() {
    let mut rows = vec![row(1, (0, 2), Status::Error)];
    rows.extend((0..10).map(|_| row(0, (3, 4), Status::Ok)));
    rows.push(row(1, (5, 6), Status::Ok));
    let mut calls = Calls::new(rows.into_iter().map(|row| Ok(row.into())));
    calls.max_waiting_bytes = 3 * crate::domain::record::ROW_BYTES;
    assert_eq!(calls.by_ref().count(), 12);
    assert_eq!((calls.counts().merged, calls.counts().let_go), (0, 1));
    assert!(calls.open.is_empty());
    assert_eq!(calls.counts().decisions()[0].what, "calls closed early");
}

#[test]
fn attempts_with_a_key_may_overlap_by_the_resolution() {
    let kept = |first: Draft, second: (i64, i64), status, resolution| {
        let mut second = tied(Role::Attempt, second, status);
        second.row.arrival_resolution_us = resolution;
        second.row.input_tokens = Some(9);
        let (rows, counts) = run(vec![first, second]);
        (rows.len(), counts.merged, rows[0].row.status, rows[0].row.attempt_count)
    };
    let failed = || tied(Role::Attempt, (0, 6), Status::Error);
    let one = (1, 1, Status::Ok, 2);
    assert_eq!(kept(failed(), (6, 9), Status::Ok, 1), one);
    assert_eq!(kept(failed(), (5, 9), Status::Ok, 1).0, 2, "a clock of microseconds");
    assert_eq!(kept(failed(), (5, 9), Status::Ok, SECOND), one);
    assert_eq!(kept(failed(), (4, 9), Status::Ok, SECOND), one, "both ends are rounded");
    assert_eq!(kept(failed(), (3, 9), Status::Ok, SECOND).0, 2);
    assert_eq!(kept(failed(), (0, 9), Status::Ok, SECOND), one, "measured from the start");
    assert_eq!(kept(failed(), (66, 69), Status::Ok, SECOND), one);
    assert_eq!(kept(failed(), (67, 69), Status::Ok, SECOND).0, 2, "too late");
    // The success stands first where both start together.
    let good = || tied(Role::Attempt, (0, 9), Status::Ok);
    assert_eq!(kept(good(), (0, 6), Status::Error, SECOND), one);
    assert_eq!(kept(good(), (0, 12), Status::Error, SECOND).0, 2, "ends after the success");
    assert_eq!(kept(good(), (0, 9), Status::Ok, SECOND).0, 2, "two successes are two calls");
    let mut other = tied(Role::Attempt, (0, 6), Status::Error);
    other.join = Some(Join { key: Hash128([8; 16]), role: Role::Attempt });
    assert_eq!(kept(other, (6, 9), Status::Ok, 1).0, 2, "another key");
}

#[test]
fn the_last_failure_counts_when_all_failed() {
    let mut last = tied(Role::Attempt, (3, 4), Status::RateLimited);
    last.row.http_status_code = Some(429);
    let (rows, counts) = run(vec![tied(Role::Attempt, (0, 2), Status::Error), last]);
    let row = &rows[0].row;
    assert_eq!((counts.merged, row.status, row.attempt_count), (1, Status::RateLimited, 2));
    assert_eq!((row.http_status_code, row.arrival_time), (Some(429), Some(WallTime(0))));
}

#[test]
fn parts_fill_each_other_and_tokens_count_once() {
    let mut received = tied(Role::Part(1), (0, 0), Status::Unknown);
    received.row.end_time = None;
    received.row.duration_us = None;
    received.row.max_tokens = Some(512);
    received.row.input_tokens = Some(1_300);
    received.chain = Some(Box::new(Chain { own: Some(Hash128([3; 16])), ..Chain::default() }));
    let mut finished = tied(Role::Part(2), (300, 300), Status::Ok);
    finished.row.arrival_source = ArrivalSource::EndOnly;
    finished.row.duration_us = None;
    finished.row.input_tokens = Some(1_320);
    finished.row.input_token_source = TokenSource::Engine;
    finished.row.output_tokens = Some(160);
    let between = Draft::from(row(0, (100, 101), Status::Ok));
    let (rows, counts) = run(vec![received, between, finished]);
    assert_eq!((rows.len(), counts.merged), (2, 1));
    let whole = &rows[0];
    assert_eq!(whole.row.arrival_time, Some(WallTime(0)), "the instant that was logged");
    assert_eq!(whole.row.duration_us, Some(300 * SECOND));
    assert_eq!((whole.row.input_tokens, whole.row.output_tokens), (Some(1_320), Some(160)));
    assert_eq!(whole.row.input_token_source, TokenSource::Engine);
    assert_eq!((whole.row.max_tokens, whole.row.status), (Some(512), Status::Ok));
    assert_eq!(whole.row.flags, [Flag::SplitRowsMerged]);
    assert_eq!(whole.chain.as_ref().unwrap().own, Some(Hash128([3; 16])));
}

#[test]
fn of_three_parts_the_rank_counts_and_not_the_order() {
    let part = |rank: u8, model: &str| {
        let mut part = tied(Role::Part(rank), (0, 5), Status::Ok);
        part.row.request_model = Some(model.into());
        part.row.output_tokens = (rank < 3).then_some(u32::from(rank));
        part
    };
    for order in [[1, 3, 2], [3, 2, 1], [2, 1, 3]] {
        let (rows, counts) =
            run(order.map(|rank| part(rank, ["", "a", "b", "c"][usize::from(rank)])).to_vec());
        assert_eq!((rows.len(), counts.merged), (1, 2));
        assert_eq!(rows[0].row.request_model.as_deref(), Some("c"), "{order:?}");
        assert_eq!(rows[0].row.output_tokens, Some(2), "{order:?}");
    }
}

#[test]
fn gateway_and_engine_give_what_each_knows_best() {
    let mut gateway = tied(Role::Part(2), (0, 10), Status::Cancelled);
    gateway.row.time_to_first_chunk_us = Some(9 * SECOND);
    gateway.row.input_tokens = Some(100);
    gateway.row.cache_read_input_tokens = Some(0);
    let mut engine = tied(Role::Part(1), (1, 9), Status::Ok);
    engine.row.queue_time_us = Some(20);
    engine.row.time_to_first_chunk_us = Some(2 * SECOND);
    engine.row.cache_read_input_tokens = Some(64);
    let (rows, _) = run(vec![gateway.clone(), engine.clone()]);
    let row = &rows[0].row;
    assert_eq!((row.status, row.duration_us), (Status::Cancelled, Some(10 * SECOND)));
    assert_eq!((row.queue_time_us, row.cache_read_input_tokens), (Some(20), Some(64)));
    assert_eq!(row.time_to_first_chunk_us, Some(3 * SECOND), "from the gateway's arrival");
    // With a skewed clock the engine's span stands first; the gateway's arrival still counts.
    engine.row.arrival_time = Some(WallTime(-1));
    let (rows, _) = run(vec![engine, Draft::from(self::row(0, (0, 1), Status::Ok)), gateway]);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].row.arrival_time, Some(WallTime(0)), "moved behind the row between");
    assert_eq!(rows[1].row.time_to_first_chunk_us, Some(2 * SECOND));
}

#[test]
fn parts_far_apart_are_two_calls() {
    let count = |second: (i64, i64)| {
        let parts =
            [tied(Role::Part(1), (0, 5), Status::Ok), tied(Role::Part(2), second, Status::Ok)];
        run(parts.to_vec()).0.len()
    };
    assert_eq!(count((3, 9)), 1);
    assert_eq!(count((7, 9)), 1, "within the slack");
    assert_eq!(count((8, 9)), 2);
    let untimed = |rank| {
        let mut part = tied(Role::Part(rank), (0, 0), Status::Ok);
        part.row.arrival_time = None;
        part.row.end_time = None;
        part
    };
    let last = Draft::from(row(0, (5, 6), Status::Ok));
    let rows = run(vec![untimed(1), untimed(2), last]).0;
    assert_eq!(rows.len(), 2, "without times the key decides");
}

#[test]
fn two_parts_of_one_rank_are_two_calls() {
    let part = |rank, second: (i64, i64)| tied(Role::Part(rank), second, Status::Ok);
    let parts = vec![part(1, (0, 5)), part(1, (1, 4)), part(2, (2, 5)), part(2, (3, 5))];
    let (rows, counts) = run(parts);
    assert_eq!((rows.len(), counts.merged), (3, 1));
}

#[test]
fn a_trace_of_another_gateway_holds_many_calls() {
    let mut rows = [row(1, (0, 2), Status::Error), row(1, (3, 4), Status::Ok)];
    assert_eq!(merged(rows.to_vec()).1, 1);
    for row in &mut rows {
        row.source_format = "otlp-spans".into();
    }
    assert_eq!(merged(rows.to_vec()).1, 0);
}

#[test]
fn the_latest_version_counts() {
    let version = |stamp: i64, at: i64| {
        let mut version = tied(Role::Version(stamp), (at, at + 1), Status::Ok);
        version.row.output_tokens = Some(u32::try_from(stamp).unwrap());
        version
    };
    for order in [[(1, 0), (5, 0)], [(5, 0), (1, 0)], [(1, 0), (5, 2)]] {
        let (rows, counts) = run(order.map(|(stamp, at)| version(stamp, at)).to_vec());
        assert_eq!((rows.len(), counts.merged, counts.older_versions), (1, 0, 1));
        assert_eq!(rows[0].row.output_tokens, Some(5), "{order:?}");
        assert_eq!(rows[0].row.flags, [Flag::Deduplicated]);
        assert_eq!(counts.exact_repeats, 0);
    }
    assert_eq!(run(vec![version(1, 0), version(5, 3)]).0.len(), 2, "they start together");
}

#[test]
fn side_spans_are_evidence_and_no_rows() {
    let side = |role, second: i64| {
        let mut side = tied(role, (second, second), Status::Ok);
        side.join = Some(Join { key: Hash128([1; 16]), role });
        side
    };
    let label = |side: Draft, key: u8, second: i64| {
        let (rows, counts) = run(vec![side, row(key, (second, second + 1), Status::Ok).into()]);
        assert_eq!((rows.len(), counts.side_spans), (1, 1));
        (rows[0].row.rag_label, rows[0].row.rag_evidence.len())
    };
    let none = (RagLabel::Unknowable, 0);
    assert_eq!(label(side(Role::Retrieval, 0), 1, 600), (RagLabel::Explicit, 1));
    assert_eq!(label(side(Role::Retrieval, 0), 1, 601), none, "too long ago");
    assert_eq!(label(side(Role::Retrieval, 0), 2, 1), none, "another trace");
    assert_eq!(label(side(Role::Tool, 0), 1, 1), none, "a tool retrieves nothing");
    let (rows, _) = run(vec![row(1, (0, 1), Status::Ok).into(), side(Role::Retrieval, 1)]);
    assert_eq!(rows[0].row.rag_label, RagLabel::Unknowable, "after the request");
}

#[test]
fn an_embedding_just_before_hints_at_one_request() {
    let labels = |second: (i64, i64), change: fn(&mut RequestRecord)| {
        let keyed = |mut row: RequestRecord| {
            row.key_hash = Some(Hash128([4; 16]));
            row
        };
        let mut embedding = keyed(row(0, second, Status::Ok));
        embedding.operation = Operation::Embeddings;
        change(&mut embedding);
        let asks = keyed(row(0, (10, 11), Status::Ok));
        let (rows, _) = run(vec![embedding.into(), asks.clone().into(), asks.into()]);
        [rows[1].row.rag_label, rows[2].row.rag_label]
    };
    let none = [RagLabel::Unknowable; 2];
    let first = [RagLabel::Heuristic, RagLabel::Unknowable];
    assert_eq!(labels((4, 5), |_| {}), first, "the first one claims it");
    assert_eq!(labels((3, 4), |_| {}), none, "6 s before");
    assert_eq!(labels((9, 11), |_| {}), none, "not done yet");
    assert_eq!(labels((4, 5), |row| row.key_hash = Some(Hash128([5; 16]))), none);
    assert_eq!(labels((4, 5), |row| row.operation = Operation::Chat), none);
    assert_eq!(labels((4, 5), |row| row.status = Status::Error), none);
}

#[test]
fn an_embedding_of_the_question_is_strong_evidence() {
    let labels = |embedded: Option<u8>, asked: Option<u8>| {
        let draft = |second: (i64, i64), operation, text: Option<u8>| {
            let mut row = row(0, second, Status::Ok);
            row.key_hash = Some(Hash128([4; 16]));
            row.operation = operation;
            let last_user = text.map(|text| Hash128([text; 16]));
            Draft {
                row: Box::new(row),
                join: None,
                chain: Some(Box::new(Chain { last_user, ..Chain::default() })),
            }
        };
        let asks = draft((10, 11), Operation::Chat, asked);
        let (rows, _) =
            run(vec![draft((4, 5), Operation::Embeddings, embedded), asks.clone(), asks]);
        [rows[1].row.rag_label, rows[2].row.rag_label]
    };
    assert_eq!(labels(Some(1), Some(1)), [RagLabel::Strong; 2], "a retry has it too");
    assert_eq!(labels(Some(1), Some(2)), [RagLabel::Unknowable; 2], "another text");
    assert_eq!(labels(None, Some(1))[0], RagLabel::Heuristic);
    assert_eq!(labels(Some(1), None)[0], RagLabel::Heuristic);
}

#[test]
fn a_log_given_twice_gives_its_rows_once() {
    let mut request = row(0, (0, 1), Status::Ok);
    request.request_id_hash = Some(Hash128([6; 16]));
    let mut again = request.clone();
    again.source_file_id = 1;
    let (rows, counts) = run(vec![request.clone().into(), again.clone().into()]);
    assert_eq!((rows.len(), counts.older_versions, counts.exact_repeats), (1, 1, 1));
    again.duration_us = Some(7);
    let (rows, counts) = run(vec![request.into(), again.into()]);
    assert_eq!((rows.len(), counts.older_versions, counts.repeated_ids), (2, 0, 1));
    assert_eq!(counts.decisions()[0].what, "request ids found twice");
}
