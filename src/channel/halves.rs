//! Sends and receives without a deadline, the most frequent operations of tasks. Each tries the
//! fast path first, and otherwise waits in two halves (see [`task::away`]).
//!
//! Only the fast path and the switch are inlined into the user's function.
#![expect(unsafe_code, reason = "registers waits on the user's stack")]

use std::mem::MaybeUninit;

use super::core::Channel;
use super::fast_path::{TryRecv, TrySend};
use super::waits::{NotReceived, NotSent, Patience, Waiting};
use crate::base::sync::BiasedGuard;
use crate::park::{self, Queue};
use crate::task;
use crate::task::away::{self, Away};

/// The result of the first half.
pub(super) enum Begun<R> {
    Done(R),
    /// The caller must switch away, and then call the second half.
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
                match locked.push(value) {
                    Ok(()) => return Ok(()),
                    Err(value) => (Some(locked.receivers), value),
                }
            }
        };
        let mut waiting = MaybeUninit::uninit();
        let at = waiting.as_mut_ptr();
        // SAFETY: N1: this frame stays until the second half has returned, and only this call gets
        // the place.
        match unsafe { self.begin_send(guard, value, at) } {
            Begun::Done(result) => result,
            Begun::Away(away) => {
                away.go();
                // SAFETY: N1: the first half has begun this wait.
                unsafe { self.end_send(at) }
            }
        }
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
                match locked.push(value) {
                    Ok(()) => return Begun::Done(Ok(())),
                    Err(back) => value = back,
                }
                locked
            }
        };
        let value = match locked.try_send(value) {
            TrySend::Full(value) if task::current_header().is_some() && !park::listens() => value,
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

    /// The second half of a send.
    ///
    /// # Safety
    /// N1: [`Channel::begin_send`] has begun a wait at `at`, and the caller has switched away
    /// since. The promise of `begin_send` still holds.
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
                if let Some(value) = locked.pop() {
                    return Ok(value);
                }
                Some(locked.receivers)
            }
        };
        let mut waiting = MaybeUninit::uninit();
        let at = waiting.as_mut_ptr();
        // SAFETY: N1: this frame stays until the second half has returned, and only this call gets
        // the place.
        let received = match unsafe { self.begin_recv(guard, at) } {
            Begun::Done(received) => received,
            Begun::Away(away) => {
                away.go();
                // SAFETY: N1: the first half has begun this wait.
                unsafe { self.end_recv(at) }
            }
        };
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
                if let Some(value) = locked.pop() {
                    // SAFETY: the caller's promise.
                    return Begun::Done(unsafe { Waiting::leave(at, Ok(value)) });
                }
                locked
            }
        };
        let received = match locked.try_recv() {
            TryRecv::Value(value) => Ok(value),
            TryRecv::Disconnected => Err(NotReceived::Disconnected),
            TryRecv::Empty
                if task::current_header().is_none()
                    || park::listens()
                    || locked.state.is_timed() =>
            {
                self.recv_later(locked, None)
            }
            TryRecv::Empty => {
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

    /// The second half of a receive.
    ///
    /// # Safety
    /// N1: [`Channel::begin_recv`] has begun a wait at `at`, and the caller has switched away
    /// since. The promise of `begin_recv` still holds.
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
                // SAFETY: N1: the wait is over, and its node is out of the line.
                unsafe { Waiting::leave(at, received) }
            }
        }
    }
}
