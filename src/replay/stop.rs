//! Stopping a replay: a level that only rises, seen by the dispatcher thread and by async tasks.
//!
//! The first request to stop ends dispatch; the second, or the end of the grace time, cancels what
//! is in flight. Rows that were not sent still become outcomes.

use tokio::sync::watch;

/// How far a replay is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// Nobody asked.
    Run,
    /// Nothing new is sent; what is in flight may end.
    NothingNew,
    /// What is in flight is cut.
    Cut,
}

/// The stop signal of one replay.
#[derive(Debug)]
pub struct Stop {
    level: watch::Sender<Level>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { level: watch::Sender::new(Level::Run) }
    }
}

impl Stop {
    /// Asks to stop: the first call ends dispatch, the second cuts what is in flight.
    pub fn request(&self) {
        self.level.send_modify(|level| {
            *level = if *level == Level::Run { Level::NothingNew } else { Level::Cut };
        });
    }

    /// Cuts what is in flight at once.
    pub fn cut(&self) {
        self.level.send_modify(|level| *level = Level::Cut);
    }

    /// Returns whether anybody asked to stop.
    pub fn requested(&self) -> bool {
        *self.level.borrow() != Level::Run
    }

    /// Waits until somebody asks to stop.
    pub async fn when_requested(&self) {
        self.reach(Level::NothingNew).await;
    }

    /// Waits until what is in flight is to be cut.
    pub async fn when_cut(&self) {
        self.reach(Level::Cut).await;
    }

    async fn reach(&self, wanted: Level) {
        let mut seen = self.level.subscribe();
        // An error means that the sender is gone, and it lives as long as `self`.
        seen.wait_for(|level| *level >= wanted).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_only_rises() {
        let stop = Stop::default();
        assert!(!stop.requested());
        stop.request();
        assert!(stop.requested());
        assert_eq!(*stop.level.borrow(), Level::NothingNew);
        stop.request();
        stop.request();
        assert_eq!(*stop.level.borrow(), Level::Cut);
        stop.cut();
        assert_eq!(*stop.level.borrow(), Level::Cut);
    }
}
