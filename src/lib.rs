// Where the front page's links lead in these pages; of two definitions the first counts.
//! [examples]: crate#functions
//! [doc/behaviour]: crate#functions
//! [scope]: crate::scope()
//! [cancel]: crate::Cancelled
//! [task]: crate::task
//! [net]: crate::net
//! [ARCHITECTURE.md]: crate#modules-in-layer-order
//! [SOUNDNESS.md]: crate::_soundness
//! [CONTRIBUTING.md]: crate#contributing
#![doc = include_str!("../README.md")]
//! # Modules in layer order
//!
//! Each names only those above it.
//!
//! | module | what is in it for you |
//! |---|---|
//! | `base` | nothing; thread-locals, atomics, lists |
//! | [`coroutine`] | [`Coroutine`](coroutine::Coroutine), [`Generator`](coroutine::Generator), stacks and their pools |
//! | `park` | [`no_suspend`]; the waiting protocol |
//! | [`task`] | [`Task`](task::Task), [`checkpoint`], [`Cancelled`], [`task_local!`] |
//! | `driver` | [`DriverKind`]; operations of the kernel |
//! | `sched` | [`unblock`]; workers, queues, timers |
//! | `scope` | [`scope()`], [`try_scope`], [`timeout`], [`shield`], [`on_cancel`], handles |
//! | [`time`] | [`sleep`], [`yield_now`] |
//! | [`net`] | [`TcpListener`](net::TcpListener), [`TcpStream`](net::TcpStream) |
//! | [`par`] | parallel map, [`par_for!`] |
//! | `runtime` | [`run`], [`Runtime`], [`Handle`], [`spawn`], [`LocalRuntime`] |

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

#[cfg(doc)]
#[doc = include_str!("../SOUNDNESS.md")]
pub mod _soundness {}
