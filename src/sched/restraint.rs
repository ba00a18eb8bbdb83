//! How a worker that computes stays fair, and its memory small.
//!
//! # Preemption
//! A task that has used up its budget makes room for a ready task at once, so that a timer or a completion reaches its task
//! within one budget. It makes room for another *preempted* task, one that made room itself, only when its *slice* is over.
//! Preempted tasks run one after another when nothing else is ready, and one of them at each look around.
//!
//! # Restraint
//! A worker that starts a task while others are ready adds a stack to those that take turns. For tasks that soon wait or end
//! this is right: each turn starts one. For tasks that compute it is not. The parts of a fork-join would all begin, take
//! turns and hold a stack each, where the joiners would have run them one after another on a few.
//!
//! So the worker learns from what it starts. A task that uses up the budget of its first turn doubles the *pause* before the
//! next unstarted task may begin ahead of others, from [`FIRST`] to [`LAST`]. A task that waits or ends before halves it, down
//! to none. Idle workers may steal unstarted tasks at any time.
//!
//! | pause | at a turn with unstarted tasks and others |
//! |---|---|
//! | none | unstarted and ready tasks alternate |
//! | some | ready tasks run, then preempted ones; an unstarted task begins each time the pause is over |

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::base::clock;

/// How long a task may compute while other preempted tasks wait.
const SLICE: Duration = Duration::from_millis(1);
/// The first pause, in nanoseconds.
const FIRST: u64 = 1_000_000;
/// The longest pause: how long one computing task may keep the next unstarted one from beginning.
const LAST: u64 = 16 * FIRST;

/// See the module.
#[derive(Debug)]
pub(super) struct Restraint {
    /// In nanoseconds. Zero: unstarted tasks are not held back.
    pause: Cell<u64>,
    /// When the last task was started that used up its budget.
    since: Cell<Instant>,
    /// Whether a budget has been used up in this slice.
    used_up: Cell<bool>,
    /// When others were seen to wait for its end.
    slice: Cell<Option<Instant>>,
}

impl Restraint {
    pub(super) fn new() -> Restraint {
        Restraint {
            pause: Cell::new(0),
            since: Cell::new(clock::now()),
            used_up: Cell::new(false),
            slice: Cell::new(None),
        }
    }

    /// Whether unstarted tasks are held back at all.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.pause.get() != 0
    }

    /// Whether an unstarted task may begin ahead of others.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        !self.holds() || self.is_pause_over()
    }

    fn is_pause_over(&self) -> bool {
        let passed = clock::now().saturating_duration_since(self.since.get());
        passed >= Duration::from_nanos(self.pause.get())
    }

    /// A task that has just been started, or that was preempted, is about to run.
    #[inline]
    pub(super) fn begin_slice(&self) {
        self.used_up.set(false);
        self.slice.set(None);
    }

    /// Notes that a budget has been used up. Returns whether the slice is over, which others wait for: it begins with the first
    /// call that says so.
    #[inline]
    pub(super) fn note_used_up(&self, others_compute: bool) -> bool {
        self.used_up.set(true);
        others_compute && self.is_slice_over()
    }

    fn is_slice_over(&self) -> bool {
        let now = clock::now();
        let begun = self.slice.get().unwrap_or(now);
        self.slice.set(Some(begun));
        now.saturating_duration_since(begun) >= SLICE
    }

    /// The first turn of a task is over.
    #[inline]
    pub(super) fn learn(&self) {
        if self.used_up.get() || self.holds() {
            self.adapt();
        }
    }

    #[cold]
    fn adapt(&self) {
        let pause = self.pause.get();
        if self.used_up.get() {
            self.since.set(clock::now());
            self.pause.set((pause * 2).clamp(FIRST, LAST));
        } else {
            self.pause.set(if pause > FIRST { pause / 2 } else { 0 });
        }
    }
}
