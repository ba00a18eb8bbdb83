//! Layer 0: tools that every other module may use, without any policy of their own.
//!
//! - [`sync`]: atomics and locks, `std`'s or loom's, so that the concurrent modules above can be
//!   model-checked.
//! - [`local`]: the one block of thread-locals, shared by all layers.
//! - [`blocks`]: memory for small boxes, which each worker reuses.
//! - [`clock`]: the current time.
//! - [`service`]: calls a function at a given time, or when a descriptor is readable, where no task
//!   or thread waits for that; [`alarm`] is the part for times.
//! - [`outside`]: whether an event from outside the process is still expected.
//! - [`handler`]: calls a signal handler that was installed before the library's own.
//! - [`random`]: random numbers.
//! - [`hash`]: hash tables without random seeds.
//! - [`record`]: the rings of the flight recorder.
//! - [`report`]: lines on standard error, written without blocking.
//! - [`simulated`]: the clock and the alarms of a simulation's thread; [`drift`] is the part for
//!   clocks that are not exact.
//! - [`short_trace`]: which frames backtraces leave out.
//! - [`watched`]: what the system says of a thread: its waits for a processor, its system call.
//! - [`tag`]: the name of an object, and what holds it, for dumps.
//! - [`list`]: an intrusive doubly linked list for nodes that live on parked stacks.

pub(crate) mod alarm;
pub(crate) mod blocks;
pub(crate) mod clock;
#[cfg(feature = "sim")]
pub(crate) mod drift;
pub(crate) mod handler;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod local;
pub(crate) mod outside;
pub(crate) mod random;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod room;
pub(crate) mod service;
pub(crate) mod short_trace;
pub(crate) mod simulated;
pub(crate) mod sync;
pub(crate) mod tag;
pub(crate) mod watched;
