//! Waiting until a transfer would not have to wait: for code that was made for readiness and not for calls that wait, as
//! futures are. Together with [`set_nonblocking`](TcpStream::set_nonblocking), which such code needs for its transfers.

use std::io;

use super::TcpStream;
use super::settings::Direction;

impl TcpStream {
    /// Waits until there is something to read, the end of the stream, or an error that a read would report. Reads nothing.
    ///
    /// Neither [`set_read_timeout`](TcpStream::set_read_timeout) nor [`set_nonblocking`](TcpStream::set_nonblocking) matters
    /// to it. Who else reads from the stream may be faster, so what follows had better not rely on it.
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
    /// The driver's. Errors of the connection are left for the read.
    ///
    /// # Cancellation
    /// A cancel point. Nothing is lost.
    #[track_caller]
    pub fn wait_readable(&self) -> io::Result<()> {
        self.0.wait_ready(Direction::Read)
    }

    /// Waits until there is room to write, or an error that a write would report. Writes nothing. See
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
    /// The driver's. Errors of the connection are left for the write.
    ///
    /// # Cancellation
    /// A cancel point. Nothing is lost.
    #[track_caller]
    pub fn wait_writable(&self) -> io::Result<()> {
        self.0.wait_ready(Direction::Write)
    }
}
