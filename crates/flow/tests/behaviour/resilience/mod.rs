//! Rows of `doc/behaviour/resilience.md`.

mod breaker;
mod rates;
mod supervise;
