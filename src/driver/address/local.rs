//! Addresses of Unix sockets: a path, an abstract name, or unnamed.

use super::{Address, RawAddress, family, foreign};
use rustix::net::AddressFamily;
use std::ffi::OsStr;
use std::io;
use std::mem::offset_of;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;

/// The offset at which the name begins.
const NAME: usize = offset_of!(libc::sockaddr_un, sun_path);
/// The length of the longest name.
const ROOM: usize = size_of::<libc::sockaddr_un>() - NAME;

impl Address for SocketAddr {
    fn family(&self) -> AddressFamily {
        AddressFamily::UNIX
    }

    fn to_raw(&self) -> RawAddress {
        let mut path = [0; ROOM];
        let mut put = |at: usize, bytes: &[u8]| {
            for (place, byte) in path[at..].iter_mut().zip(bytes) {
                *place = libc::c_char::from_ne_bytes([*byte]);
            }
        };
        // std's address type guarantees that the name fits.
        let length = if let Some(name) = self.as_pathname() {
            let bytes = name.as_os_str().as_bytes();
            put(0, bytes);
            // The terminating zero is included if it fits.
            (bytes.len() + 1).min(ROOM)
        } else if let Some(name) = self.as_abstract_name() {
            put(1, name);
            name.len() + 1
        } else {
            0
        };
        let address = libc::sockaddr_un { sun_family: family(libc::AF_UNIX), sun_path: path };
        let length = libc::socklen_t::try_from(NAME + length).expect("at most some 110 bytes");
        RawAddress::holding(address, length)
    }

    fn from_raw(raw: &RawAddress) -> io::Result<SocketAddr> {
        // A datagram from an unnamed socket comes with no address at all.
        if raw.length != 0 && raw.family() != libc::AF_UNIX {
            return Err(foreign(raw.family(), "that of a Unix socket"));
        }
        let address: libc::sockaddr_un = raw.as_structure();
        let bytes = address.sun_path.map(as_byte);
        let length = (raw.length as usize).saturating_sub(NAME).min(ROOM);
        match bytes[..length].split_first() {
            // std represents an unnamed address by an empty path.
            None => SocketAddr::from_pathname(""),
            Some((0, name)) => SocketAddr::from_abstract_name(name),
            Some(_) => {
                let end = bytes[..length].iter().position(|byte| *byte == 0).unwrap_or(length);
                // The kernel lets a path fill `sun_path` to the last byte, which is one byte more
                // than std's address can hold. That must not be an error, because otherwise a
                // client could make `accept` fail.
                SocketAddr::from_pathname(OsStr::from_bytes(&bytes[..end]))
                    .or_else(|_| SocketAddr::from_pathname(""))
            }
        }
    }
}

/// `c_char` is signed on some machines and unsigned on others.
fn as_byte(byte: libc::c_char) -> u8 {
    byte.to_ne_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn round(address: &SocketAddr) -> SocketAddr {
        SocketAddr::from_raw(&address.to_raw()).unwrap()
    }

    #[test]
    fn paths_survive_the_round_trip_up_to_the_longest() {
        for length in [1, 50, ROOM - 1] {
            let path = "x".repeat(length);
            let address = round(&SocketAddr::from_pathname(&path).unwrap());
            assert_eq!(address.as_pathname(), Some(Path::new(&path)));
        }
    }

    #[test]
    fn abstract_names_survive_with_zeroes_in_them_and_when_empty() {
        for name in [&b""[..], b"name", b"\0in\0it\0", &[7; ROOM - 1]] {
            let address = round(&SocketAddr::from_abstract_name(name).unwrap());
            assert_eq!(address.as_abstract_name(), Some(name));
        }
    }

    #[test]
    fn no_name_is_no_name() {
        let none = SocketAddr::from_pathname("").unwrap();
        assert!(none.is_unnamed());
        assert!(round(&none).is_unnamed());
        let mut raw = RawAddress::room();
        raw.length = 0;
        assert!(SocketAddr::from_raw(&raw).unwrap().is_unnamed());
    }

    #[test]
    fn a_path_that_std_has_no_room_for_is_no_name_and_no_error() {
        let mut raw = SocketAddr::from_pathname("x".repeat(ROOM - 1)).unwrap().to_raw();
        let mut address: libc::sockaddr_un = raw.as_structure();
        address.sun_path[ROOM - 1] = address.sun_path[0];
        for length in [NAME + ROOM, NAME + ROOM + 1] {
            raw = RawAddress::holding(address, libc::socklen_t::try_from(length).unwrap());
            assert!(SocketAddr::from_raw(&raw).unwrap().is_unnamed());
        }
    }

    #[test]
    fn an_address_of_another_family_is_refused_by_name() {
        let raw = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).to_raw();
        let error = SocketAddr::from_raw(&raw).unwrap_err();
        assert!(error.to_string().contains("family 2"), "{error}");
    }
}
