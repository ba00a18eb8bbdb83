//! Internet addresses, IPv4 and IPv6.

use super::{Address, RawAddress, family, foreign, length_of};
use rustix::net::AddressFamily;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

impl Address for SocketAddr {
    fn family(&self) -> AddressFamily {
        match self {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        }
    }

    fn to_raw(&self) -> RawAddress {
        match self {
            SocketAddr::V4(v4) => RawAddress::holding(
                libc::sockaddr_in {
                    sin_family: family(libc::AF_INET),
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                },
                length_of::<libc::sockaddr_in>(),
            ),
            SocketAddr::V6(v6) => RawAddress::holding(
                libc::sockaddr_in6 {
                    sin6_family: family(libc::AF_INET6),
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                },
                length_of::<libc::sockaddr_in6>(),
            ),
        }
    }

    fn from_raw(raw: &RawAddress) -> io::Result<SocketAddr> {
        match raw.family() {
            libc::AF_INET if raw.length >= length_of::<libc::sockaddr_in>() => {
                let v4: libc::sockaddr_in = raw.as_structure();
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Ok(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 if raw.length >= length_of::<libc::sockaddr_in6>() => {
                let v6: libc::sockaddr_in6 = raw.as_structure();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(SocketAddr::V6(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id)))
            }
            other => Err(foreign(other, "an internet address")),
        }
    }
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
            assert_eq!(SocketAddr::from_raw(&address.to_raw()).unwrap(), address);
        }
    }

    #[test]
    fn an_address_of_another_family_is_refused_by_name() {
        let mut raw = RawAddress::room();
        raw.storage.ss_family = family(libc::AF_UNIX);
        let error = SocketAddr::from_raw(&raw).unwrap_err();
        assert!(error.to_string().contains("family 1"), "{error}");
    }
}
