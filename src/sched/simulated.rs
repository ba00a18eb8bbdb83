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
//! # Turns
//! ```text
//!   account for the last turn -> look around -> gather what is ready -> ask the director -> run it
//!                                                        | nothing
//!                                                        v
//!                                              wake the settlers, or move the clock
//! ```
#![expect(unsafe_code, reason = "runs tasks by pointer")]

use std::backtrace::Backtrace;
use std::mem;
use std::ptr;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::host::{self, switch_away};
use super::interrupt::interrupt;
use super::runnable::Runnable;
use super::shared::WorkerShared;
use super::simulation::{Simulation, Turn};
use super::steering::{After, NextTurn, Stop};
use super::worker::{Worker, current};
use crate::base::sync::atomic::Ordering;
use crate::base::{clock, local, simulated};
use crate::coroutine::remaining_stack;
use crate::coroutine::switch::Suspender;
use crate::driver::PollTimeout;
use crate::park::{self, About, Host, Intent, Mode, Purpose, Single, Waiter, What, verb};
use crate::task::{self, CancelReason, DONE, Header, StartedEntry, TaskId, cancel};

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

/// The threads outside of simulations that have ended a wait of a simulated task, with the
/// addresses of its worker's shared state. The worker takes them when the task arrives.
static FOREIGN: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());

/// [`Host::unpark`].
unsafe fn unpark(owner: *const ()) {
    // SAFETY: P2: a parked task lives until it has been run again.
    note_unparker(unsafe { &*owner.cast::<Header>() });
    // SAFETY: P2, the caller's promise.
    unsafe { host::unpark(owner) };
}

/// Notes which thread ends the wait of a simulated task, if it is not the thread of its simulation.
fn note_unparker(header: &Header) {
    let home = header.worker.load(Ordering::Relaxed);
    if !current().is_some_and(|worker| ptr::eq(ptr::from_ref(worker.shared).cast(), home)) {
        let name = thread::current()
            .name()
            .map_or(String::from("a thread without a name"), |name| format!("the thread '{name}'"));
        FOREIGN.lock().unwrap_or_else(PoisonError::into_inner).push((home.addr(), name));
    }
}

/// Does the same for a task whose future is woken. It may belong to no simulation.
pub(super) fn note_waker(header: &Header) {
    if simulated::has_number(header.id()) {
        note_unparker(header);
    }
}

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

/// A decision point of a call that does not wait. It is none where the caller must not be
/// suspended.
pub(crate) fn decision_point() {
    if let Some(worker) = current() {
        decide(worker);
    }
}

/// The same for a call on this worker.
#[cold]
pub(super) fn decide(worker: &Worker) {
    if worker.simulation.is_some()
        && task::current_header().is_some()
        && park::may_suspend()
        && !thread::panicking()
    {
        task::spend_budget();
    }
}

/// Returns whether the current thread is the worker of a simulated run.
pub(crate) fn is_simulated() -> bool {
    current().is_some_and(|worker| worker.simulation.is_some())
}

/// Waits until no other task of the simulated run can run before time advances. Returns false if
/// the caller is no task of such a run.
#[track_caller]
pub(crate) fn settle() -> bool {
    park::refuse_if_no_suspend();
    let simulation = current().and_then(|worker| worker.simulation.as_ref());
    let Some(simulation) = simulation.filter(|_| task::current_header().is_some()) else {
        return false;
    };
    let what = const { &What::new("all other tasks to be blocked (settle)") };
    let wait = park::Wait::new(what, Mode::Uninterruptible);
    wait.single((), |single| simulation.settlers.borrow_mut().push(single));
    true
}

/// Does to the waits of some tasks of the simulated run what a cancellation does, also within
/// shields, and to those that cannot return an error. Called outside of any task.
pub(crate) fn end_waits(of: impl Fn(&Header) -> bool) {
    simulated::interrupting_by_force(|| {
        for_each_started(|task| {
            if of(task) {
                task.running().parker.interrupt(|| true);
            }
        });
    });
}

/// Cancels some tasks of the simulated run as far as their innermost shields keep requests from
/// them. They have been cancelled outside of their shields.
pub(crate) fn cancel_through_shields(of: impl Fn(&Header) -> bool) {
    let Some(worker) = current() else { return };
    for_each_started(|task| {
        if of(task) {
            pierce(worker, task);
        }
    });
}

/// Cancels the innermost shield around the code of a task, as [`cancel_through_shields`] does.
fn pierce(worker: &Worker, task: &Header) {
    // SAFETY: T1: the root lives as long as its worker.
    let root = unsafe { &*worker.root.get() };
    // SAFETY: T4: on the task's worker, and null before its start and after its end.
    let running = unsafe { task.running.get().as_ref() };
    let node = running.map_or(&raw const task.node, |running| running.node_top());
    // SAFETY: K1: a started task's innermost node is on its stack or in its header, and the nodes
    // above outlive it. A simulation has one thread, and the task does not run, unless it calls
    // this.
    unsafe { cancel::pierce(node, &root.node, CancelReason::Explicit) };
}

/// Returns whether another thread is in the middle of what it does to the simulated run: it has
/// ended a wait and has not sent the task, it spawns a task, or what it has done has arrived.
/// Called outside of any task, when no task can run.
pub(crate) fn is_interfered_with() -> bool {
    let Some(worker) = current() else { return false };
    let Some(simulation) = &worker.simulation else { return false };
    // A thread that spawns has this lock until it has sent the task.
    let spawns = matches!(worker.pool.run.try_lock(), Err(TryLockError::WouldBlock));
    let mut wakes = false;
    for_each_started(|task| {
        // SAFETY: S4: the task does not run. If it is parked, the frame of its wait is there.
        let waiter = unsafe { task.running().parker.parked_on().as_ref() };
        wakes |= waiter.is_some_and(Waiter::is_over) && !simulation.holds(task);
    });
    worker.for_each_pending(|task| wakes |= task.is_woken() && !simulation.holds(task));
    // The last look: what has been sent before the others is seen now.
    spawns || wakes || worker.shared.has_news()
}

/// Describes the tasks of the simulated run that are parked, with what they wait for and where. The
/// root comes last. Called by the running task.
pub(crate) fn parked_tasks() -> Vec<String> {
    let running = task::current_header().map_or(ptr::null(), ptr::from_ref);
    let mut parked = Vec::new();
    for_each_started(|task| {
        if ptr::eq(task, running) {
            return;
        }
        // SAFETY: S4: the task does not run, so if it is parked, the frame of its wait is there.
        if let Some(waiter) = unsafe { waiter_of(task) } {
            let Purpose { what, at, .. } = waiter.purpose();
            let waits = verb(what);
            parked.push(format!("{}, which {waits} {what}, at {at}", task.description()));
        }
    });
    // It is shown first, and mostly waits for its tasks.
    if let Some(worker) = current()
        && !ptr::eq(worker.root.get(), running)
        && !parked.is_empty()
    {
        parked.rotate_left(1);
    }
    parked
}

/// Changes the virtual times of those timers of the simulated run that were set by a clock.
pub(crate) fn move_timers(clock: u16, moved: impl Fn(Instant) -> Instant) {
    if let Some(worker) = current() {
        worker.timers.move_exact(clock, moved);
    }
}

/// Calls `each` for the root, for the running task, and for the tasks of the run that have switched
/// away at least once and have not ended. The running task may be shown twice.
fn for_each_started(mut each: impl FnMut(&Header)) {
    let Some(worker) = current() else { return };
    // SAFETY: T1: the root lives as long as its worker.
    each(unsafe { &*worker.root.get() });
    if let Some(running) = task::current_header() {
        each(running);
    }
    let mut link = worker.started.first();
    while !link.is_null() {
        // SAFETY: T6: an entry in the list exists, and the link is its first field.
        let entry = unsafe { &*link.cast::<StartedEntry>() };
        link = entry.link.next();
        // SAFETY: T6: a task in the list has not ended.
        each(unsafe { &*entry.task });
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

    /// Describes the task of a turn that has ended just now, and what it did then.
    fn about_turn(&self, turn: &Turn, stop: Stop) -> (String, String) {
        let is_root = turn.task == self.root.get();
        if !turn.holds && !is_root && stop == Stop::Waits {
            // The task may have ended.
            return (format!("task #{}", turn.ordinal), String::from("waits, or has ended"));
        }
        // SAFETY: T1/T2: the root lives as long as its worker, the turn has a reference to a task
        // that was watched, and all others are in a queue.
        let header = unsafe { &*turn.task };
        let did = match stop {
            Stop::Cut => String::from("was interrupted at a decision point"),
            Stop::Yielded => String::from("yielded"),
            Stop::Waits if !(is_root && self.finished.get()) => {
                // SAFETY: S4: the task has not been run since, so the frame of its wait is there.
                unsafe { waiter_of(header) }.map_or_else(
                    || String::from("waits for its future to be woken"),
                    |waiter| describe_wait(waiter.purpose()),
                )
            }
            Stop::Waits | Stop::Ended => String::from("ended"),
        };
        (header.description(), did)
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

    /// Empties the inboxes. What other threads have put there ends the run.
    #[cold]
    fn receive_simulated(&self, simulation: &Simulation) {
        let mut foreign = None;
        self.shared.receive_woken(|task| {
            // SAFETY: T1: it came through the inbox of this worker, so it lives and is in no queue.
            let header = unsafe { &*task };
            // Hidden tasks of this run come this way, too.
            if header.started.load(Ordering::Relaxed) {
                foreign =
                    Some(format!("{} ended the wait of {}", thread_of(self.shared), about(header)));
            }
            // SAFETY: T1: it came through the inbox of this worker, so it lives and is in no queue.
            unsafe { self.ready.push(task) };
        });
        self.shared.receive_cancelled(|task| {
            // SAFETY: T2: the message's reference.
            let header = unsafe { &*task };
            // The task may have ended, perhaps with an earlier run that had this inbox. Then the
            // request changes nothing.
            if !has_ended(header) {
                foreign = Some(format!("another thread cancelled {}", header.description()));
            }
            interrupt(header);
            // SAFETY: T2: the message's reference.
            unsafe { Header::release(task) };
        });
        self.shared.take_inbound(|task| {
            // SAFETY: T1: as for the woken ones. The reference is the queue's.
            let header = unsafe { &*task };
            foreign = Some(format!("another thread spawned {}", header.description()));
            // SAFETY: T1: as for the woken ones. The reference is the queue's.
            unsafe { self.ready.push(task) };
        });
        if let Some(call) = foreign {
            simulation.director.borrow_mut().foreign(call);
            self.end_run(simulation);
        }
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

/// Returns the name of the thread that has sent a woken task to this worker.
fn thread_of(shared: &WorkerShared) -> String {
    let address = ptr::from_ref(shared).addr();
    let mut foreign = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner);
    match foreign.iter().position(|(home, _)| *home == address) {
        Some(place) => foreign.remove(place).1,
        None => String::from("another thread"),
    }
}

/// Returns whether a task that has started has ended.
fn has_ended(header: &Header) -> bool {
    header.running.get().is_null() && header.state() & DONE != 0
}

/// Returns what a task is parked on, or `None` if it is not parked or its work is a future.
///
/// # Safety
/// S4: the task is not running, and has not been run since it parked.
unsafe fn waiter_of(header: &Header) -> Option<&Waiter> {
    // SAFETY: T4: on the task's worker.
    let running = unsafe { header.running.get().as_ref() }?;
    // SAFETY: S4, by this function's contract.
    unsafe { running.parker.parked_on().as_ref() }
}

/// Describes a wait that lasts.
fn describe_wait(purpose: Purpose) -> String {
    let Purpose { what, about, at } = purpose;
    let mut text = format!("{} {what}", verb(what));
    match about {
        About::Task(other) => {
            // SAFETY: T2: the frame of the wait holds a reference to it.
            let other = unsafe { &*other.cast::<Header>() };
            text.push_str(&format!(" task {}", TaskId::of(other)));
            if let Some(name) = other.name() {
                text.push_str(&format!(" '{}'", name.escape_debug()));
            }
        }
        About::Fd { name, peer, shown_peer, .. } => {
            if let Some(name) = shown_peer.or(peer).or(name) {
                text.push_str(&format!(" {name}"));
            }
        }
        About::Object(object) => text.push_str(&format!(" {}", object.text)),
        About::Nothing | About::Scope(..) | About::Time(_) => {}
    }
    let own = file!().strip_suffix("sched/simulated.rs").unwrap_or(file!());
    if !at.file().starts_with(own) {
        text.push_str(&format!(", at {at}"));
    }
    text
}

/// Describes a task that was parked until just now, and what it waited for.
fn about(header: &Header) -> String {
    // SAFETY: S4: the task has not been run since, so the frame of its wait is there.
    let waiter = unsafe { waiter_of(header) };
    let waited = waiter.map(|waiter| {
        let Purpose { what, at, .. } = waiter.purpose();
        let before = if what.starts_with("to ") { "" } else { " for" };
        format!("{before} {what}, at {at}")
    });
    let name = header.name().map_or_else(String::new, |name| format!(" '{}'", name.escape_debug()));
    format!("task {}{name}{}", TaskId::of(header), waited.unwrap_or_default())
}
