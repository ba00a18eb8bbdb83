//! Other people's crates over ecru's sockets, as they are: what the examples and the tests of this package share.
//!
//! - [`tls`]: a certificate of our own, and rustls's settings for both ends.
//! - [`http`]: a server that reads requests by httparse.
//! - [`ureq_over_ecru`]: where ureq takes its sockets from.
//! - [`redis_over_ecru`], [`postgres_over_ecru`]: encoder and parser of the `redis` and `postgres-protocol` crates, and a stream between them.
//! - [`servers`]: a real Redis, a real PostgreSQL, in a temporary folder, for as long as a value lives.
//!
//! Nothing in it is made for ecru but the one place each where a stream is opened. `doc/ecosystem.md` says for each crate what that
//! place is, and what differs.

pub mod http;
pub mod postgres_over_ecru;
pub mod redis_over_ecru;
pub mod servers;
pub mod tls;
pub mod ureq_over_ecru;
