//! A TCP connection.

use super::resolve::{ToSocketAddrs, try_each};
use super::settings::{Direction, check_timeout};
use super::shell::{every_socket, hops, keepalive, reads_and_writes, time_limits};
use super::socket::Socket;
use crate::base::clock;
use crate::driver::Address;
use crate::driver::request::{Linger, NoDelay, QuickAck, SocketType};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

/// A TCP connection: [`std::net::TcpStream`] with waits that park the task.
///
/// Outside a runtime the same calls block the thread. The stream is closed when it is dropped.
/// Several tasks or threads may read and write at once through `&TcpStream`, which also implements
/// [`Read`] and [`Write`].
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
/// A cancelled read has taken nothing: the data stays in the kernel for the next read. A cancelled
/// write has sent nothing: if the kernel had already taken bytes, the write returns `Ok(n)`, and
/// the next wait fails. Functions that loop over these, such as `read_exact` and `write_all`, may
/// have done a part of their work when they fail, as with any other error.
pub struct TcpStream(pub(super) Socket);

impl TcpStream {
    /// Opens a connection to the first of the addresses that accepts one.
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
    /// Returns the error of the last address tried, for instance `ConnectionRefused`, or
    /// `InvalidInput` if there is no address at all.
    ///
    /// # Cancellation
    /// A cancelled attempt is abandoned, and its socket is closed. A cancelled lookup of a name is
    /// abandoned as well; see [the module](crate::net#names).
    pub fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        try_each(addr, |address| TcpStream::connect_before(&address, None))
    }

    /// Opens a connection to this address within a time limit.
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
    /// Returns `TimedOut` if the limit has passed, `InvalidInput` if it is zero, and otherwise the
    /// errors of [`connect`](TcpStream::connect).
    ///
    /// # Cancellation
    /// A cancelled attempt is abandoned, and its socket is closed.
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
            // A linger time of zero leaves no closing connection behind, so the address is free at
            // once.
            stream.set_linger(Some(Duration::ZERO))?;
            let text = format!("connection refused: nothing listens on {address}");
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text));
        }
        Ok(stream)
    }

    /// Returns whether the socket is connected to itself. If the target is a free port of this
    /// machine, the kernel may give the socket that same address. TCP then takes it for two sides
    /// that connect to each other at once.
    fn is_its_own_peer(&self, to: &SocketAddr) -> bool {
        let place = |address: SocketAddr| (address.ip(), address.port());
        // Usually the two ports differ, which takes one system call to find out.
        self.local_addr().is_ok_and(|own| {
            own.port() == to.port() && self.peer_addr().is_ok_and(|peer| place(peer) == place(own))
        })
    }

    /// Returns the address of the other end.
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
    /// Returns `NotConnected` if the connection is closed.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Returns the address of this end. See [`peer_addr`](TcpStream::peer_addr) for an example.
    ///
    /// # Errors
    /// Returns the errors of getsockname(2).
    ///
    /// # Cancellation
    /// This call does not wait.
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
    /// Returns `NotConnected` if the connection is closed.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Reads data that has arrived and leaves it in the kernel for the next read.
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
    /// Returns the errors of a read.
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buf, libc::MSG_PEEK)
    }

    /// Sets whether Nagle's algorithm is off. With `true`, small writes are sent at once.
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
    /// Returns the errors of setsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.set_option(NoDelay, nodelay)
    }

    /// Returns whether Nagle's algorithm is off. See [`set_nodelay`](TcpStream::set_nodelay).
    ///
    /// # Errors
    /// Returns the errors of getsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.0.option(NoDelay)
    }

    /// Sets what happens to unsent bytes when the last handle is dropped (`SO_LINGER`).
    ///
    /// - `None`, the default: the system continues to send them.
    /// - Zero: they are discarded, and the peer sees a reset.
    /// - Any other duration: the drop itself blocks its thread for at most that time. In a task
    ///   this blocks the worker, so call [`shutdown`](TcpStream::shutdown) and read to the end
    ///   instead.
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
    /// Returns the errors of setsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.0.set_option(Linger, linger)
    }

    /// Returns the value of `SO_LINGER`, in whole seconds. See
    /// [`set_linger`](TcpStream::set_linger).
    ///
    /// # Errors
    /// Returns the errors of getsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    ///
    /// # Examples
    /// See [`set_linger`](TcpStream::set_linger).
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.0.option(Linger)
    }

    /// Sets whether arriving data is acknowledged at once (`TCP_QUICKACK`). The kernel may turn
    /// this off again by itself, so repeat the call as needed. In std this is a method of
    /// `std::os::linux::net::TcpStreamExt`.
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
    /// Returns the errors of setsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        self.0.set_option(QuickAck, quickack)
    }

    /// Returns whether arriving data is acknowledged at once. See
    /// [`set_quickack`](TcpStream::set_quickack).
    ///
    /// # Errors
    /// Returns the errors of getsockopt(2).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn quickack(&self) -> io::Result<bool> {
        self.0.option(QuickAck)
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

    /// - given: a port of this machine that has no listener, and that the kernel assigns to the
    ///   connecting socket itself
    /// - when: `connect` is called
    /// - then: `ConnectionRefused`, with the address in its text, and nothing of the socket is left
    ///
    /// Simulates the kernel choosing, for the socket itself, the port that nothing listens on. In
    /// practice this happens about once in ten thousand attempts.
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
            // The failed attempt leaves nothing behind: the address can be bound without
            // SO_REUSEADDR.
            let next = Socket::open(own.family(), SocketType::STREAM).unwrap();
            next.bind(&own).unwrap();
        }
    }
}
