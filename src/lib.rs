//! Direct-style structured concurrency.

mod base;
pub mod coroutine;
mod driver;
pub mod net;
pub mod par;
mod park;
mod runtime;
mod sched;
mod scope;
pub mod task;
pub mod time;

pub use driver::DriverKind;
pub use park::no_suspend;
pub use runtime::{
    Builder as RuntimeBuilder, Handle, LocalRuntime, NotRunning, Runtime, run, spawn,
};
pub use sched::{unblock, unblock as spawn_blocking};
pub use scope::{
    Builder, CancelHandle, Elapsed, JoinError, JoinHandle, PanicPayload, Scope, SharedHandle,
    TryBuilder, TryScope, cancel_scope, on_cancel, scope, shield, shield as uninterruptible,
    shield_for, timeout, timeout_at, try_scope, try_timeout,
};
pub use task::{CancelReason, Cancelled, checkpoint, is_cancelled};
pub use time::{sleep, yield_now};
