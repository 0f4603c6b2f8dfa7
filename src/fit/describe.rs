//! A workload model as plain text: what was fitted, to how much, how well, and what to beware of.
//!
//! `WorkloadModel` in, text out, lines of at most about 110 columns except for sentences. Prints
//! only numbers that are in the model; an unknown is `-` or `unknown`, never 0.

use crate::domain::workload::{
    ArrivalModel, FitMethod, LengthFit, LengthModel, MixModel, Quantiles, Share, WorkloadModel,
};

/// Returns the table that `tracewright fit` prints; ends with a newline.
pub fn describe(model: &WorkloadModel) -> String {
    let mut lines = rows(model);
    // No limit and no finish reason in the whole trace: which outputs were cut cannot be seen.
    let outputs_show = model.rows.with_ending > 0;
    for (length, shows) in [(&model.input_tokens, true), (&model.output_tokens, outputs_show)] {
        lines.push(String::new());
        lines.extend(length_table(length, shows));
    }
    lines.push(String::new());
    match &model.arrivals {
        Some(arrivals) => lines.extend(arrival_table(arrivals)),
        None => lines.push("arrivals: unknown, no row has a time".to_owned()),
    }
    lines.push(String::new());
    lines.extend(mix_table(&model.mix));
    if !model.warnings.is_empty() {
        lines.push(String::new());
        lines.extend(model.warnings.iter().map(|warning| format!("warning: {warning}")));
    }
    let mut text = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

fn rows(model: &WorkloadModel) -> Vec<String> {
    let rows = &model.rows;
    let mut lines = vec![
        format!("rows: {} in the trace, {} with an arrival time", rows.total, rows.with_arrival),
        format!(
            "  ok {}, end unknown {} (taken as ok), cancelled {} (output cut), failed {} (not in length fits)",
            rows.ok, rows.unknown_status, rows.cancelled, rows.failed
        ),
    ];
    if rows.not_generation > 0 {
        lines.push(format!(
            "  not generation {} (embeddings, rerankings: in no fit)",
            rows.not_generation
        ));
    }
    lines
}

fn length_table(length: &LengthModel, shows_if_cut: bool) -> Vec<String> {
    let cut = if shows_if_cut {
        format!("{} of them cut", length.censored)
    } else {
        "cut unknown".to_owned()
    };
    let mut lines = vec![format!(
        "{}: {} fitted ({cut}), left out: {} zero, {} without a count",
        length.field, length.n, length.zero, length.missing
    )];
    let (Some(min), Some(max), Some(mean)) = (length.min, length.max, length.mean) else {
        return lines;
    };
    lines.push(format!("  min {min}, mean {mean:.1}, max {max}"));
    lines.push(format!(
        "  {:<11} {:<8} {:<42} {:>6} {:>6} {:>8} {:>8} {:>8}",
        "family", "method", "parameters (± standard error)", "D", "W1 %", "p50", "p90", "p99"
    ));
    lines.push(format!(
        "  {:<20} {:<42} {:>6} {:>6}{}",
        "measured",
        "",
        "",
        "",
        quantiles(length.measured)
    ));
    lines.extend(length.fits.iter().map(fit_line));
    let exact = length.fits.iter().filter(|fit| fit.method == FitMethod::Discrete);
    lines.extend(exact.map(|fit| format!("  {}", fit.sentence)));
    lines
}

fn fit_line(fit: &LengthFit) -> String {
    let parameters: Vec<String> = fit
        .parameters
        .iter()
        .map(|p| {
            let digits = if p.value.abs() < 100.0 { 4 } else { 1 };
            let error = p.standard_error.map(|error| format!(" ± {error:.digits$}"));
            format!("{} {:.digits$}{}", p.name, p.value, error.unwrap_or_default())
        })
        .collect();
    let number = |value: Option<f64>, scale: f64, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{:.digits$}", scale * value))
    };
    format!(
        "  {:<11} {:<8} {:<42} {:>6} {:>6}{}",
        fit.family,
        fit.method,
        parameters.join(", "),
        number(fit.ks_d, 1.0, 3),
        number(fit.w1_over_mean, 100.0, 1),
        quantiles(fit.fitted),
    )
}

fn quantiles(quantiles: Quantiles) -> String {
    let cell = |value: Option<f64>| {
        value.map_or_else(|| format!(" {:>8}", "-"), |value| format!(" {value:>8.0}"))
    };
    [quantiles.p50, quantiles.p90, quantiles.p99].map(cell).concat()
}

fn arrival_table(arrivals: &ArrivalModel) -> Vec<String> {
    let rate = arrivals
        .rate_per_s
        .map_or_else(|| "rate unknown".to_owned(), |rate| format!("{rate:.4} requests/s"));
    let longest =
        arrivals.max_gap_s.map(|gap| format!(", longest gap {gap:.1} s")).unwrap_or_default();
    let mut lines = vec![
        format!("arrivals: {} in {:.1} s, {rate}{longest}", arrivals.n, arrivals.span_s),
        format!("  {}", arrivals.sentence),
    ];
    let known = arrivals.dispersion.iter().filter_map(|d| {
        let index = d.index?;
        Some(format!("{} s {index:.2} (of {})", d.window_s, d.windows))
    });
    let known: Vec<String> = known.collect();
    if !known.is_empty() {
        lines.push(format!("  index of dispersion per window: {}", known.join(", ")));
    }
    lines
}

fn mix_table(mix: &MixModel) -> Vec<String> {
    let shares = [
        &mix.multi_turn_sessions,
        &mix.multi_turn_requests,
        &mix.rag_requests,
        &mix.long_context_requests,
        &mix.failed_requests,
    ];
    let title = "mix: share [95 % interval] = count (denominator); basis".to_owned();
    let lines = shares.into_iter().chain(&mix.scenarios).map(share_line);
    std::iter::once(title).chain(lines).collect()
}

fn share_line(share: &Share) -> String {
    let percent = |value: f64| format!("{:.2}", 100.0 * value);
    match (share.share, share.low, share.high) {
        (Some(value), Some(low), Some(high)) => format!(
            "  {}: {} % [{}, {}] = {} of {} ({}); {}",
            share.what,
            percent(value),
            percent(low),
            percent(high),
            share.count,
            share.of,
            share.denominator,
            share.basis,
        ),
        _ => format!("  {}: unknown, the trace does not show it", share.what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::{Hash128, RequestRecord, Status};
    use crate::domain::time::WallTime;
    use crate::fit::{FitOptions, Fitter};

    fn model(rows: u32, timed: bool) -> WorkloadModel {
        let mut fitter = Fitter::new(FitOptions::default());
        for i in 0..rows {
            let mut record = RequestRecord::unknown("test".into(), 0, 1);
            record.arrival_time = timed.then(|| WallTime(i64::from(i) * 1_000_000));
            record.input_tokens = Some(100 + i * 40);
            record.output_tokens = Some(1 + i % 90);
            record.status = if i % 40 == 7 { Status::Error } else { Status::Ok };
            record.session_id_hash = timed.then_some(Hash128([u8::try_from(i / 3).unwrap(); 16]));
            fitter.add(&record).unwrap();
        }
        fitter.finish("0.1.0", None).unwrap()
    }

    #[test]
    fn a_trace_with_times_and_sessions() {
        insta::assert_snapshot!(describe(&model(240, true)), @r#"
        rows: 240 in the trace, 240 with an arrival time
          ok 234, end unknown 0 (taken as ok), cancelled 0 (output cut), failed 6 (not in length fits)

        input_tokens: 234 fitted (0 of them cut), left out: 0 zero, 0 without a count
          min 100, mean 4892.8, max 9660
          family      method   parameters (± standard error)                   D   W1 %      p50      p90      p99
          measured                                                                          4880     8728     9567
          lognormal   quick    mu 8.2229 ± 0.0584, sigma 0.8933 ± 0.0413   0.143   34.0     3725    11705    29764
          lognormal   discrete mu 8.2227 ± 0.0584, sigma 0.8937 ± 0.0413   0.143   34.1     3725    11708    29785
          exponential quick    mean 4892.8 ± 319.9                         0.160   33.0     3391    11266    22532
          exponential discrete mean 4892.3 ± 319.8                         0.160   33.0     3392    11265    22530
          lognormal input: does not fit: D 0.143, W1 34 % of the mean; p50 24 % too low, p90 34 % too high, p99 211 % too high; odd and even minutes of the trace differ by D 0.500, W1 49 %
          exponential input: does not fit: D 0.160, W1 33 % of the mean; p50 30 % too low, p90 29 % too high, p99 136 % too high; odd and even minutes of the trace differ by D 0.500, W1 49 %

        output_tokens: 234 fitted (cut unknown), left out: 0 zero, 0 without a count
          min 1, mean 41.6, max 90
          family      method   parameters (± standard error)                   D   W1 %      p50      p90      p99
          measured                                                                            40       78       89
          exponential quick    mean 41.5897 ± 2.7188                       0.152   29.3       29       96      192
          exponential discrete mean 41.0877 ± 2.6860                       0.144   28.5       29       95      190
          lognormal   quick    mu 3.4324 ± 0.0608, sigma 0.9300 ± 0.0430   0.126   33.6       31      102      269
          lognormal   discrete mu 3.4043 ± 0.0634, sigma 0.9698 ± 0.0448   0.129   36.4       31      105      288
          exponential output: does not fit: D 0.144, W1 28 % of the mean; p50 28 % too low, p90 22 % too high, p99 113 % too high; odd and even minutes of the trace differ by D 0.250, W1 19 %
          lognormal output: does not fit: D 0.129, W1 36 % of the mean; p50 23 % too low, p90 35 % too high, p99 224 % too high; odd and even minutes of the trace differ by D 0.250, W1 19 %

        arrivals: 240 in 239.0 s, 1.0000 requests/s, longest gap 1.0 s
          gap CV 0.00: more even than Poisson (1.0); a Poisson replay will be burstier than your traffic
          index of dispersion per window: 1 s 0.00 (of 239), 10 s 0.00 (of 23), 60 s 0.00 (of 3)

        mix: share [95 % interval] = count (denominator); basis
          sessions of two or more turns: 100.00 % [95.42, 100.00] = 80 of 80 (sessions); measured
          requests in sessions of two or more turns: 100.00 % [98.42, 100.00] = 240 of 240 (requests with a session); measured
          requests with retrieved documents (explicit or strong sign): unknown, the trace does not show it
          requests of more than 4000 input tokens: 59.17 % [52.85, 65.19] = 142 of 240 (requests with a known input length); measured
          failed requests: 2.50 % [1.15, 5.35] = 6 of 240 (all requests); measured
          requests of scenario `single`: 100.00 % [98.42, 100.00] = 240 of 240 (all requests; visible: tools 0, documents 0); assumed
          requests of scenario `multi_turn`: 0.00 % [0.00, 1.58] = 0 of 240 (all requests; visible: tools 0, documents 0); assumed
          requests of scenario `rag`: unknown, the trace does not show it
          requests of scenario `agent`: unknown, the trace does not show it
          requests of scenario `long_output`: 0.00 % [0.00, 1.58] = 0 of 240 (all requests; visible: tools 0, documents 0); assumed

        warning: input_tokens: the lognormal that `classic` plans draw from does not fit (D 0.143, W1 34 % of the mean); such plans will be off, use `--mode recorded`
        warning: output_tokens: the exponential that `classic` plans draw from does not fit (D 0.144, W1 28 % of the mean); such plans will be off, use `--mode recorded`
        "#);
    }

    #[test]
    fn a_trace_without_times() {
        insta::assert_snapshot!(describe(&model(3, false)), @r#"
        rows: 3 in the trace, 0 with an arrival time
          ok 3, end unknown 0 (taken as ok), cancelled 0 (output cut), failed 0 (not in length fits)

        input_tokens: 3 fitted (0 of them cut), left out: 0 zero, 0 without a count
          min 100, mean 140.0, max 180
          family      method   parameters (± standard error)                   D   W1 %      p50      p90      p99
          measured                                                                           140      172      179
          lognormal   quick    mu 4.9133 ± 0.1390, sigma 0.2408 ± 0.0983   0.233    9.1      136      185      238
          lognormal   discrete mu 4.9095 ± 0.1396, sigma 0.2417 ± 0.0987   0.229    9.1      136      185      238
          exponential quick    mean 140.0 ± 80.8                           0.510   55.6       97      322      645
          exponential discrete mean 139.5 ± 80.5                           0.508   55.3       97      322      643
          lognormal input: too few lengths to say: D 0.229, W1 9.1 % of the mean; p50 3 % too low, p90 8 % too high, p99 33 % too high
          exponential input: too few lengths to say: D 0.508, W1 55 % of the mean; p50 31 % too low, p90 87 % too high, p99 259 % too high

        output_tokens: 3 fitted (cut unknown), left out: 0 zero, 0 without a count
          min 1, mean 2.0, max 3
          family      method   parameters (± standard error)                   D   W1 %      p50      p90      p99
          measured                                                                             2        3        3
          exponential quick    mean 2.0000 ± 1.1547                        0.393   45.2        1        5        9
          exponential discrete mean 1.4427 ± 0.8329                        0.167   25.0        1        4        7
          lognormal   quick    mu 0.5973 ± 0.2619, sigma 0.4536 ± 0.1852   0.250   10.3        2        3        5
          lognormal   discrete mu 0.2905 ± 0.3077, sigma 0.5329 ± 0.2175   0.108   12.2        2        3        5
          exponential output: too few lengths to say: D 0.167, W1 25 % of the mean; p50 50 % too low, p90 43 % too high, p99 135 % too high
          lognormal output: too few lengths to say: D 0.108, W1 12 % of the mean; p50 right, p90 7 % too high, p99 68 % too high

        arrivals: unknown, no row has a time

        mix: share [95 % interval] = count (denominator); basis
          sessions of two or more turns: unknown, the trace does not show it
          requests in sessions of two or more turns: unknown, the trace does not show it
          requests with retrieved documents (explicit or strong sign): unknown, the trace does not show it
          requests of more than 4000 input tokens: 0.00 % [0.00, 56.15] = 0 of 3 (requests with a known input length); measured
          failed requests: 0.00 % [0.00, 56.15] = 0 of 3 (all requests); measured
          requests of scenario `single`: 100.00 % [43.85, 100.00] = 3 of 3 (all requests; visible: tools 0, documents 0); assumed
          requests of scenario `multi_turn`: unknown, the trace does not show it
          requests of scenario `rag`: unknown, the trace does not show it
          requests of scenario `agent`: unknown, the trace does not show it
          requests of scenario `long_output`: 0.00 % [0.00, 56.15] = 0 of 3 (all requests; visible: tools 0, documents 0); assumed

        warning: input_tokens: 3 lengths are too few to judge a fit
        warning: output_tokens: 3 lengths are too few to judge a fit
        warning: no row has an arrival time: nothing is known of arrivals, and a recorded replay is impossible
        "#);
    }
}
