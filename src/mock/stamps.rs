//! The instants of every request, as one JSON line each.
//!
//! A line is written when the answer has ended, in whatever way. Instants are nanoseconds since
//! the mock's start; `origin_monotonic_ns` is that start on `CLOCK_MONOTONIC`, so that another
//! process on the same machine can compare. A chunk's instant is taken just before it is handed
//! to the socket: a client cannot have seen it earlier.

use super::{FaultKind, MockError};
use crate::domain::time::Nanos;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where lines go.
#[derive(Debug)]
pub(super) struct Sink {
    path: PathBuf,
    state: Mutex<(File, Option<io::Error>)>,
}

impl Sink {
    /// Creates the file; an existing one is an error unless `overwrite`.
    pub(super) fn create(path: &Path, overwrite: bool) -> Result<Arc<Self>, MockError> {
        let mut options = OpenOptions::new();
        options.write(true);
        if overwrite {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let file = options
            .open(path)
            .map_err(|source| MockError::Stamps { path: path.to_owned(), source })?;
        Ok(Arc::new(Self { path: path.to_owned(), state: Mutex::new((file, None)) }))
    }

    /// Returns the first error of writing, if there was one. Later ones are the same story.
    pub(super) fn first_error(&self) -> Result<(), MockError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.1.take() {
            Some(source) => Err(MockError::Stamps { path: self.path.clone(), source }),
            None => Ok(()),
        }
    }

    fn write(&self, line: &Line) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = serde_json::to_vec(line).map_err(io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            // One write a line, unbuffered: a reader never waits for a line that has ended.
            state.0.write_all(&bytes)
        });
        if let Err(error) = written {
            state.1.get_or_insert(error);
        }
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    /// Everything was handed over.
    Complete,
    /// The stated fault was carried out.
    Fault,
    /// The request made no sense.
    Refused,
    /// The answer was dropped on the way: the client hung up, or the mock stopped.
    Dropped,
}

/// What is known about one request.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    /// Number of the request, from 0.
    pub(super) request: u64,
    /// `x-request-id` of the request, or the one the mock gave it.
    pub(super) x_request_id: String,
    /// Start of the mock on `CLOCK_MONOTONIC`.
    pub(super) origin_monotonic_ns: u64,
    /// Whether the answer is streamed; null when the request could not be read.
    pub(super) stream: Option<bool>,
    /// The fault chosen for it.
    pub(super) fault: Option<FaultKind>,
    /// HTTP status of the answer; null when it was never sent.
    pub(super) status: Option<u16>,
    /// Stated time from `headers_ns` to the first text; null when no text is meant to come.
    pub(super) stated_ttft_ns: Option<u64>,
    /// Stated time from one text to the next.
    pub(super) stated_tpot_ns: u64,
    /// The request's headers were read.
    pub(super) headers_ns: u64,
    /// The request's body was read.
    pub(super) body_ns: Option<u64>,
    /// The role-only chunk was handed over.
    pub(super) role_ns: Option<u64>,
    /// The first text was handed over.
    pub(super) first_text_ns: Option<u64>,
    /// The last text so far was handed over.
    pub(super) last_text_ns: Option<u64>,
    /// The last byte was handed over.
    pub(super) done_ns: Option<u64>,
    /// Tokens asked for.
    pub(super) planned_tokens: Option<u32>,
    /// Tokens handed over.
    pub(super) sent_tokens: u32,
    /// How it ended.
    pub(super) ended: Ended,
}

/// A line in the making; it is written when it goes out of scope.
#[derive(Debug)]
pub(super) struct Stamp {
    pub(super) line: Line,
    sink: Option<Arc<Sink>>,
}

impl Stamp {
    /// Starts a line; without a sink it is kept up and thrown away.
    pub(super) fn new(line: Line, sink: Option<Arc<Sink>>) -> Self {
        Self { line, sink }
    }

    /// Notes that `tokens` pieces of text are handed over at `now`.
    pub(super) fn text(&mut self, now: Nanos, tokens: u32) {
        self.line.first_text_ns.get_or_insert(now.0);
        self.line.last_text_ns = Some(now.0);
        self.line.sent_tokens += tokens;
    }

    /// Notes the end.
    pub(super) fn end(&mut self, now: Nanos, ended: Ended) {
        self.line.done_ns = Some(now.0);
        self.line.ended = ended;
    }
}

impl Drop for Stamp {
    fn drop(&mut self) {
        if let Some(sink) = &self.sink {
            sink.write(&self.line);
        }
    }
}
