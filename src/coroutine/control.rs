//! The head of a bare coroutine's stack, which holds the control block and the fiber. A bare
//! coroutine is one that is not a task.
//!
//! Both the handle ([`Coroutine`](super::Coroutine)) and the body (through its
//! [`Yielder`](super::Yielder)) use the control block. The fiber belongs to the handle. In the
//! head, both need no allocation and do not move. So a [`Coroutine`](super::Coroutine) is one
//! pointer, which is passed in a register.
//!
//! Only one thread ever accesses the head, and one of its two users is always inactive. Plain
//! cells are therefore enough.
//!
//! # The gate
//! The **gate** is the coroutine's state. While the coroutine runs, the gate is the number of
//! frames that were open when it was resumed ([`super::frames`]). At a `suspend`, exactly this
//! number must be open. So one comparison tells that the coroutine runs and has closed all frames
//! that it opened. All other states are numbers that counting never reaches. The comparison is
//! valid only on the coroutine's own stack, which `suspend` checks first (C9).
//!
//! ```text
//!   UNSTARTED --resume--> running --suspend--> SUSPENDED --resume--> running
//!   running --suspend, in a destructor run by its own panic--> PANICKING --resume--> running
//!   running --suspend_with--> SUSPENDING --its function returned--> SUSPENDED or PANICKING
//!   running --returned or panicked--> COMPLETE
//!   SUSPENDED --dropped--> UNWINDING --unwound--> COMPLETE
//!   PANICKING --dropped--> its stack is leaked
//! ```
//!
//! The end of the thread changes the gates of all its coroutines: see [`super::thread_end`].
//!
//! ```text
//!   SUSPENDED, PANICKING --> STRANDED --dropped--> its stack is leaked
//!   running, or started later --> OVERTAKEN --returned or panicked--> COMPLETE
//! ```

use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};

use super::initializers;
use super::stack::HEAD_SIZE;
use super::switch::Fiber;
use crate::base::list::Link;

/// Nothing has run.
pub(super) const UNSTARTED: u32 = u32::MAX;
/// Suspended during unwinding. It may be resumed, but cannot be unwound.
pub(super) const PANICKING: u32 = u32::MAX - 1;
/// Suspended. A coroutine whose gate is at least this may be resumed.
pub(super) const SUSPENDED: u32 = u32::MAX - 2;
/// Suspended in `suspend_with`, whose function is running.
pub(super) const SUSPENDING: u32 = u32::MAX - 3;
/// Being unwound, because it was dropped.
pub(super) const UNWINDING: u32 = u32::MAX - 4;
/// Suspended when its thread ended. It must not run any more.
pub(super) const STRANDED: u32 = u32::MAX - 5;
/// Running when its thread ended, or started later. It must not suspend any more.
pub(super) const OVERTAKEN: u32 = u32::MAX - 6;
/// Returned or unwound. Each smaller number means that the coroutine runs.
pub(super) const COMPLETE: u32 = u32::MAX - 7;

/// The control block; see the module.
#[repr(C)]
pub(super) struct Control {
    /// The links of the thread's ring of coroutines. The first field, so that [`thread_end`] finds
    /// the block.
    ///
    /// [`thread_end`]: super::thread_end
    pub(super) link: Link,
    pub(super) gate: Cell<u32>,
    /// The state that follows `SUSPENDING`. Valid in state `SUSPENDING`. `STRANDED` in state
    /// `UNSTARTED` if the thread has ended.
    pub(super) rest: Cell<u32>,
    /// Set if the coroutine borrows from the frame that created it. That frame waits for the
    /// coroutine's end.
    pub(super) scoped: Cell<bool>,
    /// The size of the coroutine's own stack below this block, or somewhat more. The guard is below
    /// it.
    pub(super) size: usize,
    /// The same as `size`, or 0 if each `suspend` must first search for initializers. A `suspend`
    /// compares its stack pointer with it in any case.
    pub(super) unsearched: usize,
    /// The function that `suspend_with` wants to be called after the switch. Valid in state
    /// `SUSPENDING`.
    pub(super) after: Cell<Option<NonNull<dyn FnMut()>>>,
    /// The suspender, of the coroutine's types. Valid while the body runs.
    pub(super) suspender: Cell<*const ()>,
}

impl Control {
    /// Creates the control block of an unstarted coroutine on a stack of this size.
    #[inline]
    pub(super) fn new(size: usize) -> Control {
        Control {
            link: Link::new(),
            gate: Cell::new(UNSTARTED),
            rest: Cell::new(SUSPENDED),
            scoped: Cell::new(false),
            size,
            unsearched: if initializers::are_checked() { 0 } else { size },
            after: Cell::new(None),
            suspender: Cell::new(ptr::null()),
        }
    }
}

/// The contents of the head of a coroutine's stack.
#[repr(C)]
pub(super) struct Head<In, Yield, Out> {
    pub(super) control: Control,
    /// Borrowed mutably only by the code that moved the gate from a suspended state to "running" or
    /// `UNWINDING`.
    pub(super) fiber: UnsafeCell<Fiber<In, Yield, Out>>,
}

impl<In, Yield, Out> Head<In, Yield, Out> {
    /// An assertion that is evaluated wherever a coroutine is created.
    pub(super) const FITS: () = assert!(size_of::<Self>() <= HEAD_SIZE && align_of::<Self>() <= 16);
}

/// Marks the coroutine as complete when its body returns or unwinds.
pub(super) struct Ending<'c>(pub(super) &'c Control);

impl Drop for Ending<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.gate.set(COMPLETE);
    }
}
