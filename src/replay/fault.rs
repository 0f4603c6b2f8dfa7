//! What befell one request: a class of [`Failure`] and a message, from the errors of the layers.

use crate::domain::outcome::Failure;
use rustix::io::Errno;
use std::error::Error;
use std::io;

/// Why one request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The class.
    pub(super) class: Failure,
    /// The words; masked and cut later.
    pub(super) message: String,
}

impl Fault {
    /// Returns a fault of `class`.
    pub(super) fn new(class: Failure, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }
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
