//! The timers of a simulated worker. Virtual time jumps, and deadlines are met to the nanosecond.
//! So these timers lie in a tree of exact times instead of a wheel, and those of one time in the
//! order in which they were set.
#![expect(unsafe_code, reason = "timers live on stacks")]

use std::time::{Duration, Instant};

use super::{Timer, Timers};
use crate::base::list::List;
use crate::base::simulated;

/// The place of a timer that lies in the tree of exact times. The number of the clock by which it
/// was set is added.
const IN_TREE: u32 = 1 << 16;
/// The current tick of a wheel that is not used, because there is a tree instead.
const UNUSED: u64 = u64::MAX;
/// The soonest tick of such a wheel, as [`Timers::set`] computes it.
pub(super) const NO_TICK: u64 = UNUSED.wrapping_add(1);

impl Timers {
    /// Creates the timers of a simulated worker. [`Timers::next_exact`] and [`Timers::ring_exact`]
    /// take the places of [`Timers::next`] and [`Timers::ring`].
    pub(crate) fn exact(start: Instant) -> Timers {
        let timers = Timers::new(start);
        timers.now.set(UNUSED);
        timers
    }

    /// Puts a timer into the tree of a simulated worker. Its deadline is so many nanoseconds after
    /// the worker's start, by the clock of the running code.
    ///
    /// # Safety
    /// W1: as [`Timers::set`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn set_exact(&self, timer: &Timer, nanos: u64) {
        let deadline = self.start + Duration::from_nanos(nanos);
        let place = IN_TREE + u32::from(simulated::clock_here());
        // SAFETY: W1, the caller's promise.
        unsafe { self.enter_tree(timer, simulated::common_time(deadline), place) };
    }

    /// Puts a timer into the tree for a virtual time.
    ///
    /// # Safety
    /// W1: as [`Timers::set`].
    unsafe fn enter_tree(&self, timer: &Timer, time: Instant, place: u32) {
        let nanos = self.nanos_to(time);
        timer.tick.set(nanos);
        timer.place.set(place);
        let mut tree = self.tree.borrow_mut();
        let list = tree.entry(nanos).or_insert_with(List::new);
        // SAFETY: L3 by W1: the timer is in no list and stays where it is, and the tree belongs to
        // this thread.
        unsafe { list.push_back(&raw const timer.link) };
        self.set.set(self.set.get() + 1);
    }

    /// Takes a timer out of the tree, in which it is.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_tree(&self, timer: &Timer) {
        let mut tree = self.tree.borrow_mut();
        let nanos = timer.tick.get();
        let list = tree.get(&nanos).expect("a timer in the tree has a list");
        // SAFETY: L3: its place says that the timer is in this list.
        unsafe { list.remove(&raw const timer.link) };
        if list.is_empty() {
            tree.remove(&nanos);
        }
    }

    /// Changes the virtual times of those timers of a simulated worker that were set by a clock.
    pub(crate) fn move_exact(&self, clock: u16, moved: impl Fn(Instant) -> Instant) {
        let place = IN_TREE + u32::from(clock);
        let mut found = Vec::new();
        for list in self.tree.borrow().values() {
            let mut at = list.first().cast::<Timer>();
            // SAFETY: W1: a timer in the tree stays until it is taken out.
            while let Some(timer) = unsafe { at.as_ref() } {
                if timer.place.get() == place {
                    found.push(at);
                }
                at = timer.link.next().cast();
            }
        }
        for timer in found {
            // SAFETY: W1: a timer in the tree stays until it is taken out.
            let timer = unsafe { &*timer };
            let time = moved(self.start + Duration::from_nanos(timer.tick.get()));
            self.cancel(timer);
            // SAFETY: W1: it was set, and so it stays where it is until it rings or is cancelled.
            unsafe { self.enter_tree(timer, time, place) };
        }
    }

    /// Returns the deadline of the first timer of a simulated worker.
    pub(crate) fn next_exact(&self) -> Option<Instant> {
        let tree = self.tree.borrow();
        let (nanos, _) = tree.first_key_value()?;
        Some(self.start + Duration::from_nanos(*nanos))
    }

    /// Rings every timer of a simulated worker that is due at `time`, including those that are set
    /// meanwhile.
    pub(crate) fn ring_exact(&self, time: Instant) {
        if self.is_empty() {
            return;
        }
        let until = self.nanos_to(time);
        loop {
            let first = match self.tree.borrow().first_key_value() {
                Some((nanos, list)) if *nanos <= until => list.first().cast::<Timer>(),
                _ => return,
            };
            // SAFETY: W1: a timer in the tree stays until it is taken out.
            let timer = unsafe { &*first };
            self.cancel(timer);
            // SAFETY: W1: the function was made for this timer, which is not set any more.
            unsafe { (timer.ring)(first) };
        }
    }
}
