//! hyper's I/O traits over an ecru stream.
#![expect(unsafe_code, reason = "tells hyper's buffer how much has been read into it")]

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ecru::net::{Polled, Shutdown, TcpStream};
use hyper::rt::{Read, ReadBufCursor, Write};

/// A [`TcpStream`] with the polled interface that hyper needs.
///
/// It can be polled in [`spawn_future`](ecru::Scope::spawn_future), inside [`ecru::block_on`], or in
/// any other runtime: see [`Polled`].
///
/// # Examples
/// See [the crate](crate).
#[derive(Debug)]
pub struct EcruIo {
    stream: Polled<TcpStream>,
}

impl EcruIo {
    /// Takes the stream, and sets it to [non-blocking mode](TcpStream::set_nonblocking), which its
    /// clones share.
    ///
    /// # Errors
    /// Returns the errors of `set_nonblocking`.
    pub fn new(stream: TcpStream) -> io::Result<EcruIo> {
        Ok(EcruIo { stream: Polled::new(stream)? })
    }

    /// Returns the stream, for its addresses and options.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Returns the stream, which waits again: see [`TcpStream::set_nonblocking`].
    #[must_use = "dropping the stream closes it"]
    pub fn into_inner(self) -> TcpStream {
        let stream = self.stream.into_inner();
        // It does not fail.
        let _ = stream.set_nonblocking(false);
        stream
    }
}

impl Read for EcruIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: `poll_read_uninit` does not make initialized bytes uninitialized.
        let room = unsafe { buffer.as_mut() };
        let count = ready!(self.stream.poll_read_uninit(context, room))?;
        // SAFETY: this many bytes at the beginning of `room` have been initialized.
        unsafe { buffer.advance(count) };
        Poll::Ready(Ok(()))
    }
}

impl Write for EcruIo {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write(context, bytes)
    }

    /// Returns at once, because written bytes are already in the kernel.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Tells the peer that no more bytes will come. A peer that has already disconnected is no
    /// error.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.stream().shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write_vectored(context, parts)
    }
}
