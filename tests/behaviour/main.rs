//! The rows of `doc/behaviour`, one test or more for each: a test's name begins with its row's id.

mod cancel;
mod fairness;
mod net;
mod par;
mod scope;
mod streams;
mod support;
mod timer;
