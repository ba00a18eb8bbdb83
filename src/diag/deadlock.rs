//! What is done about a run that is stuck: see [`Builder::detect_deadlock`](crate::RuntimeBuilder::detect_deadlock).
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

use super::dump::{dump, spawn_hidden};
use super::tree::{TaskState, TaskTree};
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
    eprintln!("ecru: deadlock: every task of the run waits for another one\n{tree:#}");
    *state(pool) = Deadlock::Cancelled(tree.to_string());
    if let Some(root) = task::current_header().and_then(survey::parent) {
        cancel::cancel(&root.node, CancelReason::Shutdown);
    }
}

/// In a task of the run.
fn give_up(pool: &Arc<Pool>) {
    let tree = dump(pool);
    if is_stuck(&tree) {
        eprintln!(
            "ecru: deadlock: the run was cancelled because every task waited for another one, and these waits cannot be \
             cancelled; the process is aborted\n{tree:#}"
        );
        std::process::abort();
    }
}

fn is_stuck(tree: &TaskTree) -> bool {
    let waits = |state: &TaskState| matches!(state, TaskState::Waiting(_));
    tree.busy_workers().is_empty()
        && tree.left_out() == 0
        && tree.tasks().all(|task| waits(task.state()))
}
