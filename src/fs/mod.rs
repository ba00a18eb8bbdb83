//! Files: std's functions and types, on which a wait parks the task instead of blocking its worker.
//!
//! Names, arguments and results are those of [`std::fs`] and of std's extension traits for Unix, whose methods are here without an import as well. [`File`] implements
//! [`Read`](std::io::Read), [`Write`](std::io::Write) and [`Seek`](std::io::Seek), on the type and on a reference to it, so
//! [`BufReader`](std::io::BufReader), [`BufWriter`](std::io::BufWriter), [`io::copy`](std::io::copy) and whatever else was written for std's
//! files take these. What nothing waits in is std's own: [`Metadata`], [`Permissions`], [`FileType`], [`FileTimes`], [`TryLockError`].
//!
//! Every call works inside a task, and outside any runtime, where it blocks the thread and is not interrupted.
//!
//! # How
//! A file is never "not ready": its calls wait all the same, for a device or a server. So each call first does what needs memory only, on the worker itself: everything on
//! file systems in memory (tmpfs), reads of what the page cache has, opening what the kernel knows the way to. Whatever
//! is left becomes an operation of the ring, which reads into and writes from the caller's own buffer, or, for what the ring does not have and
//! on the `poll` driver, a call on a thread of the pool of [`unblock`](crate::unblock). Long transfers go piece by piece, and other tasks run in between.
//!
//! # Differences from std
//! - Calls through clones of a `File` that move its one cursor take turns, also when they wait; so no two of them get the same bytes. (std's do, too, but
//!   block their threads.) Duplicates of the fd made elsewhere do not know of these turns.
//! - A read or write of more than 256 KiB may be done by several system calls, so another process may see a part of it, or append in the middle.
//! - Waiting for a lock asks for it again and again, up to every ten milliseconds, because the kernel has no such wait that can be given up.
//! - [`ReadDir`] fetches entries some at a time, so it does not show what happens to them meanwhile.
//! - Closing a file, which dropping it does, happens at once on the current thread.
//!
//! # Cancellation
//! Each call that may wait is a cancel point: in a cancelled task it fails before it has done anything, with an error of kind
//! [`Other`](std::io::ErrorKind::Other) that holds a [`Cancelled`](crate::Cancelled). A call in progress:
//!
//! | call | on the ring | on a thread of the pool | what a cancel can lose |
//! |---|---|---|---|
//! | `read`, `read_at`, vectored | taken back if the device has not begun, else awaited | awaited, at most 8 MiB of it | nothing: what has been read is the result, and the cursor stands behind it |
//! | `write`, `write_at`, vectored | the same | the same | nothing: what has been written is the result, and the cursor stands behind it |
//! | `read_exact`, `read_to_end`, `write_all` and the like | between two of the above | the same | how far a write came; what was read stays in the buffer, and the cursor stands behind it |
//! | [`fs::read`](read()), [`read_to_string`] | as `read` | as `read` | what has been read; the file has it still |
//! | [`fs::write`](write()) | between two pieces | a small one is awaited | the file may be empty, or a part of it there, as after any error |
//! | `sync_all`, `sync_data` | taken back if it has not begun, else awaited | awaited | nothing: it may be called again |
//! | `open`, `create` | awaited, also while it waits for the other end of a FIFO | awaited | nothing: the file is the result; the next call fails |
//! | `lock`, `lock_shared` | between two attempts | the same | nothing: a lock that was got is the result |
//! | [`copy`] | between two portions of 64 MiB | the same | the target has a part |
//! | [`remove_dir_all`], [`create_dir_all`] | awaited | awaited | nothing: once begun it ends |
//! | [`ReadDir`]'s `next` | awaited | awaited | nothing: it says so once, then `None`, and goes on when it may |
//! | `try_lock`, `try_lock_shared`, `unlock` | no cancel points | | nothing |
//! | every other | awaited | awaited | nothing |

// # Modules
// - `facts`: what is known of a file, and whether calls on it may block. `handle`: transfers. All raw memory is in there.
// - `file`, `options`, `locks`, `conversions`: the type `File`. `directory`: `ReadDir` and `DirBuilder`. `functions`: the free functions.

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

/// Whether there is a worker to be spared: outside tasks calls simply block.
fn in_task() -> bool {
    crate::task::current_header().is_some()
}
