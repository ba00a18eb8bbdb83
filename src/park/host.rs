//! Who carries a wait out: the worker that the current thread is, or nobody, and then the thread itself blocks.
#![expect(unsafe_code, reason = "the thread-local block stores untyped pointers")]

use std::ptr;
use std::time::Instant;

use super::{Mode, Waiter};
use crate::base::local;

/// How waits of the current thread are carried out. Declared here and implemented above, by the scheduler; function pointers
/// instead of a trait object because one thin pointer fits a thread-local cell.
#[derive(Debug)]
pub(crate) struct Host {
    /// Parks the current task until its waiter has been unparked.
    pub(crate) park: fn(&Waiter, Option<Instant>, Mode),
    /// Makes the owner of a claimed waiter runnable. Called from any thread, with the owner that [`Host::owner`] gave.
    pub(crate) unpark: unsafe fn(*const ()),
    /// The task that would wait if the current thread waited now.
    pub(crate) owner: fn() -> *const (),
    /// Lets the other tasks run for a moment.
    pub(crate) yield_now: fn(),
    /// The thread itself is about to block for a waiter without an owner (true), or goes on (false).
    pub(crate) blocks: fn(bool),
}

/// The current thread's host.
#[inline]
pub(crate) fn host() -> Option<&'static Host> {
    let host = local::with(|local| local.context.get()).cast::<Host>();
    // SAFETY: P1: only `enter_host` writes this cell, and it writes references to statics.
    unsafe { host.as_ref() }
}

/// Makes the current thread's waits go through `host` until the returned guard is dropped.
pub(crate) fn enter_host(host: &'static Host) -> HostGuard {
    let before = local::with(|local| local.context.replace(ptr::from_ref(host).cast()));
    HostGuard { before }
}

/// Puts the thread's previous host back.
#[derive(Debug)]
pub(crate) struct HostGuard {
    before: *const (),
}

impl Drop for HostGuard {
    fn drop(&mut self) {
        local::with(|local| local.context.set(self.before));
    }
}

/// Runs `body` and makes every call in it that may wait panic, whether it would have had to wait or not.
///
/// For sections that must not be interleaved with other tasks of this thread: code that keeps a pointer in a thread-local
/// while it runs, foreign code that calls back, a predicate run on behalf of somebody else.
///
/// # Panics
/// When `body` panics, and whatever it calls that may wait does.
///
/// # Examples
/// ```
/// let sum = ecru::no_suspend(|| 1 + 1);
/// assert_eq!(sum, 2);
///
/// let refused = std::panic::catch_unwind(|| ecru::no_suspend(|| ecru::yield_now()));
/// assert!(refused.is_err());
/// ```
pub fn no_suspend<T>(body: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            local::with(|local| local.no_suspend.set(local.no_suspend.get() - 1));
        }
    }
    // A bare coroutine must not be suspended in the middle either: the count belongs to the thread.
    let _frame = crate::coroutine::OpenFrame::enter();
    local::with(|local| local.no_suspend.set(local.no_suspend.get() + 1));
    let _leave = Leave;
    body()
}

/// What every call that may wait does first.
#[inline]
#[track_caller]
pub(crate) fn refuse_if_no_suspend() {
    if local::with(|local| local.no_suspend.get()) != 0 {
        refuse();
    }
}

#[cold]
#[track_caller]
fn refuse() -> ! {
    panic!(
        "a call that may wait was made inside `no_suspend`; move it out of the section, or use a `try_` call that never waits"
    );
}
