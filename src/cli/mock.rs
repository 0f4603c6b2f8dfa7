//! `tracewright mock`: options in, a fake endpoint until it is told to stop.

use super::globals::Globals;
use super::print;
use super::units::parse_duration;
use crate::domain::count::CountTokens;
use crate::domain::time::Nanos;
use crate::mock::{self, Fault, MockConfig, MockError};
use crate::pool::Tokenizer;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

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
    /// Tokenizer that counts prompts for `usage`; `none` leaves their count null
    ///
    /// The contents of all messages are counted, without a chat template.
    #[arg(long, value_name = "NAME", default_value = "o200k_base")]
    tokenizer: String,
    /// Stop when standard input ends, as it does when the parent process dies
    #[arg(long)]
    until_stdin_closes: bool,
}

pub(crate) fn run(args: &Args, globals: &Globals) -> anyhow::Result<ExitCode> {
    let counter: Option<Arc<dyn CountTokens>> = match args.tokenizer.as_str() {
        "none" => None,
        name => Some(Arc::new(Tokenizer::named(name)?)),
    };
    let announce = |bound| print::to_stdout(&format!("listening on http://{bound}\n"));
    mock::serve(config(args, globals), counter, announce)?;
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

fn parse_fault(text: &str) -> Result<Fault, MockError> {
    text.parse()
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
    fn the_role_chunk_follows_a_short_ttft() {
        assert_eq!(parse(&[]).unwrap().role_delay, Nanos::from_millis(5));
        assert_eq!(parse(&["--ttft", "1ms"]).unwrap().role_delay, Nanos::from_millis(1));
        let stated = parse(&["--ttft", "1ms", "--role-delay", "2ms"]).unwrap();
        assert!(stated.validate().is_err(), "what was typed is not changed silently");
    }

    #[test]
    fn every_piece_of_an_answer_is_one_token() {
        // A client that counts for itself must come to the number the mock states.
        for name in Tokenizer::names() {
            let tokenizer = Tokenizer::named(name).unwrap();
            for tokens in [1, 2, 7, 8, 15, 100] {
                let text = mock::answer_text(tokens);
                assert_eq!(tokenizer.count_tokens(&text), tokens, "{name}: {text}");
            }
        }
    }

    #[test]
    fn faults_and_seed_reach_the_mock() {
        let config = parse(&["--fault", "empty:0.5", "--seed", "7", "--force"]).unwrap();
        assert_eq!(config.faults, ["empty:0.5".parse().unwrap()]);
        assert_eq!((config.seed.0, config.overwrite), (7, true));
        assert!(parse(&["--fault", "empty"]).is_err());
    }
}
