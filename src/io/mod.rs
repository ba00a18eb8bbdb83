//! Input and output with the API of std, on which a wait parks the task and not the worker.
//!
//! `use ecru::io` replaces `use std::io`. The traits, buffers and errors are std's own; the types
//! that wait are ecru's.
//!
//! - [`fn@stdin`], [`fn@stdout`], [`fn@stderr`] are the process's standard streams. Their buffers
//!   are separate from std's, so a program that uses both on one stream must flush in between.
//! - [`pipe()`] is a pipe of the system, like std's. It has two fds, and either end may be given to
//!   another process.
//! - [`fn@memory_pipe`] and [`fn@duplex`] stay within the process. They pass bytes between tasks or
//!   threads through a buffer of a given size.
//! - [`copy`] is std's. [`copy_bidirectional`] copies in both directions at once and passes on the
//!   end of each. [`copy_bidirectional_idle`] does so with a limit on silence.
//! - [`EventFd`] is a notification with an fd, for event loops outside this library.
//!
//! # What a cancellation can lose
//! | call | what may be lost |
//! |---|---|
//! | `read` | nothing: it returns `Cancelled` before it takes a byte, or the bytes taken |
//! | `read_until`, `read_to_end` | nothing: the bytes read are in the buffer that was passed |
//! | `read_line` | bytes read so far, if they are not valid UTF-8; else they are in the string |
//! | `read_exact` | the number of bytes read; the bytes are in the buffer that was passed |
//! | `write` | nothing: it returns `Cancelled` before it writes a byte, or the number written |
//! | `write_all`, `copy`, `flush` of a buffered writer | the number of bytes written |
//! | `copy_bidirectional` and `.._idle` | the counts, and bytes read and not yet written |
//! | `EventFd::wait` | nothing: a notification is taken, or it stays |
//!
//! A standard stream may be redirected to a regular file. A read or write of that file is not
//! interrupted.

mod both_ways;
mod duplex;
mod event_fd;
mod memory_pipe;
mod pipe;
mod standard;
mod stdin;
mod stdout;
mod stream;

pub use both_ways::{CloseWrite, copy_bidirectional, copy_bidirectional_idle};
pub use duplex::{DuplexStream, duplex};
pub use event_fd::EventFd;
pub use memory_pipe::{MemoryReader, MemoryWriter, memory_pipe};
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use stdin::{Stdin, StdinLock, stdin};
pub use stdout::{Stderr, StderrLock, Stdout, StdoutLock, stderr, stdout};
pub(crate) use stream::{Stream, stream_type};

pub use std::io::{
    BufRead, BufReader, BufWriter, Bytes, Chain, Cursor, Empty, Error, ErrorKind, IntoInnerError,
    IoSlice, IoSliceMut, IsTerminal, LineWriter, Lines, Read, Repeat, Result, Seek, SeekFrom, Sink,
    Split, Take, Write, WriterPanicked, copy, empty, prelude, read_to_string, repeat, sink,
};
