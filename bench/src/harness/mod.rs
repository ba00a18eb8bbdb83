//! The measuring machinery: what a row is, how it is run, what is printed and saved.
//!
//! # Words
//!
//! - A **row** is one kind of work. Its **contenders** do the same work, each with a library of its
//!   own.
//! - A **sample** is what one contender measured in one **round**: a number for each of the row's
//!   **metrics**. Every metric is a cost (nanoseconds, bytes or seconds), so less is better.
//! - In a round, every contender of the row runs once, one after the other. The next round begins
//!   with the next contender. A machine that changes its speed between two rounds changes it for
//!   all contenders, so only ratios within a round are compared.
//! - A round that something else **disturbed** is discarded and run again ([`noise`]).
//! - A **range** is where the median of the ratios lies with a probability of 96%. A **verdict**
//!   needs the whole range on one side of the goal.
//! - A contender always runs in a **child** process of its own (the same program, started with
//!   `--child row/contender`), pinned to the row's cores. What one contender leaves in the
//!   allocator or in a thread pool cannot affect the next, and a contender that crashes affects no
//!   other.

mod child;
mod clock;
mod header;
mod memory;
mod noise;
mod order;
mod peers;
mod pin;
mod range;
mod report;
mod result;
mod rounds;
mod row;
mod run;
mod store;
mod verdict;

pub(crate) use child::child_main;
pub(crate) use clock::{cpu_seconds, nanoseconds_per_operation, seconds};
pub(crate) use header::{Header, why_not_clean};
pub(crate) use memory::{mappings, resident_bytes, resident_bytes_of};
pub(crate) use pin::{on_second_core, on_two_cores, pin_to, second_core};
pub(crate) use range::ROUNDS_FOR_A_VERDICT;
pub(crate) use row::{Contender, Metric, Row, Sample, Unit};
pub(crate) use run::Run;
pub(crate) use store::load as interrupted;
