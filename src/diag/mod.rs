//! What a program is doing: every scope and every task of a run, on whom each waits, and where.
//!
//! [`Handle::dump`](crate::Handle::dump) makes a [`TaskTree`], which prints itself.
//!
//! The workers answer one after another, while the others go on. A tree of a busy program may show a task as it was a moment ago.
//! Of a program that is stuck it shows the truth.

// # How it is made
// Started tasks belong to their workers, which touch them without locks. So nobody looks at another worker's tasks: whoever
// wants a tree *asks* each worker, by a task that may only start there, and joins these tasks. They are tasks of the run, which
// therefore does not end before they have; they are the only ones that a tree does not show.
//
// ```text
//   the asker                                        a worker
//   -------------------------------------------      --------------------------------------------------
//   a task for each worker, into its inbox     --->  at its next look around: begun <- true
//   join each, for 100 ms in all                     describe its tasks: started, unstarted, the root
//     began in time: join it, however long     <---  the description is the task's result
//     has not begun: the worker counts as busy       (describes later, for nobody)
//       and what it has noted of its task is shown
//   put the descriptions together by scopes
// ```
// Tasks that wait for their items (`spawn_when`) belong to no worker yet. They stand in lists that any thread may read
// (`scope/waiting.rs`), and are read before the workers are asked.
//
// What a worker does for its part stands in `sched/survey.rs`.

mod deadlock;
mod dump;
mod trace;
mod tree;

pub use trace::StackTrace;
pub use tree::{BusyTask, TaskInfo, TaskState, TaskTree, Wait};

pub(crate) use deadlock::{found, noticed, patience, verdict};
pub(crate) use dump::dump;
