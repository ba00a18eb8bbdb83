//! Models of the waits of a task against requests to cancel it. A wait that finds the flag
//! `is_clear` of its task's parker set does not ask whether the task has been cancelled. No request
//! is lost by that.
//!
//! The task waits twice, by the same functions as any task. The first wait ends at its deadline,
//! and may have set the flag. The second wait ends only by a cancellation. If the request is lost,
//! the worker sleeps forever, which loom reports.

use loom::thread;
use std::cell::Cell;
use std::panic::Location;
use std::ptr;
use std::time::Instant;

use super::interrupt;
use crate::base::local;
use crate::base::sync::atomic::Ordering;
use crate::park::{Host, Mode, Outcome, Parker, Wait, Waiter, What, enter_host};
use crate::sched::shared::WorkerShared;
use crate::task::cancel::{self, CancelNode, CancelReason, Kind};
use crate::task::{self, Header, Running, VTable};

const VTABLE: VTable = VTable::bare(crate::sched::notify_cancelled);

static WHAT: What = What::new("a model");

/// A task, its scope, and the worker that it belongs to.
#[repr(C)]
struct Task {
    header: Header,
    /// A node that the task makes its innermost one between the two waits.
    inner: CancelNode,
    scope: CancelNode,
    worker: WorkerShared,
    is_runnable: Cell<bool>,
}

/// The task's worker, whose only task is the running one.
static HOST: Host = Host {
    unpark: |task| unsafe { &*task.cast::<Task>() }.is_runnable.set(true),
    is_cancelled: || task::current_header().is_some_and(|header| task::reach(header).is_some()),
    park_until,
    hold: |_, _| {},
    may_listen: || false,
    listen: |_| {},
    leave,
    yield_now: || {},
    out_of_budget: || {},
    blocks: |_| {},
};

/// Returns the running task.
fn running() -> &'static Task {
    unsafe { &*local::with(|local| local.task.get()).cast::<Task>() }
}

/// Handles the messages to the worker.
fn receive(task: &Task) {
    task.worker.receive_cancelled(|header| {
        interrupt(unsafe { &*header });
        unsafe { Header::release(header) };
    });
}

/// Ends the wait at its deadline, unless a message ends it before.
fn park_until(_: &Parker, waiter: &Waiter, _: Instant) {
    let task = running();
    receive(task);
    unsafe { Waiter::time_out(waiter) };
    assert!(task.is_runnable.replace(false));
}

/// Runs the worker until the task is runnable.
fn leave() {
    let task = running();
    loop {
        receive(task);
        if task.is_runnable.replace(false) {
            return;
        }
        if task.worker.fall_asleep(false) {
            task.worker.sleep(None);
        }
    }
}

/// A task that both threads use.
#[derive(Clone, Copy)]
struct Shared(*mut Task);
unsafe impl Send for Shared {}

impl Shared {
    fn get<'a>(self) -> &'a Task {
        unsafe { &*self.0 }
    }
}

/// Makes `request` on another thread while a task waits twice. Calls `between` between the waits.
fn check(request: fn(&Task) -> bool, between: fn(&Task)) {
    loom::model(move || {
        let task: *mut Task = Box::into_raw(Box::<Task>::new_uninit()).cast();
        let scope = unsafe { &raw const (*task).scope };
        let header = Header::new(
            &VTABLE,
            ptr::null(),
            scope,
            ptr::null(),
            true,
            false,
            None,
            Location::caller(),
        );
        let inner =
            CancelNode::new(unsafe { &raw const (*task).header.node }, task.cast(), Kind::Plain);
        let new = Task {
            header,
            inner,
            scope: CancelNode::new(ptr::null(), ptr::null(), Kind::Plain),
            worker: WorkerShared::new(),
            is_runnable: Cell::new(false),
        };
        unsafe { task.write(new) };
        let shared = Shared(task);
        let task = shared.get();
        let parts = Running::new(&raw const task.header.node);
        task.header.node.set_owner(&raw const task.header);
        task.header.running.set(&raw const parts);
        let thread = thread::spawn(move || request(shared.get()));
        // The task starts.
        task.header.started.store(true, Ordering::Release);
        let worker = (&raw const task.worker).cast_mut();
        task.header.worker.store(worker.cast(), Ordering::Relaxed);
        local::with(|local| local.task.set(ptr::from_ref(task).cast()));
        let host = enter_host(&HOST);

        let wait = Wait::new(&WHAT, Mode::Cancellable);
        let first = Wait { deadline: Some(Instant::now()), ..wait }.alone();
        assert!(matches!(first, Outcome::TimedOut(()) | Outcome::Cancelled(())));
        between(task);
        assert!(matches!(wait.alone(), Outcome::Cancelled(())), "nothing else ends it");

        drop(host);
        local::with(|local| local.task.set(ptr::null()));
        thread.join().unwrap();
        task.worker.receive_cancelled(|header| unsafe { Header::release(header) });
        cancel::unlink(&task.inner);
        cancel::unlink(&task.header.node);
        task.header.running.set(ptr::null());
        drop(unsafe { Box::from_raw(shared.0) });
    });
}

#[test]
fn a_request_to_the_scope_ends_a_wait_that_does_not_ask() {
    check(|task| cancel::cancel(&task.scope, CancelReason::Explicit), |_| ());
}

#[test]
fn a_request_by_handle_ends_a_wait_that_does_not_ask() {
    check(|task| cancel::cancel(&task.header.node, CancelReason::Explicit), |_| ());
}

/// The messages are handled between the waits, while other tasks of the worker run.
#[test]
fn a_message_that_finds_the_task_running_makes_the_next_wait_ask() {
    check(|task| cancel::cancel(&task.scope, CancelReason::Explicit), receive);
}

/// The node that the first wait has asked is not the innermost one any more. The new one is not
/// linked yet, so a message does not tell whether it is to be flagged.
#[test]
fn a_wait_below_a_new_node_asks_again() {
    check(
        |task| cancel::cancel(&task.scope, CancelReason::Explicit),
        |task| {
            task.header.running().replace_node(&raw const task.inner);
        },
    );
}
