//! The mock's clock and timer: absolute deadlines with a few tens of microseconds of error.
//!
//! tokio's timer wakes a millisecond late at the median, which is a twentieth of a usual time per
//! token. Here one timerfd holds the earliest of all deadlines; when it fires, every task that is
//! due is woken. Unit: nanoseconds since the mock's start, on `CLOCK_MONOTONIC`.

use crate::domain::time::{NANOS_PER_SECOND, Nanos};
use rustix::fd::OwnedFd;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::unix::AsyncFd;

/// The mock's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin_ns: u64,
}

impl Clock {
    /// A clock that starts now.
    pub(super) fn start() -> Self {
        Self { origin_ns: nanos_of(clock_gettime(ClockId::Monotonic)) }
    }

    /// Returns the time since the start.
    pub(super) fn now(self) -> Nanos {
        Nanos(nanos_of(clock_gettime(ClockId::Monotonic)).saturating_sub(self.origin_ns))
    }

    /// Returns the start as a reading of `CLOCK_MONOTONIC`, in nanoseconds.
    pub(super) fn origin_ns(self) -> u64 {
        self.origin_ns
    }

    /// Returns whole seconds since 1970, for the `created` field of answers.
    pub(super) fn unix_seconds() -> u64 {
        u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0)
    }
}

fn nanos_of(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(nanos)
}

fn timespec_of(nanos: u64) -> Timespec {
    let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Timespec { tv_sec: part(nanos / NANOS_PER_SECOND), tv_nsec: part(nanos % NANOS_PER_SECOND) }
}

/// A task that waits; ordered by its deadline, then by its number.
#[derive(Debug)]
struct Waiting {
    deadline: Nanos,
    number: u64,
    waker: Waker,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.deadline, self.number).cmp(&(other.deadline, other.number))
    }
}

#[derive(Debug, Default)]
struct Queue {
    waiting: BinaryHeap<Reverse<Waiting>>,
    registered: u64,
    armed_for: Option<Nanos>,
}

/// Wakes tasks at absolute instants.
#[derive(Debug)]
pub(super) struct Pacer {
    clock: Clock,
    timer: AsyncFd<OwnedFd>,
    queue: Mutex<Queue>,
}

impl Pacer {
    /// A pacer with nothing to do. Must be called inside the runtime that will run it.
    #[expect(
        deprecated,
        reason = "sound here, as the `AsyncFd` owns its descriptor to the end; the function that \
                  replaces it is unsafe to call, which this crate forbids"
    )]
    pub(super) fn new(clock: Clock) -> io::Result<Arc<Self>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Arc::new(Self { clock, timer: AsyncFd::new(timer)?, queue: Mutex::default() }))
    }

    /// Returns the clock of the deadlines.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Waits until `deadline`, and never less.
    pub(super) fn sleep_until(&self, deadline: Nanos) -> Sleep<'_> {
        Sleep { pacer: self, deadline, registered: None }
    }

    /// Wakes the tasks that are due, for as long as it is polled. Returns on an error only.
    pub(super) async fn run(&self) -> io::Error {
        loop {
            let mut ready = match self.timer.readable().await {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            let mut expirations = [0; 8];
            let read = ready.try_io(|timer| Ok(rustix::io::read(timer, &mut expirations)?));
            if let Ok(Err(error)) = read {
                return error;
            }
            if let Err(error) = self.wake_due() {
                return error;
            }
        }
    }

    fn wake_due(&self) -> io::Result<()> {
        let mut queue = self.lock();
        queue.armed_for = None;
        let now = self.clock.now();
        while let Some(Reverse(first)) = queue.waiting.peek() {
            if first.deadline > now {
                let deadline = first.deadline;
                return self.arm(&mut queue, deadline);
            }
            if let Some(Reverse(due)) = queue.waiting.pop() {
                due.waker.wake();
            }
        }
        Ok(())
    }

    fn register(&self, deadline: Nanos, waker: Waker) -> io::Result<()> {
        let mut queue = self.lock();
        queue.registered += 1;
        let number = queue.registered;
        queue.waiting.push(Reverse(Waiting { deadline, number, waker }));
        if queue.armed_for.is_none_or(|armed| deadline < armed) {
            self.arm(&mut queue, deadline)?;
        }
        Ok(())
    }

    fn arm(&self, queue: &mut Queue, deadline: Nanos) -> io::Result<()> {
        let it_value = timespec_of(self.clock.origin_ns().saturating_add(deadline.0));
        let value = Itimerspec { it_interval: timespec_of(0), it_value };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &value)?;
        queue.armed_for = Some(deadline);
        Ok(())
    }

    /// The queue is whole between any two statements, so a panic elsewhere does not matter.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of tasks that wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }
}

/// See [`Pacer::sleep_until`].
#[derive(Debug)]
pub(super) struct Sleep<'a> {
    pacer: &'a Pacer,
    deadline: Nanos,
    registered: Option<Waker>,
}

impl Future for Sleep<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pacer.clock.now() >= self.deadline {
            return Poll::Ready(Ok(()));
        }
        let known = self.registered.as_ref().is_some_and(|old| old.will_wake(context.waker()));
        if !known {
            let waker = context.waker().clone();
            self.registered = Some(waker.clone());
            if let Err(error) = self.pacer.register(self.deadline, waker) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_wake_in_order_of_their_deadlines_and_never_early() {
        let pacer = Pacer::new(Clock::start()).unwrap();
        let driver = Arc::clone(&pacer);
        let driver = tokio::spawn(async move { driver.run().await });
        let (sent, mut woken) = tokio::sync::mpsc::unbounded_channel();
        let start = pacer.clock().now();
        for millis in [9_u64, 3, 6, 0] {
            let (pacer, sent) = (Arc::clone(&pacer), sent.clone());
            tokio::spawn(async move {
                let deadline = start.plus(Nanos::from_millis(millis));
                pacer.sleep_until(deadline).await.unwrap();
                assert!(pacer.clock().now() >= deadline, "woken early");
                sent.send(millis).unwrap();
            });
        }
        drop(sent);
        let mut order = Vec::new();
        while let Some(millis) = woken.recv().await {
            order.push(millis);
        }
        assert_eq!(order, [0, 3, 6, 9]);
        assert_eq!(pacer.waiting(), 0);
        driver.abort();
    }
}
