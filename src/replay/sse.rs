//! Server-sent events, without I/O: bytes in, cut anywhere → events out.
//!
//! Follows the WHATWG rules ("Server-sent events", section "Interpreting an event stream"): lines
//! end with LF, CRLF or CR; a byte order mark at the start is skipped; a colon starts a comment;
//! several `data` lines join with LF; at most one space after the colon is dropped; a block without
//! `data` is no event; an event that the end of the stream cuts off is none either. Bytes are only
//! split at line ends, so a character cut by the network arrives whole. Takes no instants: the
//! caller knows when the bytes were read.

use std::ops::ControlFlow;

/// The most bytes one event may have (data of all its lines, or one line).
pub const MAX_EVENT_BYTES: usize = 4 << 20;

const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// One event with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The event's name; empty when the server gave none.
    pub name: &'a [u8],
    /// Its data, lines joined with LF.
    pub data: &'a [u8],
}

/// An event grew beyond [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event stream: an event of more than {MAX_EVENT_BYTES} bytes (the limit of one event)")]
pub struct EventTooLong;

/// The state between two reads of a stream.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The bytes of a line whose end has not come yet.
    line: Vec<u8>,
    data: Vec<u8>,
    name: Vec<u8>,
    has_data: bool,
    /// The last byte was a CR: an LF right after it belongs to it.
    after_cr: bool,
    /// Bytes of a byte order mark seen at the very start; `None` once past the start.
    started: bool,
    mark_bytes: usize,
}

impl SseParser {
    /// Reads the next bytes and hands each completed event to `on_event`, until it breaks.
    ///
    /// # Errors
    ///
    /// [`EventTooLong`] when an event passes [`MAX_EVENT_BYTES`].
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(SseEvent<'_>) -> ControlFlow<()>,
    ) -> Result<(), EventTooLong> {
        let mut rest = self.skip_mark(bytes);
        loop {
            if self.after_cr && !rest.is_empty() {
                self.after_cr = false;
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else { break };
            let (head, tail) = rest.split_at(end);
            self.after_cr = tail.first() == Some(&b'\r');
            rest = tail.get(1..).unwrap_or_default();
            if self.end_line(head)? && self.dispatch(&mut on_event).is_break() {
                return Ok(());
            }
        }
        if self.line.len().saturating_add(rest.len()) > MAX_EVENT_BYTES {
            return Err(EventTooLong);
        }
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// Drops a byte order mark at the start of the stream, also one that comes byte by byte.
    fn skip_mark<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        while !self.started {
            let Some(first) = rest.first() else { return rest };
            if BYTE_ORDER_MARK.get(self.mark_bytes) == Some(first) {
                self.mark_bytes += 1;
                rest = rest.get(1..).unwrap_or_default();
                self.started = self.mark_bytes == BYTE_ORDER_MARK.len();
            } else {
                // No mark after all: what looked like one is the start of the first line.
                let seen = BYTE_ORDER_MARK.get(..self.mark_bytes).unwrap_or_default();
                self.line.extend_from_slice(seen);
                self.started = true;
            }
        }
        rest
    }

    /// Takes a whole line; returns whether it was empty, which ends an event.
    fn end_line(&mut self, head: &[u8]) -> Result<bool, EventTooLong> {
        if self.line.is_empty() {
            return self.field(head);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(head);
        let blank = self.field(&line);
        line.clear();
        self.line = line;
        blank
    }

    fn field(&mut self, line: &[u8]) -> Result<bool, EventTooLong> {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => {
                let (name, value) = line.split_at(colon);
                let value = value.get(1..).unwrap_or_default();
                (name, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match name {
            b"data" => {
                if self.data.len().saturating_add(value.len()) >= MAX_EVENT_BYTES {
                    return Err(EventTooLong);
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // Comments have an empty name; `id` and `retry` are for clients that reconnect.
            _ => {}
        }
        Ok(line.is_empty())
    }

    fn dispatch(
        &mut self,
        on_event: &mut impl FnMut(SseEvent<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let flow = if self.has_data {
            on_event(SseEvent { name: &self.name, data: &self.data })
        } else {
            ControlFlow::Continue(())
        };
        self.has_data = false;
        self.data.clear();
        self.name.clear();
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Event = (String, String);

    fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser
                .feed(piece, |event| {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
                    events.push((text(event.name), text(event.data)));
                    ControlFlow::Continue(())
                })
                .expect("short events");
        }
        events
    }

    fn data(stream: &str) -> Vec<String> {
        parse([stream.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn the_rules_one_by_one() {
        for (stream, events) in [
            ("", vec![]),
            ("data: a\n\n", vec!["a"]),
            ("data:a\n\n", vec!["a"]),
            ("data:  a\n\n", vec![" a"]),
            ("data: a\ndata: b\n\n", vec!["a\nb"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec!["a", "b"]),
            ("data: a\r\rdata: b\r\r", vec!["a", "b"]),
            ("\u{feff}data: a\n\n", vec!["a"]),
            ("\u{feff}\u{feff}data: a\n\n", vec![]),
            (": ping\n\n: ping\n\ndata: a\n\n", vec!["a"]),
            ("retry: 3000\n\nid: 7\n\n", vec![]),
            ("data\n\n", vec![""]),
            ("data:\n\n", vec![""]),
            ("data\ndata\n\n", vec!["\n"]),
            ("other: a\nDATA: b\n\n", vec![]),
            ("data: a: b\n\n", vec!["a: b"]),
            // The end of the stream cuts an event off: it is none.
            ("data: a\n\ndata: b\n", vec!["a"]),
            ("\n\n\ndata: a\n\n\n\n", vec!["a"]),
        ] {
            assert_eq!(data(stream), events, "{stream:?}");
        }
    }

    #[test]
    fn the_name_belongs_to_one_event() {
        let events = parse([&b"event: error\ndata: a\n\ndata: b\n\n"[..]]);
        assert_eq!(events, [("error".into(), "a".into()), (String::new(), "b".into())]);
        // A block without data is dropped with its name.
        assert_eq!(parse([&b"event: x\n\ndata: b\n\n"[..]]), [(String::new(), "b".into())]);
    }

    #[test]
    fn a_lone_cr_ends_the_event_at_once() {
        // The event must not wait for the byte after the CR, which may come a token later.
        assert_eq!(parse([&b"data: a\r\r"[..]]).len(), 1);
        assert_eq!(parse([&b"data: a\r\n\r"[..], &b"\ndata: b\r\n\r"[..]]).len(), 2);
    }

    #[test]
    fn the_caller_can_stop() {
        let mut seen = 0;
        let flow = |_: SseEvent<'_>| {
            seen += 1;
            ControlFlow::Break(())
        };
        SseParser::default().feed(b"data: a\n\ndata: b\n\n", flow).expect("short events");
        assert_eq!(seen, 1);
    }

    #[test]
    fn an_endless_event_is_an_error_that_names_the_limit() {
        let piece = vec![b'x'; 1 << 20];
        let mut parser = SseParser::default();
        let ignore = |_: SseEvent<'_>| ControlFlow::Continue(());
        let mut fed = 0;
        let error = loop {
            fed += piece.len();
            if let Err(error) = parser.feed(&piece, ignore) {
                break error;
            }
            assert!(fed <= MAX_EVENT_BYTES, "no limit on a line");
        };
        insta::assert_snapshot!(error, @"event stream: an event of more than 4194304 bytes (the limit of one event)");

        let mut parser = SseParser::default();
        let line = [&b"data: "[..], &piece, b"\n"].concat();
        let failed = (0..6).any(|_| parser.feed(&line, ignore).is_err());
        assert!(failed, "no limit on many lines");
    }

    /// Streams of blocks in all line endings, with text of several bytes a character.
    fn streams() -> impl Strategy<Value = (String, String)> {
        let line = prop_oneof![
            "data: ?[a-zé中😀:]{0,8}",
            ":[a-z中]{0,5}",
            Just("event: e".to_owned()),
            Just("retry: 1".to_owned()),
            Just("data".to_owned()),
            Just(String::new()),
        ];
        let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
        (proptest::collection::vec(line, 0..12), end).prop_map(|(lines, end)| {
            let join = |end: &'static str| -> String {
                lines.iter().flat_map(|line| [line.as_str(), end]).collect()
            };
            (join("\n"), join(end))
        })
    }

    proptest! {
        #[test]
        fn events_depend_neither_on_cuts_nor_on_line_ends((plain, ended) in streams()) {
            let whole = parse([plain.as_bytes()]);
            prop_assert_eq!(&parse([ended.as_bytes()]), &whole);
            for cut in 0..=ended.len() {
                let (a, b) = ended.as_bytes().split_at(cut);
                prop_assert_eq!(&parse([a, b]), &whole, "cut at {}", cut);
            }
            prop_assert_eq!(&parse(ended.as_bytes().chunks(1)), &whole);
        }
    }
}
