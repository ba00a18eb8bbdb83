//! Layer 13: where a run begins and ends.
//!
//! | file | idea |
//! |---|---|
//! | `builder` | settings, and what is wrong with them |
//! | `run` | the root task, and the end of a run |
//! | `handle` | a runtime seen from outside |
//! | `local` | the smallest event loop |

mod builder;
#[cfg(test)]
mod files_by_pool;
mod handle;
mod local;
mod run;

pub use builder::Builder;
pub use handle::{Handle, NotRunning};
pub use local::LocalRuntime;
pub use run::{Runtime, run, spawn};
