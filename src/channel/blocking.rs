//! Sends and receives that may wait.
//!
//! # Steps
//! 1. [`Channel::send`] and [`Channel::recv`] try the fast path. It is inlined into the user's
//!    function, and so is the switch to other tasks: see [`park::in_halves`].
//! 2. The first half, a call, tries again under the lock. If a task must wait and need not listen,
//!    it registers the wait and returns.
//! 3. The task switches away.
//! 4. The second half, another call, looks how the wait has ended.
//!
//! Waits with a deadline, of plain threads, of tasks that listen, and for timed values take place
//! in one call: [`Channel::complete_send`] and [`Channel::complete_recv`].
#![expect(unsafe_code, reason = "registers waits on the user's stack")]

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use super::core::{Channel, ChannelGuard, GIVEN};
use super::fast_path::{TryRecv, TrySend};
use super::state::ROOMY;
use crate::base::clock;
use crate::base::sync::{QueueGuard, keep_away};
use crate::park::{self, Begun, Mode, Outcome, Patience, Queue, Role, Waiting};
use crate::task;

/// The reason why a send failed.
pub(super) enum NotSent<T> {
    Disconnected(T),
    TimedOut(T),
    Cancelled(T),
}

/// The reason why a receive failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotReceived {
    Disconnected,
    TimedOut,
    Cancelled,
}

impl<T> Channel<T> {
    /// Sends. Waits if there is no room.
    #[inline(always)]
    #[track_caller]
    pub(super) fn send(&self, value: T) -> Result<(), NotSent<T>> {
        if task::begin_wait().is_err() {
            return self.send_without_waiting(value);
        }
        let (queue, value) = match self.list().lock_at_once() {
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
        let begun = unsafe { self.begin_send(queue, value, at) };
        // SAFETY: N1: the first half has begun this wait.
        park::in_halves(begun, || unsafe { self.end_send(at) })
    }

    /// The first half of a send: sends, or registers the wait. The caller may pass the lock.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the second half has returned. The caller switches away and
    /// then calls the second half.
    #[inline(never)]
    #[track_caller]
    unsafe fn begin_send<'a>(
        &'a self,
        queue: Option<QueueGuard<'a, Queue>>,
        value: T,
        at: *mut Waiting<T>,
    ) -> Begun<Result<(), NotSent<T>>> {
        let mut locked = self.locked_or_lock(queue);
        match locked.try_send(value) {
            TrySend::Accepted => Begun::Done(Ok(())),
            TrySend::Full(value) if parks_at_once() => {
                // SAFETY: N1, the caller's promise.
                unsafe { locked.register_send(self, value, at, Patience::Parks) };
                drop(locked);
                // SAFETY: N1: written just now.
                match unsafe { Waiting::begin(at) } {
                    Ok(switch) => Begun::Parks(switch),
                    // SAFETY: N1: written just now.
                    Err(outcome) => Begun::Done(unsafe { self.sent(at, outcome) }),
                }
            }
            attempt => Begun::Done(self.complete_send(locked, attempt, None)),
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
        // SAFETY: N1, the caller's promise.
        unsafe { self.sent(at, outcome) }
    }

    /// Sends. Waits until the deadline if there is no room.
    #[track_caller]
    pub(super) fn send_until(&self, value: T, deadline: Option<Instant>) -> Result<(), NotSent<T>> {
        if task::begin_wait().is_err() {
            return self.send_without_waiting(value);
        }
        let mut locked = self.lock();
        let attempt = locked.try_send(value);
        self.complete_send(locked, attempt, deadline)
    }

    /// Completes a send after a first attempt. Waits if there was no room.
    #[inline(never)]
    #[track_caller]
    pub(super) fn complete_send<'a>(
        &'a self,
        mut locked: ChannelGuard<'a, T>,
        mut attempt: TrySend<T>,
        deadline: Option<Instant>,
    ) -> Result<(), NotSent<T>> {
        let mut pauses = locked.pauses();
        let value = loop {
            let value = match attempt {
                TrySend::Full(value) => value,
                TrySend::Accepted => return Ok(()),
                TrySend::Evicted(old) => {
                    drop(locked);
                    drop(old);
                    return Ok(());
                }
                TrySend::Disconnected(value) => {
                    drop(locked);
                    return Err(NotSent::Disconnected(value));
                }
            };
            if pauses == 0 {
                break value;
            }
            drop(locked);
            pauses = pause(pauses);
            locked = self.lock();
            attempt = locked.try_send(value);
        };
        if deadline.is_some_and(|deadline| deadline <= clock::now()) {
            drop(locked);
            return Err(NotSent::TimedOut(value));
        }
        let mut waiting = MaybeUninit::uninit();
        let at = waiting.as_mut_ptr();
        // SAFETY: N1: this frame stays until the wait is over and the node is out of the line.
        unsafe { locked.register_send(self, value, at, Patience::Listens) };
        drop(locked);
        // SAFETY: N1: written just now.
        let outcome = unsafe { Waiting::wait(at, deadline, Mode::Cancellable) };
        // SAFETY: N1: the wait is over.
        unsafe { self.sent(at, outcome) }
    }

    /// Returns the result of a send that has waited.
    ///
    /// # Safety
    /// N1: the wait at `at` is over.
    #[inline(always)]
    unsafe fn sent(&self, at: *mut Waiting<T>, outcome: Outcome<()>) -> Result<(), NotSent<T>> {
        if let Outcome::Woken(GIVEN) = outcome {
            // The claimer has moved the value out.
            return Ok(());
        }
        // SAFETY: N1, the caller's promise.
        Err(unsafe { self.not_sent(at, outcome) })
    }

    /// # Safety
    /// N1: as [`Channel::sent`].
    #[cold]
    unsafe fn not_sent(&self, at: *mut Waiting<T>, outcome: Outcome<()>) -> NotSent<T> {
        let mut locked = self.lock();
        // SAFETY: N1, the caller's promise.
        locked.state.senders.remove(unsafe { Waiting::node(at) });
        locked.disconnect_if_drained();
        drop(locked);
        // SAFETY: N2: the value has not been moved out, and no other thread can find it any more.
        let value = unsafe { Waiting::take(at) };
        match outcome {
            Outcome::TimedOut(()) => NotSent::TimedOut(value),
            Outcome::Cancelled(()) => {
                task::cancelled_wait();
                NotSent::Cancelled(value)
            }
            // A sender is not told to look again.
            Outcome::Woken(_) | Outcome::Again(()) => NotSent::Disconnected(value),
        }
    }

    /// Ends the send of a task that must not wait. A task that unwinds still sends if that needs no
    /// wait, so that a destructor can report what happened. An error there would often become a
    /// second panic.
    #[cold]
    fn send_without_waiting(&self, value: T) -> Result<(), NotSent<T>> {
        if !task::is_unwinding() {
            return Err(NotSent::Cancelled(value));
        }
        let attempt = self.lock().try_send(value);
        match attempt {
            TrySend::Accepted | TrySend::Evicted(_) => Ok(()),
            TrySend::Full(value) => Err(NotSent::Cancelled(value)),
            TrySend::Disconnected(value) => Err(NotSent::Disconnected(value)),
        }
    }

    /// Receives. Waits if there is no value.
    #[inline(always)]
    #[track_caller]
    pub(super) fn recv(&self) -> Result<T, NotReceived> {
        if task::begin_wait().is_err() {
            return Err(NotReceived::Cancelled);
        }
        let queue = match self.list().lock_at_once() {
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
        let begun = unsafe { self.begin_recv(queue, at) };
        // SAFETY: N1: the first half has begun this wait.
        let received = park::in_halves(begun, || unsafe { self.end_recv(at) });
        // SAFETY: N2: if either half succeeds, it leaves the value there.
        received.map(|()| unsafe { Waiting::take(at) })
    }

    /// The first half of a receive: receives, or registers the wait. The caller may pass the lock.
    /// A value that is received is left at its place in the wait.
    ///
    /// # Safety
    /// N1: as [`Channel::begin_send`].
    #[inline(never)]
    #[track_caller]
    unsafe fn begin_recv<'a>(
        &'a self,
        queue: Option<QueueGuard<'a, Queue>>,
        at: *mut Waiting<T>,
    ) -> Begun<Result<(), NotReceived>> {
        let mut locked = self.locked_or_lock(queue);
        let received = match locked.try_recv() {
            TryRecv::Value(value) => Ok(value),
            TryRecv::Empty if !locked.state.is_timed() && parks_at_once() => {
                // SAFETY: N1, the caller's promise.
                unsafe { locked.register_recv(self, at, Patience::Parks) };
                drop(locked);
                // SAFETY: N1: written just now.
                return match unsafe { Waiting::begin(at) } {
                    Ok(switch) => Begun::Parks(switch),
                    // SAFETY: N1: written just now.
                    Err(outcome) => Begun::Done(unsafe { self.received_or_not(at, outcome) }),
                };
            }
            attempt => self.complete_recv(locked, attempt, None),
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
        // SAFETY: N1, the caller's promise.
        unsafe { self.received_or_not(at, outcome) }
    }

    /// Completes a receive without a deadline that has waited.
    ///
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
        let mut locked = match unsafe { self.received(at, &outcome) } {
            RecvEnd::Received => return Ok(()),
            RecvEnd::Failed(error) => return Err(error),
            RecvEnd::LookAgain(locked) => locked,
        };
        let attempt = locked.try_recv();
        let received = self.complete_recv(locked, attempt, None);
        // SAFETY: N1: the wait is over, and its node is out of the line.
        received.map(|value| unsafe { Waiting::leave(at, value) })
    }

    /// Receives. Waits until the deadline if there is no value.
    #[track_caller]
    pub(super) fn recv_until(&self, deadline: Option<Instant>) -> Result<T, NotReceived> {
        if task::begin_wait().is_err() {
            return Err(NotReceived::Cancelled);
        }
        let mut locked = self.lock();
        let attempt = locked.try_recv();
        self.complete_recv(locked, attempt, deadline)
    }

    /// Completes a receive after a first attempt. Waits if there was no value.
    #[inline(never)]
    #[track_caller]
    fn complete_recv<'a>(
        &'a self,
        mut locked: ChannelGuard<'a, T>,
        mut attempt: TryRecv<T>,
        deadline: Option<Instant>,
    ) -> Result<T, NotReceived> {
        let mut pauses = locked.pauses();
        let mut is_late = false;
        loop {
            match attempt {
                TryRecv::Value(value) => return Ok(value),
                TryRecv::Disconnected => return Err(NotReceived::Disconnected),
                TryRecv::Empty => {}
            }
            if pauses > 0 {
                drop(locked);
                pauses = pause(pauses);
                locked = self.lock();
            } else {
                if is_late || deadline.is_some_and(|deadline| deadline <= clock::now()) {
                    return Err(NotReceived::TimedOut);
                }
                let until = match (deadline, locked.state.next_due()) {
                    (Some(own), Some(due)) => Some(own.min(due)),
                    (own, due) => own.or(due),
                };
                let mut waiting = MaybeUninit::uninit();
                let at = waiting.as_mut_ptr();
                // SAFETY: N1: this frame stays until the wait is over and the node is out of the
                // line.
                unsafe { locked.register_recv(self, at, Patience::Listens) };
                drop(locked);
                // SAFETY: N1: written just now.
                let outcome = unsafe { Waiting::wait(at, until, Mode::Cancellable) };
                // SAFETY: N1: the wait is over.
                locked = match unsafe { self.received(at, &outcome) } {
                    // SAFETY: N2: the value is in its place.
                    RecvEnd::Received => return Ok(unsafe { Waiting::take(at) }),
                    RecvEnd::Failed(error) => return Err(error),
                    RecvEnd::LookAgain(locked) => locked,
                };
                is_late = matches!(outcome, Outcome::TimedOut(())) && until == deadline;
            }
            attempt = locked.try_recv();
        }
    }

    /// Returns how a receiver's wait has ended. Takes its node out of the line if the wait brought
    /// no value.
    ///
    /// # Safety
    /// N1: the wait at `at` is over.
    #[inline(always)]
    pub(super) unsafe fn received(
        &self,
        at: *mut Waiting<T>,
        outcome: &Outcome<()>,
    ) -> RecvEnd<'_, T> {
        if let Outcome::Woken(GIVEN) = outcome {
            return RecvEnd::Received;
        }
        // SAFETY: N1, the caller's promise.
        unsafe { self.not_received(at, outcome) }
    }

    /// # Safety
    /// N1: as [`Channel::received`].
    #[cold]
    unsafe fn not_received(&self, at: *mut Waiting<T>, outcome: &Outcome<()>) -> RecvEnd<'_, T> {
        let locked = self.lock();
        // SAFETY: N1, the caller's promise.
        locked.receivers.remove(unsafe { Waiting::node(at) });
        match outcome {
            Outcome::Woken(_) => RecvEnd::Failed(NotReceived::Disconnected),
            Outcome::Cancelled(()) => {
                drop(locked);
                task::cancelled_wait();
                RecvEnd::Failed(NotReceived::Cancelled)
            }
            Outcome::TimedOut(()) | Outcome::Again(()) => RecvEnd::LookAgain(locked),
        }
    }

    #[inline(always)]
    fn locked_or_lock<'a>(&'a self, queue: Option<QueueGuard<'a, Queue>>) -> ChannelGuard<'a, T> {
        match queue {
            Some(queue) => self.locked(queue),
            None => self.lock(),
        }
    }
}

/// How a receiver's wait has ended.
pub(super) enum RecvEnd<'a, T> {
    /// The value is in its place in the wait.
    Received,
    /// The time is up, or there may be a value.
    LookAgain(ChannelGuard<'a, T>),
    Failed(NotReceived),
}

/// Returns whether a wait without a deadline begins by parking a task. Otherwise it blocks a
/// thread, or listens before it parks.
#[inline(always)]
fn parks_at_once() -> bool {
    task::current_header().is_some() && !park::listens()
}

impl<T> ChannelGuard<'_, T> {
    /// Registers a send for which there was no room, with its value.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the wait is over and [`Channel::sent`] has returned.
    #[inline(always)]
    #[track_caller]
    unsafe fn register_send(
        &mut self,
        channel: &Channel<T>,
        value: T,
        at: *mut Waiting<T>,
        patience: Patience,
    ) {
        let wait = self.wait(channel, ChannelGuard::<T>::ROOM, Role::Value, Mode::Cancellable);
        // SAFETY: the caller's promise.
        unsafe { Waiting::put(at, wait, MaybeUninit::new(value), patience) };
        // SAFETY: N1, the caller's promise.
        let node = unsafe { Waiting::node(at) };
        // SAFETY: N1, the caller's promise.
        unsafe { self.state.senders.push(node) };
        if self.state.capacity == 0 {
            // Waiters that only look are told that there is a value to see.
            self.notify_receiver();
        }
    }

    /// Registers a receive that found nothing, with the place for its value. If a select offers to
    /// make a value, claims the offer.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the wait is over and [`Channel::received`] has returned.
    #[inline(always)]
    #[track_caller]
    unsafe fn register_recv(
        &mut self,
        channel: &Channel<T>,
        at: *mut Waiting<T>,
        patience: Patience,
    ) {
        let wait = self.wait(channel, ChannelGuard::<T>::A_VALUE, Role::Slot, Mode::Cancellable);
        // SAFETY: the caller's promise.
        unsafe { Waiting::put(at, wait, MaybeUninit::uninit(), patience) };
        // SAFETY: N1, the caller's promise.
        let node = unsafe { Waiting::node(at) };
        // SAFETY: N1, the caller's promise.
        unsafe { self.receivers.push(node) };
        self.pair(node);
    }

    /// Returns how many times to pause and try again before waiting in line. The other side is
    /// likely to move many values in the time that it takes to put this thread to sleep and wake
    /// it.
    fn pauses(&self) -> u32 {
        let bounded_and_roomy = (ROOMY..usize::MAX).contains(&self.state.capacity);
        if !bounded_and_roomy || cfg!(loom) {
            return 0;
        }
        if park::is_plain_thread() {
            PAUSES
        } else if park::listens() && task::current_header().is_some() {
            PAUSES_OF_A_TASK
        } else {
            0
        }
    }
}

/// The number of times that a plain thread pauses before it waits in line.
const PAUSES: u32 = 16;

/// The length of such a pause. In this time the other side can move a hundred values, so the two
/// sides do not contend for each value. Measured in the same way as the bursts of the locks: 75 ns
/// for a value with 1.5 µs, 61 with 3, 74 with 6.
const PAUSE: Duration = Duration::from_micros(3);

/// The number of pauses of a task that would listen (see [`park`]) and whose worker has nothing
/// else to do. Measured on an AMD EPYC, where Go takes 29 ns, with bursts of 1 µs: 26 ns with a
/// pause of 1 µs, 24 with 1.5, 27 with 2, 35 with 3. With room for 32 values: 56 with 1 µs, 78 with
/// 2.
const PAUSES_OF_A_TASK: u32 = 3;
const PAUSE_OF_A_TASK: Duration = Duration::from_micros(1);

/// Stays away from the channel for a moment. Returns how many of the `left` pauses are left after
/// that. There are none if this thread has other work.
fn pause(left: u32) -> u32 {
    if park::is_plain_thread() {
        keep_away(PAUSE);
    } else if park::may_listen() {
        keep_away(PAUSE_OF_A_TASK);
    } else {
        return 0;
    }
    left - 1
}
