//! Tests of recorded plans: edges, windows, counts that add up, and the laws of speed.

use super::*;
use crate::domain::record::Status;
use crate::domain::seed::Seed;
use crate::domain::time::Nanos;
use crate::plan::check::Checker;
use crate::plan::options::{CommonOptions, Edge};
use crate::plan::testing::{pool, record};
use proptest::prelude::*;

type Planned = Result<(Vec<ScheduledRequest>, Recorded), PlanError>;

fn plan_seeded(records: &[RequestRecord], options: &RecordedOptions, seed: u64) -> Planned {
    let pool = pool(100, 8);
    let mut scan = TraceScan::new(Seed(seed));
    for record in records {
        scan.add(record);
    }
    let assigner = Assigner::new(&pool, Seed(seed))?;
    let mut planner = RecordedPlanner::new(scan, options.clone(), assigner)?;
    let mut requests = Vec::new();
    // Batches of three: what is planned must not depend on where a batch ends.
    for batch in records.chunks(3) {
        requests.extend(planner.plan(batch)?);
    }
    Checker::default().check(&requests)?;
    planner.finish().map(|done| (requests, done))
}

fn plan(records: &[RequestRecord], options: &RecordedOptions) -> Planned {
    plan_seeded(records, options, 42)
}

fn offsets(requests: &[ScheduledRequest]) -> Vec<u64> {
    let offset = |request: &ScheduledRequest| match request.release {
        Release::At(at) => at.0,
        other => panic!("{other:?}"),
    };
    requests.iter().map(offset).collect()
}

fn every_second(rows: i64) -> Vec<RequestRecord> {
    (0..rows).map(|n| record(n * 1_000_000, 40, 10)).collect()
}

#[test]
fn the_file_is_the_workload() {
    let start = 1_700_158_623_979_960;
    let records = [record(start, 33, 7), record(start, 90, 1), record(start + 41, 4, 800)];
    let (requests, done) = plan(&records, &RecordedOptions::default()).unwrap();
    assert_eq!(offsets(&requests), [0, 0, 41_000], "the source's own microseconds");
    assert_eq!(done.origin, WallTime(start));
    let lengths: Vec<_> = requests.iter().map(|r| (r.input_tokens, r.max_tokens)).collect();
    assert_eq!(lengths, [(33, 7), (90, 1), (4, 800)]);
    assert!(requests.iter().all(|r| r.min_tokens == Some(r.max_tokens) && r.stream));
    assert_eq!((done.counts.source_rows, done.counts.planned), (3, 3));
}

#[test]
fn nothing_to_plan_is_an_error_with_a_name() {
    let options = RecordedOptions::default();
    assert_eq!(plan(&[], &options).unwrap_err(), PlanError::EmptyTrace);
    let timeless = RequestRecord { arrival_time: None, ..record(0, 1, 1) };
    assert_eq!(
        plan(std::slice::from_ref(&timeless), &options).unwrap_err(),
        PlanError::NoTimes { rows: 1 }
    );
    let (first, last) = (WallTime(0), WallTime(1_000_000));
    let late = RecordedOptions { from: Some(Edge::At(WallTime(9_000_000))), ..options.clone() };
    let nothing = PlanError::NothingSelected { rows: 2, first, last };
    assert_eq!(plan(&every_second(2), &late).unwrap_err(), nothing);
    let backward = RecordedOptions { to: late.from, ..late };
    assert!(matches!(plan(&every_second(2), &backward), Err(PlanError::BackwardWindow { .. })));
    let unsorted = [record(5, 1, 1), record(4, 1, 1)];
    assert_eq!(plan(&unsorted, &options).unwrap_err(), PlanError::NotSorted { row: 1 });
    let slow = RecordedOptions { speed: "0.000000001".parse().unwrap(), ..options.clone() };
    let month = [record(0, 1, 1), record(2_592_000_000_000, 1, 1)];
    assert_eq!(plan(&month, &slow).unwrap_err(), PlanError::TooSlow { request_id: 1 });
    let (one, done) = plan(&[timeless, record(7, 1, 1)], &options).unwrap();
    assert_eq!((offsets(&one), done.counts.without_arrival), (vec![0], 1));
}

#[test]
fn a_window_includes_its_start_and_excludes_its_end() {
    let seconds = |s: u64| Some(Edge::Offset(Nanos(s * 1_000_000_000)));
    let options =
        RecordedOptions { from: seconds(2), to: seconds(5), ..RecordedOptions::default() };
    let (requests, done) = plan(&every_second(10), &options).unwrap();
    assert_eq!(offsets(&requests), [0, 1_000_000_000, 2_000_000_000]);
    assert_eq!((done.origin, done.counts.outside_window), (WallTime(2_000_000), 7));
    let instants = RecordedOptions {
        from: Some(Edge::At(WallTime(2_000_000))),
        to: Some(Edge::At(WallTime(5_000_000))),
        ..options
    };
    assert_eq!(plan(&every_second(10), &instants).unwrap().0, requests);
}

#[test]
fn every_row_left_out_has_a_reason() {
    let mut records = every_second(8);
    records[0].cache_status = Some(CacheStatus::Hit);
    records[1].flags.push(Flag::CacheHit);
    records[2].operation = Operation::Embeddings;
    let common = CommonOptions { num_requests: Some(2), ..CommonOptions::default() };
    let options = RecordedOptions { common, ..RecordedOptions::default() };
    let (requests, done) = plan(&records, &options).unwrap();
    let counts = &done.counts;
    assert_eq!((counts.cache_hits, counts.not_generation, counts.not_selected), (2, 1, 3));
    assert!(counts.add_up(), "{counts:?}");
    assert_eq!(done.origin, WallTime(3_000_000), "the first request leaves at once");
    assert_eq!(offsets(&requests), [0, 1_000_000_000]);
    let keep = RecordedOptions { keep_cache_hits: true, ..RecordedOptions::default() };
    assert_eq!(plan(&records, &keep).unwrap().1.counts.planned, 7);
}

#[test]
fn failed_rows_keep_their_arrival_and_draw_their_lengths() {
    let mut records: Vec<_> = (1..100_u32).map(|n| record(i64::from(n), 10 * n, n)).collect();
    records[40].output_tokens = None;
    records[40].status = Status::RateLimited;
    records[50].input_tokens = None;
    records[50].output_tokens = Some(0);
    let (requests, done) = plan(&records, &RecordedOptions::default()).unwrap();
    assert_eq!(offsets(&requests)[40], 40_000);
    assert!(requests[40].max_tokens.abs_diff(41) <= 17, "{}", requests[40].max_tokens);
    assert_eq!(requests[50].input_tokens, 10 * requests[50].max_tokens, "one row's two lengths");
    assert_eq!((done.counts.input_drawn, done.counts.output_drawn), (1, 2));
    assert_eq!(done.counts.recorded_failures, 1);
    assert_eq!(requests[40].recorded_status, Some(Status::RateLimited));
    let alone = RequestRecord { output_tokens: None, ..record(0, 5, 1) };
    let no_lengths = PlanError::NoLengths { field: "output_tokens", row: 0 };
    assert_eq!(plan(&[alone], &RecordedOptions::default()).unwrap_err(), no_lengths);
}

#[test]
fn a_drawn_output_decides_between_single_and_long_output() {
    let mut long = record(0, 10, LONG_OUTPUT_TOKENS);
    long.scenario = Scenario::LongOutput;
    let unknown = RequestRecord { output_tokens: None, ..record(1, 10, 1) };
    let (requests, _) = plan(&[long, unknown], &RecordedOptions::default()).unwrap();
    assert_eq!(requests[1].scenario, Scenario::LongOutput);
}

#[test]
fn cuts_are_counted_and_hashes_become_dense_numbers() {
    let mut records = every_second(3);
    records[0].input_tokens = Some(5_000);
    for (n, record) in records.iter_mut().enumerate() {
        record.session_id_hash = Some(Hash128([u8::from(n != 1); 16]));
        record.turn_index = Some(u32::from(n == 2));
        record.prefix_block_hashes = vec![u64::MAX, 77 + u64::from(n == 2)];
    }
    let common = CommonOptions {
        max_output_tokens: Some(8),
        long_context_tokens: 4_999,
        force_output: false,
        ..CommonOptions::default()
    };
    let options = RecordedOptions { common, ..RecordedOptions::default() };
    let (requests, done) = plan(&records, &options).unwrap();
    assert_eq!((done.counts.input_clipped, done.counts.output_clipped), (0, 3));
    assert_eq!(done.counts.long_context, 1);
    assert!(requests.iter().all(|r| r.max_tokens == 8 && r.min_tokens.is_none()));
    let sessions: Vec<_> = requests.iter().map(|r| r.session_id).collect();
    assert_eq!(sessions, [Some(0), Some(1), Some(0)]);
    assert_eq!(requests[2].turn_index, Some(1));
    let blocks: Vec<_> = requests.iter().map(|r| r.prefix_block_ids.clone()).collect();
    assert_eq!(blocks, [[0, 1], [0, 1], [0, 2]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn doubling_the_speed_halves_every_arrival(
        gaps in prop::collection::vec(0_i64..5_000_000, 1..40), cents in 1_u64..900, seed in 0_u64..99
    ) {
        let mut at = 1_700_000_000_000_000;
        let records: Vec<_> = gaps.iter().map(|gap| { at += gap; record(at, 20, 3) }).collect();
        let speed = |cents: u64| RecordedOptions {
            speed: format!("{}.{:02}", cents / 100, cents % 100).parse().unwrap(),
            ..RecordedOptions::default()
        };
        let (slow, _) = plan_seeded(&records, &speed(cents), seed).unwrap();
        let (fast, _) = plan_seeded(&records, &speed(2 * cents), seed).unwrap();
        for (slow, fast) in offsets(&slow).into_iter().zip(offsets(&fast)) {
            prop_assert!((2 * fast).abs_diff(slow) <= 1);
        }
    }

    #[test]
    fn counts_add_up_and_equal_seeds_give_equal_plans(
        rows in prop::collection::vec((0_i64..3_000_000, 1_u32..6_000, 0_u32..900, 0_u8..6), 1..60),
        from in 0_u64..20, cap in prop::option::of(1_u64..30), seed in 0_u64..99
    ) {
        let mut at = 0;
        let mut records = vec![record(0, 10, 10)];
        for (gap, input, output, kind) in rows {
            at += gap;
            let mut row = record(at, input, output);
            row.cache_status = (kind == 0).then_some(CacheStatus::SemanticHit);
            row.operation = if kind == 1 { Operation::Rerank } else { Operation::Chat };
            row.arrival_time = row.arrival_time.filter(|_| kind != 2);
            records.push(row);
        }
        let common = CommonOptions { num_requests: cap, ..CommonOptions::default() };
        let from = Some(Edge::Offset(Nanos(from * 1_000_000_000)));
        let options = RecordedOptions { from, common, ..RecordedOptions::default() };
        match plan_seeded(&records, &options, seed) {
            Ok((requests, done)) => {
                prop_assert!(done.counts.add_up());
                prop_assert_eq!(done.counts.source_rows, convert::count(records.len()));
                prop_assert_eq!(done.counts.planned, convert::count(requests.len()));
                let again = plan_seeded(&records, &options, seed).unwrap();
                prop_assert_eq!(&again, &(requests, done));
            }
            Err(error) => {
                let empty = matches!(error, PlanError::NothingSelected { .. });
                prop_assert!(empty, "{}", error);
            }
        }
    }
}

#[test]
fn another_seed_gives_other_prompts_at_the_same_times() {
    let records = every_second(50);
    let options = RecordedOptions::default();
    let (one, _) = plan_seeded(&records, &options, 1).unwrap();
    let (two, _) = plan_seeded(&records, &options, 2).unwrap();
    assert_eq!(offsets(&one), offsets(&two));
    assert!(one.iter().zip(&two).any(|(a, b)| a.prompt_parts != b.prompt_parts));
}
