//! std's input and output, on which a wait parks the task and not the worker.
//!
//! `use ecru::io` takes the place of `use std::io`: the traits, buffers and errors are std's own, what waits is ours.
//!
//! - [`fn@stdin`], [`fn@stdout`], [`stderr`] are the process's standard streams, with buffers of their own: what std's have buffered
//!   is not here. (Whoever mixes the two on one stream flushes in between.)
//! - [`pipe()`] is a pipe of the system, as std's: it has two fds, and either end may be given to another process.
//! - [`fn@memory_pipe`] and [`fn@duplex`] stay in the process: bytes from one task or thread to another, through a buffer of a given size.
//! - [`copy`] is std's; [`copy_bidirectional`] does it both ways at once and passes on the end of each, [`copy_bidirectional_idle`]
//!   under a limit for silence.
//! - [`EventFd`] is a notification with an fd, for event loops that know nothing of this library.
//!
//! # What a cancellation can lose
//! | call | what may be lost |
//! |---|---|
//! | `read` of a pipe, a standard stream, a memory pipe | nothing: it gives `Cancelled` before it takes a byte, or what it took |
//! | `read_line`, `read_until`, `read_exact`, `read_to_end` | what had been read by then is in the buffer that was passed; `read_exact` does not say how much, and what `read_line` got of a line stays in its string if it is valid UTF-8 |
//! | `write` | nothing: it gives `Cancelled` before it writes a byte, or says how many it wrote |
//! | `write_all`, `copy`, `flush` of a buffered writer | the count of what had been written by then |
//! | `copy_bidirectional`, `copy_bidirectional_idle` | the counts, and what either direction had read and not yet written |
//! | `EventFd::wait` | nothing: a notification is taken, or it is still there |
//!
//! A read or write of a regular file that a standard stream has been redirected to is not interrupted: it takes as long as it takes.

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
