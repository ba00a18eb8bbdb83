//! Host names.

use super::Answer;
use crate::driver::request::*;
use crate::driver::sim::World;
use std::io;
use std::net::SocketAddr;

impl Answer<LookUp<'_>> for World {
    /// The names are those of the hosts, and `localhost`. A lookup takes no time.
    fn answer(&self, request: LookUp<'_>) -> io::Result<Vec<SocketAddr>> {
        self.operate()?;
        let invalid = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
        let (host, port) = match request.name {
            HostName::Host(host, port) => (host.as_str(), *port),
            // The errors are those of std.
            HostName::Text(text) => {
                let (host, port) =
                    text.rsplit_once(':').ok_or_else(|| invalid("invalid socket address"))?;
                (host, port.parse().map_err(|_| invalid("invalid port value"))?)
            }
        };
        let here = self.here();
        let found = self.network(|network, _| network.look_up(here, host));
        let address = found.ok_or_else(|| {
            let text = "failed to lookup address information: Name or service not known";
            io::Error::other(format!("{text}: no host of the simulation has the name {host:?}"))
        })?;
        Ok(vec![SocketAddr::new(address, port)])
    }
}
