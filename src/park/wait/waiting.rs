//! A wait in one line, with room for a value. Its switch may be inlined into the user's function:
//! see "Waits in two halves" in [`super`].
#![expect(unsafe_code, reason = "reaches a wait in the frame of another stack")]

use std::mem::MaybeUninit;
use std::time::Instant;

use super::parking::{self, park};
use super::{Mode, Outcome, Patience, Wait};
use crate::park::host;
use crate::park::parker::Switch;
use crate::park::{Node, Waiter};

/// A wait in one line, with room for a value. It is in the frame of the function that switches
/// away, where the claimer finds it. The layout serves a claimer on another core. If the value is a
/// word, all that the claimer accesses of a listener is in one cache line: the end of the waiter,
/// the value, and the beginning of the node.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Waiting<T> {
    waiter: Waiter,
    /// The value that is to be given away, or the place for the value that is to be received.
    value: MaybeUninit<T>,
    node: Node,
}

impl<T> Waiting<T> {
    /// Writes a wait to `at`. The caller then puts its [node](Waiting::node) in a line.
    ///
    /// # Safety
    /// N1: only the caller uses the place at `at`, and its previous content is not used any more.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub(crate) unsafe fn put(
        at: *mut Waiting<T>,
        wait: Wait,
        value: MaybeUninit<T>,
        patience: Patience,
    ) {
        let waiter = wait.waiter();
        // SAFETY: N1: the place exists, and so do its parts.
        let its_waiter = unsafe { &raw const (*at).waiter };
        // SAFETY: N1: the place exists, and so do its parts.
        let its_value = unsafe { &raw mut (*at).value };
        // A node needs to be dropped only if it has a predicate, which this one never has.
        let node = Node::only(its_waiter, wait.role, its_value.cast());
        // SAFETY: N1, the caller's promise.
        unsafe { at.write(Waiting { node, value, waiter }) };
        if patience == Patience::Listens && host::listens() {
            // SAFETY: N1: no other thread knows the wait yet.
            let waiting = unsafe { &mut *at };
            let listens = waiting.waiter.become_listener();
            waiting.node.set_listens(listens);
        }
    }

    /// Returns the node of the wait.
    ///
    /// # Safety
    /// N1: there is a wait at `at` as long as the result is used.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn node<'w>(at: *mut Waiting<T>) -> &'w Node {
        // SAFETY: N1, the caller's promise.
        unsafe { &(*at).node }
    }

    /// The first half of the wait, which has been registered and does not listen. The result is for
    /// [`in_halves`], or it is the outcome.
    ///
    /// # Safety
    /// N1: there is a wait at `at`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn begin(at: *mut Waiting<T>) -> Result<Switch, Outcome<()>> {
        // SAFETY: N1, the caller's promise.
        parking::begin(unsafe { &(*at).waiter }, None, Mode::Cancellable)
    }

    /// The second half of the wait.
    ///
    /// # Safety
    /// N1: [`Waiting::begin`] has returned a switch, which has been made.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn end(at: *mut Waiting<T>) -> Outcome<()> {
        // SAFETY: N1, the caller's promise.
        parking::end(unsafe { &(*at).waiter })
    }

    /// Waits, after the registration. Listens before if the wait was [put](Waiting::put) for that.
    ///
    /// # Safety
    /// N1: there is a wait at `at`.
    #[inline]
    pub(crate) unsafe fn wait(
        at: *mut Waiting<T>,
        deadline: Option<Instant>,
        mode: Mode,
    ) -> Outcome<()> {
        // SAFETY: N1, the caller's promise.
        let waiting = unsafe { &*at };
        if waiting.node.listens() && waiting.waiter.listen() {
            return waiting.waiter.ended();
        }
        park(&waiting.waiter, deadline, mode)
    }

    /// Writes a received value to its place.
    ///
    /// # Safety
    /// N1: only the caller uses the place at `at`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn leave(at: *mut Waiting<T>, value: T) {
        // SAFETY: N1, the caller's promise.
        let place = unsafe { &raw mut (*at).value };
        // SAFETY: N1, the caller's promise.
        unsafe { place.write(MaybeUninit::new(value)) };
    }

    /// Moves the value out of its place.
    ///
    /// # Safety
    /// N2: the value is there, and only this call moves it out.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn take(at: *mut Waiting<T>) -> T {
        // SAFETY: N2, the caller's promise.
        let place = unsafe { &raw const (*at).value };
        // SAFETY: N2, the caller's promise.
        unsafe { place.cast::<T>().read() }
    }
}

/// The result of the first half of a wait.
pub(crate) enum Begun<R> {
    Done(R),
    /// The task must switch away, and then execute the second half.
    Parks(Switch),
}

/// Executes both halves of a wait, with the switch between them inlined into the caller.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn in_halves<R>(begun: Begun<R>, end: impl FnOnce() -> R) -> R {
    match begun {
        Begun::Done(result) => result,
        Begun::Parks(switch) => {
            switch.go();
            end()
        }
    }
}
