//! Sockets: their creation, their addresses and their end.

use crate::driver::OwnedDescriptor;
use crate::driver::address::RawAddress;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::Shutdown;
use std::os::fd::BorrowedFd;

/// The flags of a new fd: closed on exec, and non-blocking.
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn shut_down(socket: BorrowedFd<'_>, how: Shutdown) -> io::Result<()> {
    let how = match how {
        Shutdown::Read => rustix::net::Shutdown::Read,
        Shutdown::Write => rustix::net::Shutdown::Write,
        Shutdown::Both => rustix::net::Shutdown::Both,
    };
    Ok(rustix::net::shutdown(socket, how)?)
}

requests! {
    /// Creates a socket in non-blocking mode.
    OpenSocket { family: AddressFamily, kind: SocketType } -> OwnedDescriptor {
        Ok(OwnedDescriptor::new(rustix::net::socket_with(family, kind, FLAGS, None)?))
    }

    /// Creates two Unix sockets in non-blocking mode that are connected to each other.
    OpenSocketPair { kind: SocketType } -> (OwnedDescriptor, OwnedDescriptor) {
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, kind, FLAGS, None)?;
        Ok((OwnedDescriptor::new(one), OwnedDescriptor::new(other)))
    }

    /// Binds a socket to an address.
    Bind<'a> { socket: &'a OwnedDescriptor, address: &'a RawAddress } -> () {
        Ok(rustix::net::bind(socket.kernel()?, &address.to_any())?)
    }

    /// Makes a socket a listener, with the longest queue that the system allows.
    Listen<'a> { socket: &'a OwnedDescriptor } -> () {
        Ok(rustix::net::listen(socket.kernel()?, -1)?)
    }

    /// Returns the address that a socket is bound to.
    LocalAddress<'a> { socket: &'a OwnedDescriptor } -> RawAddress {
        RawAddress::of_socket(socket.kernel()?)
    }

    /// Returns the address that a socket is connected to.
    PeerAddress<'a> { socket: &'a OwnedDescriptor } -> RawAddress {
        RawAddress::of_peer(socket.kernel()?)
    }

    /// Ends one or both directions of a connection.
    ShutDown<'a> { socket: &'a OwnedDescriptor, how: Shutdown } -> () {
        shut_down(socket.kernel()?, how)
    }

    /// Ends one or both directions of a connection whose descriptor belongs to other code.
    ShutDownByFd<'a> { socket: BorrowedFd<'a>, how: Shutdown } -> () {
        shut_down(socket, how)
    }

    /// Returns the socket's pending error, and clears it.
    TakeError<'a> { socket: &'a OwnedDescriptor } -> Option<io::Error> {
        Ok(rustix::net::sockopt::socket_error(socket.kernel()?)?.err().map(io::Error::from))
    }
}
