//! Pipes of the system.
#![expect(unsafe_code, reason = "implements FromRawFd")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::stream::{Stream, stream_type};
use crate::driver::request;
use crate::driver::request::OpenPipe;

/// Creates a pipe. Bytes written at one end are read at the other. See [`std::io::pipe`].
///
/// Reading returns `Ok(0)` when every [`PipeWriter`] is closed, including those of other processes.
/// Writing fails with `BrokenPipe` when every [`PipeReader`] is closed. For a pipe within the
/// process see [`memory_pipe`](fn@super::memory_pipe).
///
/// # Errors
/// Fails if the process has too many open files.
///
/// # Cancellation
/// Reading and writing are cancellation points and lose no data; see [the
/// module](super#what-a-cancellation-can-lose).
///
/// # Examples
/// ```
/// use ecru::io::{self, Read, Write};
///
/// ecru::run(|| {
///     let (mut reader, mut writer) = io::pipe().unwrap();
///     let text = ecru::scope(|s| {
///         s.spawn(move || writer.write_all(b"through the pipe").unwrap());
///         io::read_to_string(&mut reader).unwrap()
///     });
///     assert_eq!(text, "through the pipe");
/// });
/// ```
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = request(OpenPipe { nonblocking: true })?;
    Ok((PipeReader(Stream::sole(reader)?), PipeWriter(Stream::sole(writer)?)))
}

/// The reading end of a [`pipe`]. `&PipeReader` also reads.
#[derive(Debug)]
pub struct PipeReader(Stream);

/// The writing end of a [`pipe`]. `&PipeWriter` also writes.
#[derive(Debug)]
pub struct PipeWriter(Stream);

stream_type!(read PipeReader);
stream_type!(write PipeWriter);

impl PipeReader {
    /// Returns another handle to the same end. Each byte is read through one of the handles.
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    pub fn try_clone(&self) -> io::Result<PipeReader> {
        self.0.duplicate().map(PipeReader)
    }
}

impl PipeWriter {
    /// Returns another handle to the same end.
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    pub fn try_clone(&self) -> io::Result<PipeWriter> {
        self.0.duplicate().map(PipeWriter)
    }
}

/// The mode of the open file, which may be shared, is not changed.
impl FromRawFd for PipeReader {
    unsafe fn from_raw_fd(fd: RawFd) -> PipeReader {
        // SAFETY: by this method's contract, the fd is open and has no other owner.
        PipeReader::from(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The mode of the open file, which may be shared, is not changed.
impl FromRawFd for PipeWriter {
    unsafe fn from_raw_fd(fd: RawFd) -> PipeWriter {
        // SAFETY: by this method's contract, the fd is open and has no other owner.
        PipeWriter::from(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}
