//! Hosts: their addresses, their ports, and the names of their Unix sockets.

use super::name::{UnixName, overlap};
use super::{Id, Outcome};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

/// A machine of the simulated network. [`HostId::ROOT`] is the one on which the simulation's own
/// closure runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostId(pub(crate) u16);

impl HostId {
    pub(crate) const ROOT: HostId = HostId(0);

    /// Returns the host's addresses: `10.0.x.y` and `fd00::x:y`. The root has the last ones.
    pub(crate) fn addresses(self) -> [IpAddr; 2] {
        let number = if self == HostId::ROOT { u16::MAX - 1 } else { self.0 };
        let [high, low] = number.to_be_bytes();
        [
            IpAddr::V4(Ipv4Addr::new(10, 0, high, low)),
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number)),
        ]
    }

    fn address_like(self, other: IpAddr) -> IpAddr {
        self.addresses()[usize::from(other.is_ipv6())]
    }
}

/// What a port belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// A port in use, with the address it is bound to.
pub(super) type Place = (Protocol, u16, IpAddr);

/// The ports that sockets get without asking for one.
const EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;

#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: Box<str>,
    /// The machine has power, and its system runs.
    pub(super) is_up: bool,
    /// Its programs run.
    pub(super) has_programs: bool,
    /// The number of its sockets that have descriptors.
    pub(super) descriptors: usize,
    ports: BTreeMap<Place, Id>,
    next_port: u16,
    /// The names of Unix sockets. A path stays when its socket is closed.
    names: BTreeMap<UnixName, Option<Id>>,
}

/// Where packets to an address go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Back to the same host.
    Local,
    Host(HostId),
    /// No host has this address of the network.
    NoHost,
    /// The address is outside the network.
    NoNetwork,
}

impl Host {
    pub(super) fn new(name: &str) -> Host {
        Host {
            name: name.into(),
            is_up: true,
            has_programs: true,
            descriptors: 0,
            ports: BTreeMap::new(),
            next_port: *EPHEMERAL.start(),
            names: BTreeMap::new(),
        }
    }

    /// Forgets all sockets, as a machine does that loses its power. Paths are files, and stay.
    pub(super) fn lose_power(&mut self) {
        (self.is_up, self.has_programs) = (false, false);
        self.descriptors = 0;
        self.ports.clear();
        self.names.retain(|name, _| matches!(name, UnixName::Path(_)));
        self.names.values_mut().for_each(|socket| *socket = None);
    }

    /// Reserves an address for a socket. Port 0 stands for a port of the host's choice.
    pub(super) fn bind(
        &mut self,
        own: HostId,
        protocol: Protocol,
        address: SocketAddr,
        socket: Id,
    ) -> Outcome<Place> {
        let ip = address.ip();
        if !(ip.is_unspecified() || ip.is_loopback() || own.addresses().contains(&ip)) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let port = match address.port() {
            0 => self.free_port(protocol).ok_or(Errno::ADDRINUSE)?,
            port if self.is_taken(protocol, port, |other| overlap(other, ip)) => {
                return Err(Errno::ADDRINUSE);
            }
            port => port,
        };
        let place = (protocol, port, ip);
        self.ports.insert(place, socket);
        Ok(place)
    }

    pub(super) fn release(&mut self, place: &Place) {
        self.ports.remove(place);
    }

    fn is_taken(&self, protocol: Protocol, port: u16, by: impl Fn(IpAddr) -> bool) -> bool {
        let first = (protocol, port, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let last = (protocol, port, IpAddr::V6(Ipv6Addr::from(u128::MAX)));
        self.ports.range(first..=last).any(|(place, _)| by(place.2))
    }

    /// Returns the next port that no socket of the protocol uses.
    fn free_port(&mut self, protocol: Protocol) -> Option<u16> {
        for _ in EPHEMERAL {
            let port = self.next_port;
            self.next_port = if port == *EPHEMERAL.end() { *EPHEMERAL.start() } else { port + 1 };
            if !self.is_taken(protocol, port, |_| true) {
                return Some(port);
            }
        }
        None
    }

    /// Returns the socket that receives packets to an address.
    pub(super) fn receiver(&self, protocol: Protocol, to: SocketAddr) -> Option<Id> {
        let bound_to = |ip| self.ports.get(&(protocol, to.port(), ip)).copied();
        bound_to(to.ip())
            .or_else(|| to.is_ipv4().then(|| bound_to(IpAddr::V4(Ipv4Addr::UNSPECIFIED))).flatten())
            .or_else(|| bound_to(IpAddr::V6(Ipv6Addr::UNSPECIFIED)))
    }

    /// Gives a Unix socket its name.
    pub(super) fn bind_name(&mut self, name: &UnixName, socket: Id) -> Outcome<()> {
        if self.names.contains_key(name) {
            return Err(Errno::ADDRINUSE);
        }
        self.names.insert(name.clone(), Some(socket));
        Ok(())
    }

    /// Returns the socket of a name.
    pub(super) fn socket_of(&self, name: &UnixName) -> Outcome<Id> {
        match self.names.get(name) {
            Some(Some(socket)) => Ok(*socket),
            // There is a file, and no socket behind it.
            Some(None) => Err(Errno::CONNREFUSED),
            None if matches!(name, UnixName::Abstract(_)) => Err(Errno::CONNREFUSED),
            None => Err(Errno::NOENT),
        }
    }

    /// Takes the name away from a socket that is closed.
    pub(super) fn release_name(&mut self, name: &UnixName, socket: Id) {
        if self.names.get(name) == Some(&Some(socket)) {
            match name {
                UnixName::Path(_) => {
                    self.names.insert(name.clone(), None);
                }
                _ => {
                    self.names.remove(name);
                }
            }
        }
    }

    /// Removes a path. Returns false if it is not the name of a Unix socket. A socket that is bound
    /// to it keeps its connections, and gets no new ones.
    pub(super) fn remove_path(&mut self, path: &[u8]) -> bool {
        self.names.remove(&UnixName::Path(path.into())).is_some()
    }
}

impl HostId {
    /// Returns the address that packets to `to` come from.
    pub(super) fn source(self, to: IpAddr, route: Route) -> IpAddr {
        match route {
            Route::Local if to.is_unspecified() => match to {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            },
            Route::Local => to,
            _ => self.address_like(to),
        }
    }
}

/// Returns the address that stands for an unspecified destination: this host itself.
pub(super) fn destination(to: SocketAddr) -> SocketAddr {
    match to.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, to.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, to.port()).into(),
        _ => to,
    }
}

/// Returns the number of the host that has an address, whether or not it exists. Returns `None` if
/// the address is outside the network.
pub(super) fn number_of(ip: IpAddr) -> Option<HostId> {
    let number = match ip {
        IpAddr::V4(ip) => match ip.octets() {
            [10, 0, high, low] => u16::from_be_bytes([high, low]),
            _ => return None,
        },
        IpAddr::V6(ip) => match ip.segments() {
            [0xfd00, 0, 0, 0, 0, 0, 0, number] => number,
            _ => return None,
        },
    };
    // No host has the number 0, and the last one belongs to the root.
    Some(HostId(match number {
        0 => u16::MAX,
        n if n == u16::MAX - 1 => 0,
        n => n,
    }))
}
