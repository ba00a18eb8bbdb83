//! The identity and state of the running code, and the first and last steps of every wait.
#![expect(unsafe_code, reason = "the thread-local block stores untyped pointers")]

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::ptr;
use std::thread;

use super::cancel::{self, CancelNode, CancelReason, Cancelled};
use super::deaf;
use super::header::Header;
use super::limits::{self, expire_limits, note_expired_limits};
use crate::base::sync::atomic::{self, Ordering};
use crate::base::{local, simulated};
use crate::coroutine::{hook, panics};
use crate::park::{self, while_parked};

/// A task's number, unique in the process. It is shown as `#12`. The tasks of a simulation are
/// shown with numbers of their own, from `#0`, which are the same each time that the simulation is
/// run.
///
/// # Examples
/// ```
/// use ecru::task;
///
/// ecru::run(|| {
///     let mine = task::current().id();
///     let other = ecru::spawn(|| task::current().id()).join().unwrap();
///     assert_ne!(mine, other);
///     println!("{mine} has spawned {other}");
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    /// Returns the number of a task that the caller knows to be alive.
    pub(crate) fn of(header: &Header) -> TaskId {
        TaskId(header.id())
    }

    /// Returns the number as it is shown.
    pub(crate) fn shown(self) -> u64 {
        simulated::shown_number(self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.shown())
    }
}

/// A description of a task, returned by [`current`].
///
/// # Examples
/// ```
/// use ecru::task;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         s.builder().name("reader").spawn(|| {
///             assert_eq!(task::current().name(), Some("reader"));
///         });
///     });
/// });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    id: TaskId,
    name: Option<String>,
}

impl Task {
    /// Returns the task's number, unique in the process.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Returns the name set by [`TaskBuilder::name`](crate::TaskBuilder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// Returns a description of the running task.
///
/// # Panics
/// Panics if called outside a task. A plain thread has no task.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let task = s.builder().name("indexer").spawn(|| ecru::task::current());
///         assert_eq!(task.join().unwrap().name(), Some("indexer"));
///     });
/// });
/// ```
#[must_use]
#[track_caller]
pub fn current() -> Task {
    let Some(header) = current_header() else {
        panic!(
            "`ecru::task::current` called outside a task; it works inside `ecru::run` and the tasks spawned there"
        )
    };
    Task { id: TaskId(header.id()), name: header.name().map(String::from) }
}

/// Returns the header of the running task, or `None` on a plain thread.
#[inline]
pub(crate) fn current_header<'a>() -> Option<&'a Header> {
    let header = local::with(|local| local.task.get()).cast::<Header>();
    // SAFETY: T4: the cell names the running task, which stays alive while it runs. Callers use the
    // reference for no longer.
    unsafe { header.as_ref() }
}

/// Returns a process-unique id of the current task (odd) or thread (even); never 0. No other task
/// ever has the same id, even if a suspended coroutine of this task outlives it. No other thread
/// has it while this thread lives.
pub(crate) fn current_identity() -> u64 {
    match current_header() {
        Some(header) => identity_of(header),
        None => local::with(|local| ptr::from_ref(local).addr() as u64),
    }
}

/// Returns the [identity](current_identity) of a task.
pub(crate) fn identity_of(header: &Header) -> u64 {
    header.id() << 1 | 1
}

/// Returns the id of the task that has this [identity](current_identity), or `None` if it is a
/// thread's.
pub(crate) fn task_of(identity: u64) -> Option<TaskId> {
    (identity & 1 == 1).then_some(TaskId(identity >> 1))
}

/// Returns the innermost cancel node.
#[inline]
pub(crate) fn current_node() -> *const CancelNode {
    match current_header() {
        Some(header) => header.running().node_top(),
        None => local::with(|local| local.cancel.get()).cast(),
    }
}

/// Makes `node` the innermost cancel node, and returns the previous one.
#[inline]
pub(crate) fn set_node(node: *const CancelNode) -> *const CancelNode {
    match current_header() {
        Some(header) => header.running().replace_node(node),
        None => set_node_of_thread(node),
    }
}

#[cold]
#[inline(never)]
fn set_node_of_thread(node: *const CancelNode) -> *const CancelNode {
    park::set_limits(&limits::LIMITS);
    local::with(|local| local.cancel.replace(node.cast())).cast()
}

/// Returns the innermost task-local binding.
#[inline]
pub(crate) fn bindings_now() -> *const () {
    match current_header() {
        Some(header) => header.bindings.get(),
        None => local::with(|local| local.bindings.get()),
    }
}

/// Makes `bindings` the innermost binding, and returns the previous one.
pub(crate) fn set_bindings(bindings: *const ()) -> *const () {
    match current_header() {
        Some(header) => header.bindings.replace(bindings),
        None => local::with(|local| local.bindings.replace(bindings)),
    }
}

/// Returns the request that has cancelled the running code, if there is one.
#[inline]
pub(crate) fn cancelled() -> Option<Cancelled> {
    let node = current_node();
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    let node = unsafe { node.as_ref() }?;
    if node.is_clear() {
        return None;
    }
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    unsafe { cancel::request_above(node) }
}

/// Returns the result of [`cancelled`]. Checks the clock first if a limit is above.
#[inline]
pub(crate) fn cancelled_by_now() -> Option<Cancelled> {
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    let node = unsafe { current_node().as_ref() }?;
    if !node.limit().is_null() {
        note_expired_limits();
    }
    if node.is_clear() {
        return None;
    }
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    unsafe { cancel::request_above(node) }
}

/// Returns the node whose flag [`cancelled`] saw.
pub(crate) fn flagged_node() -> *const CancelNode {
    let mut at = current_node();
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    while let Some(node) = unsafe { at.as_ref() } {
        if node.cancelled().is_some() {
            break;
        }
        at = node.parent();
    }
    at
}

/// Returns whether the running code has been cancelled, that is, whether a wait in its place would
/// return [`Cancelled`].
///
/// This is for long computations that should end early. Waits check by themselves.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let done = ecru::cancel_scope(|c| {
///         let mut rounds = 0;
///         while !ecru::is_cancelled() {
///             rounds += 1;
///             if rounds == 10 {
///                 c.cancel();
///             }
///         }
///         rounds
///     });
///     assert_eq!(done, 10);
/// });
/// ```
#[must_use]
pub fn is_cancelled() -> bool {
    cancelled().is_some() || cancelled_by_now().is_some()
}

/// Returns an error if the running code has been cancelled, as a wait would, but does not wait.
///
/// A task that computes for long should call this now and then. Like other operations that need not
/// wait, it lets the other tasks of the worker run if the task has been running for about 500 µs.
///
/// # Errors
/// Returns [`Cancelled`] with the reason.
///
/// # Cancellation
/// This is a cancellation point. Like every cancelled wait, it lets the other tasks run before it
/// returns the error. A loop that ignores the error therefore does not starve them.
///
/// # Panics
/// Panics inside [`no_suspend`](crate::no_suspend).
///
/// # Examples
/// ```
/// fn search(haystack: &[u32], needle: u32) -> Result<bool, ecru::Cancelled> {
///     for chunk in haystack.chunks(1024) {
///         ecru::checkpoint()?;
///         if chunk.contains(&needle) {
///             return Ok(true);
///         }
///     }
///     Ok(false)
/// }
/// assert_eq!(search(&[1, 2, 3], 3), Ok(true));
/// ```
#[track_caller]
pub fn checkpoint() -> Result<(), Cancelled> {
    expire_limits();
    begin_wait()
}

/// The first step of every cancellable wait. Panics under `no_suspend`, answers a request, and
/// yields when the task has used up its budget.
#[inline(always)]
#[track_caller]
pub(crate) fn begin_wait() -> Result<(), Cancelled> {
    if may_go_on() { Ok(()) } else { begin_wait_slowly() }
}

/// The first step of a wait that may switch to another task's stack without parking. Returns
/// whether the thread is panicking.
#[inline(always)]
#[track_caller]
pub(crate) fn begin_wait_in_place() -> Result<bool, Cancelled> {
    if may_go_on() { Ok(false) } else { begin_wait_slowly().map(|()| thread::panicking()) }
}

/// Returns `true` if one look shows that the wait may begin. The operation has then been counted.
#[inline(always)]
fn may_go_on() -> bool {
    may_go_on_despite::<0>()
}

/// Does what [`may_go_on`] does, whatever these flags of the thread say.
#[inline(always)]
fn may_go_on_despite<const FLAGS: u32>() -> bool {
    local::with(|local| {
        if local.no_suspend.get() & !FLAGS != 0 || thread::panicking() {
            return false;
        }
        // SAFETY: T4: the cell names the running task, which stays alive while it runs.
        let Some(header) = (unsafe { local.task.get().cast::<Header>().as_ref() }) else {
            // A plain thread may go on if no frame of this library is open on it. It has no other
            // tasks to run.
            return local.cancel.get().is_null() && local.context.get().is_null();
        };
        let budget = local.budget.get();
        if budget == 0 {
            return false;
        }
        // SAFETY: K1: the innermost node outlives the code that runs below it.
        let node = unsafe { &*header.running().node_top() };
        if !node.is_clear() {
            return false;
        }
        local.budget.set(budget - 1);
        true
    })
}

#[inline(never)]
#[track_caller]
fn begin_wait_slowly() -> Result<(), Cancelled> {
    if !park::is_unrestricted() {
        // Each wait on a thread with a mark comes here, as in a simulation.
        let is_permitted = park::may_suspend();
        if !park::is_only_simulated() {
            park::refuse_if_no_suspend();
        }
        if is_permitted && may_go_on_despite::<{ u32::MAX }>() {
            return Ok(());
        }
    }
    expire_limits();
    if let Some(cancelled) = cancelled() {
        return Err(answer(cancelled));
    }
    if is_unwinding() {
        return Err(cancelled_wait());
    }
    if is_budget_spent() {
        out_of_budget();
        // A task that ignores the errors of its waits ends here at the latest.
        unwind_by_force();
    }
    // If other tasks have run meanwhile, one of them may have made a request.
    match cancelled() {
        Some(cancelled) => Err(answer(cancelled)),
        None => Ok(()),
    }
}

/// How many operations a task may complete without waiting before it lets other tasks run.
pub(crate) const BUDGET: u32 = 128;

/// How many operations of a turn are allowed to a task about which nothing is known.
pub(crate) const FIRST_ALLOWANCE: u8 = 8;

/// Counts one operation, and lets other tasks run when the budget is used up.
#[inline]
pub(crate) fn spend_budget() {
    if is_budget_spent() {
        out_of_budget();
    }
}

/// Counts one operation. Returns whether the budget was used up before it.
#[inline]
fn is_budget_spent() -> bool {
    local::with(|local| {
        let left = local.budget.get();
        local.budget.set(left.wrapping_sub(1));
        left == 0
    })
}

/// Counts several operations. The next operation lets other tasks run if the budget is used up.
pub(crate) fn spend_budget_of(operations: u32) {
    local::with(|local| local.budget.set(local.budget.get().saturating_sub(operations)));
}

#[cold]
fn out_of_budget() {
    let is_panicking = thread::panicking();
    // A task does not make room while it unwinds, but at its first operation after that.
    local::with(|local| local.budget.set(if is_panicking { 0 } else { BUDGET }));
    if let Some(host) = park::host()
        && !is_panicking
    {
        (host.out_of_budget)();
    }
}

/// The last step of a wait that a request has ended. Marks the request as delivered, and lets other
/// tasks run.
#[cold]
#[track_caller]
pub(crate) fn answer(cancelled: Cancelled) -> Cancelled {
    unwind_by_force();
    deliver();
    deaf::count(Location::caller());
    if let Some(host) = park::host()
        && !is_unwinding()
    {
        while_parked(host.yield_now);
    }
    cancelled
}

/// Unwinds the task if its simulation ends its waits [by force](simulated::ends_by_force), unless
/// the task unwinds already.
#[cfg_attr(feature = "sim", cold)]
pub(crate) fn unwind_by_force() {
    #[cfg(feature = "sim")]
    if simulated::ends_by_force() {
        if !is_unwinding_for_certain() {
            simulated::unwind();
        }
    } else if simulated::is_cut_off_by_force() && !thread::panicking() {
        simulated::unwind();
    }
}

/// Returns whether the running task is known to unwind, also inside a shield.
#[cfg(feature = "sim")]
fn is_unwinding_for_certain() -> bool {
    thread::panicking() && !panics::some_at_rest()
}

/// Runs `body`, whose error the caller does not pass on. So if a request ends a wait in it, that
/// request does not count as delivered, and the next wait answers it.
pub(crate) fn keeping_answers<T>(body: impl FnOnce() -> T) -> T {
    struct Restore<'h>(&'h Cell<bool>, bool);
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restore = current_header().map(|header| {
        let cell = &header.running().keeps_answers;
        Restore(cell, cell.replace(true))
    });
    body()
}

/// Marks the request as delivered at its origin.
pub(crate) fn deliver() {
    if current_header().is_some_and(|header| header.running().keeps_answers.get()) {
        return;
    }
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    if let Some(origin) = unsafe { cancel::flagged_by(flagged_node()) } {
        origin.mark_delivered();
    }
}

/// Returns the number of the request that has cancelled the running code: see
/// [`CancelNode::request_number`].
pub(crate) fn request_number() -> u32 {
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    unsafe { cancel::flagged_by(flagged_node()) }.map_or(u32::MAX, CancelNode::request_number)
}

/// Returns the error of a wait that was cancelled. The flag is set, because it was set before the
/// claim.
#[cold]
pub(crate) fn cancelled_wait() -> Cancelled {
    let cancelled = cancelled().unwrap_or(Cancelled::new(CancelReason::Shutdown));
    deliver();
    cancelled
}

/// Returns whether waits are refused because the running task is unwinding, outside of a shield.
///
/// `thread::panicking` alone is not sufficient. std counts panics per thread, so while an unwinding
/// task is switched away, its siblings on the thread also seem to be panicking. [`while_parked`]
/// therefore counts the tasks that switch away while `thread::panicking` is true, as [`panics`]
/// does for coroutines. While that count is not zero, this function returns `false`. Siblings that
/// switch away meanwhile are also counted, since they cannot be told from the unwinding task. So
/// the result may be `false` for a task that unwinds, but it is never `true` for one that does not.
///
/// The panic hook runs before the unwinding. Its waits block the thread.
#[inline]
pub(crate) fn is_unwinding() -> bool {
    thread::panicking() && is_unwinding_outside_shields()
}

#[cold]
fn is_unwinding_outside_shields() -> bool {
    let Some(header) = current_header() else { return false };
    if panics::some_at_rest() {
        return false;
    }
    // Inside a shield, the walk up ends at the shield, before the task's own node.
    let mut at = header.running().node_top();
    while !at.is_null() && !ptr::eq(at, &raw const header.node) {
        // SAFETY: K1: the frames around the running code are open.
        at = unsafe { &*at }.parent();
    }
    !at.is_null() && !hook::is_running()
}

/// Makes sure that requests reach the running task: its own node, the nodes of its frames and all
/// nodes above. Until the task first waits, they need not be linked. See [`super::cancel`].
#[inline]
pub(crate) fn reach(header: &Header) -> Option<Cancelled> {
    // SAFETY: K1: the innermost node outlives the code that runs below it.
    let node = unsafe { &*header.running().node_top() };
    // The node alone does not tell: it may have been reached by a task further down.
    if !node.is_reached() || !header.reachable.load(Ordering::Relaxed) {
        reach_slowly(header, node);
    }
    node.cancelled()
}

fn reach_slowly(header: &Header, node: &CancelNode) {
    // Only the task's own thread writes this flag.
    let first = !header.reachable.load(Ordering::Relaxed);
    if first {
        header.reachable.store(true, Ordering::Release);
    }
    // SAFETY: K1: the frames around the running code are open. The task's own node stays in its
    // header until the task has unlinked it. The nodes above belong to scopes that wait for the
    // task. Each node is unlinked by the frame that opened it.
    unsafe { cancel::reach(node) };
    if first {
        // A request to any of these nodes may have come before. (For example, the service flags a
        // limit that a task further down has reached.) Either its flag is seen below, or the
        // canceller sees that the task is reachable and on which worker. `notify_cancelled` has the
        // other fence, after the flag.
        atomic::fence(Ordering::SeqCst);
    }
}
