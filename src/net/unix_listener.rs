//! A Unix socket that accepts connections.

use super::server::Server;
use super::shell::every_socket;
use super::socket::Socket;
use super::unix_stream::UnixStream;
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::iter::FusedIterator;
use std::os::unix::net::SocketAddr;
use std::path::Path;

/// A Unix socket that accepts connections: [`std::os::unix::net::UnixListener`], on which a wait parks the task.
///
/// Outside a runtime the same calls block the thread. The listener is closed when it is dropped; its path stays, as with std, and
/// whoever wants to bind it again removes it first. Abstract names go with the listener.
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
    /// Listens at a path, which is made. See the type for an example.
    ///
    /// # Errors
    /// `AddrInUse` if the path is there already, `InvalidInput` if it is too long or has a zero in it.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Listens at an address, which may be an abstract name. See [`UnixStream::connect_addr`] for an example.
    ///
    /// # Errors
    /// As [`bind`](UnixListener::bind).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixListener> {
        let socket = Socket::open(AddressFamily::UNIX, SocketType::STREAM)?;
        socket.bind(socket_addr)?;
        socket.listen()?;
        Ok(UnixListener(socket))
    }

    /// Waits for the next connection. The address is the client's own, which it mostly has none of. See the type for an example.
    ///
    /// # Errors
    /// Those of accept(2); see [`TcpListener::accept`](super::TcpListener::accept).
    ///
    /// # Cancellation
    /// A cancel point. A connection that had been taken from the queue is returned; any other stays there.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (socket, address) = self.0.accept()?;
        Ok((UnixStream(socket), address))
    }

    /// The address listened at.
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
    /// Those of getsockname(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The connections as they come: `accept` in a loop, without the addresses. It never ends. `for stream in &listener` does
    /// the same.
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
    /// As [`accept`](UnixListener::accept). The iterator goes on after an error, so a loop should leave by `?` or `break`.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }

    /// Serves: accepts connections, at most `limit` of them at a time, and calls `f` for each, on a task of its own.
    ///
    /// Errors that `f` returns end their connection and nothing else. [`server`](UnixListener::server) has them handled, stops on request, and
    /// more; this is the short form, which goes on until its task is cancelled.
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
    /// Those of [`Server::serve`]: `Cancelled`, as a rule.
    ///
    /// # Panics
    /// With the first panic of a connection, after all have ended; on a thread that runs no tasks.
    ///
    /// # Cancellation
    /// As [`Server::serve`]: the connections are cancelled and awaited.
    pub fn serve<F>(&self, limit: usize, f: F) -> io::Result<()>
    where
        F: Fn(UnixStream, SocketAddr) -> io::Result<()> + Send + Sync,
    {
        self.server().limit(limit).serve(f)
    }

    /// Prepares to serve connections: see [`Server`].
    pub fn server(&self) -> Server<'_, UnixListener> {
        Server::new(self)
    }
}

every_socket!(
    UnixListener,
    SocketAddr,
    "# use std::os::linux::net::SocketAddrExt;\n# let name = format!(\"ecru-every-{}-{:p}\", std::process::id(), &0);\n# let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;\nlet socket = ecru::net::UnixListener::bind_addr(&address)?;"
);

/// The iterator of [`UnixListener::incoming`]. It never ends.
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
