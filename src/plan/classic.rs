//! The classic synthetic load: Poisson arrivals, lognormal inputs, exponential outputs.
//!
//! Parameters come from `model.json`. Each quantity is drawn from a stream of its own
//! (`arrivals`, `input_tokens`, `output_tokens`, `scenario`, `prompts`), so changing one leaves
//! the others as they were. Lengths are whole tokens as the model fits them: X = ceil(Y) with the
//! exact form, the nearest whole number with the quick one, at least 1. The number of requests in
//! a duration is free: gaps are never rescaled to meet a total.
//! What this does not do: bursts, sessions, dependence between input and output. The scenario is
//! a label with the model's shares; `single` and `long_output` are told apart by the drawn output.

use super::assign::Assigner;
use super::error::PlanError;
use super::options::{ClassicOptions, CommonOptions};
use crate::domain::convert;
use crate::domain::scenario::{LONG_OUTPUT_TOKENS, Scenario};
use crate::domain::schedule::{CountKind, PlanCounts, Release, ScheduledRequest};
use crate::domain::seed::{Seed, Stream};
use crate::domain::time::{NANOS_PER_SECOND, Nanos};
use crate::domain::workload::{Family, FitMethod, LengthFit, LengthModel, WorkloadModel};
use rand::RngExt;
use rand_distr::{Distribution, Exp1, StandardNormal};

/// A length law with the rounding that its fit assumes.
#[derive(Clone, Copy, Debug)]
struct Law {
    first: f64,
    second: f64,
    method: FitMethod,
}

impl Law {
    fn whole_tokens(self, value: f64) -> u32 {
        let whole = match self.method {
            FitMethod::Discrete => value.ceil(),
            FitMethod::Quick => value.round(),
        };
        convert::ceil_to_u32(whole).max(1)
    }
}

#[derive(Debug)]
struct Streams {
    arrivals: Stream,
    input_tokens: Stream,
    output_tokens: Stream,
    scenario: Stream,
}

/// Draws a plan, request by request.
#[derive(Debug)]
pub struct ClassicPlanner<'p> {
    rate_per_s: f64,
    num_requests: u64,
    duration: Option<Nanos>,
    common: CommonOptions,
    input: Law,
    output: Law,
    /// Scenarios with the running sum of their counts.
    mix: Vec<(u64, Scenario)>,
    streams: Streams,
    assigner: Assigner<'p>,
    counts: PlanCounts,
    at: Nanos,
    failed: bool,
}

impl<'p> ClassicPlanner<'p> {
    /// Reads the model; nothing is drawn yet.
    ///
    /// Inputs are cut to the longest logged one unless the options set a limit.
    ///
    /// # Errors
    ///
    /// When the model lacks a fit or a rate, a parameter is no usable number, or nothing ends the
    /// plan.
    pub fn new(
        model: &WorkloadModel,
        options: &ClassicOptions,
        assigner: Assigner<'p>,
        seed: Seed,
    ) -> Result<Self, PlanError> {
        if options.common.num_requests.is_none() && options.duration.is_none() {
            return Err(PlanError::NoEnd);
        }
        let mut common = options.common;
        common.max_input_tokens = common.max_input_tokens.or(model.input_tokens.max);
        Ok(Self {
            rate_per_s: rate(model, options)?,
            num_requests: common.num_requests.unwrap_or(u64::MAX),
            duration: options.duration,
            common,
            input: lognormal(&model.input_tokens)?,
            output: exponential(&model.output_tokens)?,
            mix: mix(model)?,
            streams: Streams {
                arrivals: seed.stream("arrivals"),
                input_tokens: seed.stream("input_tokens"),
                output_tokens: seed.stream("output_tokens"),
                scenario: seed.stream("scenario"),
            },
            assigner,
            counts: PlanCounts::default(),
            at: Nanos::ZERO,
            failed: false,
        })
    }

    /// Returns the planned rate, in requests per second.
    pub const fn rate_per_s(&self) -> f64 {
        self.rate_per_s
    }

    /// Returns the limit on input tokens in force, given or from the model.
    pub const fn max_input_tokens(&self) -> Option<u32> {
        self.common.max_input_tokens
    }

    /// Ends the plan.
    ///
    /// # Errors
    ///
    /// When nothing was planned.
    pub fn finish(self) -> Result<PlanCounts, PlanError> {
        if self.counts.planned > 0 {
            return Ok(self.counts);
        }
        let duration_s = self.duration.unwrap_or_default().as_secs_f64();
        Err(PlanError::NoArrivals { duration_s, rate_per_s: self.rate_per_s })
    }

    /// Returns the offset of the next arrival; `None` after the last one.
    fn arrival(&mut self) -> Option<Nanos> {
        if self.counts.planned >= self.num_requests {
            return None;
        }
        let unit: f64 = Exp1.sample(&mut self.streams.arrivals);
        self.at = self.at.plus(Nanos::from_secs_f64(unit / self.rate_per_s));
        self.duration.is_none_or(|end| self.at < end).then_some(self.at)
    }

    fn scenario(&mut self, output: u32) -> Scenario {
        let total = self.mix.last().map_or(0, |&(sum, _)| sum);
        let drawn = if total == 0 {
            Scenario::Single
        } else {
            let ticket = self.streams.scenario.random_range(0..total);
            let at = self.mix.partition_point(|&(sum, _)| sum <= ticket);
            self.mix.get(at).map_or(Scenario::Single, |&(_, scenario)| scenario)
        };
        match drawn {
            Scenario::Single | Scenario::LongOutput if output >= LONG_OUTPUT_TOKENS => {
                Scenario::LongOutput
            }
            Scenario::LongOutput => Scenario::Single,
            other => other,
        }
    }

    fn draw(&mut self, at: Nanos) -> Result<ScheduledRequest, PlanError> {
        let normal: f64 = StandardNormal.sample(&mut self.streams.input_tokens);
        let unit: f64 = Exp1.sample(&mut self.streams.output_tokens);
        let input =
            self.input.whole_tokens(libm::exp(self.input.first + self.input.second * normal));
        let output = self.output.whole_tokens(self.output.first * unit);
        let scenario = self.scenario(output);
        let (input_tokens, max_tokens) = self.common.clip(input, output, &mut self.counts);
        let assigned = self.assigner.assign(input_tokens)?;
        let request_id = self.counts.planned;
        self.counts.planned += 1;
        self.counts.repeats += u64::from(assigned.repeat_of.is_some());
        self.counts.prefix_repeats += u64::from(assigned.prefix_repeat);
        Ok(ScheduledRequest {
            request_id,
            scenario,
            session_id: None,
            turn_index: None,
            release: Release::At(at),
            prompt_parts: assigned.parts,
            input_tokens,
            count_kind: CountKind::Raw,
            content_tokens: input_tokens,
            template_tokens: None,
            max_tokens,
            min_tokens: self.common.force_output.then_some(max_tokens),
            stream: true,
            prefix_block_ids: Vec::new(),
            recorded_status: None,
            repeat_of: assigned.repeat_of,
        })
    }
}

impl Iterator for ClassicPlanner<'_> {
    type Item = Result<ScheduledRequest, PlanError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let at = self.arrival()?;
        let drawn = self.draw(at);
        self.failed = drawn.is_err();
        Some(drawn)
    }
}

fn rate(model: &WorkloadModel, options: &ClassicOptions) -> Result<f64, PlanError> {
    let (place, name, value) = if let Some(rate) = options.request_rate_per_s {
        ("options", "--request-rate", rate)
    } else {
        let fitted = model.arrivals.as_ref().and_then(|arrivals| arrivals.rate_per_s);
        ("model", "rate_per_s", fitted.ok_or(PlanError::ModelLacks { what: "arrival rate" })?)
    };
    // Below one request in 30 years an offset no longer fits; above 10^9/s gaps are under 1 ns.
    let fits = 1e-9..=convert::float(NANOS_PER_SECOND);
    let expected = "a rate from 1e-9 to 1e9 requests per second";
    if fits.contains(&value) {
        return Ok(value);
    }
    Err(PlanError::BadNumber { place, name, value, expected })
}

fn lognormal(lengths: &LengthModel) -> Result<Law, PlanError> {
    let lacks = PlanError::ModelLacks { what: "lognormal fit of the input tokens" };
    let fit = best(lengths, Family::Lognormal).ok_or_else(|| lacks.clone())?;
    let first = fit.parameter("mu").ok_or_else(|| lacks.clone())?;
    let second = fit.parameter("sigma").ok_or(lacks)?;
    let bad =
        |name, value, expected| PlanError::BadNumber { place: "model", name, value, expected };
    if !first.is_finite() {
        return Err(bad("mu", first, "a finite number"));
    }
    if !second.is_finite() || second < 0.0 {
        return Err(bad("sigma", second, "a finite number of at least 0"));
    }
    Ok(Law { first, second, method: fit.method })
}

fn exponential(lengths: &LengthModel) -> Result<Law, PlanError> {
    let lacks = PlanError::ModelLacks { what: "exponential fit of the output tokens" };
    let fit = best(lengths, Family::Exponential).ok_or_else(|| lacks.clone())?;
    let value = fit.parameter("mean").ok_or(lacks)?;
    if !value.is_finite() || value <= 0.0 {
        let expected = "a finite number above 0";
        return Err(PlanError::BadNumber { place: "model", name: "mean", value, expected });
    }
    Ok(Law { first: value, second: 0.0, method: fit.method })
}

fn best(lengths: &LengthModel, family: Family) -> Option<&LengthFit> {
    lengths.fit(family, FitMethod::Discrete).or_else(|| lengths.fit(family, FitMethod::Quick))
}

/// Returns the scenarios of the model with the running sum of their counts.
///
/// A share names its scenario by its word alone or in backticks within a sentence.
fn mix(model: &WorkloadModel) -> Result<Vec<(u64, Scenario)>, PlanError> {
    let mut sum = 0;
    let counted = model.mix.scenarios.iter().map(|share| {
        let named = share.what.split('`').find_map(Scenario::parse);
        let scenario = named.ok_or(PlanError::ModelLacks { what: "known scenario in a share" })?;
        sum += share.count;
        Ok((sum, scenario))
    });
    counted.collect()
}

#[cfg(test)]
mod tests;
