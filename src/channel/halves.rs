//! Sending and receiving without a deadline, which tasks do most: at once where that is possible, else as a wait in two halves (see
//! [`task::away`](crate::task::away)).
//!
//! Only what is done at once and the switch become a part of the user's function.
#![expect(unsafe_code, reason = "registers waits on the user's stack")]

use std::mem::MaybeUninit;

use super::core::{Channel, Offered, Taken};
use super::waits::{NotReceived, NotSent, Waiting};
use crate::task;
use crate::task::away::{self, Away};

/// What the first half came to.
pub(super) enum Begun<R> {
    Done(R),
    /// The caller is to go away, and to call the second half then.
    Away(Away),
}

impl<T> Channel<T> {
    #[inline(always)]
    #[track_caller]
    pub(super) fn send(&self, value: T) -> Result<(), NotSent<T>> {
        if task::begin_wait().is_err() {
            return Err(NotSent::Cancelled(value));
        }
        let value = match self.lock_at_once() {
            None => value,
            Some(mut locked) => match locked.offer_at_once(value) {
                Ok(()) => return Ok(()),
                Err(value) => value,
            },
        };
        let mut waiting = MaybeUninit::uninit();
        let at = waiting.as_mut_ptr();
        // SAFETY: N1: this frame stays until the second half has returned, and nobody else is given the place.
        match unsafe { self.begin_send(value, at) } {
            Begun::Done(result) => result,
            Begun::Away(away) => {
                away.go();
                // SAFETY: N1: the first half has begun this wait.
                unsafe { self.end_send(at) }
            }
        }
    }

    /// The first half: sends, or waits in line.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the second half has returned, which is called after going away.
    #[inline(never)]
    #[track_caller]
    unsafe fn begin_send(&self, value: T, at: *mut Waiting<T>) -> Begun<Result<(), NotSent<T>>> {
        let mut locked = self.lock();
        // The first, for who has come from a lock that somebody had.
        let done = locked.offer_at_once(value).or_else(|value| locked.hand_over_at_once(value));
        let Err(value) = done else { return Begun::Done(Ok(())) };
        let offered = if locked.is_full() { Offered::Full(value) } else { locked.offer(value) };
        let value = match offered {
            Offered::Full(value) if task::current_header().is_some() => value,
            offered => return Begun::Done(self.send_offered(locked, offered, None)),
        };
        // SAFETY: N1, the caller's promise.
        unsafe { Channel::line_up_to_send(locked, value, at) };
        // SAFETY: N1: written just now.
        let waiter = unsafe { &(*at).waiter };
        match away::begin(waiter) {
            Some(away) => Begun::Away(away),
            // SAFETY: N1, as above.
            None => Begun::Done(unsafe { self.sent(at, waiter.outcome()) }),
        }
    }

    /// The second half.
    ///
    /// # Safety
    /// N1: as [`Channel::begin_send`], which has begun a wait there, and the caller has been away since.
    #[inline(never)]
    unsafe fn end_send(&self, at: *mut Waiting<T>) -> Result<(), NotSent<T>> {
        // SAFETY: N1, the caller's promise.
        let outcome = away::end(unsafe { &(*at).waiter });
        // SAFETY: N1, as above.
        unsafe { self.sent(at, outcome) }
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn recv(&self) -> Result<T, NotReceived> {
        if task::begin_wait().is_err() {
            return Err(NotReceived::Cancelled);
        }
        if let Some(mut locked) = self.lock_at_once()
            && let Some(value) = locked.take_at_once()
        {
            return Ok(value);
        }
        let mut waiting = MaybeUninit::uninit();
        let at = waiting.as_mut_ptr();
        // SAFETY: N1: this frame stays until the second half has returned, and nobody else is given the place.
        match unsafe { self.begin_recv(at) } {
            Begun::Done(result) => result,
            Begun::Away(away) => {
                away.go();
                // SAFETY: N1: the first half has begun this wait.
                unsafe { self.end_recv(at) }
            }
        }
    }

    /// The first half: receives, or waits in line.
    ///
    /// # Safety
    /// N1: as [`Channel::begin_send`].
    #[inline(never)]
    #[track_caller]
    unsafe fn begin_recv(&self, at: *mut Waiting<T>) -> Begun<Result<T, NotReceived>> {
        let mut locked = self.lock();
        if let Some(value) = locked.take_at_once().or_else(|| locked.take_over_at_once()) {
            return Begun::Done(Ok(value));
        }
        let taken = if locked.has_nothing() { Taken::Empty } else { locked.take() };
        match taken {
            Taken::Value(value) => return Begun::Done(Ok(value)),
            Taken::Disconnected => return Begun::Done(Err(NotReceived::Disconnected)),
            Taken::Empty => {}
        }
        if task::current_header().is_none() || locked.state.clockwork.is_some() {
            return Begun::Done(self.recv_later(locked, None));
        }
        // SAFETY: N1, the caller's promise.
        unsafe { Channel::line_up_to_receive(locked, at) };
        // SAFETY: N1: written just now.
        let waiter = unsafe { &(*at).waiter };
        match away::begin(waiter) {
            Some(away) => Begun::Away(away),
            // SAFETY: N1, as above.
            None => Begun::Done(unsafe { self.received_or_not(at, waiter.outcome()) }),
        }
    }

    /// The second half.
    ///
    /// # Safety
    /// N1: as [`Channel::begin_recv`], which has begun a wait there, and the caller has been away since.
    #[inline(never)]
    #[track_caller]
    unsafe fn end_recv(&self, at: *mut Waiting<T>) -> Result<T, NotReceived> {
        // SAFETY: N1, the caller's promise.
        let outcome = away::end(unsafe { &(*at).waiter });
        // SAFETY: N1, as above.
        unsafe { self.received_or_not(at, outcome) }
    }

    /// # Safety
    /// N1: as [`Channel::received`].
    #[inline(always)]
    #[track_caller]
    unsafe fn received_or_not(&self, at: *mut Waiting<T>, outcome: u32) -> Result<T, NotReceived> {
        // SAFETY: N1, the caller's promise.
        unsafe { self.received(at, outcome) }.or_else(|locked| self.recv_after(locked, outcome))
    }
}
