//! Layer 7: the lifetime of tasks, and who cancels whom.
//!
//! A scope owns the tasks that are spawned in it and does not return before the last of them has ended; that is what lets them
//! borrow from outside it. Its shape is that of [`std::thread::scope`], with its hard-won details:
//! - It is a function that takes a closure, never a guard object that could be forgotten.
//! - `'scope` and `'env` are invariant, so a [`Scope`] cannot be smuggled out.
//! - The body's panic is caught, the children are awaited outside unwinding, then it is resumed.
//! - A child's closure and result are dropped before the child is counted as ended, and that count is the last thing of the
//!   scope that a child touches (S5).
//!
//! | file | idea |
//! |---|---|
//! | `core` | the count of children and the wait for it |
//! | `scoped`, `try_scoped` | the two kinds of scope |
//! | `builder` | names and stacks for tasks |
//! | `join`, `shared_handle` | handles |
//! | `joinable` | what the kinds of handles have in common, for those who take any |
//! | `deadline`, `shield`, `handle`, `hook` | frames that decide which cancellation reaches what runs inside |
//! | `watchdog` | time limits whose worker is stuck in foreign code |

mod builder;
mod core;
mod deadline;
mod frame;
mod handle;
mod handle_source;
mod hook;
mod join;
mod join_error;
mod joinable;
mod scoped;
mod shared_handle;
mod shield;
mod try_scoped;
mod waiting;
mod watchdog;
mod when;

pub use builder::{Builder, TryBuilder};
pub use deadline::{Elapsed, timeout, timeout_at, try_timeout};
pub use handle::{CancelHandle, cancel_scope};
pub use hook::on_cancel;
pub use join::JoinHandle;
pub use join_error::{JoinError, PanicPayload};
pub use joinable::Joinable;
pub use scoped::{Scope, scope};
pub use shared_handle::SharedHandle;
pub use shield::{shield, shield_for};
pub use try_scoped::{TryScope, try_scope};

pub(crate) use self::core::{ScopeCore, Start};
pub(crate) use builder::Options;
pub(crate) use joinable::{Claimed, Internals};
pub(crate) use scoped::Plain;
pub(crate) use waiting::each_waiting;
