//! Two memory pipes, one for each direction: a connection within the process.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;

use super::both_ways::CloseWrite;
use super::memory_pipe::Pipe;

/// Creates a connection within the process. Bytes written to either end are read from the other. At
/// most `capacity` bytes, and at least one, are in transit in each direction. It is meant for tests
/// of code that talks over a stream, and for bridges.
///
/// # Cancellation
/// Reading and writing are cancellation points and lose no data.
///
/// # Examples
/// ```
/// use ecru::io::{self, Read, Write};
///
/// let (mut here, mut there) = io::duplex(64);
/// here.write_all(b"ping").unwrap();
/// let mut word = [0; 4];
/// there.read_exact(&mut word).unwrap();
/// assert_eq!(&word, b"ping");
/// ```
#[must_use]
pub fn duplex(capacity: usize) -> (DuplexStream, DuplexStream) {
    let (one, other) = (Pipe::new(capacity), Pipe::new(capacity));
    let here = DuplexStream { reads: Arc::clone(&one), writes: Arc::clone(&other) };
    (here, DuplexStream { reads: other, writes: one })
}

/// One end of a [`duplex`]. `&DuplexStream` also reads and writes.
pub struct DuplexStream {
    reads: Arc<Pipe>,
    writes: Arc<Pipe>,
}

impl Read for &DuplexStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads.read(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reads.read(buffers)
    }
}

impl Read for DuplexStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads.read(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reads.read(buffers)
    }
}

impl Write for &DuplexStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes.write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.writes.write(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for DuplexStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes.write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.writes.write(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CloseWrite for DuplexStream {
    fn close_write(&self) -> io::Result<()> {
        self.writes.end();
        Ok(())
    }
}

impl Drop for DuplexStream {
    fn drop(&mut self) {
        self.writes.end();
        self.reads.turn_deaf();
    }
}

impl fmt::Debug for DuplexStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuplexStream")
            .field("reads", &self.reads)
            .field("writes", &self.writes)
            .finish()
    }
}
