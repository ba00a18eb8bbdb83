//! Tasks: their state, the identity of the current task, and cancellation.
//!
//! A task is *unstarted* while it is a small box in a queue, without a stack. It is *started* from
//! the moment a worker runs it, and stays on that worker until it ends.
//!
//! # Cancellation points
//! A *cancellation point* is a call that returns [`Cancelled`], or an error made of it, once the
//! running code has been cancelled. It does so even if it need not wait, and then has done nothing.
//! A call that waits and is no cancellation point goes on waiting.
//!
//! As a rule, a call that waits is a cancellation point if its result can say so. These are all
//! calls that wait:
//!
//! | calls | cancellation point |
//! |---|---|
//! | [`sleep`], [`sleep_until`], [`yield_now`], [`Interval::tick`], and [`checkpoint`] | yes |
//! | [`Source::wait`] of every source | yes |
//! | [`select!`], [`select_biased!`] and [`Select`], without a plain `default` | yes |
//! | calls of [channels] that wait, such as `send`, [`reserve`], `recv`, [`recv_many`] | yes |
//! | iterators over receivers | yes: they end, or yield the cancellation |
//! | `join`, `join_timeout` and `join_deadline` of [`JoinHandle`] and [`SharedHandle`] | yes, of the caller |
//! | [`JoinSet::join_next`], [`join_all`], [`try_join_all`] | yes, of the caller |
//! | [`zip`], [`first_ok_keep`] | yes, of the caller |
//! | [`first_ok`] | yes, until the first success; the wait for the other tasks is not |
//! | [`Scope::start`], [`TryScope::start`] | yes |
//! | the end of [`scope`] and [`try_scope`], [`join!`], and the functions of [`par`] | no |
//! | [`timeout`], [`cancel_scope`], [`shield`] and their variants, [`on_cancel`] | no; the calls inside may be |
//! | [`Mutex::lock`], [`RwLock::read`], [`RwLock::write`], and the `.._owned` forms | no |
//! | `lock_cancellable`, `read_cancellable`, `write_cancellable` | yes |
//! | [`Condvar::wait`] and its variants | yes; taking the lock again is not |
//! | [`Semaphore::acquire`] and `acquire_many`, [`Pool::get`] | yes |
//! | `wait` of [`Notify`], [`Latch`], [`Barrier`] and [`SetOnce`] | yes |
//! | `wait` and [`wait_for`] of the subscriber of a [`Watch`] | yes |
//! | [`Watch::update`] | no |
//! | [`OnceLock`], [`LazyLock`], [`Once`] | no; [`OnceLock::wait_cancellable`] is |
//! | the locks of [`sync::poison`] | no: std's signatures have no room for the error |
//! | [`net`]: connecting, accepting, serving, reading, writing, looking names up | yes |
//! | [`io`]: pipes, the standard streams, [`copy`] and [`copy_bidirectional`] | yes |
//! | `lock` of the standard streams | no |
//! | [`fs`] | yes, before the call begins and between the pieces of long transfers |
//! | [`Child::wait`], [`Child::wait_with_output`], [`Command::output`], [`Command::status`] | yes |
//! | [`Command::spawn`] | no |
//! | [`block_on`] | yes, before the first poll and whenever the future is not ready |
//! | the pauses of [`Schedule`] and [`Retry`] | yes; a run decides for itself |
//! | [`unblock`] | no: its closure is always awaited |
//! | [`Runtime::run`] | no |
//! | [`RuntimeHandle::dump`], `metrics`, `find_leaks` and `record_to`, which ask the workers | no |
//! | `sim::settle` | no |
//!
//! A cancellation of the caller also reaches the tasks of scopes inside, and those of [`par`].
//! `try_..` calls, a select with a plain `default`, [`Receiver::drain`], [`Permit::send`],
//! [`Watch::set`] and the calls that wake others do not wait, and are no cancellation points.
//!
//! Inside [`no_suspend`] every call that may wait panics.
//!
//! [channels]: crate::channel
//! [`sleep`]: crate::sleep()
//! [`sleep_until`]: crate::sleep_until
//! [`yield_now`]: crate::yield_now
//! [`Interval::tick`]: crate::time::Interval::tick
//! [`Source::wait`]: crate::Source::wait
//! [`select!`]: crate::select!
//! [`select_biased!`]: crate::select_biased!
//! [`Select`]: crate::channel::Select
//! [`reserve`]: crate::channel::Sender::reserve
//! [`recv_many`]: crate::channel::Receiver::recv_many
//! [`JoinHandle`]: crate::JoinHandle
//! [`SharedHandle`]: crate::SharedHandle
//! [`JoinSet::join_next`]: crate::JoinSet::join_next
//! [`join_all`]: crate::join_all
//! [`try_join_all`]: crate::try_join_all
//! [`zip`]: crate::zip
//! [`first_ok_keep`]: crate::first_ok_keep
//! [`first_ok`]: crate::first_ok
//! [`Scope::start`]: crate::Scope::start
//! [`TryScope::start`]: crate::TryScope::start
//! [`scope`]: crate::scope()
//! [`try_scope`]: crate::try_scope
//! [`join!`]: crate::join!
//! [`par`]: crate::par
//! [`timeout`]: crate::timeout()
//! [`cancel_scope`]: crate::cancel_scope
//! [`shield`]: crate::shield
//! [`on_cancel`]: crate::on_cancel
//! [`Mutex::lock`]: crate::sync::Mutex::lock
//! [`RwLock::read`]: crate::sync::RwLock::read
//! [`RwLock::write`]: crate::sync::RwLock::write
//! [`Condvar::wait`]: crate::sync::Condvar::wait
//! [`Semaphore::acquire`]: crate::sync::Semaphore::acquire
//! [`Pool::get`]: crate::sync::Pool::get
//! [`Notify`]: crate::sync::Notify
//! [`Latch`]: crate::sync::Latch
//! [`Barrier`]: crate::sync::Barrier
//! [`SetOnce`]: crate::sync::SetOnce
//! [`wait_for`]: crate::sync::Subscriber::wait_for
//! [`Watch`]: crate::sync::Watch
//! [`Watch::update`]: crate::sync::Watch::update
//! [`Watch::set`]: crate::sync::Watch::set
//! [`OnceLock`]: crate::sync::OnceLock
//! [`LazyLock`]: crate::sync::LazyLock
//! [`Once`]: crate::sync::Once
//! [`OnceLock::wait_cancellable`]: crate::sync::OnceLock::wait_cancellable
//! [`sync::poison`]: crate::sync::poison
//! [`net`]: crate::net
//! [`io`]: crate::io
//! [`copy`]: crate::io::copy
//! [`copy_bidirectional`]: crate::io::copy_bidirectional
//! [`fs`]: crate::fs
//! [`Child::wait`]: crate::process::Child::wait
//! [`Child::wait_with_output`]: crate::process::Child::wait_with_output
//! [`Command::output`]: crate::process::Command::output
//! [`Command::status`]: crate::process::Command::status
//! [`Command::spawn`]: crate::process::Command::spawn
//! [`block_on`]: crate::block_on
//! [`Schedule`]: crate::Schedule
//! [`Retry`]: crate::Retry
//! [`unblock`]: crate::unblock
//! [`Runtime::run`]: crate::Runtime::run
//! [`RuntimeHandle::dump`]: crate::RuntimeHandle::dump
//! [`Receiver::drain`]: crate::channel::Receiver::drain
//! [`Permit::send`]: crate::channel::Permit::send
//! [`no_suspend`]: crate::no_suspend

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
mod holders;
mod limits;
mod locals;
mod observer;
mod panics;
mod polled;
mod polls;
mod result;
mod switch_hook;
mod unseen;

pub use cancel::{CancelReason, Cancelled};
pub use current::{Task, TaskId, checkpoint, current, is_cancelled};
pub use limits::deadline;
pub use locals::LocalKey;
pub use observer::{Ending, ObservedTask, TaskObserver, TaskObserverTaken, set_task_observer};
pub use switch_hook::{LeaveReason, SwitchHook, SwitchHookTaken, set_switch_hook};

pub(crate) use busy::{Board, SeenTask, label, label_root, note, note_again, note_none, noted};
pub(crate) use cancel::{UNEXPLAINED, cancelled_now};
pub(crate) use current::{
    BUDGET, FIRST_ALLOWANCE, answer, begin_wait, begin_wait_in_place, bindings_now, cancelled,
    cancelled_by_now, cancelled_wait, current_header, current_identity, current_node, identity_of,
    is_unwinding, keeping_answers, reach, request_number, set_node, spend_budget, spend_budget_of,
    task_of, unwind_by_force,
};
pub(crate) use describe::describe_overflows;
pub(crate) use header::{
    DONE, Extra, Header, Running, StartedEntry, TAKEN, TaskFiber, Upcalls, VTable,
};
pub(crate) use holders::describe_holders;
pub(crate) use limits::{expire_limits, nearest_fixed_deadline, note_expired_limits};
pub(crate) use observer::{hidden_place, is_hidden, is_hidden_place};
#[cfg(feature = "sim")]
pub(crate) use panics::is_passed_on;
pub(crate) use panics::{
    PASSED_ON, Thrown, hold, install_hook, located, lose, split, text_of, unsplit,
};
pub(crate) use polled::{PendingEntry, Polled, PolledBody};
pub(crate) use polls::{in_poll, poll_budget, spend_poll_budget};
pub(crate) use result::{Body, Failure, TaskBox, Work, drop_quietly, dropped};
pub(crate) use switch_hook::{Kept, announce, calls_hook, hear_of_hook, hook_thread, is_hooked};
pub(crate) use unseen::drop_unseen;
