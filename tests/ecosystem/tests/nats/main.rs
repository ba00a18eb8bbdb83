//! Other programs of NATS beside ecru's: the client `async-nats` and the official tool `nats` read
//! and write the same streams as ecru-nats and ecru-fleet.

mod rust_client;
#[path = "../../../../crates/nats/tests/behaviour/server.rs"]
#[allow(dead_code, reason = "these tests do not kill servers")]
mod server;
mod tool;
