//! Sockets: their creation, their addresses and their end.

use crate::driver::address::RawAddress;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The flags of a new fd: closed on exec, and non-blocking.
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

requests! {
    /// Creates a socket in non-blocking mode.
    OpenSocket { family: AddressFamily, kind: SocketType } -> OwnedFd {
        Ok(rustix::net::socket_with(family, kind, FLAGS, None)?)
    }

    /// Creates two Unix sockets in non-blocking mode that are connected to each other.
    OpenSocketPair { kind: SocketType } -> (OwnedFd, OwnedFd) {
        Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, FLAGS, None)?)
    }

    /// Binds a socket to an address.
    Bind<'a> { socket: BorrowedFd<'a>, address: &'a RawAddress } -> () {
        Ok(rustix::net::bind(socket, &address.to_any())?)
    }

    /// Makes a socket a listener, with the longest queue that the system allows.
    Listen<'a> { socket: BorrowedFd<'a> } -> () {
        Ok(rustix::net::listen(socket, -1)?)
    }

    /// Returns the address that a socket is bound to.
    LocalAddress<'a> { socket: BorrowedFd<'a> } -> RawAddress {
        RawAddress::of_socket(socket)
    }

    /// Returns the address that a socket is connected to.
    PeerAddress<'a> { socket: BorrowedFd<'a> } -> RawAddress {
        RawAddress::of_peer(socket)
    }

    /// Ends one or both directions of a connection.
    ShutDown<'a> { socket: BorrowedFd<'a>, how: Shutdown } -> () {
        let how = match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        };
        Ok(rustix::net::shutdown(socket, how)?)
    }

    /// Returns the socket's pending error, and clears it.
    TakeError<'a> { socket: BorrowedFd<'a> } -> Option<io::Error> {
        Ok(rustix::net::sockopt::socket_error(socket)?.err().map(io::Error::from))
    }
}
