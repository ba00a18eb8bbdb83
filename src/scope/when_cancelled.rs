//! Waiting for the cancellation of a section of code, from outside of it.
//!
//! # Protocol
//! Each [`WhenCancelled`] hangs a hook below the section's node. The thread that cancels the section
//! claims the hook, and later runs it without a lock: it notifies the waiters. The hook lies in a
//! [`Listener`], which holds a reference to itself for the thread that runs it.
//!
//! | state of the hook | the reference in `runner` belongs to |
//! |---|---|
//! | `WAITING` | nothing yet |
//! | `RUNNING` | the canceller that has claimed the hook |
//! | `OVER` | the `WhenCancelled` that is being dropped |
//!
//! A listener that is dropped is taken out of the section's list first. So a canceller has claimed
//! it before, or never will. Neither waits for the other.
#![expect(unsafe_code, reason = "a canceller runs a hook that another thread may be dropping")]

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::section::Section;
use crate::base::sync::atomic::Ordering;
use crate::park::WaitList;
use crate::source::Source;
use crate::task::CancelReason;
use crate::task::cancel::{self, HookNode};

/// The source returned by [`CancelHandle::cancelled`](super::CancelHandle::cancelled).
#[must_use = "it does nothing unless something waits for it"]
pub struct WhenCancelled {
    listener: Arc<Listener>,
}

#[repr(C)]
struct Listener {
    /// The first field, so that a pointer to the node is also a pointer to this struct.
    hook: HookNode,
    waiters: WaitList,
    section: Arc<Section>,
    /// The listener itself, for the thread that runs the hook.
    runner: UnsafeCell<Option<Arc<Listener>>>,
}

// SAFETY: K3: the thread that moves the state of the hook away from `WAITING` has the cell alone.
unsafe impl Sync for Listener {}
// SAFETY: K3: what is in the cell is dropped by the thread that has claimed the hook, which may be
// any, and it is another reference to a listener.
unsafe impl Send for Listener {}

impl WhenCancelled {
    pub(super) fn new(section: &Arc<Section>) -> WhenCancelled {
        let listener = Arc::new(Listener {
            hook: HookNode::new(section.node(), ptr::null(), run),
            waiters: WaitList::new(),
            section: Arc::clone(section),
            runner: UnsafeCell::new(None),
        });
        // SAFETY: K3: no other thread knows the hook yet.
        unsafe { *listener.runner.get() = Some(Arc::clone(&listener)) };
        // SAFETY: K1: the listener stays in its allocation, which is kept until the node has been
        // unlinked. It keeps the section.
        unsafe { cancel::attach(&listener.hook.node) };
        WhenCancelled { listener }
    }
}

/// Notifies the waiters of a listener whose hook has been claimed.
unsafe fn run(hook: *const HookNode) {
    // SAFETY: K3, K4: the hook is the first field of a listener, which keeps itself until the line
    // below.
    let runner = unsafe { &(*hook.cast::<Listener>()).runner };
    // SAFETY: K3: this thread has claimed the hook.
    let listener = unsafe { (*runner.get()).take() };
    if let Some(listener) = listener {
        listener.waiters.notify_all();
    }
}

impl Drop for WhenCancelled {
    fn drop(&mut self) {
        let hook = &self.listener.hook;
        cancel::unlink(&hook.node);
        let given_up = hook.state.compare_exchange(
            HookNode::WAITING,
            HookNode::OVER,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if given_up.is_ok() {
            // SAFETY: K3: no thread has claimed the hook, and none will.
            drop(unsafe { (*self.listener.runner.get()).take() });
        }
    }
}

impl Source for WhenCancelled {
    type Item = CancelReason;

    fn try_take(&self) -> Option<CancelReason> {
        self.listener.section.node().cancelled().map(|cancelled| cancelled.reason())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.listener.waiters);
    }
}

impl fmt::Debug for WhenCancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WhenCancelled").field(&self.try_take()).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
