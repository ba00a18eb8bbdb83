#![doc = include_str!("../README.md")]

mod entered;
#[cfg(feature = "events")]
mod events;
mod hook;
mod layer;

#[cfg(feature = "events")]
pub use events::emit_events;
pub use layer::{TaskSpans, install, layer};
