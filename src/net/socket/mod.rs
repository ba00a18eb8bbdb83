//! One socket of any kind: its fd and its settings. The public types wrap it.
//!
//! - `transfer`: every op that waits.
//! - `shut`: sends that a shutdown ends.
//! - `options`: system calls that return at once.

mod options;
mod shut;
mod transfer;

use super::settings::{Direction, Settings};
use crate::driver::request::{
    AddressFamily, Duplicate, OpenSocket, OpenSocketPair, ReceiveTimeout, SendTimeout,
    SetNonblockingMode, SocketType,
};
use crate::driver::{Address, OwnedDescriptor, request};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A socket in non-blocking mode.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedDescriptor,
    settings: Settings,
    /// Whether it is a Unix socket.
    is_local: bool,
}

impl Socket {
    /// Wraps a socket that is in non-blocking mode.
    pub(super) fn of(fd: OwnedDescriptor, family: AddressFamily) -> Socket {
        let is_local = family == AddressFamily::UNIX;
        Socket { fd, settings: Settings::default(), is_local }
    }

    /// Opens a socket of the given family.
    pub(super) fn open(family: AddressFamily, kind: SocketType) -> io::Result<Socket> {
        request(OpenSocket { family, kind }).map(|fd| Socket::of(fd, family))
    }

    /// Creates two Unix sockets that are connected to each other.
    pub(super) fn pair(kind: SocketType) -> io::Result<(Socket, Socket)> {
        let (one, other) = request(OpenSocketPair { kind })?;
        let [one, other] = [one, other].map(|fd| Socket::of(fd, AddressFamily::UNIX));
        Ok((one, other))
    }

    /// Adopts a socket that was created elsewhere. Sets it to non-blocking mode and keeps its time
    /// limits.
    pub(super) fn adopt(fd: OwnedFd, family: AddressFamily) -> io::Result<Socket> {
        let socket = Socket::of(OwnedDescriptor::adopt(fd)?, family);
        socket.set_mode(true)?;
        socket.settings.set_timeout(Direction::Read, socket.option(ReceiveTimeout)?);
        socket.settings.set_timeout(Direction::Write, socket.option(SendTimeout)?);
        Ok(socket)
    }

    /// Adopts a socket as [`Socket::adopt`] does, but ignores errors. An fd that is not a socket
    /// fails at its first use.
    pub(super) fn adopt_silently(fd: OwnedFd, family: AddressFamily) -> Socket {
        let socket = Socket::of(OwnedDescriptor::adopt_silently(fd), family);
        let _ = socket.set_mode(true);
        let (read, write) = (socket.option(ReceiveTimeout), socket.option(SendTimeout));
        socket.settings.set_timeout(Direction::Read, read.unwrap_or(None));
        socket.settings.set_timeout(Direction::Write, write.unwrap_or(None));
        socket
    }

    /// Returns the fd in the mode that the settings say: blocking or non-blocking.
    pub(super) fn release(self) -> io::Result<OwnedFd> {
        self.set_mode(self.settings.is_nonblocking())?;
        Ok(self.fd.into_fd())
    }

    fn set_mode(&self, nonblocking: bool) -> io::Result<()> {
        request(SetNonblockingMode { fd: &self.fd, nonblocking })
    }

    /// Returns the socket's descriptor.
    pub(super) fn fd(&self) -> &OwnedDescriptor {
        &self.fd
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd.into_fd()
    }

    pub(super) fn duplicate(&self) -> io::Result<Socket> {
        let fd = request(Duplicate { fd: &self.fd })?;
        Ok(Socket { fd, settings: self.settings.share(), is_local: self.is_local })
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
        fields.field("fd", &self.fd.name().shown()).finish()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
