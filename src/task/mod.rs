//! Tasks: what the current one is, and how it is told to stop.
//!
//! A task is *unstarted* while it is a small box in a queue, without a stack. It is *started* from the moment a worker runs it, and
//! stays on that worker until it ends.

// # Words
// - A task is *unstarted* while it is a small box in a queue, without a stack; *started* from the moment a worker runs it.
//   A started task never changes its worker (S2).
// - The `Header` is the part of that box that does not depend on the types of its closure and its result. Everything that
//   another thread may name lives in it; waiters and the running closure live on the task's stack.
// - A `CancelNode` is a place in the tree of cancellation, which `task/cancel` describes.
//
// # States
// ```text
//              start (once)             the body has returned, its result is in the box
//   UNSTARTED ---------------> STARTED --------------------------------------------------> DONE
//                                                                                            | somebody takes the result
//                                                                                            v
//                                                                                          TAKEN
// ```
// A task that ends inside the join that has started it becomes TAKEN together with DONE: the result is that join's.
//
// `started` is a flag of its own (who sets it may run the task), the rest are bits of `state`, beside the count of references.
//
// # Who may touch what
// | field | owner |
// |---|---|
// | `state`, `started`, `cancel_queued` | anybody, atomically |
// | `next` | the queue that holds the task |
// | `running` and what it points to, `bindings`, `claims` | the task's worker |
// | the result | before DONE the task; after it whoever sets TAKEN |
// | `node` | its own lock |
// | `joiners` | its lock |

pub(crate) mod away;
mod busy;
pub(crate) mod cancel;
mod current;
mod deaf;
mod describe;
mod header;
mod locals;
mod panics;
mod result;
mod switch_hook;
mod unseen;

pub use cancel::{CancelReason, Cancelled};
pub use current::{Task, TaskId, checkpoint, current, is_cancelled};
pub use locals::LocalKey;
pub use switch_hook::{Leave, SwitchHook, SwitchHookTaken, set_switch_hook};

pub(crate) use busy::{Board, Seen, label, label_root, note, note_again, note_none, noted};
pub(crate) use current::{
    BUDGET, answer, begin_parked, begin_wait, bindings_now, cancelled, cancelled_by_now,
    cancelled_wait, current_header, current_identity, current_node, end_parked, is_unwinding,
    look_at_the_clock, nearest_deadline, reach, request_number, set_node, spend_budget, wait,
    while_parked,
};
pub(crate) use describe::describe_overflows;
pub(crate) use header::{
    DONE, Entry, Extra, Header, Intent, Running, TAKEN, TaskFiber, TraceSlot, VTable,
};
pub(crate) use panics::{PASSED_ON, install_hook, located, split, text_of};
pub(crate) use result::{Body, Failure, TaskBox, drop_quietly, dropped};
pub(crate) use switch_hook::{Kept, hear_of_hook, inherit, is_hooked};
