//! The loop that picks the next task.
#![expect(unsafe_code, reason = "runs tasks by pointer")]

use super::pace::Pause;
use super::placing::Placed;
use super::worker::Worker;
use crate::base::{clock, local};
use crate::task::{FIRST_ALLOWANCE, Header};

impl Worker {
    /// Takes one turn of the loop. Returns true when the root is to run.
    ///
    /// This and everything between a switch and the next is inlined. The processor predicts a
    /// return by the last call that it saw, and across a switch that was another task's call. Each
    /// return after a switch would cost a misprediction.
    #[inline(always)]
    pub(super) fn turn(&self) -> bool {
        if self.restraint.holds() { self.restrained_turn() } else { self.take_turn::<false>() }
    }

    /// Takes a turn while unstarted tasks are held back. Out of line, so that the usual turn stays
    /// short.
    #[inline(never)]
    fn restrained_turn(&self) -> bool {
        self.take_turn::<true>()
    }

    #[inline(always)]
    fn take_turn<const RESTRAINED: bool>(&self) -> bool {
        let turns = self.turns.get();
        self.turns.set(turns.wrapping_sub(1));
        if turns == 0 && self.look_after_turns::<RESTRAINED>() {
            return true;
        }
        // A worker with ready and unstarted tasks alternates, unless the unstarted ones are held
        // back.
        let ready_first = !self.unstarted_first.get();
        let mut task =
            if ready_first { self.ready.pop() } else { self.shared.unstarted.pop_oldest() };
        let mut from_ready = ready_first;
        if task.is_null() {
            if RESTRAINED && self.promote() {
                return false;
            }
            from_ready = !ready_first;
            task = if ready_first { self.shared.unstarted.pop_oldest() } else { self.ready.pop() };
        }
        if task.is_null() {
            if !self.promote() {
                self.idle();
            }
            return false;
        }
        self.unstarted_first.set(from_ready && !RESTRAINED);
        if from_ready {
            if task == self.root.get() {
                return true;
            }
            // SAFETY: T1: it was ready on this worker.
            unsafe { self.go_on(task) };
        } else if self.places {
            // SAFETY: T1: it was in this worker's queue.
            unsafe { self.place_or_begin(task) };
        } else {
            // SAFETY: T1: it was in this worker's queue.
            unsafe { self.begin(task) };
        }
        false
    }

    /// Called when the current number of turns is over. Looks around if that is due. Returns true
    /// if the root is to run.
    #[inline(never)]
    fn look_after_turns<const RESTRAINED: bool>(&self) -> bool {
        let now = clock::now();
        let pause = self.pace.turns_are_over(now);
        let (Pause::GoOn(turns) | Pause::LookAround(turns)) = pause;
        self.turns.set(turns);
        if matches!(pause, Pause::GoOn(_)) {
            return self.root_is_next.take();
        }
        self.look_around(now);
        // Before the root, since a task that makes dumps may ask for the root in each of its turns.
        if self.pace.is_promotion_due() {
            self.promote();
        }
        if self.root_is_next.take() {
            return true;
        }
        if RESTRAINED && self.restraint.is_over() {
            self.unstarted_first.set(true);
        }
        false
    }

    /// Begins a task from the queue of unstarted ones, with a slice and a budget of its own.
    /// Returns whether it has ended, or `None` if a join had started it.
    ///
    /// # Safety
    /// T1: as [`Worker::start_if_first`].
    #[inline(always)]
    unsafe fn begin(&self, task: *const Header) -> Option<bool> {
        self.restraint.begin_slice();
        local::with(|local| local.budget.set(u32::from(FIRST_ALLOWANCE)));
        // SAFETY: T1, the caller's promise.
        let ended = unsafe { self.start_if_first(task, false) };
        if ended.is_some() {
            self.restraint.learn();
        }
        ended
    }

    /// Begins a task here, or hands it to another worker.
    ///
    /// # Safety
    /// T1: as [`Worker::start_if_first`].
    #[inline(always)]
    unsafe fn place_or_begin(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        let Placed::Here { is_watched } = (unsafe { self.place(task) }) else { return };
        if !is_watched {
            // SAFETY: T1, the caller's promise.
            unsafe { self.begin(task) };
            return;
        }
        // SAFETY: T1, the caller's promise.
        let site = unsafe { &*task }.spawned_at();
        // SAFETY: T1, the caller's promise.
        if let Some(ended) = unsafe { self.begin(task) } {
            // SAFETY: T1: it was started here just now.
            unsafe { self.watch_task(task, site, ended) };
        }
    }

    /// Makes the next preempted task ready. Returns false if there is none.
    #[inline(never)]
    fn promote(&self) -> bool {
        let task = self.preempted.pop();
        if task.is_null() {
            return false;
        }
        self.restraint.begin_slice();
        // SAFETY: T1: it was in the other queue just now.
        unsafe { self.ready.push(task) };
        true
    }

    /// Runs a task from the ready queue: a suspended one, or one that may start only here.
    #[inline(always)]
    unsafe fn go_on(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        let header = unsafe { &*task };
        if header.has_fiber.get() {
            let budget = self.pace.budget_of(header.running());
            // SAFETY: T1, the caller's promise.
            unsafe { self.resume(task, budget) };
        } else {
            local::with(|local| local.budget.set(u32::from(FIRST_ALLOWANCE)));
            // SAFETY: T1, the caller's promise.
            unsafe { self.start_or_poll(task) };
        }
    }
}
