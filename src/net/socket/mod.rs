//! One socket, of whatever kind: its fd and its settings. The public types are shells around it.
//!
//! - `transfer`: every op that waits.
//! - `options`: what is asked of the kernel at once.

mod options;
mod transfer;

use super::address::Address;
use super::settings::{Direction, Settings};
use crate::base::sync::atomic::AtomicBool;
use crate::driver::OwnedDescriptor;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How a new fd is to be: closed in programs that this one starts, and never blocking.
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A socket in non-blocking mode.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedDescriptor,
    settings: Settings,
    /// The last read from the stream got less than it had room for, so the next one will probably wait. A hint, hence relaxed.
    drained: AtomicBool,
}

impl Socket {
    fn new(fd: OwnedFd, settings: Settings) -> Socket {
        Socket { fd: OwnedDescriptor::new(fd), settings, drained: AtomicBool::new(false) }
    }

    /// A new socket of a family.
    pub(super) fn open(family: AddressFamily, kind: SocketType) -> io::Result<Socket> {
        let fd = rustix::net::socket_with(family, kind, FLAGS, None)?;
        Ok(Socket::new(fd, Settings::default()))
    }

    /// Two Unix sockets, connected to each other.
    pub(super) fn pair(kind: SocketType) -> io::Result<(Socket, Socket)> {
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, kind, FLAGS, None)?;
        Ok((Socket::new(one, Settings::default()), Socket::new(other, Settings::default())))
    }

    /// Takes a socket from elsewhere: into non-blocking mode, with the time-outs that it brings along.
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

    /// [`Socket::adopt`] where no error can be returned: what is not a socket will say so at its first use.
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

    /// Gives the socket away for calls that block, or fail, as its settings say.
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

    /// The `Debug` of the public types.
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
