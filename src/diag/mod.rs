//! What a program is doing: every scope and every task of a run, what each task waits for, and
//! where in the code.
//!
//! [`RuntimeHandle::dump`](crate::RuntimeHandle::dump) makes a [`TaskTree`], which can be printed or
//! written as [JSON](TaskTree::to_json).
//! [`dump_on_signal`](crate::RuntimeBuilder::dump_on_signal) prints one when a signal arrives,
//! [`inspect`](crate::RuntimeBuilder::inspect) lets the command `ecru` ask for one, and the
//! [`watchdog`](crate::RuntimeBuilder::watchdog) reports workers that do not switch.
//!
//! A tree says which tasks [wait for each other](TaskTree::cycles), which have
//! [waited for long](TaskTree::stale), and which [nothing can wake any more](TaskTree::leaks).
//!
//! [`metrics()`] counts tasks, timers, operations and threads.
//!
//! With a [recorder](crate::RuntimeBuilder::record), a runtime keeps the last events of each worker.
//! A [`Recorder`] writes them as a trace or as a page for a browser.
//!
//! The workers answer one after another while the others continue. The tree of a busy program may
//! therefore show a task as it was a moment ago. The tree of a program that is stuck is exact.

// # Implementation
// Started tasks belong to their workers, which access them without locks. So no thread looks at
// another worker's tasks. A caller that wants a tree *asks* each worker, through a task that may
// only start on that worker, and joins these tasks. They are tasks of the run, so the run does not
// end before they have ended. They are the only tasks that a tree does not show.
//
// ```text
//   asker                                          worker
//   ------------------------------------------     ------------------------------------------
//   puts a task into the inbox of each worker -->  at its next check: progress <- 1
//   joins each task, within 100 ms in all          describes its tasks: started, unstarted,
//     it has begun: joins it, as long as <-------  the root; each is progress; this is the
//       there is progress                            task's result
//     it has not begun, or there has been no       (describes them later; the result is
//       progress for a second: the worker counts     dropped)
//       as busy, and the task that it has
//       recorded as running is shown
//   combines the descriptions by scopes
// ```
// `sched/inspect.rs` contains the worker's part.

mod ask;
mod cycles;
mod deadlock;
mod dump;
mod inspect;
mod json;
mod leak;
mod left_out;
mod leftover;
mod metrics;
mod on_signal;
mod record;
mod search;
mod stale;
mod stuck;
mod text;
mod trace;
mod tree;
mod wait;
mod watchdog;

pub use leak::Leak;
pub use metrics::{Delays, Histogram, Metrics, metrics};
pub use record::{Recorder, mark};
pub use stale::StaleWait;
pub use trace::StackTrace;
pub use tree::{BusyTask, TaskInfo, TaskState, TaskTree};
pub use wait::{Holder, Wait};

pub(crate) use deadlock::{found, noticed, patience, verdict};
#[cfg(feature = "sim")]
pub(crate) use dump::running_on;
pub(crate) use dump::{dump, dump_with_leaks};
pub(crate) use inspect::{Inspect, InspectAt, inspected_by_default};
pub(crate) use metrics::measure;
pub(crate) use on_signal::DumpOnSignal;
pub(crate) use record::{RECORD_MAX, RECORD_MIN, write_page_of_panic};
pub(crate) use watchdog::{LIMIT_MIN, Watchdog, limit_by_default};
#[cfg(feature = "sim")]
pub(crate) use {
    deadlock::examine,
    record::{HostEvent, HostEventSort},
    trace::called_at,
};
