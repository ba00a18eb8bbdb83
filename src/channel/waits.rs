//! Sending and receiving with a wait: what the public methods come to.
#![expect(unsafe_code, reason = "registers waits on this stack")]

use std::hint;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::time::Instant;

use super::core::{Channel, DISCONNECTED, Locked, Offered, ROOMY, Taken};
use crate::base::clock;
use crate::park::{About, CANCELLED, LOOK_AGAIN, Mode, Node, Role, TIMED_OUT, WOKEN, Waiter, host};
use crate::task;

/// So many times a plain thread looks again before it waits in line, some microseconds apart.
const LOOKS: u32 = 32;

/// Long enough for the other side to move a few dozen values, so that the two do not meet at each one.
fn moment() {
    for _ in 0..64 {
        hint::spin_loop();
    }
}

impl<T> Locked<'_, T> {
    /// Whether the other side is likely to move many values in the time that it takes to put this thread to sleep and wake it.
    #[cold]
    fn is_worth_looking_again(&self) -> bool {
        let bounded_and_roomy = (ROOMY..usize::MAX).contains(&self.state.capacity);
        bounded_and_roomy && cfg!(not(loom)) && self.state.clockwork.is_none() && host().is_none()
    }
}

/// Why a send came to nothing.
pub(super) enum NotSent<T> {
    Disconnected(T),
    TimedOut(T),
    Cancelled(T),
}

/// Why a receive came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotReceived {
    Disconnected,
    TimedOut,
    Cancelled,
}

impl<T> Channel<T> {
    #[inline]
    #[track_caller]
    pub(super) fn send(&self, value: T, deadline: Option<Instant>) -> Result<(), NotSent<T>> {
        if task::begin_wait().is_err() {
            return Err(NotSent::Cancelled(value));
        }
        let mut locked = self.lock();
        match locked.offer(value) {
            Offered::Accepted => Ok(()),
            Offered::Full(value) if locked.is_worth_looking_again() => {
                drop(locked);
                self.send_after_a_moment(value, deadline)
            }
            Offered::Full(value) => self.send_in_line(locked, value, deadline),
            Offered::Evicted(old) => {
                drop(locked);
                drop(old);
                Ok(())
            }
            Offered::Disconnected(value) => {
                drop(locked);
                Err(NotSent::Disconnected(value))
            }
        }
    }

    /// There was no room, the lock is still held: waits in line.
    #[track_caller]
    pub(super) fn send_in_line(
        &self,
        mut locked: Locked<'_, T>,
        value: T,
        deadline: Option<Instant>,
    ) -> Result<(), NotSent<T>> {
        if deadline.is_some_and(|deadline| deadline <= clock::now()) {
            drop(locked);
            return Err(NotSent::TimedOut(value));
        }
        let waiter = Waiter::new();
        waiter.set_purpose("room in a channel", About::Nothing);
        let mut slot = ManuallyDrop::new(value);
        let data = (&raw mut slot).cast();
        let node = Node::new(&raw const waiter, 0, Role::Value, data);
        // SAFETY: N1: this frame stays until the wait is over and the node is out of the line.
        unsafe { locked.state.senders.push(&raw const node) };
        if locked.state.capacity == 0 {
            // Those who only look are told that there is something to see.
            locked.notify_receiver();
        }
        drop(locked);
        let outcome = task::wait(&waiter, deadline, Mode::Cancellable);
        if outcome == WOKEN {
            // Whoever claimed has moved the value out.
            return Ok(());
        }
        let mut locked = self.lock();
        locked.state.senders.remove(&node);
        locked.disconnect_if_drained();
        drop(locked);
        let value = ManuallyDrop::into_inner(slot);
        match outcome {
            DISCONNECTED => Err(NotSent::Disconnected(value)),
            TIMED_OUT => Err(NotSent::TimedOut(value)),
            _ => {
                debug_assert_eq!(outcome, CANCELLED);
                task::cancelled_wait();
                Err(NotSent::Cancelled(value))
            }
        }
    }

    #[inline]
    #[track_caller]
    pub(super) fn recv(&self, deadline: Option<Instant>) -> Result<T, NotReceived> {
        if task::begin_wait().is_err() {
            return Err(NotReceived::Cancelled);
        }
        let mut locked = self.lock();
        match locked.take() {
            Taken::Value(value) => Ok(value),
            Taken::Disconnected => Err(NotReceived::Disconnected),
            Taken::Empty if locked.is_worth_looking_again() => {
                drop(locked);
                self.recv_after_a_moment(deadline)
            }
            Taken::Empty => self.recv_in_line(locked, deadline),
        }
    }

    /// On a plain thread: looks again a few times before it waits in line.
    #[cold]
    #[track_caller]
    fn send_after_a_moment(
        &self,
        mut value: T,
        deadline: Option<Instant>,
    ) -> Result<(), NotSent<T>> {
        for look in 1.. {
            moment();
            let mut locked = self.lock();
            value = match locked.offer(value) {
                // A channel that makes room is never full.
                Offered::Accepted | Offered::Evicted(_) => return Ok(()),
                Offered::Full(value) if look == LOOKS => {
                    return self.send_in_line(locked, value, deadline);
                }
                Offered::Full(value) => value,
                Offered::Disconnected(value) => {
                    drop(locked);
                    return Err(NotSent::Disconnected(value));
                }
            };
        }
        unreachable!("the last look returns")
    }

    /// The same for a receiver.
    #[cold]
    #[track_caller]
    fn recv_after_a_moment(&self, deadline: Option<Instant>) -> Result<T, NotReceived> {
        for look in 1.. {
            moment();
            let mut locked = self.lock();
            match locked.take() {
                Taken::Value(value) => return Ok(value),
                Taken::Disconnected => return Err(NotReceived::Disconnected),
                Taken::Empty if look == LOOKS => return self.recv_in_line(locked, deadline),
                Taken::Empty => {}
            }
        }
        unreachable!("the last look returns")
    }

    /// There was nothing, the lock is still held: waits in line.
    #[track_caller]
    fn recv_in_line<'a>(
        &'a self,
        mut locked: Locked<'a, T>,
        deadline: Option<Instant>,
    ) -> Result<T, NotReceived> {
        loop {
            if deadline.is_some_and(|deadline| deadline <= clock::now()) {
                return Err(NotReceived::TimedOut);
            }
            let due = locked.state.clockwork.as_ref().map(|clockwork| clockwork.next);
            let until = match (deadline, due) {
                (Some(own), Some(due)) => Some(own.min(due)),
                (own, due) => own.or(due),
            };
            let waiter = Waiter::new();
            waiter.set_purpose("a value from a channel", About::Nothing);
            let mut slot = MaybeUninit::<T>::uninit();
            let node = Node::new(&raw const waiter, 0, Role::Slot, slot.as_mut_ptr().cast());
            // SAFETY: N1: this frame stays until the wait is over and the node is out of the line.
            unsafe { locked.queue.push(&raw const node) };
            locked.pair(&node);
            drop(locked);
            let outcome = task::wait(&waiter, until, Mode::Cancellable);
            if outcome == WOKEN {
                // SAFETY: N2: whoever claimed has written the value.
                return Ok(unsafe { slot.assume_init() });
            }
            locked = self.lock();
            locked.queue.remove(&node);
            match outcome {
                DISCONNECTED => return Err(NotReceived::Disconnected),
                CANCELLED => {
                    drop(locked);
                    task::cancelled_wait();
                    return Err(NotReceived::Cancelled);
                }
                _ => debug_assert!(outcome == TIMED_OUT || outcome == LOOK_AGAIN),
            }
            match locked.take() {
                Taken::Value(value) => return Ok(value),
                Taken::Disconnected => return Err(NotReceived::Disconnected),
                Taken::Empty => {}
            }
            if outcome == TIMED_OUT && until == deadline {
                return Err(NotReceived::TimedOut);
            }
        }
    }
}
