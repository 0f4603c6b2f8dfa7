//! Tests of the length fits: edges, recovery of known parameters, censoring.
//!
//! Random checks draw from fixed seeds; each bound is derived beside it, at more than 3.5 standard
//! errors, so that a correct program fails one with a probability under 0.1 %.

use super::*;
use crate::domain::seed::Seed;
use rand_distr::{Distribution, Exp, LogNormal};

fn pairs(lengths: impl IntoIterator<Item = u32>) -> Vec<(u32, u64)> {
    let mut table = CountTable::default();
    lengths.into_iter().for_each(|length| table.add(length));
    table.pairs()
}

fn tables(rows: impl IntoIterator<Item = (u32, bool)>) -> LengthTables {
    let mut tables = LengthTables::default();
    for (index, (length, censored)) in rows.into_iter().enumerate() {
        tables.add(Some(length), censored, Some(convert::count(index)));
    }
    tables
}

/// Draws `n` lengths and cuts those that are not below `limit`, which is then what is logged.
fn cut(law: &impl Distribution<f64>, n: u32, limit: u32) -> LengthTables {
    let mut stream = Seed(11).stream("lengths-test");
    tables((0..n).map(|_| {
        let length = convert::ceil_to_u32(law.sample(&mut stream));
        if length > limit { (limit, true) } else { (length, false) }
    }))
}

fn value(estimate: Estimate, index: usize) -> (f64, f64) {
    let parameter = &estimate.parameters()[index];
    (parameter.value, parameter.standard_error.unwrap())
}

#[test]
fn nothing_one_and_equal_lengths() {
    let none = LengthTables::default().finish("output_tokens", Family::Exponential);
    assert_eq!((none.n, none.mean, none.min, none.fits.len()), (0, None, None, 0));
    assert_eq!(none.measured, Quantiles::default());
    for equal in [tables([(5, false)]), tables([(5, false), (5, false), (5, false)])] {
        let model = equal.finish("input_tokens", Family::Lognormal);
        let families: Vec<_> = model.fits.iter().map(|f| (f.family, f.method)).collect();
        let (quick, discrete) = (FitMethod::Quick, FitMethod::Discrete);
        assert_eq!(families, [(Family::Exponential, quick), (Family::Exponential, discrete)]);
        assert!(model.fits.iter().all(|fit| fit.verdict == Verdict::TooFew));
    }
    let ones = tables([(1, false), (1, false)]).finish("input_tokens", Family::Lognormal);
    assert_eq!(ones.fits.len(), 1, "quick exponential only: {:?}", ones.fits);
    let all_cut = tables([(4, true), (5, true)]).finish("output_tokens", Family::Exponential);
    assert_eq!((all_cut.n, all_cut.censored, all_cut.fits.len()), (2, 2, 0));
    assert_eq!(all_cut.mean, Some(4.5));
}

#[test]
fn the_classic_family_comes_first() {
    let rows = tables((1..300).map(|length| (length, false)));
    let order = |classic| {
        let model = rows.finish("input_tokens", classic);
        model.fits.iter().map(|fit| (fit.family, fit.method)).collect::<Vec<_>>()
    };
    let (quick, discrete) = (FitMethod::Quick, FitMethod::Discrete);
    let lognormal = [(Family::Lognormal, quick), (Family::Lognormal, discrete)];
    let exponential = [(Family::Exponential, quick), (Family::Exponential, discrete)];
    assert_eq!(order(Family::Lognormal), [lognormal, exponential].concat());
    assert_eq!(order(Family::Exponential), [exponential, lognormal].concat());
}

#[test]
fn the_largest_lengths_are_fitted() {
    let rows = tables([(u32::MAX, false), (u32::MAX - 1, false), (1, false), (300_000, false)]);
    let model = rows.finish("input_tokens", Family::Lognormal);
    assert_eq!(model.max, Some(u32::MAX));
    assert_eq!(model.fits.len(), 4);
    assert!(model.fits.iter().all(|fit| fit.w1_over_mean.unwrap().is_finite()));
}

#[test]
fn quick_values_on_paper() {
    // ln of 1, e², with e² ≈ 7.389: use 1 and 7 instead: mean ln 7 / 2, SD ln 7 / 2.
    let (mu, error) = value(quick_lognormal(&pairs([1, 7])).unwrap(), 0);
    assert!((mu - 7.0f64.ln() / 2.0).abs() < 1e-12);
    assert!((error - 7.0f64.ln() / 2.0 / 2.0f64.sqrt()).abs() < 1e-12);
    let (mean, error) = value(quick_exponential(&pairs([2, 4, 6, 8])).unwrap(), 0);
    assert!((mean - 5.0).abs() < 1e-12 && (error - 2.5).abs() < 1e-12);
    // Geometric: 2 ended of 2 + 4 + (3 cut) tokens: p = 2/9.
    let (mean, _) = value(discrete_exponential(&pairs([2, 4]), &pairs([3])).unwrap(), 0);
    assert!((mean + 1.0 / (1.0f64 - 2.0 / 9.0).ln()).abs() < 1e-12);
}

#[test]
fn the_exact_form_is_never_less_likely_than_the_quick_one() {
    let law = LogNormal::new(3.0, 0.9).unwrap();
    for (rows, name) in [(cut(&law, 2_000, u32::MAX), "whole"), (cut(&law, 2_000, 40), "cut")] {
        let model = rows.finish("output_tokens", Family::Exponential);
        for family in [Family::Lognormal, Family::Exponential] {
            let of = |method| model.fit(family, method).unwrap();
            let (quick, exact) = (of(FitMethod::Quick), of(FitMethod::Discrete));
            if name == "whole" {
                let gain = exact.log_likelihood.unwrap() - quick.log_likelihood.unwrap();
                assert!(gain >= -1e-6, "{family}: {gain}");
            }
        }
        // Nothing near the found maximum is more likely.
        let (exact, censored) = (rows.exact.pairs(), rows.censored.pairs());
        let found = discrete_lognormal(&exact, &censored).unwrap();
        let (mu, sigma) = (value(found, 0).0, value(found, 1).0);
        let best = found.law.log_likelihood(&exact, &censored);
        for (a, b) in [(1e-3, 0.0), (-1e-3, 0.0), (0.0, 1e-3), (0.0, -1e-3)] {
            let near = Law::Lognormal { mu: mu + a, sigma: sigma + b };
            assert!(near.log_likelihood(&exact, &censored) < best, "{name}: {near:?}");
        }
    }
}

#[test]
fn a_known_lognormal_is_recovered() {
    // 100,000 draws of (6, 1). SE(mu) = 1/√n = 0.0032, SE(sigma) = 0.0022; bounds at 4 of them.
    // A true law's √n·D exceeds 1.36 (parameters known) with probability under 5 %, and 2.0 with
    // probability 2·e^{-8} = 0.07 %: D < 2/√n = 0.0063.
    let model = cut(&LogNormal::new(6.0, 1.0).unwrap(), 100_000, u32::MAX)
        .finish("input_tokens", Family::Lognormal);
    for method in [FitMethod::Quick, FitMethod::Discrete] {
        let fit = model.fit(Family::Lognormal, method).unwrap();
        assert!((fit.parameter("mu").unwrap() - 6.0).abs() < 0.013, "{fit:?}");
        assert!((fit.parameter("sigma").unwrap() - 1.0).abs() < 0.009, "{fit:?}");
        assert!(fit.ks_d.unwrap() < 0.0063, "{fit:?}");
        assert!(matches!(fit.verdict, Verdict::Indistinguishable | Verdict::Close), "{fit:?}");
    }
    let wrong = model.fit(Family::Exponential, FitMethod::Discrete).unwrap();
    assert_eq!(wrong.verdict, Verdict::DoesNotFit);
}

#[test]
fn a_cut_exponential_is_recovered() {
    // Mean 300 cut at 512: e^{-512/300} = 18.1 % censored (SD of the share 0.0027 at n = 20,000).
    // SE(mean) = 300/√(0.819 n) = 2.34; bound at 4. The naive mean is 300 (1 − e^{-512/300}) =
    // 245.6 and a half for the ceiling; its SE is under 1.3.
    let n = 20_000;
    let rows = cut(&Exp::new(1.0 / 300.0).unwrap(), n, 512);
    let share = convert::float(rows.censored.total()) / f64::from(n);
    assert!((share - 0.1815).abs() < 0.011, "{share}");
    let model = rows.finish("output_tokens", Family::Exponential);
    let exact = model.fit(Family::Exponential, FitMethod::Discrete).unwrap();
    assert!((exact.parameter("mean").unwrap() - 300.0).abs() < 9.4, "{exact:?}");
    assert!((exact.parameters[0].standard_error.unwrap() - 2.34).abs() < 0.1, "{exact:?}");
    let naive = model.fit(Family::Exponential, FitMethod::Quick).unwrap();
    assert!((naive.parameter("mean").unwrap() - 246.1).abs() < 5.2, "{naive:?}");
    // Against natural lengths the true law is within noise, although a fifth is cut:
    // P(√n·D > 2) < 0.1 %.
    assert!(exact.ks_d.unwrap() < 2.0 / f64::from(n).sqrt(), "{exact:?}");
    assert!(exact.sentence.contains("p99 hidden by cut answers"), "{}", exact.sentence);
    assert!(exact.sentence.contains("p50 "), "{}", exact.sentence);
}

#[test]
fn a_cut_lognormal_is_recovered() {
    // (6, 1) cut at 1024: 1 − Φ(ln 1024 − 6) = 17.6 % censored. The information of the uncut part
    // is over 80 % of the whole for mu, so SE(mu) < 1/√(0.8 n) = 0.0079 and SE(sigma) < 0.0071 at
    // n = 20,000 (half the information on sigma is in the upper tail); bounds at 4 of them.
    let n = 20_000;
    let rows = cut(&LogNormal::new(6.0, 1.0).unwrap(), n, 1_024);
    let (exact, censored) = (rows.exact.pairs(), rows.censored.pairs());
    let found = discrete_lognormal(&exact, &censored).unwrap();
    let ((mu, mu_error), (sigma, sigma_error)) = (value(found, 0), value(found, 1));
    assert!((mu - 6.0).abs() < 0.032, "{found:?}");
    assert!((sigma - 1.0).abs() < 0.029, "{found:?}");
    // Cutting loses information: errors are above those of whole data, but not by a half.
    let whole = 1.0 / f64::from(n).sqrt();
    assert!(mu_error > whole && mu_error < 1.5 * whole, "{found:?}");
    assert!(sigma_error > whole / 2.0f64.sqrt() && sigma_error < 1.1 * whole, "{found:?}");
    // The naive values of the same rows, biased as theory says: (5.907, 0.852) ± 4 SE.
    let logged = pairs(
        exact
            .iter()
            .chain(&censored)
            .flat_map(|&(k, c)| std::iter::repeat_n(k, convert::index(c).unwrap())),
    );
    let naive = quick_lognormal(&logged).unwrap();
    assert!((value(naive, 0).0 - 5.907).abs() < 0.024, "{naive:?}");
    assert!((value(naive, 1).0 - 0.852).abs() < 0.02, "{naive:?}");
}

#[test]
fn sentences() {
    let law = LogNormal::new(5.0, 1.2).unwrap();
    let model = cut(&law, 2_000, u32::MAX).finish("input_tokens", Family::Lognormal);
    let shown: Vec<&str> = model.fits.iter().map(|fit| fit.sentence.as_str()).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    lognormal input: indistinguishable from the trace's own noise: D 0.012, W1 4.5 % of the mean; p50 1 % too low, p90 1 % too high, p99 6 % too high; odd and even minutes of the trace differ by D 0.035, W1 7.6 %; this D is within sampling noise at n 2000
    lognormal input: indistinguishable from the trace's own noise: D 0.012, W1 4.5 % of the mean; p50 2 % too low, p90 1 % too high, p99 7 % too high; odd and even minutes of the trace differ by D 0.035, W1 7.6 %; this D is within sampling noise at n 2000
    exponential input: does not fit: D 0.121, W1 29 % of the mean; p50 40 % too high, p90 2 % too high, p99 38 % too low; odd and even minutes of the trace differ by D 0.035, W1 7.6 %
    exponential input: does not fit: D 0.120, W1 29 % of the mean; p50 40 % too high, p90 2 % too high, p99 38 % too low; odd and even minutes of the trace differ by D 0.035, W1 7.6 %
    "#);
    assert_eq!(quantile_error("p50", 1.0, Some(1.004)).as_deref(), Some("p50 right"));
    assert_eq!(percent(0.0994), "9.9 %");
    assert_eq!(percent(0.0996), "10 %");
}
