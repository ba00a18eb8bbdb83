//! The state of a channel, which its lock guards: the buffer, the line of waiting senders and the
//! reservations. The invariants are in [`core`](super::core).

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::base::alarm::{Alarm, Ring};
use crate::park::Queue;

/// The policy for a value for which there is no space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// The sender waits.
    Wait,
    /// The new value is dropped.
    DropNewest,
    /// The oldest value in the buffer is dropped.
    DropOldest,
}

/// The generator of timed values: `after`, `at` and `tick`.
pub(super) struct Clockwork<T> {
    pub(super) next: Instant,
    /// `None` if there is only one value.
    pub(super) period: Option<Duration>,
    pub(super) make: fn(Instant) -> T,
    /// The channel itself, for its alarms.
    pub(super) channel: Weak<dyn Ring>,
}

#[repr(C)]
pub(super) struct State<T> {
    pub(super) buffer: VecDeque<T>,
    /// The line of waiting senders.
    pub(super) senders: Queue,
    pub(super) overflow: Overflow,
    /// The channel closes itself after the first value.
    pub(super) once: bool,
    /// No new sends are accepted.
    pub(super) closed: bool,
    /// `once` and `closed` are false and there is no clockwork. A value that is sent then has no
    /// further effect on the channel.
    pub(super) is_plain: bool,
    /// Values are no longer delivered.
    pub(super) discards: bool,
    /// The channel comes from `never()` and never has a sender. All such channels count as one.
    pub(super) is_never: bool,
    /// The number of values that fit. `usize::MAX` means that there is no limit.
    pub(super) capacity: usize,
    /// The number of places in the buffer that are reserved.
    pub(super) reserved: usize,
    /// The reservation number that was given out last.
    pub(super) last_number: usize,
    /// Values that have been handed to a waiter, which has not fetched them yet.
    pub(super) handed: SmallVec<[Handed<T>; 1]>,
    pub(super) clockwork: Option<Clockwork<T>>,
    /// The alarm for waiters that do not know the clockwork's next time.
    pub(super) alarm: Option<Alarm>,
}

/// A value that has been handed over, but has not been fetched.
pub(super) struct Handed<T> {
    pub(super) ticket: usize,
    pub(super) value: T,
}

/// The largest number of values for which a new channel allocates space in advance.
const ROOM_AT_ONCE: usize = 256;

/// The capacity from which a buffer holds the values of a short burst.
pub(super) const ROOMY: usize = 32;

impl<T> State<T> {
    pub(super) fn new(capacity: usize) -> State<T> {
        let at_once = if capacity == usize::MAX { 0 } else { capacity.min(ROOM_AT_ONCE) };
        State {
            buffer: VecDeque::with_capacity(at_once),
            capacity,
            overflow: Overflow::Wait,
            once: false,
            closed: false,
            is_plain: true,
            discards: false,
            is_never: false,
            reserved: 0,
            last_number: 0,
            senders: Queue::new(),
            handed: SmallVec::new(),
            clockwork: None,
            alarm: None,
        }
    }

    /// Creates the state of a channel for a single value.
    pub(super) fn once() -> State<T> {
        State { once: true, is_plain: false, ..State::new(1) }
    }

    /// Creates the state of a channel with timed values.
    pub(super) fn with_clockwork(clockwork: Clockwork<T>) -> State<T> {
        State { clockwork: Some(clockwork), is_plain: false, ..State::new(1) }
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.buffer.len() + self.reserved < self.capacity
    }
}
