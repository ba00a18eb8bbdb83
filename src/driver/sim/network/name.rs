//! Names: what sockets are bound to and connected to.

use crate::driver::address::{Address, RawAddress};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddr;

/// The family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Domain {
    V4,
    V6,
    Unix,
}

/// The address of a socket. Internet addresses are in canonical form: a mapped IPv4 address is an
/// IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Name {
    Internet(SocketAddr),
    Unix(UnixName),
}

/// The address of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::driver) enum UnixName {
    Unnamed,
    Path(Box<[u8]>),
    Abstract(Box<[u8]>),
}

impl Domain {
    /// Reads an address that a program passes to a socket of this family.
    ///
    /// # Errors
    /// Fails with `EAFNOSUPPORT` if the address is of another family.
    pub(in crate::driver) fn read(self, raw: &RawAddress) -> Result<Name, Errno> {
        if self == Domain::Unix {
            let address = UnixAddr::from_raw(raw).map_err(|_| Errno::AFNOSUPPORT)?;
            return Ok(Name::Unix(UnixName::of(&address)));
        }
        let address = SocketAddr::from_raw(raw).map_err(|_| Errno::AFNOSUPPORT)?;
        if address.is_ipv4() != (self == Domain::V4) {
            return Err(Errno::AFNOSUPPORT);
        }
        Ok(Name::Internet(SocketAddr::new(address.ip().to_canonical(), address.port())))
    }

    /// Writes an address as a socket of this family reports it.
    pub(in crate::driver) fn write(self, name: &Name) -> RawAddress {
        match name {
            Name::Unix(name) => name.to_std().to_raw(),
            Name::Internet(SocketAddr::V4(v4)) if self == Domain::V6 => {
                let mapped = SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0);
                SocketAddr::V6(mapped).to_raw()
            }
            Name::Internet(address) => address.to_raw(),
        }
    }

    /// Returns the address of a socket that is not bound.
    pub(super) fn unnamed(self) -> Name {
        match self {
            Domain::V4 => Name::Internet(SocketAddr::from(([0, 0, 0, 0], 0))),
            Domain::V6 => Name::Internet(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))),
            Domain::Unix => Name::Unix(UnixName::Unnamed),
        }
    }
}

impl Name {
    pub(super) fn internet(&self) -> Option<SocketAddr> {
        match self {
            Name::Internet(address) => Some(*address),
            Name::Unix(_) => None,
        }
    }
}

impl UnixName {
    pub(super) fn of(address: &UnixAddr) -> UnixName {
        if let Some(path) = address.as_pathname() {
            UnixName::Path(path.as_os_str().as_bytes().into())
        } else if let Some(name) = address.as_abstract_name() {
            UnixName::Abstract(name.into())
        } else {
            UnixName::Unnamed
        }
    }

    /// Returns the path, for dumps.
    pub(in crate::driver) fn shown(&self) -> Option<String> {
        match self {
            UnixName::Path(path) => Some(String::from_utf8_lossy(path).into_owned()),
            _ => None,
        }
    }

    fn to_std(&self) -> UnixAddr {
        let unnamed = || UnixAddr::from_pathname("").expect("an empty path stands for no name");
        match self {
            UnixName::Unnamed => unnamed(),
            UnixName::Path(path) => {
                UnixAddr::from_pathname(OsStr::from_bytes(path)).unwrap_or_else(|_| unnamed())
            }
            UnixName::Abstract(name) => {
                UnixAddr::from_abstract_name(name).unwrap_or_else(|_| unnamed())
            }
        }
    }
}

/// Returns whether two sockets with these addresses and the same port would receive the same
/// packets. The unspecified IPv6 address stands for all addresses of both families.
pub(super) fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let covers =
        |all: IpAddr, single: IpAddr| all.is_unspecified() && (all.is_ipv6() || single.is_ipv4());
    one == other || covers(one, other) || covers(other, one)
}
