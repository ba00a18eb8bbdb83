//! What this layer knows of a task: what it is parked on, and how it switches away.
#![expect(unsafe_code, reason = "reaches the running task and its suspender by pointer")]

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use super::host::host;
use super::{Mode, Waiter};
use crate::base::local;
use crate::base::room::has_room;
use crate::coroutine::remaining_stack;
use crate::coroutine::switch::Suspender;

/// Why a task switches away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// It waits until it is unparked.
    Park,
    /// It is ready, but lets other tasks run first.
    Yield,
    /// It could go on computing, but other tasks are ready.
    MakeRoom,
}

/// The place where a parked task stores its stack trace when a dump asks for it. It stays `None` if
/// too little stack or memory is left to take one.
pub(crate) type TraceSlot = Cell<Option<Backtrace>>;

/// The stack that a task must have left to capture its trace.
const TRACE_ROOM: usize = 8 * 1024;

/// The memory that must be left: several times what std takes for the frames of a deep stack.
const TRACE_MEMORY: usize = 64 * 1024;

/// In `since`: a dump has looked at this wait. The next wait begins without it.
const SEEN: u32 = 1 << 31;

/// The part of a started task that this layer uses. Only the task's worker accesses it. The first
/// field of a task's header points to it (T7).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Parker {
    /// Null for a root task, which runs on its thread's own stack.
    suspender: Cell<*const Suspender<(), Intent>>,
    /// The wait that the task is parked on.
    parked_on: Cell<*const Waiter>,
    /// Where the task must store its stack trace. Null unless the task was resumed only for that
    /// and then goes on waiting.
    asked: Cell<*const TraceSlot>,
    /// 1 if the task is known not to have been cancelled, so that a wait need not ask before it
    /// parks. Otherwise 0. A later request finds the task parked, or resets this.
    is_clear: Cell<u16>,
    /// Whether the wait has a deadline of its own.
    has_deadline: Cell<bool>,
    /// About when the wait began, and [`SEEN`] if a dump has seen the wait: see
    /// [`Parker::look_at_since`].
    since: Cell<u32>,
}

impl Parker {
    /// For debuggers: the offset of the pointer to the wait, which is null if the task does not
    /// wait.
    pub(crate) const PARKED_ON: usize = offset_of!(Parker, parked_on);

    pub(crate) fn new() -> Parker {
        Parker {
            suspender: Cell::new(ptr::null()),
            parked_on: Cell::new(ptr::null()),
            asked: Cell::new(ptr::null()),
            is_clear: Cell::new(0),
            has_deadline: Cell::new(false),
            since: Cell::new(0),
        }
    }

    /// Returns the running task's parker, or `None` on a plain thread.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn current<'a>() -> Option<&'a Parker> {
        let task = local::with(|local| local.task.get()).cast::<*const Parker>();
        // SAFETY: T7: the cell names the running task, whose first field points to its parker.
        unsafe { task.as_ref() }.map(|parker| unsafe { &**parker })
    }

    /// Sets how the task switches away, when it starts.
    pub(crate) fn set_suspender(&self, suspender: *const Suspender<(), Intent>) {
        self.suspender.set(suspender);
    }

    /// Returns the task's suspender. Null for a root task.
    pub(crate) fn suspender(&self) -> *const Suspender<(), Intent> {
        self.suspender.get()
    }

    /// Makes the task's next wait ask whether the task has been cancelled.
    #[inline]
    pub(crate) fn alert(&self) {
        self.is_clear.set(0);
    }

    /// Returns the wait that the task is parked on, or null.
    pub(crate) fn parked_on(&self) -> *const Waiter {
        self.parked_on.get()
    }

    /// Tells the task that a request may have reached it. Its next wait then asks. If the task is
    /// parked and `is_flagged`, does to its wait what a cancellation does. Called on the task's
    /// worker.
    pub(crate) fn interrupt(&self, is_flagged: impl FnOnce() -> bool) {
        self.alert();
        // SAFETY: S4: if the task is parked, the frame of its wait stays. This is its own worker,
        // so the task does not continue meanwhile.
        let Some(waiter) = (unsafe { self.parked_on.get().as_ref() }) else { return };
        if let Some(on_cancel) = waiter.on_cancel
            && is_flagged()
        {
            // SAFETY: S4: if the task is parked, the frame of its wait stays. This is its own
            // worker, so the task does not continue meanwhile.
            unsafe { on_cancel(waiter) };
        }
    }

    /// Asks a parked task for its stack trace. The caller then resumes the task.
    ///
    /// # Safety
    /// T6: the slot stays until the task has switched away again.
    pub(crate) unsafe fn request_trace(&self, slot: *const TraceSlot) {
        self.asked.set(slot);
    }

    /// Returns whether the wait must not begin, because the task has been cancelled.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn is_cancelled(&self, mode: Mode) -> bool {
        matches!(mode, Mode::Cancellable) && self.is_clear.get() == 0 && self.is_cancelled_slowly()
    }

    #[cold]
    fn is_cancelled_slowly(&self) -> bool {
        // Before the question: a request that comes during it clears the flag again.
        self.is_clear.set(1);
        let cancelled = host().is_some_and(|host| (host.is_cancelled)());
        if cancelled {
            self.is_clear.set(0);
        }
        cancelled
    }

    /// Records what the task is about to wait for.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn park_on(&self, waiter: &Waiter) {
        self.parked_on.set(waiter);
        self.since.set(local::with(|local| local.moment.get()));
    }

    /// Returns about when the wait of a parked task began, in units of 2^20 nanoseconds since the
    /// worker's pool was made, modulo 2^31: when the worker had looked around last. Also returns
    /// whether this was called for the same wait before. Called on the task's worker.
    pub(crate) fn look_at_since(&self) -> (u32, bool) {
        let since = self.since.replace(self.since.get() | SEEN);
        (since & !SEEN, since & SEEN != 0)
    }

    /// Records whether the wait that the task is parked on has a deadline of its own.
    pub(super) fn set_deadline(&self, has_deadline: bool) {
        self.has_deadline.set(has_deadline);
    }

    /// Returns whether the wait of a parked task has a deadline of its own. Called on the task's
    /// worker.
    pub(crate) fn has_deadline(&self) -> bool {
        self.has_deadline.get()
    }

    /// Returns the switch that parks the task.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn switch(&self) -> Switch {
        Switch { suspender: NonNull::new(self.suspender.get().cast_mut()) }
    }

    /// Records that the task is not parked any more. The task has just been resumed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn resumed(&self) {
        if !self.asked.get().is_null() {
            self.trace_and_park();
        }
        self.parked_on.set(ptr::null());
    }

    /// Switches away from the task until its wait is over.
    pub(crate) fn wait_out(&self) {
        self.switch().go();
        if !self.asked.get().is_null() {
            self.trace_and_park();
        }
    }

    /// Captures stack traces and parks again, until the wait is over. The task was resumed only for
    /// that.
    #[cold]
    #[inline(never)]
    fn trace_and_park(&self) {
        while !self.asked.get().is_null() {
            leave_trace(&self.asked);
            self.switch().go();
        }
    }
}

/// Captures the trace of the current stack for the worker that asked for it.
#[cold]
#[inline(never)]
fn leave_trace(asked: &Cell<*const TraceSlot>) {
    let slot = asked.replace(ptr::null());
    if remaining_stack() >= TRACE_ROOM && has_room(TRACE_MEMORY) {
        // SAFETY: T6: the slot stays until this task has switched away again.
        unsafe { &*slot }.set(Some(Backtrace::force_capture()));
    }
}

/// The prepared switch of the running task, which must be made now.
#[must_use]
pub(crate) struct Switch {
    /// `None` for a root task.
    suspender: Option<NonNull<Suspender<(), Intent>>>,
}

impl Switch {
    /// Switches away until the task is resumed. Neither this nor the functions around it return
    /// before that: see [`in_halves`](super::in_halves).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn go(&self) {
        match self.suspender {
            // SAFETY: T1: the running task's suspender is on its own stack.
            Some(suspender) => unsafe { suspender.as_ref() }.suspend(Intent::Park),
            None => leave_root(),
        }
    }
}

#[inline(never)]
fn leave_root() {
    if let Some(host) = host() {
        (host.leave)();
    }
}
