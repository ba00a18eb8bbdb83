//! Tasks whose work is a future: their worker polls them on a stack of its own.
//!
//! [`task`] has the protocol of wakes. Here a poll is what a stretch between two switches is for a
//! task with a stack: the same cells are set before it, and the same hook is called around it.
#![expect(unsafe_code, reason = "polls tasks by pointer")]

use std::io;
use std::ptr;

use super::host;
use super::record::{self, Stop};
use super::running::fail_to_start;
use super::worker::{Outer, Worker};
use crate::base::sync::atomic::Ordering;
use crate::coroutine::stack::Stack;
use crate::coroutine::switch::{Fiber, FiberState, Suspender};
use crate::park::{self, Intent};
use crate::task::{self, Header, PendingEntry, Running, is_hooked};

/// The size of the stack on which a worker polls, in bytes. The futures of other crates expect about
/// as much.
const POLL_STACK: usize = 1 << 20;

impl Worker {
    /// Runs a task from the ready queue that has no stack: one that has not started, or one whose
    /// future has been woken.
    ///
    /// # Safety
    /// T1: the task was taken out of this worker's queue.
    #[inline(always)]
    pub(super) unsafe fn start_or_poll(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        let header = unsafe { &*task };
        if header.is_polled() && header.started.load(Ordering::Relaxed) {
            // SAFETY: T1, the caller's promise. A task in this queue that has started was pending.
            unsafe { self.poll_again(task) };
        } else {
            // SAFETY: T1, the caller's promise.
            unsafe { self.start_if_first(task, false) };
        }
    }

    /// Polls a task for the first time. Returns whether it has ended. `in_place` is as for
    /// [`Worker::start`].
    ///
    /// # Safety
    /// T3: as [`Worker::start`]. The task's work is a future.
    #[inline(never)]
    pub(super) unsafe fn start_polled(&self, task: *const Header, in_place: bool) -> bool {
        // SAFETY: T3, the caller's promise.
        let header = unsafe { &*task };
        let stack = match self.poll_stack(header) {
            Ok(stack) => stack,
            Err(error) => {
                self.shared.count_end();
                fail_to_start(task, &error, in_place);
                return true;
            }
        };
        if let Some(extra) = &header.extra {
            task::label(header, extra);
        }
        let noted = in_place.then(task::noted);
        // SAFETY: T3, the caller's promise.
        let ended = unsafe { self.poll_on(stack, task, Stretch::First { in_place }) };
        if let Some(noted) = noted {
            task::note_again(noted);
        }
        ended
    }

    /// Polls a pending task that has been woken.
    ///
    /// # Safety
    /// T1: the task was taken out of this worker's queue. Its work is a future that has been polled
    /// on this worker before.
    #[inline(never)]
    pub(super) unsafe fn poll_again(&self, task: *const Header) {
        // SAFETY: T1, the caller's promise.
        let stack = match self.poll_stack(unsafe { &*task }) {
            Ok(stack) => stack,
            // The worker has had a stack for this task, and keeps it.
            Err(error) => unreachable!("the stack for polls is gone: {error}"),
        };
        // SAFETY: T1, the caller's promise.
        unsafe { self.poll_on(stack, task, Stretch::Later) };
    }

    /// Polls a task. Returns whether it has ended.
    ///
    /// # Safety
    /// T1, T3: the task belongs to this worker, has begun, has not ended, and is in no queue.
    unsafe fn poll_on(&self, stack: Stack, task: *const Header, stretch: Stretch) -> bool {
        // SAFETY: T1, the caller's promise.
        let header = unsafe { &*task };
        let (scope, daemon, ended) = (header.scope, header.daemon, header.vtable.upcalls.ended);
        let Some(table) = header.vtable.polled else { unreachable!("the work is a future") };
        let running = stack.head().cast::<Running>();
        // SAFETY: C1: the head is the owner's, and large enough.
        unsafe { running.write(Running::new(&raw const header.node)) };
        // SAFETY: C1: written just now. It is not used after the stack has been put back.
        let own = unsafe { running.as_ref() };
        // SAFETY: T1: it has not ended.
        let rest = unsafe { (table.rest)(task) };
        // SAFETY: T1: it has not ended, so what is kept of it is in its box.
        let rest = unsafe { &*rest };
        match stretch {
            Stretch::First { in_place } => {
                if is_hooked() {
                    record::starts(header, &own.kept, in_place);
                }
                rest.entry.task.set(task);
            }
            Stretch::Later => {
                // SAFETY: L3: it is pending, so it was put into the list after its last poll.
                unsafe { self.pending.remove(&raw const rest.entry.link) };
                own.kept.take_from(&rest.kept);
                if is_hooked() {
                    record::goes_on(header, &own.kept);
                }
            }
        }
        header.running.set(running.as_ptr());
        header.begin_poll();
        let main = move |suspender: &Suspender<(), Intent>, ()| {
            // SAFETY: T2: the running task holds a reference.
            unsafe { &*task }.running().parker.set_suspender(suspender);
            // SAFETY: T3: the task has not ended, and is the current one.
            park::polling(|| task::in_poll(|| unsafe { (table.poll)(task) }))
        };
        // SAFETY: C-contract of `Fiber::new`: the closure holds a pointer to the task, which lives
        // while it runs. The fiber is complete when it is dropped (S1).
        let mut fiber = unsafe { Fiber::new(stack, main) };
        let outer = Outer::leave_for(task, 0);
        task::note(header);
        let FiberState::Complete(has_ended) = fiber.resume(()) else {
            unreachable!("a poll never waits")
        };
        outer.come_back();
        if is_hooked() {
            let stop = if has_ended { Stop::Ended } else { Stop::Pending };
            record::first_stop(&own.kept, stop, stretch == Stretch::First { in_place: true });
        }
        let is_first = stretch != Stretch::Later;
        if !has_ended {
            rest.kept.take_from(&own.kept);
            header.running.set(ptr::null());
            // SAFETY: L3: the future is pending in its box, and was taken out of the list before
            // this poll, if it was there.
            unsafe { self.pending.push(&raw const rest.entry.link) };
            self.poll_stack.replace(Some(fiber.into_stack()));
            if is_first {
                self.shared.load.store(self.shared.live() + 1, Ordering::Relaxed);
            }
            if header.end_poll() {
                // SAFETY: T1: it is in no queue, because it was not pending when it was woken.
                unsafe { self.ready.push(task) };
            }
            return false;
        }
        self.poll_stack.replace(Some(fiber.into_stack()));
        if !is_first {
            self.shared.load.store(self.shared.live() - 1, Ordering::Relaxed);
            if header.watched_since.get() != 0 {
                self.note_end(header.spawned_at(), header.watched_since.get());
            }
        }
        self.shared.count_end();
        // SAFETY: T2: the running task's reference.
        unsafe { Header::release(task) };
        // SAFETY: S5: the last access to the scope.
        unsafe { ended(scope, daemon) };
        true
    }

    /// Returns the stack for polls, at least as large as the task asks for.
    fn poll_stack(&self, header: &Header) -> io::Result<Stack> {
        let wanted = header.extra.as_ref().and_then(|extra| extra.stack_size).unwrap_or(0);
        match self.poll_stack.take() {
            Some(stack) if stack.size() >= wanted => Ok(stack),
            smaller => Stack::new(wanted.max(POLL_STACK)).inspect_err(|_| {
                self.poll_stack.replace(smaller);
            }),
        }
    }

    /// Calls `each` for the tasks of this worker whose futures are pending.
    pub(super) fn for_each_pending(&self, mut each: impl FnMut(&Header)) {
        let mut link = self.pending.first();
        while !link.is_null() {
            // SAFETY: L3: an entry in the list exists, and the link is its first field.
            let entry = unsafe { &*link.cast::<PendingEntry>() };
            link = entry.link.next();
            // SAFETY: T1: a pending task has not ended.
            each(unsafe { &*entry.task.get() });
        }
    }
}

/// Which poll of its task a poll is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stretch {
    First { in_place: bool },
    Later,
}

/// Queues a pending task that has been woken. Any thread may call it.
///
/// # Safety
/// T1: the task is pending, and the caller alone queues it.
pub(crate) unsafe fn queue_woken(task: *const Header) {
    #[cfg(feature = "sim")]
    // SAFETY: T1, the caller's promise.
    super::simulated::note_waker(unsafe { &*task });
    // SAFETY: T1, the caller's promise.
    unsafe { host::unpark(task.cast()) };
}
