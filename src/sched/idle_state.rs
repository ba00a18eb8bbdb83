//! What an idle worker remembers between two moments without work.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use super::shared::WorkerShared;
use crate::base::clock;
use crate::task::Header;

/// The first nap of the watching worker.
pub(super) const WATCH_FIRST: Duration = Duration::from_micros(20);
/// The longest nap of the watching worker.
pub(super) const WATCH_LAST: Duration = Duration::from_millis(1);
/// The longest nap after tasks that were not worth stealing.
pub(super) const WATCH_LAST_UNWORTHY: Duration = Duration::from_millis(10);
/// Naps without a spawn before the worker stops watching.
pub(super) const WATCH_PATIENCE: u32 = 8;
/// A stolen task that keeps its thief busy for less than this was not worth the trip.
const WORTHY: Duration = Duration::from_micros(2);
/// The most tasks taken at once.
const STEAL_MAX: usize = 256;

/// The unstarted tasks of a worker at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenQueues {
    /// The span of its queue.
    pub(super) queued: (isize, isize),
    /// The newest task in its inbox. For comparison only.
    pub(super) inbound: *const Header,
    /// When a task was first seen to be the oldest in the queue.
    pub(super) oldest_since: Instant,
}

impl SeenQueues {
    pub(super) fn new(worker: &WorkerShared, now: Instant) -> SeenQueues {
        SeenQueues {
            queued: worker.unstarted.span(),
            inbound: worker.newest_inbound(),
            oldest_since: now,
        }
    }

    /// Looks at the same worker again.
    pub(super) fn update(&mut self, worker: &WorkerShared, now: Instant) {
        let before = std::mem::replace(self, SeenQueues::new(worker, now));
        let (oldest, next) = before.queued;
        if oldest < next && oldest == self.queued.0 {
            self.oldest_since = before.oldest_since;
        }
    }
}

/// Tasks that were taken from another worker at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theft {
    pub(super) at: Instant,
    pub(super) count: usize,
    /// The number of started tasks of the thief before.
    pub(super) live_before: usize,
}

/// What a worker remembers between two idle moments.
#[derive(Debug)]
pub(super) struct IdleState {
    /// The queues of all workers at the last look. What was there then has aged.
    pub(super) seen: RefCell<Vec<SeenQueues>>,
    /// The last theft, to judge whether it was worth the trip.
    pub(super) stolen: Cell<Option<Theft>>,
    /// How many tasks to steal next time, and how long to nap before.
    pub(super) appetite: Cell<usize>,
    pub(super) pause: Cell<Duration>,
    /// Whether the last tasks that were taken are waiting here, instead of having ended.
    pub(super) theft_waits: Cell<bool>,
    /// When memory was last returned, and how many times since there was work.
    pub(super) tidied: Cell<Instant>,
    pub(super) tidy_times: Cell<u32>,
    /// Whether this worker was woken, perhaps by a spawn that wanted a watcher, and has not begun
    /// to watch since.
    pub(super) summoned: Cell<bool>,
    /// Whether a message from another thread ended the last sleep, so that the next may come soon.
    pub(super) conversing: Cell<bool>,
}

impl IdleState {
    pub(super) fn new() -> IdleState {
        IdleState {
            seen: RefCell::new(Vec::new()),
            stolen: Cell::new(None),
            appetite: Cell::new(1),
            pause: Cell::new(WATCH_FIRST),
            theft_waits: Cell::new(false),
            tidied: Cell::new(clock::now()),
            tidy_times: Cell::new(0),
            summoned: Cell::new(false),
            conversing: Cell::new(false),
        }
    }

    /// Learns from the last theft. `live` is the number of started tasks of this worker. Returns
    /// whether to steal more at once.
    pub(super) fn judge(&self, live: usize) -> bool {
        let Some(Theft { at, count, live_before }) = self.stolen.take() else { return false };
        let worthy = clock::now().saturating_duration_since(at)
            / u32::try_from(count).unwrap_or(u32::MAX)
            >= WORTHY;
        self.theft_waits.set(live > live_before);
        if worthy {
            self.appetite.set((self.appetite.get() * 2).min(STEAL_MAX));
            self.pause.set(WATCH_FIRST);
        } else {
            self.appetite.set(1);
            self.pause.set((self.pause.get() * 2).min(WATCH_LAST_UNWORTHY));
        }
        worthy
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{IdleState, Theft};
    use crate::base::clock;

    /// A first start takes long, so the time says little about tasks that wait.
    #[test]
    fn a_theft_waits_if_its_tasks_are_still_there() {
        let state = IdleState::new();
        for (live_before, live, waits) in [(3, 5, true), (3, 3, false), (3, 1, false)] {
            state.stolen.set(Some(Theft { at: clock::now(), count: 2, live_before }));
            state.judge(live);
            assert_eq!(state.theft_waits.get(), waits, "{live_before} before, {live} now");
        }
    }
}
