//! A TCP connection.

use super::resolve::try_each;
use super::settings::{Direction, check_timeout};
use super::socket::Socket;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
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
    /// A cancelled attempt is given up, and its socket closed. The resolution of a name is not interrupted.
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
        TcpStream::connect_before(addr, Instant::now().checked_add(timeout))
    }

    fn connect_before(address: &SocketAddr, deadline: Option<Instant>) -> io::Result<TcpStream> {
        let socket = Socket::stream_for(address)?;
        socket.connect(address, deadline)?;
        Ok(TcpStream(socket))
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

    /// Another handle to the same connection, by a duplicate of its fd. Time-outs and [`set_nonblocking`] are shared: a
    /// change on one shows on the other.
    ///
    /// A reference is often enough, since `&TcpStream` reads and writes as well.
    ///
    /// [`set_nonblocking`]: TcpStream::set_nonblocking
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::io::{Read, Write};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let (mut server, _) = listener.accept()?;
    ///
    /// client.try_clone()?.write_all(b"x")?; // dropping the clone does not close the connection
    /// server.read_exact(&mut [0])?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// The process has too many open files.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        self.0.duplicate().map(TcpStream)
    }

    /// Limits how long each read may wait. `None` is no limit, as at first.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::io::{ErrorKind, Read};
    /// use std::time::Duration;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// client.set_read_timeout(Some(Duration::from_millis(5)))?;
    /// let error = client.read(&mut [0]).unwrap_err(); // nobody writes
    /// assert_eq!(error.kind(), ErrorKind::TimedOut);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` for a limit of zero.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn set_read_timeout(&self, dur: Option<Duration>) -> io::Result<()> {
        self.0.set_timeout(Direction::Read, dur)
    }

    /// Limits how long each write may wait. `None` is no limit, as at first. See
    /// [`set_read_timeout`](TcpStream::set_read_timeout) for an example.
    ///
    /// # Errors
    /// `InvalidInput` for a limit of zero.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn set_write_timeout(&self, dur: Option<Duration>) -> io::Result<()> {
        self.0.set_timeout(Direction::Write, dur)
    }

    /// The limit set by [`set_read_timeout`](TcpStream::set_read_timeout).
    ///
    /// # Errors
    /// None at present.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.timeout(Direction::Read))
    }

    /// The limit set by [`set_write_timeout`](TcpStream::set_write_timeout).
    ///
    /// # Errors
    /// None at present.
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(self.0.timeout(Direction::Write))
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
        self.0.set_nodelay(nodelay)
    }

    /// Whether Nagle's algorithm is off. See [`set_nodelay`](TcpStream::set_nodelay).
    ///
    /// # Errors
    /// Those of getsockopt(2).
    ///
    /// # Cancellation
    /// Does not wait.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.0.nodelay()
    }

    /// Sets how many hops a packet may take (`IP_TTL`).
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let stream = TcpStream::connect(listener.local_addr()?)?;
    /// stream.set_ttl(100)?;
    /// assert_eq!(stream.ttl()?, 100);
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

    /// How many hops a packet may take. See [`set_ttl`](TcpStream::set_ttl).
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
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let stream = TcpStream::connect(listener.local_addr()?)?;
    /// assert!(stream.take_error()?.is_none());
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

    /// With `true`, calls on this stream and its clones that would wait fail with `WouldBlock` instead; they are no cancel
    /// points then. With `false`, as at first, they wait.
    ///
    /// The fd itself is in non-blocking mode in either case.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::io::{ErrorKind, Read};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// client.set_nonblocking(true)?;
    /// assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
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

/// See [`TcpStream`] for what a cancelled read loses: nothing.
impl Read for &TcpStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buf, 0)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.receive_vectored(bufs)
    }
}

/// See [`TcpStream`] for what a cancelled read loses: nothing.
impl Read for TcpStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

/// See [`TcpStream`] for what a cancelled write has done.
impl Write for &TcpStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.send(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored(bufs)
    }

    /// Does nothing: what has been written is on its way.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// See [`TcpStream`] for what a cancelled write has done.
impl Write for TcpStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    /// Does nothing: what has been written is on its way.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("TcpStream");
        if let Ok(address) = self.local_addr() {
            fields.field("addr", &address);
        }
        if let Ok(address) = self.peer_addr() {
            fields.field("peer", &address);
        }
        fields.field("fd", &self.as_raw_fd()).finish()
    }
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<TcpStream>();
};
