//! Hands out jobs at the rate of their queue.
//!
//! A job waits here with its lease, which is renewed, because it was asked for ahead. What waits
//! when no more jobs are taken is given back as never begun.

use std::sync::Arc;
use std::time::Duration;

use ecru::channel::{Receiver, Sender};
use ecru::select;

use crate::held::Holding;
use crate::job::Job;
use crate::queue::Shared;

/// The longest pause before the queue is asked again, whose rate may have changed, and the pause
/// while it does not answer.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(100));

/// What a task needs that hands out jobs at a rate.
pub(crate) struct Gate<T> {
    pub(crate) queue: Arc<Shared>,
    pub(crate) holding: Arc<Holding>,
    pub(crate) jobs: Receiver<Job<T>>,
    pub(crate) give: Sender<Job<T>>,
}

impl<T> Gate<T> {
    /// Hands out jobs until no more are taken, or the task is cancelled.
    pub(crate) fn run(self) {
        while let Ok(job) = self.jobs.recv() {
            if !self.wait(&job) {
                self.holding.finish();
                return;
            }
            if job.is_lost() {
                continue;
            }
            if let Err(refused) = self.give.try_send(job) {
                self.holding.finish();
                drop(refused);
                return;
            }
        }
        // What is left has not failed.
        self.holding.finish();
    }

    /// Waits for a place, or until the job is lost. Returns `false` if no more jobs are handed out.
    fn wait(&self, job: &Job<T>) -> bool {
        loop {
            let changed = self.holding.changed();
            if self.holding.is_finished() || self.give.is_closed() {
                return false;
            }
            if job.is_lost() || !self.queue.is_rated() {
                return true;
            }
            let asked = self.queue.engine().and_then(|engine| engine.start());
            let pause = match asked {
                Ok(None) => return true,
                Ok(Some(pause)) => pause.min(PAUSES.0),
                // The end of the fleet, and a cancellation, end the next wait.
                Err(_) => PAUSES.1,
            };
            let is_cancelled = select! {
                wait(&changed) -> result => result.is_err(),
                default(pause) => ecru::is_cancelled(),
            };
            if is_cancelled || self.queue.core.check().is_err() {
                return false;
            }
        }
    }
}
