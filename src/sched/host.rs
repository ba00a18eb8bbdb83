//! How the waits of tasks are carried out: parking and unparking, deadlines, and cancellation.
//! Implements for tasks what [`crate::park`] declares.
#![expect(unsafe_code, reason = "reaches tasks, waiters and timers by pointer")]

use std::ptr;
use std::time::Instant;

use super::deadline::ending_at;
use super::hold::hold;
use super::interrupt::interrupt;
use super::record;
use super::shared::WorkerShared;
use super::timers::Timer;
use super::worker::{Worker, current};
use crate::base::sync::atomic::{self, Ordering};
use crate::park::{Host, Intent, Parker, Waiter};
use crate::task::{self, Header};

pub(super) static HOST: Host = Host {
    unpark,
    is_cancelled,
    park_until,
    hold,
    may_listen,
    listen,
    leave,
    yield_now,
    out_of_budget,
    blocks: |_| {},
};

/// Switches away from the current task.
#[inline(always)]
pub(super) fn switch_away(worker: &Worker, header: &Header, intent: Intent) {
    if ptr::eq(header, worker.root.get()) {
        // SAFETY: T1: the running root is in no queue.
        unsafe { worker.after(header, intent) };
        worker.resume_scheduler();
    } else {
        // SAFETY: T1: the running task's suspender is on its own stack.
        unsafe { &*header.running().parker.suspender() }.suspend(intent);
    }
}

/// [`Host::is_cancelled`].
pub(super) fn is_cancelled() -> bool {
    task::current_header().is_some_and(|header| task::reach(header).is_some())
}

/// [`Host::park_until`].
pub(super) fn park_until(parker: &Parker, waiter: &Waiter, deadline: Instant) {
    let Some(worker) = current() else { unreachable!("a task waits on its worker") };
    ending_at(worker, waiter, deadline, || parker.wait_out());
}

/// [`Host::leave`].
pub(super) fn leave() {
    if let Some(worker) = current() {
        worker.resume_scheduler();
    }
}

/// [`Host::yield_now`].
pub(super) fn yield_now() {
    try_yield();
}

/// [`Host::out_of_budget`].
fn out_of_budget() {
    if let (Some(worker), Some(header)) = (current(), task::current_header())
        && worker.is_allowance_over(header.running())
    {
        switch_away(worker, header, Intent::MakeRoom);
    }
}

/// Lets the other tasks run. Returns false if there is no task here. Inlined as [`Worker::turn`]
/// explains: a caller that does not return after the switch is predicted right.
#[inline(always)]
pub(crate) fn try_yield() -> bool {
    match (current(), task::current_header()) {
        (Some(worker), Some(header)) => {
            switch_away(worker, header, Intent::Yield);
            true
        }
        _ => false,
    }
}

/// [`Host::unpark`].
pub(super) unsafe fn unpark(owner: *const ()) {
    let task = owner.cast::<Header>();
    // SAFETY: P2: a parked task lives until it has been run again.
    let header = unsafe { &*task };
    if task::is_hooked() {
        record::wakes(header);
    }
    let home = header.worker.load(Ordering::Relaxed).cast::<WorkerShared>();
    match current() {
        Some(worker) if ptr::eq(worker.shared, home) => {
            // SAFETY: T1: it is parked here, hence in no queue.
            unsafe { worker.ready.push(task) };
        }
        _ => {
            // SAFETY: S6: never freed.
            let home = unsafe { &*home };
            // SAFETY: T1: it is parked, hence in no queue.
            unsafe { home.send_woken(task) };
        }
    }
}

/// [`Host::may_listen`].
fn may_listen() -> bool {
    current().is_some_and(|worker| worker.may_listen())
}

/// [`Host::listen`].
fn listen(waiter: &Waiter) {
    if let Some(worker) = current() {
        worker.listen_for(waiter);
    }
}

/// Tells a task's worker that a node of the task has been flagged: see [`crate::task::cancel`].
///
/// # Safety
/// T1: the task lives.
pub(crate) unsafe fn notify_cancelled(task: *const Header) {
    // SAFETY: T1, the caller's promise.
    let header = unsafe { &*task };
    // Acquire: the worker was stored before the flag.
    if !header.reachable.load(Ordering::Acquire) {
        // The task reads the flag before its first wait: see `reach`, which has the other fence.
        atomic::fence(Ordering::SeqCst);
        if !header.reachable.load(Ordering::Acquire) {
            return;
        }
    }
    let home = header.worker.load(Ordering::Relaxed).cast::<WorkerShared>();
    match current() {
        Some(worker) if ptr::eq(worker.shared, home) => interrupt(header),
        _ => {
            if !header.cancel_queued.swap(true, Ordering::AcqRel) {
                header.retain();
                // SAFETY: S6: never freed.
                let home = unsafe { &*home };
                // SAFETY: T2: the reference goes with the message.
                unsafe { home.send_cancelled(task) };
            }
        }
    }
}

/// Sets a timer of the current worker. Returns false on a plain thread, which has none.
///
/// # Safety
/// W1: as [`Timers::set`](super::timers::Timers::set).
#[inline]
pub(crate) unsafe fn set_timer(timer: &Timer, deadline: Instant) -> bool {
    match current() {
        None => false,
        Some(worker) => {
            // SAFETY: W1, the caller's promise.
            unsafe { worker.timers.set(timer, deadline) };
            true
        }
    }
}

/// Cancels a timer of the current worker.
#[inline]
pub(crate) fn cancel_timer(timer: &Timer) {
    if let Some(worker) = current() {
        worker.timers.cancel(timer);
    }
}
