//! Polls of a rendezvous channel that find a select that waits to send. A poll is a `try_recv`, or
//! a select that does not wait.
//!
//! The select's value does not exist yet, because it is made only for a receiver. If polls ignored
//! such a select, a receiver that only polls would never get its value. So the poll becomes that
//! receiver: see the protocol of [`reservation`](super::reservation). It waits while the value is
//! being made, but not longer than [`MAKING_LIMIT`], because making the value may wait for
//! something that only the poller would do. After that it leaves like a receiver with a deadline,
//! and the value goes to the next receiver.
#![expect(unsafe_code, reason = "registers waits in frames")]

use std::mem::MaybeUninit;
use std::time::Duration;

use super::blocking::RecvEnd;
use super::core::{Channel, ChannelGuard};
use super::fast_path::TryRecv;
use crate::base::clock;
use crate::park::{self, Mode, Patience, Role, Waiting};
use crate::task;

/// The time for which a poll waits for the values that selects make for it. It is long enough to
/// wake another worker or thread and to evaluate an expression that does not wait.
const MAKING_LIMIT: Duration = Duration::from_millis(5);

impl<T> Channel<T> {
    /// Receives without waiting for a sender to arrive.
    #[inline]
    #[track_caller]
    pub(super) fn poll(&self) -> TryRecv<T> {
        let mut locked = self.lock();
        match locked.try_recv() {
            TryRecv::Empty if locked.has_offer() => self.meet(locked),
            taken => taken,
        }
    }

    /// Receives the value that a select offers to make, when there is no other value.
    #[cold]
    #[track_caller]
    pub(super) fn meet<'a>(&'a self, mut locked: ChannelGuard<'a, T>) -> TryRecv<T> {
        if !park::may_suspend() || task::is_unwinding() {
            return TryRecv::Empty;
        }
        let until = clock::now() + MAKING_LIMIT;
        loop {
            let mut waiting = MaybeUninit::uninit();
            let at = waiting.as_mut_ptr();
            // SAFETY: N1: this frame stays until the wait is over and the node is out of the line.
            if !unsafe { locked.register_poll(self, at) } {
                return TryRecv::Empty;
            }
            drop(locked);
            // SAFETY: N1: written just now.
            let outcome = unsafe { Waiting::wait(at, Some(until), Mode::Uninterruptible) };
            // SAFETY: N1: the wait is over.
            locked = match unsafe { self.received(at, &outcome) } {
                // SAFETY: N2: the value is in its place.
                RecvEnd::Received => return TryRecv::Value(unsafe { Waiting::take(at) }),
                RecvEnd::Failed(_) => self.lock(),
                RecvEnd::LookAgain(locked) => locked,
            };
            // The value did not come. If there is still an offer, it is a new one or that of
            // another select.
            match locked.try_recv() {
                TryRecv::Empty if locked.has_offer() && clock::now() < until => {}
                taken => return taken,
            }
        }
    }
}

impl<T> ChannelGuard<'_, T> {
    /// Registers a receive that found nothing but an offer, and claims the offer. Returns `false`
    /// if the offer is gone. Then nothing is registered.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the wait is over and [`Channel::received`] has returned.
    #[track_caller]
    unsafe fn register_poll(&mut self, channel: &Channel<T>, at: *mut Waiting<T>) -> bool {
        let wait =
            self.wait(channel, ChannelGuard::<T>::AN_OFFER, Role::Meet, Mode::Uninterruptible);
        // SAFETY: the caller's promise.
        unsafe { Waiting::put(at, wait, MaybeUninit::uninit(), Patience::Parks) };
        // SAFETY: N1, the caller's promise.
        let node = unsafe { Waiting::node(at) };
        // SAFETY: N1, the caller's promise.
        unsafe { self.receivers.push(node) };
        let paired = self.pair(node);
        if !paired {
            self.receivers.remove(node);
        }
        paired
    }
}
