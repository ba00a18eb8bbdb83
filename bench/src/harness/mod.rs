//! The measuring machinery: what a row is, how it is run, what is printed.
//!
//! # Words
//!
//! - A **row** is one kind of work. Its **contenders** do the same work, each with a library of its own.
//! - A **sample** is what one contender measured in one **round**: a number for each of the row's **metrics**. Every metric is a
//!   cost: nanoseconds, bytes or seconds, less is better.
//! - In a round every contender of the row runs once, one after the other; then comes the next round. So a machine that changes
//!   its speed between two rounds changes it for all, and only ratios within a round are compared.
//! - A contender always runs in a **child** process of its own (the same program, started with `--child row/contender`), pinned to
//!   the row's cores. What one leaves in the allocator or in a thread pool cannot reach the next, and one that dies takes nothing along.

mod child;
mod clock;
mod machine;
mod memory;
mod pin;
mod report;
mod row;
mod run;

pub(crate) use child::child_main;
pub(crate) use clock::{cpu_seconds, nanoseconds_per_operation, seconds};
pub(crate) use machine::Machine;
pub(crate) use memory::{mappings, resident_bytes};
pub(crate) use pin::{on_two_cores, pin_to, second_core};
pub(crate) use report::{json, markdown};
pub(crate) use row::{Contender, Metric, Row, Sample, Unit};
pub(crate) use run::{RowResult, run_row};
