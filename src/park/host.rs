//! Who carries a wait out: the worker that the current thread is, or nobody, and then the thread itself blocks.
#![expect(unsafe_code, reason = "the thread-local block stores untyped pointers")]

use std::cell::Cell;
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
    /// Makes the owner of a claimed waiter runnable. Called from any thread. The
    /// argument is the `owner` of the [`Waiter`].
    pub(crate) unpark: unsafe fn(*const ()),
    /// Whether the thread's running task may listen: it delays no other task.
    pub(crate) may_listen: fn() -> bool,
    /// Lets a waiter listen for a moment, if it may.
    pub(crate) listen: fn(&Waiter),
    /// Switches away from a task that waits and cannot do so itself: a root, on its thread's own stack.
    pub(crate) leave: fn(),
    /// For a task that has gone on without being unparked: does what it was resumed for, and waits until it is unparked.
    pub(crate) linger: fn(),
    /// Lets the other tasks run for a moment.
    pub(crate) yield_now: fn(),
    /// The current task has used up its budget. Lets other tasks run if their turn has come.
    pub(crate) out_of_budget: fn(),
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

/// Whether waits of the running task may listen before they park.
#[inline]
pub(crate) fn listens() -> bool {
    local::with(|local| local.listens.get())
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

/// Added to the depth of `no_suspend` sections while a last look is being taken.
const LOOKING: u32 = 1 << 31;

/// Runs `look`, which is somebody's code, while a wait of the current task is registered. Whoever ends that wait makes the task go
/// on, whatever it waits for; so if `look` would wait for anything else, `give_up` is called first, and has to end the registered
/// wait. Tells what came of `look`, and whether the wait was given up.
pub(crate) fn last_look<T>(give_up: &dyn Fn(), look: impl FnOnce() -> T) -> (T, bool) {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            end_last_look();
        }
    }
    // Nor may a bare coroutine be suspended in the middle, and resumed by another task.
    let _frame = crate::coroutine::OpenFrame::enter();
    let given_up = Cell::new(false);
    let this = Look {
        give_up: &|| {
            given_up.set(true);
            give_up();
        },
    };
    local::with(|local| {
        local.last_look.set(ptr::from_ref(&this).cast());
        local.no_suspend.set(local.no_suspend.get() | LOOKING);
    });
    let _leave = Leave;
    (look(), given_up.get())
}

struct Look<'a> {
    give_up: &'a dyn Fn(),
}

/// The look that was being taken, if there is one.
fn end_last_look() -> *const () {
    local::with(|local| {
        if local.no_suspend.get() & LOOKING != 0 {
            local.no_suspend.set(local.no_suspend.get() & !LOOKING);
            return local.last_look.replace(ptr::null());
        }
        ptr::null()
    })
}

/// What a wait does that nobody can refuse, before it parks.
pub(crate) fn give_up_last_look() {
    let look = end_last_look().cast::<Look<'_>>();
    // SAFETY: P3: it is in a frame of this task, further up, which takes it out of the cell before it goes.
    if let Some(look) = unsafe { look.as_ref() } {
        (look.give_up)();
    }
}

/// What every call that may wait does first.
#[inline]
#[track_caller]
pub(crate) fn refuse_if_no_suspend() {
    if local::with(|local| local.no_suspend.get()) != 0 {
        refuse();
    }
}

/// Whether a call that waits would be let.
pub(crate) fn may_suspend() -> bool {
    local::with(|local| local.no_suspend.get()) == 0
}

#[cold]
#[track_caller]
fn refuse() {
    if local::with(|local| local.no_suspend.get()) == LOOKING {
        return give_up_last_look();
    }
    panic!(
        "a call that may wait was made inside `no_suspend`; move it out of the section, or use a `try_` call that never waits"
    );
}
