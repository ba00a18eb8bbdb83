//! What happens to a run that is stuck: see
//! [`RuntimeBuilder::detect_deadlock`](crate::RuntimeBuilder::detect_deadlock). If the program has
//! not decided about that setting, a debug build prints one note that the run seems to be stuck
//! ([`noticed`]).
//!
//! ```text
//!   RUNS -- all workers at rest --> LOOKS -- every task waits --> CANCELLED -- run ends: it panics
//!    ^                                |                               |
//!    +-- an outside thread has -------+                               +-- all at rest again:
//!        made a task ready after all                                      the process is aborted
//! ```
//! A worker that finds the run stuck is about to sleep and runs no task. So it spawns a task into
//! the run. That task makes a dump, prints it, and cancels the root. No other task can unwind the
//! root, and the root may not return before its scopes have ended. Therefore every wait that can be
//! cancelled returns [`Cancelled`](crate::Cancelled), the tasks end as on any cancellation, and
//! then `run` panics. If waits remain that cannot be cancelled, nothing sound is left to do but to
//! report them and abort.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::dump::{dump, spawn_hidden};
use super::tree::{TaskState, TaskTree};
use crate::base::report;
use crate::sched::{Deadlock, Pool, inspect};
use crate::task::{self, CancelReason, cancel};

fn state(pool: &Pool) -> MutexGuard<'_, Deadlock> {
    pool.deadlock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles that all workers are at rest. A worker calls this outside of any task.
pub(crate) fn found(pool: &Arc<Pool>) {
    let again = {
        let mut state = state(pool);
        match *state {
            Deadlock::Looks => return,
            Deadlock::Runs => {
                *state = Deadlock::Looks;
                false
            }
            Deadlock::Cancelled(_) => true,
        }
    };
    let own = Arc::clone(pool);
    let spawned =
        spawn_hidden(pool, 0, move || if again { give_up(&own) } else { cancel_if_stuck(&own) })
            .is_some();
    if !spawned && !again {
        // There is no run that could be stuck.
        *state(pool) = Deadlock::Runs;
    }
}

/// Returns how long all workers must have been at rest before [`noticed`] is called, and how long at
/// least the root must have returned before the watchdog reports what is left.
pub(crate) fn patience() -> Duration {
    // This library's own tests would otherwise take seconds.
    let shortened = std::env::var("ECRU_TEST_STUCK_AFTER_MS").ok();
    let shortened = shortened.and_then(|text| text.parse().ok());
    shortened.map_or(Duration::from_secs(1), Duration::from_millis)
}

/// Prints that all workers have been at rest for a while. Nothing else is done, because a thread
/// outside the run may still wake a task. A worker calls this outside of any task.
pub(crate) fn noticed() {
    report::say(format!(
        "ecru: the program seems to be stuck: every task waits, no timer or I/O is pending, and only another thread could wake one. \
         `ecru dump {}` shows what each task waits for if the program was started with ECRU_INSPECT=1, and \
         ECRU_DETECT_DEADLOCK=1 prints it; build the runtime with `detect_deadlock(false)` if this is intended",
        std::process::id(),
    ));
}

/// Returns the text to panic with if the run was found stuck. Resets the state for the next run.
pub(crate) fn verdict(pool: &Pool) -> Option<String> {
    match std::mem::replace(&mut *state(pool), Deadlock::Runs) {
        Deadlock::Cancelled(tree) => Some(format!(
            "deadlock: every task of the run waited for another one; they were\n{tree}"
        )),
        Deadlock::Runs | Deadlock::Looks => None,
    }
}

/// Looks at all tasks, and cancels the root if every task waits. Runs in a task of the run.
fn cancel_if_stuck(pool: &Arc<Pool>) {
    let tree = dump(pool);
    if !is_stuck(&tree) {
        *state(pool) = Deadlock::Runs;
        return;
    }
    *state(pool) = Deadlock::Cancelled(tree.to_string());
    report::say(format!("ecru: deadlock: every task of the run waits for another one\n{tree:#}"));
    if let Some(root) = task::current_header().and_then(inspect::parent) {
        cancel::cancel(&root.node, CancelReason::Shutdown);
    }
}

/// Aborts the process if every task still waits. Runs in a task of the run.
fn give_up(pool: &Arc<Pool>) {
    let tree = dump(pool);
    if is_stuck(&tree) {
        report::last_words(format!(
            "ecru: deadlock: the run was cancelled because every task waited for another one, and these waits cannot be \
             cancelled; the process is aborted\n{tree:#}"
        ));
        std::process::abort();
    }
}

/// Looks at all tasks of a simulated run, passes the result to `take`, and cancels the root. Does
/// so in a task of the run. Returns false if there is no run.
#[cfg(feature = "sim")]
pub(crate) fn examine(pool: &Arc<Pool>, take: impl FnOnce(TaskTree) + Send + 'static) -> bool {
    let own = Arc::clone(pool);
    let looks = move || {
        take(dump(&own));
        if let Some(root) = task::current_header().and_then(inspect::parent) {
            cancel::cancel(&root.node, CancelReason::Shutdown);
        }
    };
    spawn_hidden(pool, 0, looks).is_some()
}

fn is_stuck(tree: &TaskTree) -> bool {
    let waits = |state: &TaskState| matches!(state, TaskState::Waiting(_));
    tree.busy_workers().is_empty()
        && !tree.leaves_out_unstarted()
        && tree.tasks().all(|task| waits(task.state()))
}
