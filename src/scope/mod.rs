//! Layer 7: scopes, which bound the lifetime of tasks and pass cancellation on to them.
//!
//! A scope owns the tasks that are spawned in it, and returns only after the last of them has
//! ended. Tasks may therefore borrow from outside the scope. The interface is that of
//! [`std::thread::scope`], and it is sound for the same reasons:
//! - It is a function that takes a closure. There is no guard object that could be forgotten.
//! - `'scope` and `'env` are invariant, so a [`Scope`] cannot outlive its closure.
//! - The body's panic is caught. The children are awaited outside of unwinding, then the panic is
//!   resumed.
//! - A child's closure and result are dropped before the child is counted as ended. Decreasing that
//!   count is the child's last access to the scope (S5).
//!
//! | file | idea |
//! |---|---|
//! | `core` | the count of children and the wait for it |
//! | `child_panic`, `lost_panic` | what becomes of a child's panic |
//! | `scoped`, `try_scoped` | the two kinds of scope |
//! | `options`, `builder` | names, stacks and places for tasks |
//! | `future` | tasks whose work is a future |
//! | `start` | tasks that report when they are ready |
//! | `join`, `shared_handle` | handles |
//! | `joinable` | the interface common to both handles, for functions that accept either |
//! | `deadline`, `shield`, `handle`, `hook` | frames that decide which requests reach their body |
//! | `section`, `when_cancelled` | what the handles of a frame share, and waiting for its cancellation |

mod builder;
mod child_panic;
mod core;
mod daemons;
mod deadline;
mod frame;
mod future;
mod handle;
mod handle_source;
mod hook;
mod join;
mod join_error;
mod joinable;
#[cfg(feature = "sim")]
mod lost_panic;
mod options;
mod scoped;
mod section;
mod shared_handle;
mod shield;
mod start;
mod try_scoped;
mod waiting;
mod when;
mod when_cancelled;

pub use builder::{TaskBuilder, TryTaskBuilder};
pub use daemons::Daemons;
pub use deadline::{Elapsed, timeout, timeout_at, try_timeout};
pub use handle::{CancelHandle, cancel_scope};
pub use hook::on_cancel;
pub use join::JoinHandle;
pub use join_error::{JoinError, PanicPayload};
pub use joinable::Joinable;
pub use scoped::{Scope, scope};
pub use shared_handle::SharedHandle;
pub use shield::{shield, shield_for};
pub use start::{StartError, Started};
pub use try_scoped::{TryScope, try_scope};
pub use when_cancelled::WhenCancelled;

pub(crate) use self::core::ScopeCore;
pub(crate) use future::PlainFuture;
pub(crate) use join_error::FromJoinError;
pub(crate) use joinable::{Claimed, Internals};
pub(crate) use options::Options;
pub(crate) use scoped::Plain;
pub(crate) use waiting::each_waiting;
