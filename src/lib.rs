//! Structured concurrency in direct style: thousands of tasks that run plain blocking code and
//! borrow from their parent, on io_uring, without `async`.
//!
//! ```
#![doc = include_str!("../examples/01_hello.rs")]
//! ```
//!
// Targets of the page's links. If a link is defined twice, the first definition counts.
//! [scope]: crate::scope()
//! [cancel]: crate::Cancelled
//! [sources]: crate::source
//! [sim]: crate::sim
//! [coroutine]: crate::coroutine
//! [SOUNDNESS.md]: crate::soundness
#![doc = include_str!("../doc/features.md")]
//!
//! # Where to find what
//!
//! | topic | items |
//! |---|---|
//! | a run | [`run`], [`Runtime`], [`RuntimeHandle`] |
//! | settings of a run | [`RuntimeBuilder`], [`DriverKind`], [`Placement`] |
//! | scopes of tasks | [`scope()`], [`try_scope`] |
//! | tasks | [`spawn`], [`JoinHandle`], [`task`], [`task_local!`] |
//! | cancellation | [`cancel_scope`], [`shield`], [`on_cancel`], [`checkpoint`], [`Cancelled`] |
//! | time limits | [`timeout`], [`timeout_at`], [`try_timeout`], [`shield_for`] |
//! | several tasks at once | [`combine`], [`JoinSet`], [`join!`], [`par`], [`par_for!`] |
//! | channels | [`channel`], [`select!`] |
//! | anything that can be waited on | [`source`], [`Source`] |
//! | locks and other synchronization | [`sync`] |
//! | sleeping | [`time`], [`sleep`], [`sleep_until`], [`yield_now`] |
//! | repeating and retrying | [`schedule`], [`Schedule`], [`Retry`] |
//! | sockets, files, programs, signals | [`net`], [`fs`], [`io`], [`process`], [`signal`] |
//! | calls that block, code that must not wait | [`unblock`], [`no_suspend`] |
//! | futures | [`block_on`] |
//! | coroutines and generators | [`coroutine`] |
//! | simulation: virtual time, and interleavings from a seed | [`sim`], with the feature `sim` |
//! | diagnostics | [`diag`], [`TaskTree`] |

#![cfg_attr(
    not(feature = "sim"),
    allow(rustdoc::broken_intra_doc_links, reason = "the pages link to `sim`, which is left out")
)]
#![deny(clippy::print_stderr)] // `base::report` prints instead: no full pipe can hang it

mod base;
pub mod channel;
pub mod combine;
pub mod coroutine;
pub mod diag;
mod driver;
pub mod fs;
mod interop;
pub mod io;
pub mod net;
pub mod par;
mod park;
pub mod process;
mod runtime;
mod sched;
pub mod schedule;
mod scope;
pub mod signal;
#[cfg(feature = "sim")]
pub mod sim;
pub mod source;
pub mod sync;
pub mod task;
pub mod time;

pub use combine::{JoinSet, first_ok, first_ok_keep, join_all, try_join_all, zip};
pub use diag::TaskTree;
pub use driver::DriverKind;
pub use interop::block_on;
pub use park::no_suspend;
pub use runtime::{NotRunning, Runtime, RuntimeBuilder, RuntimeHandle, run, spawn, spawn_future};
pub use sched::{Placement, unblock};
pub use schedule::{Retry, Schedule};
pub use scope::{
    CancelHandle, Daemons, Elapsed, JoinError, JoinHandle, PanicPayload, Scope, SharedHandle,
    StartError, Started, TaskBuilder, TryScope, TryTaskBuilder, WhenCancelled, cancel_scope,
    on_cancel, scope, shield, shield_for, timeout, timeout_at, try_scope, try_timeout,
};
pub use source::Source;
pub use task::{CancelReason, Cancelled, checkpoint, is_cancelled};
pub use time::{sleep, sleep_until, yield_now};

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub mod readme {}

/// What ecru guarantees, and why the guarantees hold. This module exists only in the documentation.
#[cfg(doc)]
#[doc = include_str!("../SOUNDNESS.md")]
pub mod soundness {}
