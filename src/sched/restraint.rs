//! How a worker that computes stays fair, and its memory small.
//!
//! # Preemption
//! A task that has used up its budget makes room for a ready task at once. So a timer or a
//! completion reaches its task within one budget. A task that made room in this way is *preempted*.
//! A running task makes room for a preempted one only when its *slice* is over. Preempted tasks run
//! one after another when nothing else is ready, and otherwise one of them in
//! [`TURNS`](super::pace::TURNS) turns. Budgets are small if tasks compute: see [`super::pace`].
//!
//! # Restraint
//! If a worker starts a task while others are ready, one more stack is in use, and one more task
//! takes turns. This is right for tasks that soon wait or end, because each turn starts one. It is
//! wrong for tasks that compute. The parts of a fork-join would all begin, take turns, and hold a
//! stack each. If they are held back, the joiners run them one after another on a few stacks.
//!
//! So the worker learns from the tasks that it starts. A task that uses up the budget of its first
//! turn doubles the *pause* before the next unstarted task may begin ahead of others, from
//! [`SLICE`] to [`PAUSE_MAX`] slices. A task that waits or ends before that halves the pause, down
//! to none. Idle workers may steal unstarted tasks at any time.
//!
//! | pause | at a turn with unstarted tasks and others |
//! |---|---|
//! | none | unstarted and ready tasks alternate |
//! | some | ready tasks run, then preempted ones; an unstarted task begins when the pause is over |

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::base::clock;

/// How long a task may compute while other preempted tasks wait. It is also the first pause. Row:
/// `fan-out`.
const SLICE: Duration = Duration::from_millis(1);
const SLICE_NS: u64 = SLICE.as_nanos() as u64;
/// The longest pause, in slices: how long one computing task may keep the next unstarted one from
/// beginning. Row: `fan-out`.
const PAUSE_MAX: u64 = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Restraint {
    /// The pause in nanoseconds. It is zero if unstarted tasks are not held back.
    pause: Cell<u64>,
    /// When the first turn of the last task that used up its budget was over.
    since: Cell<Instant>,
    /// Whether a budget has been used up in this slice.
    used_up: Cell<bool>,
    /// When the slice began: when another task was first seen to wait for its end.
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

    /// Returns whether unstarted tasks are held back at all.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.pause.get() != 0
    }

    /// Returns whether an unstarted task may begin ahead of others.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        !self.holds() || self.is_pause_over()
    }

    fn is_pause_over(&self) -> bool {
        let passed = clock::now().saturating_duration_since(self.since.get());
        passed >= Duration::from_nanos(self.pause.get())
    }

    /// Resets the slice for a task that is about to run: a task that starts, or a preempted one.
    #[inline]
    pub(super) fn begin_slice(&self) {
        self.used_up.set(false);
        self.slice.set(None);
    }

    /// Records that a budget has been used up. Returns whether the slice is over and others wait
    /// for its end. The slice begins with the first call in which `others_compute`.
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

    /// Learns from a task whose first turn is over.
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
            self.pause.set((pause * 2).clamp(SLICE_NS, PAUSE_MAX * SLICE_NS));
        } else {
            self.pause.set(if pause > SLICE_NS { pause / 2 } else { 0 });
        }
    }
}
