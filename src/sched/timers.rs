//! The timers of one worker: a hierarchical timing wheel (Varghese and Lauck, 1987). Its nodes lie
//! on the stacks of the waiting tasks.
//!
//! Time is counted in ticks of 2^16 ns (66 us) since the wheel was made. A level has 64 slots. A
//! slot of level `n` spans 64^n ticks. A timer sits at the level of the highest group of six bits
//! in which its tick differs from the wheel's current one. So setting or cancelling a timer takes a
//! few stores, however many timers are set. When time enters a slot of a higher level, the timers
//! in that slot move down. Each level keeps one bit for each slot, which tells whether the slot is
//! occupied. So a few bit operations find the next moment to wake, and with no timer set there is
//! none.
//!
//! A deadline is rounded up to a tick and the time down, so no timer ever rings early.
//!
//! Only the worker's own thread touches its wheel.
//!
//! The timers of a simulated worker lie in a tree of exact times instead (`exact`).
#![expect(unsafe_code, reason = "timers live on stacks")]

#[cfg(feature = "sim")]
mod exact;

use std::cell::Cell;
#[cfg(feature = "sim")]
use std::cell::RefCell;
#[cfg(feature = "sim")]
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::base::list::{Link, List};

/// A timer, on the stack of the task that waits for it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Timer {
    link: Link,
    tick: Cell<u64>,
    /// The level and the slot that it is in, [`NOWHERE`] if it is not set, or more than any slot
    /// if it is in a tree of exact times.
    place: Cell<u32>,
    /// Called on the worker's thread when the timer rings. The timer is no longer set then.
    ring: unsafe fn(*const Timer),
}

const NOWHERE: u32 = u32::MAX;
const TICK_SHIFT: u32 = 16;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Enough levels for 2^48 ticks, which are 2^64 nanoseconds.
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

/// The timing wheel. See the module.
pub(crate) struct Timers {
    start: Instant,
    /// All timers up to and including this tick have rung.
    now: Cell<u64>,
    set: Cell<usize>,
    levels: Box<[Level; LEVELS]>,
    /// The timers of a simulated worker, by their deadlines in nanoseconds since `start`.
    #[cfg(feature = "sim")]
    tree: RefCell<BTreeMap<u64, List>>,
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
            #[cfg(feature = "sim")]
            tree: RefCell::new(BTreeMap::new()),
        }
    }

    /// Returns the number of timers that are set.
    pub(crate) fn count(&self) -> usize {
        self.set.get()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.set.get() == 0
    }

    /// Sets a timer. If the deadline has passed, the timer rings at the first [`Timers::ring`] of a
    /// later tick.
    ///
    /// # Safety
    /// W1: the timer is not set, it stays where it is until it rings or is cancelled, and this is
    /// the worker's own thread.
    #[inline]
    pub(crate) unsafe fn set(&self, timer: &Timer, deadline: Instant) {
        // 2^64 nanoseconds are more than five centuries, so a value that saturates is never
        // reached.
        let nanos = self.nanos_to(deadline);
        let tick = (nanos >> TICK_SHIFT) + u64::from(nanos & ((1 << TICK_SHIFT) - 1) != 0);
        let tick = tick.min(LAST_TICK);
        let soonest = self.now.get().wrapping_add(1);
        #[cfg(feature = "sim")]
        if soonest == exact::NO_TICK {
            // SAFETY: W1, the caller's promise.
            unsafe { self.set_exact(timer, nanos) };
            return;
        }
        // The slot of the current tick has been emptied, so a late timer goes into the next one.
        timer.tick.set(tick.max(soonest));
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

    /// Returns when to look next, or `None` if no timer is set.
    pub(crate) fn next(&self) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        let (_, _, tick) = self.next_slot()?;
        Some(self.start + Duration::from_nanos(tick.saturating_mul(1 << TICK_SHIFT)))
    }

    /// Rings every timer that is due at `time`, including those that are set meanwhile.
    pub(crate) fn ring(&self, time: Instant) {
        if self.is_empty() {
            // Keeps up, so that the distance to the next timer is small.
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

    /// Rings every timer, whenever it is due.
    pub(crate) fn ring_all(&self) {
        #[cfg(feature = "sim")]
        self.ring_exact(self.start + Duration::from_nanos(u64::MAX));
        if !self.is_empty() {
            self.ring(self.start + Duration::from_nanos(LAST_TICK << TICK_SHIFT));
        }
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

    /// Returns the occupied slot that is due first, as its level and its index, and the tick at
    /// which time enters it.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let now = self.now.get();
        // A timer's level is the highest one in which its tick differs from now. So an occupied
        // slot of a lower level is due before those of a higher one.
        self.levels.iter().enumerate().find_map(|(level, state)| {
            let occupied = state.occupied.get();
            if occupied == 0 {
                return None;
            }
            let shift = SLOT_BITS * u32::try_from(level).expect("levels are few");
            let position = (now >> shift) & (SLOTS as u64 - 1);
            // No timer is behind the current slot. So the search goes through the slots from the
            // current one on, and around the end only at the last level.
            let distance =
                occupied.rotate_right(u32::try_from(position).expect("below 64")).trailing_zeros();
            let slot = (position + u64::from(distance)) & (SLOTS as u64 - 1);
            let span = now >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
            Some((level, usize::try_from(slot).expect("below 64"), span + (slot << shift)))
        })
    }

    /// Takes the whole list off its slot and goes through it. A timer that rings wakes tasks but
    /// runs none, so no other code takes a timer out meanwhile. A timer that is set meanwhile has a
    /// tick later than now, so it goes into another slot.
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
                // SAFETY: W1: the timer was taken out just now, and still stays where it is.
                unsafe { self.enter(node) };
            } else {
                self.set.set(self.set.get() - 1);
                // SAFETY: W1: the function was made for this timer, which is not set any more.
                unsafe { (node.ring)(timer) };
            }
            timer = next;
        }
    }

    /// Puts a timer into the slot for its tick.
    ///
    /// # Safety
    /// W1: as [`Timers::set`], and the timer is in no slot.
    #[inline]
    unsafe fn enter(&self, timer: &Timer) {
        let tick = timer.tick.get();
        let differing = (tick ^ self.now.get()) | 1;
        let level = ((u64::BITS - 1 - differing.leading_zeros()) / SLOT_BITS) as usize;
        let slot = usize::try_from((tick >> (SLOT_BITS * level as u32)) & (SLOTS as u64 - 1))
            .expect("below 64");
        let state = &self.levels[level];
        // SAFETY: L3 by W1: the timer is in no list and stays where it is, and the wheel belongs to
        // this thread.
        unsafe { state.slots[slot].push_back(&raw const timer.link) };
        state.occupied.set(state.occupied.get() | 1 << slot);
        timer.place.set((level * SLOTS + slot) as u32);
    }

    #[inline]
    fn leave(&self, timer: &Timer) {
        let place = timer.place.replace(NOWHERE) as usize;
        let Some(state) = self.levels.get(place / SLOTS) else {
            #[cfg(feature = "sim")]
            return self.leave_tree(timer);
            #[cfg(not(feature = "sim"))]
            unreachable!("the timer is in a slot");
        };
        let list = &state.slots[place % SLOTS];
        // SAFETY: L3: `place` says that the timer is in this list.
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

    #[cfg(feature = "sim")]
    #[test]
    fn exact_timers_ring_at_their_nanosecond_and_in_the_order_of_their_setting() {
        let start = Instant::now();
        let timers = Timers::exact(start);
        let alarms: Vec<Alarm> = (0..5).map(|_| alarm()).collect();
        let year = Duration::from_secs(365 * 24 * 3600);
        let times = [year, Duration::from_nanos(1), year, Duration::ZERO, Duration::MAX / 2];
        for (alarm, after) in alarms.iter().zip(times) {
            let deadline = start.checked_add(after).unwrap_or(start + year * 500);
            // SAFETY: W1: the alarms outlive the tree's use of them.
            unsafe { timers.set(&alarm.timer, deadline) };
        }
        let rang = || alarms.iter().map(|alarm| u8::from(alarm.rang.get())).collect::<Vec<_>>();
        assert_eq!(timers.next_exact(), Some(start));
        timers.ring_exact(start);
        assert_eq!(rang(), [0, 0, 0, 1, 0]);
        assert_eq!(timers.next_exact(), Some(start + Duration::from_nanos(1)));
        timers.cancel(&alarms[1].timer);
        timers.ring_exact(start + year - Duration::from_nanos(1));
        assert_eq!(rang(), [0, 0, 0, 1, 0]);
        timers.ring_exact(timers.next_exact().unwrap());
        assert_eq!(rang(), [1, 0, 1, 1, 0]);
        timers.cancel(&alarms[4].timer);
        assert!(timers.is_empty() && timers.next_exact().is_none());
    }

    /// Steps through time as a worker does, from one announced moment to the next. Returns when the
    /// alarm rang, and the number of steps.
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
        // SAFETY: W1: the alarms outlive the wheel's use of them.
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
