//! Copying both ways at once.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::thread;

use crate::scope::{timeout_at, try_scope};
use crate::task;

/// How much is read at once.
const BUFFER: usize = 32 * 1024;

/// A stream that can say that no more will be written, while it goes on reading.
///
/// Whatever has an fd says it by shutdown(2): TCP and Unix streams, ecru's and std's. Streams of other kinds, as those that encrypt, implement
/// it for themselves.
pub trait CloseWrite {
    /// Ends the direction that is written; the other side reads the end of the stream.
    ///
    /// # Errors
    /// The stream's.
    fn close_write(&self) -> io::Result<()>;
}

impl<T: AsFd> CloseWrite for T {
    fn close_write(&self) -> io::Result<()> {
        match rustix::net::shutdown(self, rustix::net::Shutdown::Write) {
            // The other side has gone for good: it has seen the end.
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Copies from `a` to `b` and from `b` to `a` at once, until both directions have ended; returns how many bytes went each way, those from
/// `a` first.
///
/// When one direction ends, the writing side of its target is [closed](CloseWrite), so that the end is passed on, and the other
/// direction goes on. When one fails the other is cancelled; on a plain thread, whose waits nobody can cancel, it goes on until it ends by itself or
/// the time is up that a [`timeout`](crate::timeout()) around the call gives it.
///
/// # Errors
/// The first error of either direction, or a cancellation.
///
/// # Cancellation
/// A cancel point: both directions end. What either had read and not yet written is lost, and so are the counts.
///
/// # Examples
/// ```
/// use ecru::io::{self, Read, Write};
///
/// ecru::run(|| {
///     // client <-> front | back <-> server
///     let ((mut client, front), (back, mut server)) = (io::duplex(64), io::duplex(64));
///     ecru::scope(|s| {
///         let proxy = s.spawn(move || io::copy_bidirectional(&front, &back));
///         s.spawn(move || {
///             let mut question = [0; 4];
///             server.read_exact(&mut question).unwrap();
///             server.write_all(b"pong!").unwrap();
///         });
///         client.write_all(b"ping").unwrap();
///         io::CloseWrite::close_write(&client).unwrap();
///         let answer = io::read_to_string(&mut client).unwrap();
///         assert_eq!(answer, "pong!");
///         assert_eq!(proxy.join().unwrap().unwrap(), (4, 5));
///     });
/// });
/// ```
pub fn copy_bidirectional<A, B>(a: &A, b: &B) -> io::Result<(u64, u64)>
where
    A: CloseWrite + Sync + ?Sized,
    B: CloseWrite + Sync + ?Sized,
    for<'x> &'x A: Read + Write,
    for<'x> &'x B: Read + Write,
{
    let there = || pump(&mut &*a, &mut &*b, b);
    let back = || pump(&mut &*b, &mut &*a, a);
    if task::current_header().is_some() {
        return in_tasks(there, back);
    }
    on_threads(there, back)
}

fn in_tasks(
    there: impl FnOnce() -> io::Result<u64>,
    back: impl FnOnce() -> io::Result<u64> + Send,
) -> io::Result<(u64, u64)> {
    try_scope(|s| {
        let back = s.spawn(back);
        let there = there()?;
        // The scope returns the error if it failed.
        Ok((there, back.join()?))
    })
}

/// On a plain thread, which has no tasks to spawn: another thread. It lives no longer than the call, and under the same limit.
fn on_threads(
    there: impl FnOnce() -> io::Result<u64>,
    back: impl FnOnce() -> io::Result<u64> + Send,
) -> io::Result<(u64, u64)> {
    let limit = task::nearest_deadline().map(|(at, _)| at);
    let under_limit = move || match limit {
        Some(at) => timeout_at(at, back).unwrap_or_else(|elapsed| Err(io::Error::other(elapsed))),
        None => back(),
    };
    thread::scope(|s| {
        let back = thread::Builder::new().spawn_scoped(s, under_limit)?;
        let there = there();
        let back = back.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload));
        // The limit is the caller's: it is he who is told.
        task::begin_wait()?;
        Ok((there?, back?))
    })
}

/// Copies until the end, which is passed on.
fn pump<W: CloseWrite + ?Sized>(
    from: &mut impl Read,
    to: &mut impl Write,
    target: &W,
) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..count])?;
        to.flush()?;
        total += count as u64;
    }
    target.close_write()?;
    Ok(total)
}
