//! The rows of `doc/behaviour`, one test or more for each: a test's name begins with its row's id.

mod fairness;
mod net;
mod par;
mod streams;
mod support;
mod timer;
