//! What other threads may touch of a worker: its inboxes, its queue of unstarted tasks, and its
//! sleep.
//!
//! # Inboxes
//! An inbox is a stack of task headers, linked through the headers. There are three:
//! - `woken` holds tasks to run.
//! - `cancelled` holds tasks whose nodes have been flagged. Each message owns a reference.
//! - `inbound` holds unstarted tasks that were placed here.
//!
//! Any thread pushes. The worker takes all entries at once and restores their order.
//!
//! Any worker of the pool may take from `inbound`, again all at once, so that tasks are not
//! stranded when this worker is busy for long. A task in it has no `worker`, so a join does not
//! start it, and its link stays the inbox's.
//!
//! # Sleep
//! ```text
//!   the worker                                    a sender
//!   state <- ASLEEP or IN_DRIVER    (SeqCst)       push onto an inbox               (SeqCst)
//!   look at the inboxes once more   (SeqCst)       look at the state                (SeqCst)
//!   sleep                                          if it is not AWAKE: exchange it for AWAKE
//!   state <- AWAKE                                   and wake by futex or the driver's waker
//! ```
//! One of the two sees the other. Either the worker finds the message at its last look, or the
//! sender finds the worker asleep and wakes it. Only the push that finds the inbox empty looks at
//! the state. If the inbox was not empty, an earlier push has looked.
//!
//! # Life
//! S6: a `WorkerShared` is never freed, nor is its waker closed. A foreign thread may still be
//! about to write to it long after it has made a task runnable. It is recycled when its pool is
//! dropped.
#![expect(unsafe_code, reason = "links headers of tasks into stacks")]

use std::mem::offset_of;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::deque::Deque;
use crate::base::sync::atomic::{
    AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use crate::base::sync::{StaticPtr, fence_for_loom, futex};
use crate::driver::Waker;
use crate::task::{Board, Header};

const AWAKE: u32 = 0;
/// Asleep on the futex, because no driver has been opened yet.
const ASLEEP: u32 = 1;
/// Asleep in the driver's poll.
const IN_DRIVER: u32 = 2;

/// See the module.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct WorkerShared {
    woken: AtomicPtr<Header>,
    cancelled: AtomicPtr<Header>,
    inbound: AtomicPtr<Header>,
    sleep: AtomicU32,
    /// About when the worker last looked around, as a `placement::Moment`; see `look.rs`.
    pub(super) looked_at: AtomicU32,
    /// The number of started tasks that have switched away and have not ended. Only the worker
    /// writes to it.
    pub(super) load: AtomicUsize,
    /// The number of tasks that have ended on the worker. Only the worker writes to it.
    pub(super) ended: AtomicU64,
    /// The number of tasks in `inbound`. It may lag behind.
    inbound_count: AtomicUsize,
    pub(super) waker: OnceLock<Waker>,
    pub(super) unstarted: Deque<Header>,
    /// The number of tasks that other workers have taken out of `unstarted`. Only the watching
    /// worker writes to it.
    pub(super) stolen: AtomicIsize,
    /// What the worker runs, as it notes it itself. Read when the worker does not answer.
    pub(super) board: Board,
    /// For debuggers: the [`Worker`](super::worker::Worker), while it has a thread.
    pub(super) worker: StaticPtr<()>,
    /// For debuggers: the [`Local`](crate::base::local::Local) of its thread.
    pub(super) local: StaticPtr<()>,
    /// For debuggers: the next one of the process.
    next: Option<&'static WorkerShared>,
}

/// The newest one of the process. Written only under the lock of [`RETIRED`].
pub(super) static NEWEST: StaticPtr<WorkerShared> = StaticPtr::new(ptr::null_mut());

static RETIRED: Mutex<Vec<&'static WorkerShared>> = Mutex::new(Vec::new());

impl WorkerShared {
    /// For debuggers: the offset of the pointer to the next one of the process.
    pub(super) const NEXT: usize = offset_of!(WorkerShared, next);
    /// For debuggers: the offset of the pointer to the newest task that was placed here.
    pub(super) const INBOUND: usize = offset_of!(WorkerShared, inbound);

    /// Returns a retired one, or a new one, which lives as long as the process.
    pub(super) fn obtain() -> &'static WorkerShared {
        let mut retired = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
        retired.pop().unwrap_or_else(|| {
            // SAFETY: S6: it is never freed.
            let next = unsafe { NEWEST.load(Ordering::Relaxed).as_ref() };
            let new = Box::leak(Box::new(WorkerShared { next, ..WorkerShared::new() }));
            NEWEST.store(new, Ordering::Relaxed);
            new
        })
    }

    pub(super) fn new() -> WorkerShared {
        WorkerShared {
            woken: AtomicPtr::new(ptr::null_mut()),
            cancelled: AtomicPtr::new(ptr::null_mut()),
            inbound: AtomicPtr::new(ptr::null_mut()),
            sleep: AtomicU32::new(AWAKE),
            looked_at: AtomicU32::new(0),
            load: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            inbound_count: AtomicUsize::new(0),
            waker: OnceLock::new(),
            unstarted: Deque::new(),
            stolen: AtomicIsize::new(0),
            board: Board::new(),
            worker: StaticPtr::new(ptr::null_mut()),
            local: StaticPtr::new(ptr::null_mut()),
            next: None,
        }
    }

    /// Makes it available to the next pool. No task is queued here any more, but a request to
    /// cancel may have arrived for a task that was about to end.
    pub(super) fn retire(&'static self) {
        self.receive_cancelled(|task| {
            // SAFETY: T2: the message's reference.
            unsafe { Header::release(task) };
        });
        self.load.store(0, Ordering::Relaxed);
        self.ended.store(0, Ordering::Relaxed);
        RETIRED.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    /// Sends a task that is to run here.
    ///
    /// # Safety
    /// T1: the header's `next` is the caller's, because the task is in no queue. The task lives
    /// until this worker has run it.
    pub(super) unsafe fn send_woken(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        let link = unsafe { &(*task).next };
        if push(&self.woken, task, link) {
            self.wake();
        }
    }

    /// Places unstarted tasks here.
    ///
    /// # Safety
    /// T1: the tasks are in no queue, their `worker` is null, and the caller gives the queue's
    /// references away.
    pub(super) unsafe fn send_inbound(&self, tasks: Chain) {
        let Some((first, last)) = tasks.ends else { return };
        // SAFETY: T1, the caller's promise.
        let link = unsafe { &(*last).next };
        self.inbound_count.fetch_add(tasks.count, Ordering::Relaxed);
        if push(&self.inbound, first, link) {
            self.wake();
        }
    }

    /// Takes all inbound tasks and calls `each` for them, oldest first. `each` receives the queue's
    /// reference. Returns the number of tasks. Any worker of the pool may call this.
    pub(super) fn take_inbound(&self, mut each: impl FnMut(*const Header)) -> usize {
        if self.inbound.load(Ordering::Relaxed).is_null() {
            return 0;
        }
        let mut count = 0;
        let taken = self.inbound.swap(ptr::null_mut(), Ordering::Acquire);
        let mut task = reverse(taken, |header| &header.next);
        while !task.is_null() {
            // SAFETY: T1: a task in an inbox lives; `next` is read before it is handed on.
            let next = unsafe { (*task).next.load(Ordering::Relaxed) };
            count += 1;
            each(task);
            task = next;
        }
        self.inbound_count.fetch_sub(count, Ordering::Relaxed);
        count
    }

    /// Returns the newest inbound task, for comparison only. Null if there is none.
    pub(super) fn newest_inbound(&self) -> *const Header {
        self.inbound.load(Ordering::Relaxed)
    }

    /// Counts a task that has ended. Called by the worker only.
    #[inline(always)]
    pub(super) fn count_end(&self) {
        self.ended.store(self.ended.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns the number of the worker's started tasks.
    pub(super) fn live(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Returns roughly how many tasks the worker has and is to have: started, unstarted and inbound
    /// ones.
    pub(super) fn burden(&self) -> usize {
        self.load.load(Ordering::Relaxed)
            + self.unstarted.len()
            + self.inbound_count.load(Ordering::Relaxed)
    }

    /// Sends a task whose nodes have been flagged.
    ///
    /// # Safety
    /// T2: the caller gives a reference away, and has just set `cancel_queued`.
    pub(super) unsafe fn send_cancelled(&self, task: *const Header) {
        // SAFETY: T2, the caller's promise.
        let link = unsafe { &(*task).cancel_next };
        if push(&self.cancelled, task, link) {
            self.wake();
        }
    }

    /// Takes all woken tasks and calls `each` for them, oldest first.
    pub(super) fn receive_woken(&self, mut each: impl FnMut(*const Header)) {
        if self.woken.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut task =
            reverse(self.woken.swap(ptr::null_mut(), Ordering::Acquire), |header| &header.next);
        while !task.is_null() {
            // SAFETY: T1: a task in an inbox lives; `next` is read before it is handed on.
            let next = unsafe { (*task).next.load(Ordering::Relaxed) };
            each(task);
            task = next;
        }
    }

    /// Takes all messages about cancellations and calls `each` for them, oldest first. `each`
    /// receives the message's reference.
    pub(super) fn receive_cancelled(&self, mut each: impl FnMut(*const Header)) {
        if self.cancelled.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut task = reverse(self.cancelled.swap(ptr::null_mut(), Ordering::Acquire), |header| {
            &header.cancel_next
        });
        while !task.is_null() {
            // SAFETY: T2: the message owns a reference.
            let header = unsafe { &*task };
            // The link is read before the next message may use it.
            let next = header.cancel_next.load(Ordering::Relaxed);
            // This is an exchange, not a store. A sender that finds it set has raised a flag that
            // `each` sees. A sender that finds it clear sends again.
            header.cancel_queued.swap(false, Ordering::AcqRel);
            each(task);
            task = next;
        }
    }

    pub(super) fn has_news(&self) -> bool {
        !self.woken.load(Ordering::SeqCst).is_null()
            || !self.cancelled.load(Ordering::SeqCst).is_null()
            || !self.inbound.load(Ordering::SeqCst).is_null()
    }

    /// Wakes the worker if it sleeps.
    pub(super) fn wake(&self) {
        fence_for_loom();
        if self.sleep.load(Ordering::SeqCst) == AWAKE {
            return;
        }
        match self.sleep.swap(AWAKE, Ordering::SeqCst) {
            ASLEEP => futex::wake(&raw const self.sleep),
            IN_DRIVER => self.waker.get().expect("a worker polls a driver that has a waker").wake(),
            _ => {}
        }
    }

    pub(super) fn is_asleep(&self) -> bool {
        // SeqCst: see `Pool::end_watch` and `Pool::wake_sleeper`.
        self.sleep.load(Ordering::SeqCst) != AWAKE
    }

    /// Announces that the worker is about to sleep. Returns false if there is news, and the worker
    /// must not sleep.
    pub(super) fn fall_asleep(&self, in_driver: bool) -> bool {
        self.set_sleep(if in_driver { IN_DRIVER } else { ASLEEP });
        fence_for_loom();
        if self.has_news() {
            self.set_sleep(AWAKE);
            return false;
        }
        true
    }

    /// Writes the worker's own changes of the state.
    ///
    /// An exchange costs as much as a `SeqCst` store (on x86 it is the same instruction), and makes
    /// the order of all writes to this word plain to loom. Loom does not know that nothing comes
    /// between what an exchange reads and what it writes.
    ///
    /// Suppose that the worker stores ASLEEP, a waker exchanges it for AWAKE, and the worker then
    /// stores AWAKE and ASLEEP. Loom considers it possible that the waker's AWAKE is the last of
    /// the four. Once loom finds out that it is not, it forgets that the *next* waker's AWAKE came
    /// after the second ASLEEP. A worker that this waker has woken may then read ASLEEP again, and
    /// sleeps forever. This happens in loom, not in C++20, where a read cannot return a value that
    /// was replaced by a write that happened before the read.
    fn set_sleep(&self, state: u32) {
        self.sleep.swap(state, Ordering::SeqCst);
    }

    /// Sleeps without a driver, after [`WorkerShared::fall_asleep`].
    pub(super) fn sleep(&self, until: Option<Instant>) {
        while self.sleep.load(Ordering::SeqCst) == ASLEEP {
            if !futex::sleep(&self.sleep, ASLEEP, until) {
                break;
            }
        }
        self.set_sleep(AWAKE);
    }

    /// Marks the worker as awake after it was in its driver, or after it decided not to sleep.
    pub(super) fn wake_up(&self) {
        self.set_sleep(AWAKE);
    }
}

/// Unstarted tasks that are linked through their headers, newest first. An inbox takes a chain in
/// one step.
#[derive(Debug)]
pub(super) struct Chain {
    /// The newest and the oldest task.
    ends: Option<(*const Header, *const Header)>,
    count: usize,
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain { ends: None, count: 0 };

    /// Adds a task as the newest one.
    ///
    /// # Safety
    /// T1: the task is in no queue, and the caller gives the queue's reference away.
    pub(super) unsafe fn push(&mut self, task: *const Header) {
        let (newest, oldest) = self.ends.unwrap_or((ptr::null(), task));
        // SAFETY: T1, the caller's promise.
        let header = unsafe { &*task };
        // Null until the task starts. A join must not start it, because its link is the inbox's.
        header.worker.store(ptr::null_mut(), Ordering::Relaxed);
        header.next.store(newest.cast_mut(), Ordering::Relaxed);
        self.ends = Some((task, oldest));
        self.count += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }
}

/// Pushes a chain whose newest task is `first`. `link` is the link of its oldest task. Returns
/// whether the stack was empty.
fn push(stack: &AtomicPtr<Header>, first: *const Header, link: &AtomicPtr<Header>) -> bool {
    let mut head = stack.load(Ordering::Relaxed);
    loop {
        link.store(head, Ordering::Relaxed);
        // Release: the worker sees the link, and all that this thread did before. SeqCst: see
        // "Sleep".
        match stack.compare_exchange_weak(
            head,
            first.cast_mut(),
            Ordering::SeqCst,
            Ordering::Relaxed,
        ) {
            Ok(_) => return head.is_null(),
            Err(seen) => head = seen,
        }
    }
}

/// Reverses a stack that was taken off, so that the oldest task comes first.
fn reverse(mut head: *mut Header, link: impl Fn(&Header) -> &AtomicPtr<Header>) -> *const Header {
    let mut reversed: *mut Header = ptr::null_mut();
    // SAFETY: T1/T2: tasks in an inbox live, and their links are the inbox's.
    while let Some(task) = unsafe { head.as_ref() } {
        let next = link(task).load(Ordering::Relaxed);
        link(task).store(reversed, Ordering::Relaxed);
        reversed = head;
        head = next;
    }
    reversed
}

#[cfg(all(test, loom))]
mod loom_models;
