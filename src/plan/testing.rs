//! Synthetic pools, records and a model for the tests of this stage.

use crate::domain::convert;
use crate::domain::pool_index::{PoolEntry, PoolIndex, PoolManifest};
use crate::domain::record::{RequestRecord, Status};
use crate::domain::time::WallTime;
use crate::domain::workload::{
    ArrivalModel, Family, FitMethod, LengthFit, LengthModel, MixModel, Parameter, Quantiles,
    RowCounts, Share, ShareBasis, Verdict, WorkloadModel,
};

/// An entry with the given cut table.
pub(super) fn entry(entry_id: u32, kind: &str, cuts: &[u32]) -> PoolEntry {
    let tokens = cuts.last().copied().unwrap_or(0);
    PoolEntry { entry_id, tokens, kind: kind.to_owned(), cut_tokens: cuts.to_vec() }
}

/// A pool of the given entries whose joins all add up.
pub(super) fn pool_of(entries: Vec<PoolEntry>) -> PoolIndex {
    let manifest = PoolManifest {
        schema_version: 1,
        tool_version: "0".to_owned(),
        tokenizer: "test".to_owned(),
        tokenizer_digest: String::new(),
        pool_digest: String::new(),
        seed: 0,
        entries: convert::count(entries.len()),
        tokens: 0,
        buckets: Vec::new(),
        kinds: Vec::new(),
        joins_checked: 100,
        joins_failed: 0,
    };
    PoolIndex { manifest, entries }
}

/// `texts` entries of mixed lengths (up to 2,560 tokens, a cut every 1 to 4) and `fillers`.
pub(super) fn pool(texts: u32, fillers: u32) -> PoolIndex {
    let mut entries = Vec::new();
    for id in 0..texts {
        let tokens = 20_u32 << (id % 8);
        let mut cuts: Vec<u32> = Vec::new();
        let mut at = 1 + id % 4;
        while at < tokens {
            cuts.push(at);
            at += 1 + (at + id) % 4;
        }
        cuts.push(tokens);
        entries.push(entry(id, if id % 2 == 0 { "en" } else { "zh" }, &cuts));
    }
    entries.extend((texts..texts + fillers).map(|id| entry(id, "filler", &[1])));
    pool_of(entries)
}

/// A good record of an arrival in microseconds and both lengths.
pub(super) fn record(arrival_us: i64, input: u32, output: u32) -> RequestRecord {
    RequestRecord {
        arrival_time: Some(WallTime(arrival_us)),
        input_tokens: Some(input),
        output_tokens: Some(output),
        status: Status::Ok,
        ..RequestRecord::unknown("test".into(), 0, 1)
    }
}

fn fit(family: Family, parameters: &[(&str, f64)]) -> LengthFit {
    let parameter = |&(name, value): &(&str, f64)| Parameter {
        name: name.to_owned(),
        value,
        standard_error: None,
    };
    LengthFit {
        family,
        method: FitMethod::Discrete,
        parameters: parameters.iter().map(parameter).collect(),
        log_likelihood: None,
        ks_d: None,
        w1_over_mean: None,
        fitted: Quantiles::default(),
        verdict: Verdict::Close,
        sentence: String::new(),
    }
}

fn lengths(field: &str, max: u32, fits: Vec<LengthFit>) -> LengthModel {
    LengthModel {
        field: field.to_owned(),
        n: 9,
        zero: 0,
        missing: 0,
        censored: 0,
        min: Some(1),
        max: Some(max),
        mean: None,
        measured: Quantiles::default(),
        fits,
    }
}

fn share(what: &str, count: u64, of: u64) -> Share {
    Share {
        what: what.to_owned(),
        denominator: "requests".to_owned(),
        count,
        of,
        share: None,
        low: None,
        high: None,
        basis: ShareBasis::Measured,
    }
}

/// Inputs: median 200, sigma 1, at most 3,000. Outputs: mean 300. Arrivals: 5 a second.
pub(crate) fn model() -> WorkloadModel {
    let unknown = || share("", 0, 0);
    WorkloadModel {
        schema_version: 1,
        tool_version: "0".to_owned(),
        trace_digest: None,
        rows: RowCounts::default(),
        input_tokens: lengths(
            "input_tokens",
            3_000,
            vec![fit(Family::Lognormal, &[("mu", 200_f64.ln()), ("sigma", 1.0)])],
        ),
        output_tokens: lengths(
            "output_tokens",
            900,
            vec![fit(Family::Exponential, &[("mean", 300.0)])],
        ),
        arrivals: Some(ArrivalModel {
            n: 9,
            span_s: 2.0,
            rate_per_s: Some(5.0),
            gap_cv: None,
            zero_gaps: 0,
            max_gap_s: None,
            dispersion: Vec::new(),
            sentence: String::new(),
        }),
        mix: MixModel {
            multi_turn_sessions: unknown(),
            multi_turn_requests: unknown(),
            rag_requests: unknown(),
            long_context_requests: unknown(),
            long_context_tokens: 4_000,
            failed_requests: unknown(),
            scenarios: vec![share("single", 70, 100), share("requests of scenario `rag`", 30, 100)],
        },
        warnings: Vec::new(),
    }
}
