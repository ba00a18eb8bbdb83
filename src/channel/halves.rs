//! Sends and receives without a deadline, the most frequent operations of tasks. Each tries the
//! fast path first, and otherwise waits in two halves (see [`park::in_halves`]).
//!
//! Only the fast path and the switch are inlined into the user's function.
#![expect(unsafe_code, reason = "registers waits on the user's stack")]

use std::mem::MaybeUninit;

use super::core::{Channel, Offered, Taken};
use super::waits::{NotReceived, NotSent};
use crate::base::sync::BiasedGuard;
use crate::park::{self, Begun, Outcome, Patience, Queue, Waiting};
use crate::task;

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
        // SAFETY: N1: this frame stays until the second half has returned, and only this call gets
        // the place.
        let begun = unsafe { self.begin_send(guard, value, at) };
        // SAFETY: N1: the first half has begun this wait.
        park::in_halves(begun, || unsafe { self.end_send(at) })
    }

    /// The first half of a send: sends, or registers the wait. A caller that passes the lock has
    /// already tried the fast path in vain.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the second half has returned. The caller switches away and
    /// then calls the second half.
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
        match unsafe { Waiting::begin(at) } {
            Ok(switch) => Begun::Parks(switch),
            // SAFETY: N1, as above.
            Err(outcome) => Begun::Done(unsafe { self.sent(at, outcome) }),
        }
    }

    /// The second half of a send.
    ///
    /// # Safety
    /// N1: [`Channel::begin_send`] has begun a wait at `at`, and the caller has switched away
    /// since. The promise of `begin_send` still holds.
    #[inline(never)]
    unsafe fn end_send(&self, at: *mut Waiting<T>) -> Result<(), NotSent<T>> {
        // SAFETY: N1, the caller's promise.
        let outcome = unsafe { Waiting::end(at) };
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
        // SAFETY: N1: this frame stays until the second half has returned, and only this call gets
        // the place.
        let begun = unsafe { self.begin_recv(guard, at) };
        // SAFETY: N1: the first half has begun this wait.
        let received = park::in_halves(begun, || unsafe { self.end_recv(at) });
        // SAFETY: N2: if either half succeeds, it leaves the value there.
        received.map(|()| unsafe { Waiting::take(at) })
    }

    /// The first half of a receive: receives, or registers the wait. A caller that passes the lock
    /// has already tried the fast path in vain.
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
                    unsafe { Waiting::leave(at, value) };
                    return Begun::Done(Ok(()));
                }
                locked
            }
        };
        if let Some(value) = locked.take_over_at_once() {
            // SAFETY: the caller's promise.
            unsafe { Waiting::leave(at, value) };
            return Begun::Done(Ok(()));
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
                return match unsafe { Waiting::begin(at) } {
                    Ok(switch) => Begun::Parks(switch),
                    // SAFETY: N1, as above.
                    Err(outcome) => Begun::Done(unsafe { self.received_or_not(at, outcome) }),
                };
            }
        };
        // SAFETY: the caller's promise.
        Begun::Done(received.map(|value| unsafe { Waiting::leave(at, value) }))
    }

    /// The second half of a receive.
    ///
    /// # Safety
    /// N1: [`Channel::begin_recv`] has begun a wait at `at`, and the caller has switched away
    /// since. The promise of `begin_recv` still holds.
    #[inline(never)]
    #[track_caller]
    unsafe fn end_recv(&self, at: *mut Waiting<T>) -> Result<(), NotReceived> {
        // SAFETY: N1, the caller's promise.
        let outcome = unsafe { Waiting::end(at) };
        // SAFETY: N1, as above.
        unsafe { self.received_or_not(at, outcome) }
    }

    /// # Safety
    /// N1: as [`Channel::received`].
    #[inline(always)]
    #[track_caller]
    unsafe fn received_or_not(
        &self,
        at: *mut Waiting<T>,
        outcome: Outcome<()>,
    ) -> Result<(), NotReceived> {
        // SAFETY: N1, the caller's promise.
        match unsafe { self.received(at, &outcome) } {
            Ok(()) => Ok(()),
            Err(locked) => {
                let received = self.recv_after(locked, &outcome);
                // SAFETY: N1: the wait is over, and its node is out of the line.
                received.map(|value| unsafe { Waiting::leave(at, value) })
            }
        }
    }
}
