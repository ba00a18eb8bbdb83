//! Timers of code that polls: a waker is called when a time has come.
//!
//! A deadline of a task is a timer on the stack that waits ([`deadline`](super::deadline)). A future
//! has no stack, may be moved to another thread between two polls, and may be dropped there. So its
//! timer is a [`Nap`] on the heap with two owners: the future, and the worker in whose wheel it is
//! set.
//!
//! # Protocol
//! ```text
//!   the future                                   the worker that has set the timer
//!   ---------------------------------------      ------------------------------------------
//!   stores its waker, under the lock             the time has come, or the worker ends:
//!   sets the timer: `set` is true,                 `set` is false
//!     the wheel owns a reference                   takes the waker, under the lock
//!   later: stores its waker,                       calls it later, and drops its reference
//!     then looks at `set`
//! ```
//! Only its worker touches the timer. A future that is dropped there cancels it. One that is dropped
//! on another thread takes its waker back, and leaves the timer to its time. A worker whose run ends
//! wakes all futures, which set another timer where they are polled next.
#![expect(unsafe_code, reason = "a timer in a wheel owns a reference")]

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use super::timers::Timer;
use super::worker::{Worker, current, current_worker};
use crate::base::alarm::Ring;
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::driver;
use crate::task::drop_quietly;

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Nap {
    /// The first field, so that a pointer to the timer is also one to the nap.
    timer: Timer,
    /// The identity of the worker, for comparison only. While `set` is true, it is alive.
    worker: *const (),
    set: AtomicBool,
    waker: SpinLock<Option<Waker>>,
}

// SAFETY: W1: only the worker touches the timer. The rest may be shared.
unsafe impl Send for Nap {}
// SAFETY: W1: only the worker touches the timer. The rest may be shared.
unsafe impl Sync for Nap {}

impl Nap {
    /// Creates one that calls `waker`. Sets its timer, unless this thread is no worker. Then the
    /// caller has it [rung](Ring).
    pub(crate) fn set(due: Instant, waker: Waker) -> Arc<Nap> {
        let worker = current();
        let nap = Arc::new(Nap {
            timer: Timer::new(ring),
            worker: current_worker(),
            set: AtomicBool::new(true),
            waker: SpinLock::new(Some(waker)),
        });
        if let Some(worker) = worker {
            // The wheel's reference. Its address is that of the timer.
            let _ = Arc::into_raw(Arc::clone(&nap));
            // SAFETY: W1: it is on the heap, and the wheel owns a reference until it has rung or is
            // cancelled. This is the worker's thread.
            unsafe { worker.timers.set(&nap.timer, due) };
        }
        nap
    }

    /// Returns whether a worker keeps the time.
    pub(crate) fn is_of_worker(&self) -> bool {
        !self.worker.is_null()
    }

    /// Returns whether the time is still awaited. The waker is called when that changes.
    pub(crate) fn is_set(&self, waker: &Waker) -> bool {
        if !self.set.load(Ordering::Acquire) {
            return false;
        }
        // Wakers are cloned and dropped outside the lock, because both run user code.
        if !self.waker.lock().as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            let fresh = waker.clone();
            let before = self.waker.lock().replace(fresh);
            drop(before);
        }
        self.set.load(Ordering::Acquire)
    }

    /// Ends it. Nothing is woken any more.
    pub(crate) fn cancel(self: &Arc<Nap>) {
        if self.worker == current_worker()
            && let Some(worker) = current()
            && self.set.swap(false, Ordering::Relaxed)
        {
            worker.timers.cancel(&self.timer);
            // SAFETY: W1: the reference was the wheel's, in which the timer is no more.
            drop(unsafe { Arc::from_raw(Arc::as_ptr(self)) });
        }
        let waker = self.waker.lock().take();
        drop_quietly(waker);
    }

    fn ends(&self) -> Option<Waker> {
        self.set.store(false, Ordering::Release);
        self.waker.lock().take()
    }
}

/// Called on the worker's thread when the time has come, or when the worker ends.
///
/// # Safety
/// W1: the timer is that of a nap, and has been taken out of the wheel.
unsafe fn ring(timer: *const Timer) {
    // SAFETY: W1: the timer is the first field, and the wheel's reference ends here.
    let nap = unsafe { Arc::from_raw(timer.cast::<Nap>()) };
    let waker = nap.ends();
    drop(nap);
    match (waker, current()) {
        (None, _) => {}
        // The wheel is being searched, so the waker is called afterwards.
        (Some(waker), Some(worker)) => worker.io.borrow_mut().wakers.push(waker),
        (Some(waker), None) => driver::call_waker(waker),
    }
}

/// By an alarm, on a thread without a worker.
impl Ring for Nap {
    fn ring(&self) {
        if let Some(waker) = self.ends() {
            driver::call_waker(waker);
        }
    }
}

impl Worker {
    /// Wakes all futures whose timers are set here.
    pub(super) fn end_naps(&self) {
        self.timers.ring_all();
    }
}
