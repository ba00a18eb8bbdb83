//! The rows of `doc/behaviour`, one test or more for each: a test's name begins with its row's id.

mod cancel;
mod coroutine;
mod drain;
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
