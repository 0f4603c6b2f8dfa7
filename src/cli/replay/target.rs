//! The target of a replay as typed: options and environment → [`ReplayConfig`].

use crate::cli::environment;
use crate::cli::failure::Failed;
use crate::cli::globals::Globals;
use crate::cli::print;
use crate::cli::units::parse_duration;
use crate::domain::time::Nanos;
use crate::replay::api::{Api, BodyOptions, MaxTokensField};
use crate::replay::{Limits, ReplayConfig, Target};
use std::num::NonZeroU32;

/// The variable with the key, unless another is named.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";
/// The variable with the base URL, when `--url` is not given.
const URL_VARIABLE: &str = "OPENAI_BASE_URL";

/// Where and how requests are sent.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TargetArgs {
    /// Base URL of the server; default: the variable `OPENAI_BASE_URL`
    ///
    /// A path prefix is kept: `https://host/api` becomes `https://host/api/v1/chat/completions`.
    #[arg(long, visible_alias = "base-url", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Name of the model in the requests
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// API to speak: chat or completions
    ///
    /// `completions` sends the prompt as it is; `chat` sends it as one user message, to which the
    /// server's template adds tokens.
    #[arg(long, default_value = "chat", value_parser = api, value_name = "API")]
    pub(crate) api: Api,
    /// Header sent with each request, `K: V`; may be repeated
    #[arg(long = "header", value_name = "K: V", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// JSON object merged into each body, for example `{"temperature": 0}`
    #[arg(long, value_name = "JSON")]
    pub(crate) extra_body: Option<String>,
    /// Variable that holds the key; default: `OPENAI_API_KEY`, if it is set
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// Longest time for TCP and TLS together
    #[arg(long, default_value = "10s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) connect_timeout: Nanos,
    /// Longest time from the send to the first generated text
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) first_token_timeout: Nanos,
    /// Longest time between two reads once text has come
    #[arg(long, default_value = "60s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) idle_timeout: Nanos,
    /// Longest time from the send to the end
    #[arg(long, default_value = "1h", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) total_timeout: Nanos,
    /// Most requests in flight; further ones wait, which shows as schedule delay
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrency: Option<NonZeroU32>,
    /// Force the planned output length with `ignore_eos` and `min_tokens`
    ///
    /// vLLM, `SGLang` and llama.cpp know these fields; other servers may refuse them.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Field that limits output: `max_tokens` or `max_completion_tokens`
    #[arg(long, default_value = "max_tokens", value_parser = max_tokens_field, value_name = "FIELD")]
    pub(crate) max_tokens_field: MaxTokensField,
    /// Keep an idle connection for reuse at most this long; 0s opens one for each request
    #[arg(long, default_value = "4s", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) reuse_idle: Nanos,
    /// Send once more when a reused connection had died without a byte
    ///
    /// The original instant stays, and such requests are counted. Without it they fail with the
    /// class `connection_reused_closed`.
    #[arg(long)]
    pub(crate) reconnect_stale: bool,
}

/// Makes the replay's configuration from what was typed and from the environment.
pub(crate) fn config(args: &TargetArgs, globals: &Globals) -> anyhow::Result<ReplayConfig> {
    let url = match &args.url {
        Some(url) => url.clone(),
        None => from_environment(URL_VARIABLE, "base URL", globals).ok_or_else(|| {
            Failed::usage(
                "no `--url` is given",
                Some(format!("give `--url http://HOST:PORT` or set `{URL_VARIABLE}`")),
            )
        })?,
    };
    let key = match &args.api_key_env {
        Some(name) => Some(from_environment(name, "key", globals).ok_or_else(|| {
            let hint = format!("export `{name}`, or leave `--api-key-env` out");
            Failed::usage(format!("the variable `{name}` is not set"), Some(hint))
        })?),
        None => from_environment(KEY_VARIABLE, "key", globals),
    };
    let target = Target::new(&url, args.api, key.as_deref(), &args.headers)?;
    let model = args.model.as_deref().ok_or_else(|| {
        let hint = "give `--model NAME`, the name that the server expects in requests".to_owned();
        Failed::usage("no `--model` is given", Some(hint))
    })?;
    let mut body = BodyOptions::new(model)
        .with_ignore_eos(args.ignore_eos)
        .with_max_tokens_field(args.max_tokens_field);
    if let Some(extra) = &args.extra_body {
        body = body.with_extra(extra)?;
    }
    let mut config = ReplayConfig::new(target, args.api, body);
    config.limits = Limits {
        connect: args.connect_timeout,
        first_token: args.first_token_timeout,
        idle: args.idle_timeout,
        total: args.total_timeout,
    };
    config.max_concurrency = args.max_concurrency;
    config.reuse_idle = args.reuse_idle;
    config.reconnect_stale = args.reconnect_stale;
    Ok(config)
}

fn from_environment(name: &str, what: &str, globals: &Globals) -> Option<String> {
    let value = environment::variable(name)?;
    print::note(globals, &format!("{what} from the variable `{name}`"));
    Some(value)
}

fn api(word: &str) -> Result<Api, String> {
    Api::parse(word).ok_or_else(|| format!("expected one of {}", words(Api::ALL)))
}

fn max_tokens_field(word: &str) -> Result<MaxTokensField, String> {
    let expected = || format!("expected one of {}", words(MaxTokensField::ALL));
    MaxTokensField::parse(word).ok_or_else(expected)
}

fn words<W: ToString>(all: &[W]) -> String {
    let words: Vec<String> = all.iter().map(ToString::to_string).collect();
    words.join(", ")
}

fn header(typed: &str) -> Result<(String, String), String> {
    // The value may be a secret and is not repeated.
    let (name, value) = typed.split_once(':').ok_or("expected `K: V`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_header_is_not_repeated() {
        assert_eq!(header("x-key: a:b "), Ok(("x-key".into(), "a:b".into())));
        assert!(!header("sk-secret").unwrap_err().contains("secret"));
    }
}
