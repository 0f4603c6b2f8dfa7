//! Replay: a schedule and prompts → one [`RequestOutcome`] for each planned row.
//!
//! The dispatcher thread lets each request go at its offset; one async task per request sends it
//! over HTTP/1.1 and records instants on the run's monotonic clock ([`clock`]). Instants are
//! offsets in nanoseconds; nothing is averaged or judged here. There are no retries, no redirects,
//! no proxies and no hidden limit on requests in flight. The async side runs on one thread without
//! locks. Imports `domain` alone: prompts come from a function, outcomes go to a channel.

mod answer;
pub mod api;
mod client;
pub mod clock;
mod connection;
mod dispatch;
mod echo;
mod error;
mod fault;
mod preflight;
mod progress;
mod sse;
mod stop;
mod target;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timed_io;
mod tls;

pub use answer::MAX_CHUNKS;
pub use dispatch::DispatcherFacts;
pub use error::ReplayError;
pub use preflight::{ServerFacts, preflight};
pub use progress::Progress;
pub use sse::{EventTooLong, MAX_EVENT_BYTES, SseEvent, SseParser};
pub use stop::Stop;
pub use target::Target;

use crate::domain::outcome::RequestOutcome;
use crate::domain::schedule::ScheduledRequest;
use crate::domain::time::Nanos;
use api::{Api, BodyOptions};
use client::{Client, Due};
use clock::RunClock;
use connection::Connections;
use dispatch::{AHEAD_REQUESTS, Dispatcher, Preparer, Waiting};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::cell::Cell;
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::{Arc, mpsc as rows};
use std::thread::{self, Scope};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::LocalSet;

/// Requests handed over and not yet taken by the client; more make the dispatcher wait.
const DUE_REQUESTS: usize = 4_096;
/// The longest wait for the first bodies before the clock starts.
const PRIME_TIME: Duration = Duration::from_secs(2);
/// Time between the making of the clock and its zero, for the threads to start.
const LEAD: Nanos = Nanos::from_millis(50);

/// An error of whoever reads the plan or composes prompts.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a request may take, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// TCP and TLS together.
    pub connect: Nanos,
    /// From the send to the first generated text.
    pub first_token: Nanos,
    /// Between two reads once text has come.
    pub idle: Nanos,
    /// From the send to the end.
    pub total: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Nanos::from_millis(10_000),
            first_token: Nanos::from_millis(300_000),
            idle: Nanos::from_millis(60_000),
            total: Nanos::from_millis(3_600_000),
        }
    }
}

/// All that a user decides about a replay.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// Where requests go.
    pub target: Target,
    /// Which API is spoken.
    pub api: Api,
    /// What the bodies share.
    pub body: BodyOptions,
    /// How long a request may take.
    pub limits: Limits,
    /// The most requests in flight; more wait, which shows as schedule delay. `None`: no cap.
    pub max_concurrency: Option<NonZeroU32>,
    /// How long an idle connection is kept for reuse. The default of 4 s is below the 5 s after
    /// which common servers (uvicorn, llama.cpp) close theirs.
    pub reuse_idle: Nanos,
    /// Whether a request on a reused connection that died without a byte is sent once more.
    pub reconnect_stale: bool,
    /// How long requests in flight may go on after a stop.
    pub grace: Nanos,
}

impl ReplayConfig {
    /// Returns a configuration with the default limits.
    pub fn new(target: Target, api: Api, body: BodyOptions) -> Self {
        Self {
            target,
            api,
            body,
            limits: Limits::default(),
            max_concurrency: None,
            reuse_idle: Nanos::from_millis(4_000),
            reconnect_stale: false,
            grace: Nanos::from_millis(5_000),
        }
    }
}

/// What is to be sent.
#[derive(Debug)]
pub struct Load<R, P> {
    /// The plan, in order of release, batch by batch.
    pub rows: R,
    /// Composes the prompt of a row.
    pub prompt: P,
}

/// What a replay did; everything else is in the outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Rows of the plan; as many outcomes were handed over.
    pub planned: u64,
    /// Requests whose first byte was handed to a socket.
    pub sent: u64,
    /// Outcomes with a failure, unsent rows included.
    pub failed: u64,
    /// Whether a stop was asked for.
    pub interrupted: bool,
    /// When the last answer was in, on the run's clock; tells when the clock started.
    pub ended: Nanos,
    /// The most requests that were in flight at once.
    pub peak_in_flight: u32,
    /// The system's limit on open files, and so on connections; `None`: no limit.
    pub max_open_files: Option<u64>,
    /// Connections opened.
    pub connections_opened: u64,
    /// Requests sent a second time since their reused connection had died.
    pub reconnected: u64,
    /// What the dispatcher thread got from the system.
    pub dispatcher: DispatcherFacts,
}

/// Replays a load and hands each outcome to `outcomes`, in the order in which requests end.
///
/// Blocks until every row has its outcome. The clock starts when the first bodies are prepared,
/// at most some seconds after the call.
///
/// # Errors
///
/// When the target does not resolve, the plan or a prompt cannot be read, or the outcomes are no
/// longer taken. What befalls a single request is an outcome, not an error.
///
/// # Panics
///
/// If a request was dispatched before its time, which is a bug.
pub fn replay<R, P>(
    load: Load<R, P>,
    config: &ReplayConfig,
    stop: &Arc<Stop>,
    progress: &Arc<Progress>,
    outcomes: mpsc::Sender<RequestOutcome>,
) -> Result<ReplaySummary, ReplayError>
where
    R: Iterator<Item = Result<Vec<ScheduledRequest>, BoxError>> + Send,
    P: Fn(&ScheduledRequest) -> Result<String, BoxError> + Send,
{
    let max_open_files = raise_file_limit();
    let runtime = runtime()?;
    let addresses = runtime.block_on(preflight::resolve(&config.target))?;
    let waiting = Waiting::default();
    let (row_sender, row_receiver) = rows::sync_channel(AHEAD_REQUESTS);
    let (primed, when_primed) = rows::sync_channel(1);
    let preparer =
        Preparer { api: config.api, body: &config.body, stop, waiting: &waiting, primed };
    thread::scope(|scope| {
        let conduct = || {
            spawn(scope, "prepare", move || preparer.run(load, &row_sender))?;
            // An error means that the whole plan is prepared, or that it takes too long.
            when_primed.recv_timeout(PRIME_TIME).ok();
            let clock = RunClock::starting_in(LEAD);
            let (due_sender, due_receiver) = mpsc::channel(DUE_REQUESTS);
            let client = Rc::new(Client {
                connections: Connections::new(&config.target, addresses, clock, config.reuse_idle)?,
                config: config.clone(),
                clock,
                progress: Arc::clone(progress),
                stop: Arc::clone(stop),
                reconnected: Cell::new(0),
            });
            let dispatcher = Dispatcher {
                clock,
                stop,
                waiting: &waiting,
                progress,
                due: due_sender,
                outcomes: outcomes.clone(),
            };
            let dispatching = spawn(scope, "dispatch", move || dispatcher.run(&row_receiver))?;
            LocalSet::new().block_on(&runtime, serve(Rc::clone(&client), due_receiver, outcomes));
            let facts = dispatching.join().expect("the dispatcher does not panic")?;
            summary(&client, facts, max_open_files)
        };
        // The threads end by themselves, but for the preparer, which may be waiting.
        conduct().inspect_err(|_| stop.cut())
    })
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>, ReplayError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
    spawned.map_err(|source| ReplayError::System { what: "a thread", source })
}

/// Raises the process's limit on open files as far as the system allows, and returns it.
///
/// The usual soft limit of 1,024 would be a hidden cap on requests in flight.
fn raise_file_limit() -> Option<u64> {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, ..limits };
    let got = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limits };
    got.current
}

/// Sums up a replay, and checks that no row was lost.
fn summary(
    client: &Client,
    dispatcher: DispatcherFacts,
    max_open_files: Option<u64>,
) -> Result<ReplaySummary, ReplayError> {
    let progress = &client.progress;
    let (planned, recorded) = (progress.planned(), progress.done());
    if planned != recorded {
        return Err(ReplayError::RowsLost { planned, recorded });
    }
    Ok(ReplaySummary {
        planned,
        sent: progress.sent(),
        failed: progress.failed(),
        interrupted: client.stop.requested(),
        ended: client.clock.now(),
        peak_in_flight: progress.peak_in_flight(),
        max_open_files,
        connections_opened: client.connections.opened(),
        reconnected: client.reconnected.get(),
        dispatcher,
    })
}

/// Returns a runtime on the calling thread.
fn runtime() -> Result<Runtime, ReplayError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| ReplayError::System { what: "the async runtime", source })
}

/// Serves requests that are due, until the dispatcher has ended and the last answer is in.
async fn serve(
    client: Rc<Client>,
    mut due: mpsc::Receiver<Due>,
    outcomes: mpsc::Sender<RequestOutcome>,
) {
    let cap = client.config.max_concurrency.and_then(|cap| usize::try_from(cap.get()).ok());
    let permits = cap.map(|cap| Arc::new(Semaphore::new(cap)));
    let after_stop = Rc::clone(&client);
    tokio::task::spawn_local(async move {
        after_stop.stop.when_requested().await;
        tokio::time::sleep(after_stop.config.grace.to_duration()).await;
        after_stop.stop.cut();
    });
    // Every task holds `alive`; when the last one ends, `ended` says so.
    let (alive, mut ended) = mpsc::channel::<Infallible>(1);
    while let Some(next) = due.recv().await {
        let permit = permit(&client, permits.as_ref()).await;
        let (client, outcomes, alive) = (Rc::clone(&client), outcomes.clone(), alive.clone());
        tokio::task::spawn_local(async move {
            let outcome = if client.stop.requested() {
                answer::unsent(&next.request)
            } else {
                Rc::clone(&client).perform(next).await
            };
            drop(permit);
            client.progress.record(outcome.was_tried(), outcome.failure.is_some());
            if outcomes.send(outcome).await.is_err() {
                client.stop.cut();
            }
            drop(alive);
        });
    }
    drop(alive);
    ended.recv().await;
}

/// Waits for a place below the cap; `None` without a cap, or when a stop was asked for.
async fn permit(client: &Client, permits: Option<&Arc<Semaphore>>) -> Option<OwnedSemaphorePermit> {
    let permits = Arc::clone(permits?);
    tokio::select! {
        biased;
        permit = permits.acquire_owned() => permit.ok(),
        () = client.stop.when_requested() => None,
    }
}
