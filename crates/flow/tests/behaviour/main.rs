//! Shows the rows of `doc/behaviour/{over,hub,resilience,transform}.md`.

#[path = "../../../../tests/common/mod.rs"]
mod common;
mod hub;
mod over;
mod resilience;
#[path = "../../../../tests/behaviour/simulated.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod simulated;
mod transform;
