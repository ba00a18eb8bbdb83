//! Tasks whose work is a future.
//!
//! Such a task has a stack only while its worker polls it, and that stack is the worker's. While
//! the future is *pending*, the task is its box and nothing else. A [`Waker`] is a reference to the
//! box. It may outlive the task's scope, because an ended box has nothing left that borrows.
//!
//! # States
//! The byte [`Header::wakes`] has three bits. Any thread sets `WOKEN`. The rest is the worker's.
//!
//! ```text
//!                  poll                 pending                  wake
//!    (unpolled) ---------> POLLING ------------------> 0 ----------------> WOKEN, is queued
//!                           |  |  \                                            | poll
//!                           |  |   `- wake -> POLLING | WOKEN                  v
//!                           |  |               | pending: is queued by      POLLING
//!                           |  |               v the worker
//!                           |  |             WOKEN
//!                           |  | ready, cancelled or panicked
//!                           |  v
//!                           | OVER
//! ```
//! The thread that changes 0 to `WOKEN` queues the task, and no other thread does. A task that is
//! `WOKEN` is in the worker's queue or inbox until its worker takes it out to poll it.
//!
//! Every wake is a read-modify-write with `AcqRel`, also one that finds `WOKEN`. The worker's change
//! to `POLLING` acquires all of them, so a poll sees what happened before each wake that it answers.
//!
//! A request to cancel is delivered as a wake. The worker first polls, so that an item which has
//! been handed over is not lost, and drops the future if it is still pending.
//!
//! # Pinning
//! T8: the future stays in its box from the first poll until it is dropped there.
#![expect(unsafe_code, reason = "polls a future in the box of a task, and makes wakers of the box")]

use std::any::Any;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use super::current::{deliver, reach};
use super::header::Header;
use super::observer::{self, Ending};
use super::result::{Failure, Stage, TaskBox, Work, drop_quietly};
use super::switch_hook::{Kept, calls_observer};
use super::unseen;
use crate::base::list::Link;
use crate::base::sync::atomic::Ordering;

/// A wake-up has come that no poll has answered.
const WOKEN: u8 = 1;
/// The worker polls the future.
const POLLING: u8 = 2;
/// The state before the first poll, which is the only one that needs no wake.
pub(super) const UNPOLLED: u8 = POLLING;
/// The task has ended.
const OVER: u8 = 4;

/// The work of a task without a stack: a future, and the scope's way of treating its failures.
pub(crate) trait PolledBody: Work {
    /// Polls the future. It may panic.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Self::Output, Failure>>;
    /// Returns the failure of a task whose future has panicked.
    fn panicked(&self, payload: Box<dyn Any + Send>) -> Failure;
}

/// A future in its task's box, and what the worker keeps beside it while it is pending.
pub(crate) struct Polled<P> {
    rest: Rest,
    body: P,
}

/// The entry by which a worker finds its pending tasks.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PendingEntry {
    /// The first field, so that a pointer to the link is also one to the entry.
    pub(crate) link: Link,
    /// Null until the task is pending for the first time.
    pub(crate) task: Cell<*const Header>,
}

/// What the worker keeps of a task that is pending.
#[derive(Debug)]
pub(crate) struct Rest {
    /// The entry in the worker's list of pending tasks.
    pub(crate) entry: PendingEntry,
    /// What the switch hook keeps for the task.
    pub(crate) kept: Kept,
}

impl<P> Polled<P> {
    pub(crate) fn new(body: P) -> Polled<P> {
        let entry = PendingEntry { link: Link::new(), task: Cell::new(ptr::null()) };
        Polled { rest: Rest { entry, kept: Kept::empty() }, body }
    }
}

impl<P: Work> Work for Polled<P> {
    type Output = P::Output;
}

/// The functions of a task whose work is a future of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollTable {
    /// Polls the future. Returns whether the task has ended. Does not release the running task's
    /// reference.
    pub(crate) poll: unsafe fn(*const Header) -> bool,
    /// Returns what the worker keeps of the task until it ends.
    pub(crate) rest: unsafe fn(*const Header) -> *const Rest,
}

impl<P: PolledBody> TaskBox<Polled<P>> {
    pub(crate) const POLL_TABLE: PollTable =
        PollTable { poll: Self::__rust_begin_short_backtrace_poll, rest: Self::rest };

    /// # Safety
    /// T1: the caller is the worker of the task, which has not ended.
    unsafe fn rest(this: *const Header) -> *const Rest {
        // SAFETY: T2: a task that has not ended is alive.
        let stage = unsafe { Self::stage_of(this) };
        // SAFETY: T1, by this function's contract.
        match unsafe { &*stage } {
            Stage::Waiting(polled) => &raw const polled.rest,
            Stage::Ended(_) | Stage::Empty => ptr::null(),
        }
    }

    /// # Safety
    /// T3: called by the task's worker, on a stack for polls, with the task as the current one. The
    /// task has not ended.
    unsafe fn __rust_begin_short_backtrace_poll(this: *const Header) -> bool {
        // SAFETY: T2: the running task holds a reference.
        let header = unsafe { &*this };
        // SAFETY: T2: the running task holds a reference.
        let stage = unsafe { Self::stage_of(this) };
        // SAFETY: T1: the running task owns its stage until it announces the result.
        let Stage::Waiting(polled) = (unsafe { &mut *stage }) else {
            unreachable!("a task that has ended is not polled")
        };
        let has_begun = header.reachable.load(Ordering::Relaxed);
        // A request that comes during the poll is answered by the next one.
        let is_last = has_begun && reach(header).is_some();
        let polled_once = if has_begun || header.begins() {
            // SAFETY: M1, T2: the reference of the running task outlives this poll.
            let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw_waker(this)) });
            // SAFETY: T8: the future does not leave its box before it is dropped, below.
            let body = unsafe { Pin::new_unchecked(&mut polled.body) };
            let poll = AssertUnwindSafe(|| body.poll(&mut Context::from_waker(&waker)));
            match panic::catch_unwind(poll) {
                Ok(Poll::Pending) if is_last => {
                    deliver();
                    Err(Failure::NeverRan)
                }
                Ok(Poll::Pending) => {
                    if reach(header).is_some() {
                        header.wake();
                    }
                    return false;
                }
                Ok(Poll::Ready(result)) => result,
                Err(payload) => Err(polled.body.panicked(payload)),
            }
        } else {
            Err(Failure::NeverRan)
        };
        let result = drop_body(polled, polled_once);
        if result.is_ok() {
            unseen::excuse_if_cancelled::<P::Output>(header);
        }
        let panicked = matches!(result, Err(Failure::Panicked(_)));
        if calls_observer() {
            observer::ended(header, Ending::of(&result));
        }
        // SAFETY: T1: the running task still owns its stage. The future has been dropped, and the
        // rest needs no drop.
        unsafe { Self::put(this, Stage::Ended(result)) };
        header.wakes.fetch_or(OVER, Ordering::AcqRel);
        // This keeps `end` from releasing the running task's reference early.
        header.has_fiber.set(true);
        // SAFETY: T3: the result is stored, and the worker calls this once more for no task.
        unsafe { Header::end(this, panicked) };
        true
    }
}

/// Drops the future in its place. Returns the result of its task, which fails if the destructor
/// panics.
fn drop_body<P: PolledBody>(
    polled: &mut Polled<P>,
    result: Result<P::Output, Failure>,
) -> Result<P::Output, Failure> {
    let body: *mut P = &raw mut polled.body;
    // SAFETY: T8: the future is dropped once, because the caller overwrites its stage.
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| unsafe { body.drop_in_place() }));
    match dropped {
        Ok(()) => result,
        Err(payload) if matches!(result, Err(Failure::Panicked(_) | Failure::Failed)) => {
            drop_quietly(payload);
            result
        }
        Err(payload) => {
            drop_quietly(result);
            Err(Failure::Panicked(super::located(payload)))
        }
    }
}

impl Header {
    /// Returns whether the task's work is a future.
    #[inline]
    pub(crate) fn is_polled(&self) -> bool {
        self.vtable.polled.is_some()
    }

    /// Notes that the worker polls the future now. The poll answers all wakes that came before.
    pub(crate) fn begin_poll(&self) {
        self.wakes.swap(POLLING, Ordering::AcqRel);
    }

    /// Notes that the poll is over and the future is pending. Returns whether it has been woken
    /// meanwhile. The caller then queues the task.
    pub(crate) fn end_poll(&self) -> bool {
        self.wakes.fetch_and(!POLLING, Ordering::AcqRel) & WOKEN != 0
    }

    /// Returns whether a pending task has been woken.
    pub(crate) fn is_woken(&self) -> bool {
        self.wakes.load(Ordering::Relaxed) & WOKEN != 0
    }

    /// Wakes a task whose work is a future: it is polled soon, unless it has ended.
    pub(crate) fn wake(&self) {
        if self.wakes.fetch_or(WOKEN, Ordering::AcqRel) == 0 {
            // SAFETY: T1: the task is pending, hence in no queue, and this call alone queues it. It
            // does not end before it has been polled again.
            unsafe { (self.vtable.upcalls.woken)(self) };
        }
    }
}

/// Makes a waker of a reference to a task.
fn raw_waker(task: *const Header) -> RawWaker {
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |task| {
            // SAFETY: T2: the waker that is cloned holds a reference.
            unsafe { &*task.cast::<Header>() }.retain();
            raw_waker(task.cast())
        },
        |task| {
            // SAFETY: T2: the waker holds a reference.
            unsafe { &*task.cast::<Header>() }.wake();
            // SAFETY: T2: the waker's reference ends with it.
            unsafe { Header::release(task.cast()) };
        },
        // SAFETY: T2: the waker holds a reference.
        |task| unsafe { &*task.cast::<Header>() }.wake(),
        // SAFETY: T2: the waker's reference ends with it.
        |task| unsafe { Header::release(task.cast()) },
    );
    RawWaker::new(task.cast(), &TABLE)
}

#[cfg(all(test, loom))]
mod loom_models;
