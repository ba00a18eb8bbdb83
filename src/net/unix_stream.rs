//! A connection between two processes of one machine.

use super::settings::Direction;
use super::shell::{every_socket, reads_and_writes, time_limits};
use super::socket::Socket;
use crate::driver::request::{AddressFamily, SocketType};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// A connection between processes of one machine: [`std::os::unix::net::UnixStream`] with waits
/// that park the task.
///
/// Outside a runtime the same calls block the thread. Several tasks or threads may read and write
/// at once through `&UnixStream`, which also implements [`Read`] and [`Write`]. Addresses are
/// [std's](std::os::unix::net::SocketAddr), including abstract names.
///
/// # Examples
/// ```
/// use ecru::net::UnixStream;
/// use std::io::{Read, Write};
///
/// let (mut one, mut other) = UnixStream::pair()?;
/// one.write_all(b"hello")?;
/// let mut buffer = [0; 5];
/// other.read_exact(&mut buffer)?;
/// assert_eq!(&buffer, b"hello");
/// # std::io::Result::Ok(())
/// ```
///
/// # Cancellation
/// A cancelled read has taken nothing: the data stays in the kernel for the next read. A cancelled
/// write has sent nothing: if the kernel had already taken bytes, the write returns `Ok(n)`, and
/// the next wait fails.
pub struct UnixStream(pub(super) Socket);

impl UnixStream {
    /// Connects to the listener at a path.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UnixStream;
    /// use std::io::ErrorKind;
    ///
    /// let error = UnixStream::connect("/nowhere/at/all").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// ```
    ///
    /// # Errors
    /// Returns `NotFound` if the path does not exist, `ConnectionRefused` if no listener is bound
    /// to it, and `InvalidInput` if the path is too long or contains a zero byte.
    ///
    /// # Cancellation
    /// This is a cancellation point while the listener's queue is full. A cancelled attempt is
    /// abandoned, and its socket is closed.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to the listener at an address, which may be an abstract name.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{UnixListener, UnixStream};
    /// use std::os::linux::net::SocketAddrExt;
    /// use std::os::unix::net::SocketAddr;
    ///
    /// let name = format!("ecru-connect-{}", std::process::id());
    /// let address = SocketAddr::from_abstract_name(name)?;
    /// let listener = UnixListener::bind_addr(&address)?;
    /// let stream = UnixStream::connect_addr(&address)?;
    /// # drop((listener, stream));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`connect`](UnixStream::connect).
    ///
    /// # Cancellation
    /// Behaves like [`connect`](UnixStream::connect).
    pub fn connect_addr(socket_addr: &SocketAddr) -> io::Result<UnixStream> {
        let socket = Socket::open(AddressFamily::UNIX, SocketType::STREAM)?;
        socket.connect(socket_addr, None)?;
        Ok(UnixStream(socket))
    }

    /// Creates two streams that are connected to each other. See the type for an example.
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = Socket::pair(SocketType::STREAM)?;
        Ok((UnixStream(one), UnixStream(other)))
    }

    /// Returns the address of this end.
    ///
    /// # Examples
    /// ```
    /// let (stream, _other) = ecru::net::UnixStream::pair()?;
    /// assert!(stream.local_addr()?.is_unnamed());
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

    /// Returns the address of the other end.
    ///
    /// # Examples
    /// ```
    /// let (stream, _other) = ecru::net::UnixStream::pair()?;
    /// assert!(stream.peer_addr()?.is_unnamed());
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

    /// Closes the reading half, the writing half, or both. Calls in progress on that half return.
    ///
    /// A peer's write that waits is not among them if only the reading half is closed: Linux does
    /// not tell it. It returns when the stream is closed, or shut in both directions.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{Shutdown, UnixStream};
    /// use std::io::{Read, Write};
    ///
    /// let (mut one, mut other) = UnixStream::pair()?;
    /// one.write_all(b"that is all")?;
    /// one.shutdown(Shutdown::Write)?;
    /// let mut text = String::new();
    /// other.read_to_string(&mut text)?; // until the end of the stream
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

    /// Reads data that has arrived and leaves it in the kernel for the next read. (Not yet stable
    /// in std.)
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UnixStream;
    /// use std::io::{Read, Write};
    ///
    /// let (mut one, mut other) = UnixStream::pair()?;
    /// one.write_all(b"x")?;
    /// let mut byte = [0];
    /// assert_eq!(other.peek(&mut byte)?, 1);
    /// assert_eq!(other.read(&mut byte)?, 1);
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
}

every_socket!(UnixStream, SocketAddr, "let (socket, _other) = ecru::net::UnixStream::pair()?;");
time_limits!(UnixStream, "let (socket, _other) = ecru::net::UnixStream::pair()?;");
reads_and_writes!(UnixStream);
