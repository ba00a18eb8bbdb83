//! The other side of a connected socket, for dumps.

use std::net::SocketAddr;

use super::Descriptor;
use rustix::net::{AddressFamily, SocketAddrUnix, getpeername};

/// Returns the address of the other side. Returns `None` if the descriptor is not that of a
/// connected socket, or if the other side has no name.
pub(crate) fn peer_of(fd: &Descriptor) -> Option<String> {
    #[cfg(feature = "sim")]
    if let Some(file) = fd.file() {
        return file.peer();
    }
    let peer = getpeername(fd.borrow()).ok()??;
    if peer.address_family() == AddressFamily::UNIX {
        let path = SocketAddrUnix::try_from(peer).ok()?;
        return Some(path.path()?.to_string_lossy().into_owned());
    }
    SocketAddr::try_from(peer).ok().map(|address| address.to_string())
}
