//! A hook at the switches between tasks, which lets a thread-local follow the running code.
//!
//! # States
//! The process first has no hook, and then one hook for ever: `HOOK` changes once, from null to a
//! leaked table.
//!
//! What the hook keeps for a task is a box behind one untyped pointer, [`Kept`]. Null means that
//! there is no box.
//!
//! | the task is | the box is in | owner |
//! |---|---|---|
//! | unstarted | `Extra::kept`, if [`SwitchHook::spawn`] returned a box | the task's queue |
//! | started | `Running::kept` | the task's worker |
//! | a root | `Running::kept` of the root | the thread that called `run` |
//! | a closure of `unblock` | its frame | the pool's thread during the closure, else the task |
//! | inside a call of the hook | the hook's frame; the slot is null | the caller |
//!
//! Only the installed hook makes such boxes, so all of them have its type (J1).
//!
//! # Orderings
//! The table is published with Release and read with Acquire. A slot that is not null was filled by
//! a thread that had seen the table. The slot reaches another thread through a queue, so its new
//! owner sees the table, too.
//!
//! The hot paths do not read the table. They read a flag in the thread's own block, which takes two
//! instructions instead of four. A thread sets its flag when it installs the hook, becomes a
//! worker, or spawns into a run from outside. A worker also sets it whenever it looks at its
//! inboxes, timers and driver, and a thread of the blocking pool for each closure. Until then, a
//! switch on that thread does not call the hook. The flag is never cleared.
#![expect(unsafe_code, reason = "the hook's data is behind an untyped pointer")]

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use super::header::Header;
use super::observer;
use super::result::drop_quietly;
use crate::base::local;
use crate::base::record;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{StaticPtr, StaticU64};
use crate::park;

/// The reason why a thread stops running a task's code: see [`SwitchHook::leave`].
///
/// # Examples
/// See [`SwitchHook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// The task waits, yields, or runs another task in its place. It goes on later, on the same
    /// thread.
    Suspended,
    /// The task has ended, and this is the last call for it.
    Ended,
}

/// Functions that are called at each switch between tasks. They let a thread-local follow the
/// running code: the spans of `tracing`, a logger's context, a profiler's labels.
///
/// A thread runs many tasks in turn. [`enter`](SwitchHook::enter) is called on a task's thread
/// before the task's code runs there, and [`leave`](SwitchHook::leave) after it has stopped. While
/// the task does not run, the hook keeps its data in a slot of the task. A process has at most one
/// hook, installed by [`set_switch_hook`].
///
/// | what happens | calls |
/// |---|---|
/// | a task is spawned | `spawn`, in the spawner |
/// | a task starts, even if it was cancelled before | `enter` |
/// | a task waits or yields, even while it unwinds | `leave` with `Suspended`, later `enter` |
/// | a join starts a task in the caller's place | `leave` with `Suspended`, `enter` for that task |
/// | that task waits or ends | `leave` for it, `enter` for the caller of the join |
/// | a task returns or panics | `leave` with `Ended`, before its scope can return |
/// | the root task of a run waits or yields | `leave` with `Suspended`, later `enter` |
/// | the root task starts or ends | nothing: its thread already runs the code around the run |
/// | [`unblock`](crate::unblock) hands a closure to another thread | `spawn` in the task |
/// | that closure runs | `enter`, then `leave` with `Ended`, on the other thread |
/// | a coroutine or generator is resumed or suspended | nothing: it is part of its resumer's task |
/// | a plain thread waits | nothing |
///
/// A root task may be left and entered without running its own code in between. This happens when a
/// dump asks where it is.
///
/// # What a call may do
/// The calls run on the thread's scheduler, or on the stack of another task. They run inside
/// [`no_suspend`](crate::no_suspend), so waiting panics. In `enter` and `leave` no task is current.
/// A panic is caught: the panic hook reports it, and the switch goes on with the contents of the
/// slot.
///
/// # Examples
/// ```
/// use ecru::task::{LeaveReason, SwitchHook};
/// use std::cell::Cell;
///
/// thread_local! {
///     static REQUEST: Cell<u32> = const { Cell::new(0) };
/// }
///
/// /// Ties `REQUEST` to the task instead of the thread. A child begins with its spawner's value.
/// struct Requests;
///
/// impl SwitchHook for Requests {
///     type Kept = u32;
///
///     fn spawn(&self) -> Option<Box<u32>> {
///         Some(Box::new(REQUEST.get()))
///     }
///
///     fn enter(&self, kept: &mut Option<Box<u32>>) {
///         REQUEST.set(kept.take().map_or(0, |request| *request));
///     }
///
///     fn leave(&self, kept: &mut Option<Box<u32>>, why: LeaveReason) {
///         let request = REQUEST.replace(0);
///         *kept = (why == LeaveReason::Suspended).then(|| Box::new(request));
///     }
/// }
///
/// ecru::task::set_switch_hook(&Requests).unwrap();
/// ecru::Runtime::builder().workers(1).build()?.run(|| {
///     ecru::scope(|s| {
///         for request in 1..=3 {
///             s.spawn(move || {
///                 REQUEST.set(request);
///                 ecru::yield_now().unwrap();
///                 assert_eq!(REQUEST.get(), request);
///             });
///         }
///     });
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait SwitchHook: Sync {
    /// The data that the hook keeps for a task while the task does not run. It is dropped with the
    /// task.
    type Kept: Send + 'static;

    /// Returns the initial data of a new task. Called in the spawner, where the task is spawned.
    fn spawn(&self) -> Option<Box<Self::Kept>> {
        None
    }

    /// Called when the current thread is about to run the task's code. `kept` holds what
    /// [`spawn`](SwitchHook::spawn) returned or the last [`leave`](SwitchHook::leave) stored. The
    /// next `leave` gets what this call stores in it.
    fn enter(&self, kept: &mut Option<Box<Self::Kept>>);

    /// Called when the current thread has stopped running the task's code. The first call for a
    /// task may come without an `enter`, if the hook was installed while the task was running.
    fn leave(&self, kept: &mut Option<Box<Self::Kept>>, why: LeaveReason);
}

/// The error of [`set_switch_hook`]: the process already has a hook.
#[derive(Debug)]
pub struct SwitchHookTaken(());

impl fmt::Display for SwitchHookTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the process has a switch hook already; only one can be installed, and it stays",
        )
    }
}

impl Error for SwitchHookTaken {}

/// Installs the process's hook at the switches between tasks. It stays for the rest of the process.
///
/// It may be installed at any time. During a run, it takes effect at once on the current thread,
/// and within a few dozen switches on the other workers. Without a hook, a switch pays one
/// predictable branch for it.
///
/// # Errors
/// Returns [`SwitchHookTaken`] if a hook has been installed before, even the same one.
///
/// # Examples
/// See [`SwitchHook`].
pub fn set_switch_hook<H: SwitchHook>(hook: &'static H) -> Result<(), SwitchHookTaken> {
    let table = Box::into_raw(Box::new(Table::of(hook)));
    // Release: a thread that sees the pointer sees the table.
    match HOOK.compare_exchange(ptr::null_mut(), table, Ordering::Release, Ordering::Relaxed) {
        Ok(_) => {
            FLAGS.fetch_or(u64::from(CALLS_HOOK), Ordering::Relaxed);
            hear_of_hook();
            Ok(())
        }
        Err(_) => {
            // SAFETY: J1: the table has not been published.
            drop(unsafe { Box::from_raw(table) });
            Err(SwitchHookTaken(()))
        }
    }
}

/// The installed hook, with its type erased. Each function takes the hook and the pointer to the
/// kept data. A function that returns a pointer has taken over the one that it was given.
struct Table {
    hook: *const (),
    spawn: unsafe fn(*const ()) -> *mut (),
    enter: unsafe fn(*const (), *mut ()) -> *mut (),
    leave: unsafe fn(*const (), *mut (), LeaveReason) -> *mut (),
    discard: unsafe fn(*mut ()),
}

/// Null, or a leaked table.
static HOOK: StaticPtr<Table> = StaticPtr::new(ptr::null_mut());

impl Table {
    fn of<H: SwitchHook>(hook: &'static H) -> Table {
        Table {
            hook: ptr::from_ref(hook).cast(),
            spawn: spawn_by::<H>,
            enter: enter_by::<H>,
            leave: leave_by::<H>,
            discard: discard_by::<H>,
        }
    }
}

/// Returns the installed table.
fn table() -> Option<&'static Table> {
    let table = HOOK.load(Ordering::Acquire);
    // SAFETY: J1: the table is never freed.
    unsafe { table.as_ref() }
}

/// Runs a call of the hook, under `no_suspend`. A panic is caught.
pub(super) fn guarded<R>(call: impl FnOnce() -> R) -> Option<R> {
    match panic::catch_unwind(AssertUnwindSafe(|| park::no_suspend(call))) {
        Ok(value) => Some(value),
        Err(payload) => {
            drop_quietly(payload);
            None
        }
    }
}

/// # Safety
/// J1: `kept` is null, or was made by a hook of type `H` and is owned by the caller, which gives it
/// away.
unsafe fn unpack<H: SwitchHook>(kept: *mut ()) -> Option<Box<H::Kept>> {
    // SAFETY: J1, by this function's contract.
    NonNull::new(kept.cast::<H::Kept>()).map(|kept| unsafe { Box::from_raw(kept.as_ptr()) })
}

fn pack<K>(kept: Option<Box<K>>) -> *mut () {
    kept.map_or(ptr::null_mut(), |kept| Box::into_raw(kept).cast())
}

/// # Safety
/// J1: `hook` is the installed hook, an `H`.
unsafe fn spawn_by<H: SwitchHook>(hook: *const ()) -> *mut () {
    // SAFETY: J1, by this function's contract.
    let hook = unsafe { &*hook.cast::<H>() };
    pack(guarded(|| hook.spawn()).flatten())
}

/// # Safety
/// J1: `hook` is the installed hook, an `H`. For `kept`, see [`unpack`].
unsafe fn enter_by<H: SwitchHook>(hook: *const (), kept: *mut ()) -> *mut () {
    // SAFETY: J1, by this function's contract.
    let hook = unsafe { &*hook.cast::<H>() };
    // SAFETY: J1, by this function's contract.
    let mut kept = unsafe { unpack::<H>(kept) };
    guarded(|| hook.enter(&mut kept));
    pack(kept)
}

/// # Safety
/// J1: as for [`enter_by`].
unsafe fn leave_by<H: SwitchHook>(hook: *const (), kept: *mut (), why: LeaveReason) -> *mut () {
    // SAFETY: J1, by this function's contract.
    let hook = unsafe { &*hook.cast::<H>() };
    // SAFETY: J1, by this function's contract.
    let mut kept = unsafe { unpack::<H>(kept) };
    guarded(|| hook.leave(&mut kept, why));
    pack(kept)
}

/// # Safety
/// J1: as for [`unpack`].
unsafe fn discard_by<H: SwitchHook>(kept: *mut ()) {
    // SAFETY: J1, by this function's contract.
    let kept = unsafe { unpack::<H>(kept) };
    guarded(|| drop(kept));
}

/// The slot for the data that the hook keeps for one task: see the module.
pub(crate) struct Kept(Cell<*mut ()>);

// SAFETY: J1: the data behind the pointer is Send, and moves with the task.
unsafe impl Send for Kept {}
// SAFETY: J1: the cell has one owner at a time, which alone reads or writes it.
unsafe impl Sync for Kept {}

impl Kept {
    /// Creates an empty slot.
    #[inline(always)]
    pub(crate) const fn empty() -> Kept {
        Kept(Cell::new(ptr::null_mut()))
    }

    /// Returns the initial data of a child of the running code.
    #[inline]
    pub(crate) fn inherited() -> Kept {
        if calls_hook() { Kept::from_hook() } else { Kept::empty() }
    }

    #[cold]
    fn from_hook() -> Kept {
        // SAFETY: J1: this is the table's own hook.
        let kept = table().map_or(ptr::null_mut(), |table| unsafe { (table.spawn)(table.hook) });
        Kept(Cell::new(kept))
    }

    /// Calls [`SwitchHook::enter`], if there is a hook.
    #[inline(always)]
    pub(crate) fn enter(&self) {
        if calls_hook() {
            self.enter_slowly();
        }
    }

    /// Calls [`SwitchHook::leave`], if there is a hook. With `Ended`, the slot is empty afterwards.
    #[inline(always)]
    pub(crate) fn leave(&self, why: LeaveReason) {
        if calls_hook() {
            self.leave_slowly(why);
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_slowly(&self) {
        let Some(table) = table() else { return };
        as_no_task(|| {
            // SAFETY: J1: this is the table's own hook, and the slot gives up its contents.
            self.fill(unsafe { (table.enter)(table.hook, self.0.replace(ptr::null_mut())) });
        });
    }

    #[cold]
    #[inline(never)]
    fn leave_slowly(&self, why: LeaveReason) {
        let Some(table) = table() else { return };
        as_no_task(|| {
            // SAFETY: J1: this is the table's own hook, and the slot gives up its contents.
            self.fill(unsafe { (table.leave)(table.hook, self.0.replace(ptr::null_mut()), why) });
        });
        if why == LeaveReason::Ended {
            self.clear();
        }
    }

    /// Stores `kept` in the slot.
    fn fill(&self, kept: *mut ()) {
        // A hook that switches and so reenters this slot leaves something in it. That is dropped,
        // not leaked.
        drop(Kept(Cell::new(self.0.replace(kept))));
    }

    /// Moves the contents of another slot to this one.
    pub(crate) fn take_from(&self, other: &Kept) {
        self.fill(other.0.replace(ptr::null_mut()));
    }

    /// Drops the contents.
    fn clear(&self) {
        self.fill(ptr::null_mut());
    }
}

impl Drop for Kept {
    #[inline]
    fn drop(&mut self) {
        if !self.0.get().is_null() {
            discard(self.0.get());
        }
    }
}

#[cold]
fn discard(kept: *mut ()) {
    if let Some(table) = table() {
        // SAFETY: J1: the slot that had the pointer is empty or is being dropped.
        as_no_task(|| unsafe { (table.discard)(kept) });
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&!self.0.get().is_null()).finish()
    }
}

impl Default for Kept {
    fn default() -> Kept {
        Kept::empty()
    }
}

/// Runs a part of the switch without a current task: the cell may name a task that has ended.
fn as_no_task(call: impl FnOnce()) {
    let before = local::with(|local| local.task.replace(ptr::null()));
    call();
    local::with(|local| local.task.set(before));
}

/// The flag of a thread that calls the hook.
const CALLS_HOOK: u8 = 1;
/// The flag of a thread that has a recorder.
const RECORDS: u8 = 2;
/// The flag of a thread that calls the observer.
const OBSERVED: u8 = 4;
/// The flag of a thread that is inside a call of the observer.
const INSIDE: u8 = 8;

/// The flags that all threads are to have, once they have heard of it.
static FLAGS: StaticU64 = StaticU64::new(0);

/// Returns whether this thread has anything to do at a switch: it calls the hook or the observer, or
/// has a recorder.
/// It returns `false` until the thread has heard of the hook.
#[inline(always)]
pub(crate) fn is_hooked() -> bool {
    local::with(|local| local.hooked.get()) != 0
}

/// Returns whether this thread calls the hook.
#[inline(always)]
pub(crate) fn calls_hook() -> bool {
    local::with(|local| local.hooked.get()) & CALLS_HOOK != 0
}

fn set_flag(flag: u8) {
    local::with(|local| local.hooked.set(local.hooked.get() | flag));
}

/// Checks whether a hook or an observer has been installed. The module says which threads call this,
/// and when.
#[inline]
pub(crate) fn hear_of_hook() {
    // Relaxed: a thread with a flag finds the hook by an acquiring load, or does not call it yet.
    let flags = FLAGS.load(Ordering::Relaxed);
    if flags != 0 {
        set_flag(flags as u8);
    }
}

/// Makes all threads call the observer, once they have heard of it.
pub(super) fn observe_from_now_on() {
    FLAGS.fetch_or(u64::from(OBSERVED), Ordering::Relaxed);
    hear_of_hook();
}

/// Returns whether this thread calls the observer.
#[inline(always)]
pub(super) fn calls_observer() -> bool {
    local::with(|local| local.hooked.get()) & OBSERVED != 0
}

/// Returns whether an observer has been installed, on any thread.
#[inline]
pub(super) fn is_observed() -> bool {
    FLAGS.load(Ordering::Relaxed) & u64::from(OBSERVED) != 0
}

/// Runs a call of the observer, unless this thread is inside one already.
pub(super) fn inside<R>(call: impl FnOnce() -> R) -> Option<R> {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            local::with(|local| local.hooked.set(local.hooked.get() & !INSIDE));
        }
    }
    if local::with(|local| local.hooked.get()) & INSIDE != 0 {
        return None;
    }
    set_flag(INSIDE);
    let _over = Over;
    Some(call())
}

/// Makes this thread do what belongs to a switch, because it has a recorder. The flag stays: without
/// a recorder it has no effect.
pub(crate) fn hook_thread() {
    set_flag(RECORDS);
}

/// Tells the hook, the recorder and the observer of a new task, before it is queued. No lock may be
/// held, because the hook may spawn.
///
/// # Safety
/// T1: the task is new, and only the caller knows it.
#[inline(always)]
pub(crate) unsafe fn announce(task: *const Header) {
    if is_hooked() {
        // SAFETY: T1, by this function's contract.
        unsafe { inherit(task) };
    }
}

/// Asks the hook for the initial data of a new task, and tells the recorder and the observer of the
/// task.
///
/// # Safety
/// T1: the task is new, and only the caller knows it.
#[cold]
#[inline(never)]
unsafe fn inherit(task: *const Header) {
    // SAFETY: T1, by this function's contract.
    let header = unsafe { &*task };
    record::with(|ring| ring.spawn(header.id(), header.spawned_at()));
    let is_unobserved = is_observed() && !observer::spawned(header);
    let kept = Kept::from_hook();
    if kept.0.get().is_null() && !is_unobserved {
        return;
    }
    // SAFETY: T1, by this function's contract.
    let extra = unsafe { &raw mut (*task.cast_mut()).extra };
    // SAFETY: T1, by this function's contract.
    let extra = unsafe { &mut *extra }.get_or_insert_default();
    (extra.kept, extra.is_unobserved) = (kept, is_unobserved);
}
