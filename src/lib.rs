//! Direct-style structured concurrency.
mod base;
