//! Layer 0: what every other module may lean on, and that has no policy of its own.
//!
//! - [`sync`]: atomics and locks, `std`'s or loom's, so that the concurrent modules above can be model-checked.
//! - [`local`]: the one block of thread-locals, shared by all layers.
//! - [`blocks`]: memory for small boxes, recycled by each worker.
//! - [`clock`]: the time.
//! - [`list`]: an intrusive doubly linked list for nodes that live on parked stacks.

pub(crate) mod blocks;
pub(crate) mod clock;
pub(crate) mod list;
pub(crate) mod local;
pub(crate) mod sync;
