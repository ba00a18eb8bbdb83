//! The control block of a bare coroutine: what the outside ([`Coroutine`](super::Coroutine)) and the inside
//! ([`Yielder`](super::Yielder)) both have to know. It lives in the head of the coroutine's stack, so that it costs no
//! allocation and does not move.
//!
//! Only one thread ever sees it, and of its two users one is always at rest, so that plain cells do.
//!
//! Its **gate** says where the coroutine stands. While it runs, the gate is the number of frames that were open when it was
//! resumed ([`super::frames`]), and at a `suspend` as many must be open: so one comparison tells that the coroutine runs and
//! leaves nothing open. All other states are numbers that are never reached by counting.
//!
//! ```text
//!   UNSTARTED --resume--> running --suspend--> SUSPENDED --resume--> running
//!   running --suspend_with--> SUSPENDING --its function returned--> SUSPENDED
//!   running --returned or panicked--> COMPLETE
//!   SUSPENDED --dropped--> UNWINDING --unwound--> COMPLETE
//! ```

use std::cell::Cell;
use std::ptr::NonNull;

use super::stack::{HEAD_SIZE, Stack};

/// Nothing has run.
pub(super) const UNSTARTED: u32 = u32::MAX;
/// At rest in `suspend`. This and greater: may be resumed.
pub(super) const SUSPENDED: u32 = u32::MAX - 1;
/// At rest in `suspend_with`, whose function is running.
pub(super) const SUSPENDING: u32 = u32::MAX - 2;
/// Being unwound because it was dropped.
pub(super) const UNWINDING: u32 = u32::MAX - 3;
/// Has returned or unwound. Below: running.
pub(super) const COMPLETE: u32 = u32::MAX - 4;

/// See the module.
pub(super) struct Control {
    pub(super) gate: Cell<u32>,
    /// The function that `suspend_with` wants to be called after the switch; valid while the gate says `SUSPENDING`.
    pub(super) after: Cell<Option<NonNull<dyn FnMut()>>>,
    /// The way back, a `Suspender` of the coroutine's types; valid while the body runs.
    pub(super) suspender: Cell<*const ()>,
}

const _: () = assert!(size_of::<Control>() <= HEAD_SIZE && align_of::<Control>() <= 16);

impl Control {
    /// Writes a fresh control block into a stack's head.
    #[inline]
    pub(super) fn write(stack: &Stack) -> NonNull<Control> {
        let control = stack.head().cast::<Control>();
        // SAFETY: C1: the head belongs to the stack's owner, and it is large enough and aligned; all zero is a valid block.
        unsafe { control.write_bytes(0, 1) };
        // SAFETY: it was just written.
        unsafe { control.as_ref() }.gate.set(UNSTARTED);
        control
    }
}

/// Marks the coroutine as complete when its body ends, by whichever way.
pub(super) struct Ending<'c>(pub(super) &'c Control);

impl Drop for Ending<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.gate.set(COMPLETE);
    }
}
