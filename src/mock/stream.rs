//! The answer of one request in time: which bytes at which instant, stamped.
//!
//! Every wait is until an absolute deadline, so a late chunk does not delay the next ones.

use super::answer::{self, Usage, Voice};
use super::pacer::Pacer;
use super::stamps::{Ended, Stamp};
use crate::domain::time::Nanos;
use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::io;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The count of a prompt's tokens, on its way: a long prompt must not hold up other streams.
pub(super) type InputCount = JoinHandle<Option<u32>>;

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// With this finish reason, together with the last text.
    Finish(&'static str),
    /// With an error object, when the next text would be due.
    Error,
    /// With a closed connection, when the next text would be due.
    Cut,
}

/// What is sent and when. Instants are since the mock's start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    /// When the role chunk is due; `None` where there is none.
    pub(super) role: Option<Nanos>,
    /// When the first text is due.
    pub(super) first_text: Nanos,
    /// From one text to the next.
    pub(super) tpot: Nanos,
    /// Texts to send.
    pub(super) tokens: u32,
    /// What comes after them.
    pub(super) ending: Ending,
}

impl Script {
    /// Returns when text `index` is due.
    fn due(&self, index: u32) -> Nanos {
        self.first_text.plus(Nanos(self.tpot.0.saturating_mul(u64::from(index))))
    }

    /// Returns when the ending is due.
    pub(super) fn end_due(&self) -> Nanos {
        match self.ending {
            Ending::Finish(_) => self.due(self.tokens.saturating_sub(1)),
            Ending::Error | Ending::Cut => self.due(self.tokens),
        }
    }
}

/// Everything one answer needs.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) pacer: Arc<Pacer>,
    pub(super) script: Script,
    pub(super) voice: Voice,
    /// The prompt's count, when usage is to be told.
    pub(super) input: Option<InputCount>,
    pub(super) stamp: Stamp,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Role,
    Text(u32),
    Over,
}

/// Returns the body of a streamed answer.
pub(super) fn events(answer: Answer) -> Body {
    let first = if answer.script.role.is_some() { Step::Role } else { Step::Text(0) };
    Body::from_stream(stream::unfold((Box::new(answer), first), |(mut answer, step)| async move {
        let (bytes, next) = answer.step(step).await?;
        Some((bytes, (answer, next)))
    }))
}

impl Answer {
    async fn step(&mut self, step: Step) -> Option<(io::Result<Bytes>, Step)> {
        match step {
            Step::Role => {
                self.wait(self.script.role.unwrap_or(self.script.first_text)).await;
                self.stamp.line.role_ns = Some(self.now().0);
                Some((Ok(self.voice.role()), Step::Text(0)))
            }
            Step::Text(index) if index < self.script.tokens => {
                let bytes = self.voice.text(index);
                self.wait(self.script.due(index)).await;
                let now = self.now();
                self.stamp.text(now, 1);
                Some((Ok(bytes), Step::Text(index + 1)))
            }
            Step::Text(_) => Some((self.end().await, Step::Over)),
            Step::Over => None,
        }
    }

    async fn end(&mut self) -> io::Result<Bytes> {
        self.wait(self.script.end_due()).await;
        match self.script.ending {
            Ending::Finish(reason) => {
                let usage = match self.input.take() {
                    Some(count) => Some(self.usage(count).await),
                    None => None,
                };
                self.finished();
                Ok(self.voice.finish(reason, usage))
            }
            Ending::Error => {
                self.stamp.end(self.now(), Ended::Fault);
                let error = answer::error("the engine died", "internal_server_error", Some(500));
                Ok(format!("data: {error}\n\n{}", answer::DONE).into())
            }
            Ending::Cut => {
                self.stamp.end(self.now(), Ended::Fault);
                cut().await
            }
        }
    }

    /// Waits for the whole answer and returns its body.
    pub(super) async fn whole(mut self) -> Body {
        self.wait(self.script.end_due()).await;
        let input = self.input.take();
        let usage = match input {
            Some(count) => self.usage(count).await,
            None => Usage { input_tokens: None, output_tokens: self.script.tokens },
        };
        let now = self.now();
        match self.script.ending {
            Ending::Finish(reason) => {
                if self.script.tokens > 0 {
                    self.stamp.text(now, self.script.tokens);
                }
                self.finished();
                Body::from(self.voice.whole(reason, usage))
            }
            Ending::Error => {
                self.stamp.end(now, Ended::Fault);
                Body::from(answer::error("the engine died", "internal_server_error", Some(500)))
            }
            Ending::Cut => {
                self.stamp.end(now, Ended::Fault);
                // The cut may fall inside a letter of the model's name; that is as it is in life.
                let mut bytes = self.voice.whole("length", usage).into_bytes();
                bytes.truncate(bytes.len() / 2);
                let half = stream::once(std::future::ready(Ok(Bytes::from(bytes))));
                Body::from_stream(half.chain(stream::once(cut())))
            }
        }
    }

    fn finished(&mut self) {
        // Besides `empty` and `slow_headers`, whose answers do finish, a fault ends otherwise.
        let ended = if self.stamp.line.fault.is_some() { Ended::Fault } else { Ended::Complete };
        self.stamp.end(self.now(), ended);
    }

    async fn usage(&self, count: InputCount) -> Usage {
        // The task cannot be cancelled while we wait; a counter that panics counted nothing.
        let input_tokens = count.await.ok().flatten();
        Usage { input_tokens, output_tokens: self.script.tokens }
    }

    async fn wait(&self, deadline: Nanos) {
        // `Pacer::run` meets the same error of the timer and ends the mock with it.
        if self.pacer.sleep_until(deadline).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn now(&self) -> Nanos {
        self.pacer.clock().now()
    }
}

/// Closes the connection, once what was handed over before is on its way: the server flushes when
/// it finds a body waiting, and drops what it holds when it finds an error.
async fn cut() -> io::Result<Bytes> {
    tokio::task::yield_now().await;
    Err(io::Error::other("cut on purpose"))
}
