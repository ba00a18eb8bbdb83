//! hyper's I/O traits over an ecru stream.
#![expect(unsafe_code, reason = "tells hyper's buffer how much has been read into it")]

use std::io::{self, IoSlice, Read as _, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ecru::RuntimeHandle;
use ecru::net::{Shutdown, TcpStream};
use hyper::rt::{Read, ReadBufCursor, Write};

use crate::watch::Watch;

/// A [`TcpStream`] with the polled interface that hyper needs.
///
/// It can be polled inside [`ecru::block_on`], or in any other runtime. Its waits take place in the
/// run of ecru in which it was created, and the waker is called from there. It is usable as long as
/// that run.
///
/// # Examples
/// See [the crate](crate).
#[derive(Debug)]
pub struct EcruIo {
    stream: Arc<TcpStream>,
    run: RuntimeHandle,
    reading: Side,
    writing: Side,
}

impl EcruIo {
    /// Takes the stream, and sets it to [non-blocking mode](TcpStream::set_nonblocking), which its
    /// clones share.
    ///
    /// # Errors
    /// Returns the errors of `set_nonblocking`.
    ///
    /// # Panics
    /// Panics outside a run of ecru.
    #[track_caller]
    pub fn new(stream: TcpStream) -> io::Result<EcruIo> {
        stream.set_nonblocking(true)?;
        Ok(EcruIo {
            stream: Arc::new(stream),
            run: RuntimeHandle::current(),
            reading: Side::default(),
            writing: Side::default(),
        })
    }

    /// Returns the stream, for its addresses and options.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn poll_reading<T>(
        &mut self,
        context: &Context<'_>,
        attempt: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.reading.poll(&self.stream, &self.run, context, TcpStream::wait_readable, attempt)
    }

    fn poll_writing<T>(
        &mut self,
        context: &Context<'_>,
        attempt: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.writing.poll(&self.stream, &self.run, context, TcpStream::wait_writable, attempt)
    }
}

/// One direction of a stream, and the wait in progress for it.
#[derive(Debug, Default)]
struct Side(Option<Watch>);

impl Side {
    fn poll<T>(
        &mut self,
        stream: &Arc<TcpStream>,
        run: &RuntimeHandle,
        context: &Context<'_>,
        wait: fn(&TcpStream) -> io::Result<()>,
        mut attempt: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        if let Some(watch) = &self.0 {
            let outcome = ready!(watch.poll(context));
            self.0 = None;
            outcome?;
        }
        match attempt(stream) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let stream = Arc::clone(stream);
                self.0 = Some(Watch::begin(run, context, move || wait(&stream))?);
                Poll::Pending
            }
            other => Poll::Ready(other),
        }
    }
}

impl Read for EcruIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.initialize_unfilled();
        let count = ready!(self.poll_reading(context, |mut stream| stream.read(room)))?;
        // SAFETY: `Read` of a `TcpStream` returns the number of bytes that it has written to
        // `room`, which is initialized throughout.
        unsafe { buffer.advance(count) };
        Poll::Ready(Ok(()))
    }
}

impl Write for EcruIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(context, |mut stream| stream.write(bytes))
    }

    /// Returns at once, because written bytes are already in the kernel.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Tells the peer that no more bytes will come. A peer that has already disconnected is no
    /// error.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(context, |mut stream| stream.write_vectored(parts))
    }
}
