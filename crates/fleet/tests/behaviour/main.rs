//! Shows the rows of `doc/behaviour/fleet.md`. What only an engine with faults can show is in the
//! crate itself, in `src/tests`.

#[path = "../../../../tests/common/mod.rs"]
mod common;

mod batches;
mod broker;
mod cron;
mod dead;
mod functions;
mod jobs;
mod limits;
mod orders;
mod priorities;
mod progress;
mod queue;
mod traces;
