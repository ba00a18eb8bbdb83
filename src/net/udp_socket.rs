//! A UDP socket.

use super::resolve::{ToSocketAddrs, first_of, try_each};
use super::settings::Direction;
use super::shell::{every_socket, hops, time_limits};
use super::socket::Socket;
use crate::driver::Address;
use crate::driver::request::SocketType;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A UDP socket: [`std::net::UdpSocket`] with waits that park the task.
///
/// Outside a runtime the same calls block the thread. Several tasks or threads may send and receive
/// at once; each datagram is received by one of them. If a buffer is smaller than a datagram, it
/// gets the beginning, and the rest of the datagram is lost, as with std.
///
/// # Examples
/// ```
/// use ecru::net::UdpSocket;
///
/// let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
/// one.send_to(b"hello", other.local_addr()?)?;
/// let mut buffer = [0; 16];
/// let (length, from) = other.recv_from(&mut buffer)?;
/// assert_eq!((&buffer[..length], from), (&b"hello"[..], one.local_addr()?));
/// # std::io::Result::Ok(())
/// ```
///
/// # Cancellation
/// A cancelled receive has taken no datagram, and a cancelled send has sent nothing. If the kernel
/// had already done the work, the call returns its result, and the next wait fails.
pub struct UdpSocket(pub(super) Socket);

impl UdpSocket {
    /// Creates a socket bound to the first of the addresses that can be bound. Port 0 lets the
    /// system choose a port.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0")?;
    /// assert_ne!(socket.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the last address tried, for instance `AddrInUse`, or `InvalidInput` if
    /// there is no address at all.
    ///
    /// # Cancellation
    /// Waits only while a name is resolved; see [the module](crate::net#names).
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        try_each(addr, |address| {
            let socket = Socket::open(address.family(), SocketType::DGRAM)?;
            socket.bind(&address)?;
            Ok(UdpSocket(socket))
        })
    }

    /// Sets the destination of [`send`](UdpSocket::send). From now on only datagrams from that
    /// address are received.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UdpSocket;
    ///
    /// let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    /// one.connect(other.local_addr()?)?;
    /// one.send(b"hello")?;
    /// let mut buffer = [0; 16];
    /// assert_eq!(other.recv(&mut buffer)?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the last address tried, or `InvalidInput` if there is no address at
    /// all.
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    pub fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        try_each(addr, |address| self.0.connect(&address, None))
    }

    /// Receives a datagram and returns its length and its sender's address.
    ///
    /// # Errors
    /// Returns `ConnectionRefused` if an earlier datagram did not reach a receiver, and the errors
    /// of recvmsg(2).
    ///
    /// # Cancellation
    /// This is a cancellation point. A datagram is either returned or left for the next call.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UdpSocket;
    ///
    /// let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    /// one.send_to(b"ping", other.local_addr()?)?;
    /// let mut datagram = [0; 16];
    /// let (length, from) = other.recv_from(&mut datagram)?;
    /// assert_eq!((&datagram[..length], from), (&b"ping"[..], one.local_addr()?));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.receive_from(buf, 0)
    }

    /// Receives a datagram and leaves it in the queue for the next call.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UdpSocket;
    ///
    /// let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    /// one.send_to(b"hello", other.local_addr()?)?;
    /// let mut buffer = [0; 16];
    /// let first = other.peek_from(&mut buffer)?;
    /// assert_eq!(first, other.recv_from(&mut buffer)?);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`recv_from`](UdpSocket::recv_from).
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.receive_from(buf, libc::MSG_PEEK)
    }

    /// Sends a datagram to the first of the addresses. See the type for an example.
    ///
    /// # Errors
    /// Returns `InvalidInput` if there is no address at all, and the errors of sendmsg(2), for
    /// instance for more than 65,507 bytes.
    ///
    /// # Cancellation
    /// This is a cancellation point. The datagram has been sent as a whole, or not at all.
    pub fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        self.0.send_to(buf, &first_of(addr)?)
    }

    /// Receives a datagram from the address that the socket is connected to, or from any address if
    /// it is not connected. See [`connect`](UdpSocket::connect) for an example.
    ///
    /// # Errors
    /// Returns the same errors as [`recv_from`](UdpSocket::recv_from).
    ///
    /// # Cancellation
    /// This is a cancellation point. A datagram is either returned or left for the next call.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.receive_datagram(buf, 0)
    }

    /// Receives a datagram as [`recv`](UdpSocket::recv) does, and leaves it in the queue for the
    /// next call. See [`peek_from`](UdpSocket::peek_from) for an example.
    ///
    /// # Errors
    /// Returns the same errors as [`recv_from`](UdpSocket::recv_from).
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.receive_datagram(buf, libc::MSG_PEEK)
    }

    /// Sends a datagram to the address that the socket is connected to. See
    /// [`connect`](UdpSocket::connect) for an example.
    ///
    /// # Errors
    /// Returns an error of kind `Other` or `InvalidInput` (`EDESTADDRREQ`) if the socket is not
    /// connected, and `ConnectionRefused` if an earlier datagram did not reach a receiver.
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
    /// let socket = ecru::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert!(socket.local_addr()?.ip().is_loopback());
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
    /// let socket = ecru::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(socket.peer_addr().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns `NotConnected` if [`connect`](UdpSocket::connect) was not called.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }
}

every_socket!(UdpSocket, SocketAddr, "let socket = ecru::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
time_limits!(UdpSocket, "let socket = ecru::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
hops!(UdpSocket, "let socket = ecru::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
