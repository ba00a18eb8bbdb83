//! The head of a bare coroutine's stack: its control block, which both the outside ([`Coroutine`](super::Coroutine)) and the
//! inside ([`Yielder`](super::Yielder)) need, and the fiber, which belongs to the outside. Both cost no
//! allocation there, and do not move: a [`Coroutine`](super::Coroutine) is one pointer, which is handed on in a register.
//!
//! Only one thread ever sees it, and of its two users one is always at rest, so that plain cells do.
//!
//! Its **gate** says where the coroutine stands. While it runs, the gate is the number of frames that were open when it was
//! resumed ([`super::frames`]), and at a `suspend` as many must be open: so one comparison tells that the coroutine runs and
//! leaves nothing open. All other states are numbers that are never reached by counting. The comparison is valid on the coroutine's
//! own stack only, which a `suspend` checks first.
//!
//! ```text
//!   UNSTARTED --resume--> running --suspend--> SUSPENDED --resume--> running
//!   running --suspend, in a destructor that a panic of the coroutine has called--> PANICKING --resume--> running
//!   running --suspend_with--> SUSPENDING --its function returned--> SUSPENDED or PANICKING
//!   running --returned or panicked--> COMPLETE
//!   SUSPENDED --dropped--> UNWINDING --unwound--> COMPLETE
//!   PANICKING --dropped--> its stack is leaked
//! ```

use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};

use super::stack::HEAD_SIZE;
use super::switch::Fiber;

/// Nothing has run.
pub(super) const UNSTARTED: u32 = u32::MAX;
/// At rest in `suspend`, in the middle of an unwinding: it may be resumed, but cannot be unwound.
pub(super) const PANICKING: u32 = u32::MAX - 1;
/// At rest in `suspend`. This and greater: may be resumed.
pub(super) const SUSPENDED: u32 = u32::MAX - 2;
/// At rest in `suspend_with`, whose function is running.
pub(super) const SUSPENDING: u32 = u32::MAX - 3;
/// Being unwound because it was dropped.
pub(super) const UNWINDING: u32 = u32::MAX - 4;
/// Has returned or unwound. Below: running.
pub(super) const COMPLETE: u32 = u32::MAX - 5;

/// See the module.
pub(super) struct Control {
    pub(super) gate: Cell<u32>,
    /// It borrows from the frame that made it, which waits for its end: it cannot be kept from ending.
    pub(super) scoped: Cell<bool>,
    /// The bytes below this block that are the coroutine's own stack, or somewhat more: the guard is below them.
    pub(super) size: usize,
    /// The function that `suspend_with` wants to be called after the switch; valid while the gate says `SUSPENDING`.
    pub(super) after: Cell<Option<NonNull<dyn FnMut()>>>,
    /// The state of rest that follows on `SUSPENDING`; valid while the gate says so.
    pub(super) rest: Cell<u32>,
    /// The way back, a `Suspender` of the coroutine's types; valid while the body runs.
    pub(super) suspender: Cell<*const ()>,
}

impl Control {
    /// Creates the block of a coroutine that has not started, on a stack of this size.
    #[inline]
    pub(super) fn new(size: usize) -> Control {
        Control {
            gate: Cell::new(UNSTARTED),
            scoped: Cell::new(false),
            size,
            after: Cell::new(None),
            rest: Cell::new(SUSPENDED),
            suspender: Cell::new(ptr::null()),
        }
    }
}

/// What lies in the head of a coroutine's stack.
#[repr(C)]
pub(super) struct Head<In, Yield, Out> {
    pub(super) control: Control,
    /// Borrowed mutably only by whoever moved the gate from a state of rest to "running" or `UNWINDING`.
    pub(super) fiber: UnsafeCell<Fiber<In, Yield, Out>>,
}

impl<In, Yield, Out> Head<In, Yield, Out> {
    /// Checked when a coroutine is made.
    pub(super) const FITS: () = assert!(size_of::<Self>() <= HEAD_SIZE && align_of::<Self>() <= 16);
}

/// Marks the coroutine as complete when its body ends, by whichever way.
pub(super) struct Ending<'c>(pub(super) &'c Control);

impl Drop for Ending<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.gate.set(COMPLETE);
    }
}
