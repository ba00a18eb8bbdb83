//! What a channel's lock guards: the buffer, the line of those who wait to send, and what has been promised. [`core`](super::core) says what is so
//! between two holders of the lock.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::base::alarm::{Alarm, Ring};
use crate::park::Queue;

/// What happens to a value for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    /// Its sender waits.
    Wait,
    /// It is dropped.
    DropNewest,
    /// The oldest value is dropped.
    DropOldest,
}

/// Values that come by themselves.
pub(super) struct Clockwork<T> {
    pub(super) next: Instant,
    /// None: once.
    pub(super) period: Option<Duration>,
    pub(super) make: fn(Instant) -> T,
    /// The channel itself, for alarms.
    pub(super) channel: Weak<dyn Ring>,
}

#[repr(C)]
pub(super) struct State<T> {
    pub(super) buffer: VecDeque<T>,
    /// Those who wait to send.
    pub(super) senders: Queue,
    pub(super) overflow: Overflow,
    /// The first value is the last.
    pub(super) once: bool,
    /// No new sends.
    pub(super) closed: bool,
    /// Neither `once` nor `closed`, and nothing comes by itself: a value goes in, and nothing follows from it.
    pub(super) is_plain: bool,
    /// Nothing is delivered any more.
    pub(super) discards: bool,
    /// Nobody sends, nor ever did: all such channels are the same one.
    pub(super) is_never: bool,
    /// Values that fit; `usize::MAX`: any number.
    pub(super) capacity: usize,
    /// Room that has been promised.
    pub(super) reserved: usize,
    /// Numbers have been given out up to this one.
    pub(super) last_number: usize,
    /// Values that have been given to somebody who has yet to fetch them.
    pub(super) handed: SmallVec<[Handed<T>; 1]>,
    pub(super) clockwork: Option<Clockwork<T>>,
    /// For those who wait and do not know of the clockwork.
    pub(super) alarm: Option<Alarm>,
}

/// A value that has been received, but not fetched.
pub(super) struct Handed<T> {
    pub(super) ticket: usize,
    pub(super) value: T,
}

/// Room for so many values is made at once; for more when they come.
const ROOM_AT_ONCE: usize = 256;

/// A buffer in which a moment's worth of values fits.
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

    /// For one value.
    pub(super) fn once() -> State<T> {
        State { once: true, is_plain: false, ..State::new(1) }
    }

    /// With values that come by themselves.
    pub(super) fn with_clockwork(clockwork: Clockwork<T>) -> State<T> {
        State { clockwork: Some(clockwork), is_plain: false, ..State::new(1) }
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.buffer.len() + self.reserved < self.capacity
    }
}
