//! The content of a report, laid out but not yet text or Markdown.
//!
//! A [`Report`] in, titled blocks of tables and sentences out; `text` and `markdown` only draw
//! them, so both say the same. Times are milliseconds.

use super::cells::{self, Table};
use super::latency::{Distribution, ErrorAdjusted, GroupLatency};
use super::summarize::{ALL, Report};
use crate::domain::metric::Latency;
use crate::domain::percentiles;
use crate::domain::proportion::Proportion;
use crate::domain::schedule::PlanMode;

/// A titled part of a report.
#[derive(Clone, Debug)]
pub(super) struct Section {
    /// The heading.
    pub(super) title: String,
    /// What stands below it.
    pub(super) blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Clone, Debug)]
pub(super) enum Block {
    /// A table.
    Table(Table),
    /// A sentence or two.
    Sentence(String),
    /// A term and what is said of it.
    Item(String, String),
}

/// Returns the sections in the order they are read, the verdict apart.
pub(super) fn of(report: &Report) -> Vec<Section> {
    let sections = [
        section("Run", run(report)),
        section("Requests", requests(report)),
        section("Latency of succeeded requests, all kinds (ms)", latency(report)),
        section("Latency with failures sorted last (ms)", adjusted(report)),
        section("Latency by kind of request (ms)", by_group(report)),
        section("Punctuality of the client", punctuality(report)),
        section("Throughput", throughput(report)),
        section("Tokens", tokens(report)),
        section("Connections and streams", connections(report)),
        section("Failures", failures(report)),
        section("Warnings", warnings(report)),
        section("Definitions", definitions(report)),
    ];
    sections.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

fn section(title: &str, blocks: Vec<Block>) -> Section {
    Section { title: title.to_owned(), blocks }
}

/// Returns a table of names and values without a header.
fn pairs(rows: Vec<(&str, String)>) -> Vec<Block> {
    let mut table = Table::new(2, &["", ""]);
    for (name, value) in rows {
        table.row(vec![name.to_owned(), value]);
    }
    vec![Block::Table(table)]
}

fn run(report: &Report) -> Vec<Block> {
    let (run, plan) = (&report.run, &report.plan);
    let mut load = format!("{} (seed {})", plan.mode, plan.seed);
    if let Some(speed) = plan.speed.filter(|_| plan.mode == PlanMode::Recorded) {
        load = format!("{load}, {speed} times the trace's speed");
    }
    let counted = run.count_kind.map_or("unknown", crate::domain::schedule::CountKind::as_str);
    let mut rows = vec![
        ("run", run.name.clone()),
        ("target", format!("{} ({}, model {})", run.target, run.api, run.model)),
        ("status", run.status.to_string()),
        ("plan", load),
        ("tokenizer", format!("{} (input counted: {counted})", run.tokenizer)),
    ];
    if let Some(class) = &run.scheduling_class {
        rows.push(("scheduling", class.clone()));
    }
    rows.extend(run.server.iter().map(|(name, value)| (name.as_str(), value.clone())));
    pairs(rows)
}

/// Returns a share of `whole` as a cell.
fn of_whole(part: u64, whole: u64) -> String {
    cells::percent(crate::domain::proportion::wilson(part, whole).map(|found| found.share))
}

fn requests(report: &Report) -> Vec<Block> {
    let account = &report.accounting;
    let mut table = Table::new(1, &["", "requests", "share"]);
    let mut row = |what: &str, n: u64, share: String| {
        table.row(vec![what.to_owned(), cells::count(n), share]);
    };
    if account.source_rows > 0 {
        let source = account.source_rows;
        row("rows of the trace", source, String::new());
        row(
            "  outside the window",
            account.outside_window,
            of_whole(account.outside_window, source),
        );
        row("  not selected (cap)", account.not_selected, of_whole(account.not_selected, source));
        row("  answered by a cache", account.cache_hits, of_whole(account.cache_hits, source));
        for (name, rows) in [
            ("  without an arrival time", account.without_arrival),
            ("  embeddings, reranking", account.not_generation),
        ] {
            if rows > 0 {
                row(name, rows, of_whole(rows, source));
            }
        }
        if let Some(rows) = account.source_rows_unexplained.filter(|rows| *rows > 0) {
            row("  unexplained", rows, of_whole(rows, source));
        }
    }
    row("planned = sent + unsent", account.planned, String::new());
    row("  unsent", account.unsent, of_whole(account.unsent, account.planned));
    row("  sent = succeeded + failed", account.sent, of_whole(account.sent, account.planned));
    row("    succeeded", account.succeeded, of_whole(account.succeeded, account.sent));
    row("    failed", account.failed, of_whole(account.failed, account.sent));
    vec![Block::Table(table)]
}

/// Returns the printed name of a latency.
const fn name(latency: Latency) -> &'static str {
    match latency {
        Latency::TtftFromActual => "TTFT, actual send",
        Latency::TtftFromIntended => "TTFT, intended send",
        Latency::TtftContentFromActual => "TTFT content, actual",
        Latency::TtftContentFromIntended => "TTFT content, intended",
        Latency::Tpot => "TPOT",
        Latency::ChunkGap => "chunk gap (pooled)",
        Latency::MeanChunkGap => "mean chunk gap",
        Latency::E2eFromActual => "E2E, actual send",
        Latency::E2eFromIntended => "E2E, intended send",
        Latency::E2eTextFromActual => "E2E text, actual",
        Latency::E2eTextFromIntended => "E2E text, intended",
    }
}

/// Returns the name of a latency in the first of its rows, and nothing in the others.
fn label(latency: Latency, group: &str) -> String {
    if group == ALL { name(latency).to_owned() } else { String::new() }
}

/// Returns a percentile as a cell, marked when its 95 % interval has no upper end.
fn percentile(value: Option<f64>, q: f64, n: u64) -> String {
    let open = percentiles::samples_for_bounded_interval(q).is_some_and(|needed| n < needed);
    let mark = if open && value.is_some() { "≥" } else { "" };
    format!("{mark}{}", cells::number(value))
}

/// Returns the cells of a distribution from its smallest to its largest value.
fn distribution(d: &Distribution) -> Vec<String> {
    vec![
        cells::count(d.n),
        cells::number(d.min_ms),
        cells::number(d.mean_ms),
        percentile(d.p50_ms, 0.5, d.n),
        percentile(d.p90_ms, 0.9, d.n),
        percentile(d.p95_ms, 0.95, d.n),
        percentile(d.p99_ms, 0.99, d.n),
        percentile(d.p99_9_ms, 0.999, d.n),
        cells::number(d.max_ms),
    ]
}

/// The header of [`distribution`].
const DISTRIBUTION: [&str; 9] = ["n", "min", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"];

/// Returns a table whose rows are words followed by a distribution.
fn distributions(words: &[&str]) -> Table {
    let header: Vec<&str> = words.iter().chain(&DISTRIBUTION).copied().collect();
    Table::new(words.len(), &header)
}

fn latency(report: &Report) -> Vec<Block> {
    let Some(all) = report.group(ALL) else { return Vec::new() };
    let mut table = distributions(&[""]);
    for (&latency, samples) in &all.success_only {
        let mut cells = vec![name(latency).to_owned()];
        cells.extend(distribution(samples));
        table.row(cells);
    }
    vec![Block::Table(table)]
}

/// Returns an error-adjusted percentile as a cell.
fn adjusted_cell(value: Option<f64>, n: u64) -> String {
    if value.is_none() && n > 0 { "failed".to_owned() } else { cells::number(value) }
}

fn adjusted(report: &Report) -> Vec<Block> {
    let mut table = Table::new(2, &["", "kind", "n", "failed", "p50", "p90", "p95", "p99"]);
    for latency in super::latency::ADJUSTED {
        for (group, found) in groups(report, |group| group.error_adjusted.get(&latency)) {
            let ErrorAdjusted { n, failed, p50_ms, p90_ms, p95_ms, p99_ms } = *found;
            let mut cells = vec![label(latency, group), group.to_owned()];
            cells.extend([cells::count(n), cells::count(failed)]);
            cells.extend([p50_ms, p90_ms, p95_ms, p99_ms].map(|value| adjusted_cell(value, n)));
            table.row(cells);
        }
    }
    if report.accounting.failed == 0 {
        return vec![Block::Sentence("No request failed: equal to the table above.".to_owned())];
    }
    vec![Block::Table(table)]
}

/// Returns what `pick` finds in each group, `all` alone when there is one kind only.
fn groups<'a, T>(
    report: &'a Report,
    pick: impl Fn(&'a GroupLatency) -> Option<&'a T>,
) -> Vec<(&'a str, &'a T)> {
    let wanted = if report.latency.len() <= 2 { 1 } else { report.latency.len() };
    let groups = report.latency.iter().take(wanted);
    groups.filter_map(|group| Some((group.group.as_str(), pick(group)?))).collect()
}

/// The latencies that are shown for each kind.
const BY_GROUP: [Latency; 5] = [
    Latency::TtftFromActual,
    Latency::TtftFromIntended,
    Latency::Tpot,
    Latency::ChunkGap,
    Latency::E2eFromIntended,
];

fn by_group(report: &Report) -> Vec<Block> {
    if report.latency.len() <= 2 {
        let kind = report.latency.get(1).map(|group| format!("All are `{}`.", group.group));
        return kind.map(Block::Sentence).into_iter().collect();
    }
    let mut table = Table::new(2, &["", "kind", "n", "mean", "p50", "p90", "p95", "p99", "max"]);
    for latency in BY_GROUP {
        for (group, d) in groups(report, |group| group.of(latency)) {
            let mut cells = vec![label(latency, group), group.to_owned()];
            let all = distribution(d).into_iter().enumerate();
            // The narrower table leaves the smallest value and p99.9 out.
            cells.extend(all.filter(|(column, _)| ![1, 7].contains(column)).map(|(_, cell)| cell));
            table.row(cells);
        }
    }
    vec![Block::Table(table)]
}

fn punctuality(report: &Report) -> Vec<Block> {
    let schedule = &report.schedule;
    let mut table = distributions(&["ms"]);
    let rows = [
        ("schedule delay", &schedule.delay),
        ("client's own delay", &schedule.own_delay),
        ("dispatch delay", &schedule.dispatch_delay),
    ];
    for (what, d) in rows {
        let mut cells = vec![what.to_owned()];
        cells.extend(distribution(d));
        table.row(cells);
    }
    let worst = schedule.worst_window.as_ref().map_or_else(cells::absent, |worst| {
        let share = cells::percent(Some(worst.achieved_share));
        format!("{share} of {} due from {:.0} s on", cells::count(worst.planned), worst.start_s)
    });
    let late = format!("{} ({})", cells::count(schedule.late), cells::percent(schedule.late_share));
    let mut blocks = vec![Block::Sentence(format!("Verdict: {}.", schedule.verdict))];
    blocks.push(Block::Table(table));
    blocks.extend(pairs(vec![
        ("late by more than 50 ms", late),
        ("sent early", cells::count(schedule.early)),
        ("worst 10 s window", worst),
        ("largest backlog", cells::maybe_count(schedule.largest_backlog)),
        ("drift, first to last tenth (ms)", cells::number(schedule.drift_ms)),
    ]));
    blocks
}

fn throughput(report: &Report) -> Vec<Block> {
    let flow = &report.throughput;
    let mut table = Table::new(1, &["", "planned", "achieved"]);
    let mut row = |what: &str, planned: String, achieved: String| {
        table.row(vec![what.to_owned(), planned, achieved]);
    };
    row(
        "requests sent per second",
        cells::number(flow.offered_requests_per_s),
        cells::number(flow.achieved_requests_per_s),
    );
    let peak = cells::maybe_count;
    row("most sends in any 100 ms", peak(flow.peak_due_100ms), peak(flow.peak_sends_100ms));
    row("most sends in any 1 s", peak(flow.peak_due_1s), peak(flow.peak_sends_1s));
    row("most in flight", cells::absent(), peak(flow.peak_in_flight));
    row("requests served per second", cells::absent(), cells::number(flow.requests_per_s));
    row("output tokens per second", cells::absent(), cells::number(flow.output_tokens_per_s));
    row("all tokens per second", cells::absent(), cells::number(flow.total_tokens_per_s));
    row("first send to last end (s)", cells::absent(), cells::number(flow.span_s));
    vec![Block::Table(table)]
}

fn tokens(report: &Report) -> Vec<Block> {
    let (input, output) = (&report.tokens.input, &report.tokens.output);
    let sources = &report.tokens.usage_sources;
    let signed =
        |value: Option<i64>| value.map_or_else(cells::absent, |value| format!("{value:+}"));
    let mean = input.mean_difference.map_or_else(cells::absent, |mean| format!("{mean:+.2}"));
    let range = format!(
        "mean {mean}, from {} to {}",
        signed(input.smallest_difference),
        signed(input.largest_difference)
    );
    let ratio = |part: u64, whole: u64, what: &str| {
        let share = of_whole(part, whole);
        format!("{} of {} {what} ({share})", cells::count(part), cells::count(whole))
    };
    pairs(vec![
        ("input as planned", ratio(input.equal, input.compared, "server counts")),
        ("input, server - planned", range),
        ("input from the server's cache", cells::percent(input.cached_share)),
        ("output as planned", ratio(output.reached, output.compared, "answers")),
        ("output received", ratio(output.received, output.planned, "planned tokens")),
        ("output shortfall", cells::percent(output.shortfall_share)),
        ("reasoning tokens", cells::maybe_count(output.reasoning)),
        ("tokens per chunk", cells::number(report.tokens.tokens_per_chunk)),
        (
            "counted by",
            format!(
                "server {}, this program {}, nobody {}",
                cells::count(sources.server),
                cells::count(sources.local),
                cells::count(sources.none)
            ),
        ),
    ])
}

fn connections(report: &Report) -> Vec<Block> {
    let (found, bursts) = (&report.connections, &report.one_burst_streams);
    let connect = &found.connect_time;
    pairs(vec![
        (
            "connections",
            format!(
                "new {}, reused {}, unknown {}",
                cells::count(found.new),
                cells::count(found.reused),
                cells::count(found.unknown)
            ),
        ),
        (
            "connect time (ms)",
            format!(
                "p50 {}, p99 {} over {}",
                cells::number(connect.p50_ms),
                percentile(connect.p99_ms, 0.99, connect.n),
                cells::count(connect.n)
            ),
        ),
        (
            "over 90 % of the text in one read",
            format!(
                "{} of {} streams ({})",
                cells::count(bursts.one_burst),
                cells::count(bursts.streams),
                cells::percent(bursts.share)
            ),
        ),
    ])
}

/// Returns a share's interval as a cell.
fn interval(proportion: Option<Proportion>) -> String {
    proportion.map_or_else(cells::absent, |found| {
        format!("{:.2} to {:.2} %", found.lower * 100.0, found.upper * 100.0)
    })
}

fn failures(report: &Report) -> Vec<Block> {
    let account = &report.accounting;
    if account.failures.is_empty() {
        let upper = account.failed_of_sent.map(|found| found.upper);
        let sentence = format!("None of {} sent requests.", cells::count(account.sent));
        let limit = format!("{sentence} 95 % upper limit of the share: {}.", cells::percent(upper));
        return vec![Block::Sentence(if upper.is_some() { limit } else { sentence })];
    }
    let mut table =
        Table::new(2, &["class", "group", "requests", "of sent", "95 % interval", "HTTP status"]);
    let mut blocks = Vec::new();
    for class in &account.failures {
        let codes: Vec<String> = class
            .http_status_codes
            .iter()
            .map(|(code, n)| format!("{code} x {}", cells::count(*n)))
            .collect();
        table.row(vec![
            class.class.to_string(),
            class.group.clone(),
            cells::count(class.count),
            cells::percent(class.of_sent.map(|found| found.share)),
            interval(class.of_sent),
            if codes.is_empty() { cells::absent() } else { codes.join(", ") },
        ]);
        let example = class.example.clone();
        blocks.extend(example.map(|words| Block::Item(class.class.to_string(), words)));
    }
    blocks.insert(0, Block::Table(table));
    blocks
}

fn warnings(report: &Report) -> Vec<Block> {
    let blocks: Vec<Block> = report
        .warnings
        .iter()
        .map(|warning| {
            let sentence = format!("{}. {}.", warning.finding, capital(&warning.advice));
            Block::Item(warning.level.to_string(), sentence)
        })
        .collect();
    if blocks.is_empty() { vec![Block::Sentence("None.".to_owned())] } else { blocks }
}

/// Returns `words` with a capital first letter.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>());
    first.unwrap_or_default() + letters.as_str()
}

fn definitions(report: &Report) -> Vec<Block> {
    let terms = report.definitions.iter();
    terms.map(|found| Block::Item(found.term.clone(), found.meaning.clone())).collect()
}
