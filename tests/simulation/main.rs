//! Programs that run in simulations: with many seeds, in all interleavings, and with a cancellation
//! at each place.
//!
//! `cargo xtask swarm` runs them with as many seeds as it is told.

mod bugs;
mod own;
