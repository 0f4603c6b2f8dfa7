//! Why a replay cannot start or go on. What befalls one request is not here: that is an outcome.

use crate::domain::schedule::Release;
use std::error::Error;

/// Why a replay cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The target's address makes no sense.
    #[error("url: `{url}` {reason}")]
    Url {
        /// What was given, without credentials.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("header: `{name}` {reason}")]
    Header {
        /// The header's name; its value may be a secret.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The extra body fields cannot be merged.
    #[error("extra body: {reason}")]
    ExtraBody {
        /// What is wrong with them.
        reason: String,
    },
    /// The host name has no address.
    #[error("target: `{host}` does not resolve")]
    Resolve {
        /// The host of the URL.
        host: String,
        /// The system's words.
        source: std::io::Error,
    },
    /// Nobody answers at the target.
    #[error("target: no connection to `{url}`")]
    Unreachable {
        /// The base URL.
        url: String,
        /// The system's words.
        source: Box<dyn Error + Send + Sync>,
    },
    /// TLS cannot be set up on this machine.
    #[error("tls: {reason}")]
    Tls {
        /// What is missing.
        reason: String,
    },
    /// A part of the machine's support is missing.
    #[error("replay: {what} cannot be started")]
    System {
        /// The part.
        what: &'static str,
        /// The system's words.
        source: std::io::Error,
    },
    /// The plan cannot be read on.
    #[error("plan: reading stopped")]
    Plan {
        /// The reader's words.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A prompt cannot be composed.
    #[error("plan: request {request_id}: its prompt cannot be composed")]
    Prompt {
        /// The planned request.
        request_id: u64,
        /// The pool's words.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The plan holds a kind of release that cannot be replayed.
    #[error("plan: request {request_id}: release `{}`, expected `at`", release.kind())]
    Release {
        /// The planned request.
        request_id: u64,
        /// Its release.
        release: Release,
    },
    /// Whoever takes the outcomes has gone.
    #[error("replay: outcomes are no longer taken")]
    OutcomesClosed,
    /// Planned and recorded rows differ, which is a bug.
    #[error("replay: {planned} rows planned, but {recorded} recorded")]
    RowsLost {
        /// Rows read from the plan.
        planned: u64,
        /// Outcomes handed over.
        recorded: u64,
    },
}

impl ReplayError {
    /// Returns what the user can do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Url { .. } => "write it like `http://127.0.0.1:8000` or `https://host/prefix`",
            Self::Header { .. } => "write it like `--header 'X-Name: value'`",
            Self::ExtraBody { .. } => {
                "give a JSON object, for example `--extra-body '{\"temperature\": 0}'`"
            }
            Self::Resolve { .. } => "check the host name in `--url`",
            Self::Unreachable { .. } => {
                "nothing was sent; check that the server runs and that `--url` names its port"
            }
            Self::Tls { .. } => "install the system's root certificates (`ca-certificates`)",
            Self::System { .. } => return None,
            Self::Plan { .. } => "outcomes up to here are kept in the run directory",
            Self::Prompt { .. } => "use the prompt pool that the plan was made with",
            Self::Release { .. } => {
                "make the plan with recorded or open arrivals; closed loops and turns that wait \
                 for the answer before them are not replayed yet"
            }
            Self::OutcomesClosed => "see the error of the run directory's writer",
            Self::RowsLost { .. } => "this is a bug; please report it with the plan",
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Nanos;
    use std::fmt::Write;
    use std::io;

    #[test]
    fn every_message_says_where_and_what() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let release = Release::After { request_id: 1, delay: Nanos(5) };
        let errors = [
            ReplayError::Url { url: "host:80".into(), reason: "is not an http URL".into() },
            ReplayError::Header { name: "X Y".into(), reason: "is not a header name" },
            ReplayError::ExtraBody { reason: "found a list, expected an object".into() },
            ReplayError::Resolve { host: "nowhere".into(), source: refused() },
            ReplayError::Unreachable { url: "http://h".into(), source: refused().into() },
            ReplayError::Tls { reason: "no root certificates found".into() },
            ReplayError::System { what: "a thread", source: refused() },
            ReplayError::Plan { source: "no footer".into() },
            ReplayError::Prompt { request_id: 7, source: "no entry `3`".into() },
            ReplayError::Release { request_id: 2, release },
            ReplayError::OutcomesClosed,
            ReplayError::RowsLost { planned: 3, recorded: 2 },
        ];
        let mut text = String::new();
        for error in errors {
            writeln!(text, "{error}\n  hint: {}", error.hint().as_deref().unwrap_or("none"))
                .unwrap();
        }
        insta::assert_snapshot!(text, @r#"
        url: `host:80` is not an http URL
          hint: write it like `http://127.0.0.1:8000` or `https://host/prefix`
        header: `X Y` is not a header name
          hint: write it like `--header 'X-Name: value'`
        extra body: found a list, expected an object
          hint: give a JSON object, for example `--extra-body '{"temperature": 0}'`
        target: `nowhere` does not resolve
          hint: check the host name in `--url`
        target: no connection to `http://h`
          hint: nothing was sent; check that the server runs and that `--url` names its port
        tls: no root certificates found
          hint: install the system's root certificates (`ca-certificates`)
        replay: a thread cannot be started
          hint: none
        plan: reading stopped
          hint: outcomes up to here are kept in the run directory
        plan: request 7: its prompt cannot be composed
          hint: use the prompt pool that the plan was made with
        plan: request 2: release `after`, expected `at`
          hint: make the plan with recorded or open arrivals; closed loops and turns that wait for the answer before them are not replayed yet
        replay: outcomes are no longer taken
          hint: see the error of the run directory's writer
        replay: 3 rows planned, but 2 recorded
          hint: this is a bug; please report it with the plan
        "#);
    }
}
