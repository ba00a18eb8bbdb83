//! Closures that block. They run on threads of the blocking pool while their task waits or goes on.
#![expect(unsafe_code, reason = "runs closures that borrow from a parked stack")]

#[cfg(feature = "sim")]
mod in_place;

use std::any::{Any, type_name};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use super::blocking::Job;
use super::worker;
use crate::base::local;
use crate::park::{self, About, Mode, Object, Single, Wait, What};
use crate::task::cancel::CancelNode;
use crate::task::{self, Kept, LeaveReason};

/// What a job needs and what it produces, on the stack of its task.
struct JobFrame<F, T> {
    wait: *const Single<()>,
    closure: Option<F>,
    result: Option<Result<T, Box<dyn Any + Send>>>,
    node: *const CancelNode,
    bindings: *const (),
    /// What the hook at switches keeps for the closure.
    kept: Kept,
}

/// Runs a closure that blocks its thread, or computes for long, on a separate thread. The task
/// waits, and its worker runs other tasks meanwhile.
///
/// The closure may borrow from the caller, because the caller waits for it. It keeps the caller's
/// task-locals and cancel scope, so [`is_cancelled`](crate::is_cancelled) works in it. Calls that
/// wait block its thread. On a plain thread the closure runs in place. In a
/// [simulation](crate::sim) it runs in place, too, on a stack of 8 MiB, and its waits are waits of
/// the task.
///
/// The pool has as many threads as are needed at once, up to 512. Lookups of host names, which run
/// on it, too, have at most 64 of them. Further closures wait for their
/// turn. A closure that itself waits in a call of this library does not count, so closures may wait
/// for tasks that call `unblock`.
///
/// # Panics
/// Panics with the closure's payload if the closure panics. Panics if it is called inside
/// [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is not a cancellation point. A closure that has been handed over is always awaited.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let mut words = vec!["undyed", "cloth"];
///     let longest = ecru::unblock(|| {
///         words.push("ecru");
///         words.iter().map(|word| word.len()).max()
///     });
///     assert_eq!(longest, Some(6));
///     assert_eq!(words.len(), 3);
/// });
/// ```
#[doc(alias = "spawn_blocking")]
#[track_caller]
pub fn unblock<F, T>(closure: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    park::refuse_if_no_suspend();
    let Some(worker) = worker::current().filter(|_| task::current_header().is_some()) else {
        return on_this_stack(closure);
    };
    #[cfg(feature = "sim")]
    if let Some(simulation) = &worker.simulation {
        return in_place::in_place(simulation, closure);
    }
    // A scope that the closure opens hangs below the task's own node, so requests must reach that
    // node.
    task::current_header().map(task::reach);
    let mut frame = JobFrame {
        wait: ptr::null(),
        closure: Some(closure),
        result: None,
        node: task::current_node(),
        bindings: task::bindings_now(),
        kept: Kept::inherited(),
    };
    // From here on, the frame is reached through this pointer alone until the job is over.
    let at = &raw mut frame;
    let what = const {
        // SAFETY: O1: the description does not use the object.
        &unsafe {
            What::ending_by_itself_about("a closure on a thread that may block", describe::<F>)
        }
    };
    let wait = Wait::new(what, Mode::Uninterruptible);
    let unblocked = wait.single_unless((), |wait| {
        // SAFETY: U1: the job has not been submitted.
        unsafe { (*at).wait = wait };
        let job = Job { run: run_job::<F, T>, data: at.cast_const().cast() };
        worker.pool.blocking.submit(job)?;
        worker.unblocking.set(worker.unblocking.get() + 1);
        Ok::<(), Job>(())
    });
    match unblocked {
        Ok(()) => worker.unblocking.set(worker.unblocking.get() - 1),
        // Not even one thread could be started. To hold up this worker is better than to fail.
        Err(_) => {
            frame.result = frame
                .closure
                .take()
                .map(|closure| on_this_stack(|| panic::catch_unwind(AssertUnwindSafe(closure))))
        }
    }
    match frame.result.take().expect("the job has run") {
        Ok(value) => value,
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Describes a wait for a closure by its type, which says in which function it was written.
fn describe<F>(_: *const (), _: usize) -> (&'static str, About) {
    let object = Object { text: format!("({})", type_name::<F>()), ..Object::default() };
    ("a closure on a thread that may block", About::Object(Box::new(object)))
}

/// Runs a closure on the caller's stack. It is out of line: a closure that has large locals usually
/// runs on another stack, and the frame of its caller, which is a task's, must not have room for
/// them.
#[cold]
#[inline(never)]
fn on_this_stack<T>(closure: impl FnOnce() -> T) -> T {
    closure()
}

/// A lookup on the pool that the calling task waits for, so that its worker does not count as
/// quiescent. Dropping it takes the lookup out of its line, unless it has begun.
#[derive(Debug)]
pub(crate) struct Expecting {
    ticket: u64,
    /// Drops the closure of a job that has not begun.
    discard: unsafe fn(*const ()),
}

impl Drop for Expecting {
    fn drop(&mut self) {
        // S2: the task is still on the worker on which this was made, because this does not leave
        // the task's stack.
        if let Some(worker) = worker::current() {
            worker.unblocking.set(worker.unblocking.get() - 1);
            if let Some(job) = worker.pool.blocking.withdraw_lookup(self.ticket) {
                // SAFETY: U3: the job was returned without having been run.
                unsafe { (self.discard)(job.data) };
            }
        }
    }
}

/// Runs a lookup on a thread of the pool, without waiting for it. A task that waits for the
/// closure's effect keeps the returned value until then. The closure has none of the task's locals,
/// and no cancellation reaches it.
///
/// # Errors
/// Returns the closure if the caller is no task of a pool, if no thread can be started, or in a
/// simulation.
pub(crate) fn look_up<F: FnOnce() + Send + 'static>(closure: F) -> Result<Expecting, F> {
    let Some(worker) = worker::current().filter(|_| task::current_header().is_some()) else {
        return Err(closure);
    };
    #[cfg(feature = "sim")]
    if worker.simulation.is_some() {
        return Err(closure);
    }
    let data = Box::into_raw(Box::new(closure));
    let job = Job { run: run_left::<F>, data: data.cast_const().cast() };
    match worker.pool.blocking.submit_lookup(job) {
        Ok(ticket) => {
            worker.unblocking.set(worker.unblocking.get() + 1);
            Ok(Expecting { ticket, discard: discard::<F> })
        }
        // SAFETY: U3: the job was returned without having been run.
        Err(_) => Err(*unsafe { Box::from_raw(data) }),
    }
}

unsafe fn discard<F>(data: *const ()) {
    // SAFETY: U3: the job is never run, so this is the only use of the box.
    drop(unsafe { Box::from_raw(data.cast_mut().cast::<F>()) });
}

unsafe fn run_left<F: FnOnce()>(data: *const ()) {
    // SAFETY: U3: a job is run once.
    let closure = unsafe { Box::from_raw(data.cast_mut().cast::<F>()) };
    // The panic hook has reported a panic, and no task waits for it.
    drop(panic::catch_unwind(AssertUnwindSafe(closure)));
}

unsafe fn run_job<F: FnOnce() -> T, T>(data: *const ()) {
    let frame = data.cast_mut().cast::<JobFrame<F, T>>();
    // SAFETY: U1: the frame waits, and only this thread touches the field until it ends the wait.
    let closure = unsafe { &mut (*frame).closure }.take().expect("a job runs once");
    // SAFETY: U1: the frame waits, and only this thread touches the field until it ends the wait.
    let (node, bindings) = (unsafe { (*frame).node }, unsafe { (*frame).bindings });
    // SAFETY: U1: the frame waits, and only this thread touches the field until it ends the wait.
    let kept = unsafe { &(*frame).kept };
    task::set_node(node);
    local::with(|local| local.bindings.set(bindings));
    task::hear_of_hook();
    kept.enter();
    let result = panic::catch_unwind(AssertUnwindSafe(closure));
    kept.leave(LeaveReason::Ended);
    task::set_node(ptr::null());
    local::with(|local| local.bindings.set(ptr::null()));
    // SAFETY: U1: the frame waits, and only this thread touches the field until it ends the wait.
    unsafe { (*frame).result = Some(result) };
    // SAFETY: U1: the frame waits, and only this thread touches the field until it ends the wait.
    let wait = unsafe { (*frame).wait };
    // SAFETY: S4: only this thread ends the wait. This is the last access.
    unsafe { Single::wake(wait) };
}
