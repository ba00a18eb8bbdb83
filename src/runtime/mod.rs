//! Layer 13: where a run begins and ends.
//!
//! | file | idea |
//! |---|---|
//! | `builder` | settings, and what is wrong with them |
//! | `run` | the root task, and the end of a run |
//! | `handle` | a runtime seen from outside |

mod builder;
#[cfg(test)]
mod files_by_pool;
mod handle;
mod run;

pub use builder::RuntimeBuilder;
pub use handle::{NotRunning, RuntimeHandle};
pub use run::{Runtime, run, spawn};
