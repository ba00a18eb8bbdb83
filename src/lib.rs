//! Direct-style structured concurrency.
mod base;
pub mod coroutine;
