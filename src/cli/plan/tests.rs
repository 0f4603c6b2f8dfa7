//! Tests of the verb: its grammar, its table, and plans written to files.

use super::*;
use crate::domain::pool_index::{PoolEntry, PoolManifest, PoolText};
use crate::domain::record::{ArrivalSource, RequestRecord, Status};
use crate::domain::scenario::Scenario;
use crate::domain::schedule::{CountKind, Release};
use crate::domain::time::WallTime;
use crate::domain::trace::TraceMetadata;
use crate::plan::testing::model;
use crate::table::schedule::ScheduleReader;
use crate::table::trace::TraceWriter;
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    globals: Globals,
    #[command(flatten)]
    args: Args,
}

fn line(text: &str) -> Result<Line, clap::Error> {
    Line::try_parse_from(std::iter::once("plan").chain(text.split_whitespace()))
}

fn refused(text: &str) -> String {
    let line = line(text).expect("clap accepts it");
    super::super::failure::render(&plan(&line.args, &line.globals).expect_err("refused"))
}

#[test]
fn an_unknown_mode_names_those_there_are() {
    let error = line("--trace t --pool p --mode resample").expect_err("not offered");
    insta::assert_snapshot!(error.to_string().lines().take(2).collect::<Vec<_>>().join("\n"), @r"
    error: invalid value 'resample' for '--mode <MODE>'
      [possible values: recorded, classic]
    ");
    assert!(line("--pool p").is_err(), "a source is needed");
    assert!(line("--trace t --model m --pool p").is_err(), "and only one");
    assert!(line("--trace t --pool p --num-prompts 0").is_err());
    let args = line("--model m --pool p --request-count 7 --max-input-tokens 4k").unwrap().args;
    assert_eq!(args.limits.num_requests, Some(7));
    assert_eq!(args.limits.max_input_tokens, Some(4_000));
}

#[test]
fn options_of_the_other_source_are_refused_together() {
    insta::assert_snapshot!(refused("--trace t --pool p --mode classic --request-rate 3 --duration 5s"), @r"
    error: plan: `--mode classic` draws from `--model`, not `--trace`; `--request-rate` goes with `--model`; `--duration` goes with `--model` (for a trace: `--to`)
    hint: `tracewright fit` makes a model of a trace
    ");
    insta::assert_snapshot!(refused("--model t --pool p --mode recorded --speed 2 --to 5s --keep-cache-hits"), @r"
    error: plan: `--mode recorded` replays `--trace`, not `--model`; `--speed` goes with `--trace` (for a model: `--request-rate`); `--from`, `--to` go with `--trace`; `--keep-cache-hits` goes with `--trace`
    hint: `tracewright fit` makes a model of a trace
    ");
}

fn request(request_id: u64, at_ms: u64, input_tokens: u32) -> ScheduledRequest {
    ScheduledRequest {
        request_id,
        scenario: Scenario::MultiTurn,
        session_id: Some(0),
        turn_index: None,
        release: Release::At(Nanos::from_millis(at_ms)),
        prompt_parts: Vec::new(),
        input_tokens,
        count_kind: CountKind::Raw,
        content_tokens: input_tokens,
        template_tokens: None,
        max_tokens: 500,
        min_tokens: None,
        stream: true,
        prefix_block_ids: Vec::new(),
        recorded_status: None,
        repeat_of: None,
    }
}

#[test]
fn the_table_shows_where_every_row_went() {
    let counts = PlanCounts {
        source_rows: 12_003,
        planned: 3,
        outside_window: 11_900,
        cache_hits: 100,
        output_drawn: 1,
        recorded_failures: 1,
        input_clipped: 2,
        long_context: 1,
        ..PlanCounts::default()
    };
    assert!(counts.add_up());
    let metadata = PlanMetadata {
        mode: PlanMode::Recorded,
        seed: 42,
        trace_digest: None,
        model_digest: None,
        pool_digest: String::new(),
        tokenizer: String::new(),
        tokenizer_digest: String::new(),
        speed: Some(1.0),
        request_rate_per_s: None,
        trace_origin_us: Some(0),
        long_context_tokens: 4_000,
        counts,
    };
    let mut summary = PlanSummary::default();
    summary.add(&[request(0, 0, 4_000), request(1, 250, 1_234), request(2, 600_000, 90)]);
    let lines = caveats(&summary).join("\n");
    let planned = Planned { metadata, summary, max_input_tokens: Some(16_000) };
    insta::assert_snapshot!(table(&planned), @r"
    planned requests             3
    mode                         recorded
    first to last                600.000 s
    mean rate                    0.003/s
    peak rate                    2/s
    input tokens                 5,324
    output tokens                1,500
    input above 4,000 tokens     1 (33.3 %)
    rows of the trace            12,003
      outside the window         11,900
      answered from a cache      100
    recorded failures            1
    output lengths drawn         1
    inputs cut to 16,000 tokens  2
    ");
    insta::assert_snapshot!(lines, @r"
    note: input tokens count the content alone; the server's chat template adds its own
    note: prompts of one session share no text, so a server's prefix cache hits less than it did for the trace
    ");
}

/// A directory with a small pool and a trace of an arrival every 10 ms, one row of it failed.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let texts = (0..40).map(|entry_id| {
        let cut_tokens: Vec<u32> = if entry_id < 30 { (1..=60).collect() } else { vec![1] };
        let tokens = *cut_tokens.last().unwrap();
        let kind = if entry_id < 30 { "en" } else { "filler" }.to_owned();
        let text = "word ".repeat(usize::try_from(tokens).unwrap());
        let cut_bytes = cut_tokens.iter().map(|tokens| 5 * tokens).collect();
        PoolText { entry: PoolEntry { entry_id, tokens, kind, cut_tokens }, text, cut_bytes }
    });
    let manifest = PoolManifest {
        schema_version: 1,
        tool_version: "0".to_owned(),
        tokenizer: "test".to_owned(),
        tokenizer_digest: String::new(),
        pool_digest: String::new(),
        seed: 1,
        entries: 40,
        tokens: 1_810,
        buckets: Vec::new(),
        kinds: Vec::new(),
        joins_checked: 1,
        joins_failed: 0,
    };
    let texts: Vec<PoolText> = texts.collect();
    crate::table::pool::write(&dir.path().join("pool"), &manifest, &texts, false).unwrap();
    let records: Vec<RequestRecord> = (0_u32..200)
        .map(|n| RequestRecord {
            arrival_time: Some(WallTime(1_700_000_000_000_000 + i64::from(n) * 10_000)),
            arrival_source: ArrivalSource::Logged,
            input_tokens: Some(1 + n * n),
            output_tokens: (n != 100).then_some(1 + n),
            status: if n == 100 { Status::Error } else { Status::Ok },
            ..RequestRecord::unknown("test".into(), 0, u64::from(n))
        })
        .collect();
    let mut writer = TraceWriter::create(&dir.path().join("trace.parquet"), false).unwrap();
    writer.write(&records).unwrap();
    writer.finish(&TraceMetadata::default()).unwrap();
    dir
}

fn plan_in(dir: &Path, options: &str) -> Result<Planned, String> {
    // `@` stands for the directory.
    let text = format!("--pool @pool {options}").replace('@', &format!("{}/", dir.display()));
    let line = line(&text).expect("clap accepts it");
    plan(&line.args, &line.globals).map_err(|error| super::super::failure::render(&error))
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let dir = directory();
    crate::table::model::write(&dir.path().join("model.json"), &model(), false).unwrap();
    let bytes = |output: &str, options: &str| {
        plan_in(dir.path(), &format!("{options} -o @{output}")).unwrap();
        std::fs::read(dir.path().join(output)).unwrap()
    };
    for (mode, source) in
        [("r", "--trace @trace.parquet"), ("c", "--model @model.json --num-requests 300")]
    {
        let first = bytes(&format!("{mode}1"), source);
        assert_eq!(first, bytes(&format!("{mode}2"), source));
        assert_ne!(first, bytes(&format!("{mode}3"), &format!("{source} --seed 7")));
    }
}

#[test]
fn a_plan_of_a_trace_reads_back() {
    let dir = directory();
    let options = "--trace @trace.parquet --from 500ms --to 1500ms --num-requests 60 -o @plan";
    let planned = plan_in(dir.path(), options).unwrap();
    let reader = ScheduleReader::open(&dir.path().join("plan")).unwrap();
    let metadata = reader.metadata().clone();
    assert_eq!(metadata, planned.metadata);
    assert_eq!((metadata.mode, metadata.seed, metadata.speed), (PlanMode::Recorded, 42, Some(1.0)));
    assert_eq!(metadata.trace_origin_us, Some(1_700_000_000_500_000));
    let counts = &metadata.counts;
    assert_eq!((counts.planned, counts.outside_window, counts.not_selected), (60, 100, 40));
    assert_eq!((counts.output_drawn, counts.recorded_failures), (1, 1));
    assert!(counts.add_up());
    let requests: Vec<ScheduledRequest> = reader.flat_map(|batch| batch.unwrap()).collect();
    assert_eq!(requests.len(), 60);
    assert_eq!(requests[1].release, Release::At(Nanos::from_millis(10)));
    assert_eq!(requests[0].input_tokens, 2_501);
}

#[test]
fn a_plan_of_a_model_reads_back() {
    let dir = directory();
    crate::table::model::write(&dir.path().join("model.json"), &model(), false).unwrap();
    let options = "--model @model.json --duration 1m --request-rate 20 -o @plan";
    let planned = plan_in(dir.path(), options).unwrap();
    let reader = ScheduleReader::open(&dir.path().join("plan")).unwrap();
    assert_eq!(reader.metadata(), &planned.metadata);
    assert_eq!(planned.metadata.request_rate_per_s, Some(20.0));
    assert_eq!(planned.max_input_tokens, Some(3_000), "the longest input of the model's trace");
    let requests: Vec<ScheduledRequest> = reader.flat_map(|batch| batch.unwrap()).collect();
    assert_eq!(convert::count(requests.len()), planned.metadata.counts.planned);
    let error = plan_in(dir.path(), "--model @model.json -o @endless").unwrap_err();
    assert!(error.starts_with("error: plan: nothing says where it ends\nhint: "), "{error}");
}

#[test]
fn a_plan_that_fails_leaves_nothing_behind() {
    let dir = directory();
    let whole = "--trace @trace.parquet -o @plan";
    let error = plan_in(dir.path(), &format!("{whole} --from 1h")).unwrap_err();
    assert!(error.starts_with("error: window: none of 200 rows is left to plan"), "{error}");
    assert!(error.contains("hint: widen"), "{error}");
    let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["pool", "trace.parquet"]);
    plan_in(dir.path(), whole).unwrap();
    assert!(plan_in(dir.path(), whole).is_err(), "an existing output is kept");
    plan_in(dir.path(), &format!("{whole} --force")).unwrap();
}
