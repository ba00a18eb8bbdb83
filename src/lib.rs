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
//! | [`source`] | [`Source`]: whatever can be waited on; races |
//! | `scope` | [`scope()`], [`try_scope`], [`timeout`], [`shield`], [`on_cancel`], handles |
//! | [`sync`] | [`Mutex`](sync::Mutex), [`Semaphore`](sync::Semaphore), and the rest of std's |
//! | [`time`] | [`sleep`], [`yield_now`] |
//! | [`channel`] | channels, [`select!`], [`Select`](channel::Select) |
//! | [`combine`] | [`zip`], [`first_ok`], [`join_all`], [`try_join_all`], [`JoinSet`], [`join!`] ([`concurrently!`]) |
//! | [`schedule`] | [`Schedule`], [`Retry`], [`Delay`], [`Jitter`] |
//! | [`signal`] | [`ctrl_c`](signal::ctrl_c), [`Signal`](signal::Signal) |
//! | [`fs`] | [`File`](fs::File), [`fs::read`](fs::read()), and the rest of std's |
//! | [`net`] | [`TcpListener`](net::TcpListener), [`TcpStream`](net::TcpStream), [`UdpSocket`](net::UdpSocket), Unix sockets, [`Server`](net::Server) |
//! | [`io`] | [`stdin`](io::stdin), [`pipe`](io::pipe()), [`copy_bidirectional`](io::copy_bidirectional), and what of `std::io` needs no twin |
//! | [`process`] | [`Command`](process::Command), [`Child`](process::Child) |
//! | [`par`] | parallel map, [`par_for!`] |
//! | [`diag`] | [`TaskTree`]: what a run is doing |
//! | `interop` | [`block_on`] |
//! | `runtime` | [`run`], [`Runtime`], [`Handle`], [`spawn`], [`LocalRuntime`] |

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
pub use runtime::{
    Builder as RuntimeBuilder, Handle, LocalRuntime, NotRunning, Runtime, run, spawn,
};
pub use sched::{unblock, unblock as spawn_blocking};
pub use schedule::{Delay, Jitter, Retry, Schedule};
pub use scope::{
    Builder, CancelHandle, Elapsed, JoinError, JoinHandle, PanicPayload, Scope, SharedHandle,
    TryBuilder, TryScope, cancel_scope, on_cancel, scope, shield, shield as uninterruptible,
    shield_for, timeout, timeout_at, try_scope, try_timeout,
};
pub use source::Source;
pub use task::{CancelReason, Cancelled, checkpoint, is_cancelled};
pub use time::{sleep, yield_now};

#[cfg(doc)]
#[doc = include_str!("../SOUNDNESS.md")]
pub mod _soundness {}
