//! The rows of `doc/behaviour`, one test or more for each: a test's name begins with its row's id.

mod cancel;
mod coroutine;
mod par;
mod run;
mod scope;
mod support;
mod task;
