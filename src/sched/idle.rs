//! What a worker does when it has nothing to run: looks around, watches for others' work, sleeps. See [`super::pool`].

use std::time::Instant;

use super::deque::Taken;
use super::pool::{CLEARLY_MORE, WATCH_FIRST, WATCH_LAST, WATCH_PATIENCE};
use super::worker::Worker;
use crate::base::clock;
use crate::base::sync::atomic::Ordering;
use crate::driver::Wait;

impl Worker {
    /// Returns when there may be something to run, or the worker is to end.
    #[cold]
    pub(super) fn idle(&self) {
        self.look_around(Wait::Poll);
        if self.has_work() {
            return;
        }
        if self.pool.start_watch() {
            let found = self.watch();
            // Whoever gives up leaves the watch to whom the next spawn wakes; whoever finds work, to another at once if
            // there is more.
            self.pool.end_watch(true);
            if found {
                if self.others_have_work() {
                    self.pool.wake_watcher();
                }
                return;
            }
        }
        if self.pool.stopping.load(Ordering::SeqCst) {
            self.finished.set(true);
            return;
        }
        self.stacks.borrow_mut().trim();
        self.nap(None);
    }

    fn has_work(&self) -> bool {
        let (oldest, next) = self.shared.unstarted.span();
        !self.ready.is_empty() || oldest < next || self.finished.get()
    }

    fn others_have_work(&self) -> bool {
        self.pool.workers.iter().any(|worker| {
            let (oldest, next) = worker.unstarted.span();
            oldest < next
        })
    }

    /// Naps and looks at the others' queues in turn. True: there is something to run.
    fn watch(&self) -> bool {
        let mut seen: Vec<(isize, isize)> = self.pool.workers.iter().map(|worker| worker.unstarted.span()).collect();
        let mut pause = WATCH_FIRST;
        let mut quiet = 0;
        loop {
            if self.steal(&seen) {
                return true;
            }
            if self.pool.stopping.load(Ordering::SeqCst) {
                return false;
            }
            if quiet == WATCH_PATIENCE {
                // One more nap after the flag is up: a spawn that has missed it is visible then.
                self.pool.want_watch(true);
            }
            self.nap(Some(clock::now() + pause));
            if self.has_work() {
                return true;
            }
            let now: Vec<(isize, isize)> = self.pool.workers.iter().map(|worker| worker.unstarted.span()).collect();
            let spawned = now.iter().zip(&seen).any(|(now, seen)| now.1 != seen.1);
            if quiet == WATCH_PATIENCE {
                if !spawned && now.iter().all(|(oldest, next)| oldest >= next) {
                    return false;
                }
                self.pool.want_watch(false);
            }
            quiet = if spawned { 0 } else { quiet + 1 };
            pause = (pause * 2).min(WATCH_LAST);
            if self.steal_aged(&now, &seen) {
                return true;
            }
            seen = now;
        }
    }

    /// Takes a task that waits behind clearly more started ones than this worker has.
    fn steal(&self, _seen: &[(isize, isize)]) -> bool {
        let own = self.shared.load.load(Ordering::Relaxed);
        self.pool.workers.iter().enumerate().any(|(index, worker)| {
            index != self.index
                && worker.load.load(Ordering::Relaxed) > own + CLEARLY_MORE
                && self.take_from(index, 1)
        })
    }

    /// Takes what was queued before the last nap and still is.
    fn steal_aged(&self, now: &[(isize, isize)], before: &[(isize, isize)]) -> bool {
        (0..now.len()).any(|index| {
            let aged = before[index].1 - now[index].0;
            // Half of them: the owner keeps on working too.
            index != self.index && aged > 0 && self.take_from(index, (aged + 1).cast_unsigned() / 2)
        })
    }

    /// Takes up to `wanted` of the oldest of another worker.
    fn take_from(&self, index: usize, wanted: usize) -> bool {
        let victim = self.pool.workers[index];
        let mut taken = 0;
        while taken < wanted {
            match victim.unstarted.steal() {
                Taken::Empty => break,
                Taken::Lost => continue,
                Taken::Task(task) => {
                    self.shared.unstarted.push(task);
                    taken += 1;
                }
            }
        }
        taken > 0
    }

    /// Sleeps until there is news, a timer is due, or the given moment.
    fn nap(&self, until: Option<Instant>) {
        let for_good = until.is_none();
        let timer = self.timers.next();
        let until = match (until, timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let in_driver = self.io.borrow().is_open();
        if self.shared.fall_asleep(in_driver) {
            // Whoever stops the pool, or spawned while nobody watched, may have looked just before.
            let last_look = self.pool.stopping.load(Ordering::SeqCst)
                || (for_good && self.pool.is_watch_wanted() && self.others_have_work());
            if last_look {
                self.shared.wake_up();
            } else if in_driver {
                let wait = match until {
                    None => Wait::Forever,
                    Some(until) => Wait::For(until.saturating_duration_since(clock::now())),
                };
                self.io.borrow_mut().poll(self, wait);
                self.shared.wake_up();
            } else {
                self.shared.sleep(until);
            }
        }
        self.look_around(Wait::Poll);
    }
}
