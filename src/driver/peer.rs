//! The names of a descriptor, for dumps: the file's path, or the addresses of a socket's two sides.

use std::net::SocketAddr;

use super::Descriptor;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, getpeername, getsockname};

/// Returns the address of the other side. Returns `None` if the descriptor is not that of a
/// connected socket, or if the other side has no name.
pub(crate) fn peer_of(fd: &Descriptor) -> Option<String> {
    #[cfg(feature = "sim")]
    if let Some(file) = fd.file() {
        return file.peer();
    }
    shown(getpeername(fd.borrow()).ok()??)
}

/// Returns the other side of a simulated connection to another host: its host, its address, and
/// what has become of the host since.
#[cfg(feature = "sim")]
pub(crate) fn shown_peer_of(fd: &Descriptor) -> Option<String> {
    fd.file()?.shown_peer()
}

/// Returns the path of a file, or a socket's own address. Returns `None` if there is none. In a
/// simulation, only sockets that are not connected have one.
pub(crate) fn name_of(fd: &Descriptor) -> Option<String> {
    #[cfg(feature = "sim")]
    if let Some(file) = fd.file() {
        return file.own_name();
    }
    match getsockname(fd.borrow()) {
        Ok(address) => shown(address),
        Err(Errno::NOTSOCK) => {
            let link = format!("/proc/self/fd/{}", fd.number());
            let path = std::fs::read_link(link).ok().filter(|path| path.is_absolute());
            path.map(|path| path.to_string_lossy().into_owned())
        }
        Err(_) => None,
    }
}

fn shown(address: SocketAddrAny) -> Option<String> {
    if address.address_family() == AddressFamily::UNIX {
        let path = SocketAddrUnix::try_from(address).ok()?;
        return Some(path.path()?.to_string_lossy().into_owned());
    }
    SocketAddr::try_from(address).ok().map(|address| address.to_string())
}
