//! Shows the rows of `doc/behaviour/nats.md`.

mod administration;
mod auth;
mod broker;
mod cluster;
mod core;
mod jetstream;
mod reconnect;
mod server;
mod simulated;
