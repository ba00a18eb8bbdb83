//! `serve` with axum's router and with plain functions, by clients that know nothing of ecru.

#[path = "../../../../tests/common/mod.rs"]
mod common;

mod attacks;
mod client;
mod errors;
mod handlers;
mod hostile;
mod http2;
mod limits;
mod middleware;
mod requests;
mod tls;
mod upgrades;
