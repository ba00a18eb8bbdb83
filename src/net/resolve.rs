//! From what a caller names to addresses to try.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// All addresses that are meant.
///
/// Literal addresses resolve at once. A name asks the system's resolver, which blocks the calling thread, here the worker; std's
/// trait does not say which of the two a value is, nor lets it be sent to the pool for blocking calls. Whoever resolves names
/// in a task does that first, with [`unblock`](crate::unblock).
fn resolve(addresses: impl ToSocketAddrs) -> io::Result<impl Iterator<Item = SocketAddr>> {
    addresses.to_socket_addrs()
}

/// Tries each address in turn: the first success, or the last failure.
pub(super) fn try_each<T>(
    addresses: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut failure = None;
    for address in resolve(addresses)? {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
    }))
}
