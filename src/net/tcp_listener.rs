//! A TCP socket that accepts connections.

use super::resolve::{ToSocketAddrs, try_each};
use super::server::Server;
use super::shell::{every_socket, hops, keepalive};
use super::socket::Socket;
use super::tcp_stream::TcpStream;
use crate::driver::Address;
use crate::driver::request::{ReuseAddress, SocketType};
use std::io;
use std::iter::FusedIterator;
use std::net::SocketAddr;
use std::time::Duration;

/// A TCP socket that accepts connections: [`std::net::TcpListener`] with waits that park the task.
///
/// Outside a runtime the same calls block the thread. The listener is closed when it is dropped.
/// Several tasks or threads may accept from one listener at once.
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
    /// Creates a listener on the first of the addresses that can be bound. Port 0 lets the system
    /// choose a port.
    ///
    /// The address may be reused as soon as an earlier listener is closed (`SO_REUSEADDR`), as with
    /// std. The queue of connections not yet accepted is as long as `net.core.somaxconn` allows.
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
    /// Returns the error of the last address tried, for instance `AddrInUse`, or `InvalidInput` if
    /// there is no address at all.
    ///
    /// # Cancellation
    /// Waits only while a name is resolved; see [the module](crate::net#names).
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        try_each(addr, |address| {
            let socket = Socket::open(address.family(), SocketType::STREAM)?;
            socket.set_option(ReuseAddress, true)?;
            socket.bind(&address)?;
            socket.listen()?;
            Ok(TcpListener(socket))
        })
    }

    /// Returns the address that the listener is bound to.
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
    /// Returns the errors of getsockname(2).
    ///
    /// # Cancellation
    /// This call does not wait.
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
    /// Returns the errors of accept(2). Most of them concern one connection or are transient, so a
    /// server should continue after them. `ConnectionAborted` means that the peer has already given
    /// up. "Too many open files" means that the process has reached its limit; the connection then
    /// stays in the queue, and a loop that retries at once would spin.
    ///
    /// # Cancellation
    /// This is a cancellation point. A connection that was already taken from the queue is
    /// returned. Any other stays in the queue.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = self.0.accept()?;
        Ok((TcpStream(socket), address))
    }

    /// Returns an endless iterator over the connections: `accept` in a loop, without the addresses.
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
    /// Behaves like [`accept`](TcpListener::accept). The iterator continues after an error, so a
    /// loop should leave by `?` or `break`.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Accepts connections and calls `f` for each of them on a separate task, for at most `limit`
    /// connections at a time.
    ///
    /// An error that `f` returns ends that connection and nothing else. This is the short form,
    /// which serves until its task is cancelled. [`server`](TcpListener::server) can also handle
    /// errors and stop on request.
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
    /// Returns the errors of [`Server::serve`]; usually that is `Cancelled`.
    ///
    /// # Panics
    /// Panics on a thread that runs no tasks. A panic of a connection ends that connection alone,
    /// and the panic hook reports it.
    ///
    /// # Cancellation
    /// Behaves like [`Server::serve`]: the connections are cancelled and awaited.
    #[track_caller]
    pub fn serve<F>(&self, limit: usize, f: F) -> io::Result<()>
    where
        F: Fn(TcpStream, SocketAddr) -> io::Result<()> + Send + Sync,
    {
        self.server().limit(limit).serve(f)
    }

    /// Returns a [`Server`] for this listener, on which options can be set before it serves.
    pub fn server(&self) -> Server<'_, TcpListener> {
        Server::new(self)
    }
}

/// The endless iterator returned by [`TcpListener::incoming`].
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
