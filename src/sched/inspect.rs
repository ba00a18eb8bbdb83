//! What a worker knows of its tasks, for the examination of a program that is stuck.
//!
//! Everything here runs in a task on the worker that is asked. So nothing moves while it is
//! examined, and no lock is needed. Starting, parking and ending a task costs nothing extra, except
//! for a link in a list when the task parks for the first time.
//!
//! # Stack traces
//! A parked task captures its own trace. It is resumed with a slot to fill, as if its wait were
//! over. It fills the slot and switches away again: see
//! [`wait_out`](crate::park::Parker::wait_out). No other code runs on its stack meanwhile. This
//! needs some stack, so a task that has too little left captures no trace.
//!
//! The root runs on the thread's own stack, so it cannot be resumed from within another task. The
//! scheduler switches to it at its next turn.
#![expect(unsafe_code, reason = "reaches tasks and resumes them by pointer")]

use std::backtrace::Backtrace;
use std::num::NonZero;
use std::ops::Range;
use std::panic::Location;
use std::ptr;
use std::time::Duration;

use super::host::try_yield;
use super::pool::Pool;
use super::worker::{Outer, Worker, current};
#[cfg(not(any(ecru_baton, miri, loom)))]
use crate::base::blocks;
use crate::base::clock;
use crate::base::sync::atomic::Ordering;
use crate::base::watched::WatchedThread;
#[cfg(not(any(ecru_baton, miri, loom)))]
use crate::coroutine::stack::{own_frames, registry};
use crate::park::{About, Purpose, TraceSlot, Waiter};
use crate::task::cancel::{CancelNode, Kind};
use crate::task::{self, Header, SeenTask, StartedEntry, TaskFiber};

/// A worker with more unstarted tasks than this counts them and does not look at each: a limit of
/// dumps, which no row measures.
const UNSTARTED_MAX: usize = 10_000;

/// What a task does at the moment.
#[derive(Debug)]
pub(crate) enum Doing<'a> {
    /// It is in a queue and has not begun.
    Unstarted,
    /// It goes on when its turn comes.
    Ready,
    /// Its future is pending: it waits for a call of the future's waker.
    Pending,
    /// It is parked.
    Waiting(Parked<'a>),
}

/// The wait of a parked task.
#[derive(Debug)]
pub(crate) struct Parked<'a> {
    header: &'a Header,
    waiter: &'a Waiter,
}

impl<'a> Parked<'a> {
    /// Returns what the task waits for. If that is the end of a task, also returns the header of
    /// that task.
    pub(crate) fn purpose(&self) -> (Purpose, Option<&'a Header>) {
        let purpose = self.waiter.purpose();
        let other = match purpose.about {
            // SAFETY: T2: the frame of the wait holds a reference to it.
            About::Task(other) => unsafe { other.cast::<Header>().as_ref() },
            _ => None,
        };
        (purpose, other)
    }

    /// Returns the place of the waiting call.
    pub(crate) fn at(&self) -> &'static Location<'static> {
        self.waiter.at()
    }

    /// Returns whether the wait may end although no other task acts: by a time limit, by a request
    /// that has been made already, by the kernel or by a thread.
    pub(crate) fn may_end_by_itself(&self) -> bool {
        let running = self.header.running();
        self.waiter.may_end_by_itself()
            || running.parker.has_deadline()
            || self.waiter.is_cancellable() && may_be_cancelled(running.node_top())
    }

    /// Returns whether a cancellation ends the wait.
    pub(crate) fn is_cancellable(&self) -> bool {
        self.waiter.is_cancellable()
    }

    /// Returns the memory that belongs to the task alone: its stack, and its box.
    #[cfg(not(any(ecru_baton, miri, loom)))]
    pub(crate) fn memory(&self) -> Option<[Range<usize>; 2]> {
        let on_stack = ptr::from_ref(self.waiter).addr();
        let stack = match registry::find(on_stack) {
            Some(slot) => slot.limit..slot.limit + slot.usable,
            None => {
                // The root, on this thread's own stack.
                let (low, high) = own_frames();
                low..high
            }
        };
        let header = ptr::from_ref(self.header).addr();
        let its_box = header..header + self.header.vtable.layout.size();
        stack.contains(&on_stack).then_some([stack, its_box])
    }

    /// Returns `None`: the stacks of tasks are not known here.
    #[cfg(any(ecru_baton, miri, loom))]
    #[expect(clippy::unused_self, reason = "as the other one")]
    pub(crate) fn memory(&self) -> Option<[Range<usize>; 2]> {
        None
    }

    /// Returns about how long the wait has lasted, what tells it from other waits, and whether it
    /// has been looked at before.
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^31")]
    pub(crate) fn times(&self) -> (Duration, (usize, u32), bool) {
        let (since, is_seen) = self.header.running().parker.look_at_since();
        let now = current().map_or(Duration::ZERO, |worker| {
            clock::now().saturating_duration_since(worker.pool.epoch)
        });
        let lasted = ((now.as_nanos() >> 20) as u32).wrapping_sub(since) & (u32::MAX >> 1);
        // The clock of a simulated host may be behind the one by which the wait began.
        let lasted = if lasted > u32::MAX / 4 { 0 } else { lasted };
        let wait = (ptr::from_ref(self.waiter).addr(), since);
        (Duration::from_nanos(u64::from(lasted) << 20), wait, is_seen)
    }
}

/// Returns whether a request has reached a node or one above it, or a time limit may make one.
fn may_be_cancelled(innermost: *const CancelNode) -> bool {
    let mut at = innermost;
    // SAFETY: K1: a parked task's nodes stay, and so do those above them.
    while let Some(node) = unsafe { at.as_ref() } {
        // A shield of this kind opens at a certain time.
        let opens = node.kind() == Kind::Shield;
        if opens || node.cancelled().is_some() || node.deadline().is_some() {
            return true;
        }
        at = node.parent();
    }
    false
}

/// Calls `each` with the memory that the current worker keeps for later tasks, and with the stack of
/// the running task, which asks this.
#[cfg(not(any(ecru_baton, miri, loom)))]
pub(crate) fn each_unused(mut each: impl FnMut(Range<usize>)) {
    let Some(worker) = current() else { return };
    worker.stacks.borrow().each_unused(&mut each);
    blocks::each_free(&mut each);
    let here = 0_u8;
    if let Some(own) = registry::find(std::hint::black_box(&raw const here).addr()) {
        each(own.limit..own.limit + own.usable);
    }
}

/// Does nothing: no memory is searched here.
#[cfg(any(ecru_baton, miri, loom))]
pub(crate) fn each_unused(_: impl FnMut(Range<usize>)) {}

/// Returns how many tasks of the current worker have begun, at least. It does not count futures.
pub(crate) fn count_started() -> usize {
    let Some(worker) = current() else { return 0 };
    let (mut link, mut count) = (worker.started.first(), 0);
    while !link.is_null() {
        // SAFETY: T6: an entry in the list exists, and the link is its first field.
        link = unsafe { &*link.cast::<StartedEntry>() }.link.next();
        count += 1;
    }
    count
}

/// Calls `each` for every task of the current worker except the running one. Returns the number of
/// further tasks, which have not begun.
pub(crate) fn inspect(mut each: impl FnMut(&Header, Doing<'_>)) -> usize {
    let Some(worker) = current() else { return 0 };
    let own = task::current_header().map_or(ptr::null(), ptr::from_ref);
    worker.receive_inbound();
    worker.shared.receive_woken(|task| {
        // SAFETY: T1: it came through the inbox of this worker, so it is in no queue.
        unsafe { worker.ready.push(task) };
    });
    // SAFETY: T1: the root lives as long as its worker.
    if let Some(root) = unsafe { worker.root.get().as_ref() } {
        each(root, doing(root));
    }
    let mut link = worker.started.first();
    while !link.is_null() {
        // SAFETY: T6: an entry in the list exists, and the link is its first field.
        let entry = unsafe { &*link.cast::<StartedEntry>() };
        link = entry.link.next();
        if !ptr::eq(entry.task, own) {
            // SAFETY: T6: a task in the list has not ended.
            let header = unsafe { &*entry.task };
            each(header, doing(header));
        }
    }
    worker.for_each_pending(|header| each(header, pending(header)));
    let mut each_unstarted = |header: &Header| {
        if !header.started.load(Ordering::Relaxed) {
            each(header, Doing::Unstarted);
        }
    };
    worker.ready.for_each(&mut each_unstarted);
    #[cfg(feature = "sim")]
    if let Some(simulation) = &worker.simulation {
        simulation.for_each_runnable(&mut each_unstarted);
    }
    inspect_unstarted(worker, each)
}

/// Takes the tasks out of the queue to look at them, so that no thief starts one meanwhile. Puts
/// them back in their order.
fn inspect_unstarted(worker: &Worker, mut each: impl FnMut(&Header, Doing<'_>)) -> usize {
    let queue = &worker.shared.unstarted;
    let (oldest, next) = queue.span();
    let count = usize::try_from(next - oldest).unwrap_or(0);
    if count > UNSTARTED_MAX {
        return count;
    }
    for _ in 0..count {
        let task = queue.pop_oldest();
        // SAFETY: T1: taken out of the queue just now, with its reference.
        let Some(header) = (unsafe { task.as_ref() }) else { break };
        // A join may have started it and left its entry in the queue.
        if !header.started.load(Ordering::Relaxed) {
            each(header, Doing::Unstarted);
        }
        queue.push(task);
    }
    0
}

/// Returns what a task does whose future is pending.
fn pending(header: &Header) -> Doing<'_> {
    if header.is_woken() { Doing::Ready } else { Doing::Pending }
}

fn doing(header: &Header) -> Doing<'_> {
    // SAFETY: S4: the task is not running, so the frame of what it is parked on stays.
    let Some(waiter) = (unsafe { header.running().parker.parked_on().as_ref() }) else {
        return Doing::Ready;
    };
    if waiter.is_over() {
        return Doing::Ready;
    }
    Doing::Waiting(Parked { header, waiter })
}

/// Returns the task that opened the scope of this one, or `None` for a root. Only for tasks that
/// [`inspect`] shows.
pub(crate) fn parent(header: &Header) -> Option<&Header> {
    if header.scope.is_null() {
        return None;
    }
    // SAFETY: K1: the scope's node outlives the task.
    let group = unsafe { header.node.parent().as_ref() }?;
    // SAFETY: S5: the scope's task does not end before the tasks of the scope.
    unsafe { group.owner().as_ref() }
}

/// Returns what a worker that does not answer runs, as it has noted it itself. Called on any
/// thread.
pub(crate) fn seen_on(pool: &Pool, worker: usize) -> Option<SeenTask> {
    pool.workers.get(worker)?.board.read()
}

/// Marks what a worker runs: two equal marks at different times mean that the worker has not looked
/// around in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    task: NonZero<usize>,
    looked_at: u32,
}

/// Marks what a worker runs. Returns `None` if it runs no task. Called on any thread.
pub(crate) fn mark(pool: &Pool, worker: usize) -> Option<Mark> {
    let shared = pool.workers.get(worker)?;
    let task = shared.board.address()?;
    Some(Mark { task, looked_at: shared.looked_at.load(Ordering::Relaxed) })
}

/// Returns the thread of a worker.
pub(crate) fn thread_of(pool: &Pool, worker: usize) -> &'static WatchedThread {
    pool.workers[worker].board.thread()
}

/// Returns whether a worker has tasks beside the one that it runs, which wait until it switches. The
/// running one counts itself if it has parked before, unless it is a root.
pub(crate) fn has_others(pool: &Pool, worker: usize) -> bool {
    pool.workers[worker].burden() > 0
}

/// Captures the stack trace of a task that [`inspect`] shows to be waiting. Returns `None` if the
/// task has too little stack left, and for the root.
pub(crate) fn trace(header: &Header) -> Option<Backtrace> {
    let worker = current()?;
    if ptr::eq(header, worker.root.get()) {
        return None;
    }
    let slot = TraceSlot::new(None);
    let running = header.running();
    // SAFETY: T6: the task is resumed below, and then switches away again.
    unsafe { running.parker.request_trace(&raw const slot) };
    let outer = Outer::leave_for(header, running.open_frames.get());
    // SAFETY: T1: it is parked here, so its fiber is in the slot.
    let fiber = unsafe { &mut *running.fiber.get().cast::<TaskFiber>() };
    fiber.resume(());
    running.open_frames.set(outer.come_back());
    slot.into_inner()
}

/// Captures the stack trace of this worker's root task. Returns `None` if there is no root, or if
/// it is not waiting. Other tasks run before this returns.
pub(crate) fn trace_root() -> Option<Backtrace> {
    let worker = current()?;
    // SAFETY: T1: the root lives as long as its worker.
    let root = unsafe { worker.root.get().as_ref() }?;
    if root.running().parker.parked_on().is_null() {
        return None;
    }
    let slot = TraceSlot::new(None);
    // SAFETY: T6: the root is resumed at the next turn, which this task waits for below.
    unsafe { root.running().parker.request_trace(&raw const slot) };
    // The very next turn is the root's, so nothing else can have resumed it before.
    worker.give_turn_to_root();
    try_yield();
    slot.into_inner()
}
