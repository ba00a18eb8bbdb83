//! A Unix socket that accepts connections.

use super::server::Server;
use super::shell::every_socket;
use super::socket::Socket;
use super::unix_stream::UnixStream;
use crate::driver::request::{AddressFamily, SocketType};
use std::io;
use std::iter::FusedIterator;
use std::os::unix::net::SocketAddr;
use std::path::Path;

/// A Unix socket that accepts connections: [`std::os::unix::net::UnixListener`] with waits that
/// park the task.
///
/// Outside a runtime the same calls block the thread. The listener is closed when it is dropped.
/// Its path stays, as with std, and must be removed before it can be bound again. An abstract name
/// disappears with its listener.
///
/// # Examples
/// ```
/// use ecru::net::{UnixListener, UnixStream};
///
/// # let path = std::env::temp_dir().join(format!("ecru-listener-{}", std::process::id()));
/// let listener = UnixListener::bind(&path)?;
/// let client = UnixStream::connect(&path)?;
/// let (server, _) = listener.accept()?;
/// # drop((client, server));
/// std::fs::remove_file(&path)?;
/// # std::io::Result::Ok(())
/// ```
pub struct UnixListener(pub(super) Socket);

impl UnixListener {
    /// Creates a listener bound to a path. The path is created. See the type for an example.
    ///
    /// # Errors
    /// Returns `AddrInUse` if the path already exists, and `InvalidInput` if it is too long or
    /// contains a zero byte.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Creates a listener bound to an address, which may be an abstract name. See
    /// [`UnixStream::connect_addr`] for an example.
    ///
    /// # Errors
    /// Returns the same errors as [`bind`](UnixListener::bind).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixListener> {
        let socket = Socket::open(AddressFamily::UNIX, SocketType::STREAM)?;
        socket.bind(socket_addr)?;
        socket.listen()?;
        Ok(UnixListener(socket))
    }

    /// Waits for the next connection. The returned address is the client's own, which is usually
    /// unnamed. See the type for an example.
    ///
    /// # Errors
    /// Returns the errors of accept(2); see [`TcpListener::accept`](super::TcpListener::accept).
    ///
    /// # Cancellation
    /// This is a cancellation point. A connection that was already taken from the queue is
    /// returned. Any other stays in the queue.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (socket, address) = self.0.accept()?;
        Ok((UnixStream(socket), address))
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UnixListener;
    /// use std::os::linux::net::SocketAddrExt;
    /// use std::os::unix::net::SocketAddr;
    ///
    /// let name = format!("ecru-local-addr-{}", std::process::id());
    /// let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    /// assert_eq!(listener.local_addr()?.as_abstract_name(), Some(name.as_bytes()));
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

    /// Returns an endless iterator over the connections: `accept` in a loop, without the addresses.
    /// `for stream in &listener` does the same.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{UnixListener, UnixStream};
    /// # use std::os::linux::net::SocketAddrExt;
    /// # use std::os::unix::net::SocketAddr;
    /// # let name = format!("ecru-incoming-{}", std::process::id());
    /// # let address = SocketAddr::from_abstract_name(&name)?;
    ///
    /// let listener = UnixListener::bind_addr(&address)?;
    /// let client = UnixStream::connect_addr(&address)?;
    /// for stream in listener.incoming() {
    ///     assert!(stream?.peer_addr()?.is_unnamed());
    ///     break;
    /// }
    /// # drop(client);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Cancellation
    /// Behaves like [`accept`](UnixListener::accept). The iterator continues after an error, so a
    /// loop should leave by `?` or `break`.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }

    /// Accepts connections and calls `f` for each of them on a separate task, for at most `limit`
    /// connections at a time.
    ///
    /// An error that `f` returns ends that connection and nothing else. This is the short form,
    /// which serves until its task is cancelled. [`server`](UnixListener::server) can also handle
    /// errors and stop on request.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{UnixListener, UnixStream};
    /// # use std::os::linux::net::SocketAddrExt;
    /// # use std::os::unix::net::SocketAddr;
    /// use std::io::{Read, Write};
    ///
    /// # let name = format!("ecru-serve-{}", std::process::id());
    /// # let address = SocketAddr::from_abstract_name(&name).unwrap();
    /// ecru::run(|| {
    ///     let listener = UnixListener::bind_addr(&address)?;
    ///     ecru::scope(|s| {
    ///         s.spawn_daemon(|| listener.serve(100, |mut stream, _| stream.write_all(b"hello")));
    ///         let mut text = String::new();
    ///         UnixStream::connect_addr(&address)?.read_to_string(&mut text)?;
    ///         assert_eq!(text, "hello");
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
        F: Fn(UnixStream, SocketAddr) -> io::Result<()> + Send + Sync,
    {
        self.server().limit(limit).serve(f)
    }

    /// Returns a [`Server`] for this listener, on which options can be set before it serves.
    pub fn server(&self) -> Server<'_, UnixListener> {
        Server::new(self)
    }
}

every_socket!(
    UnixListener,
    SocketAddr,
    "# use std::os::linux::net::SocketAddrExt;\n# let name = format!(\"ecru-every-{}-{:p}\", std::process::id(), &0);\n# let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;\nlet socket = ecru::net::UnixListener::bind_addr(&address)?;"
);

/// The endless iterator returned by [`UnixListener::incoming`].
#[derive(Debug)]
#[must_use = "nothing is accepted before `next`"]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl FusedIterator for UnixIncoming<'_> {}

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = UnixIncoming<'a>;

    fn into_iter(self) -> UnixIncoming<'a> {
        self.incoming()
    }
}
