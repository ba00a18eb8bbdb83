//! A pipe within the process.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::park::WaitList;
use crate::source::Source;
use crate::task;

/// The state that both ends share.
pub(super) struct Pipe {
    state: Mutex<PipeState>,
    capacity: usize,
    readers: WaitList,
    writers: WaitList,
}

#[derive(Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    /// The writing end is closed.
    ended: bool,
    /// The reading end is closed.
    deaf: bool,
}

impl Pipe {
    pub(super) fn new(capacity: usize) -> Arc<Pipe> {
        Arc::new(Pipe {
            state: Mutex::default(),
            capacity: capacity.max(1),
            readers: WaitList::new(),
            writers: WaitList::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads into the buffers in turn.
    pub(super) fn read(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let nothing_wanted = buffers.iter().all(|buffer| buffer.is_empty());
        task::begin_wait()?;
        loop {
            let mut state = self.lock();
            if !state.bytes.is_empty() || state.ended || nothing_wanted {
                let mut count = 0;
                for buffer in &mut *buffers {
                    let mut rest = &mut buffer[..];
                    // One read ends where the bytes wrap around in the deque.
                    while !rest.is_empty() && !state.bytes.is_empty() {
                        let part = state.bytes.read(rest)?;
                        count += part;
                        rest = &mut rest[part..];
                    }
                }
                let rest = !state.bytes.is_empty();
                drop(state);
                self.writers.notify_one();
                if rest {
                    self.readers.notify_one();
                }
                return Ok(count);
            }
            drop(state);
            Readable(self).wait()?;
        }
    }

    /// Writes the slices in turn, as far as there is room.
    pub(super) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let nothing_to_write = slices.iter().all(|slice| slice.is_empty());
        task::begin_wait()?;
        loop {
            let mut state = self.lock();
            if state.deaf || state.ended {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let room = self.capacity - state.bytes.len();
            if room != 0 || nothing_to_write {
                let mut left = room;
                for slice in slices {
                    let part = &slice[..left.min(slice.len())];
                    state.bytes.extend(part);
                    left -= part.len();
                }
                let count = room - left;
                drop(state);
                self.readers.notify_one();
                if count < room {
                    self.writers.notify_one();
                }
                return Ok(count);
            }
            drop(state);
            Writable(self).wait()?;
        }
    }

    /// Closes the writing end.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.readers.notify_all();
        self.writers.notify_all();
    }

    /// Closes the reading end and discards the bytes in transit.
    pub(super) fn turn_deaf(&self) {
        let mut state = self.lock();
        state.deaf = true;
        let bytes = std::mem::take(&mut state.bytes);
        drop(state);
        drop(bytes);
        self.writers.notify_all();
    }
}

/// A source that is ready when a read would not wait: there are bytes, or the writing end is
/// closed.
struct Readable<'p>(&'p Pipe);

impl Source for Readable<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        let state = self.0.lock();
        (!state.bytes.is_empty() || state.ended).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.0.readers);
    }
}

/// A source that is ready when a write would not wait: there is space, or an end is closed.
struct Writable<'p>(&'p Pipe);

impl Source for Writable<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        let state = self.0.lock();
        (state.bytes.len() < self.0.capacity || state.deaf || state.ended).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.0.writers);
    }
}

/// Creates a pipe within the process. Tasks and threads read at one end the bytes written at the
/// other. At most `capacity` bytes, and at least one, are in transit. The pipe needs neither system
/// calls nor fds. For a pipe that other processes can use see [`pipe`](super::pipe()).
///
/// After the writer is dropped, the reader gets the remaining bytes and then `Ok(0)`. After the
/// reader is dropped, the writer gets `BrokenPipe`.
///
/// # Cancellation
/// Reading and writing are cancellation points and lose no data.
///
/// # Examples
/// ```
/// use ecru::io::{self, BufRead, BufReader, Write};
///
/// let (reader, mut writer) = io::memory_pipe(16);
/// ecru::run(|| {
///     ecru::scope(|s| {
///         s.spawn(move || (0..100).for_each(|n| writeln!(writer, "line {n}").unwrap()));
///         let lines = BufReader::new(reader).lines();
///         assert_eq!(lines.last().unwrap().unwrap(), "line 99");
///     });
/// });
/// ```
#[must_use]
pub fn memory_pipe(capacity: usize) -> (MemoryReader, MemoryWriter) {
    let pipe = Pipe::new(capacity);
    (MemoryReader { pipe: Arc::clone(&pipe) }, MemoryWriter { pipe })
}

/// The reading end of a [`memory_pipe`]. `&MemoryReader` also reads.
pub struct MemoryReader {
    pipe: Arc<Pipe>,
}

/// The writing end of a [`memory_pipe`]. `&MemoryWriter` also writes.
pub struct MemoryWriter {
    pipe: Arc<Pipe>,
}

impl Read for &MemoryReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.pipe.read(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.pipe.read(buffers)
    }
}

impl Read for MemoryReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.pipe.read(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.pipe.read(buffers)
    }
}

impl Write for &MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe.write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.pipe.write(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe.write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.pipe.write(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for MemoryReader {
    fn drop(&mut self) {
        self.pipe.turn_deaf();
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        self.pipe.end();
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Pipe")
            .field("bytes", &state.bytes.len())
            .field("capacity", &self.capacity)
            .field("ended", &state.ended)
            .finish()
    }
}

impl fmt::Debug for MemoryReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryReader").field(&self.pipe).finish()
    }
}

impl fmt::Debug for MemoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryWriter").field(&self.pipe).finish()
    }
}
