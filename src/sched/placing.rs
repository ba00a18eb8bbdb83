//! The choice where a task starts: on the worker in whose queue it is, or on another that has less
//! to do.
//!
//! A started task never moves (S2), so its start is the last moment to choose. If tasks that
//! alternate between waiting and computing all stay where they were spawned, all cores but one may
//! go unused. To move a task costs about ten microseconds on two cores.
//!
//! # The rule
//! The worker that takes an unstarted task out of its queue asks three questions:
//!
//! 1. *Is the task worth moving?* Earlier tasks from the same source location decide this, see
//!    [`Sites`](super::placement::Sites). A task is worth moving unless those ended without a wait,
//!    or lived for less than [`SHORT`]. A task that computes and never waits needs no decision
//!    here: an idle worker steals it while it is in the queue ([`super::idle`]).
//! 2. *Which worker has the least to do?* An idle one, found in
//!    [`IdleSet`](super::placement::IdleSet), is preferred. If there is none, it is the better of
//!    two random ones (Mitzenmacher, "The power of two choices in randomized load balancing",
//!    2001). The measure is a worker's *burden*, the number of its tasks: started, unstarted and
//!    inbound. A worker that has not looked around for [`STALE`] is no target, unless it is idle.
//! 3. *Is the difference large enough?* An idle worker gets tasks if this one has others to run, or
//!    has more tasks. A busy worker gets some if this one has clearly more.
//!
//! The worker then hands over half of the difference as one chain, with one push and at most one
//! wake-up. A woken worker with more than one task decides in the same way for each of them. So a
//! logarithmic number of steps reaches many idle workers.
//!
//! # The tasks that are handed over
//! They lie in the target's `inbound` inbox ([`super::shared`]). The target takes them when it
//! looks around. An idle worker takes them when they have lain there for the length of a nap. So
//! nothing is stranded behind a target that turns out to be busy.
//!
//! All of this costs the same at any number of workers. With one worker, and with
//! [`Placement::Together`](super::Placement::Together), none of it happens.
#![expect(unsafe_code, reason = "hands tasks over by pointer")]

use std::panic::Location;
use std::ptr;
use std::time::Duration;

use super::placement::{Moment, SCORE_FIRST, SHORT, WATCHED_ONE_IN};
use super::shared::{Chain, WorkerShared};
use super::worker::Worker;
use crate::base::sync::atomic::Ordering;
use crate::base::{clock, random};
use crate::task::Header;

/// A worker that has not looked around for this long is no target, unless it is idle. Row:
/// `placement-mixed`.
const STALE: Duration = Duration::from_millis(1);
/// The most tasks in one hand-over. Row: `placement-pool-early`.
const BATCH_MAX: usize = 64;

/// What to do with a task that was about to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// The task starts here. `is_watched` tells whether its life is to be recorded.
    Here { is_watched: bool },
    /// The task has been handed to another worker.
    Moved,
}

impl Worker {
    /// Decides where an unstarted task that was taken out of this worker's queue starts. Hands it,
    /// or younger tasks, over if that is better.
    ///
    /// # Safety
    /// T1: the task is in no queue, and its queue's reference is the caller's. [`Placed::Moved`]
    /// means that the reference has been given away.
    #[inline]
    pub(super) unsafe fn place(&self, task: *const Header) -> Placed {
        // SAFETY: T1, the caller's promise.
        let header = unsafe { &*task };
        let score = self.pool.sites.score(header.spawned_at());
        // SAFETY: T1, the caller's promise.
        if score != 0 && may_be_handed_over(header, self.shared) && unsafe { self.hand_over(task) }
        {
            return Placed::Moved;
        }
        Placed::Here { is_watched: self.is_to_be_watched(score) }
    }

    #[inline]
    fn is_to_be_watched(&self, score: u64) -> bool {
        if (1..=SCORE_FIRST).contains(&score) {
            return true;
        }
        let left = self.until_watched.get();
        self.until_watched.set(if left == 0 { WATCHED_ONE_IN } else { left - 1 });
        left == 0
    }

    /// Hands tasks over if another worker has clearly less to do. Returns whether this task is
    /// among them. If this worker has younger tasks, it keeps this one, which it can start at once.
    ///
    /// # Safety
    /// T1: as [`Worker::place`].
    #[inline(never)]
    unsafe fn hand_over(&self, task: *const Header) -> bool {
        let own = self.shared.burden();
        let is_alone = own == 0 && self.ready.is_empty();
        if is_alone {
            return false;
        }
        let Some((target, burden)) = self.target(own) else { return false };
        let others = self.shared.unstarted.len();
        let wanted = (own + 1).saturating_sub(burden).div_ceil(2).clamp(1, BATCH_MAX);
        let mut batch = Chain::EMPTY;
        while batch.len() < wanted.min(others) {
            let younger = self.shared.unstarted.pop_oldest();
            // SAFETY: T1: taken out of the queue just now, with its reference.
            let Some(header) = (unsafe { younger.as_ref() }) else { break };
            if header.started.load(Ordering::Relaxed) {
                // SAFETY: T2: the queue's reference.
                unsafe { Header::release(younger) };
                continue;
            }
            if !may_be_handed_over(header, self.shared) {
                self.shared.unstarted.push(younger);
                break;
            }
            // SAFETY: T1: taken out of the queue just now. Only a join on this worker could start
            // it, and this worker is in its loop.
            unsafe { batch.push(younger) };
        }
        let moves = batch.len() == 0;
        if moves {
            // SAFETY: T1, the caller's promise.
            unsafe { batch.push(task) };
        }
        // SAFETY: T1: put into the chain above.
        unsafe { target.send_inbound(batch) };
        // The target may be about to run a long task. Then a watcher takes these tasks from its
        // inbox.
        self.pool.note_spawn();
        moves
    }

    /// Returns the worker that is to get tasks of this one, and that worker's burden. `own` is the
    /// burden of this worker without the task that is about to start.
    fn target(&self, own: usize) -> Option<(&'static WorkerShared, usize)> {
        let workers = &self.pool.workers;
        if let Some(index) = self.pool.idle.any() {
            let burden = workers[index].burden();
            let has_others_to_run = !self.ready.is_empty() || self.shared.unstarted.len() > 0;
            if !has_others_to_run && burden >= own {
                return None;
            }
            // Another worker may have chosen it at the same time.
            if self.pool.idle.remove(index) {
                return Some((workers[index], burden));
            }
        }
        let slack = 1 + own / 8;
        if own <= slack {
            return None;
        }
        let now = Moment::at(clock::now(), self.pool.epoch);
        let pick = || {
            let index = (self.index + 1 + random::below(workers.len() - 1)) % workers.len();
            (workers[index], workers[index].burden())
        };
        let best = [pick(), pick()].into_iter().min_by_key(|(_, burden)| *burden)?;
        let is_reachable =
            best.0.is_asleep() || now.since(best.0.looked_at.load(Ordering::Relaxed)) < STALE;
        (is_reachable && best.1 + slack < own).then_some(best)
    }

    /// Records that a watched task has been started here. `has_ended` means that it ended without
    /// switching away.
    ///
    /// # Safety
    /// T1: unless it has ended, the task lives and belongs to this worker.
    #[cold]
    pub(super) unsafe fn watch_task(
        &self,
        task: *const Header,
        site: &'static Location<'static>,
        has_ended: bool,
    ) {
        if has_ended {
            self.pool.sites.note(site, true);
        } else {
            let now = Moment::at(clock::now(), self.pool.epoch);
            // SAFETY: T1, the caller's promise.
            unsafe { &*task }.watched_since.set(now.word());
        }
    }

    /// Records that a task that was watched since the moment `since` has ended.
    #[cold]
    pub(super) fn note_end(&self, site: &'static Location<'static>, since: u32) {
        let now = Moment::at(clock::now(), self.pool.epoch);
        self.pool.sites.note(site, now.since(since) < SHORT);
    }
}

/// Returns whether a task that `worker` took out of its own queue may be linked into a chain.
///
/// A stolen task may not. Its `worker` still names the victim, where a join may start it at any
/// moment.
fn may_be_handed_over(header: &Header, worker: &WorkerShared) -> bool {
    let named = header.worker.load(Ordering::Relaxed);
    !header.started.load(Ordering::Relaxed)
        && ptr::eq(named, ptr::from_ref(worker).cast_mut().cast())
}

#[cfg(all(test, loom))]
mod loom_models;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::Location;
    use std::ptr;

    use super::may_be_handed_over;
    use crate::base::sync::atomic::Ordering;
    use crate::sched::deque::Taken;
    use crate::sched::shared::WorkerShared;
    use crate::task::{Header, VTable};

    const VTABLE: VTable = VTable::bare(crate::sched::notify_cancelled);

    /// The victim of a theft may start the task by a join while the thief decides where it goes.
    #[test]
    fn a_stolen_task_is_not_handed_over() {
        let task = Header::new(
            &VTABLE,
            ptr::null(),
            ptr::null(),
            ptr::null(),
            true,
            false,
            None,
            Location::caller(),
        );
        let [victim, thief] = [(); 2].map(|()| WorkerShared::obtain());
        assert!(!may_be_handed_over(&task, victim));
        task.worker.store(ptr::from_ref(victim).cast_mut().cast(), Ordering::Relaxed);
        assert!(may_be_handed_over(&task, victim));
        victim.unstarted.push(&raw const task);
        assert!(
            matches!(victim.unstarted.steal(), Taken::Task(stolen) if ptr::eq(stolen, &raw const task))
        );
        thief.unstarted.push(&raw const task);
        assert_eq!(thief.unstarted.pop_oldest(), &raw const task);
        assert!(!may_be_handed_over(&task, thief));
        // A task that came through an inbox is the worker's own.
        task.worker.store(ptr::from_ref(thief).cast_mut().cast(), Ordering::Relaxed);
        assert!(may_be_handed_over(&task, thief));
        task.started.store(true, Ordering::Relaxed);
        assert!(!may_be_handed_over(&task, thief));
        victim.retire();
        thief.retire();
    }
}
