//! The fitted workload (`model.json`): what `fit` writes and `plan` reads.
//!
//! Numbers that could not be measured are null. The model holds no row of the trace and no hash.

use serde::{Deserialize, Serialize};

/// Version of `model.json`.
pub const MODEL_SCHEMA_VERSION: u32 = 1;

/// A fitted workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadModel {
    /// Version of this file's shape.
    pub schema_version: u32,
    /// Version of the tool that wrote it.
    pub tool_version: String,
    /// BLAKE3 of the trace file it was fitted to.
    pub trace_digest: Option<String>,
    /// Rows read and what was left out of which fit.
    pub rows: RowCounts,
    /// Input tokens.
    pub input_tokens: LengthModel,
    /// Output tokens.
    pub output_tokens: LengthModel,
    /// Arrivals; null for a trace without times.
    pub arrivals: Option<ArrivalModel>,
    /// Shares of kinds of requests.
    pub mix: MixModel,
    /// Sentences that a reader must see.
    pub warnings: Vec<String>,
}

/// Rows of the trace, by what they could be used for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowCounts {
    /// Rows in the trace.
    pub total: u64,
    /// Rows with an arrival time.
    pub with_arrival: u64,
    /// Rows that ended well.
    pub ok: u64,
    /// Rows that failed (error, timeout, rate limited).
    pub failed: u64,
    /// Rows whose client hung up.
    pub cancelled: u64,
    /// Rows whose end is not known.
    pub unknown_status: u64,
    /// Rows that ask for no text (embeddings, rerankings); they are in no fit and in no other
    /// count but `total`.
    #[serde(default)]
    pub not_generation: u64,
    /// Rows that show whether their output was cut: a finish reason, a token limit, or a client
    /// that hung up.
    #[serde(default)]
    pub with_ending: u64,
}

/// Measured quantiles, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

/// One length: what was measured and what was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthModel {
    /// `input_tokens` or `output_tokens`.
    pub field: String,
    /// Lengths above zero that entered the fit.
    pub n: u64,
    /// Rows with a length of zero (left out of the fit).
    pub zero: u64,
    /// Rows without a length.
    pub missing: u64,
    /// Lengths among `n` known only as "longer than this" (right-censored).
    pub censored: u64,
    /// Smallest length.
    pub min: Option<u32>,
    /// Largest length.
    pub max: Option<u32>,
    /// Mean of the logged lengths.
    pub mean: Option<f64>,
    /// Quantiles of the logged lengths (numpy's linear form).
    pub measured: Quantiles,
    /// Every fit: the classic family first, in its quick and its exact form.
    pub fits: Vec<LengthFit>,
}

impl LengthModel {
    /// Returns the fit of `family` by `method`, if there is one.
    pub fn fit(&self, family: Family, method: FitMethod) -> Option<&LengthFit> {
        self.fits.iter().find(|fit| fit.family == family && fit.method == method)
    }
}

super::word::word_enum! {
    /// A family of length distributions.
    pub enum Family {
        /// Lognormal: parameters `mu`, `sigma` of ln(tokens).
        Lognormal = "lognormal",
        /// Exponential: parameter `mean` in tokens.
        Exponential = "exponential",
    }
}

super::word::word_enum! {
    /// How a family was fitted.
    pub enum FitMethod {
        /// Continuous maximum likelihood in closed form; censoring ignored.
        Quick = "quick",
        /// Maximum likelihood of whole tokens, X = ceil(Y), with right-censoring.
        Discrete = "discrete",
    }
}

super::word::word_enum! {
    /// A plain word on how well a fit describes the data, by effect size.
    pub enum Verdict {
        /// Within the noise between odd and even minutes of the trace itself, and close besides or
        /// within the sampling noise.
        Indistinguishable = "indistinguishable",
        /// D at most 0.03 and W1 at most 3 % of the mean.
        Close = "close",
        /// D at most 0.08 and W1 at most 10 % of the mean.
        Rough = "rough",
        /// Anything worse.
        DoesNotFit = "does_not_fit",
        /// Too few values to say.
        TooFew = "too_few",
    }
}

/// One named parameter and its standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name, for example `mu`.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its standard error, when it has one.
    pub standard_error: Option<f64>,
}

/// A fitted family beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthFit {
    /// The family.
    pub family: Family,
    /// How it was fitted.
    pub method: FitMethod,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Log-likelihood of the data under it.
    pub log_likelihood: Option<f64>,
    /// Kolmogorov–Smirnov distance `sup|F_n − F|`.
    pub ks_d: Option<f64>,
    /// Wasserstein-1 distance over the mean.
    pub w1_over_mean: Option<f64>,
    /// Quantiles of the fitted family.
    pub fitted: Quantiles,
    /// The word.
    pub verdict: Verdict,
    /// The sentence.
    pub sentence: String,
}

impl LengthFit {
    /// Returns the value of the parameter called `name`.
    pub fn parameter(&self, name: &str) -> Option<f64> {
        self.parameters.iter().find(|p| p.name == name).map(|p| p.value)
    }
}

/// Arrivals of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalModel {
    /// Arrivals.
    pub n: u64,
    /// First to last arrival, in seconds.
    pub span_s: f64,
    /// (n − 1) / span, in requests per second; null for a span of zero.
    pub rate_per_s: Option<f64>,
    /// Coefficient of variation of the gaps; 1 for a Poisson process.
    pub gap_cv: Option<f64>,
    /// Gaps of exactly zero.
    pub zero_gaps: u64,
    /// Longest gap, in seconds.
    pub max_gap_s: Option<f64>,
    /// Index of dispersion of counts, by window; 1 for a Poisson process at every window.
    pub dispersion: Vec<Dispersion>,
    /// The sentence.
    pub sentence: String,
}

/// Var N / E N of the counts in windows of one width.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispersion {
    /// Width of a window, in seconds.
    pub window_s: f64,
    /// Windows; they start at the first arrival, the partial last one is dropped.
    pub windows: u64,
    /// Variance over mean of the counts; null below two windows.
    pub index: Option<f64>,
}

super::word::word_enum! {
    /// What a share rests on.
    pub enum ShareBasis {
        /// Counted in the trace.
        Measured = "measured",
        /// Taken from a rule or a default.
        Assumed = "assumed",
        /// Nothing to count.
        Unknown = "unknown",
    }
}

/// A share with its denominator and a 95 % Wilson interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// What is counted, in words.
    pub what: String,
    /// What it is a share of, in words.
    pub denominator: String,
    /// The count.
    pub count: u64,
    /// The denominator's count.
    pub of: u64,
    /// `count / of`; null when unknown.
    pub share: Option<f64>,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// What it rests on.
    pub basis: ShareBasis,
}

/// Shares of kinds of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixModel {
    /// Sessions with two or more turns, of all sessions; a request without a session, beside
    /// others that have one, is a session of one turn.
    pub multi_turn_sessions: Share,
    /// Requests in such sessions, of the requests of all sessions.
    pub multi_turn_requests: Share,
    /// Requests with retrieved documents (explicit or strong), of those that can be judged.
    pub rag_requests: Share,
    /// Requests whose input is above the long-context threshold, of those with a known input.
    pub long_context_requests: Share,
    /// The long-context threshold, in tokens.
    pub long_context_tokens: u32,
    /// Failed requests, of all.
    pub failed_requests: Share,
    /// Requests per scenario, of all.
    pub scenarios: Vec<Share>,
}
