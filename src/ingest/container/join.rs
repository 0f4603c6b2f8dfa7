//! Records of text that span lines, and lines that container runtimes split.
//!
//! Chunks in, chunks of whole records out. Docker and CRI cut lines of more than 16 KiB; the parts
//! are joined by stream, and stand where the first one stood. Of text, the adapter says of each line whether it goes on with
//! the record before it; envelopes are removed first, so that this works inside them too. The
//! record that may still go on is held back until a line shows that it does not.

use super::super::chunk::{self, Chunk, Chunks, Piece, Place, Plan};
use super::super::envelope::{self, Layer, RuntimeLine};
use super::super::error::IngestError;
use super::super::format::Adapter;
use super::super::lines::too_long;
use super::super::loose::FieldError;
use std::borrow::Cow;

/// Chunks whose records of text are whole.
pub struct Joined<'p> {
    inner: Box<dyn Chunks + 'p>,
    plan: Plan,
    adapter: &'p dyn Adapter,
    held: Option<Held>,
}

/// A record that may go on.
struct Held {
    place: Place,
    text: String,
    is_too_long: bool,
}

impl Held {
    fn finish(self, limit: usize) -> Result<String, FieldError> {
        if self.is_too_long { Err(too_long(limit)) } else { Ok(self.text) }
    }
}

impl std::fmt::Debug for Joined<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<'p> Joined<'p> {
    /// Joins the lines of `inner` as `adapter` says.
    pub fn new(inner: Box<dyn Chunks + 'p>, plan: Plan, adapter: &'p dyn Adapter) -> Self {
        Self { inner, plan, adapter, held: None }
    }

    fn take(&mut self, place: Place, text: Result<&str, FieldError>, pieces: &mut Vec<Piece>) {
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.let_go(pieces);
                pieces.push(Piece { line: place.line, byte: place.byte, text: Err(error) });
                return;
            }
        };
        let text = self.plan.unwrap(text);
        if let Some(held) = &mut self.held
            && self.adapter.continues(&held.text, &text)
        {
            if held.text.len() + text.len() >= self.plan.limit {
                held.is_too_long = true;
            } else {
                held.text.push('\n');
                held.text.push_str(&text);
            }
            return;
        }
        self.let_go(pieces);
        if !text.trim_start().is_empty() {
            self.held = Some(Held { place, text: text.into_owned(), is_too_long: false });
        }
    }

    /// Hands on what is held back.
    fn let_go(&mut self, pieces: &mut Vec<Piece>) {
        let Some(held) = self.held.take() else { return };
        let (place, text) = (held.place, held.finish(self.plan.limit));
        pieces.push(Piece { line: place.line, byte: place.byte, text });
    }
}

impl Chunks for Joined<'_> {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, IngestError> {
        let mut pieces = Vec::new();
        while pieces.is_empty() {
            match self.inner.next_chunk()? {
                Some(Chunk::Lines { bytes, line, byte }) => {
                    let limit = self.plan.limit;
                    chunk::for_each_line((&bytes, line, byte), limit, &mut |place, text| {
                        self.take(place, text, &mut pieces);
                    });
                }
                Some(Chunk::Records(records)) => {
                    for record in records {
                        let place = Place { line: record.line, byte: record.byte };
                        let text = record.text.as_deref().map_err(Clone::clone);
                        self.take(place, text, &mut pieces);
                    }
                }
                Some(rows @ Chunk::Rows { .. }) => return Ok(Some(rows)),
                None => {
                    self.let_go(&mut pieces);
                    break;
                }
            }
        }
        Ok((!pieces.is_empty()).then_some(Chunk::Records(pieces)))
    }

    fn lines(&self) -> u64 {
        self.inner.lines()
    }
}

/// Chunks whose lines are whole: container runtimes split long ones.
pub struct Parts<'p> {
    inner: Box<dyn Chunks + 'p>,
    layer: Layer,
    limit: usize,
    /// Lines that go on, by stream; at most two, since no other streams are continued.
    open: Vec<(String, Held)>,
}

impl std::fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("layer", &self.layer).finish_non_exhaustive()
    }
}

/// What a runtime says of a line.
struct Part<'t> {
    stream: &'t str,
    goes_on: bool,
    text: Cow<'t, str>,
}

impl<'p> Parts<'p> {
    /// Joins the lines of `inner` that a runtime split; `layer` is its envelope.
    pub fn new(inner: Box<dyn Chunks + 'p>, layer: Layer, limit: usize) -> Self {
        Self { inner, layer, limit, open: Vec::new() }
    }

    /// Returns what a runtime says of a line of one of the two streams it knows.
    fn runtime_line<'t>(&self, line: &'t str) -> Option<RuntimeLine<'t>> {
        let line = match self.layer {
            Layer::Cri => envelope::cri(line),
            _ => envelope::docker(line),
        };
        line.filter(|line| matches!(line.stream, "stdout" | "stderr"))
    }

    /// Returns whether a line goes on in a later one.
    fn goes_on(&self, line: &str) -> bool {
        self.runtime_line(line).is_some_and(|line| line.is_partial)
    }

    fn part<'t>(&self, line: &'t str) -> Option<Part<'t>> {
        let RuntimeLine { stream, is_partial, .. } = self.runtime_line(line)?;
        Some(Part { stream, goes_on: is_partial, text: self.layer.peel(line)? })
    }

    fn take(&mut self, place: Place, line: Result<&str, FieldError>, pieces: &mut Vec<Piece>) {
        let mut give =
            |place: Place, text| pieces.push(Piece { line: place.line, byte: place.byte, text });
        let line = match line {
            Ok(line) => line,
            Err(error) => return give(place, Err(error)),
        };
        let Some(part) = self.part(line) else {
            let text = self.layer.peel(line).unwrap_or(Cow::Borrowed(line));
            return give(place, Ok(text.into_owned()));
        };
        let open = self.open.iter().position(|(stream, _)| stream == part.stream);
        let Some(open) = open else {
            let held = Held { place, text: part.text.into_owned(), is_too_long: false };
            if part.goes_on {
                self.open.push((part.stream.to_owned(), held));
            } else {
                give(place, Ok(held.text));
            }
            return;
        };
        if let Some((_, held)) = self.open.get_mut(open) {
            if held.text.len() + part.text.len() > self.limit {
                held.is_too_long = true;
            } else {
                held.text.push_str(&part.text);
            }
        }
        if !part.goes_on {
            let (_, held) = self.open.remove(open);
            give(held.place, held.finish(self.limit));
        }
    }
}

impl Chunks for Parts<'_> {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, IngestError> {
        loop {
            let mut pieces = Vec::new();
            match self.inner.next_chunk()? {
                Some(Chunk::Lines { bytes, line, byte }) => {
                    let lines = (&*bytes, line, byte);
                    let mut is_split = !self.open.is_empty();
                    chunk::for_each_line(lines, self.limit, &mut |_, text| {
                        is_split |= text.is_ok_and(|text| self.goes_on(text));
                    });
                    if !is_split {
                        return Ok(Some(Chunk::Lines { bytes, line, byte }));
                    }
                    chunk::for_each_line(lines, self.limit, &mut |place, text| {
                        self.take(place, text, &mut pieces);
                    });
                }
                None => {
                    // Cut before their last part: handed on for the decoder to judge.
                    for (_, held) in std::mem::take(&mut self.open) {
                        let (place, text) = (held.place, held.finish(self.limit));
                        pieces.push(Piece { line: place.line, byte: place.byte, text });
                    }
                    return Ok((!pieces.is_empty()).then_some(Chunk::Records(pieces)));
                }
                other => return Ok(other),
            }
            if !pieces.is_empty() {
                return Ok(Some(Chunk::Records(pieces)));
            }
        }
    }

    fn lines(&self) -> u64 {
        self.inner.lines()
    }
}
