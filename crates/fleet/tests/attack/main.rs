//! Attacks on the fleet: callers that pass the worst arguments, payloads that fail and panic,
//! programs that leak, panic and are cancelled at the worst moment, and servers that die between
//! two steps. Each asserts what the documentation promises.
//!
//! In memory, each attack runs in simulations with several seeds. Where the server matters, it runs
//! on a real one, too.
#![expect(clippy::mem_forget, reason = "hostile programs leak what they can")]

mod arguments;
mod attempts;
mod beginnings;
mod calls;
mod chaos;
mod ends;
mod keys;
mod leaks;
mod limits;
mod maps;
mod payloads;
mod priorities;
#[path = "../../../nats/tests/behaviour/server.rs"]
mod server;
mod servers;
mod settings;
mod support;
mod traces;
