//! The HTTP client [`ureq`] 3 on ecru. In a task, a request parks the task instead of blocking the
//! thread.
//!
//! [`agent`] makes an agent, which is used as ureq's documentation says. [`EcruConnector`] and
//! [`EcruResolver`] are its parts, for programs with a chain of connectors of their own.
//!
//! # Examples
//! ```
//! use ecru::net::TcpListener;
//! use std::io::{Read, Write};
//!
//! ecru::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let url = format!("http://{}/", listener.local_addr()?);
//!     ecru::scope(|s| {
//!         s.spawn(|| {
//!             let mut stream = listener.accept()?.0;
//!             stream.read(&mut [0; 4096])?;
//!             stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
//!         });
//!         let agent = ecru_ureq::agent(ureq::Agent::config_builder().build());
//!         assert_eq!(agent.get(url).call()?.into_body().read_to_string()?, "hello");
//!         Ok(())
//!     })
//! })
//! # .map_err(|error: ureq::Error| panic!("{error}")).unwrap();
//! ```
//!
//! # Time limits and cancellation
//! ureq's own time limits work. A cancellation, or a limit of [`ecru::timeout`], ends a request with
//! [`ureq::Error::Io`], in which [`Cancelled::find`](ecru::Cancelled::find) finds it.
//!
//! # Compatibility
//! The traits that this crate implements are in [`ureq::unversioned`], which a minor version of ureq
//! may change.
//!
//! Proxies that are used by `CONNECT` work. For SOCKS, ureq opens sockets of its own, which block the
//! worker, so its connector is not in the chain of [`agent`].

mod connector;
mod resolver;

pub use connector::{EcruConnector, EcruTransport};
pub use resolver::EcruResolver;

use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector as _};

/// Makes an agent with these settings, whose sockets and name lookups are ecru's. With the feature
/// `rustls`, which is on by default, it also makes requests by HTTPS.
///
/// # Examples
/// See [the crate](crate).
#[must_use]
pub fn agent(config: Config) -> Agent {
    let connector = ().chain(ConnectProxyConnector::default()).chain(EcruConnector::new());
    #[cfg(feature = "rustls")]
    let connector = connector.chain(ureq::unversioned::transport::RustlsConnector::default());
    Agent::with_parts(config, connector, EcruResolver::new())
}
