//! What the layer that starts simulations, and the code of their tasks, ask of the worker.
#![expect(unsafe_code, reason = "handles tasks by pointer")]

use std::sync::TryLockError;
use std::thread;
use std::time::Instant;

use crate::base::simulated;
use crate::park::{self, Mode, Waiter, What};
use crate::sched::worker::{Worker, current};
use crate::task::{self, CancelReason, Header, StartedEntry, cancel};

/// A decision point of a call that does not wait. It is none where the caller must not be
/// suspended.
pub(crate) fn decision_point() {
    if let Some(worker) = current() {
        decide(worker);
    }
}

/// The same for a call on this worker.
#[cold]
pub(in crate::sched) fn decide(worker: &Worker) {
    if worker.simulation.is_some()
        && task::current_header().is_some()
        && park::may_suspend()
        && !thread::panicking()
    {
        task::spend_budget();
    }
}

/// Numbers a task that is being spawned. Otherwise a task would get its number when it is first
/// named, and a run that describes its turns would number its tasks in another order.
pub(in crate::sched) fn number(task: &Header) {
    let _ = task.id();
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
pub(super) fn pierce(worker: &Worker, task: &Header) {
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

/// Changes the virtual times of those timers of the simulated run that were set by a clock.
pub(crate) fn move_timers(clock: u16, moved: impl Fn(Instant) -> Instant) {
    if let Some(worker) = current() {
        worker.timers.move_exact(clock, moved);
    }
}

/// Calls `each` for the root, for the running task, and for the tasks of the run that have switched
/// away at least once and have not ended. The running task may be shown twice.
pub(super) fn for_each_started(mut each: impl FnMut(&Header)) {
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
