//! A TCP connection.

use super::address::Address;
use super::resolve::try_each;
use super::settings::{Direction, check_timeout};
use super::shell::{every_socket, hops, keepalive, reads_and_writes, time_limits};
use super::socket::Socket;
use crate::base::clock;
use rustix::net::{SocketType, sockopt};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A TCP connection: [`std::net::TcpStream`], on which a wait parks the task.
///
/// Outside a runtime the same calls block the thread. The stream is closed when it is dropped. Several tasks or threads may
/// read and write at once through `&TcpStream`, which implements [`Read`] and [`Write`] too.
///
/// # Examples
/// ```
/// use ecru::net::{TcpListener, TcpStream};
/// use std::io::{Read, Write};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut client = TcpStream::connect(listener.local_addr()?)?;
/// let (mut server, _) = listener.accept()?;
///
/// client.write_all(b"hello")?;
/// let mut buffer = [0; 5];
/// server.read_exact(&mut buffer)?;
/// assert_eq!(&buffer, b"hello");
/// # std::io::Result::Ok(())
/// ```
///
/// # Cancellation
/// A read that is cancelled has taken nothing: what has arrived stays with the kernel for the next read. A write that is
/// cancelled has sent nothing; bytes that the kernel had taken by then are reported as `Ok(n)`, and the next wait fails.
/// So `read_exact`, `write_all` and the like may have done a part of their work when they fail, as with any other error.
pub struct TcpStream(pub(super) Socket);

impl TcpStream {
    /// Opens a connection to the first address that accepts one.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let stream = TcpStream::connect(listener.local_addr()?)?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// That of the last address tried, for instance `ConnectionRefused`; `InvalidInput` if there is no address at all.
    ///
    /// # Cancellation
    /// A cancelled attempt is given up, and its socket closed. So is the resolution of a name; see [the module](crate::net#names).
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        try_each(addr, |address| TcpStream::connect_before(&address, None))
    }

    /// Opens a connection to this address, within a time limit.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::time::Duration;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let stream = TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(5))?;
    /// # drop(stream);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `TimedOut` if the limit has passed, `InvalidInput` if it is zero, and those of [`connect`](TcpStream::connect).
    ///
    /// # Cancellation
    /// A cancelled attempt is given up, and its socket closed.
    pub fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        check_timeout(Some(timeout))?;
        TcpStream::connect_before(addr, clock::now().checked_add(timeout))
    }

    fn connect_before(address: &SocketAddr, deadline: Option<Instant>) -> io::Result<TcpStream> {
        let socket = Socket::open(address.family(), SocketType::STREAM)?;
        TcpStream::connect_over(socket, address, deadline)
    }

    fn connect_over(
        socket: Socket,
        address: &SocketAddr,
        deadline: Option<Instant>,
    ) -> io::Result<TcpStream> {
        socket.connect(address, deadline)?;
        let stream = TcpStream(socket);
        if stream.is_its_own_peer(address) {
            // No end of a connection is left to wait for, so the address is free at once.
            stream.set_linger(Some(Duration::ZERO))?;
            let text = format!("connection refused: nothing listens on {address}");
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text));
        }
        Ok(stream)
    }

    /// Whether the kernel gave the socket the very address that it was to connect to, as it may with a free port of this machine.
    /// TCP takes that for two sides that connect to each other at once.
    fn is_its_own_peer(&self, to: &SocketAddr) -> bool {
        let place = |address: SocketAddr| (address.ip(), address.port());
        // Two different ports are the rule, and need one system call to tell.
        self.local_addr().is_ok_and(|own| {
            own.port() == to.port() && self.peer_addr().is_ok_and(|peer| place(peer) == place(own))
        })
    }

    /// The address of the other end.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let (server, from) = listener.accept()?;
    /// assert_eq!(server.peer_addr()?, from);
    /// assert_eq!(client.local_addr()?, from);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `NotConnected` if the connection is no more.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// The address of this end. See [`peer_addr`](TcpStream::peer_addr) for an example.
    ///
    /// # Errors
    /// Those of getsockname(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Closes the reading half, the writing half, or both. Calls in progress on that half return.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{Shutdown, TcpListener, TcpStream};
    /// use std::io::{Read, Write};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// let (mut server, _) = listener.accept()?;
    ///
    /// client.write_all(b"that is all")?;
    /// client.shutdown(Shutdown::Write)?;
    /// let mut text = String::new();
    /// server.read_to_string(&mut text)?; // until the end of the stream
    /// assert_eq!(text, "that is all");
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `NotConnected` if the connection is no more.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Reads what has arrived and leaves it there for the next read.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::io::{Read, Write};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// let (mut server, _) = listener.accept()?;
    ///
    /// client.write_all(b"x")?;
    /// let mut byte = [0];
    /// assert_eq!(server.peek(&mut byte)?, 1);
    /// assert_eq!(server.read(&mut byte)?, 1);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of a read.
    ///
    /// # Cancellation
    /// A cancel point. Nothing is lost.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buf, libc::MSG_PEEK)
    }

    /// Turns Nagle's algorithm off (`true`): small writes are sent at once.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let stream = TcpStream::connect(listener.local_addr()?)?;
    /// stream.set_nodelay(true)?;
    /// assert!(stream.nodelay()?);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of setsockopt(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(self.as_fd(), nodelay)?)
    }

    /// Whether Nagle's algorithm is off. See [`set_nodelay`](TcpStream::set_nodelay).
    ///
    /// # Errors
    /// Those of getsockopt(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(self.as_fd())?)
    }

    /// What becomes of bytes not yet sent when the last handle is dropped (`SO_LINGER`). `None`, as at first: the system goes on
    /// sending. Zero: they are thrown away, and the peer sees a reset. Anything else makes the drop itself block its thread, and
    /// with it the worker, for so long at most: in a task, [`shutdown`](TcpStream::shutdown) and read to the end instead.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::io::{ErrorKind, Read};
    /// use std::time::Duration;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// let (server, _) = listener.accept()?;
    /// server.set_linger(Some(Duration::ZERO))?;
    /// drop(server);
    /// assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of setsockopt(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(self.as_fd(), linger)?)
    }

    /// The value of `SO_LINGER`, in whole seconds. See [`set_linger`](TcpStream::set_linger).
    ///
    /// # Errors
    /// Those of getsockopt(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(sockopt::socket_linger(self.as_fd())?)
    }

    /// With `true`, what arrives is acknowledged at once (`TCP_QUICKACK`). The kernel falls back by itself, so this is to be
    /// repeated. In std a method of `std::os::linux::net::TcpStreamExt`.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let stream = TcpStream::connect(listener.local_addr()?)?;
    /// stream.set_quickack(true)?;
    /// assert!(stream.quickack()?);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of setsockopt(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_quickack(self.as_fd(), quickack)?)
    }

    /// Whether what arrives is acknowledged at once. See [`set_quickack`](TcpStream::set_quickack).
    ///
    /// # Errors
    /// Those of getsockopt(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn quickack(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_quickack(self.as_fd())?)
    }
}

every_socket!(
    TcpStream,
    SocketAddr,
    "# let listener = ecru::net::TcpListener::bind(\"127.0.0.1:0\")?;\nlet socket = ecru::net::TcpStream::connect(listener.local_addr()?)?;"
);
time_limits!(
    TcpStream,
    "# let listener = ecru::net::TcpListener::bind(\"127.0.0.1:0\")?;\nlet socket = ecru::net::TcpStream::connect(listener.local_addr()?)?;"
);
hops!(
    TcpStream,
    "# let listener = ecru::net::TcpListener::bind(\"127.0.0.1:0\")?;\nlet socket = ecru::net::TcpStream::connect(listener.local_addr()?)?;"
);
keepalive!(
    TcpStream,
    "# let listener = ecru::net::TcpListener::bind(\"127.0.0.1:0\")?;\nlet socket = ecru::net::TcpStream::connect(listener.local_addr()?)?;"
);
reads_and_writes!(TcpStream);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// As if the kernel had chosen the port that nothing listens on for the socket itself. It does so once in some ten thousand times.
    #[test]
    fn net_38_never_connected_to_itself() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let any: SocketAddr = loopback.parse().unwrap();
            let socket = Socket::open(any.family(), SocketType::STREAM).unwrap();
            if socket.bind(&any).is_err() {
                continue; // no IPv6 on this machine
            }
            let own: SocketAddr = socket.local_addr().unwrap();
            let error = TcpStream::connect_over(socket, &own, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
            assert!(error.to_string().contains(&own.to_string()), "{error}");
            // Nothing of it is left: the address can be taken without SO_REUSEADDR.
            let next = Socket::open(own.family(), SocketType::STREAM).unwrap();
            next.bind(&own).unwrap();
        }
    }
}
