//! Attacks on the client: servers that lie, stall and flood, callers that pass the worst arguments,
//! and programs that end, leak or are cancelled at the worst moment. Each asserts what the
//! documentation promises.
#![expect(clippy::mem_forget, reason = "hostile programs leak what they can")]

mod answers;
mod arguments;
#[path = "../behaviour/broker.rs"]
mod broker;
mod closing;
mod credentials;
mod ends;
mod peer;
mod protocol;
mod pulls;
#[path = "../behaviour/server.rs"]
#[expect(dead_code, reason = "the behaviour tests use the rest")]
mod server;
mod storms;
mod streams;
