//! System calls that return at once.

use super::Socket;
use crate::driver::request::{
    Bind, GetOption, Listen, LocalAddress, PeerAddress, ReceiveTimeout, SendTimeout, SetOption,
    ShutDown, SocketOption, TakeError,
};
use crate::driver::{Address, request};
use crate::net::settings::{Direction, check_timeout};
use std::io;
use std::net::Shutdown;
use std::time::Duration;

impl Socket {
    pub(in crate::net) fn bind<A: Address>(&self, address: &A) -> io::Result<()> {
        request(Bind { socket: &self.fd, address: &address.to_raw() })
    }

    /// Listens with the longest queue that the system allows. std's queue of 128 drops connections
    /// when a few hundred arrive together.
    pub(in crate::net) fn listen(&self) -> io::Result<()> {
        request(Listen { socket: &self.fd })
    }

    pub(in crate::net) fn option<O: SocketOption>(&self, option: O) -> io::Result<O::Value> {
        request(GetOption { socket: &self.fd, option })
    }

    pub(in crate::net) fn set_option<O: SocketOption>(
        &self,
        option: O,
        value: O::Value,
    ) -> io::Result<()> {
        request(SetOption { socket: &self.fd, option, value })
    }

    pub(in crate::net) fn local_addr<A: Address>(&self) -> io::Result<A> {
        A::from_raw(&request(LocalAddress { socket: &self.fd })?)
    }

    pub(in crate::net) fn peer_addr<A: Address>(&self) -> io::Result<A> {
        let raw = request(PeerAddress { socket: &self.fd })?;
        if raw.length == 0 {
            // The kernel may report an empty peer address without an error. std returns the same
            // error in that case.
            return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
        }
        A::from_raw(&raw)
    }

    pub(in crate::net) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        request(ShutDown { socket: &self.fd, how })?;
        if self.is_local && how != Shutdown::Read {
            self.settings.waiting_sends().end();
        }
        Ok(())
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
        match direction {
            Direction::Read => self.set_option(ReceiveTimeout, timeout)?,
            Direction::Write => self.set_option(SendTimeout, timeout)?,
        }
        self.settings.set_timeout(direction, timeout);
        Ok(())
    }

    pub(in crate::net) fn set_nonblocking(&self, nonblocking: bool) {
        self.settings.set_nonblocking(nonblocking);
    }

    pub(in crate::net) fn take_error(&self) -> io::Result<Option<io::Error>> {
        request(TakeError { socket: &self.fd })
    }
}
