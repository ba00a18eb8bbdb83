//! A TCP socket that accepts connections.

use super::resolve::try_each;
use super::socket::Socket;
use super::tcp_stream::TcpStream;
use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;

/// A TCP socket that accepts connections: [`std::net::TcpListener`], on which a wait parks the task.
///
/// Outside a runtime the same calls block the thread. The listener is closed when it is dropped. Several tasks or threads may
/// accept from one listener at once.
///
/// # Examples
/// ```
/// use ecru::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let client = TcpStream::connect(listener.local_addr()?)?;
/// let (server, from) = listener.accept()?;
/// assert_eq!(from, client.local_addr()?);
/// # drop(server);
/// # std::io::Result::Ok(())
/// ```
pub struct TcpListener(pub(super) Socket);

impl TcpListener {
    /// Listens on the first address that allows it. Port 0 lets the system choose one.
    ///
    /// The address may be reused as soon as an earlier listener is gone (`SO_REUSEADDR`), as with std. The queue of
    /// connections not yet accepted is as long as `net.core.somaxconn` allows.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// assert_ne!(listener.local_addr()?.port(), 0);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// That of the last address tried, for instance `AddrInUse`; `InvalidInput` if there is no address at all.
    ///
    /// # Cancellation
    /// Does not wait, except for the resolution of a name, which is not interrupted.
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        try_each(addr, |address| {
            let socket = Socket::stream_for(&address)?;
            socket.bind_and_listen(&address)?;
            Ok(TcpListener(socket))
        })
    }

    /// The address listened on.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// assert!(listener.local_addr()?.ip().is_loopback());
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

    /// Another handle to the same listener, by a duplicate of its fd. Both take connections from one queue. A reference is
    /// often enough.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let clone = listener.try_clone()?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// assert_eq!(clone.accept()?.1, client.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// The process has too many open files.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn try_clone(&self) -> io::Result<TcpListener> {
        self.0.duplicate().map(TcpListener)
    }

    /// Waits for the next connection.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let (stream, address) = listener.accept()?;
    /// assert_eq!(stream.peer_addr()?, address);
    /// # drop(client);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of accept(2). Most concern one connection or pass by themselves, so a server goes on: `ConnectionAborted` if
    /// the peer has given up already; "too many open files" if this process has spent its limit, where the connection
    /// stays in the queue and trying again at once would spin.
    ///
    /// # Cancellation
    /// A cancel point. A connection that had been taken from the queue is returned; any other stays there.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = self.0.accept()?;
        Ok((TcpStream(socket), address))
    }

    /// The connections as they come: `accept` in a loop, without the addresses. It never ends.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// for stream in listener.incoming() {
    ///     assert_eq!(stream?.peer_addr()?, client.local_addr()?);
    ///     break;
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Cancellation
    /// As [`accept`](TcpListener::accept). The iterator goes on after an error, so a loop should leave by `?` or `break`.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Sets how many hops a packet may take (`IP_TTL`); accepted connections inherit it.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// listener.set_ttl(100)?;
    /// assert_eq!(listener.ttl()?, 100);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of setsockopt(2), for instance for a number over 255.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set_ttl(ttl)
    }

    /// How many hops a packet may take. See [`set_ttl`](TcpListener::set_ttl).
    ///
    /// # Errors
    /// Those of getsockopt(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn ttl(&self) -> io::Result<u32> {
        self.0.ttl()
    }

    /// The socket's pending error (`SO_ERROR`), which is cleared by this.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// assert!(listener.take_error()?.is_none());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Those of getsockopt(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// With `true`, an `accept` on this listener or its clones that would wait fails with `WouldBlock` instead, and is no
    /// cancel point. With `false`, as at first, it waits. Accepted streams are not affected.
    ///
    /// The fd itself is in non-blocking mode in either case.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::TcpListener;
    /// use std::io::ErrorKind;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// listener.set_nonblocking(true)?;
    /// assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// None at present.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking);
        Ok(())
    }
}

/// The iterator of [`TcpListener::incoming`]. It never ends.
#[derive(Debug)]
#[must_use = "nothing is accepted before `next`"]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("TcpListener");
        if let Ok(address) = self.local_addr() {
            fields.field("addr", &address);
        }
        fields.field("fd", &self.as_raw_fd()).finish()
    }
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<TcpListener>();
};
