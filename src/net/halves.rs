//! A stream split into two halves that can be moved to two tasks.
//!
//! Both halves share the stream through one `Arc`, and so share one fd. No lock is needed, because
//! a stream reads and writes by shared reference.

use super::{TcpStream, UnixStream};
use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

/// The reading half of a stream. See [`TcpStream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf<S = TcpStream> {
    stream: Arc<S>,
}

/// The writing half of a stream. See [`TcpStream::into_split`]. Dropping it shuts down the stream's
/// writing side, so that the peer reads the end of the stream.
#[derive(Debug)]
pub struct OwnedWriteHalf<S: Split = TcpStream> {
    /// `None` once the stream has been taken out, so that the drop does not shut it down.
    stream: Option<Arc<S>>,
}

/// A stream that can be split into two halves: [`TcpStream`] or [`UnixStream`].
///
/// # Examples
/// ```
/// use ecru::net::{OwnedReadHalf, OwnedWriteHalf, Split};
/// use std::io::{self, Read, Write};
///
/// /// Sends back what comes, in both kinds of streams.
/// fn echo<S: Split>(mut from: OwnedReadHalf<S>, mut to: OwnedWriteHalf<S>) -> io::Result<u64>
/// where
///     OwnedReadHalf<S>: Read,
///     OwnedWriteHalf<S>: Write,
/// {
///     io::copy(&mut from, &mut to)
/// }
/// ```
pub trait Split: Sized + sealed::Sealed {
    #[doc(hidden)]
    fn __shut_writing(&self);
}

mod sealed {
    #[expect(unnameable_types, reason = "seals the trait")]
    pub trait Sealed {}
    impl Sealed for super::TcpStream {}
    impl Sealed for super::UnixStream {}
}

fn split<S: Split>(stream: S) -> (OwnedReadHalf<S>, OwnedWriteHalf<S>) {
    let stream = Arc::new(stream);
    (OwnedReadHalf { stream: Arc::clone(&stream) }, OwnedWriteHalf { stream: Some(stream) })
}

macro_rules! splits {
    ($($name:ident, $setup:literal);*) => { $(
        impl Split for $name {
            fn __shut_writing(&self) {
                // The peer may have closed first, which has the same effect.
                let _ = self.shutdown(Shutdown::Write);
            }
        }

        impl $name {
            /// Splits the stream into a reading half and a writing half, for two tasks with
            /// independent lifetimes. Two tasks of one scope need no halves, because a `&` to the
            /// stream reads and writes as well.
            ///
            /// Dropping the writing half shuts down the writing side. The stream is closed when
            /// both halves have been dropped.
            ///
            /// # Examples
            /// ```
            /// use std::io::{Read, Write};
            ///
            #[doc = $setup]
            /// let (mut reader, mut writer) = stream.into_split();
            /// writer.write_all(b"hello")?;
            /// drop(writer);
            /// let mut text = String::new();
            /// peer.read_to_string(&mut text)?;
            /// assert_eq!(text, "hello");
            ///
            /// peer.write_all(b"!")?; // the other direction is still open
            /// reader.read_exact(&mut [0])?;
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Cancellation
            /// This call does not wait. Cancelling a task that uses one half does not affect the
            /// other.
            pub fn into_split(self) -> (OwnedReadHalf<$name>, OwnedWriteHalf<$name>) {
                split(self)
            }
        }
    )* };
}

splits!(
    TcpStream,
    "# let listener = ecru::net::TcpListener::bind(\"127.0.0.1:0\")?;\nlet stream = ecru::net::TcpStream::connect(listener.local_addr()?)?;\nlet (mut peer, _) = listener.accept()?;";
    UnixStream,
    "let (stream, mut peer) = ecru::net::UnixStream::pair()?;"
);

impl<S: Split> OwnedReadHalf<S> {
    /// Joins the two halves of one stream again.
    ///
    /// # Errors
    /// Returns both halves if they belong to different streams.
    pub fn reunite(self, other: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
        other.reunite(self)
    }
}

impl<S: Split> OwnedWriteHalf<S> {
    /// Joins the two halves of one stream again.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UnixStream;
    ///
    /// let (one, other) = UnixStream::pair()?;
    /// let (reader, writer) = one.into_split();
    /// let (stranger, _writer) = other.into_split();
    /// let error = writer.reunite(stranger).unwrap_err();
    /// let stream = error.1.reunite(reader).unwrap();
    /// # drop(stream);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    /// Returns both halves if they belong to different streams.
    #[expect(clippy::missing_panics_doc, reason = "a stream has exactly two halves")]
    pub fn reunite(mut self, other: OwnedReadHalf<S>) -> Result<S, ReuniteError<S>> {
        match self.stream.take() {
            Some(stream) if Arc::ptr_eq(&stream, &other.stream) => {
                drop(other);
                Ok(Arc::into_inner(stream).expect("a stream has two halves, and both were here"))
            }
            stream => Err(ReuniteError(other, OwnedWriteHalf { stream })),
        }
    }

    /// Drops the half without shutting down the writing side.
    pub fn forget(mut self) {
        self.stream = None;
    }
}

impl<S> AsRef<S> for OwnedReadHalf<S> {
    fn as_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: Split> AsRef<S> for OwnedWriteHalf<S> {
    fn as_ref(&self) -> &S {
        self.stream.as_deref().expect("it is taken out only while the half is dropped")
    }
}

impl<S: Split> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            stream.__shut_writing();
        }
    }
}

impl<S> Read for OwnedReadHalf<S>
where
    for<'a> &'a S: Read,
{
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self.stream).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self.stream).read_vectored(bufs)
    }
}

impl<S: Split> Write for OwnedWriteHalf<S>
where
    for<'a> &'a S: Write,
{
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.as_ref().write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.as_ref().write_vectored(bufs)
    }

    /// Does nothing, because every write goes to the kernel at once.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The error of `reunite` for halves of two different streams. It returns both halves.
#[derive(Debug)]
pub struct ReuniteError<S: Split = TcpStream>(pub OwnedReadHalf<S>, pub OwnedWriteHalf<S>);

impl<S: Split> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these are halves of two different streams")
    }
}

impl<S: Split + fmt::Debug> Error for ReuniteError<S> {}
