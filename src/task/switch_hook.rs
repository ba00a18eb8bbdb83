//! A hook at the switches between tasks, for what a thread-local ties to the code that runs.
//!
//! # States
//! The process has no hook, and then one for ever: `HOOK` goes from null to a leaked table once.
//!
//! What the hook keeps for a task is a box behind one untyped pointer, [`Kept`]. Null means that there is none.
//!
//! | the task is | the box is in | owner |
//! |---|---|---|
//! | unstarted | `Extra::kept`, if the spawner's call of [`SwitchHook::spawn`] returned one | the queue that holds the task |
//! | started | `Running::kept` | the task's worker |
//! | a root | `Running::kept` of the root | the thread that called `run` |
//! | a closure of `unblock` | its frame | before and after the closure the task, meanwhile the thread of the pool |
//! | inside a call of the hook | the hook's frame; the slot is null | the caller |
//!
//! Only the installed hook makes such boxes, so all of them have its type (J1).
//!
//! # Orderings
//! The table is published with Release and read with Acquire. A slot that is not null was filled by a thread that had seen the
//! table, and reaches another thread through a queue, so its new owner sees the table, too.
//!
//! The hot paths do not read the table but a flag in the thread's own block, which takes two instructions instead of four. A thread sets
//! its flag when it installs the hook, becomes a worker, or spawns into a run from outside. A worker also sets it when it looks around, and a thread
//! of the blocking pool for each closure. Until then a switch on that thread is as one before the installation. The flag never goes back.
#![expect(unsafe_code, reason = "what the hook keeps is behind an untyped pointer")]

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use super::header::Header;
use super::result::drop_quietly;
use crate::base::local;
use crate::base::sync::StaticPtr;
use crate::base::sync::atomic::Ordering;
use crate::park;

/// Why a thread stops running a task's code: see [`SwitchHook::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The task waits, yields, or runs another task in its place. It goes on later, on the same thread.
    Suspended,
    /// The task has ended, and this is the last call for it.
    Ended,
}

/// Calls at each switch between tasks, for what a thread-local ties to the code that runs: the spans of `tracing`, a logger's
/// context, a profiler's labels.
///
/// A thread runs many tasks in turns. [`enter`](SwitchHook::enter) is called on a task's thread before the task's code runs
/// there, [`leave`](SwitchHook::leave) after it has stopped. Between the two the hook keeps what it likes in a
/// slot of the task's own. A process has at most one hook, installed by [`set_switch_hook`].
///
/// | what happens | calls |
/// |---|---|
/// | a task is spawned | `spawn`, in the spawner |
/// | a task starts, also one that was cancelled before | `enter` |
/// | a task waits or yields, also while it unwinds | `leave` with `Suspended`, later `enter` |
/// | a task starts another one in its place, by a join | `leave` with `Suspended` and `enter` for the new one; when that one waits or ends, `leave` for it and `enter` |
/// | a task ends, whether it returns or panics | `leave` with `Ended`, before its scope can return |
/// | the root task of a run waits or yields | `leave` with `Suspended`, later `enter`; nothing at its start and end, where the thread is in the middle of the code around the run |
/// | [`unblock`](crate::unblock) hands a closure to another thread | `spawn` in the task; `enter` and `leave` with `Ended` on that thread |
/// | a coroutine or a generator is resumed or suspended | nothing: it is a part of the task that resumes it |
/// | a plain thread waits | nothing |
///
/// A root task may be left and entered without running its own code in between, when a dump asks where it is.
///
/// # What a call may do
/// The calls run on the thread's scheduler, or on the stack of another task, inside [`no_suspend`](crate::no_suspend): waiting panics. In
/// `enter` and `leave` no task is current. A panic is caught: the panic hook reports it, and the switch goes on
/// with what the slot holds.
///
/// # Examples
/// ```
/// use ecru::task::{Leave, SwitchHook};
/// use std::cell::Cell;
///
/// thread_local! {
///     static REQUEST: Cell<u32> = const { Cell::new(0) };
/// }
///
/// /// Makes `REQUEST` a matter of the task instead of its thread. Children begin with their spawner's.
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
///     fn leave(&self, kept: &mut Option<Box<u32>>, why: Leave) {
///         let request = REQUEST.replace(0);
///         *kept = (why == Leave::Suspended).then(|| Box::new(request));
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
    /// What the hook keeps for a task while the task does not run. It is dropped with the task.
    type Kept: Send + 'static;

    /// Returns what a new task begins with. Called where the task is spawned, in the spawner.
    fn spawn(&self) -> Option<Box<Self::Kept>> {
        None
    }

    /// The current thread is about to run the task's code. `kept` is what [`spawn`](SwitchHook::spawn) or the last
    /// [`leave`](SwitchHook::leave) left there; what this call leaves there is passed to the next `leave`.
    fn enter(&self, kept: &mut Option<Box<Self::Kept>>);

    /// The current thread has stopped running the task's code. The first call for a task may come without an `enter`, if the hook was
    /// installed while the task was running.
    fn leave(&self, kept: &mut Option<Box<Self::Kept>>, why: Leave);
}

/// The error of [`set_switch_hook`]: the process has another hook already.
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
/// It may be installed at any time. In the middle of a run it takes effect at once on the current thread, and within some dozens
/// of switches on the other workers. Without a hook a switch costs one predictable branch for it.
///
/// # Errors
/// [`SwitchHookTaken`] if a hook has been installed before, be it the same one.
///
/// # Examples
/// See [`SwitchHook`].
pub fn set_switch_hook<H: SwitchHook>(hook: &'static H) -> Result<(), SwitchHookTaken> {
    let table = Box::into_raw(Box::new(Table::of(hook)));
    // Release: whoever sees the pointer sees the table.
    match HOOK.compare_exchange(ptr::null_mut(), table, Ordering::Release, Ordering::Relaxed) {
        Ok(_) => {
            hear_of_hook();
            Ok(())
        }
        Err(_) => {
            // SAFETY: J1: it has not been published.
            drop(unsafe { Box::from_raw(table) });
            Err(SwitchHookTaken(()))
        }
    }
}

/// The installed hook, once its type is forgotten. Each function takes the hook and the pointer to what is kept; those that give a
/// pointer back have taken the other one over.
struct Table {
    hook: *const (),
    spawn: unsafe fn(*const ()) -> *mut (),
    enter: unsafe fn(*const (), *mut ()) -> *mut (),
    leave: unsafe fn(*const (), *mut (), Leave) -> *mut (),
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

/// The installed table.
fn table() -> Option<&'static Table> {
    let table = HOOK.load(Ordering::Acquire);
    // SAFETY: J1: never freed.
    unsafe { table.as_ref() }
}

/// Runs a call of the hook: it must not wait, and its panic goes no further.
fn guarded<R>(call: impl FnOnce() -> R) -> Option<R> {
    match panic::catch_unwind(AssertUnwindSafe(|| park::no_suspend(call))) {
        Ok(value) => Some(value),
        Err(payload) => {
            drop_quietly(payload);
            None
        }
    }
}

/// # Safety
/// J1: `kept` is null or owned by the caller, who gives it away, and was made by a hook of type `H`.
unsafe fn unpack<H: SwitchHook>(kept: *mut ()) -> Option<Box<H::Kept>> {
    // SAFETY: J1, the caller's promise.
    NonNull::new(kept.cast::<H::Kept>()).map(|kept| unsafe { Box::from_raw(kept.as_ptr()) })
}

fn pack<K>(kept: Option<Box<K>>) -> *mut () {
    kept.map_or(ptr::null_mut(), |kept| Box::into_raw(kept).cast())
}

/// # Safety
/// J1: `hook` is the installed one, an `H`.
unsafe fn spawn_by<H: SwitchHook>(hook: *const ()) -> *mut () {
    // SAFETY: J1, the caller's promise.
    let hook = unsafe { &*hook.cast::<H>() };
    pack(guarded(|| hook.spawn()).flatten())
}

/// # Safety
/// J1: `hook` is the installed one, an `H`, and `kept` as for [`unpack`].
unsafe fn enter_by<H: SwitchHook>(hook: *const (), kept: *mut ()) -> *mut () {
    // SAFETY: J1, the caller's promise.
    let hook = unsafe { &*hook.cast::<H>() };
    // SAFETY: J1, the caller's promise.
    let mut kept = unsafe { unpack::<H>(kept) };
    guarded(|| hook.enter(&mut kept));
    pack(kept)
}

/// # Safety
/// J1: as [`enter_by`].
unsafe fn leave_by<H: SwitchHook>(hook: *const (), kept: *mut (), why: Leave) -> *mut () {
    // SAFETY: J1, the caller's promise.
    let hook = unsafe { &*hook.cast::<H>() };
    // SAFETY: J1, the caller's promise.
    let mut kept = unsafe { unpack::<H>(kept) };
    guarded(|| hook.leave(&mut kept, why));
    pack(kept)
}

/// # Safety
/// J1: as [`unpack`].
unsafe fn discard_by<H: SwitchHook>(kept: *mut ()) {
    // SAFETY: J1, the caller's promise.
    let kept = unsafe { unpack::<H>(kept) };
    guarded(|| drop(kept));
}

/// What the hook keeps for one task: see the module.
pub(crate) struct Kept(Cell<*mut ()>);

// SAFETY: J1: what is behind the pointer is Send, and moves with the task.
unsafe impl Send for Kept {}
// SAFETY: J1: one owner at a time reads or writes the cell.
unsafe impl Sync for Kept {}

impl Kept {
    /// A slot with nothing in it.
    #[inline(always)]
    pub(crate) const fn empty() -> Kept {
        Kept(Cell::new(ptr::null_mut()))
    }

    /// What a child of the running code begins with.
    #[inline]
    pub(crate) fn inherited() -> Kept {
        if is_hooked() { Kept::from_hook() } else { Kept::empty() }
    }

    #[cold]
    fn from_hook() -> Kept {
        // SAFETY: J1: the table's own hook.
        let kept = table().map_or(ptr::null_mut(), |table| unsafe { (table.spawn)(table.hook) });
        Kept(Cell::new(kept))
    }

    /// Calls [`SwitchHook::enter`], if there is a hook.
    #[inline(always)]
    pub(crate) fn enter(&self) {
        if is_hooked() {
            self.enter_slowly();
        }
    }

    /// Calls [`SwitchHook::leave`], if there is a hook. After `Ended` nothing is kept any more.
    #[inline(always)]
    pub(crate) fn leave(&self, why: Leave) {
        if is_hooked() {
            self.leave_slowly(why);
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_slowly(&self) {
        let Some(table) = table() else { return };
        as_no_task(|| {
            // SAFETY: J1: the table's own hook, and the slot gives up what it has.
            self.fill(unsafe { (table.enter)(table.hook, self.0.replace(ptr::null_mut())) });
        });
    }

    #[cold]
    #[inline(never)]
    fn leave_slowly(&self, why: Leave) {
        let Some(table) = table() else { return };
        as_no_task(|| {
            // SAFETY: J1: the table's own hook, and the slot gives up what it has.
            self.fill(unsafe { (table.leave)(table.hook, self.0.replace(ptr::null_mut()), why) });
        });
        if why == Leave::Ended {
            self.clear();
        }
    }

    /// Puts something in the slot.
    fn fill(&self, kept: *mut ()) {
        // A hook that comes back to this very slot leaves something here: it must not be lost.
        drop(Kept(Cell::new(self.0.replace(kept))));
    }

    /// Takes what is in another slot.
    pub(crate) fn take_from(&self, other: &Kept) {
        self.fill(other.0.replace(ptr::null_mut()));
    }

    /// Drops what is kept.
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
        // SAFETY: J1: the slot that had it is empty or going.
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

/// Runs a part of the switch as nobody's code: the cell of the current task may name one that has ended.
fn as_no_task(call: impl FnOnce()) {
    let before = local::with(|local| local.task.replace(ptr::null()));
    call();
    local::with(|local| local.task.set(before));
}

/// Whether this thread calls the hook: false, if it has not heard of it.
#[inline(always)]
pub(crate) fn is_hooked() -> bool {
    local::with(|local| local.hooked.get())
}

/// Looks whether a hook has been installed since. See the module for which threads do this, and when.
#[inline]
pub(crate) fn hear_of_hook() {
    if !HOOK.load(Ordering::Relaxed).is_null() {
        local::with(|local| local.hooked.set(true));
    }
}

/// Has the hook say what a new task begins with.
///
/// # Safety
/// T1: the task is new: nobody but the caller knows it.
#[cold]
#[inline(never)]
pub(crate) unsafe fn inherit(task: *const Header) {
    let kept = Kept::from_hook();
    if kept.0.get().is_null() {
        return;
    }
    // SAFETY: T1, the caller's promise.
    let extra = unsafe { &raw mut (*task.cast_mut()).extra };
    // SAFETY: T1, as above.
    unsafe { &mut *extra }.get_or_insert_default().kept = kept;
}
