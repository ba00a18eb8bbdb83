//! Shows the rows of `doc/behaviour/{over,hub,transform}.md`.

#[path = "../../../../tests/common/mod.rs"]
mod common;
mod hub;
mod over;
mod transform;
