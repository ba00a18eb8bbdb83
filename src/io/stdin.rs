//! The standard input.
//!
//! A simulated task takes no lock here, as with the [outputs](mod@super::stdout). It needs none,
//! because the input is at its end there.

use std::io::{self, BufRead, BufReader, IoSliceMut, IsTerminal as _, Lines, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;

use super::standard::{Standard, are_awaited};
use crate::sync::{Mutex, MutexGuard};
use crate::task;

/// The same size as std's buffer.
const BUFFER: usize = 8 * 1024;

static STDIN: OnceLock<Mutex<BufReader<Input>>> = OnceLock::new();

#[derive(Debug)]
struct Input(Standard);

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(buffers)
    }
}

/// Returns a handle to the standard input of the process, like [`std::io::stdin`]. Its buffer is
/// separate from std's. A task that waits for input is parked, and its worker runs other tasks.
///
/// The open file keeps the mode in which it was inherited, because other processes share it.
///
/// In a [simulation](crate::sim), the input is at its end, and a [lock](Stdin::lock) does not hold
/// up other tasks.
///
/// # Cancellation
/// Each read is a cancellation point and loses no data. So is waiting for the lock, except in
/// [`lock`](Stdin::lock).
///
/// # Examples
/// ```no_run
/// ecru::run(|| {
///     for line in ecru::io::stdin().lines() {
///         println!("heard: {}", line.unwrap());
///     }
/// });
/// ```
#[must_use]
pub fn stdin() -> Stdin {
    let inner =
        STDIN.get_or_init(|| Mutex::new(BufReader::with_capacity(BUFFER, Input(Standard::new(0)))));
    Stdin { inner }
}

/// A handle to the standard input, returned by [`stdin`].
#[derive(Debug)]
pub struct Stdin {
    inner: &'static Mutex<BufReader<Input>>,
}

impl Stdin {
    /// Waits until no other reader holds the lock, and holds it until the guard is dropped.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru::io::{BufRead, stdin};
    ///
    /// /// Returns the first line that is not empty. No other reader gets the lines before it.
    /// fn first_line() -> std::io::Result<Option<String>> {
    ///     let lines = stdin().lock().lines();
    ///     lines.filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).next().transpose()
    /// }
    /// ```
    #[must_use]
    pub fn lock(&self) -> StdinLock<'static> {
        StdinLock { inner: are_awaited().then(|| self.inner.lock()) }
    }

    fn lock_to_read(&self) -> io::Result<StdinLock<'static>> {
        let inner = if are_awaited() { Some(self.inner.lock_cancellable()?) } else { None };
        Ok(StdinLock { inner })
    }

    /// Reads a line and appends it, including its line end, to `line`. Returns `Ok(0)` at the end
    /// of the input.
    ///
    /// # Errors
    /// Returns the errors of the system, `InvalidData` for input that is not UTF-8, and
    /// cancellations.
    pub fn read_line(&self, line: &mut String) -> io::Result<usize> {
        self.lock_to_read()?.read_line(line)
    }

    /// Returns an iterator over the lines, without their line ends. It holds the lock.
    #[must_use]
    pub fn lines(self) -> Lines<StdinLock<'static>> {
        self.lock().lines()
    }

    /// Returns whether the stream is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.as_fd().is_terminal()
    }
}

/// Implements `Read` for a handle, by value and by reference.
macro_rules! reads_under_lock {
    ($($handle:ty),*) => { $(
        impl Read for $handle {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.lock_to_read()?.read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.lock_to_read()?.read_vectored(buffers)
            }

            fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
                self.lock_to_read()?.read_to_end(buffer)
            }

            fn read_to_string(&mut self, buffer: &mut String) -> io::Result<usize> {
                self.lock_to_read()?.read_to_string(buffer)
            }

            fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
                self.lock_to_read()?.read_exact(buffer)
            }
        }
    )* };
}

reads_under_lock!(Stdin, &Stdin);

impl AsFd for Stdin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let input: &'static Standard = standard_input();
        input.as_fd()
    }
}

/// Returns the stream for its fd number only. It has no buffer and is never read.
fn standard_input() -> &'static Standard {
    static INPUT: OnceLock<Standard> = OnceLock::new();
    INPUT.get_or_init(|| Standard::new(0))
}

impl AsRawFd for Stdin {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// A guard that locks the standard input for one reader, returned by [`Stdin::lock`].
#[derive(Debug)]
pub struct StdinLock<'a> {
    /// `None` in a simulation.
    inner: Option<MutexGuard<'a, BufReader<Input>>>,
}

impl StdinLock<'_> {
    /// Returns whether the stream is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        standard_input().is_terminal()
    }

    /// Reads from the buffer. Returns 0 if there is none, because the input is at its end.
    fn with(
        &mut self,
        read: impl FnOnce(&mut BufReader<Input>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match &mut self.inner {
            Some(buffer) => read(buffer),
            None => {
                task::begin_wait()?;
                Ok(0)
            }
        }
    }
}

impl Read for StdinLock<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.with(|input| input.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.with(|input| input.read_vectored(buffers))
    }

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.with(|input| input.read_to_end(buffer))
    }

    fn read_to_string(&mut self, buffer: &mut String) -> io::Result<usize> {
        self.with(|input| input.read_to_string(buffer))
    }
}

impl BufRead for StdinLock<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &mut self.inner {
            Some(buffer) => buffer.fill_buf(),
            None => {
                task::begin_wait()?;
                Ok(&[])
            }
        }
    }

    fn consume(&mut self, count: usize) {
        if let Some(buffer) = &mut self.inner {
            buffer.consume(count);
        }
    }
}

impl AsFd for StdinLock<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let input: &'static Standard = standard_input();
        input.as_fd()
    }
}

impl AsRawFd for StdinLock<'_> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
