//! `tracewright mock`: options in, a fake endpoint until it is told to stop.

use super::failure::Failed;
use super::globals::Globals;
use super::print;
use crate::domain::time::Nanos;
use crate::mock::{self, Fault, MockConfig, MockError};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  tracewright mock --listen 127.0.0.1:8000 --ttft 200ms --tpot 20ms
  tracewright mock --fault http_500:0.05 --fault truncated:0.01 --stamps stamps.jsonl";

/// Serve a fake OpenAI-compatible endpoint with stated timing and faults
///
/// Prints `listening on http://ADDRESS` and answers `/v1/chat/completions` and `/v1/completions`
/// until Ctrl-C. An answer has exactly as many tokens as the request allows, one token an event,
/// each at its stated instant after the request's headers came. Requests do not slow each other.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Time from the request's headers to the first text
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = parse_duration)]
    ttft: Nanos,
    /// Time from one output token to the next
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = parse_duration)]
    tpot: Nanos,
    /// Time to the role-only first chunk of a chat [default: 5ms, at most the TTFT]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    role_delay: Option<Nanos>,
    /// How long the fault `slow_headers` holds an answer back
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    slow_headers: Nanos,
    /// Output tokens of a request that sets no limit
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    output_tokens: u32,
    /// Let a share of requests go wrong; may be given more than once
    ///
    /// KIND is one of `http_500`, `http_429`, `stream_error`, `truncated`, `empty` and
    /// `slow_headers`; SHARE is 0 to 1. Which requests are hit depends on the seed and the order
    /// of arrival.
    #[arg(long = "fault", value_name = "KIND:SHARE", value_parser = parse_fault)]
    faults: Vec<Fault>,
    /// Write a JSON line per request with the mock's own instants
    #[arg(long, value_name = "FILE")]
    stamps: Option<PathBuf>,
    /// Name of the model that `/v1/models` lists
    #[arg(long, value_name = "NAME", default_value = "mock")]
    model: String,
    /// Stop when standard input ends, as it does when the parent process dies
    #[arg(long)]
    until_stdin_closes: bool,
}

pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    // Without a tokenizer at hand, `usage.prompt_tokens` is null.
    let counter = None;
    let announce = |bound| print::to_stdout(&format!("listening on http://{bound}\n"));
    mock::serve(config(args, globals), counter, announce).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn config(args: &Args, globals: &Globals) -> MockConfig {
    let usual = MockConfig::default();
    MockConfig {
        listen: args.listen,
        model: args.model.clone(),
        ttft: args.ttft,
        tpot: args.tpot,
        role_delay: args.role_delay.unwrap_or_else(|| usual.role_delay.min(args.ttft)),
        slow_headers: args.slow_headers,
        default_output_tokens: args.output_tokens,
        faults: args.faults.clone(),
        seed: globals.seed(),
        stamps: args.stamps.clone(),
        overwrite: globals.force,
        until_stdin_closes: args.until_stdin_closes,
    }
}

fn failed(error: MockError) -> Failed {
    let hint = error.hint();
    Failed::new(error, hint)
}

fn parse_fault(text: &str) -> Result<Fault, MockError> {
    text.parse()
}

/// Reads a span such as `200ms`, `1.5s`, `20us` or `0`.
fn parse_duration(text: &str) -> Result<Nanos, String> {
    let number_ends = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_ends);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "" if number == "0" => 0.0,
        _ => return Err("expected a number and a unit: `us`, `ms`, `s` or `m`".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "expected a number before the unit".to_owned())?;
    Ok(Nanos::from_secs_f64(number * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        globals: Globals,
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Result<MockConfig, clap::Error> {
        let line = Line::try_parse_from([&["mock"], words].concat())?;
        Ok(config(&line.args, &line.globals))
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("200ms"), Ok(Nanos::from_millis(200)));
        assert_eq!(parse_duration("1.5s"), Ok(Nanos::from_millis(1_500)));
        assert_eq!(parse_duration("20us"), Ok(Nanos::from_micros(20)));
        assert_eq!(parse_duration("0"), Ok(Nanos::ZERO));
        for bad in ["", "5", "ms", "-1s", "1h30", "1.2.3s", "1 s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_role_chunk_follows_a_short_ttft() {
        assert_eq!(parse(&[]).unwrap().role_delay, Nanos::from_millis(5));
        assert_eq!(parse(&["--ttft", "1ms"]).unwrap().role_delay, Nanos::from_millis(1));
        let stated = parse(&["--ttft", "1ms", "--role-delay", "2ms"]).unwrap();
        assert!(stated.validate().is_err(), "what was typed is not changed silently");
    }

    #[test]
    fn faults_and_seed_reach_the_mock() {
        let config = parse(&["--fault", "empty:0.5", "--seed", "7", "--force"]).unwrap();
        assert_eq!(config.faults, ["empty:0.5".parse().unwrap()]);
        assert_eq!((config.seed.0, config.overwrite), (7, true));
        assert!(parse(&["--fault", "empty"]).is_err());
    }
}
