//! The program as its users run it: as a child process, against servers that misbehave on request.

mod credentials;
mod existing;
mod failures;
mod fleet;
mod framing;
mod https;
mod interrupt;
mod lists;
mod manners;
#[allow(dead_code, reason = "these tests need a part of it")]
#[path = "../../../../crates/nats/tests/behaviour/server.rs"]
mod nats;
mod output;
mod own;
mod resume;
mod support;
