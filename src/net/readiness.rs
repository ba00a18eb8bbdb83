//! Waiting for readiness without a transfer, for code such as futures that is built on readiness.
//! It is used together with [`set_nonblocking`](TcpStream::set_nonblocking), which such code needs
//! for its transfers.

use std::io;

use super::TcpStream;
use super::settings::Direction;

impl TcpStream {
    /// Waits until a read would return data, the end of the stream, or an error. Reads nothing.
    ///
    /// The settings of [`set_read_timeout`](TcpStream::set_read_timeout) and
    /// [`set_nonblocking`](TcpStream::set_nonblocking) do not affect this call. Another reader of
    /// the stream may take the data first, so the read that follows must be prepared to find none.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::io::{ErrorKind, Read, Write};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// let (mut server, _) = listener.accept()?;
    ///
    /// client.set_nonblocking(true)?;
    /// assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    /// server.write_all(b"x")?;
    /// client.wait_readable()?;
    /// assert_eq!(client.read(&mut [0])?, 1);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of the driver. Errors of the connection are left for the read.
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    #[track_caller]
    pub fn wait_readable(&self) -> io::Result<()> {
        self.0.wait_ready(Direction::Read)
    }

    /// Waits until a write would take data or return an error. Writes nothing. See
    /// [`wait_readable`](TcpStream::wait_readable).
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// client.wait_writable()?; // nothing is on its way yet
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of the driver. Errors of the connection are left for the write.
    ///
    /// # Cancellation
    /// This is a cancellation point. No data is lost.
    #[track_caller]
    pub fn wait_writable(&self) -> io::Result<()> {
        self.0.wait_ready(Direction::Write)
    }
}
