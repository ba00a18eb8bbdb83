//! Host names.

use std::net::{SocketAddr, ToSocketAddrs};

/// A host and a port.
#[derive(Clone, Debug)]
pub(crate) enum HostName {
    /// Both in one string.
    Text(String),
    Host(String, u16),
}

requests! {
    /// Returns the addresses of a host. The system's resolver may wait for other machines.
    LookUp<'a> { name: &'a HostName } -> Vec<SocketAddr> {
        Ok(match name {
            HostName::Text(text) => text.to_socket_addrs()?.collect(),
            HostName::Host(host, port) => (host.as_str(), *port).to_socket_addrs()?.collect(),
        })
    }
}
