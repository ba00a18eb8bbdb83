//! Other crates over ecru's sockets, unchanged: code that the examples and the tests of this
//! package share.
//!
//! - [`tls`]: a test certificate, and rustls's settings for both ends.
//! - [`http`]: a server that reads requests by httparse.
//! - [`ureq_over_ecru`]: the connector from which ureq takes its sockets.
//! - [`redis_over_ecru`], [`postgres_over_ecru`]: encoder and parser of the `redis` and
//!   `postgres-protocol` crates, and a stream between them.
//! - [`servers`]: a real Redis and a real PostgreSQL, in a temporary folder, while a value lives.
//!
//! For each crate, only the place where a stream is opened is specific to ecru. `doc/ecosystem.md`
//! describes that place and the differences.

pub mod http;
pub mod postgres_over_ecru;
pub mod redis_over_ecru;
pub mod servers;
pub mod tls;
pub mod ureq_over_ecru;
