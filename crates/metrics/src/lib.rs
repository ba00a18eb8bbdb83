#![doc = include_str!("../README.md")]

mod families;
mod publisher;

pub use publisher::{Publisher, publish_every};
