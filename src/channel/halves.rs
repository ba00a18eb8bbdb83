//! Sending and receiving without a deadline, which tasks do most: at once where that is possible, else as a wait in two halves (see
//! [`task::away`]).
//!
//! Only what is done at once and the switch become a part of the user's function.
#![expect(unsafe_code, reason = "registers waits on the user's stack")]

use std::mem::MaybeUninit;

use super::core::{Channel, Offered, Taken};
use super::waits::{NotReceived, NotSent, Patience, Waiting};
use crate::base::sync::BiasedGuard;
use crate::park::{self, Queue};
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
            return self.send_without_a_wait(value);
        }
        let (guard, value) = match self.list().lock_at_once() {
            None => (None, value),
            Some(queue) => {
                let mut locked = self.locked(queue);
                match locked.offer_at_once(value) {
                    Ok(()) => return Ok(()),
                    Err(value) => (Some(locked.queue), value),
                }
            }
        };
        let mut waiting = MaybeUninit::uninit();
        let at = waiting.as_mut_ptr();
        // SAFETY: N1: this frame stays until the second half has returned, and nobody else is given the place.
        match unsafe { self.begin_send(guard, value, at) } {
            Begun::Done(result) => result,
            Begun::Away(away) => {
                away.go();
                // SAFETY: N1: the first half has begun this wait.
                unsafe { self.end_send(at) }
            }
        }
    }

    /// The first half: sends, or waits in line. Who comes with the lock has found that a send at once is not possible.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the second half has returned, which is called after going away.
    #[inline(never)]
    #[track_caller]
    unsafe fn begin_send<'a>(
        &'a self,
        guard: Option<BiasedGuard<'a, Queue>>,
        mut value: T,
        at: *mut Waiting<T>,
    ) -> Begun<Result<(), NotSent<T>>> {
        let mut locked = match guard {
            Some(queue) => self.locked(queue),
            None => {
                let mut locked = self.lock();
                match locked.offer_at_once(value) {
                    Ok(()) => return Begun::Done(Ok(())),
                    Err(back) => value = back,
                }
                locked
            }
        };
        match locked.hand_over_at_once(value) {
            Ok(()) => return Begun::Done(Ok(())),
            Err(back) => value = back,
        }
        let offered =
            if locked.is_plainly_full() { Offered::Full(value) } else { locked.offer(value) };
        let value = match offered {
            Offered::Full(value) if task::current_header().is_some() && !park::listens() => value,
            offered => return Begun::Done(self.send_offered(locked, offered, None)),
        };
        // SAFETY: N1, the caller's promise.
        unsafe { Channel::line_up_to_send(&mut locked, value, at, Patience::Parks) };
        drop(locked);
        // SAFETY: N1: written just now.
        let waiter = unsafe { Waiting::waiter(at) };
        match away::begin(waiter) {
            Ok(away) => Begun::Away(away),
            // SAFETY: N1, as above.
            Err(outcome) => Begun::Done(unsafe { self.sent(at, outcome) }),
        }
    }

    /// The second half.
    ///
    /// # Safety
    /// N1: as [`Channel::begin_send`], which has begun a wait there, and the caller has been away since.
    #[inline(never)]
    unsafe fn end_send(&self, at: *mut Waiting<T>) -> Result<(), NotSent<T>> {
        // SAFETY: N1, the caller's promise.
        let outcome = away::end(unsafe { Waiting::waiter(at) });
        // SAFETY: N1, as above.
        unsafe { self.sent(at, outcome) }
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn recv(&self) -> Result<T, NotReceived> {
        if task::begin_wait().is_err() {
            return Err(NotReceived::Cancelled);
        }
        let guard = match self.list().lock_at_once() {
            None => None,
            Some(queue) => {
                let mut locked = self.locked(queue);
                if let Some(value) = locked.take_at_once() {
                    return Ok(value);
                }
                Some(locked.queue)
            }
        };
        let mut waiting = MaybeUninit::uninit();
        let at = waiting.as_mut_ptr();
        // SAFETY: N1: this frame stays until the second half has returned, and nobody else is given the place.
        let received = match unsafe { self.begin_recv(guard, at) } {
            Begun::Done(received) => received,
            Begun::Away(away) => {
                away.go();
                // SAFETY: N1: the first half has begun this wait.
                unsafe { self.end_recv(at) }
            }
        };
        // SAFETY: N2: both halves leave the value there.
        received.map(|()| unsafe { Waiting::take(at) })
    }

    /// The first half: receives, or waits in line. With the lock as above.
    ///
    /// # Safety
    /// N1: as [`Channel::begin_send`].
    #[inline(never)]
    #[track_caller]
    unsafe fn begin_recv<'a>(
        &'a self,
        guard: Option<BiasedGuard<'a, Queue>>,
        at: *mut Waiting<T>,
    ) -> Begun<Result<(), NotReceived>> {
        let mut locked = match guard {
            Some(queue) => self.locked(queue),
            None => {
                let mut locked = self.lock();
                if let Some(value) = locked.take_at_once() {
                    // SAFETY: the caller's promise.
                    return Begun::Done(unsafe { Waiting::leave(at, Ok(value)) });
                }
                locked
            }
        };
        if let Some(value) = locked.take_over_at_once() {
            // SAFETY: the caller's promise.
            return Begun::Done(unsafe { Waiting::leave(at, Ok(value)) });
        }
        let is_plain = locked.is_plainly_empty();
        let taken = if is_plain { Taken::Empty } else { locked.take() };
        let received = match taken {
            Taken::Value(value) => Ok(value),
            Taken::Disconnected => Err(NotReceived::Disconnected),
            Taken::Empty
                if task::current_header().is_none()
                    || park::listens()
                    || (!is_plain && locked.state.clockwork.is_some()) =>
            {
                self.recv_later(locked, None)
            }
            Taken::Empty => {
                // SAFETY: N1, the caller's promise.
                unsafe { Channel::line_up_to_receive(&mut locked, at, Patience::Parks) };
                drop(locked);
                // SAFETY: N1: written just now.
                let waiter = unsafe { Waiting::waiter(at) };
                return match away::begin(waiter) {
                    Ok(away) => Begun::Away(away),
                    // SAFETY: N1, as above.
                    Err(outcome) => Begun::Done(unsafe { self.received_or_not(at, outcome) }),
                };
            }
        };
        // SAFETY: the caller's promise.
        Begun::Done(unsafe { Waiting::leave(at, received) })
    }

    /// The second half.
    ///
    /// # Safety
    /// N1: as [`Channel::begin_recv`], which has begun a wait there, and the caller has been away since.
    #[inline(never)]
    #[track_caller]
    unsafe fn end_recv(&self, at: *mut Waiting<T>) -> Result<(), NotReceived> {
        // SAFETY: N1, the caller's promise.
        let outcome = away::end(unsafe { Waiting::waiter(at) });
        // SAFETY: N1, as above.
        unsafe { self.received_or_not(at, outcome) }
    }

    /// # Safety
    /// N1: as [`Channel::received`].
    #[inline(always)]
    #[track_caller]
    unsafe fn received_or_not(&self, at: *mut Waiting<T>, outcome: u32) -> Result<(), NotReceived> {
        // SAFETY: N1, the caller's promise.
        match unsafe { self.received(at, outcome) } {
            Ok(()) => Ok(()),
            Err(locked) => {
                let received = self.recv_after(locked, outcome);
                // SAFETY: N1: the wait is over, and out of its line.
                unsafe { Waiting::leave(at, received) }
            }
        }
    }
}
