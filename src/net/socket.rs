//! One socket: its fd, its settings, and every op that waits.
//!
//! The ops borrow the caller's buffers and the fd; [`perform`] returns only after the kernel is done with both (S3).
#![expect(unsafe_code, reason = "makes ops of borrowed buffers")]

use super::address::RawAddress;
use super::settings::{Direction, Settings, check_timeout};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::driver::{Op, clamp_length};
use crate::sched::io::{perform, perform_before};
use rustix::fs::OFlags;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

/// The most buffers that one vectored call takes; the rest is left for the next, as std does. (`UIO_MAXIOV`)
const MOST_BUFFERS: usize = 1024;

/// A socket in non-blocking mode.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    settings: Settings,
    /// The last read got less than it had room for, so the next one will probably wait. A hint, hence relaxed.
    drained: AtomicBool,
}

impl Socket {
    fn new(fd: OwnedFd, settings: Settings) -> Socket {
        Socket { fd, settings, drained: AtomicBool::new(false) }
    }

    /// A new stream socket that suits the address.
    pub(super) fn stream_for(address: &SocketAddr) -> io::Result<Socket> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        Ok(Socket::new(fd, Settings::default()))
    }

    /// Takes a socket from elsewhere: into non-blocking mode, with the time-outs that it brings along.
    pub(super) fn adopt(fd: OwnedFd) -> io::Result<Socket> {
        set_nonblocking_mode(fd.as_fd(), true)?;
        let socket = Socket::new(fd, Settings::default());
        for (direction, which) in
            [(Direction::Read, Timeout::Recv), (Direction::Write, Timeout::Send)]
        {
            socket.settings.set_timeout(direction, sockopt::socket_timeout(&socket.fd, which)?);
        }
        Ok(socket)
    }

    /// [`Socket::adopt`] where no error can be returned: what is not a socket will say so at its first use.
    pub(super) fn adopt_silently(fd: OwnedFd) -> Socket {
        let _ = set_nonblocking_mode(fd.as_fd(), true);
        let socket = Socket::new(fd, Settings::default());
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
        set_nonblocking_mode(self.fd.as_fd(), self.settings.is_nonblocking())?;
        Ok(self.fd)
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    pub(super) fn duplicate(&self) -> io::Result<Socket> {
        Ok(Socket::new(self.fd.try_clone()?, self.settings.share()))
    }

    pub(super) fn receive(&self, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(buffer.len()));
        let drained = self.drained.load(Ordering::Relaxed);
        let op = Op::Recv { fd: self.fd.as_raw_fd(), buf, len, flags, drained };
        // SAFETY: S3: the buffer is borrowed mutably, and the fd by `self`, until this returns.
        let count = unsafe { self.transfer(op, Direction::Read)? };
        let leaves_nothing = count < len as usize && flags & libc::MSG_PEEK == 0;
        if leaves_nothing != drained {
            self.drained.store(leaves_nothing, Ordering::Relaxed);
        }
        Ok(count)
    }

    pub(super) fn receive_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        let mut message = message(buffers.as_mut_ptr().cast(), buffers.len());
        let op = Op::RecvMsg { fd: self.fd.as_raw_fd(), message: &raw mut message, flags: 0 };
        // SAFETY: S3: as in `receive`; the message lives on this stack until then, and an `IoSliceMut` has the layout of an
        // iovec by its documentation.
        unsafe { self.transfer(op, Direction::Read) }
    }

    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let (buf, len) = (bytes.as_ptr(), clamp_length(bytes.len()));
        let op = Op::Send { fd: self.fd.as_raw_fd(), buf, len, flags: libc::MSG_NOSIGNAL };
        // SAFETY: S3: the bytes are borrowed, and the fd by `self`, until this returns; the kernel only reads them.
        unsafe { self.transfer(op, Direction::Write) }
    }

    pub(super) fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let message = message(buffers.as_ptr().cast_mut().cast(), buffers.len());
        let op = Op::SendMsg {
            fd: self.fd.as_raw_fd(),
            message: &raw const message,
            flags: libc::MSG_NOSIGNAL,
        };
        // SAFETY: S3: as in `send`; the message lives on this stack until then, an `IoSlice` has the layout of an iovec by
        // its documentation, and the kernel only reads through it.
        unsafe { self.transfer(op, Direction::Write) }
    }

    /// Takes the next connection from the queue.
    pub(super) fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        let mut address = RawAddress::room();
        let (storage, length) = (&raw mut address.storage, &raw mut address.length);
        let op = Op::Accept { fd: self.fd.as_raw_fd(), address: storage, length };
        // SAFETY: S3: the address lives on this stack until this returns, and the fd is borrowed by `self`.
        let fd = unsafe { self.transfer(op, Direction::Read)? };
        let fd = RawFd::try_from(fd).expect("the kernel's fds are non-negative ints");
        // SAFETY: the op's result is a new fd that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok((Socket::new(fd, Settings::default()), address.to_socket_address()?))
    }

    pub(super) fn connect(
        &self,
        address: &SocketAddr,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let address = RawAddress::new(address);
        let (storage, length) = (&raw const address.storage, address.length);
        let op = Op::Connect { fd: self.fd.as_raw_fd(), address: storage, length };
        // SAFETY: S3: the address lives on this stack until this returns, and the fd is borrowed by `self`.
        unsafe { perform_before(op, deadline)? };
        Ok(())
    }

    /// Carries out an op that transfers data, as the settings say.
    ///
    /// # Safety
    /// As [`perform`].
    unsafe fn transfer(&self, op: Op, direction: Direction) -> io::Result<usize> {
        let result = if self.settings.is_nonblocking() {
            // SAFETY: the caller's promise, passed on.
            unsafe { op.attempt() }
        } else if let Some(deadline) = self.settings.deadline(direction) {
            // SAFETY: the caller's promise, passed on.
            unsafe { perform_before(op, Some(deadline)) }
        } else {
            // SAFETY: the caller's promise, passed on.
            unsafe { perform(op) }
        };
        result.map(|count| count as usize)
    }

    pub(super) fn bind_and_listen(&self, address: &SocketAddr) -> io::Result<()> {
        sockopt::set_socket_reuseaddr(&self.fd, true)?;
        rustix::net::bind(&self.fd, address)?;
        // As many as the system allows; std asks for 128, which drops connections when a few hundred arrive together.
        rustix::net::listen(&self.fd, -1)?;
        Ok(())
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(rustix::net::getsockname(&self.fd)?)?)
    }

    pub(super) fn peer_addr(&self) -> io::Result<SocketAddr> {
        // The kernel may know no peer without calling that an error; std says the same.
        let peer = rustix::net::getpeername(&self.fd)?.ok_or(rustix::io::Errno::NOTCONN)?;
        Ok(SocketAddr::try_from(peer)?)
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        };
        Ok(rustix::net::shutdown(&self.fd, how)?)
    }

    pub(super) fn timeout(&self, direction: Direction) -> Option<Duration> {
        self.settings.timeout(direction)
    }

    /// Kept here for our waits, and in the kernel's socket for whoever gets the fd.
    pub(super) fn set_timeout(
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

    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        self.settings.set_nonblocking(nonblocking);
    }

    pub(super) fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(&self.fd, nodelay)?)
    }

    pub(super) fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(&self.fd)?)
    }

    pub(super) fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(&self.fd, ttl)?)
    }

    pub(super) fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(&self.fd)?)
    }

    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(sockopt::socket_error(&self.fd)?.err().map(io::Error::from))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A message without an address, of these buffers.
fn message(buffers: *mut libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: a message header is plain integers and pointers, for which zeroes are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = ptr::null_mut();
    message.msg_iov = buffers;
    message.msg_iovlen = count.min(MOST_BUFFERS);
    message
}

fn set_nonblocking_mode(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(fd)?;
    if flags.contains(OFlags::NONBLOCK) != nonblocking {
        flags.set(OFlags::NONBLOCK, nonblocking);
        rustix::fs::fcntl_setfl(fd, flags)?;
    }
    Ok(())
}
