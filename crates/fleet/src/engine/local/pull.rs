//! Taking jobs from a queue in memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use ecru::source::WaitList;
use ecru::{Source, select};

use super::jobs::Taken;
use super::lease::LocalLease;
use super::queue::Queue;
use crate::engine::{Delivery, Pull};
use crate::errors::disconnected;

pub(super) struct LocalPull {
    queue: Arc<Queue>,
    window: Arc<Window>,
}

/// How many deliveries of a pull are alive.
struct Window {
    size: usize,
    alive: AtomicUsize,
    stopped: AtomicBool,
    list: WaitList,
}

/// The place of a delivery in its window.
pub(super) struct Slot(Arc<Window>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Release);
        self.0.list.notify_all();
    }
}

/// What a pull sees when it looks.
enum Look {
    Stopped,
    Ended,
    Job(Taken, Instant),
    /// There is no job now. The next look is at this time, or when something changes.
    Nothing(Option<Instant>),
}

/// Ready when there is a job, none will come, or the time to look again has changed.
struct Ready<'a> {
    pull: &'a LocalPull,
    again: Option<Instant>,
}

impl Source for Ready<'_> {
    type Item = Look;

    fn try_take(&self) -> Option<Look> {
        match self.pull.look() {
            Look::Nothing(again) if again == self.again => None,
            look => Some(look),
        }
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(self.pull.queue.list());
        each(&self.pull.window.list);
    }
}

impl LocalPull {
    pub(super) fn new(queue: &Arc<Queue>, window: usize) -> LocalPull {
        let (alive, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let window = Window { size: window, alive, stopped, list: WaitList::new() };
        LocalPull { queue: Arc::clone(queue), window: Arc::new(window) }
    }

    fn look(&self) -> Look {
        if self.queue.has_ended() {
            return Look::Ended;
        }
        if self.window.stopped.load(Ordering::Acquire) {
            return Look::Stopped;
        }
        if self.window.alive.load(Ordering::Acquire) >= self.window.size {
            return Look::Nothing(None);
        }
        let now = ecru::time::now();
        match self.queue.with(|jobs| jobs.take(&self.queue.settings(), now)) {
            Ok(taken) => Look::Job(taken, now),
            Err(when) => Look::Nothing(when),
        }
    }

    fn delivery(&self, taken: Taken, received: Instant) -> Delivery {
        let Taken { id, payload, number, delivery, begun, priority, trace } = taken;
        // Only `next` takes places, and it is called by one task at a time.
        self.window.alive.fetch_add(1, Ordering::Relaxed);
        let lease = LocalLease {
            queue: Arc::clone(&self.queue),
            number,
            delivery,
            claimed: AtomicBool::new(false),
            _slot: Slot(Arc::clone(&self.window)),
        };
        let (sequence, requested, lease) = (number, Some(received), Box::new(lease));
        Delivery {
            id,
            payload,
            sequence,
            delivery,
            priority,
            trace,
            begun,
            received,
            requested,
            lease,
        }
    }
}

impl Pull for LocalPull {
    fn next(&self) -> io::Result<Option<Delivery>> {
        // A cancelled task takes nothing.
        ecru::checkpoint()?;
        let mut look = self.look();
        loop {
            look = match look {
                Look::Stopped => return Ok(None),
                Look::Ended => return Err(disconnected()),
                Look::Job(taken, received) => return Ok(Some(self.delivery(taken, received))),
                Look::Nothing(None) => Ready { pull: self, again: None }.wait()?,
                Look::Nothing(again @ Some(until)) => {
                    let ready = Ready { pull: self, again };
                    let pause = until.saturating_duration_since(ecru::time::now());
                    select! {
                        wait(&ready) -> look => look?,
                        default(pause) => self.look(),
                    }
                }
            };
        }
    }

    fn stop(&self) {
        self.window.stopped.store(true, Ordering::Release);
        self.window.list.notify_all();
    }
}
