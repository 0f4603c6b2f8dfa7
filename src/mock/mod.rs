//! A fake OpenAI-compatible endpoint with stated timing and stated faults.
//!
//! Input: a [`MockConfig`]. Output: answers of an exact number of tokens, one token an event, each
//! at its stated instant, and (with `stamps`) a JSON line per request with the instants at which
//! the mock handed its chunks to the socket. A measured TTFT can so be compared with the truth.
//!
//! Offsets count from the moment the request's headers were read: the role chunk comes after
//! `role_delay`, text `i` (from 0) after `ttft + i * tpot`. Deadlines are absolute, so lateness
//! does not add up, and nothing is sent early. Requests do not slow each other down: there is no
//! queue and no batch here. One thread serves everything; its clock and timer are its own
//! (`pacer`), since it states timing rather than measures a server. Linux only (timerfd).

mod answer;
mod error;
mod fault;
mod http;
mod pacer;
mod request;
mod stamps;
mod stream;
#[cfg(test)]
mod tests;
mod words;

pub use error::MockError;
pub use fault::{Fault, FaultKind};

use crate::domain::count::CountTokens;
use crate::domain::seed::Seed;
use crate::domain::time::Nanos;
use axum::serve::ListenerExt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Largest number of output tokens one request may ask for.
pub const MAX_OUTPUT_TOKENS: u32 = 262_144;
/// Largest request body, in bytes.
pub const MAX_BODY_BYTES: usize = 64 << 20;

/// What the mock promises.
#[derive(Clone, Debug)]
pub struct MockConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The model that `/v1/models` lists. Requests may name any model; it is echoed.
    pub model: String,
    /// Headers read to first text.
    pub ttft: Nanos,
    /// One text to the next.
    pub tpot: Nanos,
    /// Headers read to the role-only first chunk of a streamed chat; at most `ttft`.
    pub role_delay: Nanos,
    /// How long the fault `slow_headers` holds everything back.
    pub slow_headers: Nanos,
    /// Output tokens of a request that sets no limit, at least 1.
    pub default_output_tokens: u32,
    /// Faults and their shares; the shares sum to at most 1.
    pub faults: Vec<Fault>,
    /// Decides, with the request's number, which request gets which fault.
    pub seed: Seed,
    /// Where to write the instants of every request; nowhere when `None`.
    pub stamps: Option<PathBuf>,
    /// Whether an existing `stamps` file is replaced.
    pub overwrite: bool,
    /// Whether the end of standard input ends the mock.
    pub until_stdin_closes: bool,
}

impl Default for MockConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            model: "mock".to_owned(),
            ttft: Nanos::from_millis(200),
            tpot: Nanos::from_millis(20),
            role_delay: Nanos::from_millis(5),
            slow_headers: Nanos::from_millis(1_000),
            default_output_tokens: 128,
            faults: Vec::new(),
            seed: Seed(42),
            stamps: None,
            overwrite: false,
            until_stdin_closes: false,
        }
    }
}

impl MockConfig {
    /// Checks what the types do not say.
    ///
    /// # Errors
    ///
    /// Shares outside `[0, 1]` or summing above 1, a role chunk after the first text, or answers
    /// of no or too many tokens.
    pub fn validate(&self) -> Result<(), MockError> {
        fault::validate(&self.faults)?;
        if self.role_delay > self.ttft {
            return Err(MockError::RoleAfterText { role_delay: self.role_delay, ttft: self.ttft });
        }
        if !(1..=MAX_OUTPUT_TOKENS).contains(&self.default_output_tokens) {
            return Err(MockError::OutputTokens { found: self.default_output_tokens });
        }
        Ok(())
    }
}

/// Serves until Ctrl-C, SIGTERM or (if asked for) the end of standard input.
///
/// Blocks the calling thread, on which everything runs. `counter` counts the prompts for `usage`;
/// without one, `usage.prompt_tokens` is null. `on_ready` gets the bound address.
///
/// # Errors
///
/// A configuration that makes no sense, an address that cannot be bound, or a stamps file that
/// cannot be written.
pub fn serve(
    config: MockConfig,
    counter: Option<Arc<dyn CountTokens>>,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), MockError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|source| MockError::System { what: "start the event loop", source })?;
    let stdin = config.until_stdin_closes;
    let (done, sink) = runtime.block_on(async {
        let mock = match http::Mock::new(config, counter) {
            Ok(mock) => Arc::new(mock),
            Err(error) => return (Err(error), None),
        };
        let sink = mock.sink();
        (serve_until(mock, on_ready, stop_requested(stdin)).await, sink)
    });
    // Streams in flight are dropped here and write their stamps.
    runtime.shutdown_background();
    done?;
    sink.map_or(Ok(()), |sink| sink.first_error())
}

/// Serves until `stop` is done. Open streams live on as long as the runtime does.
async fn serve_until(
    mock: Arc<http::Mock>,
    on_ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = Result<(), MockError>>,
) -> Result<(), MockError> {
    let listen = mock.config.listen;
    let cannot_listen = |source| MockError::Listen { listen, source };
    let listener = TcpListener::bind(listen).await.map_err(cannot_listen)?;
    let bound = listener.local_addr().map_err(cannot_listen)?;
    // Without this a chunk would wait for the acknowledgement of the one before.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let pacer = mock.pacer();
    let server = axum::serve(listener, http::routes(mock)).into_future();
    on_ready(bound);
    tokio::select! {
        stopped = stop => stopped,
        served = server => served.map_err(cannot_listen),
        error = pacer.run() => Err(MockError::System { what: "wait for the timer", source: error }),
    }
}

/// Returns when a signal asks the mock to end, or standard input ends and `stdin` is set.
async fn stop_requested(stdin: bool) -> Result<(), MockError> {
    let no_signals = |source| MockError::System { what: "listen for signals", source };
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let (closed, stdin_closed) = tokio::sync::oneshot::channel();
    if stdin {
        // A plain thread: a blocking task of the runtime could not be left behind.
        std::thread::spawn(move || {
            drop(std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
            closed.send(()).ok();
        });
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        Ok(()) = stdin_closed, if stdin => {}
    }
    Ok(())
}
