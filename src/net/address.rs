//! Between std's addresses and the kernel's.
#![expect(unsafe_code, reason = "reads and writes the kernel's address structures")]

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address as the kernel lays it out, or room for one.
pub(super) struct RawAddress {
    pub(super) storage: libc::sockaddr_storage,
    pub(super) length: libc::socklen_t,
}

impl RawAddress {
    /// Room for any address.
    pub(super) fn room() -> RawAddress {
        RawAddress {
            // SAFETY: an address structure is plain integers, for which zeroes are valid.
            storage: unsafe { std::mem::zeroed() },
            length: length_of::<libc::sockaddr_storage>(),
        }
    }

    pub(super) fn new(address: &SocketAddr) -> RawAddress {
        match address {
            SocketAddr::V4(v4) => RawAddress::holding(libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => RawAddress::holding(libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            }),
        }
    }

    /// `T` is `sockaddr_in` or `sockaddr_in6`.
    fn holding<T: Copy>(address: T) -> RawAddress {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        const { assert!(align_of::<T>() <= align_of::<libc::sockaddr_storage>()) };
        let mut raw = RawAddress::room();
        // SAFETY: the storage is large enough and aligned, as was asserted, and ours alone.
        unsafe { (&raw mut raw.storage).cast::<T>().write(address) };
        raw.length = length_of::<T>();
        raw
    }

    /// # Errors
    /// The kernel has left an address that is not an internet one.
    pub(super) fn to_socket_address(&self) -> io::Result<SocketAddr> {
        match i32::from(self.storage.ss_family) {
            libc::AF_INET if self.length >= length_of::<libc::sockaddr_in>() => {
                // SAFETY: the family says which structure is in the storage, which is aligned for it and initialised.
                let v4 = unsafe { (&raw const self.storage).cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Ok(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 if self.length >= length_of::<libc::sockaddr_in6>() => {
                // SAFETY: as above.
                let v6 = unsafe { (&raw const self.storage).cast::<libc::sockaddr_in6>().read() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(SocketAddr::V6(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id)))
            }
            other => {
                let text =
                    format!("the socket's address is of family {other}, not an internet address");
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        }
    }
}

fn length_of<T>() -> libc::socklen_t {
    const { assert!(size_of::<T>() <= 128) };
    size_of::<T>() as libc::socklen_t
}

fn family(family: i32) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).expect("address families are small numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_round_trip() {
        let mut scoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 65535, 7, 9);
        scoped.set_ip("fe80::1:2".parse().unwrap());
        for address in
            ["127.0.0.1:80".parse().unwrap(), "[::1]:1".parse().unwrap(), SocketAddr::V6(scoped)]
        {
            assert_eq!(RawAddress::new(&address).to_socket_address().unwrap(), address);
        }
    }

    #[test]
    fn an_address_of_another_family_is_refused_by_name() {
        let mut raw = RawAddress::room();
        raw.storage.ss_family = family(libc::AF_UNIX);
        let error = raw.to_socket_address().unwrap_err();
        assert!(error.to_string().contains("family 1"), "{error}");
    }
}
