//! The host of a thread, which carries out the waits there. A worker has one. A thread without a
//! host blocks.
#![expect(unsafe_code, reason = "the thread-local block stores untyped pointers")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::process;
use std::ptr;
use std::time::Instant;

use super::{Parker, Waiter};
use crate::base::{local, report};
use crate::coroutine::initializers::{self, Bound};
use crate::coroutine::panics;

/// The functions that carry out waits of the current thread. They are declared here and implemented
/// by the scheduler, in a higher layer. They are function pointers instead of a trait object,
/// because one thin pointer fits in a thread-local cell.
#[derive(Debug)]
pub(crate) struct Host {
    /// Returns whether the running task has been cancelled. Makes sure that later requests reach
    /// it.
    pub(crate) is_cancelled: fn() -> bool,
    /// Calls [`Parker::wait_out`] with a timer set that ends the wait by [`Waiter::time_out`].
    pub(crate) park_until: fn(&Parker, &Waiter, Instant),
    /// Blocks the worker until the wait of the running task, which is inside the panic hook, is
    /// over.
    pub(crate) hold: fn(&Waiter, Option<Instant>),
    /// Makes the owner of a claimed waiter runnable. Any thread may call it. The argument is the
    /// `owner` of the [`Waiter`].
    pub(crate) unpark: unsafe fn(*const ()),
    /// Returns whether the running task may listen. It may if that delays no other work.
    pub(crate) may_listen: fn() -> bool,
    /// Lets the running task listen with its waiter for a moment, if it may.
    pub(crate) listen: fn(&Waiter),
    /// Switches away from a waiting root task, which runs on its thread's own stack and cannot
    /// switch by itself.
    pub(crate) leave: fn(),
    /// Lets the other tasks of the worker run.
    pub(crate) yield_now: fn(),
    /// Called when the current task has used up its budget. Lets other tasks run if their turn has
    /// come.
    pub(crate) out_of_budget: fn(),
    /// Called when the thread is about to block for a waiter without an owner (`true`), and when it
    /// continues (`false`).
    pub(crate) blocks: fn(bool),
}

/// Returns the current thread's host.
#[inline]
pub(crate) fn host() -> Option<&'static Host> {
    let host = local::with(|local| local.context.get()).cast::<Host>();
    // SAFETY: P1: only `enter_host` writes this cell, and it writes references to statics.
    unsafe { host.as_ref() }
}

/// Returns whether waits of the running task may listen before they park.
#[inline]
pub(crate) fn listens() -> bool {
    local::with(|local| local.listens.get())
}

/// The limits of the waits of a plain thread, which has no worker to cancel them. They are declared
/// here and implemented by a higher layer.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Returns the earliest deadline of the frames around the running code, and a pointer for
    /// `expire`.
    pub(crate) nearest: fn() -> Option<(Instant, *const ())>,
    /// Called when a wait has ended because of that deadline.
    ///
    /// # Safety
    /// K1: the frames around the running code have been open since `nearest` was called.
    pub(crate) expire: unsafe fn(*const ()),
}

/// Returns the limits of the current thread's waits, if it is a plain thread with any.
pub(super) fn limits() -> Option<&'static Limits> {
    let limits = local::with(|local| local.limits.get()).cast::<Limits>();
    // SAFETY: P1: only `set_limits` writes this cell, and it writes references to statics.
    unsafe { limits.as_ref() }
}

/// Sets the limits of the current thread's waits.
pub(crate) fn set_limits(limits: &'static Limits) {
    local::with(|local| local.limits.set(ptr::from_ref(limits).cast()));
}

/// Returns whether the running task has nothing better to do than to look again for what it waits
/// for. That is so if it [`listens`] and its worker has no other work now.
pub(crate) fn may_listen() -> bool {
    host().is_some_and(|host| (host.may_listen)())
}

/// Returns whether the current thread has no host: its waits block it.
pub(crate) fn is_plain_thread() -> bool {
    host().is_none()
}

/// Makes the current thread's waits use `host` until the returned guard is dropped.
pub(crate) fn enter_host(host: &'static Host) -> HostGuard {
    let before = local::with(|local| local.context.replace(ptr::from_ref(host).cast()));
    HostGuard { before }
}

/// A guard that restores the thread's previous host.
#[derive(Debug)]
pub(crate) struct HostGuard {
    before: *const (),
}

impl Drop for HostGuard {
    fn drop(&mut self) {
        local::with(|local| local.context.set(self.before));
    }
}

/// Runs `body`. Each call in it that may wait panics, even if it would not have to wait.
///
/// It is for sections that must not be interleaved with other tasks of this thread: code that keeps
/// a pointer in a thread-local while it runs, foreign code that calls back, and predicates that run
/// on behalf of another task.
///
/// # Panics
/// Panics if `body` panics. Each call inside `body` that may wait panics.
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
    // A bare coroutine must not be suspended inside either, because the count belongs to the
    // thread.
    let _frame = crate::coroutine::OpenFrame::enter();
    local::with(|local| local.no_suspend.set(local.no_suspend.get() + 1));
    let _leave = Leave;
    body()
}

/// A flag in the count of `no_suspend` sections that is set during a last look.
const LOOKING: u32 = 1 << 31;

/// A flag in the count of `no_suspend` sections that is set on the thread of a simulation. Each
/// call that may wait reads the count. A flag in it needs no other read on the fast path.
#[cfg(feature = "sim")]
const SIMULATED: u32 = 1 << 30;

/// A flag in the count of `no_suspend` sections that is set on workers whose tasks must not wait in
/// certain initializers: see [`initializers`]. Calls find it as they find [`SIMULATED`].
const SEARCHED: u32 = 1 << 29;

/// A flag in the count of `no_suspend` sections that is set while a worker polls the future of a
/// task without a stack.
const POLLING: u32 = 1 << 28;

/// The flags that do not refuse a wait by themselves.
#[cfg(feature = "sim")]
const MARKS: u32 = SIMULATED | SEARCHED;
#[cfg(not(feature = "sim"))]
const MARKS: u32 = SEARCHED;

/// Marks the current thread as that of a simulation until the returned guard is dropped.
#[cfg(feature = "sim")]
pub(crate) fn enter_simulation() -> Mark {
    Mark::set(SIMULATED)
}

/// Marks the current thread as that of a worker whose tasks must not wait in certain initializers,
/// if these are [searched](initializers::are_checked) for.
pub(crate) fn enter_worker() -> Option<Mark> {
    initializers::are_checked().then(|| Mark::set(SEARCHED))
}

/// Makes the tasks of the current thread's worker note themselves as holders, until the returned
/// guard is dropped.
pub(crate) fn explain() -> Explains {
    Explains { before: local::with(|local| local.explains.replace(true)), _stays: PhantomData }
}

/// A guard that ends [`explain`].
#[derive(Debug)]
pub(crate) struct Explains {
    before: bool,
    /// Not `Send`.
    _stays: PhantomData<*const ()>,
}

impl Drop for Explains {
    fn drop(&mut self) {
        local::with(|local| local.explains.set(self.before));
    }
}

/// Returns whether the holder of a lock or a permit is to be noted, so that dumps can name it. That
/// is so in builds with `debug_assertions`, and on workers that [explain], as those of
/// simulations do. It is a comparison and a branch.
#[inline(always)]
pub(crate) fn explains() -> bool {
    cfg!(all(debug_assertions, not(loom))) || local::with(|local| local.explains.get())
}

/// Runs `poll`, which polls the future of a task without a stack. Each call in it that may wait
/// panics.
pub(crate) fn polling<T>(poll: impl FnOnce() -> T) -> T {
    let _mark = Mark::set(POLLING);
    poll()
}

/// A guard that takes a mark of the thread back.
#[derive(Debug)]
pub(crate) struct Mark {
    flag: u32,
    /// Not `Send`.
    _stays: PhantomData<*const ()>,
}

impl Mark {
    fn set(flag: u32) -> Mark {
        local::with(|local| local.no_suspend.set(local.no_suspend.get() | flag));
        Mark { flag, _stays: PhantomData }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        local::with(|local| local.no_suspend.set(local.no_suspend.get() & !self.flag));
    }
}

/// Returns whether a call that may wait may begin without a closer look. That is not so inside
/// `no_suspend`, in a last look, on the thread of a simulation, and on a worker that searches for
/// initializers.
#[inline(always)]
pub(crate) fn is_unrestricted() -> bool {
    local::with(|local| local.no_suspend.get()) == 0
}

/// Runs `look`, which is user code, while a wait of the current task is registered. The end of that
/// wait would resume the task whatever it is parked on. So if `look` is about to wait for anything
/// else, `give_up` is called first and must end the registered wait. Returns the result of `look`,
/// and whether the wait was given up.
pub(crate) fn last_look<T>(give_up: &dyn Fn(), look: impl FnOnce() -> T) -> (T, bool) {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            end_last_look();
        }
    }
    // A bare coroutine must not be suspended inside either, because another task could resume it.
    let _frame = crate::coroutine::OpenFrame::enter();
    let given_up = Cell::new(false);
    let this = LastLook {
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

struct LastLook<'a> {
    give_up: &'a dyn Fn(),
}

/// Ends the current last look and returns it, or null if there is none.
fn end_last_look() -> *const () {
    local::with(|local| {
        if local.no_suspend.get() & LOOKING != 0 {
            local.no_suspend.set(local.no_suspend.get() & !LOOKING);
            return local.last_look.replace(ptr::null());
        }
        ptr::null()
    })
}

/// Gives up the registered wait of the current last look, if there is one. A wait that cannot be
/// refused calls this before it parks.
pub(crate) fn give_up_last_look() {
    let look = end_last_look().cast::<LastLook<'_>>();
    // SAFETY: P3: the look is in a frame of this task, further up. That frame empties the cell
    // before it is left.
    if let Some(look) = unsafe { look.as_ref() } {
        (look.give_up)();
    }
}

/// Panics inside `no_suspend`. In a last look, gives up the registered wait. Every call that may
/// wait calls this first.
#[inline]
#[track_caller]
pub(crate) fn refuse_if_no_suspend() {
    if !is_unrestricted() {
        refuse();
    }
}

/// Returns whether [`is_unrestricted`] is false only because the thread is that of a simulation.
#[inline(always)]
pub(crate) fn is_only_simulated() -> bool {
    #[cfg(feature = "sim")]
    return local::with(|local| local.no_suspend.get()) == SIMULATED;
    #[cfg(not(feature = "sim"))]
    return false;
}

/// Returns whether a call that may wait is permitted at this point.
pub(crate) fn may_suspend() -> bool {
    local::with(|local| local.no_suspend.get()) & !MARKS == 0
}

#[cold]
#[track_caller]
fn refuse() {
    let count = local::with(|local| local.no_suspend.get());
    if count & SEARCHED != 0
        && !panics::is_panicking()
        && let Some(kind) = open_initializer()
    {
        panic!("{}", kind.refusal());
    }
    match count & !MARKS {
        0 => {}
        LOOKING => give_up_last_look(),
        count if count & POLLING != 0 => panic!(
            "a call that may wait was made inside a future that `spawn_future` runs, which has no stack to wait on; `.await` a future instead, or make the call in a task (`spawn`), or run the future by `block_on`"
        ),
        _ => panic!(
            "a call that may wait was made inside `no_suspend`; move it out of the section, or use a `try_` call that never waits"
        ),
    }
}

/// Returns the kind of the innermost initializer in which the running task must not wait.
fn open_initializer() -> Option<initializers::Kind> {
    let parker = Parker::current()?;
    initializers::find(Bound::Task(ptr::from_ref(parker).addr()))
}

/// Aborts the process if a task that unwinds is about to park in an initializer. A panic would end
/// the process, too, but without saying why.
#[cold]
pub(super) fn refuse_while_unwinding() {
    if local::with(|local| local.no_suspend.get()) & SEARCHED != 0
        && let Some(kind) = open_initializer()
    {
        report::last_words(format!("ecru: {}; the task unwinds already: aborting", kind.refusal()));
        process::abort();
    }
}
