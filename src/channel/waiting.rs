//! A wait in one of a channel's lines, with the value that is sent or the place for the value that
//! is received.
#![expect(unsafe_code, reason = "registers waits in frames")]

use std::mem::MaybeUninit;
use std::time::Instant;

use super::blocking::NotReceived;
use crate::park::{About, Mode, Node, Role, Waiter};
use crate::task::{self, away::Away};

/// A wait in line. It is in the frame of the function that switches away, where the claimer finds
/// it. The layout serves a claimer on another core. If the value is a word, all that the claimer
/// accesses of a listener is in one cache line: the end of the waiter, the value, and the beginning
/// of the node.
#[repr(C, align(64))]
pub(super) struct Waiting<T> {
    waiter: Waiter,
    /// The value that is to be sent, or the place for the value that is to be received.
    value: MaybeUninit<T>,
    node: Node,
}

impl<T> Waiting<T> {
    /// Writes a wait to `at`. Its node is in no line yet.
    ///
    /// # Safety
    /// N1: only the caller uses the place at `at`, and its previous content is not used any more.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn put(
        at: *mut Waiting<T>,
        role: Role,
        what: &'static str,
        value: MaybeUninit<T>,
        patience: Patience,
    ) {
        let waiter = Waiter::new();
        waiter.set_purpose(what, About::Nothing);
        // SAFETY: N1: the place exists, and so do its parts.
        let its_waiter = unsafe { &raw const (*at).waiter };
        // SAFETY: N1, as above.
        let its_value = unsafe { Waiting::place(at) };
        // A node needs to be dropped only if it has a predicate, which this one never has.
        let node = Node::only(its_waiter, role, its_value.cast());
        // SAFETY: N1, the caller's promise.
        unsafe { at.write(Waiting { node, value, waiter }) };
        if patience == Patience::Listens {
            // SAFETY: N1, the caller's promise: no other thread knows the wait yet.
            let waiting = unsafe { &mut *at };
            let listens = waiting.waiter.prepare_to_listen();
            waiting.node.set_listens(listens);
        }
    }

    /// # Safety
    /// N1: there is a place at `at`.
    #[inline(always)]
    unsafe fn place(at: *mut Waiting<T>) -> *mut MaybeUninit<T> {
        // SAFETY: N1, the caller's promise.
        unsafe { &raw mut (*at).value }
    }

    /// # Safety
    /// N1: there is a wait at `at` as long as the result is used.
    #[inline(always)]
    pub(super) unsafe fn waiter<'w>(at: *mut Waiting<T>) -> &'w Waiter {
        // SAFETY: N1, the caller's promise.
        unsafe { &(*at).waiter }
    }

    /// # Safety
    /// N1: as [`Waiting::waiter`].
    #[inline(always)]
    pub(super) unsafe fn node<'w>(at: *mut Waiting<T>) -> &'w Node {
        // SAFETY: N1, the caller's promise.
        unsafe { &(*at).node }
    }

    /// Listens if the wait was prepared for that. Then parks if the wait is not over yet.
    ///
    /// # Safety
    /// N1: as [`Waiting::waiter`].
    #[inline]
    #[track_caller]
    pub(super) unsafe fn wait(at: *mut Waiting<T>, deadline: Option<Instant>, mode: Mode) -> u32 {
        // SAFETY: N1, the caller's promise.
        let waiter = unsafe { Waiting::waiter(at) };
        // SAFETY: N1, as above.
        if unsafe { Waiting::node(at) }.listens()
            && let Some(outcome) = waiter.listen()
        {
            return outcome;
        }
        task::wait(waiter, deadline, mode)
    }

    /// Writes a received value to its place.
    ///
    /// # Safety
    /// N1: only the caller uses the place at `at`.
    #[inline(always)]
    pub(super) unsafe fn leave(
        at: *mut Waiting<T>,
        received: Result<T, NotReceived>,
    ) -> Result<(), NotReceived> {
        // SAFETY: N1, the caller's promise.
        let place = unsafe { Waiting::place(at) };
        // SAFETY: N1, as above.
        received.map(|value| unsafe { place.write(MaybeUninit::new(value)) })
    }

    /// Moves the value out of its place.
    ///
    /// # Safety
    /// N2: the value is there, and only this call moves it out.
    #[inline(always)]
    pub(super) unsafe fn take(at: *mut Waiting<T>) -> T {
        // SAFETY: N2, the caller's promise.
        let place = unsafe { Waiting::place(at) };
        // SAFETY: N2, as above.
        unsafe { place.cast::<T>().read() }
    }
}

/// The first action of a wait's owner after it has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// The owner parks.
    Parks,
    /// The owner listens before it parks, where that helps.
    Listens,
}

/// The result of the first half of a wait.
pub(super) enum FirstHalf<R> {
    Done(R),
    /// The caller must switch away, and then call the second half.
    Parks(Away),
}
