//! tokio's streams of bytes in direct style.

use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::wait;

/// A stream of tokio's as `Read` and `Write`. Each call that has to wait parks the task.
///
/// Dropping it drops the stream. What a stream keeps back until it is flushed, as one with TLS does,
/// is lost then: call `flush`, or [`shutdown`](Direct::shutdown).
///
/// # Cancellation
/// Reads and writes are cancellation points. A cancelled one has transferred nothing.
///
/// # Examples
/// ```
/// use ecru_tokio::Direct;
/// use std::io::{Read, Write};
///
/// ecru::run(|| {
///     let (one, other) = tokio::io::duplex(64);
///     let (mut one, mut other) = (Direct::new(one), Direct::new(other));
///     one.write_all(b"hello")?;
///     one.shutdown()?;
///     let mut text = String::new();
///     other.read_to_string(&mut text)?;
///     assert_eq!(text, "hello");
///     Ok(())
/// })
/// # .map_err(|error: std::io::Error| panic!("{error}")).unwrap();
/// ```
#[derive(Debug)]
pub struct Direct<S> {
    stream: S,
}

impl<S> Direct<S> {
    /// Takes the stream.
    pub fn new(stream: S) -> Direct<S> {
        Direct { stream }
    }

    /// Returns the stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns the stream.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the stream.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Unpin> Direct<S> {
    #[track_caller]
    fn wait<T>(
        &mut self,
        mut poll: impl FnMut(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        wait(poll_fn(|context| poll(Pin::new(&mut self.stream), context)))?
    }
}

impl<S: AsyncWrite + Unpin> Direct<S> {
    /// Flushes the stream and ends the direction of writes, as `AsyncWriteExt::shutdown` does.
    ///
    /// # Errors
    /// Returns the stream's errors, and a cancellation.
    ///
    /// # Cancellation
    /// This is a cancellation point. It can be called again after it was cancelled.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.wait(|stream, context| stream.poll_shutdown(context))
    }
}

impl<S: AsyncRead + Unpin> Read for Direct<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        self.wait(|stream, context| stream.poll_read(context, &mut buffer))?;
        Ok(buffer.filled().len())
    }
}

impl<S: AsyncWrite + Unpin> Write for Direct<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(|stream, context| stream.poll_write(context, bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.wait(|stream, context| stream.poll_write_vectored(context, parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.wait(|stream, context| stream.poll_flush(context))
    }
}
