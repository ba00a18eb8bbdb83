// Where the front page's links lead in these pages; of two definitions the first counts.
//! [examples]: crate#functions
//! [doc/behaviour]: crate#functions
//! [scope]: crate::scope()
//! [cancel]: crate::Cancelled
//! [task]: crate::task
//! [net]: crate::net
//! [sources]: crate::source
//! [channel]: crate::channel
//! [select]: crate::select
//! [ARCHITECTURE.md]: crate#where-to-find-what
//! [SOUNDNESS.md]: crate::soundness
//! [CONTRIBUTING.md]: crate#contributing
#![doc = include_str!("../README.md")]
//! # Where to find what
//!
//! | for | see |
//! |---|---|
//! | a run and its settings | [`run`], [`Runtime`], [`RuntimeBuilder`], [`RuntimeHandle`], [`DriverKind`], [`Placement`] |
//! | tasks and their scopes | [`scope()`], [`try_scope`], [`spawn`], [`JoinHandle`], [`task`], [`task_local!`] |
//! | cancellation and time limits | [`timeout`], [`cancel_scope`], [`shield`], [`on_cancel`], [`checkpoint`], [`Cancelled`] |
//! | several tasks at once | [`combine`], [`JoinSet`], [`join!`], [`par`], [`par_for!`] |
//! | channels | [`channel`], [`select!`] |
//! | whatever can be waited on | [`source`], [`Source`] |
//! | locks and events | [`sync`] |
//! | sleeping, and trying again | [`time`], [`sleep`], [`sleep_until`], [`yield_now`], [`schedule`], [`Schedule`], [`Retry`] |
//! | sockets, files, programs, signals | [`net`], [`fs`], [`io`], [`process`], [`signal`] |
//! | calls that block, code that must not wait | [`unblock`], [`no_suspend`] |
//! | futures | [`block_on`] |
//! | coroutines and generators | [`coroutine`] |
//! | what a run is doing | [`diag`], [`TaskTree`] |

#![deny(clippy::print_stderr)] // `base::report` holds nothing up

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
pub mod source;
pub mod sync;
pub mod task;
pub mod time;

pub use combine::{JoinSet, first_ok, first_ok_keep, join_all, try_join_all, zip};
pub use diag::TaskTree;
pub use driver::DriverKind;
pub use interop::block_on;
pub use park::no_suspend;
pub use runtime::{NotRunning, Runtime, RuntimeBuilder, RuntimeHandle, run, spawn};
pub use sched::{Placement, unblock};
pub use schedule::{Retry, Schedule};
pub use scope::{
    CancelHandle, Elapsed, JoinError, JoinHandle, PanicPayload, Scope, SharedHandle, StartError,
    Started, TaskBuilder, TryScope, TryTaskBuilder, cancel_scope, on_cancel, scope, shield,
    shield_for, timeout, timeout_at, try_scope, try_timeout,
};
pub use source::Source;
pub use task::{CancelReason, Cancelled, checkpoint, is_cancelled};
pub use time::{sleep, sleep_until, yield_now};

/// What is promised, and why it holds. This module exists in the documentation only.
#[cfg(doc)]
#[doc = include_str!("../SOUNDNESS.md")]
pub mod soundness {}
