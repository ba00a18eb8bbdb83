//! Everything the program needs from ecru, in one place.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

pub(crate) use ecru::fs;
pub(crate) use ecru::net::{TcpListener, TcpStream};
pub(crate) use ecru::par::map_buffered;
pub(crate) use ecru::sync::{Notify, OnceLock};
pub(crate) use ecru::time::now;
pub(crate) use ecru::{CancelHandle, Cancelled, Scope, cancel_scope, is_cancelled, scope, sleep};

/// The pause after a failed accept, which happens while too many files are open.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

/// Runs `body` as the root task, on `workers` workers, or one for each core.
pub(crate) fn run<T>(workers: Option<usize>, body: impl FnOnce() -> T) -> io::Result<T> {
    match workers {
        Some(workers) => Ok(ecru::Runtime::builder().workers(workers).build()?.run(body)),
        None => Ok(ecru::run(body)),
    }
}

/// Whether this error is a wait that was cancelled.
pub(crate) fn is_cancellation(error: &io::Error) -> bool {
    Cancelled::find(error).is_some()
}

/// Connects, and gives up after `limit`.
pub(crate) fn connect(address: SocketAddr, limit: Option<Duration>) -> io::Result<TcpStream> {
    match limit {
        Some(limit) => TcpStream::connect_timeout(&address, limit),
        None => TcpStream::connect(address),
    }
}

/// Runs a closure that uses files, off the worker. A cancellation does not stop it half-way.
pub(crate) fn unblock<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    ecru::shield(|| ecru::unblock(body))
}

/// Whether this is a simulation of the tests. The program is built without the simulator.
fn is_simulated() -> bool {
    #[cfg(test)]
    return ecru::sim::is_simulated();
    #[cfg(not(test))]
    false
}

/// Whether these are facts of the same file. Simulated files have no inode numbers. A simulation has
/// one run of the program at a time, so its files are not exchanged.
pub(crate) fn is_same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino()) || is_simulated()
}

/// Renames a file. Fails with `AlreadyExists` if there is a file with the new name.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    if is_simulated() {
        if fs::symlink_metadata(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        return fs::rename(from, to);
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not support this. The check before the download then has to suffice.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(from, to),
        renamed => Ok(renamed?),
    }
}

/// Runs `body`, and beside it `companion`, which is cancelled when the body has ended.
pub(crate) fn with_companion<T>(companion: impl FnOnce() + Send, body: impl FnOnce() -> T) -> T {
    ecru::scope(|scope| {
        scope.spawn_daemon(companion);
        body()
    })
}

/// Accepts until cancelled; each connection is served in a task of its own. Returns when all of
/// them have ended.
pub(crate) fn accept_each(
    listener: &TcpListener,
    connection: impl Fn(TcpStream) + Send + Sync,
    mut on_error: impl FnMut(&io::Error),
) {
    let connection = &connection;
    ecru::scope(|scope| {
        loop {
            match listener.accept() {
                Ok((stream, _)) => drop(scope.spawn(move || connection(stream))),
                Err(error) if is_cancellation(&error) => return,
                Err(error) => {
                    on_error(&error);
                    if sleep(ACCEPT_AGAIN).is_err() {
                        return;
                    }
                }
            }
        }
    });
}
