//! What befell one request: a class of [`Failure`] and a message, from the errors of the layers.

use super::echo::repeats;
use crate::domain::outcome::Failure;
use rustix::io::Errno;
use std::error::Error;
use std::io;

/// Stands for a server's words that may not be kept.
const LEFT_OUT: &str = "the server's message repeats the prompt and is left out";

/// Why one request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The class.
    pub(super) class: Failure,
    /// What happened, in this program's or the system's words; masked and cut later.
    pub(super) message: String,
    /// What the server says about it; left out of results when it repeats the prompt.
    pub(super) server_words: Option<String>,
}

impl Fault {
    /// Returns a fault of `class`.
    pub(super) fn new(class: Failure, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), server_words: None }
    }

    /// Returns a fault that the server explains; `message` may be empty.
    pub(super) fn explained(
        class: Failure,
        message: impl Into<String>,
        words: impl Into<Option<String>>,
    ) -> Self {
        Self { server_words: words.into(), ..Self::new(class, message) }
    }

    /// Returns message and server's words as one text; the words are left out when they repeat
    /// the `body` that was sent (but for `model`).
    pub(super) fn text(&self, body: &[u8], model: &str) -> String {
        let Some(words) = &self.server_words else { return self.message.clone() };
        let words = if repeats(words, body, model) { LEFT_OUT } else { words };
        let between = if self.message.is_empty() { "" } else { ": " };
        format!("{}{between}{words}", self.message)
    }

    /// Returns the fault of a system error: `client_resource` when this machine ran out of
    /// something, else `class`.
    pub(super) fn system(error: &io::Error, class: Failure) -> Self {
        let class = if is_resource(error) { Failure::ClientResource } else { class };
        Self::new(class, error.to_string())
    }

    /// Returns the fault of a request whose connection broke before the headers were complete.
    ///
    /// `untouched_reuse` is whether the connection had served a request before and brought no
    /// byte of this answer: then the server had most likely closed it already.
    pub(super) fn before_headers(error: &hyper::Error, untouched_reuse: bool) -> Self {
        let class = if system_cause(error).is_some_and(is_resource) {
            Failure::ClientResource
        } else if error.is_parse() {
            Failure::Protocol
        } else if untouched_reuse {
            Failure::ConnectionReusedClosed
        } else {
            Failure::Truncated
        };
        Self::new(class, chain(error))
    }

    /// Returns the fault of a body that broke off.
    pub(super) fn in_body(error: &hyper::Error) -> Self {
        let class = if error.is_parse() { Failure::Protocol } else { Failure::Truncated };
        Self::new(class, chain(error))
    }
}

/// Returns an error's words with those of its causes.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

fn system_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut source = Some(error);
    while let Some(cause) = source {
        if let Some(system) = cause.downcast_ref::<io::Error>() {
            return Some(system);
        }
        source = cause.source();
    }
    None
}

/// Returns whether this machine ran out of files, ports or memory.
fn is_resource(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_is_the_clients_fault() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS] {
            let fault = Fault::system(&io::Error::from(errno), Failure::Connect);
            assert_eq!(fault.class, Failure::ClientResource, "{errno:?}");
        }
        let refused = io::Error::from(Errno::CONNREFUSED);
        assert_eq!(Fault::system(&refused, Failure::Connect).class, Failure::Connect);
    }
}
