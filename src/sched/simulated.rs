//! The worker of a simulated run.
//!
//! # What is different
//! - There is one worker, and one thread. Each turn begins with a question to the
//!   [director](super::simulation::Director): which of the tasks that can run is next, and how many
//!   *decision points* it may pass in its turn.
//! - A decision point is the beginning of each operation that may wait, whether or not it then
//!   waits, and each `spawn`. Outside of simulations the same code counts a task's budget. Here the
//!   budget is the director's, and a task that has used it up always gives the thread back.
//! - No task starts in place of the one that joins it. Tasks that have not started are in the ready
//!   queue and name no worker, as those of `spawn_local`.
//! - The worker neither listens, steals, places nor sleeps. If no task can run, it first wakes the
//!   tasks that [`settle`]. Then the driver moves the clock to the next time at which something
//!   happens. If there is none, the run is stuck.
//! - Another thread must not do anything to a task of the run, because the time at which it does so
//!   is not determined. What arrives in an inbox is reported to the director.
//!
//! [`foreign`] finds out what other threads do, [`requests`] has what the layer above asks, and
//! [`words`] what messages say.
//!
//! # Turns
//! ```text
//!   account for the last turn -> look around -> gather what is ready -> ask the director -> run it
//!                                                        | nothing
//!                                                        v
//!                                              wake the settlers, or move the clock
//! ```
#![expect(unsafe_code, reason = "runs tasks by pointer")]

mod foreign;
mod requests;
mod words;

use std::backtrace::Backtrace;
use std::mem;
use std::ptr;
use std::time::{Duration, Instant};

use super::host::{self, switch_away};
use super::runnable::Runnable;
use super::simulation::{Simulation, Turn};
use super::steering::{After, NextTurn, Stop};
use super::worker::{Worker, current};
use crate::base::sync::atomic::Ordering;
use crate::base::{clock, local, simulated};
use crate::coroutine::remaining_stack;
use crate::coroutine::switch::Suspender;
use crate::driver::PollTimeout;
use crate::park::{Host, Intent, Single, Waiter};
use crate::task::{self, CancelReason, Header, cancel};
pub(super) use foreign::note_waker;
use foreign::unpark;
use requests::pierce;
pub(crate) use requests::{
    cancel_through_shields, decision_point, end_waits, is_interfered_with, is_simulated,
    move_timers, settle,
};
pub(super) use requests::{decide, number};
use words::has_ended;
pub(crate) use words::{parked_tasks, waiting_tasks};

pub(super) static SIMULATED_HOST: Host = Host {
    unpark,
    is_cancelled: host::is_cancelled,
    park_until: host::park_until,
    hold: super::hold::hold,
    may_listen: || false,
    listen: |_| {},
    leave: host::leave,
    yield_now: host::yield_now,
    out_of_budget,
    blocks: |_| {},
};

/// [`Host::out_of_budget`].
fn out_of_budget() {
    if let (Some(worker), Some(header)) = (current(), task::current_header()) {
        note_place();
        // The account of the turn shall say that nothing is left.
        local::with(|local| local.budget.set(0));
        switch_away(worker, header, Intent::MakeRoom);
    }
}

/// The room that a stack trace needs.
const TRACE_ROOM: usize = 16 << 10;

/// Captures the place at which the running task is about to switch away, if a failed run is recorded
/// for its message.
pub(super) fn note_place() {
    if simulated::captures_places() && remaining_stack() >= TRACE_ROOM {
        simulated::set_place(Backtrace::force_capture());
    }
}

/// Returns the ordinal of a task, see [`Director`](super::simulation::Director).
fn ordinal(header: &Header) -> u64 {
    simulated::shown_number(header.id())
}

impl Simulation {
    /// Begins the run with its root. Returns the budget of the root's first stretch.
    pub(super) fn begin(&self, root: &Header) -> u32 {
        let choice = self.director.borrow_mut().next(&Runnable::of(&[ordinal(root)]));
        self.give_turn(root, ordinal(root), choice, true);
        choice.budget
    }

    /// Gives a task the turn.
    fn give_turn(&self, task: &Header, ordinal: u64, choice: NextTurn, is_root: bool) {
        self.director.borrow_mut().meet(task, ordinal);
        let NextTurn { budget, cancel, watch, .. } = choice;
        let holds = watch && !is_root;
        if holds {
            // Released by `account`.
            task.retain();
        }
        self.running.set(Some(Turn { task, ordinal, budget, holds }));
        if cancel {
            cancel::cancel(&task.node, CancelReason::Explicit);
        }
    }
}

impl Worker {
    /// Runs tasks until the run is over. This is the scheduler of a simulated run.
    pub(super) fn schedule_simulated(
        &self,
        simulation: &Simulation,
        suspender: &Suspender<(), ()>,
    ) {
        while !self.finished.get() {
            if self.simulated_turn(simulation) {
                suspender.suspend(());
            }
        }
        self.account(simulation);
        // Other simulations have not needed these either.
        self.pool.stacks.trim_idle();
    }

    /// Takes one turn. Returns true when the root is to run.
    fn simulated_turn(&self, simulation: &Simulation) -> bool {
        self.account(simulation);
        self.look_simulated(simulation, PollTimeout::Poll);
        if self.root_is_next.take() {
            return true;
        }
        self.gather(simulation);
        simulation.hold_back();
        if simulation.runnable.borrow().is_empty() {
            self.advance(simulation);
            return false;
        }
        let tasks = simulation.runnable.borrow().len();
        if simulation.director.borrow_mut().only_yield(tasks) {
            self.let_time_pass(simulation);
            return false;
        }
        let choice = {
            let runnable = simulation.runnable.borrow();
            simulation.director.borrow_mut().next(&runnable)
        };
        let (task, ordinal) = simulation.runnable.borrow_mut().take(choice.index);
        // SAFETY: T1: it was in the list of this worker's tasks that can run.
        let header = unsafe { &*task };
        let choice = self.cut_off(simulation, header, ordinal, choice);
        simulation.give_turn(header, ordinal, choice, task == self.root.get());
        if task == self.root.get() {
            local::with(|local| local.budget.set(choice.budget));
            return true;
        }
        // SAFETY: T1: it was in the list of this worker's tasks that can run.
        if unsafe { &*task }.has_fiber.get() {
            // SAFETY: T1: it was in the list of this worker's tasks that can run.
            unsafe { self.resume(task, choice.budget) };
        } else {
            local::with(|local| local.budget.set(choice.budget));
            // SAFETY: T1: it was in the list of this worker's tasks that can run, with the queue's
            // reference.
            unsafe { self.start_or_poll(task) };
        }
        false
    }

    /// Changes the choice for a task that is cut off: it passes no decision point, and so each of
    /// its waits begins with a turn. The request to cancel it then passes the innermost shield.
    fn cut_off(
        &self,
        simulation: &Simulation,
        task: &Header,
        ordinal: u64,
        choice: NextTurn,
    ) -> NextTurn {
        if !simulation.director.borrow_mut().cuts_off(task, ordinal) {
            return choice;
        }
        pierce(self, task);
        NextTurn { budget: 0, ..choice }
    }

    /// Tells the director how the last turn ended.
    fn account(&self, simulation: &Simulation) {
        let Some(turn) = simulation.running.take() else { return };
        let left = local::with(|local| {
            local.task.set(ptr::null());
            local.open_frames.set(0);
            local.budget.get()
        });
        task::note_none();
        // A task that panics gets the usual budget when its own is used up, and cannot be
        // preempted.
        let passed = turn.budget.saturating_sub(left);
        let stop = self.stop_of(&turn);
        let about = || self.about_turn(&turn, stop);
        let after = simulation.director.borrow_mut().ran(turn.ordinal, passed, stop, &about);
        if !self.finished.get() {
            match after {
                After::GoOn => {}
                After::Cancel => {
                    // SAFETY: T2/K1: it was watched, so it is the root, or the turn's reference is
                    // there. It has not ended, so its node is there.
                    cancel::cancel(unsafe { &(*turn.task).node }, CancelReason::Explicit);
                }
                After::End => self.end_run(simulation),
            }
        }
        if turn.holds {
            // SAFETY: T2: the turn's reference.
            unsafe { Header::release(turn.task) };
        }
    }

    /// Returns why a turn has ended that was over just now.
    fn stop_of(&self, turn: &Turn) -> Stop {
        if self.preempted.ends_with(turn.task) {
            return Stop::Cut;
        }
        if self.ready.ends_with(turn.task) {
            return Stop::Yielded;
        }
        // SAFETY: T2: the turn's reference.
        if turn.holds && has_ended(unsafe { &*turn.task }) {
            return Stop::Ended;
        }
        Stop::Waits
    }

    /// Cancels the root, once.
    fn end_run(&self, simulation: &Simulation) {
        if !simulation.ends.replace(true) {
            // SAFETY: T1: the root lives as long as its worker.
            let root = unsafe { &*self.root.get() };
            cancel::cancel(&root.node, CancelReason::Shutdown);
        }
    }

    /// Looks at the driver, the inboxes, the timers and the alarms.
    pub(super) fn look_simulated(&self, simulation: &Simulation, wait: PollTimeout) {
        task::hear_of_hook();
        // Hooks and callbacks run here, on behalf of no task.
        local::with(|local| {
            local.task.set(ptr::null());
            local.open_frames.set(0);
        });
        task::note_none();
        self.poll_io(wait);
        if self.shared.has_news() {
            self.receive_simulated(simulation);
        }
        let now = clock::common_now();
        // Time stands still in most turns.
        if simulation.looked_at.replace(Some(now)) != Some(now) {
            self.note_moment(now);
        }
        self.timers.ring_exact(now);
        self.call_wakers();
        simulated::ring_due();
    }

    /// Blocks until the wait of `header`, which is inside the panic hook, is over. Time goes on,
    /// but no task runs.
    pub(super) fn hold_simulated(&self, simulation: &Simulation, header: &Header, waiter: &Waiter) {
        let mut wait = PollTimeout::Poll;
        loop {
            self.look_simulated(simulation, wait);
            if waiter.is_over() && self.ready.take(header) {
                return;
            }
            let Some(next) = self.next_simulated() else { self.give_up_hook(header, waiter) };
            wait = PollTimeout::For(next.saturating_duration_since(clock::common_now()));
        }
    }

    /// Moves everything that is ready to the list of the tasks that can run.
    fn gather(&self, simulation: &Simulation) {
        let mut runnable = simulation.runnable.borrow_mut();
        loop {
            let mut task = self.ready.pop();
            if task.is_null() {
                task = self.preempted.pop();
            }
            if task.is_null() {
                // A dump has put what it found in an inbox there.
                task = self.shared.unstarted.pop_oldest();
            }
            // SAFETY: T1: a queued task lives.
            let Some(header) = (unsafe { task.as_ref() }) else { return };
            if !header.started.load(Ordering::Relaxed) {
                // No join may start it out of turn.
                header.worker.store(ptr::null_mut(), Ordering::Relaxed);
            }
            runnable.push(task, ordinal(header));
        }
    }

    /// Returns the next time at which something happens by itself.
    pub(super) fn next_simulated(&self) -> Option<Instant> {
        let event = self.io.borrow().driver.as_ref().and_then(|driver| driver.next_event());
        [event, self.timers.next_exact()].into_iter().flatten().min()
    }

    /// Lets the next thing happen that is due, although tasks can run: they wait for it in loops.
    fn let_time_pass(&self, simulation: &Simulation) {
        if !simulation.settlers.borrow().is_empty() {
            return self.advance(simulation);
        }
        let limit = simulation.director.borrow().limit();
        // If nothing is due, the loops end by the limit of steps.
        if self.next_simulated().is_some_and(|next| limit.is_none_or(|limit| next <= limit)) {
            self.advance(simulation);
        }
    }

    /// Lets something happen when no task can run.
    fn advance(&self, simulation: &Simulation) {
        if simulation.director.borrow_mut().is_idle() {
            return;
        }
        let settlers = mem::take(&mut *simulation.settlers.borrow_mut());
        if !settlers.is_empty() {
            for settler in settlers {
                // SAFETY: S4: only this call ends the wait, which is taken out of the list once.
                unsafe { Single::wake(settler) };
            }
            return;
        }
        let Some(next) = self.next_simulated() else {
            return simulation.director.borrow_mut().stuck();
        };
        let limit = simulation.director.borrow().limit();
        if limit.is_some_and(|limit| limit < next) {
            return simulation.director.borrow_mut().out_of_time();
        }
        let left = next.checked_duration_since(clock::common_now()).unwrap_or(Duration::ZERO);
        self.look_simulated(simulation, PollTimeout::For(left));
    }
}
