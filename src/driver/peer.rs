//! The other side of a connected socket, for dumps.
#![expect(unsafe_code, reason = "asks about a descriptor that another task has")]

use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::net::{AddressFamily, SocketAddrUnix, getpeername};

/// Returns the address of the other side. Returns `None` if the descriptor is not that of a
/// connected socket, or if the other side has no name.
///
/// # Safety
/// S3: the descriptor stays open during the call.
pub(crate) unsafe fn peer_of(fd: RawFd) -> Option<String> {
    // SAFETY: S3, the caller's promise.
    let peer = getpeername(unsafe { BorrowedFd::borrow_raw(fd) }).ok()??;
    if peer.address_family() == AddressFamily::UNIX {
        let path = SocketAddrUnix::try_from(peer).ok()?;
        return Some(path.path()?.to_string_lossy().into_owned());
    }
    SocketAddr::try_from(peer).ok().map(|address| address.to_string())
}
