//! Other crates over ecru's sockets, unchanged: code that the examples and the tests of this
//! package share.
//!
//! - [`tls`]: a test certificate, and rustls's settings for both ends.
//! - [`http`]: a server that reads requests by httparse.
//! - [`redis_over_ecru`]: encoder and parser of the `redis` crate, and a stream between them.
//! - [`servers`]: a real Redis and a real PostgreSQL, in a temporary folder, while a value lives.
//!
//! For each crate, only the place where a stream is opened is specific to ecru. `doc/ecosystem.md`
//! describes that place and the differences.

pub mod http;
pub mod redis_over_ecru;
pub mod servers;
pub mod tls;

// The programs of the page are doctests of this package.
#[cfg(doctest)]
#[doc = include_str!("../../../doc/ecosystem.md")]
struct Page;

use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Creates an agent of ureq over ecru's sockets that trusts this certificate only.
#[must_use]
pub fn ureq_with(certificate: &[u8]) -> Agent {
    let root = Certificate::from_der(certificate).to_owned();
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[root])).build();
    ecru_ureq::agent(Agent::config_builder().proxy(None).tls_config(tls).build())
}
