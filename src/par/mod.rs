//! Doing the same to many items, each in a task of its own.
//!
//! | | at a time | result | order |
//! |---|---|---|---|
//! | [`map`] | all | a `Vec`, when all have ended | of the input |
//! | [`map_buffered`] | a sliding window | a `Vec`, when all have ended | of the input |
//! | [`map_until`] | all, until a deadline | a `Vec` of `Option`s, when all have ended | of the input |
//! | [`for_each`] | a sliding window | nothing | |
//! | [`Scope::map`](crate::Scope::map) | all | an iterator | of the input |
//! | [`Scope::map_buffered`](crate::Scope::map_buffered) | a window ahead of the reader | a lazy iterator | of the input |
//! | [`Scope::map_chunks`](crate::Scope::map_chunks) | a chunk | a lazy iterator of handles | of the input |
//! | [`par_for!`](crate::par_for) | all | a `Vec` | of the loops |
//!
//! The functions run every item, whether the caller is cancelled or not: in a cancelled item the waits fail, which is for the item
//! to report. Only [`map_until`] leaves out items, those that have not begun at its deadline. The iterators stop at the caller's cancellation.

mod comprehension;
mod eager;
mod lazy;
mod window;

pub use eager::{for_each, map, map_buffered, map_until};
pub use lazy::{Chunks, Mapped, MappedBuffered};
