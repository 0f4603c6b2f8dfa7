//! Threads that decode chunks, and the order of their results.
//!
//! The caller reads chunks and takes results; results come back in the order of the chunks,
//! whichever thread was first. What waits is bounded: two chunks a thread. With one thread
//! everything happens in the caller.

use super::chunk::Chunk;
use super::decode::{Decoded, Job, decode};
use super::error::IngestError;
use super::format::Shared;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// Chunks in flight for each thread.
const IN_FLIGHT: usize = 2;

struct Task {
    number: u64,
    job: Arc<Job>,
    chunk: Chunk,
}

/// Receives results in order.
pub type Settle<'s> = &'s mut dyn FnMut(Decoded) -> Result<(), IngestError>;

/// The threads, as the caller sees them.
pub struct Pool {
    tasks: Option<SyncSender<Task>>,
    results: Receiver<(u64, Decoded)>,
    early: BTreeMap<u64, Decoded>,
    submitted: u64,
    settled: u64,
    limit: u64,
    /// Decodes in the caller where there is one thread only.
    own: Option<Shared>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("submitted", &self.submitted).finish_non_exhaustive()
    }
}

/// Runs `work` with a pool of threads and returns what it gives, with what each thread shared.
///
/// # Errors
///
/// As `work`.
pub fn with_pool<T>(
    threads: usize,
    shared: impl Fn() -> Shared,
    work: impl FnOnce(&mut Pool) -> Result<T, IngestError>,
) -> Result<(T, Vec<Shared>), IngestError> {
    let (send_result, results) = sync_channel(IN_FLIGHT * threads);
    let limit = u64::try_from(IN_FLIGHT * threads).unwrap_or(u64::MAX);
    let mut pool = Pool {
        tasks: None,
        results,
        early: BTreeMap::new(),
        submitted: 0,
        settled: 0,
        limit,
        own: None,
    };
    if threads <= 1 {
        pool.own = Some(shared());
        let done = work(&mut pool)?;
        return Ok((done, pool.own.take().into_iter().collect()));
    }
    let (tasks, receive_task) = sync_channel::<Task>(IN_FLIGHT * threads);
    let receive_task = Mutex::new(receive_task);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let (receive_task, send_result) = (&receive_task, send_result.clone());
                let mut shared = shared();
                scope.spawn(move || {
                    let _alarm = Alarm(send_result.clone());
                    while let Some(task) = next_task(receive_task) {
                        let decoded = decode(&task.job, &task.chunk, &mut shared);
                        if send_result.send((task.number, decoded)).is_err() {
                            break;
                        }
                    }
                    shared
                })
            })
            .collect();
        drop(send_result);
        pool.tasks = Some(tasks);
        let done = work(&mut pool);
        // Closed channels end the threads, also after an error.
        drop(pool);
        let shared = workers.into_iter().map(|worker| match worker.join() {
            Ok(shared) => shared,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let shared = shared.collect();
        done.map(|done| (done, shared))
    })
}

/// Wakes the caller when a thread panics: the result it waits for never comes.
struct Alarm(SyncSender<(u64, Decoded)>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Where nobody waits any more, nobody needs to be woken.
            drop(self.0.send((u64::MAX, Decoded::default())));
        }
    }
}

fn next_task(tasks: &Mutex<Receiver<Task>>) -> Option<Task> {
    tasks.lock().ok()?.recv().ok()
}

impl Pool {
    /// Takes a chunk; settles results that are ready, and waits for some when too many are not.
    ///
    /// # Errors
    ///
    /// As `settle`.
    pub fn submit(
        &mut self,
        job: &Arc<Job>,
        chunk: Chunk,
        settle: Settle<'_>,
    ) -> Result<(), IngestError> {
        if let Some(shared) = &mut self.own {
            return settle(decode(job, &chunk, shared));
        }
        while self.submitted - self.settled >= self.limit {
            self.wait(settle)?;
        }
        let task = Task { number: self.submitted, job: job.clone(), chunk };
        if let Some(tasks) = &self.tasks
            && tasks.send(task).is_ok()
        {
            self.submitted += 1;
        }
        Ok(())
    }

    /// Settles everything submitted.
    ///
    /// # Errors
    ///
    /// As `settle`.
    pub fn drain(&mut self, settle: Settle<'_>) -> Result<(), IngestError> {
        while self.settled < self.submitted {
            self.wait(settle)?;
        }
        Ok(())
    }

    /// Waits for a result and settles all whose turn it is.
    fn wait(&mut self, settle: Settle<'_>) -> Result<(), IngestError> {
        let (number, decoded) = self.results.recv().unwrap_or((u64::MAX, Decoded::default()));
        if number == u64::MAX {
            // A thread panicked: nothing more is waited for, and joining it passes the panic on.
            self.settled = self.submitted;
            self.tasks = None;
            return Err(IngestError::SinkClosed);
        }
        self.early.insert(number, decoded);
        while let Some(decoded) = self.early.remove(&self.settled) {
            self.settled += 1;
            settle(decoded)?;
        }
        Ok(())
    }
}
