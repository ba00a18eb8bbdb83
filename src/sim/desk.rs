//! What the thread of a simulated run, the thread that waits for it, and the watcher of its steps share.

use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::failure::Failure;
use super::last_words::LastWords;
use super::notes::Note;
use super::pilot::Record;
use super::thread::SimulationThread;
use crate::base::report;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sched::Pool;
use crate::task;

/// How long the thread of a run that cannot go on sleeps before it looks for what others do.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Desk {
    /// How often a task has given the thread back. Read by the watcher.
    turns: AtomicU64,
    pub(super) pool: OnceLock<Arc<Pool>>,
    /// A task kept the thread for too long, which is the failure of the run.
    was_stuck: AtomicBool,
    state: Mutex<DeskState>,
    /// Never notified. The simulation's thread pauses here.
    pauses: Condvar,
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

/// What the watcher sees of a run.
pub(super) struct Look {
    /// How often a task has given the thread back.
    pub(super) turns: u64,
    pub(super) is_over: bool,
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
            pauses: Condvar::new(),
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

    /// Returns how often a task has given the thread back.
    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
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
        drop(self.pauses.wait_timeout(self.state(), BETWEEN_LOOKS));
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

    /// Takes the outcome, if it has been delivered.
    pub(super) fn take_outcome(&self) -> Option<Outcome> {
        self.state().outcome.take()
    }

    /// Looks at the run, for its watcher.
    pub(super) fn look(&self) -> Look {
        let is_over = self.state().outcome.is_some();
        Look { turns: self.turns(), is_over }
    }

    /// Fails the run because a task keeps the thread, unless the run is over.
    pub(super) fn fail_stuck(&self, failure: impl FnOnce() -> Failure) {
        let mut state = self.state();
        if state.outcome.is_some() {
            return;
        }
        let failure = failure();
        report::say(format!("ecru: a simulation is {failure}"));
        state.failure.get_or_insert(failure);
        self.was_stuck.store(true, Ordering::Relaxed);
    }
}
