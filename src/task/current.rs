//! What the code that runs right now may ask about itself, and the first and last steps of every wait.
#![expect(unsafe_code, reason = "the thread-local block stores untyped pointers")]

use std::fmt;
use std::panic::Location;
use std::ptr;
use std::thread;
use std::time::Instant;

use super::away;
use super::cancel::{self, CancelNode, CancelReason, Cancelled, DeadlineNode, ShieldNode};
use super::deaf;
use super::header::Header;
use crate::base::sync::atomic::{self, Ordering};
use crate::base::{clock, local};
use crate::coroutine::panics;
use crate::park::{self, CANCELLED, Mode, TIMED_OUT, Waiter};

/// A task's number, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    /// The number of a task that the caller knows to be alive.
    pub(crate) fn of(header: &Header) -> TaskId {
        TaskId(header.id())
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The task that is running: what [`current`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    id: TaskId,
    name: Option<String>,
}

impl Task {
    /// Its number, unique in the process.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The name that it was given by [`TaskBuilder::name`](crate::TaskBuilder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// The task that is running.
///
/// # Panics
/// Outside a task: a plain thread has no task.
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

/// The header of the task that is running.
#[inline]
pub(crate) fn current_header<'a>() -> Option<&'a Header> {
    let header = local::with(|local| local.task.get()).cast::<Header>();
    // SAFETY: T4: the cell names the running task, which stays alive while it runs; callers use it for no longer.
    unsafe { header.as_ref() }
}

/// A number for whoever is running, by which one finds oneself again in what one has written down: no other task ever has it, even if a
/// coroutine of this one lives on, suspended, when it ends; and no other thread, as long as this one lives. Never 0. Odd for tasks and
/// even for threads, so that the two are not mistaken.
pub(crate) fn current_identity() -> u64 {
    match current_header() {
        Some(header) => header.id() << 1 | 1,
        None => local::with(|local| ptr::from_ref(local).addr() as u64),
    }
}

/// The innermost cancel node.
#[inline]
pub(crate) fn current_node() -> *const CancelNode {
    match current_header() {
        Some(header) => header.running().node_top.get(),
        None => local::with(|local| local.cancel.get()).cast(),
    }
}

/// Makes another node the innermost one; returns the one before.
#[inline]
pub(crate) fn set_node(node: *const CancelNode) -> *const CancelNode {
    match current_header() {
        Some(header) => header.running().node_top.replace(node),
        None => local::with(|local| local.cancel.replace(node.cast())).cast(),
    }
}

/// The innermost task-local binding.
#[inline]
pub(crate) fn bindings_now() -> *const () {
    match current_header() {
        Some(header) => header.bindings.get(),
        None => local::with(|local| local.bindings.get()),
    }
}

/// Makes another binding the innermost one; returns the one before.
pub(crate) fn set_bindings(bindings: *const ()) -> *const () {
    match current_header() {
        Some(header) => header.bindings.replace(bindings),
        None => local::with(|local| local.bindings.replace(bindings)),
    }
}

/// Whether the running code has been asked to stop.
#[inline]
pub(crate) fn cancelled() -> Option<Cancelled> {
    let node = current_node();
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    let node = unsafe { node.as_ref() }?;
    if node.is_clear() {
        return None;
    }
    // SAFETY: K1, as above.
    unsafe { cancel::ask(node) }
}

/// [`cancelled`], after a look at the clock where a limit is above.
#[inline]
pub(crate) fn cancelled_by_now() -> Option<Cancelled> {
    // SAFETY: K1, as in `cancelled`.
    let node = unsafe { current_node().as_ref() }?;
    if !node.limit().is_null() {
        note_expired_limits();
    }
    if node.is_clear() {
        return None;
    }
    // SAFETY: K1, as above.
    unsafe { cancel::ask(node) }
}

/// The node whose flag [`cancelled`] saw.
pub(crate) fn flagged_node() -> *const CancelNode {
    let mut at = current_node();
    // SAFETY: K1, as in `cancelled`.
    while let Some(node) = unsafe { at.as_ref() } {
        if node.cancelled().is_some() {
            break;
        }
        at = node.parent();
    }
    at
}

/// Whether the running code has been asked to stop: true once a wait in its place would return
/// [`Cancelled`].
///
/// For long computations that want to end early; waits look by themselves.
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

/// Returns an error once the running code has been asked to stop, as a wait would, but never waits.
///
/// # Errors
/// [`Cancelled`], with the reason.
///
/// # Cancellation
/// A cancel point. Like every cancelled wait it lets the other tasks run, so that a loop which ignores the error does not
/// starve them.
///
/// # Panics
/// Inside [`no_suspend`](crate::no_suspend).
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
    look_at_the_clock();
    begin_wait()
}

/// The first step of every wait that can be cancelled: refuses under `no_suspend`, answers a request, and yields when the
/// task has had its share.
#[inline(always)]
#[track_caller]
pub(crate) fn begin_wait() -> Result<(), Cancelled> {
    if may_go_on() { Ok(()) } else { begin_wait_slowly() }
}

/// Whether a task may begin a wait, for all that can be seen at a glance; if so, the operation has been counted.
#[inline(always)]
fn may_go_on() -> bool {
    local::with(|local| {
        if local.no_suspend.get() != 0 || thread::panicking() {
            return false;
        }
        // SAFETY: T4: the cell names the running task, which stays alive while it runs.
        let Some(header) = (unsafe { local.task.get().cast::<Header>().as_ref() }) else {
            // A plain thread: nothing of ours is open on it, and it has no others to let run.
            return local.cancel.get().is_null() && local.context.get().is_null();
        };
        let budget = local.budget.get();
        if budget == 0 {
            return false;
        }
        // SAFETY: K1: the innermost node outlives the code that runs below it.
        let node = unsafe { &*header.running().node_top.get() };
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
    park::refuse_if_no_suspend();
    look_at_the_clock();
    if let Some(cancelled) = cancelled() {
        return Err(answer(cancelled));
    }
    if is_unwinding() {
        return Err(cancelled_wait());
    }
    spend_budget();
    // If the others have run meanwhile, one of them may have asked.
    match cancelled() {
        Some(cancelled) => Err(answer(cancelled)),
        None => Ok(()),
    }
}

/// How many waits a task may get through without having to wait before it lets others run.
pub(crate) const BUDGET: u32 = 128;

/// Counts one operation, and lets the others run when the task has had its share.
#[inline]
pub(crate) fn spend_budget() {
    let spent = local::with(|local| {
        let left = local.budget.get();
        local.budget.set(left.wrapping_sub(1));
        left == 0
    });
    if spent {
        out_of_budget();
    }
}

#[cold]
fn out_of_budget() {
    local::with(|local| local.budget.set(BUDGET));
    if let Some(host) = park::host()
        && !thread::panicking()
    {
        (host.out_of_budget)();
    }
}

/// The last step of a wait that a request has ended: the request counts as delivered, and the others may run.
#[cold]
#[track_caller]
pub(crate) fn answer(cancelled: Cancelled) -> Cancelled {
    deliver();
    deaf::count(Location::caller());
    if let Some(host) = park::host()
        && !is_unwinding()
    {
        while_parked(host.yield_now);
    }
    cancelled
}

/// Notes at the node that asked that a wait has answered.
pub(crate) fn deliver() {
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    if let Some(origin) = unsafe { cancel::flagged_by(flagged_node()) } {
        origin.mark_delivered();
    }
}

/// The number of the request that the running code has got: see [`CancelNode::request_number`].
pub(crate) fn request_number() -> u32 {
    // SAFETY: K1: the innermost node and its parents outlive the code that runs below them.
    unsafe { cancel::flagged_by(flagged_node()) }.map_or(u32::MAX, CancelNode::request_number)
}

/// What a wait that was cancelled returns. The flag is there: it came before the claim.
#[cold]
pub(crate) fn cancelled_wait() -> Cancelled {
    let cancelled = cancelled().unwrap_or(Cancelled::new(CancelReason::Shutdown));
    deliver();
    cancelled
}

/// Whether waits are refused because the running task is being unwound: it is, and not in a shield.
///
/// `thread::panicking` alone does not tell: the thread's count goes on while an unwinding task is switched away from, and leaks
/// to its siblings. So [`while_parked`] counts those, as [`panics`] does for coroutines, and while there is one the answer is no. A
/// sibling that is switched away from meanwhile is counted as well, since nobody can tell: the answer may be no too often, but never yes
/// for a task that is not unwinding.
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
    // In a shield the way up ends before it comes to the task's own node.
    let mut at = header.running().node_top.get();
    while !at.is_null() && !ptr::eq(at, &raw const header.node) {
        // SAFETY: K1: the frames around the running code are open.
        at = unsafe { &*at }.parent();
    }
    !at.is_null()
}

/// Switches away from the running task, or runs another one on top of it: see [`is_unwinding`].
#[inline(always)]
pub(crate) fn while_parked<T>(switch: impl FnOnce() -> T) -> T {
    let unwinding = begin_parked();
    // Called in one place, so that it becomes a part of the caller.
    let result = switch();
    end_parked(unwinding);
    result
}

/// The first half of [`while_parked`], for a switch too large to be inlined as a closure. Returns what [`end_parked`] takes.
#[inline(always)]
pub(crate) fn begin_parked() -> bool {
    let unwinding = thread::panicking();
    if unwinding {
        panics::leave_behind();
    }
    unwinding
}

/// The second half of [`while_parked`].
#[inline(always)]
pub(crate) fn end_parked(unwinding: bool) {
    if unwinding {
        panics::take_up();
    }
}

/// Waits for a registered waiter: the one primitive under everything that waits with a deadline or can be cancelled.
///
/// Returns the outcome. After [`TIMED_OUT`] and [`CANCELLED`] the caller takes the waiter out of wherever it registered it.
///
/// Inlined always: each return between two switches is predicted wrong, see the worker's turn.
#[inline(always)]
pub(crate) fn wait(waiter: &Waiter, deadline: Option<Instant>, mode: Mode) -> u32 {
    let Some(header) = current_header() else { return wait_on_thread(waiter, deadline, mode) };
    if deadline.is_some() || thread::panicking() {
        return wait_in_task(header, waiter, deadline, mode);
    }
    match away::leave(header, waiter, mode) {
        Err(outcome) => outcome,
        Ok(away) => {
            away.go();
            away::end(waiter)
        }
    }
}

/// What is left: with a deadline, which is the host's to keep, or while the task unwinds, which has to be known to its siblings.
#[inline(never)]
fn wait_in_task(header: &Header, waiter: &Waiter, deadline: Option<Instant>, mode: Mode) -> u32 {
    if mode == Mode::Cancellable && reach(header).is_some() && waiter.claim(CANCELLED) {
        return CANCELLED;
    }
    while_parked(|| waiter.park(deadline, mode))
}

/// Makes sure that requests reach the running task: its own node, the frames in it and all that is above, which was not worth it
/// before. See [`super::cancel`].
#[inline]
pub(crate) fn reach(header: &Header) -> Option<Cancelled> {
    // SAFETY: K1: the innermost node outlives the code that runs below it.
    let node = unsafe { &*header.running().node_top.get() };
    // Not the node alone: it may have been reached from further down.
    if !node.is_reached() || !header.reachable.load(Ordering::Relaxed) {
        reach_slowly(header, node);
    }
    node.cancelled()
}

fn reach_slowly(header: &Header, node: &CancelNode) {
    // The task's own thread alone writes it.
    let first = !header.reachable.load(Ordering::Relaxed);
    if first {
        header.reachable.store(true, Ordering::Release);
    }
    // SAFETY: K1: the frames around the running code are open, its own node is in its header until it has unlinked it, and what is
    // above belongs to scopes that wait for it; whoever opened a node unlinks it.
    unsafe { cancel::reach(node) };
    if first {
        // A request may have come before to any of these nodes, whoever has made it (a watchdog asks a limit that a task further down has
        // reached). Either its flag is seen below; or it sees that the task can be reached, and on which worker: `tell` has the other
        // fence, after the flag.
        atomic::fence(Ordering::SeqCst);
    }
}

/// A plain thread takes the nearest enclosing deadline as its own.
#[cold]
fn wait_on_thread(waiter: &Waiter, deadline: Option<Instant>, mode: Mode) -> u32 {
    let enclosing = if mode == Mode::Uninterruptible { None } else { nearest_deadline() };
    let (first, expires) = match (deadline, enclosing) {
        (Some(own), Some((at, node))) if at < own => (Some(at), node),
        (None, Some((at, node))) => (Some(at), node),
        _ => (deadline, ptr::null()),
    };
    let outcome = waiter.park(first, mode);
    // SAFETY: K1: the enclosing frames are open.
    match unsafe { expires.as_ref() } {
        Some(node) if outcome == TIMED_OUT => {
            cancel::cancel(node, CancelReason::Deadline);
            CANCELLED
        }
        _ => outcome,
    }
}

/// The earliest deadline of the frames around the running code, up to the next shield, and its node.
pub(crate) fn nearest_deadline() -> Option<(Instant, *const CancelNode)> {
    let mut nearest: Option<(Instant, *const CancelNode)> = None;
    for_each_limit(|node| {
        if let Some(limit) = DeadlineNode::of(node)
            && nearest.is_none_or(|(other, _)| limit.deadline <= other)
        {
            nearest = Some((limit.deadline, node));
        }
    });
    nearest
}

/// Shows the limits of the running code, the innermost one first.
#[inline]
fn for_each_limit(mut each: impl FnMut(&CancelNode)) {
    let mut at = current_node();
    // SAFETY: K1: the frames around the running code are open, and so is what is above them.
    while let Some(node) = unsafe { at.as_ref() } {
        // SAFETY: K1, as above: the limit is the node itself or above it.
        let Some(limit) = (unsafe { node.limit().as_ref() }) else { return };
        each(limit);
        at = limit.parent();
    }
}

/// Sees to it that a limit of the running code whose time has come takes effect, though no timer has rung: a plain thread has
/// none, and a worker that computes does not look at its own. Reads the clock only below a limit.
#[inline]
pub(crate) fn look_at_the_clock() {
    // SAFETY: K1: the innermost node outlives the code that runs below it.
    if let Some(node) = unsafe { current_node().as_ref() }
        && !node.limit().is_null()
    {
        note_expired_limits();
    }
}

/// Whether a task at or above the running one belongs to the same worker.
fn is_beside(running: &Header, above: *const Header) -> bool {
    // SAFETY: K1: a task's ancestors outlive it.
    let above = unsafe { above.as_ref() };
    // Both have started, so neither changes its worker any more.
    above.is_some_and(|above| {
        ptr::eq(above.worker.load(Ordering::Relaxed), running.worker.load(Ordering::Relaxed))
    })
}

#[inline(never)]
fn note_expired_limits() {
    let now = clock::now();
    let header = current_header();
    for_each_limit(|node| {
        if let Some(shield) = ShieldNode::of(node)
            && shield.deadline <= now
            && header.is_some_and(|header| is_beside(header, shield.task))
        {
            // SAFETY: K1: `shield_for` has reached what is outside, and its frame is open. On the task's own worker.
            unsafe { shield.open() };
        }
    });
    let Some((deadline, node)) = nearest_deadline() else { return };
    if deadline > now {
        return;
    }
    if let Some(header) = header {
        // What is between the limit and this task must be linked, or its flag would not be seen here.
        reach(header);
    }
    // SAFETY: K1: the frame is open.
    cancel::cancel(unsafe { &*node }, CancelReason::Deadline);
}
