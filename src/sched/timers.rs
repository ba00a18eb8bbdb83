//! The timers of one worker: a hierarchical timing wheel (Varghese and Lauck, 1987) of nodes on the stacks of those who wait.
//!
//! Time is counted in ticks of 2^16 ns (66 us) since the wheel was made. A level has 64 slots; a slot of level `n` spans
//! 64^n ticks. A timer sits at the level of the highest group of six bits in which its tick differs from the wheel's current
//! one, so setting and cancelling one is a handful of stores, however many there are; as time enters a slot of a higher
//! level, its timers move down. Each level keeps a bit per slot that is occupied: finding the next moment to wake is a few bit
//! operations, and with no timer set there is none.
//!
//! A deadline is rounded up to a tick and the time down, so no timer ever rings early.
//!
//! Only the worker's own thread touches its wheel.
#![expect(unsafe_code, reason = "timers live on stacks")]

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::base::list::{Link, List};

/// A timer, on the stack of whoever waits for it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Timer {
    link: Link,
    tick: Cell<u64>,
    /// The level and the slot it is in; [`NOWHERE`] when it is not set.
    place: Cell<u16>,
    /// Called on the worker's thread when it rings; it is no longer set then.
    ring: unsafe fn(*const Timer),
}

const NOWHERE: u16 = u16::MAX;
const TICK_SHIFT: u32 = 16;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Enough for 2^48 ticks, as many as 2^64 nanoseconds have.
const LEVELS: usize = 8;
const LAST_TICK: u64 = (1 << (SLOT_BITS * LEVELS as u32)) - 1;

impl Timer {
    pub(crate) fn new(ring: unsafe fn(*const Timer)) -> Timer {
        Timer { link: Link::new(), tick: Cell::new(0), place: Cell::new(NOWHERE), ring }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.place.get() != NOWHERE
    }
}

struct Level {
    occupied: Cell<u64>,
    slots: [List; SLOTS],
}

/// The wheel.
pub(crate) struct Timers {
    start: Instant,
    /// All timers up to and including this tick have rung.
    now: Cell<u64>,
    set: Cell<usize>,
    levels: Box<[Level; LEVELS]>,
}

impl Timers {
    pub(crate) fn new(start: Instant) -> Timers {
        let level =
            || Level { occupied: Cell::new(0), slots: std::array::from_fn(|_| List::new()) };
        Timers {
            start,
            now: Cell::new(0),
            set: Cell::new(0),
            levels: Box::new(std::array::from_fn(|_| level())),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.set.get() == 0
    }

    /// Sets a timer. A deadline that has passed rings at the next [`Timers::ring`].
    ///
    /// # Safety
    /// W1: the timer is not set, stays where it is until it rings or is cancelled, and this is the worker's own thread.
    #[inline]
    pub(crate) unsafe fn set(&self, timer: &Timer, deadline: Instant) {
        // 2^64 nanoseconds are more than five centuries: what saturates is never reached.
        let nanos = self.nanos_to(deadline);
        let tick = (nanos >> TICK_SHIFT) + u64::from(nanos & ((1 << TICK_SHIFT) - 1) != 0);
        let tick = tick.min(LAST_TICK);
        // The current tick's slot has been emptied: what is late goes into the next one.
        timer.tick.set(tick.max(self.now.get() + 1));
        // SAFETY: W1, the caller's promise.
        unsafe { self.enter(timer) };
        self.set.set(self.set.get() + 1);
    }

    /// Cancels a timer if it is set.
    #[inline]
    pub(crate) fn cancel(&self, timer: &Timer) {
        if timer.is_set() {
            self.leave(timer);
            self.set.set(self.set.get() - 1);
        }
    }

    /// When to look next; none: there is nothing to wait for.
    pub(crate) fn next(&self) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        let (_, _, tick) = self.next_slot()?;
        Some(self.start + Duration::from_nanos(tick.saturating_mul(1 << TICK_SHIFT)))
    }

    /// Rings every timer whose time has come. Those that are set meanwhile wait for the next call.
    pub(crate) fn ring(&self, time: Instant) {
        if self.is_empty() {
            // Keep up, so that the distance to the next timer is small.
            self.now.set(self.tick_of(time).max(self.now.get()));
            return;
        }
        let until = self.tick_of(time);
        while let Some((level, slot, tick)) = self.next_slot() {
            if tick > until {
                break;
            }
            self.now.set(tick.max(self.now.get()));
            self.empty_slot(level, slot);
        }
        self.now.set(until.max(self.now.get()));
    }

    fn tick_of(&self, time: Instant) -> u64 {
        self.nanos_to(time) >> TICK_SHIFT
    }

    #[inline]
    fn nanos_to(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.start);
        since
            .as_secs()
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::from(since.subsec_nanos()))
    }

    /// The occupied slot that is due first, and the tick at which time enters it.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let now = self.now.get();
        // A timer's level is the highest one in which it differs from now: whatever sits lower comes first.
        self.levels.iter().enumerate().find_map(|(level, state)| {
            let occupied = state.occupied.get();
            if occupied == 0 {
                return None;
            }
            let shift = SLOT_BITS * u32::try_from(level).expect("levels are few");
            let position = (now >> shift) & (SLOTS as u64 - 1);
            // Timers are never behind: the slots after the current one, in order, then (at the last level) around.
            let distance =
                occupied.rotate_right(u32::try_from(position).expect("below 64")).trailing_zeros();
            let slot = (position + u64::from(distance)) & (SLOTS as u64 - 1);
            let span = now >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
            Some((level, usize::try_from(slot).expect("below 64"), span + (slot << shift)))
        })
    }

    /// Takes the whole list off its slot and goes through it: what rings wakes tasks but runs none, so nobody else takes a timer
    /// out meanwhile; and what it sets anew is later than now, hence in another slot.
    fn empty_slot(&self, level: usize, slot: usize) {
        let now = self.now.get();
        let state = &self.levels[level];
        let mut timer = state.slots[slot].take().cast::<Timer>();
        state.occupied.set(state.occupied.get() & !(1 << slot));
        // SAFETY: W1: a timer in the wheel stays until it is taken out.
        while let Some(node) = unsafe { timer.as_ref() } {
            let next = node.link.next().cast::<Timer>();
            node.place.set(NOWHERE);
            if node.tick.get() > now {
                // SAFETY: W1: it has just been taken out, and still stays.
                unsafe { self.enter(node) };
            } else {
                self.set.set(self.set.get() - 1);
                // SAFETY: W1: the function was made for this timer; it is not set any more.
                unsafe { (node.ring)(timer) };
            }
            timer = next;
        }
    }

    /// # Safety
    /// W1, and the timer is in no slot.
    #[inline]
    unsafe fn enter(&self, timer: &Timer) {
        let tick = timer.tick.get();
        let differing = (tick ^ self.now.get()) | 1;
        let level = ((u64::BITS - 1 - differing.leading_zeros()) / SLOT_BITS) as usize;
        let slot = usize::try_from((tick >> (SLOT_BITS * level as u32)) & (SLOTS as u64 - 1))
            .expect("below 64");
        let state = &self.levels[level];
        // SAFETY: L3 by W1: in no list, stays, and the wheel belongs to this thread.
        unsafe { state.slots[slot].push_back(&raw const timer.link) };
        state.occupied.set(state.occupied.get() | 1 << slot);
        timer.place.set((level * SLOTS + slot) as u16);
    }

    #[inline]
    fn leave(&self, timer: &Timer) {
        let place = usize::from(timer.place.replace(NOWHERE));
        let state = &self.levels[place / SLOTS];
        let list = &state.slots[place % SLOTS];
        // SAFETY: L3: `place` says that it is in this list.
        unsafe { list.remove(&raw const timer.link) };
        if list.is_empty() {
            state.occupied.set(state.occupied.get() & !(1 << (place % SLOTS)));
        }
    }
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timers")
            .field("set", &self.set)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Timer, Timers};
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    #[repr(C)]
    struct Alarm {
        timer: Timer,
        rang: Cell<bool>,
    }

    unsafe fn ring(timer: *const Timer) {
        // SAFETY: W1: every timer of these tests is the first field of an alarm.
        unsafe { &*timer.cast::<Alarm>() }.rang.set(true);
    }

    fn alarm() -> Alarm {
        Alarm { timer: Timer::new(ring), rang: Cell::new(false) }
    }

    /// Steps through time as a worker does, from one announced moment to the next, and returns when the alarm rang.
    fn run_until_rung(timers: &Timers, alarm: &Alarm) -> (Instant, usize) {
        let mut looks = 0;
        loop {
            let at = timers.next().expect("a timer is set");
            timers.ring(at);
            looks += 1;
            if alarm.rang.get() {
                return (at, looks);
            }
        }
    }

    #[test]
    fn every_deadline_rings_never_early_and_at_most_a_tick_late() {
        let start = Instant::now();
        let mut nanos: u64 = 1;
        let mut cases = 0;
        while nanos < 400 * 24 * 3600 * 1_000_000_000 {
            for offset in [0, 1, 65_535, 65_536, 131_073] {
                let timers = Timers::new(start);
                timers.ring(start + Duration::from_nanos(nanos / 3));
                let alarm = alarm();
                let deadline = start + Duration::from_nanos(nanos + offset);
                // SAFETY: W1: the alarm outlives the wheel's use of it.
                unsafe { timers.set(&alarm.timer, deadline) };
                let (rang, looks) = run_until_rung(&timers, &alarm);
                let now = start + Duration::from_nanos(nanos / 3);
                assert!(rang >= deadline, "{nanos}+{offset}: early by {:?}", deadline - rang);
                let late = rang - deadline.max(now);
                assert!(
                    late <= Duration::from_nanos(2 << 16),
                    "{nanos}+{offset}: late by {late:?}"
                );
                assert!(looks <= 11, "{looks} looks for one timer");
                assert!(timers.is_empty());
                cases += 1;
            }
            nanos = nanos * 3 + 1;
        }
        assert!(cases > 100);
    }

    #[test]
    fn a_deadline_that_is_centuries_away_is_the_last_to_ring() {
        let start = Instant::now();
        let timers = Timers::new(start);
        let (far, near) = (alarm(), alarm());
        // SAFETY: W1: the alarms outlive the wheel's use of them.
        unsafe { timers.set(&far.timer, start + Duration::from_secs(1 << 40)) };
        // SAFETY: W1, as above.
        unsafe { timers.set(&near.timer, start + Duration::from_secs(1 << 34)) };
        let (rang, _) = run_until_rung(&timers, &near);
        assert!(rang >= start + Duration::from_secs(1 << 34) && !far.rang.get());
        timers.cancel(&far.timer);
        assert!(timers.is_empty());
    }

    #[test]
    fn timers_ring_in_order_and_a_cancelled_one_never() {
        let start = Instant::now();
        let timers = Timers::new(start);
        let alarms: Vec<Alarm> = (0..500).map(|_| alarm()).collect();
        for (n, alarm) in alarms.iter().enumerate() {
            let deadline = start + Duration::from_micros(137 * (n as u64 * 7919 % 500));
            // SAFETY: W1: the alarms outlive the wheel's use of them.
            unsafe { timers.set(&alarm.timer, deadline) };
        }
        for alarm in alarms.iter().step_by(2) {
            timers.cancel(&alarm.timer);
        }
        let mut last = start;
        while let Some(at) = timers.next() {
            assert!(at >= last);
            last = at;
            timers.ring(at);
            for (n, alarm) in alarms.iter().enumerate() {
                let deadline = start + Duration::from_micros(137 * (n as u64 * 7919 % 500));
                assert!(!alarm.rang.get() || deadline <= at);
            }
        }
        for (n, alarm) in alarms.iter().enumerate() {
            assert_eq!(alarm.rang.get(), n % 2 == 1);
        }
    }
}
