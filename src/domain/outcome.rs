//! Measured requests: what `replay` writes and `report` reads.
//!
//! Instants, not differences: every latency is derived by `domain::metric`, once. All instants are
//! offsets from the start of the run on its monotonic clock.

use super::scenario::Scenario;
use super::schedule::ScheduledRequest;
use super::time::Nanos;
use super::word::word_enum;

word_enum! {
    /// Why a request has no complete answer. A failed request has no TTFT, and is not 0.
    pub enum Failure {
        /// The host name did not resolve.
        Resolve = "resolve",
        /// No TCP connection.
        Connect = "connect",
        /// The TLS handshake broke.
        Tls = "tls",
        /// No response headers in time.
        HeadersTimeout = "headers_timeout",
        /// No generated text in time.
        FirstTokenTimeout = "first_token_timeout",
        /// The stream stood still for too long.
        IdleTimeout = "idle_timeout",
        /// The whole request took too long.
        TotalTimeout = "total_timeout",
        /// HTTP 400 to 499, but 429.
        Http4xx = "http_4xx",
        /// HTTP 429.
        RateLimited = "rate_limited",
        /// HTTP 500 to 599.
        Http5xx = "http_5xx",
        /// An error object inside a 200 stream.
        StreamError = "stream_error",
        /// The stream ended without finish reason and without end marker.
        Truncated = "truncated",
        /// A complete answer without any generated text.
        Empty = "empty",
        /// The answer is not what the API promises.
        Protocol = "protocol",
        /// A reused connection died before any byte of the answer.
        ConnectionReusedClosed = "connection_reused_closed",
        /// This machine ran out of ports, files or memory.
        ClientResource = "client_resource",
        /// Stopped by the user or by the plan.
        Cancelled = "cancelled",
        /// The run was killed; what became of the request is not known.
        UnknownAfterKill = "unknown_after_kill",
    }
}

impl Failure {
    /// Returns the coarse word for people used to it: ERROR, TIMEOUT, EXCEPTION or EMPTY.
    pub const fn group(self) -> &'static str {
        match self {
            Self::HeadersTimeout
            | Self::FirstTokenTimeout
            | Self::IdleTimeout
            | Self::TotalTimeout => "TIMEOUT",
            Self::Http4xx | Self::RateLimited | Self::Http5xx | Self::StreamError => "ERROR",
            Self::Empty => "EMPTY",
            Self::Resolve
            | Self::Connect
            | Self::Tls
            | Self::Truncated
            | Self::Protocol
            | Self::ConnectionReusedClosed
            | Self::ClientResource
            | Self::Cancelled
            | Self::UnknownAfterKill => "EXCEPTION",
        }
    }
}

word_enum! {
    /// Who counted an outcome's tokens.
    pub enum UsageSource {
        /// The server's `usage` object.
        Server = "server",
        /// This program's tokenizer.
        Local = "local",
    }
}

/// Everything measured of one planned request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instants {
    /// When it was due.
    pub scheduled: Option<Nanos>,
    /// When the dispatcher let it go.
    pub dispatched: Option<Nanos>,
    /// A new connection was begun (`None` on a reused one).
    pub connect_start: Option<Nanos>,
    /// The TCP connection stood.
    pub connected: Option<Nanos>,
    /// The TLS handshake was done.
    pub tls_done: Option<Nanos>,
    /// The first byte of the request was handed to the socket: the *actual send*. It stays when
    /// the request had to leave once more on a new connection, which then begins after it.
    pub sent: Option<Nanos>,
    /// The last byte of the request was handed to the socket.
    pub request_written: Option<Nanos>,
    /// The first byte of the answer was read.
    pub first_byte: Option<Nanos>,
    /// The response headers were complete.
    pub headers: Option<Nanos>,
    /// The first SSE event with data.
    pub first_event: Option<Nanos>,
    /// The first non-empty reasoning text.
    pub first_reasoning: Option<Nanos>,
    /// The first non-empty visible text.
    pub first_content: Option<Nanos>,
    /// The first tool-call delta.
    pub first_tool: Option<Nanos>,
    /// The first non-empty generated text of any kind; written once.
    pub first_text: Option<Nanos>,
    /// The last non-empty generated text.
    pub last_text: Option<Nanos>,
    /// The end marker (`[DONE]`).
    pub done_marker: Option<Nanos>,
    /// The answer's body was complete, or the request failed.
    pub closed: Option<Nanos>,
}

impl Instants {
    /// Nothing has happened yet.
    pub const NONE: Self = Self {
        scheduled: None,
        dispatched: None,
        connect_start: None,
        connected: None,
        tls_done: None,
        sent: None,
        request_written: None,
        first_byte: None,
        headers: None,
        first_event: None,
        first_reasoning: None,
        first_content: None,
        first_tool: None,
        first_text: None,
        last_text: None,
        done_marker: None,
        closed: None,
    };
}

/// One planned request and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOutcome {
    /// The plan's `request_id`.
    pub request_id: u64,
    /// The kind of request.
    pub scenario: Scenario,
    /// The plan's session number.
    pub session_id: Option<u64>,
    /// The plan's turn.
    pub turn_index: Option<u32>,
    /// Input tokens as planned.
    pub planned_input_tokens: u32,
    /// The limit on output tokens as planned.
    pub planned_max_tokens: u32,
    /// Whether the request was handed to a socket.
    pub was_sent: bool,
    /// When things happened.
    pub at: Instants,
    /// Instants of the chunks with text, one per chunk; chunks of one read share theirs.
    pub chunks: Vec<Nanos>,
    /// The HTTP status.
    pub http_status_code: Option<u16>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The server's or system's words about the failure, one line, cut to
    /// [`MAX_MESSAGE_BYTES`]; keys are masked, words that repeat the prompt are left out.
    pub failure_message: Option<String>,
    /// Input tokens as counted by `usage_source`.
    pub input_tokens: Option<u32>,
    /// Input tokens the server took from its cache.
    pub cached_input_tokens: Option<u32>,
    /// Output tokens as counted by `usage_source`.
    pub output_tokens: Option<u32>,
    /// Reasoning tokens among the output tokens.
    pub reasoning_tokens: Option<u32>,
    /// Who counted.
    pub usage_source: Option<UsageSource>,
    /// Why generation stopped, as one plain word; `other` when the server's is none.
    pub finish_reason: Option<String>,
    /// Whether a connection was used again; of two connections, the second one counts.
    pub connection_reused: Option<bool>,
    /// Bytes of generated text.
    pub text_bytes: u64,
    /// The largest share of the text that came in one read, in bytes.
    pub largest_read_text_bytes: u64,
    /// Requests in flight when this one was sent, this one included.
    pub in_flight: Option<u32>,
}

/// Longest failure message that is kept, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 300;

impl RequestOutcome {
    /// Returns an outcome of which nothing is known, not even the request.
    pub const fn blank() -> Self {
        Self {
            request_id: 0,
            scenario: Scenario::Single,
            session_id: None,
            turn_index: None,
            planned_input_tokens: 0,
            planned_max_tokens: 0,
            was_sent: false,
            at: Instants::NONE,
            chunks: Vec::new(),
            http_status_code: None,
            failure: None,
            failure_message: None,
            input_tokens: None,
            cached_input_tokens: None,
            output_tokens: None,
            reasoning_tokens: None,
            usage_source: None,
            finish_reason: None,
            connection_reused: None,
            text_bytes: 0,
            largest_read_text_bytes: 0,
            in_flight: None,
        }
    }

    /// Returns the row of a planned request of which nothing is measured yet.
    pub fn planned(request: &ScheduledRequest) -> Self {
        Self {
            request_id: request.request_id,
            scenario: request.scenario,
            session_id: request.session_id,
            turn_index: request.turn_index,
            planned_input_tokens: request.input_tokens,
            planned_max_tokens: request.max_tokens,
            at: Instants { scheduled: request.release.at(), ..Instants::NONE },
            ..Self::blank()
        }
    }

    /// Returns whether the request was tried: sent, or let go and refused before a byte left.
    ///
    /// Tried requests are the *sent* ones of every account; a run that stopped first, or was
    /// killed, leaves others untried.
    pub const fn was_tried(&self) -> bool {
        match self.failure {
            _ if self.was_sent => true,
            None => false,
            Some(Failure::Cancelled | Failure::UnknownAfterKill) => self.at.dispatched.is_some(),
            Some(_) => true,
        }
    }

    /// Returns whether the answer was complete.
    pub const fn succeeded(&self) -> bool {
        self.was_sent && self.failure.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_word_and_group() {
        let of = |group| {
            let all = Failure::ALL.iter().filter(|failure| failure.group() == group);
            all.map(|failure| failure.as_str()).collect::<Vec<_>>().join(" ")
        };
        insta::assert_snapshot!(of("ERROR"), @"http_4xx rate_limited http_5xx stream_error");
        insta::assert_snapshot!(of("TIMEOUT"), @"headers_timeout first_token_timeout idle_timeout total_timeout");
        insta::assert_snapshot!(of("EXCEPTION"), @"resolve connect tls truncated protocol connection_reused_closed client_resource cancelled unknown_after_kill");
        insta::assert_snapshot!(of("EMPTY"), @"empty");
        assert!(Failure::ALL.iter().all(|f| Failure::parse(f.as_str()) == Some(*f)));
    }

    #[test]
    fn nothing_is_measured_at_first() {
        assert_eq!(Instants::NONE, Instants::default());
    }
}
