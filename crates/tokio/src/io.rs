//! tokio's I/O traits over an ecru socket.
#![expect(unsafe_code, reason = "tells tokio's buffer how much has been read into it")]

use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ecru::net::{Pollable, Polled, Shutdown, TcpStream, UnixStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of ecru with tokio's interface, for crates that take any `AsyncRead + AsyncWrite`.
///
/// It needs no tokio runtime, and can be polled in [`block_on`](ecru::block_on),
/// [`spawn_future`](ecru::Scope::spawn_future), `wait`, or a task of tokio: see [`Polled`].
///
/// # Examples
/// ```
/// use ecru::net::{TcpListener, TcpStream};
/// use ecru_tokio::EcruIo;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// ecru::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let mut client = EcruIo::new(TcpStream::connect(listener.local_addr()?)?)?;
///     let mut server = EcruIo::new(listener.accept()?.0)?;
///     ecru::block_on(async {
///         client.write_all(b"hello").await?;
///         client.shutdown().await?;
///         let mut text = String::new();
///         server.read_to_string(&mut text).await?;
///         assert_eq!(text, "hello");
///         Ok(())
///     })?
/// })
/// # .map_err(|error: std::io::Error| panic!("{error}")).unwrap();
/// ```
#[derive(Debug)]
pub struct EcruIo<S: Pollable = TcpStream> {
    stream: Polled<S>,
}

impl<S: Pollable> EcruIo<S> {
    /// Takes the stream, and sets it to non-blocking mode (`set_nonblocking`), which its clones
    /// share.
    ///
    /// # Errors
    /// Returns the errors of `set_nonblocking`.
    pub fn new(stream: S) -> io::Result<EcruIo<S>> {
        Ok(EcruIo { stream: Polled::new(stream)? })
    }

    /// Returns the stream, for its addresses and options.
    #[must_use]
    pub fn stream(&self) -> &S {
        self.stream.get_ref()
    }

    /// Returns the stream, which stays in non-blocking mode.
    #[must_use = "dropping the stream closes it"]
    pub fn into_inner(self) -> S {
        self.stream.into_inner()
    }
}

impl<S: Pollable> AsyncRead for EcruIo<S>
where
    for<'s> &'s S: Read + Write,
{
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: `poll_read_uninit` does not make initialized bytes uninitialized.
        let room = unsafe { buffer.unfilled_mut() };
        let count = ready!(self.stream.poll_read_uninit(context, room))?;
        // SAFETY: this many bytes at the beginning of `room` have been initialized.
        unsafe { buffer.assume_init(count) };
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

macro_rules! writers {
    ($($stream:ty),+) => {$(
        impl AsyncWrite for EcruIo<$stream> {
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

            /// Tells the peer that no more bytes will come. A peer that has already disconnected is
            /// no error.
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
    )+};
}

writers!(TcpStream, UnixStream);
