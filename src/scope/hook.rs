//! Cancellation hooks, for code that does not check for cancellation by itself.
//!
//! # States of a hook
//! ```text
//!             a canceller claims it, under the locks of the tree
//!   WAITING ------------------------------------------------------> RUNNING ---> OVER
//!      |                                                               |           ^
//!      | the body has returned                      the body has returned          |
//!      v                                                               v           |
//!     OVER                                                          AWAITED -------+
//!                                                                      the frame is woken
//! ```
//! The frame is left only when the state is OVER (K3).
#![expect(unsafe_code, reason = "a canceller runs a hook that lives on another task's stack")]

use std::cell::UnsafeCell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::time::Duration;

use super::frame::Opened;
use crate::base::alarm::Alarm;
use crate::base::sync::atomic::Ordering;
use crate::park::{self, Mode, Single, Wait, What};
use crate::task::cancel::{CancelByService, HookNode};
use crate::task::{self, CancelReason};

const AWAITED: u32 = 3;

/// Runs `body`, and runs `hook` if a cancellation request arrives meanwhile. This is meant for
/// foreign code that does not check for cancellation but can be stopped in another way, such as by
/// closing a connection or setting a flag of its own.
///
/// The hook runs at most once, on the thread that cancels. It must not wait: it runs under
/// [`no_suspend`](crate::no_suspend). A panic in the hook is caught and discarded. If the hook is
/// running when `body` ends, `on_cancel` waits for it. If the request came before the call, the
/// hook runs before `body`.
///
/// # Panics
/// Panics inside [`no_suspend`](crate::no_suspend), because this function waits for a running hook.
/// Propagates a panic of `body`.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// ecru::run(|| {
///     let stop = AtomicBool::new(false);
///     ecru::cancel_scope(|c| {
///         ecru::on_cancel(|| stop.store(true, Ordering::Relaxed), || {
///             c.cancel();
///             // Foreign code that polls its own flag.
///             while !stop.load(Ordering::Relaxed) {}
///         });
///     });
///     assert!(stop.into_inner());
/// });
/// ```
#[track_caller]
pub fn on_cancel<H, T>(hook: H, body: impl FnOnce() -> T) -> T
where
    H: FnOnce() + Send,
{
    park::refuse_if_no_suspend();
    let owner = task::current_header().map_or(ptr::null(), ptr::from_ref);
    let frame = HookFrame {
        hook_node: HookNode::new(task::current_node(), owner, run::<H>),
        hook: UnsafeCell::new(Some(hook)),
        waiter: UnsafeCell::new(ptr::null()),
    };
    let _leave = Leave(&frame);
    let _opened = Opened::inside(&frame.hook_node.node);
    // Declared last, so that it is dropped first: the node that it watches is further out.
    let _overdue = enforce_if_overdue();
    if frame.hook_node.node.cancelled().is_some() && frame.claim() {
        // The request came before the hook was linked.
        // SAFETY: K3: claimed just now.
        unsafe { run::<H>(&raw const frame.hook_node) };
    }
    body()
}

#[repr(C)]
struct HookFrame<H> {
    hook_node: HookNode,
    hook: UnsafeCell<Option<H>>,
    /// Written before the state becomes AWAITED, and read by the thread that then sets it to OVER.
    waiter: UnsafeCell<*const Single<()>>,
}

impl<H> HookFrame<H> {
    fn claim(&self) -> bool {
        self.hook_node
            .state
            .compare_exchange(
                HookNode::WAITING,
                HookNode::RUNNING,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    }

    /// Returns once the hook is not running and can no longer start. The node is already out of the
    /// tree.
    fn leave(&self) {
        let state = &self.hook_node.state;
        let given_up = state
            .compare_exchange(
                HookNode::WAITING,
                HookNode::OVER,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok();
        if given_up || state.load(Ordering::Acquire) == HookNode::OVER {
            return;
        }
        park::give_up_last_look();
        let wait = Wait::new(const { &What::new("a hook that is running") }, Mode::Uninterruptible);
        // An error: the hook is over, so there is nothing to wait for.
        let _ = wait.single_unless((), |wait| {
            // SAFETY: K3: the hook's thread reads the slot only after the exchange below.
            unsafe { *self.waiter.get() = wait };
            state
                .compare_exchange(HookNode::RUNNING, AWAITED, Ordering::AcqRel, Ordering::Acquire)
                .map(drop)
        });
    }
}

/// How long the worker's own timer may take before it counts as overdue.
const GRACE: Duration = Duration::from_millis(2);

/// Has the service enforce the nearest fixed time limit around the running code, if there is one, when
/// the worker that should do it is busy. A limit is a timer of its task's worker. If that task is
/// stuck in a call that does not check for cancellation, the worker does not run its timers. The
/// service enforces limits that move in any case.
fn enforce_if_overdue() -> Option<(Alarm, CancelByService)> {
    let (deadline, node) = task::nearest_fixed_deadline()?;
    let due = deadline.checked_add(GRACE)?;
    // SAFETY: K5: the result is dropped with the hook's frame, and the limit's is further out.
    let request = unsafe { CancelByService::new(node, CancelReason::Deadline) };
    // An error: the worker's own timer still makes the request, only later.
    let alarm = Alarm::set_aside(due, request.ring()).ok()?;
    Some((alarm, request))
}

struct Leave<'f, H>(&'f HookFrame<H>);

impl<H> Drop for Leave<'_, H> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Runs the hook of a claimed node.
unsafe fn run<H: FnOnce()>(node: *const HookNode) {
    let frame = node.cast::<HookFrame<H>>();
    // SAFETY: K3: the hook is claimed by this thread, so the frame waits for OVER.
    let frame = unsafe { &*frame };
    // SAFETY: K3: only the thread that has claimed the hook uses the cell.
    let hook = unsafe { (*frame.hook.get()).take() };
    // The payload is discarded: the hook's panic does not concern the canceller.
    if let Err(payload) =
        panic::catch_unwind(AssertUnwindSafe(|| park::no_suspend(|| hook.map(|hook| hook()))))
    {
        task::drop_quietly(payload);
    }
    if frame.hook_node.state.swap(HookNode::OVER, Ordering::AcqRel) == AWAITED {
        // SAFETY: K3: written before the state became AWAITED. The frame waits for the call below.
        let wait = unsafe { *frame.waiter.get() };
        // SAFETY: S4: only this thread ends the wait. This is the last access.
        unsafe { Single::wake(wait) };
    }
}

#[cfg(all(test, loom))]
mod loom_models;
