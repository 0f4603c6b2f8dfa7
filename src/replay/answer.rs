//! The record of one request: stamps and events in → one [`RequestOutcome`] out.
//!
//! Owned by the request's task. Instants of first things are written once; the caller gives the
//! instant of the socket read that brought the bytes. Decides what an ended stream is: complete,
//! truncated, empty, or no stream at all. Reads no clock and does no I/O.

use super::api::{Api, Chunk};
use super::fault::Fault;
use super::sse::{SseEvent, SseParser};
use super::timed_io::Stamps;
use crate::domain::convert;
use crate::domain::outcome::{Failure, RequestOutcome, UsageSource};
use crate::domain::schedule::ScheduledRequest;
use crate::domain::time::Nanos;
use std::ops::ControlFlow;
use std::rc::Rc;

/// The most chunks with text of one answer; more are a fault that names this limit.
pub const MAX_CHUNKS: usize = 1_000_000;

/// The record of one request in flight.
#[derive(Debug)]
pub(super) struct Answer {
    parser: SseParser,
    story: Story,
    stamps: Option<Rc<Stamps>>,
    /// When the request left for the first time, if it was sent again.
    first_sent: Option<Nanos>,
}

/// What the events told so far.
#[derive(Debug)]
struct Story {
    outcome: RequestOutcome,
    events: u64,
    bytes: u64,
    /// The latest read with text and the text it brought.
    read: u64,
    read_text_bytes: u64,
    fault: Option<Fault>,
}

impl Answer {
    /// Begins the record of a request that the dispatcher let go at `dispatched`.
    pub(super) fn new(request: &ScheduledRequest, dispatched: Nanos) -> Self {
        let mut outcome = RequestOutcome::planned(request);
        outcome.at.dispatched = Some(dispatched);
        let story =
            Story { outcome, events: 0, bytes: 0, read: 0, read_text_bytes: 0, fault: None };
        Self { parser: SseParser::default(), story, stamps: None, first_sent: None }
    }

    /// Returns the outcome, for what the connection knows.
    pub(super) const fn outcome_mut(&mut self) -> &mut RequestOutcome {
        &mut self.story.outcome
    }

    /// Notes the connection whose stamps belong to this request.
    pub(super) fn on_connection(&mut self, stamps: Rc<Stamps>, reused: bool) {
        self.stamps = Some(stamps);
        self.story.outcome.connection_reused = Some(reused);
    }

    /// Notes that the request will leave once more; the send that counts stays the first one.
    pub(super) fn send_again(&mut self) {
        let sent = self.stamps.as_ref().and_then(|stamps| stamps.first_write());
        self.first_sent = self.first_sent.or(sent);
    }

    /// Notes status and headers.
    pub(super) fn headers(&mut self, status: u16, at: Option<Nanos>) {
        self.story.outcome.http_status_code = Some(status);
        self.story.outcome.at.headers = at;
    }

    /// Returns whether headers have come.
    pub(super) const fn has_headers(&self) -> bool {
        self.story.outcome.http_status_code.is_some()
    }

    /// Returns whether generated text has come.
    pub(super) const fn has_text(&self) -> bool {
        self.story.outcome.at.first_text.is_some()
    }

    /// Returns when the end marker came.
    pub(super) const fn done_marker(&self) -> Option<Nanos> {
        self.story.outcome.at.done_marker
    }

    /// Takes the bytes of the body that read number `read` brought at `at`.
    pub(super) fn feed(
        &mut self,
        api: Api,
        bytes: &[u8],
        (read, at): (u64, Nanos),
    ) -> Result<(), Fault> {
        let Self { parser, story, .. } = self;
        story.bytes += convert::count(bytes.len());
        if story.read != read {
            story.read = read;
            story.read_text_bytes = 0;
        }
        let fed = parser.feed(bytes, |event| story.event(api, event, at));
        fed.map_err(|error| Fault::new(Failure::Protocol, error.to_string()))?;
        story.fault.take().map_or(Ok(()), Err)
    }

    /// Returns what the outcome will hold as the number of requests in flight.
    pub(super) const fn in_flight(&self) -> Option<u32> {
        self.story.outcome.in_flight
    }

    /// Judges a body that broke off: complete if the server had said so, else `fault`.
    pub(super) fn broke_off(&self, fault: Fault) -> Result<(), Fault> {
        if self.story.said_end() { self.judge() } else { Err(fault) }
    }

    /// Judges a body that came to its end.
    pub(super) fn judge(&self) -> Result<(), Fault> {
        let story = &self.story;
        if story.bytes > 0 && story.events == 0 {
            let message = format!("{} bytes, but no event of a stream", story.bytes);
            return Err(Fault::new(Failure::Protocol, message));
        }
        if !story.said_end() {
            let message = format!(
                "the stream ended after {} events without finish reason and end marker",
                story.events
            );
            return Err(Fault::new(Failure::Truncated, message));
        }
        if !self.has_text() {
            return Err(Fault::new(Failure::Empty, "a complete answer without generated text"));
        }
        Ok(())
    }

    /// Closes the record at `closed`, with the stamps of the connection.
    pub(super) fn finish(mut self, result: Result<(), Fault>, closed: Nanos) -> RequestOutcome {
        let outcome = &mut self.story.outcome;
        if let Some(stamps) = &self.stamps {
            outcome.at.sent = self.first_sent.or(stamps.first_write());
            outcome.at.request_written = stamps.last_write();
            outcome.at.first_byte = stamps.first_read();
        }
        outcome.was_sent = outcome.at.sent.is_some();
        outcome.at.closed = Some(closed);
        if let Err(fault) = result {
            outcome.failure = Some(fault.class);
            outcome.failure_message = Some(fault.message);
        }
        self.story.outcome
    }
}

impl Story {
    fn said_end(&self) -> bool {
        self.outcome.at.done_marker.is_some() || self.outcome.finish_reason.is_some()
    }

    fn event(&mut self, api: Api, event: SseEvent<'_>, at: Nanos) -> ControlFlow<()> {
        let data = event.data.trim_ascii();
        if data.is_empty() {
            return ControlFlow::Continue(());
        }
        self.events += 1;
        self.outcome.at.first_event.get_or_insert(at);
        if data == b"[DONE]" {
            self.outcome.at.done_marker.get_or_insert(at);
            return ControlFlow::Continue(());
        }
        let fault = match api.read(data) {
            Err(column) => Fault::new(
                Failure::Protocol,
                format!("event {}: column {column} is not of a {api} chunk", self.events),
            ),
            Ok(Chunk { error: Some(words), .. }) => {
                Fault::explained(Failure::StreamError, "", words)
            }
            Ok(_) if event.name == b"error" => {
                Fault::new(Failure::StreamError, "an `error` event without a message")
            }
            Ok(chunk) => match self.chunk(chunk, at) {
                Ok(()) => return ControlFlow::Continue(()),
                Err(fault) => fault,
            },
        };
        self.fault = Some(fault);
        ControlFlow::Break(())
    }

    fn chunk(&mut self, chunk: Chunk, at: Nanos) -> Result<(), Fault> {
        let text_bytes = chunk.text_bytes();
        let outcome = &mut self.outcome;
        if let Some(usage) = chunk.usage {
            outcome.usage_source = Some(UsageSource::Server);
            outcome.input_tokens = usage.input.or(outcome.input_tokens);
            outcome.cached_input_tokens = usage.cached_input.or(outcome.cached_input_tokens);
            outcome.output_tokens = usage.output.or(outcome.output_tokens);
            outcome.reasoning_tokens = usage.reasoning.or(outcome.reasoning_tokens);
        }
        if chunk.finish_reason.is_some() {
            outcome.finish_reason = chunk.finish_reason;
        }
        if text_bytes == 0 {
            return Ok(());
        }
        if outcome.chunks.len() >= MAX_CHUNKS {
            let message = format!("more than {MAX_CHUNKS} chunks (the limit of one answer)");
            return Err(Fault::new(Failure::Protocol, message));
        }
        let first = |instant: &mut Option<Nanos>, bytes: u64| {
            if bytes > 0 {
                instant.get_or_insert(at);
            }
        };
        first(&mut outcome.at.first_reasoning, chunk.reasoning_bytes);
        first(&mut outcome.at.first_content, chunk.content_bytes);
        first(&mut outcome.at.first_tool, chunk.tool_bytes);
        first(&mut outcome.at.first_text, text_bytes);
        outcome.at.last_text = Some(at);
        outcome.chunks.push(at);
        outcome.text_bytes += text_bytes;
        self.read_text_bytes += text_bytes;
        outcome.largest_read_text_bytes = outcome.largest_read_text_bytes.max(self.read_text_bytes);
        Ok(())
    }
}

/// Returns the outcome of a planned request that was never sent.
pub(super) fn unsent(request: &ScheduledRequest) -> RequestOutcome {
    RequestOutcome { failure: Some(Failure::Cancelled), ..RequestOutcome::planned(request) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::testing::request;

    fn answer(events: &[(u64, &str)]) -> (Answer, Result<(), Fault>) {
        let mut answer = Answer::new(&request(3, 100), Nanos(101));
        answer.headers(200, Some(Nanos(200)));
        for (at, data) in events {
            let bytes = format!("data: {data}\n\n");
            if let Err(fault) = answer.feed(Api::Chat, bytes.as_bytes(), (*at, Nanos(*at))) {
                return (answer, Err(fault));
            }
        }
        let verdict = answer.judge();
        (answer, verdict)
    }

    fn class(events: &[(u64, &str)]) -> Option<Failure> {
        answer(events).1.err().map(|fault| fault.class)
    }

    const ROLE: &str = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
    const THINK: &str = r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#;
    const TEXT: &str = r#"{"choices":[{"delta":{"content":"hi"}}]}"#;
    const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}"#;

    #[test]
    fn first_things_are_stamped_once_and_by_text_alone() {
        let (answer, verdict) = answer(&[
            (5, ROLE),
            (210, THINK),
            (220, TEXT),
            (230, TEXT),
            (240, STOP),
            (250, USAGE),
            (250, "[DONE]"),
        ]);
        assert_eq!(verdict, Ok(()));
        let outcome = answer.finish(verdict, Nanos(260));
        let at = &outcome.at;
        assert_eq!(at.first_event, Some(Nanos(5)));
        assert_eq!(at.first_text, Some(Nanos(210)));
        assert_eq!(at.first_reasoning, Some(Nanos(210)));
        assert_eq!(at.first_content, Some(Nanos(220)));
        assert_eq!(at.last_text, Some(Nanos(230)));
        assert_eq!(at.done_marker, Some(Nanos(250)));
        assert_eq!(at.closed, Some(Nanos(260)));
        assert_eq!(outcome.chunks, [210, 220, 230].map(Nanos));
        assert_eq!((outcome.input_tokens, outcome.output_tokens), (Some(5), Some(3)));
        assert_eq!(outcome.finish_reason.as_deref(), Some("stop"));
        assert_eq!((outcome.text_bytes, outcome.largest_read_text_bytes), (6, 2));
    }

    #[test]
    fn text_of_one_read_adds_up() {
        let mut answer = Answer::new(&request(0, 0), Nanos(1));
        let burst = format!("data: {TEXT}\n\ndata: {TEXT}\n\n");
        answer.feed(Api::Chat, burst.as_bytes(), (1, Nanos(9))).unwrap();
        answer.feed(Api::Chat, burst.as_bytes(), (1, Nanos(9))).unwrap();
        answer.feed(Api::Chat, burst.as_bytes(), (2, Nanos(10))).unwrap();
        assert_eq!(answer.outcome_mut().largest_read_text_bytes, 8);
        assert_eq!(answer.outcome_mut().chunks.len(), 6);
    }

    #[test]
    fn how_a_stream_may_end() {
        assert_eq!(class(&[(1, TEXT), (2, STOP)]), None);
        assert_eq!(class(&[(1, TEXT), (2, "[DONE]")]), None);
        assert_eq!(class(&[(1, TEXT)]), Some(Failure::Truncated));
        let unsaid = r#"{"choices":[{"delta":{},"finish_reason":""}]}"#;
        assert_eq!(class(&[(1, TEXT), (2, unsaid)]), Some(Failure::Truncated));
        assert_eq!(class(&[]), Some(Failure::Truncated));
        assert_eq!(class(&[(1, ROLE), (2, STOP), (3, USAGE), (4, "[DONE]")]), Some(Failure::Empty));
        assert_eq!(class(&[(1, "[DONE]")]), Some(Failure::Empty));
        let error = r#"{"error":{"message":"out of memory"}}"#;
        assert_eq!(class(&[(1, TEXT), (2, error)]), Some(Failure::StreamError));
        assert_eq!(class(&[(1, "hello")]), Some(Failure::Protocol));
    }

    #[test]
    fn bytes_without_events_are_no_stream() {
        let mut answer = Answer::new(&request(0, 0), Nanos(1));
        answer.feed(Api::Chat, b"<html>hello</html>\n\n", (1, Nanos(2))).unwrap();
        assert_eq!(answer.judge().unwrap_err().class, Failure::Protocol);
    }

    #[test]
    fn a_break_after_the_end_marker_is_no_fault() {
        let cut = Fault::new(Failure::Truncated, "reset");
        assert_eq!(answer(&[(1, TEXT), (2, STOP)]).0.broke_off(cut.clone()), Ok(()));
        assert_eq!(answer(&[(1, TEXT)]).0.broke_off(cut.clone()), Err(cut));
    }

    #[test]
    fn messages() {
        let words = |events: &[(u64, &str)]| answer(events).1.unwrap_err().message;
        insta::assert_snapshot!(words(&[(1, TEXT)]), @"the stream ended after 1 events without finish reason and end marker");
        insta::assert_snapshot!(words(&[(1, STOP)]), @"a complete answer without generated text");
        insta::assert_snapshot!(words(&[(1, TEXT), (2, "secret text")]), @"event 2: column 1 is not of a chat chunk");
    }

    #[test]
    fn an_unsent_request_keeps_its_plan() {
        let outcome = unsent(&request(3, 100));
        assert_eq!(outcome.request_id, 3);
        assert_eq!(outcome.at.scheduled, Some(Nanos(100)));
        assert_eq!(outcome.failure, Some(Failure::Cancelled));
        assert!(!outcome.was_sent && outcome.at.dispatched.is_none());
    }
}
