//! Deterministic simulation: the same program, in virtual time, as a seed decides.
//!
//! This module requires the feature `sim`, which a package enables in its dev-dependencies.
//!
//! A [`Simulation`] runs a program that uses this library as it is. Time in it is virtual, so a
//! test that sleeps for an hour takes no time. Which task runs next is decided by a seed, so a test
//! that fails for a seed fails for it each time.
//!
//! ```
//! use ecru::sim::{self, Simulation};
//! use std::time::Duration;
//!
//! let report = Simulation::new(7).run(|| {
//!     let answer = ecru::timeout(Duration::from_secs(30), || ecru::sleep(Duration::from_secs(600)));
//!     assert!(answer.is_err());
//!     sim::elapsed()
//! });
//! assert_eq!(report.unwrap(), Duration::from_secs(30));
//! ```
//!
//! # Interleavings
//! In a simulation one task runs at a time. It runs until it waits or ends, or until it is
//! interrupted at a *decision point*: at the beginning of a call that may wait, at
//! [`spawn`](crate::Scope::spawn), or at [`point`]. Code between two such calls is not interrupted.
//! A thousand seeds show a thousand interleavings of the same program.
//!
//! # Finding failures
//! | function | runs of a closure |
//! |---|---|
//! | [`test()`] | with 16 seeds, or those that the environment names: the body of a test |
//! | [`explore()`] | with any seeds and any [`Strategy`], or in all interleavings |
//! | [`cancel_everywhere`] | with a cancellation at each place of the run in turn |
//! | [`fault_everywhere`] | with an error of each I/O operation in turn, but for those of its [`set_up`] |
//!
//! [`Simulation::test`] and [`Simulation::explore`] do the same as the functions, in simulations
//! with a network, faults and limits of the caller's choice.
//!
//! A failure has a [`Trace`]: a short text that names the turns of the tasks and the faults that
//! the simulation has drawn. It repeats the run by [`Strategy::Replay`]. Before it is shown, the
//! run is repeated, and its trace is made as simple as possible. So most traces have only the one
//! or two preemptions, and the one fault, that the failure needs.
//!
//! # Files
//! Each host has a disk of its own, in memory, with the current directory, `/tmp` and the directory
//! for temporary files. [`fs`](crate::fs) behaves as on a file system of Linux, for a user without
//! privileges. A [crash](Host::crash) of a host ends its open files, and keeps the disk as it is. A
//! [power failure](Host::power_fail) leaves what POSIX promises, and no more:
//!
//! - A file's content is kept by `sync_all` or `sync_data`. Its name, like any other change of
//!   names, is kept by a sync of its directory: `File::open(directory)?.sync_all()`.
//! - Of other writes, each sector of 512 bytes is kept or lost. A file may have its new length, and
//!   zeros instead of the new bytes.
//! - Other changes of names are kept in order in each directory, up to some moment. A rename is
//!   kept as a whole or not at all.
//! - A sync that has failed has lost some of the writes before it. A later sync does not keep them.
//!
//! [`Faults`] says what else goes wrong. Not simulated are inode numbers, and what the metadata of
//! directories and links tell beside their kind.
//!
//! # What makes a run repeatable
//! The seed decides everything that ecru decides. The program must not depend on anything else:
//!
//! | instead of | use |
//! |---|---|
//! | `Instant::now`, `SystemTime::now` | [`time::now`](crate::time::now) |
//! | `std::thread::sleep` | [`sleep`](crate::sleep) |
//! | `std::thread::spawn` | [`spawn`](crate::Scope::spawn) |
//! | locks and channels of `std` across waits | [`sync`](crate::sync), [`channel`](crate::channel) |
//! | the order of a `HashMap` | `BTreeMap`, or a fixed hasher |
//! | random numbers of the system | [`random_u64`] as a seed |
//!
//! The crate `ecru-sim-libc`, a dev-dependency, makes the clocks of `std`, the order of a `HashMap`
//! and the system's random numbers deterministic in simulations.
//!
//! Two runs with one seed have the same [`trace_hash`](Report::trace_hash). A test can compare
//! them.

// # Parts
// - `strategy` chooses tasks, `paths` takes all interleavings, `trace` is the schedule of a run.
// - `pilot` steers a run by a plan, and records it.
// - `search` looks for a failure in many runs, and `shrink` makes its trace simpler. Both know only
//   what a program is, and `toy` has programs without tasks for their tests. `explore`, `test` and
//   `everywhere` are their doors.
// - `course` is the course of one run: it directs the scheduler, and notices failures.
// - `faults` says what goes wrong by itself, `outages` makes it happen to hosts, and `drawn` lists
//   what has gone wrong.
//   `legend` says what the numbers of tasks stand for, and `timeline` what has happened when.
// - `simulation` starts the thread of a run and waits for its outcome.
// - `here` is what a program may ask of the simulation that it runs in.
// - `interposer` is what the crate `ecru-sim-libc` asks.
// - `hosts` starts and stops the machines of a run. `host` is how programs name them, and `link` is
//   about what is between them.

mod command;
mod course;
mod desk;
mod drawn;
mod everywhere;
mod explore;
mod failure;
mod faults;
mod here;
mod host;
mod hosts;
#[doc(hidden)]
pub mod interposer;
mod last_words;
mod legend;
mod link;
mod notes;
mod outages;
mod pages;
mod paths;
mod pilot;
mod program;
mod report;
mod search;
mod shrink;
mod simulation;
mod step_limit;
mod strategy;
mod test;
#[cfg(all(test, not(loom)))]
mod tests;
mod thread;
mod timeline;
#[cfg(all(test, not(loom)))]
mod toy;
mod trace;
mod turns;
mod waiting;

pub use everywhere::{cancel_everywhere, fault_everywhere, set_up};
pub use explore::{Found, explore};
pub use failure::Failure;
pub use faults::Faults;
pub use here::{chance, elapsed, invariant, is_simulated, point, random_u64, settle};
pub use host::{Host, here, host};
pub use link::{Link, LinkHandle, calm, heal, link, partition, partition_one_way};
pub use notes::{Note, note, notes};
pub use pilot::Divergence;
pub use report::Report;
pub use search::{Explore, Explored};
pub use simulation::Simulation;
pub use strategy::Strategy;
pub use test::test;
pub use timeline::{Timeline, TimelineEvent};
pub use trace::{ParseTraceError, Trace};

// Only in the documentation. `doctest` runs its programs.
#[cfg(any(doc, doctest))]
#[doc = include_str!("../../doc/simulation.md")]
pub mod guide {}
