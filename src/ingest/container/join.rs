//! Records of text that span lines.
//!
//! Chunks in, chunks of whole records out. The adapter says of each line whether it goes on with
//! the record before it; envelopes are removed first, so that this works inside them too. The
//! record that may still go on is held back until a line shows that it does not.

use super::super::chunk::{self, Chunk, Chunks, Piece, Place, Plan};
use super::super::error::IngestError;
use super::super::format::Adapter;
use super::super::lines::too_long;
use super::super::loose::FieldError;

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
        let text = if held.is_too_long { Err(too_long(self.plan.limit)) } else { Ok(held.text) };
        pieces.push(Piece { line: held.place.line, byte: held.place.byte, text });
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
