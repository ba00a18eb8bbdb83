//! Files with the API of std, on which a wait parks the task instead of blocking its worker.
//!
//! Names, arguments and results are those of [`std::fs`] and of std's extension traits for Unix,
//! whose methods are inherent here. [`File`] implements [`Read`](std::io::Read),
//! [`Write`](std::io::Write) and [`Seek`](std::io::Seek), on the type and on a reference to it. So
//! [`BufReader`](std::io::BufReader), [`BufWriter`](std::io::BufWriter),
//! [`io::copy`](std::io::copy) and other code written for std's files accept these. Types that
//! never wait are std's own: [`Metadata`], [`Permissions`], [`FileType`], [`FileTimes`],
//! [`TryLockError`].
//!
//! Every call works inside a task. Outside a runtime it works as well; it then blocks the thread
//! and is not interrupted.
//!
//! # Implementation
//! A file is always "ready", and yet its calls may wait for a device or a server. So each call
//! first does, on the worker itself, what needs only memory: all operations on file systems in
//! memory (tmpfs), reads of data in the page cache, and opening a path that the kernel has cached.
//! The rest becomes an operation of the ring, which reads into and writes from the caller's own
//! buffer. On the `poll` driver, and for operations that the ring does not have, it becomes a call
//! on a thread of the pool of [`unblock`](crate::unblock). Long transfers are done in pieces, and
//! other tasks run in between.
//!
//! # Differences from std
//! - Clones of a `File` share one cursor. Calls that move it take turns, also while they wait, so
//!   no two of them get the same bytes. (std's take turns as well, but block their threads.)
//!   Duplicates of the fd that were made by other means do not take part in these turns.
//! - A read or write of more than 256 KiB may be done by several system calls. Another process may
//!   therefore see a part of it, or append in the middle.
//! - Waiting for a lock retries after pauses of at most ten milliseconds, because the kernel has no
//!   wait for a lock that can be cancelled.
//! - [`ReadDir`] fetches entries in batches, so it does not show changes to entries it has already
//!   fetched.
//! - Dropping a file closes it at once, on the current thread.
//!
//! # Cancellation
//! Each call that may wait is a cancellation point. In a cancelled task it fails before it has done
//! anything, with an error of kind [`Other`](std::io::ErrorKind::Other) that holds a
//! [`Cancelled`](crate::Cancelled). If the task is cancelled during a call, this is when the call
//! returns:
//!
//! | call | on the ring | on a thread of the pool |
//! |---|---|---|
//! | `read`, `write`, `read_at`, vectored, .. | withdrawn or awaited | awaited: at most 8 MiB |
//! | `read_exact`, `read_to_end`, `write_all`, .. | between two of the above | the same |
//! | [`fs::read`](read()), [`read_to_string`] | like `read` | like `read` |
//! | [`fs::write`](write()) | between two pieces | a small write is awaited |
//! | `sync_all`, `sync_data` | withdrawn or awaited | awaited |
//! | `open`, `create` | awaited, even for the other end of a FIFO | awaited |
//! | `lock`, `lock_shared` | between two attempts | the same |
//! | [`copy`] | between two portions of 64 MiB | the same |
//! | `try_lock`, `try_lock_shared`, `unlock` | not cancellation points | |
//! | all other calls | awaited | awaited |
//!
//! An operation is withdrawn if the device has not begun it, and awaited otherwise. The next table
//! lists what a cancellation can lose:
//!
//! | call | what a cancellation can lose |
//! |---|---|
//! | `read`, `read_at`, vectored | nothing: the bytes are returned, the cursor is behind them |
//! | `write`, `write_at`, vectored | nothing: their number is returned, the cursor is behind them |
//! | `read_exact`, `read_to_end`, .. | nothing: bytes are in the buffer, the cursor behind them |
//! | `write_all` and similar | the number of bytes written |
//! | [`fs::read`](read()), [`read_to_string`] | the bytes read so far, which the file still has |
//! | [`fs::write`](write()) | the file may be empty or incomplete, as after any error |
//! | `sync_all`, `sync_data` | nothing: the call may be repeated |
//! | `open`, `create` | nothing: the file is returned, and the next call fails |
//! | `lock`, `lock_shared` | nothing: a lock that was acquired is returned |
//! | [`copy`] | the target may be incomplete |
//! | [`remove_dir_all`], [`create_dir_all`] | nothing: a call that has begun is completed |
//! | [`ReadDir`]'s `next` | nothing: it returns one error, then `None`, and continues later |
//! | all other calls | nothing |

// # Modules
// - `place`: where a file lives, and so which calls may wait. `handle`: transfers, with all raw
//   memory.
// - `file`, `options`, `locks`, `conversions`: the type `File`. `directory`: `ReadDir` and
//   `DirBuilder`. `functions`: the free functions.

mod conversions;
mod directory;
mod facts;
mod file;
mod functions;
mod handle;
mod locks;
mod options;

pub use directory::{DirBuilder, DirEntry, ReadDir};
pub use file::File;
pub use functions::{
    canonicalize, chown, copy, create_dir, create_dir_all, exists, fchown, hard_link, lchown,
    metadata, read, read_dir, read_link, read_to_string, remove_dir, remove_dir_all, remove_file,
    rename, set_permissions, symlink, symlink_metadata, write,
};
pub use options::OpenOptions;
pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};

/// Returns whether the caller is a task, whose worker must not block. Outside tasks, calls simply
/// block.
fn in_task() -> bool {
    crate::task::current_header().is_some()
}
