//! Sending on time: rows of the plan → requests that are due, handed to the async client.
//!
//! Two OS threads. The *preparer* reads the plan ahead and writes the bodies, bounded in requests
//! and bytes. The *dispatcher* waits for each deadline on the absolute clock (asleep, then
//! spinning; never early) and hands the finished bytes over. A late request stays late: the
//! schedule is never moved. After a stop, the rows that remain become outcomes that say so.

use super::answer::unsent;
use super::api::{Api, BodyOptions};
use super::client::Due;
use super::clock::RunClock;
use super::error::ReplayError;
use super::progress::Progress;
use super::stop::Stop;
use super::{BoxError, Load};
use crate::domain::convert;
use crate::domain::outcome::RequestOutcome;
use crate::domain::schedule::{Release, ScheduledRequest};
use crate::domain::time::Nanos;
use bytes::Bytes;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;
use tokio::sync::mpsc;

/// Requests that are prepared ahead of the clock.
pub(super) const AHEAD_REQUESTS: usize = 1_024;
/// Bytes of bodies that are prepared ahead; one larger body is still let through.
const AHEAD_BYTES: u64 = 64 << 20;
/// How long the preparer rests when [`AHEAD_BYTES`] are waiting.
const REST: Duration = Duration::from_millis(1);
/// Priority of the dispatcher thread, where the system allows it; 0 is the usual one.
const NICE: i32 = -10;

/// A row of the plan, ready to be sent.
#[derive(Debug)]
pub(super) struct Prepared {
    request: ScheduledRequest,
    due: Nanos,
    /// Empty once a stop was asked for: the row will not be sent.
    body: Bytes,
}

/// Bytes of bodies between preparer and dispatcher.
#[derive(Debug, Default)]
pub(super) struct Waiting(AtomicU64);

/// The preparer: reads the plan and writes bodies until the plan or `rows`' taker ends.
pub(super) struct Preparer<'a> {
    pub(super) api: Api,
    pub(super) body: &'a BodyOptions,
    pub(super) stop: &'a Stop,
    pub(super) waiting: &'a Waiting,
}

impl Preparer<'_> {
    /// Runs until the end of the plan; an error goes the way of the rows and ends it.
    pub(super) fn run<R, P>(
        &self,
        load: Load<R, P>,
        rows: &SyncSender<Result<Prepared, ReplayError>>,
    ) where
        R: Iterator<Item = Result<Vec<ScheduledRequest>, BoxError>>,
        P: Fn(&ScheduledRequest) -> Result<String, BoxError>,
    {
        for batch in load.rows {
            let batch = batch.map_err(|source| ReplayError::Plan { source });
            let requests = match batch {
                Ok(requests) => requests,
                Err(error) => {
                    // The taker is gone only when it has an error of its own.
                    rows.send(Err(error)).ok();
                    return;
                }
            };
            for request in requests {
                let prepared = self.prepare(request, &load.prompt);
                let failed = prepared.is_err();
                if rows.send(prepared).is_err() || failed {
                    return;
                }
            }
        }
    }

    fn prepare(
        &self,
        request: ScheduledRequest,
        prompt: impl Fn(&ScheduledRequest) -> Result<String, BoxError>,
    ) -> Result<Prepared, ReplayError> {
        let request_id = request.request_id;
        let Release::At(due) = request.release else {
            return Err(ReplayError::Release { request_id, release: request.release });
        };
        if self.stop.requested() {
            return Ok(Prepared { request, due, body: Bytes::new() });
        }
        let text = prompt(&request).map_err(|source| ReplayError::Prompt { request_id, source })?;
        let body = Bytes::from(self.api.body(self.body, &request, &text));
        while self.waiting.0.load(Ordering::Relaxed) > AHEAD_BYTES && !self.stop.requested() {
            std::thread::sleep(REST);
        }
        self.waiting.0.fetch_add(convert::count(body.len()), Ordering::Relaxed);
        Ok(Prepared { request, due, body })
    }
}

/// The dispatcher.
pub(super) struct Dispatcher<'a> {
    pub(super) clock: RunClock,
    pub(super) stop: &'a Stop,
    pub(super) waiting: &'a Waiting,
    pub(super) progress: &'a Progress,
    pub(super) due: mpsc::Sender<Due>,
    pub(super) outcomes: mpsc::Sender<RequestOutcome>,
}

/// What the dispatcher could get from the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatcherFacts {
    /// The thread's timer slack was set to 1 ns, so that sleeps end promptly.
    pub fine_timer: bool,
    /// The thread's priority was raised.
    pub raised_priority: bool,
}

impl Dispatcher<'_> {
    /// Hands over each row at its time; returns at the end of the plan or at its error.
    pub(super) fn run(
        self,
        rows: &Receiver<Result<Prepared, ReplayError>>,
    ) -> Result<DispatcherFacts, ReplayError> {
        let facts = prioritise();
        for row in rows {
            let Prepared { request, due, body } = row.inspect_err(|_| self.stop.request())?;
            self.waiting.0.fetch_sub(convert::count(body.len()), Ordering::Relaxed);
            self.progress.take_up();
            let sendable = !body.is_empty() && !self.stop.requested();
            if !sendable || !self.clock.wait_until(due, || !self.stop.requested()) {
                self.unsent(&request)?;
                continue;
            }
            let dispatched = self.clock.now();
            assert!(dispatched >= due, "a request was dispatched before its time");
            self.hand_over(Due { request, body, dispatched })?;
        }
        Ok(facts)
    }

    fn hand_over(&self, due: Due) -> Result<(), ReplayError> {
        let refused = match self.due.try_send(due) {
            Ok(()) => return Ok(()),
            // The client is behind: waiting here shows as schedule delay.
            Err(mpsc::error::TrySendError::Full(due)) => self.due.blocking_send(due).err(),
            Err(mpsc::error::TrySendError::Closed(due)) => Some(mpsc::error::SendError(due)),
        };
        refused.map_or(Ok(()), |mpsc::error::SendError(due)| self.unsent(&due.request))
    }

    fn unsent(&self, request: &ScheduledRequest) -> Result<(), ReplayError> {
        self.progress.record(false, true);
        self.outcomes.blocking_send(unsent(request)).map_err(|_| {
            self.stop.cut();
            ReplayError::OutcomesClosed
        })
    }
}

/// Asks for prompt wake-ups of this thread; what the system refuses is not an error.
fn prioritise() -> DispatcherFacts {
    DispatcherFacts {
        fine_timer: rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).is_ok(),
        // On Linux, "this process" means the calling thread here.
        raised_priority: rustix::process::setpriority_process(None, NICE).is_ok(),
    }
}
