//! The limit of a step in real time: whether a task keeps the thread of a simulated run for too long.
//!
//! The process's [service](crate::base::alarm) looks at the thread from time to time. So the thread
//! that has called `run` only waits for the end of the other one, and is woken once in each run. A
//! wake-up for the outcome and another one for the end would cost a short run a tenth of its time.

use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::desk::{Desk, Look};
use super::failure::Failure;
use crate::base::alarm::{Alarm, Ring};
use crate::base::clock;
use crate::diag;

/// How many times the time for a step must pass until a task that keeps the thread is known not to
/// give it back. The process is aborted then, so a short time counts as [`STEP_TIME_MIN`].
const GRACE: u32 = 12;
const STEP_TIME_MIN: Duration = Duration::from_secs(1);
/// The shortest time for a step. The watcher looks several times in it.
const LOOK_MIN: Duration = Duration::from_millis(5);
/// The looks in the time for a step. A process that was stopped for a while has not been stuck, so
/// one is not enough.
const LOOKS: u32 = 5;

/// See the module. It ends when it is dropped.
pub(super) struct StepLimit(Arc<Watcher>);

struct Watcher {
    desk: Arc<Desk>,
    this: Weak<Watcher>,
    /// The real time that a step may take.
    patience: Duration,
    state: Mutex<State>,
}

/// What is known since the last look.
struct State {
    is_over: bool,
    /// The run has failed, because a task kept the thread.
    was_stuck: bool,
    turns: u64,
    /// How long the present step has taken, as far as it counts.
    spent: Duration,
    /// How long the thread has waited for a processor.
    queued: Duration,
    looked: Instant,
    alarm: Option<Alarm>,
}

impl StepLimit {
    /// Begins to watch a run that begins. If no task gives the thread back for as long as
    /// `patience`, the run fails. The process is aborted if the thread does not come back long after
    /// that. Time in which the thread waits for a processor does not count.
    ///
    /// # Errors
    /// Returns the system's error if the service cannot be started.
    pub(super) fn begin(desk: &Arc<Desk>, patience: Duration) -> io::Result<StepLimit> {
        let watcher = Arc::new_cyclic(|this| Watcher {
            desk: Arc::clone(desk),
            this: Weak::clone(this),
            patience,
            state: Mutex::new(State {
                is_over: false,
                was_stuck: false,
                turns: desk.turns(),
                spent: Duration::ZERO,
                queued: Duration::ZERO,
                looked: clock::real_now(),
                alarm: None,
            }),
        });
        watcher.look_again(&mut watcher.state())?;
        Ok(StepLimit(watcher))
    }
}

impl Drop for StepLimit {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_over = true;
        state.alarm = None;
    }
}

impl Watcher {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long a step may take, and the time between two looks.
    fn times(&self, state: &State) -> (Duration, Duration) {
        let least = if state.was_stuck { STEP_TIME_MIN } else { LOOK_MIN };
        let patience = self.patience.max(least);
        let limit = if state.was_stuck { patience.saturating_mul(GRACE) } else { patience };
        (limit, patience / LOOKS)
    }

    /// Sets the alarm for the next look.
    fn look_again(&self, state: &mut State) -> io::Result<()> {
        let (_, step) = self.times(state);
        // Beyond the end of time there is nothing to look at.
        if let Some(due) = state.looked.checked_add(step) {
            let this = Weak::clone(&self.this);
            state.alarm = Some(Alarm::set_aside(due, this)?);
        }
        Ok(())
    }

    fn look(&self, state: &mut State) {
        let Look { turns, is_over } = self.desk.look();
        if is_over {
            // The thread is about to end.
            state.is_over = true;
            return;
        }
        let (limit, step) = self.times(state);
        let now = clock::real_now();
        let began = mem::replace(&mut state.looked, now);
        if mem::replace(&mut state.turns, turns) != turns {
            state.spent = Duration::ZERO;
        } else if self.desk.thread.has_begun() {
            // Since the last such look, which may be longer ago than `began`.
            let before = mem::replace(&mut state.queued, self.desk.thread.waited());
            let queued = state.queued.saturating_sub(before);
            let passed = now.saturating_duration_since(began);
            state.spent += passed.saturating_sub(queued).min(step);
        }
        if state.spent < limit {
            return;
        }
        if state.was_stuck {
            self.desk.abort("a task of it does not give its thread back");
        }
        self.desk.fail_stuck(|| stuck(&self.desk));
        state.was_stuck = true;
    }
}

impl Ring for Watcher {
    fn ring(&self) {
        let mut state = self.state();
        if state.is_over {
            return;
        }
        self.look(&mut state);
        if !state.is_over {
            // The service exists: it makes this call.
            let _ = self.look_again(&mut state);
        }
    }
}

/// Describes a task that keeps the thread of its run for too long.
fn stuck(desk: &Desk) -> Failure {
    let task = desk.pool.get().and_then(|pool| diag::running_on(pool, 0));
    let task = task.map_or(String::from("code outside of any task"), |task| task.to_string());
    Failure::Stuck { task, holders: desk.holders() }
}
