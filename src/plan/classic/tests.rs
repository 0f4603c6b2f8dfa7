//! Tests of classic plans: the laws that are drawn, the streams, the limits, the refusals.

use super::*;
use crate::plan::check::Checker;
use crate::plan::testing::{model, pool};

type Drawn = (Vec<ScheduledRequest>, PlanCounts);

fn draw(model: &WorkloadModel, options: &ClassicOptions, seed: u64) -> Result<Drawn, PlanError> {
    let pool = pool(200, 10);
    let assigner = Assigner::new(&pool, Seed(seed))?;
    let mut planner = ClassicPlanner::new(model, options, assigner, Seed(seed))?;
    let requests = planner.by_ref().collect::<Result<Vec<_>, _>>()?;
    Checker::default().check(&requests)?;
    planner.finish().map(|counts| (requests, counts))
}

fn requests(n: u64) -> ClassicOptions {
    let common = CommonOptions { num_requests: Some(n), ..CommonOptions::default() };
    ClassicOptions { common, ..ClassicOptions::default() }
}

fn offset(request: &ScheduledRequest) -> u64 {
    match request.release {
        Release::At(at) => at.0,
        other => panic!("{other:?}"),
    }
}

/// Returns the Kolmogorov–Smirnov distance of values from a continuous law.
fn ks(mut values: Vec<f64>, law: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = convert::float_count(values.len());
    values.iter().enumerate().fold(0.0, |worst: f64, (i, &value)| {
        let (below, up_to) = (convert::float_count(i) / n, convert::float_count(i + 1) / n);
        worst.max((law(value) - below).abs()).max((up_to - law(value)).abs())
    })
}

#[test]
fn gaps_are_exponential() {
    let (requests, _) = draw(&model(), &requests(3_000), 42).unwrap();
    let mut last = 0;
    let gaps = requests.iter().map(|request| {
        let gap = offset(request) - last;
        last = offset(request);
        convert::float(gap) / 1e9
    });
    let distance = ks(gaps.collect(), |gap| 1.0 - (-5.0 * gap).exp());
    // Kolmogorov's limit for a true law at 0.2 %: sqrt(ln(2/0.002)/2) / sqrt(3000) = 0.0339.
    assert!(distance < 0.0339, "{distance}");
}

#[test]
fn lengths_follow_the_model() {
    let (requests, counts) = draw(&model(), &requests(3_000), 42).unwrap();
    // ceil(Y) <= x exactly when Y <= x, so P(X <= 200) = 1/2 and P(X <= 300) = 1 − 1/e. Four
    // standard errors of a share at n = 3000 are 4·sqrt(p(1−p)/3000): 0.0365 and 0.0352.
    let share = |below: fn(&ScheduledRequest) -> bool| {
        convert::float_count(requests.iter().filter(|r| below(r)).count()) / 3_000.0
    };
    assert!((share(|r| r.input_tokens <= 200) - 0.5).abs() < 0.0365);
    assert!((share(|r| r.max_tokens <= 300) - 0.632_12).abs() < 0.0352);
    // 30 % are rag: 4·sqrt(0.21/3000) = 0.0335.
    assert!((share(|r| r.scenario == Scenario::Rag) - 0.3).abs() < 0.0335);
    assert!(requests.iter().all(|r| r.scenario != Scenario::Single || r.max_tokens < 1_000));
    assert!(requests.iter().any(|r| r.scenario == Scenario::LongOutput));
    // P(Y > 3000) = 1 − Φ(ln 15) = 0.34 %: 10 expected, and 0 or over 30 is out of reach.
    assert!((1..30).contains(&counts.input_clipped), "{counts:?}");
    assert_eq!(requests.iter().map(|r| r.input_tokens).max(), Some(3_000));
    assert_eq!((counts.output_clipped, counts.source_rows), (0, 0));
}

#[test]
fn a_duration_ends_the_plan_and_its_total_is_free() {
    let options = |seconds: u64| ClassicOptions {
        duration: Some(Nanos::from_millis(1_000 * seconds)),
        request_rate_per_s: Some(50.0),
        ..ClassicOptions::default()
    };
    let (minute, _) = draw(&model(), &options(60), 1).unwrap();
    assert!(offset(minute.last().unwrap()) < 60_000_000_000);
    // Poisson with mean 3000: four standard deviations are 219.
    assert!(minute.len().abs_diff(3_000) < 219, "{}", minute.len());
    let (half, _) = draw(&model(), &options(30), 1).unwrap();
    assert_eq!(half[..], minute[..half.len()], "a shorter plan is the start of a longer one");
    let nothing = ClassicOptions { request_rate_per_s: Some(1e-6), ..options(1) };
    assert!(matches!(draw(&model(), &nothing, 1), Err(PlanError::NoArrivals { .. })));
}

#[test]
fn streams_are_independent() {
    let lengths = |requests: &[ScheduledRequest]| {
        requests.iter().map(|r| (r.input_tokens, r.max_tokens)).collect::<Vec<_>>()
    };
    let offsets = |requests: &[ScheduledRequest]| requests.iter().map(offset).collect::<Vec<_>>();
    let (base, _) = draw(&model(), &requests(50), 7).unwrap();
    let faster = ClassicOptions { request_rate_per_s: Some(9.0), ..requests(50) };
    let (fast, _) = draw(&model(), &faster, 7).unwrap();
    assert_eq!(lengths(&base), lengths(&fast));
    assert_ne!(offsets(&base), offsets(&fast));
    let mut other = model();
    other.input_tokens.fits[0].parameters[1].value = 0.5;
    let (narrow, _) = draw(&other, &requests(50), 7).unwrap();
    assert_eq!(offsets(&base), offsets(&narrow));
    let outputs = |requests: &[ScheduledRequest]| {
        requests.iter().map(|r| (r.max_tokens, r.scenario)).collect::<Vec<_>>()
    };
    assert_eq!(outputs(&base), outputs(&narrow));
    assert_eq!(base, draw(&model(), &requests(50), 7).unwrap().0);
    assert_ne!(base, draw(&model(), &requests(50), 8).unwrap().0);
}

#[test]
fn what_the_model_lacks_is_named() {
    let refused = |model: &WorkloadModel| draw(model, &requests(5), 1).unwrap_err();
    let mut other = model();
    other.arrivals = None;
    assert_eq!(refused(&other), PlanError::ModelLacks { what: "arrival rate" });
    let mut other = model();
    other.input_tokens.fits.clear();
    assert!(refused(&other).to_string().contains("lognormal fit of the input tokens"));
    let mut other = model();
    other.output_tokens.fits[0].parameters[0].value = 0.0;
    assert!(matches!(refused(&other), PlanError::BadNumber { name: "mean", .. }));
    let mut other = model();
    other.input_tokens.fits[0].parameters[1].value = f64::NAN;
    assert!(matches!(refused(&other), PlanError::BadNumber { name: "sigma", .. }));
    assert_eq!(draw(&model(), &ClassicOptions::default(), 1).unwrap_err(), PlanError::NoEnd);
    let bad_rate = ClassicOptions { request_rate_per_s: Some(0.0), ..requests(5) };
    assert!(matches!(draw(&model(), &bad_rate, 1), Err(PlanError::BadNumber { .. })));
    let mut other = model();
    other.mix.scenarios[0].what = "poetry".to_owned();
    assert_eq!(refused(&other), PlanError::ModelLacks { what: "known scenario in a share" });
    other.mix.scenarios.clear();
    let (all, _) = draw(&other, &requests(20), 1).unwrap();
    assert!(all.iter().all(|r| matches!(r.scenario, Scenario::Single | Scenario::LongOutput)));
}

#[test]
fn the_quick_fit_serves_where_the_exact_one_is_missing() {
    let mut other = model();
    other.output_tokens.fits[0].method = FitMethod::Quick;
    let (requests, _) = draw(&other, &requests(3_000), 42).unwrap();
    // Rounding keeps the mean; its standard error is 300/sqrt(3000) = 5.5, four of them 22.
    let sum: u64 = requests.iter().map(|r| u64::from(r.max_tokens)).sum();
    assert!((convert::float(sum) / 3_000.0 - 300.0).abs() < 22.0);
}
