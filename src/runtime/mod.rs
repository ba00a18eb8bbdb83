//! Layer 13: where a run begins and ends.
//!
//! | file | idea |
//! |---|---|
//! | `builder` | settings, and what is wrong with them |
//! | `run` | the root task, and the end of a run |
//! | `handle` | a runtime seen from outside |

mod builder;
mod handle;
mod run;

pub use builder::Builder;
pub use handle::{Handle, NotRunning};
pub use run::{Runtime, run, spawn};
