//! Other crates over ecru's sockets, each with one worker and with two: a conversation, two
//! connections at once in one scope, and what a time limit or a cancellation in the middle looks
//! like to the crate's user.

#[path = "../../../common/mod.rs"]
mod common;
mod grpc;
mod http;
mod interop;
mod layers;
mod redis;
mod support;
mod tls;
mod tokio_crates;
mod websocket;
mod words;
