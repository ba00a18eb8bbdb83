//! A UDP socket.

use super::address::Address;
use super::resolve::{first_of, try_each};
use super::settings::Direction;
use super::shell::{every_socket, hops, time_limits};
use super::socket::Socket;
use rustix::net::SocketType;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::Duration;

/// A UDP socket: [`std::net::UdpSocket`], on which a wait parks the task.
///
/// Outside a runtime the same calls block the thread. Several tasks or threads may send and receive at once; each datagram goes to
/// one of them. A buffer that is too small gets the beginning of a datagram, and the rest of it is lost, as with std.
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
/// A call that receives and is cancelled has taken no datagram; one that sends has sent nothing. What the kernel had done by
/// then is returned, and the next wait fails.
pub struct UdpSocket(pub(super) Socket);

impl UdpSocket {
    /// Opens a socket at the first address that can be had. Port 0 lets the system choose one.
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
    /// That of the last address tried, for instance `AddrInUse`; `InvalidInput` if there is no address at all.
    ///
    /// # Cancellation
    /// Waits for the resolution of a name only; see [the module](crate::net#names).
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        try_each(addr, |address| {
            let socket = Socket::open(address.family(), SocketType::DGRAM)?;
            socket.bind(&address)?;
            Ok(UdpSocket(socket))
        })
    }

    /// Sets whom [`send`](UdpSocket::send) sends to; from now on only datagrams from there are received.
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
    /// That of the last address tried; `InvalidInput` if there is no address at all.
    ///
    /// # Cancellation
    /// A cancel point, at which nothing is lost.
    pub fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        try_each(addr, |address| self.0.connect(&address, None))
    }

    /// Receives a datagram, and says whose it is: see the type for an example.
    ///
    /// # Errors
    /// `ConnectionRefused` if an earlier datagram did not find its receiver, and those of recvmsg(2).
    ///
    /// # Cancellation
    /// A cancel point. A datagram is taken and returned, or left to the next.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.receive_from(buf, 0)
    }

    /// Receives a datagram and leaves it there for the next call.
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
    /// As [`recv_from`](UdpSocket::recv_from).
    ///
    /// # Cancellation
    /// A cancel point, at which nothing is lost.
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.receive_from(buf, libc::MSG_PEEK)
    }

    /// Sends a datagram to the first of the addresses: see the type for an example.
    ///
    /// # Errors
    /// `InvalidInput` if there is no address at all, and those of sendmsg(2), for instance for more than 65,507 bytes.
    ///
    /// # Cancellation
    /// A cancel point. The datagram has been sent as a whole, or not at all.
    pub fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        self.0.send_to(buf, &first_of(addr)?)
    }

    /// Receives a datagram from whom the socket is connected to, or from anybody if it is not. See
    /// [`connect`](UdpSocket::connect) for an example.
    ///
    /// # Errors
    /// As [`recv_from`](UdpSocket::recv_from).
    ///
    /// # Cancellation
    /// A cancel point. A datagram is taken and returned, or left to the next.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.receive_datagram(buf, 0)
    }

    /// The same, and leaves the datagram there for the next call. See [`peek_from`](UdpSocket::peek_from) for an example.
    ///
    /// # Errors
    /// As [`recv_from`](UdpSocket::recv_from).
    ///
    /// # Cancellation
    /// A cancel point, at which nothing is lost.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.receive_datagram(buf, libc::MSG_PEEK)
    }

    /// Sends a datagram to whom the socket is connected to. See [`connect`](UdpSocket::connect) for an example.
    ///
    /// # Errors
    /// An error of kind `Other` or `InvalidInput` (`EDESTADDRREQ`) if it is not connected; `ConnectionRefused` if an earlier one did
    /// not find its receiver.
    ///
    /// # Cancellation
    /// A cancel point. The datagram has been sent as a whole, or not at all.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.send(buf)
    }

    /// The address of this socket.
    ///
    /// # Examples
    /// ```
    /// let socket = ecru::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert!(socket.local_addr()?.ip().is_loopback());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of getsockname(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Whom the socket is connected to.
    ///
    /// # Examples
    /// ```
    /// let socket = ecru::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(socket.peer_addr().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `NotConnected` if [`connect`](UdpSocket::connect) was not called.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }
}

every_socket!(UdpSocket, SocketAddr, "let socket = ecru::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
time_limits!(UdpSocket, "let socket = ecru::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
hops!(UdpSocket, "let socket = ecru::net::UdpSocket::bind(\"127.0.0.1:0\")?;");
