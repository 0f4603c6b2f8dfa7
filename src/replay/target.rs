//! Where requests go: a base URL → host, port, path, header fields, and the secrets to mask.
//!
//! A path prefix is kept (`https://host/api` → `https://host/api/v1/chat/completions`); a base that
//! already ends in `/v1`, or in the endpoint itself, is not doubled. Credentials in a URL are
//! refused, since the URL is written to the run's manifest. Does no I/O.

use super::api::Api;
use super::error::ReplayError;
use crate::domain::outcome::MAX_MESSAGE_BYTES;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;

/// What a masked secret looks like.
const MASK: &str = "***";
/// Shorter header values are words, not secrets; masking them would garble messages.
const SHORTEST_SECRET: usize = 6;

/// A server and the way to ask it.
#[derive(Clone)]
pub struct Target {
    base: String,
    host: String,
    port: u16,
    tls: bool,
    path: PathAndQuery,
    headers: HeaderMap,
    secrets: Vec<String>,
}

impl std::fmt::Debug for Target {
    /// Shows the address alone, no header and no secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Target {
    /// Reads a base URL, the key (sent as a bearer token) and further header fields.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Url`] and [`ReplayError::Header`], without repeating a secret.
    pub fn new(
        url: &str,
        api: Api,
        key: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<Self, ReplayError> {
        let wrong = |shown: &str, reason: &str| ReplayError::Url {
            url: shown.to_owned(),
            reason: reason.to_owned(),
        };
        let parsed = reqwest::Url::parse(url)
            .ok()
            .filter(|parsed| matches!(parsed.scheme(), "http" | "https"))
            .ok_or_else(|| wrong(without_credentials(url), "is not an http or https URL"))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong(without_credentials(url), "holds a user name or password"));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(wrong(
                url.split(['?', '#']).next().unwrap_or_default(),
                "has a `?` or `#` part, expected a base URL",
            ));
        }
        let host = parsed.host_str().unwrap_or_default();
        let authority = match parsed.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let prefix = prefix(parsed.path(), api);
        let base = format!("{}://{authority}{prefix}", parsed.scheme());
        let path = format!("{prefix}{}", api.path());
        let path = PathAndQuery::try_from(path).map_err(|_| wrong(url, "has an invalid path"))?;
        let mut target = Self {
            base,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: parsed.port_or_known_default().unwrap_or(80),
            tls: parsed.scheme() == "https",
            path,
            headers: HeaderMap::new(),
            secrets: Vec::new(),
        };
        target.set_headers(&authority, key, headers)?;
        Ok(target)
    }

    fn set_headers(
        &mut self,
        authority: &str,
        key: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<(), ReplayError> {
        let fixed = [
            (header::HOST, authority),
            (header::USER_AGENT, concat!("tracewright/", env!("CARGO_PKG_VERSION"))),
            (header::CONTENT_TYPE, "application/json"),
            (header::ACCEPT, "text/event-stream"),
        ];
        for (name, value) in fixed {
            self.set_header(name, value)?;
        }
        if let Some(key) = key {
            self.set_header(header::AUTHORIZATION, &format!("Bearer {key}"))?;
        }
        for (name, value) in headers {
            let parsed = HeaderName::try_from(name.as_str()).map_err(|_| ReplayError::Header {
                name: name.clone(),
                reason: "is not a header name",
            })?;
            if [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION]
                .contains(&parsed)
            {
                let reason = "is set by the client itself";
                return Err(ReplayError::Header { name: name.clone(), reason });
            }
            self.set_header(parsed, value)?;
            self.add_secret(value);
        }
        if let Some(key) = key {
            self.add_secret(key);
        }
        // The longest first, so that a key inside a longer value does not leave its rest.
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Ok(())
    }

    fn set_header(&mut self, name: HeaderName, value: &str) -> Result<(), ReplayError> {
        let mut parsed = HeaderValue::try_from(value).map_err(|_| ReplayError::Header {
            name: name.to_string(),
            reason: "has a value with bytes that a header cannot have",
        })?;
        parsed.set_sensitive(true);
        self.headers.insert(name, parsed);
        Ok(())
    }

    /// Takes a value that must never be repeated: as a whole, and each of its words, since a
    /// server may quote the token without its scheme.
    fn add_secret(&mut self, value: &str) {
        let words = value.split(|c: char| c.is_whitespace() || ",;=".contains(c));
        let all = std::iter::once(value.trim()).chain(words);
        let long = all.filter(|secret| secret.len() >= SHORTEST_SECRET);
        self.secrets.extend(long.map(str::to_owned));
        // The longest first, so that no part of a longer one is left.
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// Returns the base URL, without secrets and without `/v1`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the host name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether TLS is used.
    pub const fn tls(&self) -> bool {
        self.tls
    }

    /// Returns the path that requests go to.
    pub const fn path(&self) -> &PathAndQuery {
        &self.path
    }

    /// Returns the header fields of every request.
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns a foreign message fit for a result: secrets masked, one line, cut to
    /// [`MAX_MESSAGE_BYTES`].
    pub fn clean(&self, message: &str) -> String {
        let mut text = message.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), MASK);
        }
        let mut line = String::new();
        for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
            if word.is_empty() {
                continue;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        let mut end = line.len().min(MAX_MESSAGE_BYTES);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line
    }
}

/// Returns what stands before `/v1` in a base URL's path.
fn prefix(path: &str, api: Api) -> &str {
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(api.path()).unwrap_or(path);
    path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/')
}

/// Returns the part of a URL that holds no user name and no password.
fn without_credentials(url: &str) -> &str {
    url.rsplit('@').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, ReplayError> {
        Target::new(url, Api::Chat, None, &[])
    }

    #[test]
    fn a_prefix_is_kept_and_v1_is_not_doubled() {
        for (url, base, path, port) in [
            ("http://h", "http://h", "/v1/chat/completions", 80),
            ("http://h/", "http://h", "/v1/chat/completions", 80),
            ("http://h:8000/v1", "http://h:8000", "/v1/chat/completions", 8000),
            ("https://h/api", "https://h/api", "/api/v1/chat/completions", 443),
            ("https://h/api/v1/", "https://h/api", "/api/v1/chat/completions", 443),
            ("http://h/api/v1/chat/completions", "http://h/api", "/api/v1/chat/completions", 80),
            ("http://[::1]:9/x", "http://[::1]:9/x", "/x/v1/chat/completions", 9),
        ] {
            let target = target(url).expect(url);
            assert_eq!((target.base(), target.path().as_str()), (base, path), "{url}");
            assert_eq!(target.port(), port, "{url}");
        }
        assert_eq!(target("http://[::1]:9").unwrap().host(), "::1");
    }

    #[test]
    fn bad_urls_are_refused_without_their_secrets() {
        let shown = |url| target(url).unwrap_err().to_string();
        insta::assert_snapshot!(shown("localhost:8000"), @"url: `localhost:8000` is not an http or https URL");
        insta::assert_snapshot!(shown("http://u:secret@h/"), @"url: `h/` holds a user name or password");
        insta::assert_snapshot!(shown("ftp://u:secret@h/"), @"url: `h/` is not an http or https URL");
        insta::assert_snapshot!(shown("http://h/x?key=secret"), @"url: `http://h/x` has a `?` or `#` part, expected a base URL");
    }

    #[test]
    fn bad_headers_are_refused_without_their_values() {
        let shown = |name: &str, value: &str| {
            Target::new("http://h", Api::Chat, None, &[(name.into(), value.into())])
                .unwrap_err()
                .to_string()
        };
        insta::assert_snapshot!(shown("a b", "secret"), @"header: `a b` is not a header name");
        insta::assert_snapshot!(shown("x-key", "sec\nret"), @"header: `x-key` has a value with bytes that a header cannot have");
        insta::assert_snapshot!(shown("Content-Length", "7"), @"header: `Content-Length` is set by the client itself");
    }

    #[test]
    fn messages_are_masked_first_then_cut() {
        let headers = [("x-api-key".to_owned(), "Bearer hush-hush".to_owned())];
        let target = Target::new("http://h", Api::Chat, Some("sk-planted"), &headers).unwrap();
        let message = "no\r\n\tkey  sk-planted, hush-hush\u{7}!";
        assert_eq!(target.clean(message), "no key ***, *** !");
        // A key across the cut must not leave its first half.
        let long = format!("{}sk-planted", "x".repeat(MAX_MESSAGE_BYTES - 4));
        assert!(!target.clean(&long).contains("sk-"));
        assert_eq!(target.clean(&"é".repeat(400)).len(), MAX_MESSAGE_BYTES);
        assert!(!format!("{target:?} {:?}", target.headers()).contains("sk-planted"));
    }
}
