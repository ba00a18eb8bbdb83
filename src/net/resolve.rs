//! From what a caller names to addresses to try.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// All addresses that are meant.
///
/// Literal addresses resolve at once. A name asks the system's resolver, which blocks the calling thread: this belongs on
/// the pool for blocking calls, and is here so that there is one place to send it there from.
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
