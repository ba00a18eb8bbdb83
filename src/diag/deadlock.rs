//! What is done about a run that is stuck: see [`Builder::detect_deadlock`](crate::RuntimeBuilder::detect_deadlock). Where the program
//! leaves that open, a debug build says once that it seems to be stuck ([`noticed`]).
//!
//! ```text
//!   RUNS ---- all workers at rest ----> LOOKS ---- every task waits ----> CANCELLED ---- the run ends: it panics
//!    ^                                    |                                   |
//!    +---- a thread from outside has -----+                                   +---- all at rest again: the process
//!          made a task ready after all                                              is aborted
//! ```
//! A worker that finds the run stuck is about to sleep and runs no task. So it spawns one into the run, which looks, prints what it
//! sees, and cancels the root. A root cannot be unwound by others, and may not return before its scopes have ended: so every wait
//! that can be cancelled returns [`Cancelled`](crate::Cancelled), the tasks end in the way they do on any cancellation, and then `run`
//! panics. If waits are left that cannot be cancelled, nothing sound is left to do but to say so and to abort.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::dump::{dump, spawn_hidden};
use super::tree::{TaskState, TaskTree};
use crate::base::report;
use crate::sched::{Deadlock, Pool, survey};
use crate::task::{self, CancelReason, cancel};

fn state(pool: &Pool) -> MutexGuard<'_, Deadlock> {
    pool.deadlock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All workers are at rest. Called by one of them, outside of any task.
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
        spawn_hidden(pool, 0, move || if again { give_up(&own) } else { look(&own) }).is_some();
    if !spawned && !again {
        // Without a run there is nobody to be stuck.
        *state(pool) = Deadlock::Runs;
    }
}

/// How long all workers must have been at rest before [`noticed`] is called.
pub(crate) fn patience() -> Duration {
    // For this library's own tests, which would otherwise take seconds.
    let shortened = std::env::var("ECRU_TEST_STUCK_AFTER_MS").ok();
    let shortened = shortened.and_then(|text| text.parse().ok());
    shortened.map_or(Duration::from_secs(1), Duration::from_millis)
}

/// All workers have been at rest for a while, and nothing is to be done about it: a thread from outside may yet wake a task.
/// Called by one of them, outside of any task.
pub(crate) fn noticed() {
    report::say(
        "ecru: the program seems to be stuck: every task waits, no timer or I/O is pending, and only another thread could wake one. \
         Set ECRU_DETECT_DEADLOCK=1 to see what each task waits for; build the runtime with `detect_deadlock(false)` if this is \
         intended",
    );
}

/// How a run ends that was found stuck: the text to panic with. The next one begins anew.
pub(crate) fn verdict(pool: &Pool) -> Option<String> {
    match std::mem::replace(&mut *state(pool), Deadlock::Runs) {
        Deadlock::Cancelled(tree) => Some(format!(
            "deadlock: every task of the run waited for another one; they were\n{tree}"
        )),
        Deadlock::Runs | Deadlock::Looks => None,
    }
}

/// In a task of the run.
fn look(pool: &Arc<Pool>) {
    let tree = dump(pool);
    if !is_stuck(&tree) {
        *state(pool) = Deadlock::Runs;
        return;
    }
    *state(pool) = Deadlock::Cancelled(tree.to_string());
    report::say(format!("ecru: deadlock: every task of the run waits for another one\n{tree:#}"));
    if let Some(root) = task::current_header().and_then(survey::parent) {
        cancel::cancel(&root.node, CancelReason::Shutdown);
    }
}

/// In a task of the run.
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

fn is_stuck(tree: &TaskTree) -> bool {
    let waits = |state: &TaskState| matches!(state, TaskState::Waiting(_));
    tree.busy_workers().is_empty()
        && !tree.leaves_out_unstarted()
        && tree.tasks().all(|task| waits(task.state()))
}
