//! What the tests with sockets and clocks share.

use ecru::net::TcpStream;
use rustix::net::{AddressFamily, SocketType};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use crate::common::{listen, pair};

/// Held by tests that load the machine, and by those that measure time to a millisecond.
pub(crate) fn loud() -> MutexGuard<'static, ()> {
    static LOUD: Mutex<()> = Mutex::new(());
    LOUD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A listener that leaves all further attempts to connect unanswered, because its queue is full.
pub(crate) fn silent() -> (SocketAddr, impl Sized) {
    let (listener, address) = listen();
    rustix::net::listen(&listener, 0).unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(10)) {
        queue.push(stream);
        assert!(queue.len() < 100, "the queue has no end");
    }
    (address, (listener, queue))
}

/// An address that refuses connections for as long as the fd is kept: bound, and not listened on.
pub(crate) fn refusing() -> (SocketAddr, OwnedFd) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    (address, socket)
}

/// The byte at a position of the stream that the tests send: it does not repeat within a buffer's length.
pub(crate) fn byte_at(position: usize) -> u8 {
    (position % 251) as u8 ^ (position / 251 % 253) as u8
}

/// Whether an error is a cancellation, as a cancelled call has to report it.
#[track_caller]
pub(crate) fn assert_cancelled(error: &std::io::Error) {
    assert_eq!(error.kind(), std::io::ErrorKind::Other, "{error}");
    assert!(ecru::Cancelled::find(error).is_some(), "{error}");
}
