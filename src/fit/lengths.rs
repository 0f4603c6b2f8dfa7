//! Fits of one length: lognormal and exponential, each in a quick and an exact form.
//!
//! Counts of exact and right-censored lengths (tokens) go in, a `LengthModel` comes out. *Quick*
//! is continuous maximum likelihood in closed form (mean and population SD of ln x; mean of x),
//! censoring ignored. *Discrete* is maximum likelihood of whole tokens, X = ceil(Y), with
//! right-censoring: closed form for the exponential (X is geometric), Nelder–Mead on (mu, ln
//! sigma) for the lognormal. Zeros never reach a logarithm: they are counted apart.

use super::counts::{self, CountTable};
use super::goodness::{self, Distance, Empirical};
use super::law::{self, Law};
use super::maximize;
use crate::domain::convert;
use crate::domain::workload::{
    Family, FitMethod, LengthFit, LengthModel, Parameter, Quantiles, Verdict,
};

/// Everything counted about one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LengthTables {
    exact: CountTable,
    censored: CountTable,
    /// Logged lengths in even and in odd minutes of the trace.
    minutes: [CountTable; 2],
    zero: u64,
    missing: u64,
}

impl LengthTables {
    /// Counts one row: its length, whether it is only a lower bound, and its minute (0-based from
    /// the first arrival; `None` without a time).
    pub(super) fn add(&mut self, length: Option<u32>, censored: bool, minute: Option<u64>) {
        let Some(length) = length else {
            self.missing += 1;
            return;
        };
        if length == 0 {
            self.zero += 1;
            return;
        }
        if censored {
            self.censored.add(length);
        } else {
            self.exact.add(length);
        }
        if let Some(minute) = minute {
            let [even, odd] = &mut self.minutes;
            if minute % 2 == 0 { even.add(length) } else { odd.add(length) }
        }
    }

    /// Adds all counts of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        self.exact.merge(&other.exact);
        self.censored.merge(&other.censored);
        for (mine, theirs) in self.minutes.iter_mut().zip(&other.minutes) {
            mine.merge(theirs);
        }
        self.zero += other.zero;
        self.missing += other.missing;
    }

    /// Returns the rows with a length above zero.
    pub(super) const fn n(&self) -> u64 {
        self.exact.total() + self.censored.total()
    }

    /// Returns the rows whose length is zero or missing.
    pub(super) const fn without(&self) -> u64 {
        self.zero + self.missing
    }

    /// Returns the model of this length, `classic` family first; `field` is `input_tokens` or
    /// `output_tokens`.
    pub(super) fn finish(&self, field: &str, classic: Family) -> LengthModel {
        let (exact, censored) = (self.exact.pairs(), self.censored.pairs());
        let mut all = self.exact.clone();
        all.merge(&self.censored);
        let logged = all.pairs();
        let mean = convert::float_wide(counts::sum(&logged)) / convert::float(self.n());
        let fits = Sample::new(field, &exact, &censored, &logged)
            .map(|sample| sample.with_floor(&self.minutes).fits(classic))
            .unwrap_or_default();
        LengthModel {
            field: field.to_owned(),
            n: self.n(),
            zero: self.zero,
            missing: self.missing,
            censored: self.censored.total(),
            min: logged.first().map(|&(length, _)| length),
            max: logged.last().map(|&(length, _)| length),
            mean: (self.n() > 0).then_some(mean),
            measured: goodness::logged_quantiles(&logged),
            fits,
        }
    }
}

/// Returns the two families, `classic` first.
const fn families(classic: Family) -> [Family; 2] {
    match classic {
        Family::Lognormal => [Family::Lognormal, Family::Exponential],
        Family::Exponential => [Family::Exponential, Family::Lognormal],
    }
}

/// A law with the standard errors of its parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) law: Law,
    /// In the order of [`Estimate::parameters`]; the exponential uses the first.
    pub(super) errors: [Option<f64>; 2],
}

impl Estimate {
    fn parameters(self) -> Vec<Parameter> {
        let parameter = |name: &str, value, standard_error| Parameter {
            name: name.to_owned(),
            value,
            standard_error,
        };
        let [first, second] = self.errors;
        match self.law {
            Law::Lognormal { mu, sigma } => {
                vec![parameter("mu", mu, first), parameter("sigma", sigma, second)]
            }
            Law::Exponential { mean } => vec![parameter("mean", mean, first)],
        }
    }
}

/// The lengths above zero of one field.
struct Sample<'a> {
    /// `input` or `output`.
    side: &'a str,
    exact: &'a [(u32, u64)],
    censored: &'a [(u32, u64)],
    /// Both together, as logged.
    logged: &'a [(u32, u64)],
    /// The natural lengths as far as the data show them.
    natural: Empirical,
    /// The lengths as logged.
    as_logged: Empirical,
    floor: Option<Distance>,
}

impl<'a> Sample<'a> {
    /// `None` when no length is exact: nothing can be estimated.
    fn new(
        field: &'a str,
        exact: &'a [(u32, u64)],
        censored: &'a [(u32, u64)],
        logged: &'a [(u32, u64)],
    ) -> Option<Self> {
        Some(Self {
            side: field.strip_suffix("_tokens").unwrap_or(field),
            exact,
            censored,
            logged,
            natural: Empirical::new(exact, censored)?,
            as_logged: Empirical::new(logged, &[])?,
            floor: None,
        })
    }

    fn with_floor(mut self, minutes: &[CountTable; 2]) -> Self {
        let [even, odd] = minutes;
        self.floor = goodness::floor_between(&even.pairs(), &odd.pairs());
        self
    }

    fn fits(&self, classic: Family) -> Vec<LengthFit> {
        let mut fits = Vec::new();
        for family in families(classic) {
            let (quick, discrete) = match family {
                Family::Lognormal => {
                    (quick_lognormal(self.logged), discrete_lognormal(self.exact, self.censored))
                }
                Family::Exponential => (
                    quick_exponential(self.logged),
                    discrete_exponential(self.exact, self.censored),
                ),
            };
            fits.extend(quick.map(|estimate| self.judge(estimate, FitMethod::Quick)));
            fits.extend(discrete.map(|estimate| self.judge(estimate, FitMethod::Discrete)));
        }
        fits
    }

    /// Puts an estimate beside the data.
    fn judge(&self, estimate: Estimate, method: FitMethod) -> LengthFit {
        let law = estimate.law;
        let (distance, likelihood, measured) = match method {
            FitMethod::Quick => (
                self.as_logged.against_continuous(law),
                law.log_likelihood(self.logged, &[]),
                goodness::logged_quantiles(self.logged),
            ),
            FitMethod::Discrete => (
                self.natural.against_whole(law),
                law.log_likelihood(self.exact, self.censored),
                self.measured_naturally(),
            ),
        };
        let fitted = law.quantiles(method == FitMethod::Discrete);
        let values = counts::total(self.exact);
        let verdict = goodness::verdict(law.family(), values, distance, self.floor);
        LengthFit {
            family: law.family(),
            method,
            parameters: estimate.parameters(),
            log_likelihood: Some(likelihood),
            ks_d: Some(distance.d),
            w1_over_mean: Some(distance.w1_over_mean),
            fitted,
            verdict,
            sentence: self.sentence(law.family(), verdict, distance, (fitted, measured)),
        }
    }

    /// Returns the quantiles to compare an exact fit with: of natural lengths when some are
    /// censored, else as logged.
    fn measured_naturally(&self) -> Quantiles {
        if self.censored.is_empty() {
            goodness::logged_quantiles(self.logged)
        } else {
            self.natural.quantiles()
        }
    }

    /// Returns the verdict in words, with the numbers it rests on.
    fn sentence(
        &self,
        family: Family,
        verdict: Verdict,
        distance: Distance,
        (fitted, measured): (Quantiles, Quantiles),
    ) -> String {
        let values = counts::total(self.exact);
        let word = match verdict {
            Verdict::Indistinguishable => "indistinguishable from the trace's own noise",
            Verdict::Close => "close",
            Verdict::Rough => "rough",
            Verdict::DoesNotFit => "does not fit",
            Verdict::TooFew => "too few lengths to say",
        };
        let quantiles = [
            ("p50", fitted.p50, measured.p50),
            ("p90", fitted.p90, measured.p90),
            ("p99", fitted.p99, measured.p99),
        ];
        let quantiles: Vec<String> =
            quantiles.iter().filter_map(|&(name, f, m)| quantile_error(name, f?, m)).collect();
        let mut clauses = vec![
            format!(
                "{family} {}: {word}: D {:.3}, W1 {} of the mean",
                self.side,
                distance.d,
                percent(distance.w1_over_mean),
            ),
            quantiles.join(", "),
        ];
        if let Some(floor) = self.floor {
            let (d, w1) = (floor.d, percent(floor.w1_over_mean));
            clauses.push(format!("odd and even minutes of the trace differ by D {d:.3}, W1 {w1}"));
        }
        // The points of D are of whole lengths only.
        let judged = verdict != Verdict::TooFew && self.censored.is_empty();
        if judged && distance.d <= goodness::sampling_d(family, values) {
            clauses.push(format!("this D is within sampling noise at n {values}"));
        }
        clauses.join("; ")
    }
}

/// Returns `p99 251 % too high`, or that censoring hides what was measured.
fn quantile_error(name: &str, fitted: f64, measured: Option<f64>) -> Option<String> {
    let Some(measured) = measured else {
        return Some(format!("{name} hidden by cut answers"));
    };
    let error = fitted / measured - 1.0;
    let side = if error < 0.0 { "low" } else { "high" };
    let size = error.abs();
    let text = if size < 0.005 {
        format!("{name} right")
    } else {
        format!("{name} {:.0} % too {side}", 100.0 * size)
    };
    size.is_finite().then_some(text)
}

/// Returns a share in percent, with a decimal below 10 %.
fn percent(share: f64) -> String {
    let digits = usize::from(share < 0.0995);
    format!("{:.digits$} %", 100.0 * share)
}

/// Lognormal by the mean and the population SD of ln x; `None` when all lengths are equal.
pub(super) fn quick_lognormal(pairs: &[(u32, u64)]) -> Option<Estimate> {
    let n = convert::float(counts::total(pairs));
    let mean_of = |f: &dyn Fn(f64) -> f64| {
        pairs.iter().map(|&(k, c)| convert::float(c) * f(libm::log(f64::from(k)))).sum::<f64>() / n
    };
    let mu = mean_of(&|ln| ln);
    let sigma = mean_of(&|ln| (ln - mu) * (ln - mu)).sqrt();
    (pairs.len() > 1 && sigma > 0.0).then(|| lognormal(mu, sigma, n))
}

/// A lognormal with the standard errors of uncensored data: sigma/√n and sigma/√(2n).
fn lognormal(mu: f64, sigma: f64, n: f64) -> Estimate {
    let errors = [Some(sigma / n.sqrt()), Some(sigma / (2.0 * n).sqrt())];
    Estimate { law: Law::Lognormal { mu, sigma }, errors }
}

/// Exponential by the mean of x; `None` without lengths.
pub(super) fn quick_exponential(pairs: &[(u32, u64)]) -> Option<Estimate> {
    let n = convert::float(counts::total(pairs));
    let mean = convert::float_wide(counts::sum(pairs)) / n;
    (mean > 0.0).then(|| exponential(mean, n))
}

/// An exponential with the standard error mean/√(exact lengths).
fn exponential(mean: f64, exact: f64) -> Estimate {
    Estimate { law: Law::Exponential { mean }, errors: [Some(mean / exact.sqrt()), None] }
}

/// Exponential of whole tokens: X is geometric with p = exact lengths / all tokens, censored ones
/// included; rate = −ln(1 − p). `None` when every length is 1 or none is exact.
pub(super) fn discrete_exponential(
    exact: &[(u32, u64)],
    censored: &[(u32, u64)],
) -> Option<Estimate> {
    let ended = convert::float(counts::total(exact));
    let tokens = convert::float_wide(counts::sum(exact) + counts::sum(censored));
    let rate = -libm::log1p(-ended / tokens);
    (rate > 0.0 && rate.is_finite()).then(|| exponential(1.0 / rate, ended))
}

/// Lognormal of whole tokens by Nelder–Mead on (mu, ln sigma), from the mean and SD of
/// ln(x − ½). `None` when all lengths are equal or the search does not settle.
pub(super) fn discrete_lognormal(
    exact: &[(u32, u64)],
    censored: &[(u32, u64)],
) -> Option<Estimate> {
    let values = counts::total(exact) + counts::total(censored);
    let n = convert::float(values);
    let (mu, sigma) = lognormal_start(exact, censored, n)?;
    let logs = LogPairs::new(exact, censored);
    let per_length =
        |[mu, ln_sigma]: maximize::Point| -logs.likelihood(mu, libm::exp(ln_sigma)) / n;
    let found = maximize::minimize(&per_length, [mu, libm::log(sigma)], 0.1)?;
    // A second search from the first one's end escapes a simplex that collapsed early.
    let [mu, ln_sigma] = maximize::minimize(&per_length, found, 0.01)?;
    let sigma = libm::exp(ln_sigma);
    if censored.is_empty() {
        return Some(lognormal(mu, sigma, n));
    }
    let negative = |[mu, sigma]: maximize::Point| -logs.likelihood(mu, sigma);
    let errors = maximize::standard_errors(&negative, [mu, sigma], 1e-3 * sigma);
    let errors = errors.map_or([None, None], |[of_mu, of_sigma]| [Some(of_mu), Some(of_sigma)]);
    Some(Estimate { law: Law::Lognormal { mu, sigma }, errors })
}

/// Returns the mean and population SD of ln(x − ½), censored lengths taken as they are.
fn lognormal_start(exact: &[(u32, u64)], censored: &[(u32, u64)], n: f64) -> Option<(f64, f64)> {
    let mean_of = |f: &dyn Fn(f64) -> f64| {
        let term = |&(k, c): &(u32, u64)| convert::float(c) * f(libm::log(f64::from(k) - 0.5));
        exact.iter().chain(censored).map(term).sum::<f64>() / n
    };
    let mu = mean_of(&|ln| ln);
    let sigma = mean_of(&|ln| (ln - mu) * (ln - mu)).sqrt();
    (sigma > 1e-9).then_some((mu, sigma))
}

/// Pairs with their logarithms taken once, for the many evaluations of a search.
struct LogPairs {
    /// (ln(k − 1), ln k, count)
    exact: Vec<(f64, f64, f64)>,
    /// (ln k, count)
    censored: Vec<(f64, f64)>,
}

impl LogPairs {
    fn new(exact: &[(u32, u64)], censored: &[(u32, u64)]) -> Self {
        let ln = |k: f64| libm::log(k);
        let exact = exact.iter().map(|&(k, c)| (f64::from(k), convert::float(c)));
        let censored = censored.iter().map(|&(k, c)| (f64::from(k), convert::float(c)));
        Self {
            exact: exact.map(|(k, c)| (ln(k - 1.0), ln(k), c)).collect(),
            censored: censored.map(|(k, c)| (ln(k), c)).collect(),
        }
    }

    /// The same sum as `Law::log_likelihood`.
    fn likelihood(&self, mu: f64, sigma: f64) -> f64 {
        let z = |ln: f64| (ln - mu) / sigma;
        let exact = self.exact.iter().map(|&(below, at, count)| {
            count * libm::log(law::normal_between(z(below), z(at)).max(1e-300))
        });
        let censored = self
            .censored
            .iter()
            .map(|&(at, count)| count * libm::log(law::normal_sf(z(at)).max(1e-300)));
        exact.sum::<f64>() + censored.sum::<f64>()
    }
}

#[cfg(test)]
mod tests;
