//! Rows of `doc/behaviour/over.md`.

mod attacks;
mod merges;
mod pipelines;
mod pipes;
mod reading;
mod zips;
