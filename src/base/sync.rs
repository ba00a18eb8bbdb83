//! Atomics and blocking, through one door: `std`'s, or loom's when the crate is built with `--cfg loom`.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
