//! Why the mock did not start, or could not go on.

use crate::domain::time::Nanos;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the mock did not start, or could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant names its fields")]
pub enum MockError {
    /// A fault was not written as `KIND:SHARE`.
    #[error("fault `{found}`: expected `KIND:SHARE` with KIND one of {}", kinds())]
    FaultSyntax { found: String },
    /// A share is not in `[0, 1]`.
    #[error("fault `{kind}`: share is `{found}`, expected 0 to 1")]
    FaultShare { kind: &'static str, found: f64 },
    /// The shares sum to more than 1.
    #[error("faults: shares sum to `{found}`, expected at most 1")]
    FaultSum { found: f64 },
    /// The role chunk would come after the first text.
    #[error(
        "role delay is `{} ms`, expected at most the time to first token, `{} ms`",
        .role_delay.as_millis_f64(),
        .ttft.as_millis_f64()
    )]
    RoleAfterText { role_delay: Nanos, ttft: Nanos },
    /// Answers of no token, or of too many.
    #[error("output tokens: `{found}`, expected 1 to {}", super::MAX_OUTPUT_TOKENS)]
    OutputTokens { found: u32 },
    /// The address cannot be bound.
    #[error("{listen}: cannot listen there")]
    Listen { listen: SocketAddr, source: io::Error },
    /// The stamps file cannot be created or written.
    #[error("{}: cannot write stamps", .path.display())]
    Stamps { path: PathBuf, source: io::Error },
    /// The operating system refused something that always works.
    #[error("mock: cannot {what}")]
    System { what: &'static str, source: io::Error },
}

impl MockError {
    /// Returns what the user can do, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::FaultSyntax { .. } | Self::FaultShare { .. } => {
                "for example `--fault http_500:0.05` for one request in twenty"
            }
            Self::FaultSum { .. } => "a request gets one fault at most: lower the shares",
            Self::RoleAfterText { .. } => "lower `--role-delay` or raise `--ttft`",
            Self::Listen { .. } => "`--listen 127.0.0.1:0` takes a free port and prints it",
            Self::Stamps { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                "name another file, or pass `--force` to overwrite it"
            }
            Self::OutputTokens { .. } | Self::Stamps { .. } | Self::System { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

fn kinds() -> String {
    let words: Vec<&str> = super::FaultKind::ALL.iter().map(|kind| kind.as_str()).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn messages_say_where_what_and_what_to_do() {
        let io = || io::Error::new(io::ErrorKind::AlreadyExists, "File exists");
        let errors = [
            MockError::FaultSyntax { found: "boom".into() },
            MockError::FaultShare { kind: "empty", found: 1.5 },
            MockError::FaultSum { found: 1.25 },
            MockError::RoleAfterText {
                role_delay: Nanos::from_millis(5),
                ttft: Nanos::from_millis(1),
            },
            MockError::OutputTokens { found: 0 },
            MockError::Listen { listen: SocketAddr::from(([127, 0, 0, 1], 80)), source: io() },
            MockError::Stamps { path: "s.jsonl".into(), source: io() },
            MockError::System { what: "listen for signals", source: io() },
        ];
        let lines = errors.iter().map(|error| {
            let hint = error.hint().unwrap_or_else(|| "-".to_owned());
            format!("{error} | {hint}")
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        assert!(errors[6].source().is_some());
        insta::assert_snapshot!(text, @"
        fault `boom`: expected `KIND:SHARE` with KIND one of http_500, http_429, stream_error, truncated, empty, slow_headers | for example `--fault http_500:0.05` for one request in twenty
        fault `empty`: share is `1.5`, expected 0 to 1 | for example `--fault http_500:0.05` for one request in twenty
        faults: shares sum to `1.25`, expected at most 1 | a request gets one fault at most: lower the shares
        role delay is `5 ms`, expected at most the time to first token, `1 ms` | lower `--role-delay` or raise `--ttft`
        output tokens: `0`, expected 1 to 262144 | -
        127.0.0.1:80: cannot listen there | `--listen 127.0.0.1:0` takes a free port and prints it
        s.jsonl: cannot write stamps | name another file, or pass `--force` to overwrite it
        mock: cannot listen for signals | -
        ");
    }
}
