//! Layer 13: the beginning and the end of a run.
//!
//! | file | content |
//! |---|---|
//! | `builder` | settings and their validation |
//! | `run` | the root task, and the end of a run |
//! | `handle` | a runtime as seen by other threads |
//! | `local` | a minimal event loop |

mod builder;
#[cfg(test)]
mod files_by_pool;
mod handle;
#[cfg(all(test, not(loom)))]
mod on_each_driver;
mod run;

pub use builder::RuntimeBuilder;
pub use handle::{NotRunning, RuntimeHandle};
pub use run::{Runtime, run, spawn};
