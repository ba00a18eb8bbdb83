//! The standard output, and the standard error.
//!
//! # Who has the stream
//! A permit, held by one task or thread at a time, which may take it again (std's lock is like that: a function that prints may be
//! called by one that holds the lock). The writer itself is behind a second lock, which is taken for one call at a time. It is free most
//! of the time: only the holder of the permit takes it. But a guard can be moved to another task of the same thread, which then writes beside
//! the one that made it. So it is a lock that parks, and not one of std's: a writer that waits for room keeps it.
#![expect(unsafe_code, reason = "asks for a last flush when the process ends")]

use std::fmt;
use std::io::{self, LineWriter, Write};
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::standard::Standard;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::scope::shield;
use crate::sync::{self, Permit, Semaphore};
use crate::task::{self, Cancelled};

/// A stream, and who has it.
struct Held<W> {
    turn: Semaphore,
    /// Whose the permit is, by [`task::current_identity`]; 0: nobody's. Relaxed: one finds oneself there only if one has written it.
    holder: AtomicU64,
    /// How often the holder has taken it. The holder's.
    depth: AtomicUsize,
    permit: Mutex<Option<Permit>>,
    writer: sync::Mutex<W>,
    /// For its number.
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

/// The stream is its owner's until this is dropped. It stays where it is: another task or thread has not got the permit.
struct Turn<W: 'static> {
    held: &'static Held<W>,
    _stays: PhantomData<*const ()>,
}

impl<W> Turn<W> {
    fn take(held: &'static Held<W>) -> Turn<W> {
        // No request is seen inside of the shield, and the semaphore is never closed.
        let _ = shield(|| held.enter(|| held.turn.acquire()));
        Turn { held, _stays: PhantomData }
    }

    fn take_cancellably(held: &'static Held<W>) -> Result<Turn<W>, Cancelled> {
        held.enter(|| held.turn.acquire())?;
        Ok(Turn { held, _stays: PhantomData })
    }
}

impl<W: Write> Turn<W> {
    fn with<T>(&self, call: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        let mut writer = match self.held.writer.try_lock() {
            Ok(writer) => writer,
            // The guard has been moved, and its new holder is in the middle of a call.
            Err(_) => self.held.writer.lock_cancellable()?,
        };
        call(&mut *writer)
    }
}

impl<W> Drop for Turn<W> {
    fn drop(&mut self) {
        self.held.leave();
    }
}

/// Where the bytes go.
struct Output {
    standard: Standard,
    /// The process ends: there is nobody left to wait with.
    ends: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.ends {
            Ok(rustix::io::write(&self.standard, bytes)?)
        } else {
            self.standard.write(bytes)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

static STDOUT: OnceLock<Held<LineWriter<Output>>> = OnceLock::new();
static STDERR: OnceLock<Held<Output>> = OnceLock::new();

fn the_output() -> &'static Held<LineWriter<Output>> {
    STDOUT.get_or_init(|| {
        // SAFETY: the function takes nothing and does not unwind. If there is no room for it, a last line may be lost.
        let _ = unsafe { libc::atexit(flush_at_exit) };
        Held::new(LineWriter::new(Output { standard: Standard::new(1), ends: false }), 1)
    })
}

fn the_errors() -> &'static Held<Output> {
    STDERR.get_or_init(|| Held::new(Output { standard: Standard::new(2), ends: false }, 2))
}

/// Writes what is left of a last line without an end.
extern "C" fn flush_at_exit() {
    if let Some(held) = STDOUT.get()
        && let Ok(mut writer) = held.writer.try_lock()
    {
        writer.get_mut().ends = true;
        let _ = writer.flush();
    }
}

/// The standard output of the process: as [`std::io::stdout`], with a buffer of its own, which is written at the end of each line and
/// when the process exits. Who has to wait for room, as in a pipe that nobody reads, is parked.
///
/// # Cancellation
/// Writing to the stream is a cancel point, and so is waiting for one's turn, except in [`lock`](Stdout::lock). What was put in the
/// buffer and not written stays there.
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

/// The standard error of the process: as [`std::io::stderr`], without a buffer.
///
/// # Cancellation
/// As of [`stdout`].
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

/// For a handle by value and by reference.
macro_rules! writes_under_lock {
    ($($handle:ty),*) => { $(
        impl Write for $handle {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.lock_to_write()?.write(bytes)
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
        #[doc = concat!("From [`", $what, "`].")]
        #[derive(Clone, Copy)]
        pub struct $handle {
            held: &'static Held<$writer>,
        }

        #[doc = concat!("The stream for one writer alone: from [`", stringify!($handle), "::lock`].")]
        pub struct $lock<'a> {
            turn: Turn<$writer>,
            _borrowed: PhantomData<&'a ()>,
        }

        impl $handle {
            /// Waits until nobody else writes, and keeps the others out until the guard is dropped. Whoever has the guard already gets
            /// another one at once.
            ///
            /// # Cancellation
            /// No cancel point.
            #[must_use]
            pub fn lock(&self) -> $lock<'static> {
                $lock { turn: Turn::take(self.held), _borrowed: PhantomData }
            }

            fn lock_to_write(&self) -> io::Result<$lock<'static>> {
                Ok($lock { turn: Turn::take_cancellably(self.held)?, _borrowed: PhantomData })
            }

            /// Whether it is a terminal.
            #[must_use]
            pub fn is_terminal(&self) -> bool {
                self.held.standard.is_terminal()
            }
        }

        impl $lock<'_> {
            /// Whether it is a terminal.
            #[must_use]
            pub fn is_terminal(&self) -> bool {
                self.turn.held.standard.is_terminal()
            }
        }

        impl Write for $lock<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.turn.with(|writer| writer.write(bytes))
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

/// As std's: the child writes to the same stream, beside what this process has in its buffer.
impl From<Stdout> for std::process::Stdio {
    fn from(_: Stdout) -> std::process::Stdio {
        io::stdout().into()
    }
}

/// As std's: the child writes to the same stream.
impl From<Stderr> for std::process::Stdio {
    fn from(_: Stderr) -> std::process::Stdio {
        io::stderr().into()
    }
}

writes!("stdout", Stdout, StdoutLock, LineWriter<Output>);
writes!("stderr", Stderr, StderrLock, Output);
