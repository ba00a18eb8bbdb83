//! Layer 0: what every other module may lean on, and that has no policy of its own.
//!
//! - [`sync`]: atomics and locks, `std`'s or loom's, so that the concurrent modules above can be model-checked.
//! - [`local`]: the one block of thread-locals, shared by all layers.
//! - [`blocks`]: memory for small boxes, recycled by each worker.
//! - [`clock`]: the time.
//! - [`alarm`]: rings at a time, for those who have nobody to wait for it.
//! - [`outside`]: whether something may still come from outside the process.
//! - [`handler`]: calls a signal handler that somebody else has installed.
//! - [`random`]: chance, through one door.
//! - [`report`]: lines on standard error that hold nothing up.
//! - [`short_trace`]: which frames backtraces leave out.
//! - [`list`]: an intrusive doubly linked list for nodes that live on parked stacks.

pub(crate) mod alarm;
pub(crate) mod blocks;
pub(crate) mod clock;
pub(crate) mod handler;
pub(crate) mod list;
pub(crate) mod local;
pub(crate) mod outside;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod short_trace;
pub(crate) mod sync;
