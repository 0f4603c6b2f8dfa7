//! A look at the target before anything is sent: base URL → [`ServerFacts`].
//!
//! Resolves the host and asks `GET {base}/v1/models` once. Only the target is contacted; proxies,
//! redirects and retries are off. A server that does not know the path is no error, a server that
//! is not there is. Nothing here is measured, so the library's own client serves.

use super::ReplayConfig;
use super::error::ReplayError;
use super::target::Target;
use super::tls;
use hyper::header::{CONTENT_TYPE, HOST};
use reqwest::{Response, redirect, retry};
use std::net::SocketAddr;
use std::time::Duration;

/// How long the server may take to list its models.
const MODELS_TIME: Duration = Duration::from_secs(5);
/// The most bytes of a list of models that are read.
const MAX_MODELS_BYTES: usize = 1 << 20;

/// What a server said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// The base URL, without secrets.
    pub base: String,
    /// The status of `GET /v1/models`; `None` when no answer came in time.
    pub status_code: Option<u16>,
    /// The `server` header.
    pub server: Option<String>,
    /// Models that were listed; `None` when there was no list.
    pub models: Option<usize>,
    /// Whether the wanted model is among them; `None` when there was no list.
    pub model_listed: Option<bool>,
}

/// Looks at the target of `config`.
///
/// # Errors
///
/// [`ReplayError::Resolve`], [`ReplayError::Unreachable`] or [`ReplayError::Tls`] when there is no
/// server to talk to.
pub fn preflight(config: &ReplayConfig) -> Result<ServerFacts, ReplayError> {
    let runtime = super::runtime()?;
    runtime.block_on(look(config))
}

/// Returns the addresses of the target's host.
pub(super) async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, ReplayError> {
    let host = target.host();
    let wrong = |source| ReplayError::Resolve { host: host.to_owned(), source };
    let found = tokio::net::lookup_host((host, target.port())).await.map_err(wrong)?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() {
        return Err(wrong(std::io::Error::other("no address")));
    }
    Ok(found)
}

async fn look(config: &ReplayConfig) -> Result<ServerFacts, ReplayError> {
    let target = &config.target;
    let addresses = resolve(target).await?;
    let unreachable = |error: reqwest::Error| {
        let source = super::fault::chain(&error.without_url());
        ReplayError::Unreachable {
            url: target.base().to_owned(),
            source: target.clean(&source).into(),
        }
    };
    let mut headers = target.headers().clone();
    headers.remove(CONTENT_TYPE);
    headers.remove(HOST);
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .tls_backend_preconfigured(tls::client_config(target.tls())?)
        .resolve_to_addrs(target.host(), &addresses)
        .connect_timeout(config.limits.connect.to_duration().min(MODELS_TIME))
        .timeout(MODELS_TIME)
        .default_headers(headers)
        .build()
        .map_err(unreachable)?;
    let mut facts = ServerFacts {
        base: target.base().to_owned(),
        status_code: None,
        server: None,
        models: None,
        model_listed: None,
    };
    match client.get(format!("{}/v1/models", target.base())).send().await {
        Ok(response) => read(response, config, &mut facts).await,
        Err(error) if error.is_connect() => return Err(unreachable(error)),
        // Connected, but no answer in time: a busy server may do that.
        Err(error) if error.is_timeout() => {}
        Err(error) => return Err(unreachable(error)),
    }
    Ok(facts)
}

async fn read(mut response: Response, config: &ReplayConfig, facts: &mut ServerFacts) {
    facts.status_code = Some(response.status().as_u16());
    let server = response.headers().get(hyper::header::SERVER);
    facts.server = server.and_then(|name| name.to_str().ok()).map(|name| config.target.clean(name));
    if !response.status().is_success() {
        return;
    }
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() > MAX_MODELS_BYTES {
            return;
        }
    }
    if let Some(models) = models(&body) {
        facts.models = Some(models.len());
        facts.model_listed = Some(models.iter().any(|id| id == config.body.model()));
    }
}

/// Reads `{"data": [{"id": ...}]}`.
fn models(body: &[u8]) -> Option<Vec<String>> {
    let list: serde_json::Value = serde_json::from_slice(body).ok()?;
    let ids = list.get("data")?.as_array()?.iter();
    Some(ids.filter_map(|model| Some(model.get("id")?.as_str()?.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_models() {
        assert_eq!(models(br#"{"data":[{"id":"a"},{"id":"b","x":1},{}]}"#).unwrap(), ["a", "b"]);
        assert_eq!(models(br#"{"data":[]}"#).unwrap(), Vec::<String>::new());
        assert_eq!(models(br#"{"models":[]}"#), None);
        assert_eq!(models(b"<html>"), None);
    }
}
