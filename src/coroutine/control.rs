//! The control block of a bare coroutine: what the outside ([`Coroutine`](super::Coroutine)) and the inside
//! ([`Yielder`](super::Yielder)) both have to know. It lives in the head of the coroutine's stack, so that it costs no
//! allocation and does not move.
//!
//! Only one thread ever sees it, and of its two users one is always at rest, so that plain cells do.
//!
//! ```text
//!   UNSTARTED --resume--> RUNNING --suspend--> SUSPENDED --resume--> RUNNING
//!   RUNNING --suspend_with--> SUSPENDING --its function returned--> SUSPENDED
//!   RUNNING --returned or panicked--> COMPLETE
//!   SUSPENDED --dropped--> UNWINDING --unwound--> COMPLETE
//! ```

use std::cell::Cell;
use std::ptr::NonNull;

use super::stack::{HEAD_SIZE, Stack};

/// Nothing has run.
pub(super) const UNSTARTED: u8 = 0;
/// At rest in `suspend`.
pub(super) const SUSPENDED: u8 = 1;
/// Being executed, or waiting for a coroutine that it resumed.
pub(super) const RUNNING: u8 = 2;
/// At rest in `suspend_with`, whose function is running.
pub(super) const SUSPENDING: u8 = 3;
/// Being unwound because it was dropped.
pub(super) const UNWINDING: u8 = 4;
/// Has returned or unwound.
pub(super) const COMPLETE: u8 = 5;

/// A frame count that is never reached: as `base` it makes every `suspend` look closer.
pub(super) const CLOSED: u32 = u32::MAX;

/// See the module.
pub(super) struct Control {
    pub(super) state: Cell<u8>,
    /// How many frames were open when the coroutine was resumed: at a `suspend` it must be as many. [`CLOSED`] while
    /// the coroutine must not suspend for another reason.
    pub(super) base: Cell<u32>,
    /// The function that `suspend_with` wants to be called after the switch.
    pub(super) after: Cell<Option<NonNull<dyn FnMut()>>>,
}

const _: () = assert!(size_of::<Control>() <= HEAD_SIZE && align_of::<Control>() <= 16);

impl Control {
    /// Writes a fresh control block into a stack's head.
    pub(super) fn write(stack: &Stack) -> NonNull<Control> {
        let control = stack.head().cast::<Control>();
        let fresh = Control {
            state: Cell::new(UNSTARTED),
            base: Cell::new(CLOSED),
            after: Cell::new(None),
        };
        // SAFETY: C1: the head belongs to the stack's owner, and it is large enough and aligned.
        unsafe { control.write(fresh) };
        control
    }
}

/// Marks the coroutine as complete when its body ends, by whichever way.
pub(super) struct Ending<'c>(pub(super) &'c Control);

impl Drop for Ending<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.state.set(COMPLETE);
    }
}
