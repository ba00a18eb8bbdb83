//! Shows the rows of `doc/behaviour/nats.md`.

mod auth;
mod broker;
mod core;
mod jetstream;
mod reconnect;
mod server;
mod simulated;
