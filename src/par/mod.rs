//! Parallel maps: the same function for many items, each in its own task.
//!
//! | | running at a time | result | order |
//! |---|---|---|---|
//! | [`map`] | all | a `Vec`, when all have ended | of the input |
//! | [`map_buffered`] | a sliding window | a `Vec`, when all have ended | of the input |
//! | [`for_each`] | a sliding window | nothing | |
//! | [`Scope::map`] | all | an iterator | of the input |
//! | [`Scope::map_buffered`] | a window | a lazy iterator | of the input |
//! | [`Scope::map_chunks`] | a chunk | a lazy iterator of handles | of the input |
//! | [`par_for!`](crate::par_for) | all | a `Vec` | of the loops |
//!
//! The functions run every item, even if the caller is cancelled. Waits in a cancelled item fail,
//! and the item decides what that means. The iterators stop when the caller is cancelled. After an
//! item has panicked, [`map_buffered`] and [`for_each`] begin no further item. [`map`] and
//! [`par_for!`](crate::par_for) run the others all the same. An iterator returns the panic at the
//! place of its item, and the reader decides.
//!
//! [`Scope::map`]: crate::Scope::map
//! [`Scope::map_buffered`]: crate::Scope::map_buffered
//! [`Scope::map_chunks`]: crate::Scope::map_chunks

mod comprehension;
mod eager;
mod engine;
mod lazy;
mod results;
mod window;

pub use eager::{for_each, map, map_buffered, map_until};
pub use lazy::{Chunks, Mapped, MappedBuffered};
