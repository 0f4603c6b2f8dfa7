//! One request over HTTP/1.1: body bytes → the recorded answer.
//!
//! One task per request; the task owns its record and hands over exactly one outcome. No retry, no
//! redirect, no second POST, unless `reconnect_stale` asks for one after a reused connection died
//! without a byte; then the instants of the schedule stay. Each limit has a class of its own:
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
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, LOCATION};
use hyper::{Method, Request, Response, Uri};
use std::cell::Cell;
use std::sync::Arc;
use tokio::time::timeout;

/// The most bytes that are read of an answer that is no stream.
const MAX_ERROR_BODY: usize = 8 << 10;

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
    pub(super) async fn perform(&self, due: Due) -> RequestOutcome {
        let mut answer = Answer::new(&due.request, due.dispatched);
        answer.outcome_mut().in_flight = Some(self.progress.enter());
        let result = tokio::select! {
            biased;
            result = self.exchange(&due.body, &mut answer) => result,
            () = self.stop.when_cut() => Err(Fault::new(Failure::Cancelled, "stopped by the user")),
        };
        let now = self.clock.now();
        let (result, closed, connection) = match result {
            Ok((closed, connection)) => (Ok(()), closed.unwrap_or(now), connection),
            Err(fault) => {
                let message = self.config.target.clean(&fault.message);
                (Err(Fault { message, ..fault }), now, None)
            }
        };
        if let Some(connection) = connection {
            self.connections.give_back(connection).await;
        }
        self.progress.leave();
        answer.finish(result, closed)
    }

    /// Returns when the answer ended, and the connection if it can be used again.
    async fn exchange(
        &self,
        body: &Bytes,
        answer: &mut Answer,
    ) -> Result<(Option<Nanos>, Option<Connection>), Fault> {
        let mut may_send_again = self.config.reconnect_stale;
        loop {
            let mut connection = self.connection(answer).await?;
            answer.on_connection(connection.stamps.clone(), connection.reused);
            match self.ask(&mut connection, body.clone(), answer).await {
                Ok(End { closed, reusable }) => {
                    return Ok((closed, reusable.then_some(connection)));
                }
                Err(fault) if may_send_again && fault.class == Failure::ConnectionReusedClosed => {
                    may_send_again = false;
                    self.reconnected.set(self.reconnected.get() + 1);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    async fn connection(&self, answer: &mut Answer) -> Result<Connection, Fault> {
        if let Some(connection) = self.connections.take_idle() {
            return Ok(connection);
        }
        let at = &mut answer.outcome_mut().at;
        let limit = self.config.limits.connect;
        if let Ok(opened) = timeout(limit.to_duration(), self.connections.open(at)).await {
            return opened;
        }
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
        answer: &mut Answer,
    ) -> Result<End, Fault> {
        let stamps = connection.stamps.clone();
        let begun = Wait { since: self.clock.now(), last_read: None };
        let sent = connection.sender.send_request(self.request(body));
        let response = self.within(begun, answer, sent).await?.map_err(|error| {
            let untouched = connection.reused && stamps.first_read().is_none();
            Fault::before_headers(&error, untouched)
        })?;
        answer.headers(response.status().as_u16(), stamps.last_read());
        if let Some(fault) = refusal(&response) {
            return Err(self.with_words(fault, response, begun, answer).await);
        }
        let mut body = response.into_body();
        loop {
            let wait = Wait { last_read: stamps.last_read(), ..begun };
            let frame = match self.within(wait, answer, body.frame()).await {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                // The server ended the stream, but not the body; the answer itself is complete.
                Err(fault) => match answer.done_marker() {
                    Some(done) => return End::broken(answer.judge(), Some(done)),
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
                    return End::broken(answer.broke_off(Fault::in_body(&error)), stamps.end());
                }
            }
        }
        answer.judge()?;
        Ok(End { closed: stamps.end(), reusable: true })
    }

    fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(self.config.target.path().clone());
        *request.headers_mut() = self.config.target.headers().clone();
        request
    }

    /// Adds the server's own words to the fault of a response that is no stream.
    async fn with_words(
        &self,
        fault: Fault,
        response: Response<Incoming>,
        begun: Wait,
        answer: &Answer,
    ) -> Fault {
        let mut body = response.into_body();
        let mut text = Vec::new();
        while text.len() < MAX_ERROR_BODY {
            // Only the words are lost when they do not come: the class is known.
            let Ok(Some(Ok(frame))) = self.within(begun, answer, body.frame()).await else { break };
            text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
        text.truncate(MAX_ERROR_BODY);
        let words = error_message(&text);
        let in_error_object = fault.class == Failure::Protocol && words.is_some();
        let class = if in_error_object { Failure::StreamError } else { fault.class };
        // Other JSON may repeat the prompt; a page that is not JSON is the server's own.
        let words = words.or_else(|| {
            let own = !text.is_empty() && !text.trim_ascii_start().starts_with(b"{");
            own.then(|| String::from_utf8_lossy(&text).into_owned())
        });
        let message = match words {
            Some(words) => format!("{}: {words}", fault.message),
            None => fault.message,
        };
        Fault { class, message }
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
        timeout(left.to_duration(), work).await.map_err(|_| {
            let what = match class {
                Failure::HeadersTimeout => "no headers",
                Failure::FirstTokenTimeout => "no generated text",
                Failure::IdleTimeout => "no further bytes",
                _ => "no end",
            };
            Fault::new(class, format!("{what} within {}", seconds(limit)))
        })
    }

    fn nearest(&self, wait: Wait, answer: &Answer) -> (Nanos, Failure, Nanos) {
        let limits = &self.config.limits;
        let total = (wait.since.plus(limits.total), Failure::TotalTimeout, limits.total);
        let next = if answer.has_text() {
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
            let to = to.map_or(String::new(), |to| format!(", redirect to `{to}`"));
            let message = format!("HTTP {status}{to} is not followed");
            return Some(Fault::new(Failure::Protocol, message));
        }
    };
    Some(Fault::new(class, format!("HTTP {status}")))
}

/// How an answer ended well.
struct End {
    closed: Option<Nanos>,
    reusable: bool,
}

impl End {
    /// Returns the end of an answer whose connection cannot be used again.
    fn broken(verdict: Result<(), Fault>, closed: Option<Nanos>) -> Result<Self, Fault> {
        verdict.map(|()| Self { closed, reusable: false })
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
