//! A socket that notes when bytes pass: a TCP or TLS stream → the same stream, with [`Stamps`].
//!
//! Instants are taken around the read and write calls, before any byte is parsed. Over TLS the
//! wrapper sits on the clear text, so session tickets that the server sends after the handshake
//! do not pass for the answer's first byte. One connection lives on one thread, so the stamps are
//! plain cells: no lock and no atomic in the path of a chunk.

use super::clock::RunClock;
use crate::domain::time::Nanos;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// When the current request's bytes passed the socket.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    first_write: Cell<Option<Nanos>>,
    last_write: Cell<Option<Nanos>>,
    first_read: Cell<Option<Nanos>>,
    last_read: Cell<Option<Nanos>>,
    reads: Cell<u64>,
    ended: Cell<Option<Nanos>>,
}

impl Stamps {
    /// Forgets everything: the next request begins.
    pub(super) fn reset(&self) {
        self.first_write.set(None);
        self.last_write.set(None);
        self.first_read.set(None);
        self.last_read.set(None);
        self.reads.set(0);
        self.ended.set(None);
    }

    /// Returns when the first byte was handed to the socket.
    pub(super) fn first_write(&self) -> Option<Nanos> {
        self.first_write.get()
    }

    /// Returns when the socket had taken the last byte written so far.
    pub(super) fn last_write(&self) -> Option<Nanos> {
        self.last_write.get()
    }

    /// Returns when the first bytes were read.
    pub(super) fn first_read(&self) -> Option<Nanos> {
        self.first_read.get()
    }

    /// Returns when the latest bytes were read.
    pub(super) fn last_read(&self) -> Option<Nanos> {
        self.last_read.get()
    }

    /// Returns when the answer was over: the end of the connection, or else the latest read.
    pub(super) fn end(&self) -> Option<Nanos> {
        self.ended.get().or(self.last_read.get())
    }

    /// Returns how many reads brought bytes; it also names the latest one.
    pub(super) fn reads(&self) -> u64 {
        self.reads.get()
    }

    fn wrote(&self, before: Nanos, after: Nanos) {
        if self.first_write.get().is_none() {
            self.first_write.set(Some(before));
        }
        self.last_write.set(Some(after));
    }

    fn read(&self, at: Nanos) {
        if self.first_read.get().is_none() {
            self.first_read.set(Some(at));
        }
        self.last_read.set(Some(at));
        self.reads.set(self.reads.get() + 1);
    }
}

/// A connection to the target.
#[derive(Debug)]
pub(super) enum Stream {
    /// `http://`.
    Plain(TcpStream),
    /// `https://`.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A [`Stream`] that keeps [`Stamps`].
#[derive(Debug)]
pub(super) struct TimedIo {
    stream: Stream,
    clock: RunClock,
    stamps: Rc<Stamps>,
}

impl TimedIo {
    /// Wraps a connected stream.
    pub(super) const fn new(stream: Stream, clock: RunClock, stamps: Rc<Stamps>) -> Self {
        Self { stream, clock, stamps }
    }

    fn note_write(&self, before: Nanos, written: &io::Result<usize>) {
        if written.as_ref().is_ok_and(|bytes| *bytes > 0) {
            self.stamps.wrote(before, self.clock.now());
        }
    }
}

impl AsyncRead for TimedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let had = buf.filled().len();
        let done = ready!(match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        });
        if buf.filled().len() > had {
            self.stamps.read(self.clock.now());
        } else {
            self.stamps.ended.set(Some(self.clock.now()));
        }
        Poll::Ready(done)
    }
}

impl AsyncWrite for TimedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let before = self.clock.now();
        let written = ready!(match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        });
        self.note_write(before, &written);
        Poll::Ready(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let before = self.clock.now();
        let written = ready!(match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        });
        self.note_write(before, &written);
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
