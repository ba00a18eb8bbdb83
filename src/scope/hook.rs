//! Hooks: what to do when a request to stop arrives at code that does not look.
//!
//! # States of a hook
//! ```text
//!             a canceller claims it, under the locks of the tree
//!   WAITING ------------------------------------------------------> RUNNING ---> OVER
//!      |                                                               |           ^
//!      | the body has returned                      the body has returned          |
//!      v                                                               v           |
//!     OVER                                                          AWAITED -------+  and the frame is woken
//! ```
//! The frame leaves when the state is OVER, and not before (K3).
#![expect(unsafe_code, reason = "a canceller runs a hook that lives on somebody's stack")]

use std::cell::UnsafeCell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use super::frame::Opened;
use super::watchdog;
use crate::base::sync::atomic::Ordering;
use crate::park::{self, About, Mode, Waiter};
use crate::task;
use crate::task::cancel::HookNode;

const AWAITED: u32 = 3;

/// Runs `body`, and `hook` if a request to stop arrives meanwhile: for foreign code that does not look for cancellation but
/// can be told some other way (closing a connection, setting a flag of its own).
///
/// The hook runs at most once, on the thread of whoever cancels, and must not wait: it runs under
/// [`no_suspend`](crate::no_suspend). Its panic is caught and goes no further. If it is running when `body` ends, it is awaited. If
/// the request came before `body` began, the hook runs before it.
///
/// # Panics
/// With the body's panic. Inside [`no_suspend`](crate::no_suspend): a hook that is running is awaited.
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
    let frame = Frame {
        hook_node: HookNode::new(task::current_node(), owner, run::<H>),
        hook: UnsafeCell::new(Some(hook)),
        waiter: UnsafeCell::new(None),
    };
    let _leave = Leave(&frame);
    let _opened = Opened::inside(&frame.hook_node.node);
    // First to go: what it watches is further out.
    let _watched = watchdog::watch();
    if frame.hook_node.node.cancelled().is_some() && frame.claim() {
        // Asked before there was a hook to run.
        // SAFETY: K3: claimed just now.
        unsafe { run::<H>(&raw const frame.hook_node) };
    }
    body()
}

#[repr(C)]
struct Frame<H> {
    hook_node: HookNode,
    hook: UnsafeCell<Option<H>>,
    /// Written before the state becomes AWAITED, read by whoever ends it.
    waiter: UnsafeCell<Option<Waiter>>,
}

impl<H> Frame<H> {
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

    /// Returns once no hook is running or can be started any more. The node is out of the tree.
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
        // SAFETY: K3: read by the hook's thread only after the exchange below.
        unsafe { *self.waiter.get() = Some(Waiter::new()) };
        // SAFETY: K3: nobody writes it again; shared from here on with the hook's thread.
        let waiter = unsafe { (*self.waiter.get()).as_ref() }.expect("written just now");
        waiter.set_purpose("a hook that is running", About::Nothing);
        let awaited =
            state.compare_exchange(HookNode::RUNNING, AWAITED, Ordering::AcqRel, Ordering::Acquire);
        if awaited.is_ok() {
            task::wait(waiter, None, Mode::Uninterruptible);
        }
    }
}

struct Leave<'f, H>(&'f Frame<H>);

impl<H> Drop for Leave<'_, H> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Runs the hook of a claimed node.
unsafe fn run<H: FnOnce()>(node: *const HookNode) {
    let frame = node.cast::<Frame<H>>();
    // SAFETY: K3: claimed, so the frame waits for OVER and the hook is this thread's.
    let frame = unsafe { &*frame };
    // SAFETY: K3, as above.
    let hook = unsafe { (*frame.hook.get()).take() };
    // There is nobody to tell about a panic: the canceller has its own business.
    if let Err(payload) =
        panic::catch_unwind(AssertUnwindSafe(|| park::no_suspend(|| hook.map(|hook| hook()))))
    {
        task::drop_quietly(payload);
    }
    if frame.hook_node.state.swap(HookNode::OVER, Ordering::AcqRel) == AWAITED {
        // SAFETY: K3: written before the state became AWAITED; the frame waits for the unpark below.
        let waiter = unsafe { (*frame.waiter.get()).as_ref() }
            .expect("written before the state was changed");
        // SAFETY: S4: nobody else claims a wait that cannot be interrupted; the last access.
        unsafe { Waiter::wake(waiter) };
    }
}

#[cfg(all(test, loom))]
mod loom_models;
