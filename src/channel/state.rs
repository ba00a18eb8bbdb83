//! The state of a channel, which its lock guards: the buffer, the line of waiting senders and the
//! reservations. The invariants are in [`core`](super::core).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::base::alarm::{Alarm, Ring};
use crate::park::{Queue, WaitList};

/// A channel's stage of life. Each phase leads only to later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Sends are accepted. A value that is sent has no further effect on the channel.
    Open,
    /// One send is accepted, and it closes the channel. A [`ChannelKind::Oneshot`] begins in this
    /// phase.
    LastSend,
    /// New sends are refused. The values in the channel, and those of waiting senders, are still
    /// delivered.
    Closed,
    /// New sends are refused, and nothing is delivered any more.
    Discarding,
}

/// What a channel does with a value for which there is no room, or where its values come from. A
/// channel's kind never changes.
// With a tag of its own, a kind is told by one comparison.
#[repr(u8)]
pub(super) enum ChannelKind<T> {
    /// The sender waits for room.
    Blocking,
    /// The new value is dropped.
    Dropping,
    /// The oldest value in the buffer is dropped.
    Sliding,
    /// The channel accepts one value in all. Senders wait while the only place is reserved.
    Oneshot,
    /// The values come from a clock. There is no sender.
    Timed(Clockwork<T>),
    /// There are no values and no senders: the channel comes from `never()`. All such channels
    /// count as one.
    Never,
}

/// The maker of a channel's timed values.
pub(super) struct Clockwork<T> {
    /// The time of the next value, or `None` if there are no more values.
    pub(super) next: Option<Instant>,
    /// `None` if there is only one value.
    pub(super) period: Option<Duration>,
    /// Makes a value from the time at which it was due. Timed values are instants, so this is the
    /// identity. It tells a generic channel that its values are instants.
    pub(super) make: fn(Instant) -> T,
    /// The channel itself, for its alarms.
    pub(super) channel: Weak<dyn Ring>,
}

#[repr(C)]
pub(super) struct ChannelState<T> {
    pub(super) buffer: VecDeque<T>,
    /// The line of waiting senders.
    pub(super) senders: Queue,
    pub(super) phase: Phase,
    /// The number of values that fit. `usize::MAX` means that there is no limit.
    pub(super) capacity: usize,
    /// The number of places in the buffer that are reserved.
    pub(super) reserved: usize,
    pub(super) kind: ChannelKind<T>,
    /// The reservation number that was given out last.
    pub(super) last_number: usize,
    /// Values that have been handed to a waiter, which has not fetched them yet.
    pub(super) handed: SmallVec<[Handed<T>; 1]>,
    /// The alarm for waiters that do not know the time of the next timed value.
    pub(super) alarm: Option<Alarm>,
    /// The waiters for the end of the channel, once something has asked for it.
    pub(super) end_waiters: Option<Arc<WaitList>>,
}

/// A value that has been handed over, but has not been fetched.
pub(super) struct Handed<T> {
    pub(super) ticket: usize,
    pub(super) value: T,
}

/// In a node's `reserved`: room in the buffer has been reserved for the node.
pub(super) const ROOM: usize = usize::MAX;

/// The largest number of values for which a new channel allocates space in advance.
const ROOM_AT_ONCE: usize = 256;

/// The capacity from which a buffer holds the values of a short burst.
pub(super) const ROOMY: usize = 32;

/// The number of bytes of a buffer that a channel keeps, whatever it holds.
const KEPT: usize = 64 << 10;

/// Returns the number of places that a buffer keeps.
const fn kept<T>() -> usize {
    match KEPT.checked_div(size_of::<T>()) {
        Some(places) if places < ROOM_AT_ONCE => ROOM_AT_ONCE,
        Some(places) => places,
        // The values need no memory.
        None => usize::MAX,
    }
}

impl<T> ChannelState<T> {
    pub(super) fn new(kind: ChannelKind<T>, capacity: usize) -> ChannelState<T> {
        let at_once = if capacity == usize::MAX { 0 } else { capacity.min(ROOM_AT_ONCE) };
        let phase =
            if matches!(kind, ChannelKind::Oneshot) { Phase::LastSend } else { Phase::Open };
        ChannelState {
            buffer: VecDeque::with_capacity(at_once),
            senders: Queue::new(),
            phase,
            capacity,
            reserved: 0,
            kind,
            last_number: 0,
            handed: SmallVec::new(),
            alarm: None,
            end_waiters: None,
        }
    }

    /// Returns whether the buffer has grown far beyond what it holds. After it has been halved, a
    /// quarter of its places must be filled, or emptied, before it is reallocated again. So its
    /// reallocations cost each value a constant time.
    #[inline(always)]
    pub(super) fn wastes_memory(&self) -> bool {
        let capacity = self.buffer.capacity();
        capacity > const { kept::<T>() } && self.buffer.len() < capacity / 4
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.buffer.len() + self.reserved < self.capacity
    }

    /// Enters a phase, if the channel is not in a later one already.
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = self.phase.max(phase);
    }

    /// Returns whether new sends are refused.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.phase >= Phase::Closed
    }

    /// Returns whether a sender that finds no room waits for it.
    #[inline]
    pub(super) fn makes_senders_wait(&self) -> bool {
        matches!(self.kind, ChannelKind::Blocking | ChannelKind::Oneshot)
    }

    /// Returns whether the channel accepts one value in all.
    #[inline]
    pub(super) fn is_oneshot(&self) -> bool {
        matches!(self.kind, ChannelKind::Oneshot)
    }

    /// Returns whether the values come from a clock.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        matches!(self.kind, ChannelKind::Timed(_))
    }

    /// Returns the time of the next timed value, if there will be one.
    #[inline]
    pub(super) fn next_due(&self) -> Option<Instant> {
        match &self.kind {
            ChannelKind::Timed(clockwork) => clockwork.next,
            _ => None,
        }
    }
}
