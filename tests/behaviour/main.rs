//! The rows of `doc/behaviour`, one test or more for each: a test's name begins with its row's id.

#![cfg_attr(ecru_baton, allow(unused, reason = "helpers of the tests that are left out there"))]

mod cancel;
mod coroutine;
mod drain;
#[cfg(not(ecru_baton))] // threads that pass a baton are slower than its limits
mod fairness;
mod net;
mod par;
mod refused;
mod run;
mod scope;
mod streams;
mod support;
mod task;
mod timer;
mod unblock;
