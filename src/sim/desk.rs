//! What the thread of a simulated run and the thread that waits for it share.

use std::mem;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::failure::Failure;
use super::last_words::LastWords;
use super::notes::Note;
use super::pilot::Record;
use super::thread::SimulationThread;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::{clock, report};
use crate::sched::Pool;
use crate::task;

/// How many times the time for a step must pass until a task that keeps the thread is known not to
/// give it back. The process is aborted then, so a short time counts as [`STEP_TIME_MIN`].
const GRACE: u32 = 12;
const STEP_TIME_MIN: Duration = Duration::from_secs(1);
/// The shortest time for a step. The thread that watches looks several times in it.
const LOOK_MIN: Duration = Duration::from_millis(5);
/// How long the thread of a run that cannot go on sleeps before it looks for what others do.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Desk {
    /// How often a task has given the thread back. Read by the thread that waits.
    turns: AtomicU64,
    pub(super) pool: OnceLock<Arc<Pool>>,
    /// A task kept the thread for too long, which is the failure of the run.
    was_stuck: AtomicBool,
    state: Mutex<DeskState>,
    told: Condvar,
    pub(super) words: LastWords,
    /// The tasks of which one may hold what the running task waits for in the system.
    holders: Mutex<Vec<String>>,
    /// That of the simulation.
    pub(super) thread: SimulationThread,
}

#[derive(Debug, Default)]
struct DeskState {
    failure: Option<Failure>,
    outcome: Option<Outcome>,
}

/// What is known of a run that is over, without its value.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) failure: Option<Failure>,
    pub(super) trace_hash: u64,
    pub(super) elapsed: Duration,
    pub(super) steps: u64,
    /// What the pilot has recorded.
    pub(super) record: Record,
    pub(super) notes: Vec<Note>,
}

impl Desk {
    pub(super) fn new(words: LastWords) -> Desk {
        Desk {
            turns: AtomicU64::default(),
            pool: OnceLock::new(),
            was_stuck: AtomicBool::default(),
            state: Mutex::default(),
            told: Condvar::new(),
            words,
            holders: Mutex::default(),
            thread: SimulationThread::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tasks of which one may hold what the running task waits for in the system. There
    /// are none if it is not known to wait there.
    pub(super) fn holders(&self) -> Vec<String> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_holders(&self, tasks: Vec<String>) {
        *self.holders.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
    }

    /// Notes that a task has given the thread back.
    pub(super) fn note_turn(&self) {
        // Only the simulation's thread writes it, so this needs no locked instruction.
        self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns whether a task has kept the thread for too long.
    pub(super) fn was_stuck(&self) -> bool {
        self.was_stuck.load(Ordering::Relaxed)
    }

    /// Records why the run has failed. The first failure counts.
    pub(super) fn fail(&self, failure: Failure) {
        self.state().failure.get_or_insert(failure);
    }

    /// Returns whether a failure has been recorded.
    pub(super) fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// Describes the failure that has been recorded.
    pub(super) fn text(&self) -> String {
        self.state().failure.as_ref().map_or_else(String::new, ToString::to_string)
    }

    /// Has the simulation's thread sleep before it looks again for what other threads do.
    pub(super) fn pause(&self) {
        // There is no outcome yet, so nothing is told.
        drop(self.told.wait_timeout(self.state(), BETWEEN_LOOKS));
    }

    /// Delivers the outcome. An earlier failure takes the place of its own.
    pub(super) fn deliver(&self, outcome: Outcome) {
        let mut state = self.state();
        let (failure, unwanted) = match state.failure.take() {
            Some(first) => (Some(first), outcome.failure),
            None => (outcome.failure, None),
        };
        state.outcome = Some(Outcome { failure, ..outcome });
        drop(state);
        self.told.notify_all();
        // A payload's destructor is user code.
        task::drop_quietly(unwanted);
    }

    /// Aborts the process, because a simulation cannot be brought to its end.
    pub(super) fn abort(&self, why: &str) -> ! {
        let mut text = format!(
            "ecru: a simulation has failed, and cannot end: {why}; the process is aborted, because the program may use what the \
             caller of the simulation has lent to it"
        );
        self.words.say(&mut text);
        report::last_words(text);
        process::abort()
    }

    /// Waits for the outcome. If no task gives the thread back for as long as `patience`, the run
    /// fails with what `stuck` returns. Aborts the process if the thread does not come back long
    /// after that. Time in which the thread waits for a processor does not count.
    pub(super) fn wait(&self, patience: Duration, stuck: impl FnOnce() -> Failure) -> Outcome {
        // A process that was stopped for a while has not been stuck, so several looks are needed.
        const LOOKS: u32 = 5;
        let mut stuck = Some(stuck);
        let mut state = self.state();
        let (mut turns, mut spent) = (self.turns.load(Ordering::Relaxed), Duration::ZERO);
        let mut queued = Duration::ZERO;
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            let least = if stuck.is_none() { STEP_TIME_MIN } else { LOOK_MIN };
            let patience = patience.max(least);
            let limit = if stuck.is_none() { patience.saturating_mul(GRACE) } else { patience };
            if spent >= limit {
                let Some(stuck) = stuck.take() else {
                    self.abort("a task of it does not give its thread back");
                };
                let failure = stuck();
                report::say(format!("ecru: a simulation is {failure}"));
                state.failure.get_or_insert(failure);
                self.was_stuck.store(true, Ordering::Relaxed);
            }
            let (step, began) = (patience / LOOKS, clock::real_now());
            let waited = self.told.wait_timeout(state, step);
            let timed_out;
            (state, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            let now = self.turns.load(Ordering::Relaxed);
            if mem::replace(&mut turns, now) != now {
                spent = Duration::ZERO;
            } else if timed_out.timed_out() && self.thread.has_begun() {
                // Since the last such look, which may be longer ago than this one has begun.
                let before = mem::replace(&mut queued, self.thread.waited());
                let queued = queued.saturating_sub(before);
                let passed = clock::real_now().saturating_duration_since(began);
                spent += passed.saturating_sub(queued).min(step);
            }
        }
    }
}
