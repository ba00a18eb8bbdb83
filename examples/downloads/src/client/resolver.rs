//! Names are looked up with the system's resolver on the blocking pool, because the resolver blocks
//! its thread.

use std::net::ToSocketAddrs;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::runtime;

/// The number of addresses that ureq's array holds.
const ADDRESSES_MAX: usize = 16;

/// Looks up a name with `getaddrinfo`. An address needs no look-up and stays on the worker.
#[derive(Debug)]
pub(super) struct PoolResolver;

impl Resolver for PoolResolver {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let no_host = || Error::BadUri(format!("{uri} names no host"));
        let scheme = uri.scheme().ok_or_else(no_host)?;
        let authority = uri.authority().ok_or_else(no_host)?;
        let name = DefaultResolver::host_and_port(scheme, authority).ok_or_else(no_host)?;
        let found: Vec<_> = match name.parse() {
            Ok(address) => vec![address],
            Err(_) => runtime::unblock(|| name.to_socket_addrs().map(Iterator::collect))
                .map_err(Error::Io)?,
        };
        let mut addresses = self.empty();
        for address in found.into_iter().take(ADDRESSES_MAX) {
            addresses.push(address);
        }
        if addresses.is_empty() { Err(Error::HostNotFound) } else { Ok(addresses) }
    }
}
