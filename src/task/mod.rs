//! Tasks: their state, the identity of the current task, and cancellation.
//!
//! A task is *unstarted* while it is a small box in a queue, without a stack. It is *started* from
//! the moment a worker runs it, and stays on that worker until it ends.

// # Words
// - A task is *unstarted* while it is a small box in a queue, without a stack. It is *started* from
//   the moment a worker runs it. A started task never changes its worker (S2).
// - The `Header` is the part of that box that does not depend on the types of the closure and the
//   result. Everything that another thread may access lies in it. Waiters and the running closure
//   lie on the task's stack.
// - A `CancelNode` is a node of the cancellation tree, which `task/cancel` describes.
//
// # States
// ```text
//                start (once)             the result is in the box
//     UNSTARTED --------------> STARTED ---------------------------> DONE
//                                                                      | result taken or dropped
//                                                                      v
//                                                                    TAKEN
// ```
// If a task ends inside the join that started it, DONE and TAKEN are set in one step: the result
// belongs to that join.
//
// `started` is a flag of its own. The thread that sets it may run the task. The other states are
// bits of `state`, next to the reference count.
//
// # Owners
// | field | owner |
// |---|---|
// | `state`, `started`, `cancel_queued` | any thread, atomically |
// | `next` | the queue that holds the task |
// | `running` and its target, `bindings`, `claims` | the task's worker |
// | the result | the task until DONE, then the thread that sets TAKEN |
// | `node` | its own lock |
// | `joiners` | its lock |

mod busy;
pub(crate) mod cancel;
mod current;
mod deaf;
mod describe;
mod header;
mod locals;
mod panics;
mod polled;
mod result;
mod switch_hook;
mod unseen;

pub use cancel::{CancelReason, Cancelled};
pub use current::{Task, TaskId, checkpoint, current, is_cancelled};
pub use locals::LocalKey;
pub use switch_hook::{Leave, SwitchHook, SwitchHookTaken, set_switch_hook};

pub(crate) use busy::{Board, SeenTask, label, label_root, note, note_again, note_none, noted};
pub(crate) use current::{
    BUDGET, FIRST_ALLOWANCE, answer, begin_wait, begin_wait_in_place, bindings_now, cancelled,
    cancelled_by_now, cancelled_wait, current_header, current_identity, current_node,
    expire_limits, identity_of, is_unwinding, keeping_answers, nearest_deadline,
    note_expired_limits, reach, request_number, set_node, spend_budget, spend_budget_of, task_of,
    unwind_by_force,
};
pub(crate) use describe::describe_overflows;
pub(crate) use header::{
    DONE, Extra, Header, Running, StartedEntry, TAKEN, TaskFiber, Upcalls, VTable,
};
#[cfg(feature = "sim")]
pub(crate) use panics::is_passed_on;
pub(crate) use panics::{
    PASSED_ON, Thrown, hold, install_hook, located, lose, split, text_of, unsplit,
};
pub(crate) use polled::{PendingEntry, Polled, PolledBody};
pub(crate) use result::{Body, Failure, TaskBox, Work, drop_quietly, dropped};
pub(crate) use switch_hook::{Kept, hear_of_hook, hook_thread, inherit, is_hooked};
