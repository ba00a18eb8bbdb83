//! Helpers for the tests with sockets and clocks.

use ecru::net::TcpStream;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketType};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use crate::common::{listen, pair};

/// A lock for tests that load the machine, and for tests that measure time to a millisecond.
pub(crate) fn loud() -> MutexGuard<'static, ()> {
    static LOUD: Mutex<()> = Mutex::new(());
    LOUD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a listener that does not answer further connection attempts, because its queue is full.
pub(crate) fn silent() -> (SocketAddr, impl Sized) {
    let (listener, address) = listen();
    rustix::net::listen(&listener, 0).unwrap();
    // The queue of such a listener has one place.
    let only = TcpStream::connect(address).unwrap();
    // The client may be connected before its connection is in the queue.
    let mut waited = [PollFd::new(&listener, PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut waited, None), Ok(1));
    (address, (listener, only))
}

/// Returns an address that refuses connections while the descriptor is open: bound, and without a
/// listener.
pub(crate) fn refusing() -> (SocketAddr, OwnedFd) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    (address, socket)
}

/// Returns the byte at a position of the tests' stream, which does not repeat within a buffer's
/// length.
pub(crate) fn byte_at(position: usize) -> u8 {
    (position % 251) as u8 ^ (position / 251 % 253) as u8
}

/// Asserts that an error is a cancellation, as a cancelled call reports it.
#[track_caller]
pub(crate) fn assert_cancelled(error: &std::io::Error) {
    assert_eq!(error.kind(), std::io::ErrorKind::Other, "{error}");
    assert!(ecru::Cancelled::find(error).is_some(), "{error}");
}
