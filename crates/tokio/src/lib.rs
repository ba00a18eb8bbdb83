//! tokio's crates as plain calls: reqwest, sqlx, tonic and others in tasks of ecru.
//!
//! [`wait`] waits for any future, also one that needs a tokio runtime:
//!
//! ```
//! use std::time::Duration;
//!
//! ecru::run(|| {
//!     let mut words = vec!["tokio's", "timers"];
//!     // The future may borrow, and need not be `Send`.
//!     let count = ecru_tokio::wait(async {
//!         tokio::time::sleep(Duration::from_millis(1)).await;
//!         words.push("work");
//!         words.len()
//!     });
//!     assert_eq!(count, Ok(3));
//! });
//! ```
//!
//! | here | for |
//! |---|---|
//! | [`wait`] | futures |
//! | [`inside`] | futures that ecru polls and that await what needs tokio, such as axum's handlers |
//! | [`enter`] | functions that are not futures and need a tokio runtime, such as `connect_lazy` |
//! | [`Direct`] | tokio's streams of bytes, as `Read` and `Write` |
//! | [`EcruIo`] | ecru's sockets, as `AsyncRead` and `AsyncWrite` |
//! | [`source`](source()), [`receiver`] | streams and tokio's channels, as sources for races and callbacks |
//!
//! # How it works
//! The task that calls `wait` polls the future on its own stack, inside the context of a tokio
//! runtime. While the future is pending, the task is parked and its worker runs other tasks. tokio's
//! reactor and timers run on a thread of that runtime, which unparks the task. So the future may
//! borrow from the caller, its panics are the caller's, and a cancelled wait drops it at once.
//!
//! The context is entered for one poll at a time. A poll must not wait in direct style: a call of
//! ecru that may wait panics there, as in [`no_suspend`](ecru::no_suspend). Await inside the future,
//! and wait outside.
//!
//! `tokio::spawn` works inside the future. The spawned task runs on the runtime's thread, and a call
//! of ecru that waits blocks that thread.
//!
//! # The runtime
//! It is started at the first use, with one thread named `ecru-tokio` beside those of
//! `spawn_blocking`, and lasts until the process ends. [`Builder`] has other settings, and takes the
//! program's own runtime instead.
//!
//! # Simulation
//! A future that waits for nothing but ecru works in a simulation. tokio's clock and sockets are
//! real, and a wake-up by its thread fails the simulation.

#[cfg(feature = "runtime")]
mod direct;
mod io;
#[cfg(feature = "runtime")]
mod runtime;
#[cfg(feature = "runtime")]
mod source;
#[cfg(feature = "runtime")]
mod wait;

#[cfg(feature = "runtime")]
pub use direct::Direct;
pub use io::EcruIo;
#[cfg(feature = "runtime")]
pub use runtime::{AlreadyStarted, Builder, enter, handle};
#[cfg(feature = "runtime")]
pub use source::{StreamSource, receiver, source, unbounded_receiver};
#[cfg(feature = "runtime")]
pub use wait::{InTokio, inside, wait};
