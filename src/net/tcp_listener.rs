//! A TCP socket that accepts connections.

use super::address::Address;
use super::resolve::try_each;
use super::server::Server;
use super::shell::{every_socket, hops, keepalive};
use super::socket::Socket;
use super::tcp_stream::TcpStream;
use rustix::net::SocketType;
use std::io;
use std::iter::FusedIterator;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::Duration;

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
    /// Waits for the resolution of a name only; see [the module](crate::net#names).
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        try_each(addr, |address| {
            let socket = Socket::open(address.family(), SocketType::STREAM)?;
            socket.reuse_address()?;
            socket.bind(&address)?;
            socket.listen()?;
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

    /// Serves: accepts connections, at most `limit` of them at a time, and calls `f` for each, on a task of its own.
    ///
    /// Errors that `f` returns end their connection and nothing else. [`server`](TcpListener::server) has them handled, stops on request, and
    /// more; this is the short form, which goes on until its task is cancelled.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::io::{Read, Write};
    ///
    /// ecru::run(|| {
    ///     let listener = TcpListener::bind("127.0.0.1:0")?;
    ///     ecru::scope(|s| {
    ///         s.spawn_daemon(|| {
    ///             listener.serve(100, |mut stream, _| {
    ///                 let mut buffer = [0; 1024];
    ///                 loop {
    ///                     match stream.read(&mut buffer)? {
    ///                         0 => return Ok(()),
    ///                         count => stream.write_all(&buffer[..count])?,
    ///                     }
    ///                 }
    ///             })
    ///         });
    ///         let mut client = TcpStream::connect(listener.local_addr()?)?;
    ///         client.write_all(b"echo")?;
    ///         let mut buffer = [0; 4];
    ///         client.read_exact(&mut buffer)?;
    ///         assert_eq!(&buffer, b"echo");
    ///         std::io::Result::Ok(())
    ///     })
    /// })
    /// # .unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of [`Server::serve`]: `Cancelled`, as a rule.
    ///
    /// # Panics
    /// With the first panic of a connection, after all have ended; on a thread that runs no tasks.
    ///
    /// # Cancellation
    /// As [`Server::serve`]: the connections are cancelled and awaited.
    pub fn serve<F>(&self, limit: usize, f: F) -> io::Result<()>
    where
        F: Fn(TcpStream, SocketAddr) -> io::Result<()> + Send + Sync,
    {
        self.server().limit(limit).serve(f)
    }

    /// Prepares to serve connections: see [`Server`].
    pub fn server(&self) -> Server<'_, TcpListener> {
        Server::new(self)
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

every_socket!(
    TcpListener,
    SocketAddr,
    "let socket = ecru::net::TcpListener::bind(\"127.0.0.1:0\")?;"
);
hops!(TcpListener, "let socket = ecru::net::TcpListener::bind(\"127.0.0.1:0\")?;");
keepalive!(TcpListener, "let socket = ecru::net::TcpListener::bind(\"127.0.0.1:0\")?;");
