//! One socket of any kind: its fd and its settings. The public types wrap it.
//!
//! - `transfer`: every op that waits.
//! - `options`: system calls that return at once.

mod options;
mod transfer;

use super::address::Address;
use super::settings::{Direction, Settings};
use crate::driver::OwnedDescriptor;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The flags of a new fd: closed on exec, and non-blocking.
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A socket in non-blocking mode.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedDescriptor,
    settings: Settings,
}

impl Socket {
    fn new(fd: OwnedFd, settings: Settings) -> Socket {
        Socket { fd: OwnedDescriptor::new(fd), settings }
    }

    /// Wraps a socket that is in non-blocking mode.
    pub(super) fn of(fd: OwnedDescriptor) -> Socket {
        Socket { fd, settings: Settings::default() }
    }

    /// Opens a socket of the given family.
    pub(super) fn open(family: AddressFamily, kind: SocketType) -> io::Result<Socket> {
        let fd = rustix::net::socket_with(family, kind, FLAGS, None)?;
        Ok(Socket::new(fd, Settings::default()))
    }

    /// Creates two Unix sockets that are connected to each other.
    pub(super) fn pair(kind: SocketType) -> io::Result<(Socket, Socket)> {
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, kind, FLAGS, None)?;
        Ok((Socket::new(one, Settings::default()), Socket::new(other, Settings::default())))
    }

    /// Adopts a socket that was created elsewhere. Sets it to non-blocking mode and keeps its time
    /// limits.
    pub(super) fn adopt(fd: OwnedFd) -> io::Result<Socket> {
        let socket = Socket::new(fd, Settings::default());
        socket.fd.set_nonblocking_mode(true)?;
        for (direction, which) in
            [(Direction::Read, Timeout::Recv), (Direction::Write, Timeout::Send)]
        {
            socket.settings.set_timeout(direction, sockopt::socket_timeout(&socket.fd, which)?);
        }
        Ok(socket)
    }

    /// Adopts a socket as [`Socket::adopt`] does, but ignores errors. An fd that is not a socket
    /// fails at its first use.
    pub(super) fn adopt_silently(fd: OwnedFd) -> Socket {
        let socket = Socket::new(fd, Settings::default());
        let _ = socket.fd.set_nonblocking_mode(true);
        for (direction, which) in
            [(Direction::Read, Timeout::Recv), (Direction::Write, Timeout::Send)]
        {
            socket
                .settings
                .set_timeout(direction, sockopt::socket_timeout(&socket.fd, which).unwrap_or(None));
        }
        socket
    }

    /// Returns the fd in the mode that the settings say: blocking or non-blocking.
    pub(super) fn release(self) -> io::Result<OwnedFd> {
        self.fd.set_nonblocking_mode(self.settings.is_nonblocking())?;
        Ok(self.fd.into_fd())
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd.into_fd()
    }

    pub(super) fn duplicate(&self) -> io::Result<Socket> {
        Ok(Socket::new(self.fd.as_fd().try_clone_to_owned()?, self.settings.share()))
    }

    /// Formats the public types for `Debug`.
    pub(super) fn describe<A: Address + fmt::Debug>(
        &self,
        name: &str,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let mut fields = f.debug_struct(name);
        if let Ok(address) = self.local_addr::<A>() {
            fields.field("addr", &address);
        }
        if let Ok(address) = self.peer_addr::<A>() {
            fields.field("peer", &address);
        }
        fields.field("fd", &self.as_fd().as_raw_fd()).finish()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
