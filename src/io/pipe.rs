//! Pipes of the system.
#![expect(unsafe_code, reason = "implements FromRawFd")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use rustix::pipe::PipeFlags;

use super::stream::{Stream, stream_type};

/// Makes a pipe: what is written at one end is read at the other. As [`std::io::pipe`].
///
/// Reading gives `Ok(0)` when every [`PipeWriter`] has gone, with those that other processes have; writing fails with `BrokenPipe` when
/// every [`PipeReader`] has. For a pipe inside of the process see [`memory_pipe`](fn@super::memory_pipe).
///
/// # Errors
/// The system's: no more descriptors.
///
/// # Cancellation
/// Reading and writing are cancel points and lose nothing: see [the module](super#what-a-cancellation-can-lose).
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
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((PipeReader(Stream::sole(reader)?), PipeWriter(Stream::sole(writer)?)))
}

/// The end of a [`pipe`] that is read. `&PipeReader` reads, too.
#[derive(Debug)]
pub struct PipeReader(Stream);

/// The end of a [`pipe`] that is written. `&PipeWriter` writes, too.
#[derive(Debug)]
pub struct PipeWriter(Stream);

stream_type!(read PipeReader);
stream_type!(write PipeWriter);

impl PipeReader {
    /// Another one for the same end: each byte is read by one of them.
    ///
    /// # Errors
    /// The system's: no more descriptors.
    pub fn try_clone(&self) -> io::Result<PipeReader> {
        self.0.duplicate().map(PipeReader)
    }
}

impl PipeWriter {
    /// Another one for the same end.
    ///
    /// # Errors
    /// The system's: no more descriptors.
    pub fn try_clone(&self) -> io::Result<PipeWriter> {
        self.0.duplicate().map(PipeWriter)
    }
}

/// The mode of the open file, which others may have, is left alone.
impl FromRawFd for PipeReader {
    unsafe fn from_raw_fd(fd: RawFd) -> PipeReader {
        // SAFETY: the caller promises, by this method's contract, that the fd is open and nobody else's.
        PipeReader::from(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The mode of the open file, which others may have, is left alone.
impl FromRawFd for PipeWriter {
    unsafe fn from_raw_fd(fd: RawFd) -> PipeWriter {
        // SAFETY: the caller promises, by this method's contract, that the fd is open and nobody else's.
        PipeWriter::from(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}
