//! System calls that return at once.

use super::Socket;
use crate::driver::{Address, RawAddress};
use crate::net::settings::{Direction, check_timeout};
use rustix::net::sockopt::{self, Timeout};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::time::Duration;

impl Socket {
    pub(in crate::net) fn bind<A: Address>(&self, address: &A) -> io::Result<()> {
        Ok(rustix::net::bind(&self.fd, &address.to_raw().to_any())?)
    }

    /// Listens with the longest queue that the system allows. std's queue of 128 drops connections
    /// when a few hundred arrive together.
    pub(in crate::net) fn listen(&self) -> io::Result<()> {
        Ok(rustix::net::listen(&self.fd, -1)?)
    }

    /// Allows the address to be bound again as soon as its last listener is closed.
    pub(in crate::net) fn reuse_address(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseaddr(&self.fd, true)?)
    }

    pub(in crate::net) fn local_addr<A: Address>(&self) -> io::Result<A> {
        A::from_raw(&RawAddress::of_socket(self.fd.as_fd())?)
    }

    pub(in crate::net) fn peer_addr<A: Address>(&self) -> io::Result<A> {
        let raw = RawAddress::of_peer(self.fd.as_fd())?;
        if raw.length == 0 {
            // The kernel may report an empty peer address without an error. std returns the same
            // error in that case.
            return Err(rustix::io::Errno::NOTCONN.into());
        }
        A::from_raw(&raw)
    }

    pub(in crate::net) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        };
        Ok(rustix::net::shutdown(&self.fd, how)?)
    }

    pub(in crate::net) fn timeout(&self, direction: Direction) -> Option<Duration> {
        self.settings.timeout(direction)
    }

    /// Stores the limit here, for ecru's own waits, and in the kernel's socket, for later owners of
    /// the fd.
    pub(in crate::net) fn set_timeout(
        &self,
        direction: Direction,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        check_timeout(timeout)?;
        let which = match direction {
            Direction::Read => Timeout::Recv,
            Direction::Write => Timeout::Send,
        };
        sockopt::set_socket_timeout(&self.fd, which, timeout)?;
        self.settings.set_timeout(direction, timeout);
        Ok(())
    }

    pub(in crate::net) fn set_nonblocking(&self, nonblocking: bool) {
        self.settings.set_nonblocking(nonblocking);
    }

    pub(in crate::net) fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(sockopt::socket_error(&self.fd)?.err().map(io::Error::from))
    }
}
