//! Layer 13: the beginning and the end of a run.
//!
//! | file | content |
//! |---|---|
//! | `builder` | settings and their validation |
//! | `run` | the root task, and the end of a run |
//! | `handle` | a runtime as seen by other threads |
//! | `local` | a minimal event loop |

mod builder;
mod handle;
mod run;
#[cfg(test)]
mod tests;

pub use builder::RuntimeBuilder;
pub use handle::{NotRunning, RuntimeHandle};
#[cfg(feature = "sim")]
pub(crate) use run::run_simulated;
pub use run::{Runtime, run, spawn, spawn_future};
