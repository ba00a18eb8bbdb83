//! The rows of `doc/behaviour`, with at least one test for each. A test's name begins with its
//! row's id. The first test of each row has the row in its doc comment, from which
//! `cargo xtask behaviour --write` writes the tables.

#![cfg_attr(ecru_baton, allow(unused, reason = "helpers of tests that this backend leaves out"))]

mod aio;
mod busy_workers;
mod callback;
mod cancel;
mod channel;
mod combine;
#[path = "../common/mod.rs"]
mod common;
mod coroutine;
mod ctrl_c;
mod deadlock;
mod drain;
mod driver;
mod dump;
mod ending_thread;
mod explained;
#[cfg(not(any(ecru_baton, debug_assertions)))] // its limits are times, which slow code exceeds
mod fairness;
mod fs;
mod future;
mod handle;
mod inspected;
mod io;
mod leaked;
mod metrics;
mod net;
#[cfg(not(ecru_baton))] // its stacks are those of threads
mod no_stack;
mod objects;
mod par;
#[cfg(not(ecru_baton))] // there each task has a thread of its own
mod placement;
mod polled;
mod process;
mod ready;
mod recorder;
mod refused;
mod run;
mod schedule;
mod scope;
mod select;
mod serve;
mod serve_late;
mod service;
mod signal;
mod sim;
mod sim_net;
mod simulated;
mod source;
mod streams;
mod stuck;
mod support;
mod sync;
mod task;
mod timer;
mod udp;
mod unblock;
mod unix;
mod unwinding_coroutine;
mod watchdog;
