//! Connections to the target: one in use by each request, the idle ones kept for reuse.
//!
//! HTTP/1.1, so a connection carries one request at a time; when none is idle a new one is opened,
//! without any cap of its own. The most recently used idle connection is taken first; those idle
//! for longer than a limit are dropped, since servers close theirs after a few seconds and a
//! request on a dying connection is lost. Opening has instants of its own.

use super::clock::RunClock;
use super::fault::{Fault, chain};
use super::target::Target;
use super::timed_io::{Stamps, Stream, TimedIo};
use super::tls;
use crate::domain::outcome::{Failure, Instants};
use crate::domain::time::Nanos;
use crate::replay::error::ReplayError;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a connection may take to become free after its answer was read in full.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// Sends requests on it.
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// The instants of the current request.
    pub(super) stamps: Rc<Stamps>,
    /// Whether it has served a request before.
    pub(super) reused: bool,
    idle_since: Nanos,
}

/// Opens, keeps and lends connections; lives on the thread of the async runtime.
pub(super) struct Connections {
    addresses: Vec<SocketAddr>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    clock: RunClock,
    reuse_idle: Nanos,
    idle: RefCell<Vec<Connection>>,
    opened: Cell<u64>,
    /// The address that answered last; the others are tried after it.
    preferred: Cell<usize>,
}

impl Connections {
    /// Prepares connections to the addresses of `target`; opens none.
    pub(super) fn new(
        target: &Target,
        addresses: Vec<SocketAddr>,
        clock: RunClock,
        reuse_idle: Nanos,
    ) -> Result<Self, ReplayError> {
        let tls = if target.tls() {
            let host = target.host().to_owned();
            let name = ServerName::try_from(host).map_err(|_| ReplayError::Tls {
                reason: format!("`{}` is no name for a certificate", target.host()),
            })?;
            Some((TlsConnector::from(Arc::new(tls::client_config(true)?)), name))
        } else {
            None
        };
        let (idle, opened, preferred) = Default::default();
        Ok(Self { addresses, tls, clock, reuse_idle, idle, opened, preferred })
    }

    /// Returns how many connections were opened.
    pub(super) fn opened(&self) -> u64 {
        self.opened.get()
    }

    /// Takes the idle connection that was used last, if one is fit.
    pub(super) fn take_idle(&self) -> Option<Connection> {
        let oldest = Nanos(self.clock.now().0.saturating_sub(self.reuse_idle.0));
        let mut idle = self.idle.borrow_mut();
        while let Some(connection) = idle.pop() {
            if connection.idle_since < oldest {
                // Those below it have been idle for longer still.
                idle.clear();
            } else if connection.sender.is_ready() {
                connection.stamps.reset();
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read in full if it is free already; else returns it.
    pub(super) fn keep_if_free(&self, connection: Connection) -> Option<Connection> {
        if !connection.sender.is_ready() {
            return Some(connection);
        }
        self.keep(connection);
        None
    }

    /// Keeps a connection whose answer was read in full, once it is free again.
    pub(super) async fn keep_when_free(&self, mut connection: Connection) {
        let settled = tokio::time::timeout(SETTLE_TIME, connection.sender.ready()).await;
        if matches!(settled, Ok(Ok(()))) {
            self.keep(connection);
        }
    }

    fn keep(&self, mut connection: Connection) {
        connection.reused = true;
        connection.idle_since = self.clock.now();
        self.idle.borrow_mut().push(connection);
    }

    /// Returns the address that the next connection tries first, by its number.
    pub(super) fn preferred(&self) -> usize {
        self.preferred.get()
    }

    /// Lets the next connection begin with another address than this one, which kept silent.
    pub(super) fn pass_over(&self, address: usize) {
        if self.preferred.get() == address {
            self.preferred.set((address + 1) % self.addresses.len().max(1));
        }
    }

    /// Opens a connection and notes its instants.
    pub(super) async fn open(&self, at: &mut Instants) -> Result<Connection, Fault> {
        at.connect_start = Some(self.clock.now());
        let tcp = self.connect().await?;
        at.connected = Some(self.clock.now());
        // Without it, the last part of a large body would wait for the answer to the part before.
        tcp.set_nodelay(true).map_err(|error| Fault::system(&error, Failure::Connect))?;
        let stream = match &self.tls {
            None => Stream::Plain(tcp),
            Some((connector, name)) => {
                let tls = connector.connect(name.clone(), tcp).await.map_err(|error| Fault {
                    message: chain(&error),
                    ..Fault::system(&error, Failure::Tls)
                })?;
                at.tls_done = Some(self.clock.now());
                Stream::Tls(Box::new(tls))
            }
        };
        self.opened.set(self.opened.get() + 1);
        let stamps = Rc::new(Stamps::default());
        let io = TokioIo::new(TimedIo::new(stream, self.clock, Rc::clone(&stamps)));
        let (sender, driver) = http1::handshake(io)
            .await
            .map_err(|error| Fault::new(Failure::Connect, chain(&error)))?;
        // Its error reaches the request in flight, or else nobody is concerned.
        tokio::task::spawn_local(async move { driver.await.ok() });
        Ok(Connection { sender, stamps, reused: false, idle_since: Nanos::ZERO })
    }

    /// Connects to the first address that answers.
    async fn connect(&self) -> Result<TcpStream, Fault> {
        let preferred = self.preferred.get();
        let mut refusals = Vec::new();
        let all = self.addresses.iter().enumerate();
        for (index, address) in all.clone().skip(preferred).chain(all.take(preferred)) {
            match TcpStream::connect(*address).await {
                Ok(tcp) => {
                    self.preferred.set(index);
                    return Ok(tcp);
                }
                Err(error) => refusals.push((*address, error)),
            }
        }
        Err(refused(&refusals, self.opened.get() > 0))
    }
}

/// Returns the fault of a target whose addresses all refused, by the refusal that tells most.
///
/// That is the first one: an address that this machine has no way to says "not available", which
/// is no lack of ports when a better address was refused before. While none has ever answered, the
/// first may itself be such an address, and one that was refused by the target tells more.
fn refused(refusals: &[(SocketAddr, io::Error)], answered_before: bool) -> Fault {
    let fault = |(address, error): &(SocketAddr, io::Error)| {
        let fault = Fault::system(error, Failure::Connect);
        Fault { message: format!("{address}: {}", fault.message), ..fault }
    };
    let mut faults = refusals.iter().map(fault);
    let Some(first) = faults.next() else {
        return Fault::new(Failure::Connect, "the target has no address");
    };
    if first.class == Failure::ClientResource && !answered_before {
        return faults.find(|fault| fault.class == Failure::Connect).unwrap_or(first);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn the_refusal_that_tells_most() {
        let told = |errors: &[Errno], answered_before| {
            let refusals: Vec<_> = (1..)
                .zip(errors)
                .map(|(port, errno)| (SocketAddr::from(([127, 0, 0, 1], port)), (*errno).into()))
                .collect();
            let fault = refused(&refusals, answered_before);
            (fault.class, fault.message.split(": ").next().unwrap_or_default().to_owned())
        };
        let by = |class, port: u8| (class, format!("127.0.0.1:{port}"));
        let (refused, no_way) = (Errno::CONNREFUSED, Errno::ADDRNOTAVAIL);
        for answered_before in [false, true] {
            let told = |errors: &[Errno]| told(errors, answered_before);
            assert_eq!(told(&[refused, no_way]), by(Failure::Connect, 1));
            assert_eq!(told(&[refused, refused]), by(Failure::Connect, 1));
            assert_eq!(told(&[no_way, Errno::MFILE]), by(Failure::ClientResource, 1));
        }
        assert_eq!(told(&[no_way, refused], false), by(Failure::Connect, 2), "no IPv6 here");
        assert_eq!(told(&[no_way, refused], true), by(Failure::ClientResource, 1), "no port left");
        assert_eq!(told(&[], true).0, Failure::Connect);
    }

    #[test]
    fn an_address_that_keeps_silent_is_passed_over_once() {
        let target = Target::new("http://h", super::super::api::Api::Chat, None, &[]).unwrap();
        let addresses = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec();
        let clock = RunClock::starting_in(Nanos::ZERO);
        let connections = Connections::new(&target, addresses, clock, Nanos::ZERO).unwrap();
        // Two requests waited for the first address in vain; the second is not passed over.
        connections.pass_over(0);
        connections.pass_over(0);
        assert_eq!(connections.preferred(), 1);
        connections.pass_over(1);
        assert_eq!(connections.preferred(), 0);
    }
}
