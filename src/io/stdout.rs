//! The standard output and the standard error.
//!
//! # Locking
//! A stream is guarded by a permit that one task or thread holds at a time. The holder may acquire
//! it again, as with std's lock, so that a function that prints may be called while the lock is
//! held.
//!
//! The writer itself is behind a second lock, which is taken for one call at a time. It is usually
//! free, because only the permit's holder takes it. But a guard can be moved to another task of the
//! same thread. That task then writes concurrently with the task that made the guard. A writer that
//! waits for space keeps the second lock, so this is a lock that parks, and not one of std's.
//!
//! # Simulations
//! The streams belong to the process, and simulations on several threads use them at the same time.
//! A simulated task must not wait for another simulation in virtual time, and must not be woken by
//! its thread. So it takes no permit, and waits for the second lock by spinning. Its lines stay
//! whole, because it does not make room for other tasks between taking a turn and the end of the
//! call.
#![expect(unsafe_code, reason = "registers a last flush for the end of the process")]

use std::fmt;
use std::io::{self, IoSlice, LineWriter, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use super::standard::{Standard, are_awaited, in_turn};
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::driver::request;
use crate::driver::request::WriteOnce;
use crate::scope::shield;
use crate::sync::{self, Permit, Semaphore};
use crate::task::{self, Cancelled};

/// A stream and its lock.
struct Held<W> {
    turn: Semaphore,
    /// The identity of the permit's holder, by [`task::current_identity`], or 0. Relaxed: a task or
    /// thread finds its own identity here only if it has stored it itself.
    holder: AtomicU64,
    /// How often the holder has acquired the permit. Only the holder accesses it.
    depth: AtomicUsize,
    permit: Mutex<Option<Permit>>,
    writer: sync::Mutex<W>,
    /// The stream for its fd number only.
    standard: Standard,
}

fn unpoisoned<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<W> Held<W> {
    fn new(writer: W, number: RawFd) -> Held<W> {
        Held {
            turn: Semaphore::new(1),
            holder: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            permit: Mutex::new(None),
            writer: sync::Mutex::new(writer),
            standard: Standard::new(number),
        }
    }

    fn enter(&self, acquire: impl FnOnce() -> Result<Permit, Cancelled>) -> Result<(), Cancelled> {
        let oneself = task::current_identity();
        if self.holder.load(Ordering::Relaxed) != oneself {
            let permit = acquire()?;
            *unpoisoned(&self.permit) = Some(permit);
            self.holder.store(oneself, Ordering::Relaxed);
        }
        self.depth.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn leave(&self) {
        if self.depth.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.holder.store(0, Ordering::Relaxed);
            let permit = unpoisoned(&self.permit).take();
            drop(permit);
        }
    }
}

/// Ownership of the stream until this is dropped. It is not `Send`, because another thread does not
/// hold the permit.
struct Turn<W: 'static> {
    held: &'static Held<W>,
    /// Whether the permit is held. It is not in a simulation.
    has_permit: bool,
    _stays: PhantomData<*const ()>,
}

impl<W> Turn<W> {
    fn take(held: &'static Held<W>) -> Turn<W> {
        // Inside the shield no cancellation is seen, and the semaphore is never closed.
        let has_permit = match shield(|| Turn::take_cancellably(held)) {
            Ok(turn) => return turn,
            Err(Cancelled { .. }) => false,
        };
        Turn { held, has_permit, _stays: PhantomData }
    }

    fn take_cancellably(held: &'static Held<W>) -> Result<Turn<W>, Cancelled> {
        let has_permit = are_awaited();
        if has_permit {
            held.enter(|| held.turn.acquire())?;
        } else {
            task::begin_wait()?;
        }
        Ok(Turn { held, has_permit, _stays: PhantomData })
    }
}

impl<W: Write> Turn<W> {
    fn with<T>(&self, call: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        let mut writer = loop {
            match self.held.writer.try_lock() {
                Ok(writer) => break writer,
                // Another thread is in the middle of a call.
                Err(_) if !self.has_permit => thread::yield_now(),
                // The guard was moved to another task, which is in the middle of a call.
                Err(_) => break self.held.writer.lock_cancellable()?,
            }
        };
        call(&mut *writer)
    }
}

impl<W> Drop for Turn<W> {
    fn drop(&mut self) {
        if self.has_permit {
            self.held.leave();
        }
    }
}

/// The destination of the bytes.
struct Output {
    standard: Standard,
    /// The process is exiting. Writes then go directly to the kernel, because no task can park any
    /// more.
    ends: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.ends {
            request(WriteOnce { fd: self.standard.fd(), bytes })
        } else {
            self.standard.write(bytes)
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.ends {
            in_turn(slices, |bytes| self.write(bytes))
        } else {
            self.standard.write_vectored(slices)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that uses all slices of a vectored write.
trait WriteSlices: Write {
    fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
}

impl WriteSlices for Output {
    fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_vectored(slices)
    }
}

impl WriteSlices for LineWriter<Output> {
    /// Writes the slices up to the last line end in one call, and buffers the others.
    ///
    /// The method of `LineWriter` would use only the first slice, because only std can tell it that
    /// the inner writer uses them all.
    fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let lines = slices.iter().rposition(|slice| slice.contains(&b'\n')).map_or(0, |at| at + 1);
        let (lines, rest) = slices.split_at(lines);
        let mut written = 0;
        if !lines.is_empty() {
            self.flush()?;
            written = self.get_mut().write_vectored(lines)?;
            if written < lines.iter().map(|slice| slice.len()).sum() {
                return Ok(written);
            }
        }
        match in_turn(rest, |bytes| self.write(bytes)) {
            Err(_) if written > 0 => Ok(written),
            outcome => Ok(written + outcome?),
        }
    }
}

static STDOUT: OnceLock<Held<LineWriter<Output>>> = OnceLock::new();
static STDERR: OnceLock<Held<Output>> = OnceLock::new();

fn the_output() -> &'static Held<LineWriter<Output>> {
    STDOUT.get_or_init(|| {
        // SAFETY: the function takes no arguments and does not unwind. If it cannot be registered,
        // an unfinished last line may be lost.
        let _ = unsafe { libc::atexit(flush_at_exit) };
        Held::new(LineWriter::new(Output { standard: Standard::new(1), ends: false }), 1)
    })
}

fn the_errors() -> &'static Held<Output> {
    STDERR.get_or_init(|| Held::new(Output { standard: Standard::new(2), ends: false }, 2))
}

/// Writes the buffered part of a last line without a line end.
extern "C" fn flush_at_exit() {
    if let Some(held) = STDOUT.get()
        && let Ok(mut writer) = held.writer.try_lock()
    {
        writer.get_mut().ends = true;
        let _ = writer.flush();
    }
}

/// Returns a handle to the standard output of the process, like [`std::io::stdout`]. Its buffer is
/// separate from std's, and is written at the end of each line and when the process exits. A task
/// that waits for space, for instance in a pipe that is not read, is parked.
///
/// In a [simulation](crate::sim), what is written goes to the stream of the process, too. A
/// [lock](Stdout::lock) does not hold up other tasks there.
///
/// # Cancellation
/// Writing to the stream is a cancellation point. So is waiting for the lock, except in
/// [`lock`](Stdout::lock). Bytes that are in the buffer and not yet written stay there.
///
/// # Examples
/// ```
/// use ecru::io::Write;
///
/// ecru::run(|| writeln!(ecru::io::stdout(), "hello").unwrap());
/// ```
#[must_use]
pub fn stdout() -> Stdout {
    Stdout { held: the_output() }
}

/// Returns a handle to the standard error of the process, like [`std::io::stderr`], without a
/// buffer.
///
/// # Cancellation
/// Behaves like [`stdout`].
///
/// # Examples
/// ```
/// use ecru::io::Write;
///
/// writeln!(ecru::io::stderr(), "something is wrong").unwrap();
/// ```
#[must_use]
pub fn stderr() -> Stderr {
    Stderr { held: the_errors() }
}

/// Implements `Write` for a handle, by value and by reference.
macro_rules! writes_under_lock {
    ($($handle:ty),*) => { $(
        impl Write for $handle {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.lock_to_write()?.write(bytes)
            }

            fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
                self.lock_to_write()?.write_vectored(slices)
            }

            fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
                self.lock_to_write()?.write_all(bytes)
            }

            fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
                self.lock_to_write()?.write_fmt(text)
            }

            fn flush(&mut self) -> io::Result<()> {
                self.lock_to_write()?.flush()
            }
        }
    )* };
}

macro_rules! writes {
    ($what:literal, $handle:ident, $lock:ident, $writer:ty) => {
        #[doc = concat!("A handle to the stream, returned by [`", $what, "`].")]
        #[derive(Clone, Copy)]
        pub struct $handle {
            held: &'static Held<$writer>,
        }

        #[doc = concat!("A guard for one writer, returned by [`", stringify!($handle), "::lock`].")]
        pub struct $lock<'a> {
            turn: Turn<$writer>,
            _borrowed: PhantomData<&'a ()>,
        }

        impl $handle {
            /// Waits until no other writer holds the lock, and holds it until the guard is dropped.
            /// A task or thread that already has a guard gets another one at once.
            ///
            /// # Cancellation
            /// This is not a cancellation point.
            ///
            /// # Examples
            /// ```
            /// use std::io::Write;
            ///
            #[doc = concat!("let mut lines = ecru::io::", $what, "().lock();")]
            /// // No other task writes between them.
            /// writeln!(lines, "the first line")?;
            /// writeln!(lines, "the second line")?;
            /// # Ok::<(), std::io::Error>(())
            /// ```
            #[must_use]
            pub fn lock(&self) -> $lock<'static> {
                $lock { turn: Turn::take(self.held), _borrowed: PhantomData }
            }

            fn lock_to_write(&self) -> io::Result<$lock<'static>> {
                Ok($lock { turn: Turn::take_cancellably(self.held)?, _borrowed: PhantomData })
            }

            /// Returns whether the stream is a terminal.
            #[must_use]
            pub fn is_terminal(&self) -> bool {
                self.held.standard.is_terminal()
            }
        }

        impl $lock<'_> {
            /// Returns whether the stream is a terminal.
            #[must_use]
            pub fn is_terminal(&self) -> bool {
                self.turn.held.standard.is_terminal()
            }
        }

        impl Write for $lock<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.turn.with(|writer| writer.write(bytes))
            }

            fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
                self.turn.with(|writer| writer.write_slices(slices))
            }

            fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
                self.turn.with(|writer| writer.write_all(bytes))
            }

            fn flush(&mut self) -> io::Result<()> {
                self.turn.with(Write::flush)
            }
        }

        writes_under_lock!($handle, &$handle);

        impl AsFd for $handle {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.held.standard.as_fd()
            }
        }

        impl AsRawFd for $handle {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }

        impl AsFd for $lock<'_> {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.turn.held.standard.as_fd()
            }
        }

        impl AsRawFd for $lock<'_> {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }

        impl fmt::Debug for $handle {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($handle)).finish_non_exhaustive()
            }
        }

        impl fmt::Debug for $lock<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($lock)).finish_non_exhaustive()
            }
        }
    };
}

/// Lets a child process write to the same stream, like std's conversion. Bytes in this process's
/// buffer are written separately.
impl From<Stdout> for std::process::Stdio {
    fn from(_: Stdout) -> std::process::Stdio {
        io::stdout().into()
    }
}

/// Lets a child process write to the same stream, like std's conversion.
impl From<Stderr> for std::process::Stdio {
    fn from(_: Stderr) -> std::process::Stdio {
        io::stderr().into()
    }
}

writes!("stdout", Stdout, StdoutLock, LineWriter<Output>);
writes!("stderr", Stderr, StderrLock, Output);
