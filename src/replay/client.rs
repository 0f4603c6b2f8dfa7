//! One request over HTTP/1.1: body bytes → the recorded answer.
//!
//! One task per request; the task owns its record and hands over exactly one outcome. No retry, no
//! redirect, no second POST, unless `reconnect_stale` asks for one after a reused connection died
//! without a byte; then the instants of the schedule and of the first send stay, and the limits
//! count on. Each limit has a class of its own:
//!
//! - connect: TCP and TLS together (`connect`, or `tls` once TCP stands);
//! - first token: from the send to the first text (`headers_timeout` while no headers came);
//! - idle: between two reads, once text has come;
//! - total: from the send to the end.

use super::ReplayConfig;
use super::answer::Answer;
use super::api::wire::error_message;
use super::clock::RunClock;
use super::connection::{Connection, Connections};
use super::fault::Fault;
use super::progress::Progress;
use super::stop::Stop;
use crate::domain::outcome::{Failure, RequestOutcome};
use crate::domain::schedule::ScheduledRequest;
use crate::domain::time::Nanos;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, LOCATION};
use hyper::{Method, Request, Response, Uri};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait for the end of a body whose stream has said its end marker.
const AFTER_DONE: Nanos = Nanos::from_millis(1_000);

/// The most bytes that are read of an answer that is no stream.
const MAX_ERROR_BODY: usize = 8 << 10;
/// The longest wait for such an answer to come to its end.
const WORDS_TIME: Duration = Duration::from_secs(2);

/// A request that is due, with its body.
#[derive(Debug)]
pub(super) struct Due {
    /// The plan's row.
    pub(super) request: ScheduledRequest,
    /// The body.
    pub(super) body: Bytes,
    /// When the dispatcher let it go.
    pub(super) dispatched: Nanos,
}

/// Everything that requests share; lives on the thread of the async runtime.
pub(super) struct Client {
    /// What the user decided.
    pub(super) config: ReplayConfig,
    /// The run's clock.
    pub(super) clock: RunClock,
    /// The connections.
    pub(super) connections: Connections,
    /// The run's gauges.
    pub(super) progress: Arc<Progress>,
    /// The stop signal.
    pub(super) stop: Arc<Stop>,
    /// Requests sent a second time since a reused connection had died.
    pub(super) reconnected: Cell<u64>,
}

impl Client {
    /// Sends one request, reads its answer and returns its outcome.
    ///
    /// The connection goes back in a task of its own: what the server still does with it concerns
    /// no outcome and no place below the cap.
    pub(super) async fn perform(self: Rc<Self>, due: Due) -> RequestOutcome {
        let mut answer = Answer::new(&due.request, due.dispatched);
        let result = tokio::select! {
            biased;
            result = self.exchange(&due.body, &mut answer) => result,
            () = self.stop.when_cut() => Err(Fault::new(Failure::Cancelled, "stopped by the user")),
        };
        let now = self.clock.now();
        if answer.in_flight().is_some() {
            self.progress.leave();
        }
        let (verdict, closed, connection) = match result {
            Ok((end, connection)) => (end.verdict, end.closed.unwrap_or(now), connection),
            Err(fault) => (Err(fault), now, None),
        };
        if let Some(connection) = connection {
            self.give_back(connection);
        }
        let verdict = verdict.map_err(|fault| {
            let text = fault.text(&due.body, self.config.body.model());
            Fault::new(fault.class, self.config.target.clean(&text))
        });
        answer.finish(verdict, closed)
    }

    /// Keeps a connection, at once if it is free; else a task waits until it is.
    fn give_back(self: &Rc<Self>, connection: Connection) {
        if let Some(busy) = self.connections.keep_if_free(connection) {
            let client = Rc::clone(self);
            tokio::task::spawn_local(async move { client.connections.keep_when_free(busy).await });
        }
    }

    /// Returns how the answer ended, and the connection if it can be used again.
    async fn exchange(
        &self,
        body: &Bytes,
        answer: &mut Answer,
    ) -> Result<(End, Option<Connection>), Fault> {
        let mut begun = None;
        loop {
            // A second try takes no idle connection, which may have died as the first one did.
            let mut connection = self.connection(answer, begun.is_none()).await?;
            answer.on_connection(connection.stamps.clone(), connection.reused);
            if begun.is_none() {
                answer.outcome_mut().in_flight = Some(self.progress.enter());
            }
            let since = *begun.get_or_insert_with(|| self.clock.now());
            match self.ask(&mut connection, body.clone(), since, answer).await {
                Ok(end) => {
                    let kept = end.reusable.then_some(connection);
                    return Ok((end, kept));
                }
                // Only a connection that was used before dies so, hence there is one second try.
                Err(fault)
                    if self.config.reconnect_stale
                        && fault.class == Failure::ConnectionReusedClosed =>
                {
                    answer.send_again();
                    self.reconnected.set(self.reconnected.get() + 1);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Returns a connection: an idle one if that is allowed and there is one, else a new one.
    async fn connection(&self, answer: &mut Answer, may_reuse: bool) -> Result<Connection, Fault> {
        if let Some(connection) = may_reuse.then(|| self.connections.take_idle()).flatten() {
            return Ok(connection);
        }
        let at = &mut answer.outcome_mut().at;
        let limit = self.config.limits.connect;
        let first = self.connections.preferred();
        if let Ok(opened) = timeout(limit.to_duration(), self.connections.open(at)).await {
            return opened;
        }
        self.connections.pass_over(first);
        let (class, what) = match at.connected {
            None => (Failure::Connect, "connection"),
            Some(_) => (Failure::Tls, "TLS handshake"),
        };
        Err(Fault::new(class, format!("no {what} within {}", seconds(limit))))
    }

    async fn ask(
        &self,
        connection: &mut Connection,
        body: Bytes,
        since: Nanos,
        answer: &mut Answer,
    ) -> Result<End, Fault> {
        let stamps = connection.stamps.clone();
        let begun = Wait { since, last_read: None };
        let sent = connection.sender.send_request(self.request(body));
        let response = self.within(begun, answer, sent).await?.map_err(|error| {
            let untouched = connection.reused && stamps.first_read().is_none();
            Fault::before_headers(&error, untouched)
        })?;
        answer.headers(response.status().as_u16(), stamps.last_read());
        if let Some(fault) = refusal(&response) {
            let (fault, whole) = self.with_words(fault, response, begun, answer).await;
            let closed = stamps.end().filter(|_| whole);
            return Ok(End { verdict: Err(fault), closed, reusable: whole });
        }
        let mut body = response.into_body();
        loop {
            let wait = Wait { last_read: stamps.last_read(), ..begun };
            let frame = match self.within(wait, answer, body.frame()).await {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                // The server ended the stream, but not the body; the answer itself is complete.
                Err(fault) => match answer.done_marker() {
                    Some(done) => return Ok(End::broken(answer.judge(), Some(done))),
                    None => return Err(fault),
                },
            };
            match frame {
                Ok(frame) => {
                    if let Some(data) = frame.data_ref() {
                        let at = stamps.last_read().unwrap_or_default();
                        answer.feed(self.config.api, data, (stamps.reads(), at))?;
                    }
                }
                Err(error) => {
                    let verdict = answer.broke_off(Fault::in_body(&error));
                    return Ok(End::broken(verdict, stamps.end()));
                }
            }
        }
        // Whatever it said: the answer came to its end, and the connection is free.
        Ok(End { verdict: answer.judge(), closed: stamps.end(), reusable: true })
    }

    fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(self.config.target.path().clone());
        *request.headers_mut() = self.config.target.headers().clone();
        request
    }

    /// Adds the server's own words to the fault of a response that is no stream; also returns
    /// whether the response was read to its end.
    async fn with_words(
        &self,
        fault: Fault,
        response: Response<Incoming>,
        begun: Wait,
        answer: &Answer,
    ) -> (Fault, bool) {
        let mut body = response.into_body();
        let mut text = Vec::new();
        let reading = timeout(WORDS_TIME, read_words(&mut body, &mut text));
        // Only the words are lost when they do not come: the class is known.
        let whole = matches!(self.within(begun, answer, reading).await, Ok(Ok(true)));
        text.truncate(MAX_ERROR_BODY);
        let words = error_message(&text);
        let in_error_object = fault.class == Failure::Protocol && words.is_some();
        let class = if in_error_object { Failure::StreamError } else { fault.class };
        // Other JSON may repeat the prompt; a page that is not JSON is the server's own.
        let words = words.or_else(|| {
            let start = text.trim_ascii_start().first();
            let own = start.is_some_and(|byte| !matches!(byte, b'{' | b'[' | b'"'));
            own.then(|| String::from_utf8_lossy(&text).into_owned())
        });
        (Fault { class, server_words: words.or(fault.server_words), message: fault.message }, whole)
    }

    /// Waits for `work` up to the nearest limit.
    async fn within<W: Future>(
        &self,
        wait: Wait,
        answer: &Answer,
        work: W,
    ) -> Result<W::Output, Fault> {
        let (deadline, class, limit) = self.nearest(wait, answer);
        let left = Nanos(deadline.0.saturating_sub(self.clock.now().0));
        let what = match class {
            Failure::HeadersTimeout => "no headers",
            Failure::FirstTokenTimeout => "no generated text",
            Failure::IdleTimeout => "no further bytes",
            _ => "no end",
        };
        let passed = || Fault::new(class, format!("{what} within {}", seconds(limit)));
        // A server that always has bytes ready would win against a timer of zero for ever.
        if left == Nanos::ZERO {
            return Err(passed());
        }
        timeout(left.to_duration(), work).await.map_err(|_| passed())
    }

    fn nearest(&self, wait: Wait, answer: &Answer) -> (Nanos, Failure, Nanos) {
        let limits = &self.config.limits;
        let total = (wait.since.plus(limits.total), Failure::TotalTimeout, limits.total);
        let next = if let Some(done) = answer.done_marker() {
            (done.plus(AFTER_DONE), Failure::IdleTimeout, AFTER_DONE)
        } else if answer.has_text() {
            let from = wait.last_read.unwrap_or(wait.since);
            (from.plus(limits.idle), Failure::IdleTimeout, limits.idle)
        } else {
            let class = if answer.has_headers() {
                Failure::FirstTokenTimeout
            } else {
                Failure::HeadersTimeout
            };
            (wait.since.plus(limits.first_token), class, limits.first_token)
        };
        if next.0 < total.0 { next } else { total }
    }
}

/// Returns why a response is no stream, judged by its status and content type.
fn refusal(response: &Response<Incoming>) -> Option<Fault> {
    let status = response.status();
    let class = match status.as_u16() {
        200..=299 => {
            let kind = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
            let json = kind.trim_start().to_ascii_lowercase().starts_with("application/json");
            return json.then(|| {
                Fault::new(Failure::Protocol, "answered with JSON, expected an event stream")
            });
        }
        429 => Failure::RateLimited,
        400..=499 => Failure::Http4xx,
        500..=599 => Failure::Http5xx,
        _ => {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let to = to.map(|to| format!("redirect to `{to}`"));
            let message = format!("HTTP {status} is not followed");
            return Some(Fault::explained(Failure::Protocol, message, to));
        }
    };
    Some(Fault::new(class, format!("HTTP {status}")))
}

/// Reads the body of a response that is no stream up to a limit; returns whether it ended.
async fn read_words(body: &mut Incoming, text: &mut Vec<u8>) -> bool {
    while text.len() < MAX_ERROR_BODY {
        match body.frame().await {
            Some(Ok(frame)) => text.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Some(Err(_)) => return false,
            None => return true,
        }
    }
    body.is_end_stream()
}

/// How an answer ended.
struct End {
    verdict: Result<(), Fault>,
    closed: Option<Nanos>,
    reusable: bool,
}

impl End {
    /// Returns the end of an answer whose connection cannot be used again.
    const fn broken(verdict: Result<(), Fault>, closed: Option<Nanos>) -> Self {
        Self { verdict, closed, reusable: false }
    }
}

/// What the limits of a wait count from.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Nanos,
    last_read: Option<Nanos>,
}

fn seconds(limit: Nanos) -> String {
    format!("{} s", limit.as_secs_f64())
}
