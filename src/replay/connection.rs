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

    /// Keeps a connection whose answer was read in full, once it is free again.
    pub(super) async fn give_back(&self, mut connection: Connection) {
        let settled = tokio::time::timeout(SETTLE_TIME, connection.sender.ready()).await;
        if matches!(settled, Ok(Ok(()))) {
            connection.reused = true;
            connection.idle_since = self.clock.now();
            self.idle.borrow_mut().push(connection);
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
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let mut at = None;
        for (index, address) in self.addresses.iter().enumerate().cycle().skip(preferred) {
            if index == preferred && at.is_some() {
                break;
            }
            at = Some(*address);
            match TcpStream::connect(*address).await {
                Ok(tcp) => {
                    self.preferred.set(index);
                    return Ok(tcp);
                }
                Err(error) => failed = error,
            }
        }
        let mut fault = Fault::system(&failed, Failure::Connect);
        if let Some(address) = at {
            fault.message = format!("{address}: {}", fault.message);
        }
        Err(fault)
    }
}
