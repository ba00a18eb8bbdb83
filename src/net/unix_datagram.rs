//! A Unix socket for datagrams.

use super::settings::Direction;
use super::shell::{every_socket, time_limits};
use super::socket::Socket;
use crate::driver::request::{AddressFamily, SocketType};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// A Unix datagram socket: [`std::os::unix::net::UnixDatagram`] with waits that park the task.
///
/// Outside a runtime the same calls block the thread. Datagrams between processes of one machine
/// are neither lost nor reordered: while the receiver's queue is full, the sender waits. If a
/// buffer is smaller than a datagram, it gets the beginning, and the rest of the datagram is lost,
/// as with std.
///
/// # Examples
/// ```
/// use ecru::net::UnixDatagram;
///
/// let (one, other) = UnixDatagram::pair()?;
/// one.send(b"hello")?;
/// let mut buffer = [0; 16];
/// assert_eq!(other.recv(&mut buffer)?, 5);
/// # std::io::Result::Ok(())
/// ```
///
/// # Cancellation
/// A cancelled receive has taken no datagram, and a cancelled send has sent nothing. If the kernel
/// had already done the work, the call returns its result, and the next wait fails.
pub struct UnixDatagram(pub(super) Socket);

impl UnixDatagram {
    /// Creates a socket bound to a path. The path is created.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UnixDatagram;
    ///
    /// # let path = std::env::temp_dir().join(format!("ecru-datagram-{}", std::process::id()));
    /// let socket = UnixDatagram::bind(&path)?;
    /// UnixDatagram::unbound()?.send_to(b"hello", &path)?;
    /// let (length, from) = socket.recv_from(&mut [0; 16])?;
    /// assert!(length == 5 && from.is_unnamed());
    /// std::fs::remove_file(&path)?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns `AddrInUse` if the path already exists, and `InvalidInput` if it is too long or
    /// contains a zero byte.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Creates a socket bound to an address, which may be an abstract name.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UnixDatagram;
    /// use std::os::linux::net::SocketAddrExt;
    /// use std::os::unix::net::SocketAddr;
    ///
    /// let name = format!("ecru-bind-addr-{}", std::process::id());
    /// let address = SocketAddr::from_abstract_name(name)?;
    /// let socket = UnixDatagram::bind_addr(&address)?;
    /// UnixDatagram::unbound()?.send_to_addr(b"hello", &address)?;
    /// assert_eq!(socket.recv(&mut [0; 16])?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`bind`](UnixDatagram::bind).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixDatagram> {
        let socket = UnixDatagram::unbound()?;
        socket.0.bind(socket_addr)?;
        Ok(socket)
    }

    /// Creates a socket without an address. It can send, but the receiver cannot answer. See
    /// [`bind`](UnixDatagram::bind) for an example.
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn unbound() -> io::Result<UnixDatagram> {
        Socket::open(AddressFamily::UNIX, SocketType::DGRAM).map(UnixDatagram)
    }

    /// Creates two sockets that are connected to each other. See the type for an example.
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, other) = Socket::pair(SocketType::DGRAM)?;
        Ok((UnixDatagram(one), UnixDatagram(other)))
    }

    /// Sets the destination of [`send`](UnixDatagram::send). From now on only datagrams from that
    /// address are received.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UnixDatagram;
    /// use std::io::ErrorKind;
    ///
    /// let socket = UnixDatagram::unbound()?;
    /// assert_eq!(socket.connect("/nowhere/at/all").unwrap_err().kind(), ErrorKind::NotFound);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns `NotFound` if the path does not exist, and `ConnectionRefused` if no socket is bound
    /// to it.
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to an address, which may be an abstract name. See
    /// [`connect`](UnixDatagram::connect).
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UnixDatagram;
    /// use std::os::linux::net::SocketAddrExt;
    /// use std::os::unix::net::SocketAddr;
    ///
    /// let name = format!("ecru-datagram-connect-{}", std::process::id());
    /// let address = SocketAddr::from_abstract_name(name)?;
    /// let receiver = UnixDatagram::bind_addr(&address)?;
    /// let sender = UnixDatagram::unbound()?;
    /// sender.connect_addr(&address)?;
    /// sender.send(b"hello")?;
    /// assert_eq!(receiver.recv(&mut [0; 16])?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`connect`](UnixDatagram::connect).
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    pub fn connect_addr(&self, socket_addr: &SocketAddr) -> io::Result<()> {
        self.0.connect(socket_addr, None)
    }

    /// Receives a datagram and returns its length and its sender's address. See
    /// [`bind`](UnixDatagram::bind) for an example.
    ///
    /// # Errors
    /// Returns the errors of recvmsg(2).
    ///
    /// # Cancellation
    /// This is a cancellation point. A datagram is either returned or left for the next call.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.receive_from(buf, 0)
    }

    /// Receives a datagram. See the type for an example.
    ///
    /// # Errors
    /// Returns the errors of recv(2).
    ///
    /// # Cancellation
    /// This is a cancellation point. A datagram is either returned or left for the next call.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.receive_datagram(buf, 0)
    }

    /// Receives a datagram and leaves it in the queue for the next call. (Not yet stable in std.)
    ///
    /// # Examples
    /// ```
    /// let (one, other) = ecru::net::UnixDatagram::pair()?;
    /// one.send(b"hello")?;
    /// assert_eq!(other.peek(&mut [0; 16])?, 5);
    /// assert_eq!(other.recv(&mut [0; 16])?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of recv(2).
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.receive_datagram(buf, libc::MSG_PEEK)
    }

    /// Receives a datagram, leaves it in the queue, and returns its length and its sender's
    /// address. (Not yet stable in std.) See [`peek`](UnixDatagram::peek) for an example.
    ///
    /// # Errors
    /// Returns the errors of recvmsg(2).
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.receive_from(buf, libc::MSG_PEEK)
    }

    /// Sends a datagram to the socket at a path. Waits while the receiver's queue is full. See
    /// [`bind`](UnixDatagram::bind) for an example.
    ///
    /// The kernel does not report when the queue of an unconnected destination has space again, so
    /// this call retries after pauses of at most 10 ms.
    ///
    /// # Errors
    /// Returns `NotFound` if the path does not exist, and `ConnectionRefused` if no socket is bound
    /// to it.
    ///
    /// # Cancellation
    /// This is a cancellation point. The datagram has been sent as a whole, or not at all.
    pub fn send_to<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(buf, &SocketAddr::from_pathname(path)?)
    }

    /// Sends a datagram to the socket at an address, which may be an abstract name. See
    /// [`send_to`](UnixDatagram::send_to), and [`bind_addr`](UnixDatagram::bind_addr) for an
    /// example.
    ///
    /// # Errors
    /// Returns the same errors as [`send_to`](UnixDatagram::send_to).
    ///
    /// # Cancellation
    /// This is a cancellation point. The datagram has been sent as a whole, or not at all.
    pub fn send_to_addr(&self, buf: &[u8], socket_addr: &SocketAddr) -> io::Result<usize> {
        self.0.send_to(buf, socket_addr)
    }

    /// Sends a datagram to the address that the socket is connected to. Waits while the receiver's
    /// queue is full. See the type for an example.
    ///
    /// # Errors
    /// Returns `NotConnected` if the socket is not connected, and `ConnectionRefused` if the
    /// receiver is closed.
    ///
    /// # Cancellation
    /// This is a cancellation point. The datagram has been sent as a whole, or not at all.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.send(buf)
    }

    /// Returns the address that the socket is bound to.
    ///
    /// # Examples
    /// ```
    /// assert!(ecru::net::UnixDatagram::unbound()?.local_addr()?.is_unnamed());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of getsockname(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Examples
    /// ```
    /// let socket = ecru::net::UnixDatagram::unbound()?;
    /// assert_eq!(socket.peer_addr().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns `NotConnected` if the socket is not connected.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Closes the receiving half, the sending half, or both. Calls in progress on that half return.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{Shutdown, UnixDatagram};
    ///
    /// let (one, other) = UnixDatagram::pair()?;
    /// other.shutdown(Shutdown::Read)?;
    /// assert_eq!(one.send(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns `NotConnected` if the socket is not connected.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }
}

every_socket!(UnixDatagram, SocketAddr, "let socket = ecru::net::UnixDatagram::unbound()?;");
time_limits!(UnixDatagram, "let socket = ecru::net::UnixDatagram::unbound()?;");
