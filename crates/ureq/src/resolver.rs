//! Name lookups.

use ecru::net::{SocketAddr, ToSocketAddrs};
use ureq::Error;
use ureq::config::{Config, IpFamily};
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// The number of addresses that ureq's array holds.
const ADDRESSES_MAX: usize = 16;

/// A resolver that looks up names as [`ecru::net`] does: on a thread that may block, while the task
/// is parked. In a simulation the names are those of its hosts.
///
/// # Examples
/// ```
/// use ecru_ureq::{EcruConnector, EcruResolver};
/// use ureq::Agent;
/// use ureq::unversioned::transport::Connector as _;
///
/// // An agent for HTTP without proxies.
/// let config = Agent::config_builder().http_status_as_error(false).build();
/// let agent = Agent::with_parts(config, ().chain(EcruConnector::new()), EcruResolver::new());
/// ecru::run(|| assert!(agent.get("http://127.0.0.1:1/").call().is_err()));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EcruResolver {
    _private: (),
}

impl EcruResolver {
    /// Creates a resolver.
    #[must_use]
    pub fn new() -> EcruResolver {
        EcruResolver::default()
    }
}

impl Resolver for EcruResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let no_host = || Error::BadUri(format!("{uri} names no host"));
        let scheme = uri.scheme().ok_or_else(no_host)?;
        let authority = uri.authority().ok_or_else(no_host)?;
        let name = DefaultResolver::host_and_port(scheme, authority).ok_or_else(no_host)?;
        let found = match timeout.not_zero() {
            None => name.to_socket_addrs(),
            Some(limit) => match ecru::timeout(*limit, || name.to_socket_addrs()) {
                Ok(found) => found,
                Err(_) => return Err(Error::Timeout(timeout.reason)),
            },
        };
        let wanted = |address: &SocketAddr| match config.ip_family() {
            IpFamily::Any => true,
            IpFamily::Ipv4Only => address.is_ipv4(),
            IpFamily::Ipv6Only => address.is_ipv6(),
        };
        let mut addresses = self.empty();
        for address in found?.filter(wanted).take(ADDRESSES_MAX) {
            addresses.push(address);
        }
        if addresses.is_empty() { Err(Error::HostNotFound) } else { Ok(addresses) }
    }
}
