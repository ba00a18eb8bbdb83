#![doc = include_str!("../README.md")]

mod entered;
mod hook;
mod layer;

pub use layer::{TaskSpans, install, layer};
