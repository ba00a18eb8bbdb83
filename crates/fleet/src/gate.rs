//! Hands out jobs at the rate of their queue, and the most urgent ones first.
//!
//! A job waits here with its lease, which is renewed, because it was asked for ahead. What waits
//! when no more jobs are taken is given back as never begun.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ecru::channel::{Receiver, Sender};
use ecru::select;

use crate::engine::{PRIORITIES, Picker};
use crate::held::Holding;
use crate::job::Job;
use crate::shared::Shared;

/// The longest pause before the queue is asked again, whose rate may have changed, and the pause
/// while it does not answer.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(100));

/// What a task needs that hands out jobs at a rate, or by their priorities.
pub(crate) struct Gate<T> {
    pub(crate) queue: Arc<Shared>,
    pub(crate) holding: Arc<Holding>,
    pub(crate) jobs: Receiver<Job<T>>,
    pub(crate) give: Sender<Job<T>>,
}

/// The jobs that wait here, by their priorities.
struct Waiting<T> {
    jobs: [VecDeque<Job<T>>; PRIORITIES],
    picker: Picker,
}

impl<T> Waiting<T> {
    fn new() -> Waiting<T> {
        Waiting { jobs: Default::default(), picker: Picker::default() }
    }

    fn add(&mut self, job: Job<T>) {
        self.jobs[usize::from(job.priority())].push_back(job);
    }

    fn is_empty(&self) -> bool {
        self.jobs.iter().all(VecDeque::is_empty)
    }

    /// Removes the jobs that are lost.
    fn forget_lost(&mut self) {
        self.jobs.iter_mut().for_each(|jobs| jobs.retain(|job| !job.is_lost()));
    }

    /// Returns the job that is handed out next.
    fn take(&mut self) -> Option<Job<T>> {
        let priority = self.picker.pick(|priority| !self.jobs[usize::from(priority)].is_empty())?;
        self.picker.took(priority);
        self.jobs[usize::from(priority)].pop_front()
    }
}

impl<T> Gate<T> {
    /// Hands out jobs until no more are taken, or the task is cancelled.
    pub(crate) fn run(self) {
        let mut waiting = Waiting::new();
        // If the queue has got its rate or its priorities since the channel was made, that has room
        // for many jobs, which would be handed out too early. One place is enough. A channel without
        // a bound stays as it is.
        let places = self.give.capacity().unwrap_or(1);
        let kept: Result<Vec<_>, _> = (1..places).map(|_| self.give.reserve()).collect();
        if kept.is_ok() {
            while self.next(&mut waiting).is_some() {}
        }
        // What is left has not failed.
        self.holding.finish();
    }

    /// Hands out one job. Returns `None` if no more are handed out.
    fn next(&self, waiting: &mut Waiting<T>) -> Option<()> {
        if waiting.is_empty() {
            waiting.add(self.jobs.recv().ok()?);
        }
        // A more urgent one may come until there is room in the channel.
        let room = loop {
            select! {
                reserve(self.give) -> room => break room.ok()?,
                recv(self.jobs) -> job => waiting.add(job.ok()?),
            }
        };
        self.wait(waiting)?;
        while let Ok(job) = self.jobs.try_recv() {
            waiting.add(job);
        }
        waiting.forget_lost();
        let Some(job) = waiting.take() else { return Some(()) };
        let Err(refused) = room.send(job) else { return Some(()) };
        // It is given back as a job that was never begun.
        self.holding.finish();
        drop(refused);
        None
    }

    /// Waits for a place, or until all jobs that wait are lost. Returns `None` if no more jobs are
    /// handed out.
    fn wait(&self, waiting: &mut Waiting<T>) -> Option<()> {
        loop {
            let changed = self.holding.changed();
            if self.holding.is_finished() || self.give.is_closed() {
                return None;
            }
            waiting.forget_lost();
            if waiting.is_empty() || !self.queue.is_rated() {
                return Some(());
            }
            let asked = self.queue.engine().and_then(|engine| engine.start());
            let pause = match asked {
                Ok(None) => return Some(()),
                Ok(Some(pause)) => pause.min(PAUSES.0),
                // The end of the fleet, and a cancellation, end the next wait.
                Err(_) => PAUSES.1,
            };
            let is_cancelled = select! {
                wait(&changed) -> result => result.is_err(),
                default(pause) => ecru::is_cancelled(),
            };
            if is_cancelled || self.queue.core.check().is_err() {
                return None;
            }
        }
    }
}
