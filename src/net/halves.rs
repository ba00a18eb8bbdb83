//! A stream in two halves that can go to two tasks.
//!
//! Both hold the stream by one `Arc`, and so does the kernel one fd: there is no lock, since a stream reads and writes by reference.

use super::{TcpStream, UnixStream};
use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

/// The half of a stream that reads. See [`TcpStream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf<S = TcpStream> {
    stream: Arc<S>,
}

/// The half of a stream that writes. See [`TcpStream::into_split`]. Dropping it shuts the stream's writing side: the peer reads to the end.
#[derive(Debug)]
pub struct OwnedWriteHalf<S: Split = TcpStream> {
    /// None: taken out, to be dropped without consequences.
    stream: Option<Arc<S>>,
}

/// What has two halves: [`TcpStream`] and [`UnixStream`].
pub trait Split: Sized + sealed::Sealed {
    #[doc(hidden)]
    fn __shut_writing(&self);
}

mod sealed {
    #[expect(unnameable_types, reason = "so that nobody else implements it")]
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
                // The peer may have closed first, which comes to the same.
                let _ = self.shutdown(Shutdown::Write);
            }
        }

        impl $name {
            /// Parts the stream into a half that reads and a half that writes, for two tasks that do not know each other's lifetime.
            /// Two tasks of one scope need none: `&` to the stream reads and writes as well.
            ///
            /// Dropping the half that writes shuts the writing side; the stream is closed when both are gone.
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
            /// Does not wait. Cancelling a task that uses one half does nothing to the other.
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
    /// Puts the halves of one stream together again.
    ///
    /// # Errors
    /// They are halves of different streams; both are given back.
    pub fn reunite(self, other: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
        other.reunite(self)
    }
}

impl<S: Split> OwnedWriteHalf<S> {
    /// Puts the halves of one stream together again.
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
    /// They are halves of different streams; both are given back.
    #[expect(clippy::missing_panics_doc, reason = "what it says cannot be otherwise")]
    pub fn reunite(mut self, other: OwnedReadHalf<S>) -> Result<S, ReuniteError<S>> {
        match self.stream.take() {
            Some(stream) if Arc::ptr_eq(&stream, &other.stream) => {
                drop(other);
                Ok(Arc::into_inner(stream).expect("a stream has two halves, and both were here"))
            }
            stream => Err(ReuniteError(other, OwnedWriteHalf { stream })),
        }
    }

    /// Drops the half without shutting the writing side.
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
        self.stream.as_deref().expect("only a half that is being dropped has none")
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

    /// Does nothing: what has been written is on its way.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The halves are not of one stream: here they are.
#[derive(Debug)]
pub struct ReuniteError<S: Split = TcpStream>(pub OwnedReadHalf<S>, pub OwnedWriteHalf<S>);

impl<S: Split> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these are halves of two different streams")
    }
}

impl<S: Split + fmt::Debug> Error for ReuniteError<S> {}
