//! Copying in both directions at once.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::driver::request;
use crate::driver::request::ShutDownByFd;
use crate::scope::{timeout_at, try_scope};
use crate::task;

/// The size of the buffer for one read.
const BUFFER: usize = 32 * 1024;

/// The time limit of a call that begins when the idle limit has already passed.
const LAST_LOOK: Duration = Duration::from_millis(1);

/// A stream whose writing side can be closed while it continues to read.
///
/// Every type with an fd implements it by shutdown(2). This covers the TCP and Unix streams of ecru
/// and of std. Other streams, such as those that encrypt, implement it themselves.
///
/// # Examples
/// ```
/// use ecru::io::CloseWrite;
/// use ecru::net::TcpStream;
/// use std::io;
///
/// /// A stream that counts its bytes.
/// struct Counted {
///     stream: TcpStream,
///     written: u64,
/// }
///
/// impl CloseWrite for Counted {
///     fn close_write(&self) -> io::Result<()> {
///         self.stream.close_write()
///     }
/// }
/// ```
pub trait CloseWrite {
    /// Closes the writing side, so that the peer reads the end of the stream.
    ///
    /// # Errors
    /// Returns the errors of the stream.
    fn close_write(&self) -> io::Result<()>;
}

impl<T: AsFd> CloseWrite for T {
    fn close_write(&self) -> io::Result<()> {
        match request(ShutDownByFd { socket: self.as_fd(), how: Shutdown::Write }) {
            // The peer is disconnected, so it has seen the end.
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            outcome => outcome,
        }
    }
}

/// Copies from `a` to `b` and from `b` to `a` at once, until both directions have ended. Returns
/// the number of bytes copied each way, those from `a` first.
///
/// When one direction ends, the writing side of its target is [closed](CloseWrite), so that the end
/// is passed on. The other direction continues. When one direction fails, the other is cancelled.
/// On a plain thread waits cannot be cancelled, so there the other direction continues until it
/// ends by itself or until an enclosing [`timeout`](crate::timeout()) expires.
///
/// # Errors
/// Returns the first error of either direction, or a cancellation.
///
/// # Cancellation
/// This is a cancellation point: both directions end. Bytes that either direction had read and not
/// yet written are lost, and so are the counts.
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
    copy(a, b, None)
}

/// Copies both ways like [`copy_bidirectional`], and fails when no byte has moved in either
/// direction for the duration `idle`.
///
/// The limit is for peers that vanish without closing the connection; without it a proxy would keep
/// such connections forever. A byte that is read or written in one direction restarts the time for
/// both.
///
/// # Errors
/// - `TimedOut` if no byte has moved for the duration `idle`. Neither stream is closed.
/// - `InvalidInput` if the limit is zero.
/// - The errors of [`copy_bidirectional`].
///
/// # Cancellation
/// Behaves like [`copy_bidirectional`].
///
/// # Examples
/// ```
/// use ecru::io::{self, ErrorKind, Write};
/// use std::time::Duration;
///
/// ecru::run(|| {
///     let ((mut client, front), (back, _silent)) = (io::duplex(64), io::duplex(64));
///     client.write_all(b"is anybody there?").unwrap();
///     let error = io::copy_bidirectional_idle(&front, &back, Duration::from_millis(5)).unwrap_err();
///     assert_eq!(error.kind(), ErrorKind::TimedOut);
/// });
/// ```
pub fn copy_bidirectional_idle<A, B>(a: &A, b: &B, idle: Duration) -> io::Result<(u64, u64)>
where
    A: CloseWrite + Sync + ?Sized,
    B: CloseWrite + Sync + ?Sized,
    for<'x> &'x A: Read + Write,
    for<'x> &'x B: Read + Write,
{
    if idle.is_zero() {
        let text = "an idle limit of 0 leaves no time to copy; use copy_bidirectional instead";
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    copy(a, b, Some(&Idle::new(idle)))
}

fn copy<A, B>(a: &A, b: &B, idle: Option<&Idle>) -> io::Result<(u64, u64)>
where
    A: CloseWrite + Sync + ?Sized,
    B: CloseWrite + Sync + ?Sized,
    for<'x> &'x A: Read + Write,
    for<'x> &'x B: Read + Write,
{
    let there = || pump(&mut &*a, &mut &*b, b, idle);
    let back = || pump(&mut &*b, &mut &*a, a, idle);
    if task::current_header().is_some() {
        return in_tasks(there, back);
    }
    on_threads(there, back)
}

/// The idle limit and the time of the last movement in either direction.
struct Idle {
    limit: Duration,
    start: Instant,
    /// The time of the last movement, in nanoseconds after the start. Relaxed: no other data is
    /// published through it.
    moved: AtomicU64,
}

impl Idle {
    fn new(limit: Duration) -> Idle {
        Idle { limit, start: clock::now(), moved: AtomicU64::new(0) }
    }

    /// Records that bytes have moved.
    fn note(&self) {
        let now = u64::try_from((clock::now() - self.start).as_nanos()).unwrap_or(u64::MAX);
        self.moved.fetch_max(now, Ordering::Relaxed);
    }

    /// Runs a call that moves bytes under the idle limit. Repeats it if the limit interrupted it
    /// although the other direction has moved bytes meanwhile.
    fn limited<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            let moved = self.moved.load(Ordering::Relaxed);
            let deadline = self.limit.checked_add(Duration::from_nanos(moved));
            let Some(at) = deadline.and_then(|after| self.start.checked_add(after)) else {
                return call();
            };
            // A wait past its deadline does not look for data. If this worker was busy until then,
            // the call still gets a moment to find data that has arrived.
            let at = at.max(clock::now() + LAST_LOOK.min(self.limit));
            let mut result = None;
            let limited = timeout_at(at, || result = Some(call()));
            match result.expect("the body has run") {
                // Even if a wait inside was interrupted, these bytes have moved.
                Ok(value) => {
                    self.note();
                    return Ok(value);
                }
                Err(error) if limited.is_ok() => return Err(error),
                Err(_) if self.moved.load(Ordering::Relaxed) != moved => {}
                Err(_) => {
                    let text =
                        format!("nothing has moved in either direction for {:?}", self.limit);
                    return Err(io::Error::new(ErrorKind::TimedOut, text));
                }
            }
        }
    }
}

/// Calls `call`, under the idle limit if there is one.
fn limited<T>(idle: Option<&Idle>, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut call = call;
    match idle {
        Some(idle) => idle.limited(call),
        None => call(),
    }
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

/// Runs the second direction on another thread, because a plain thread has no tasks to spawn. That
/// thread ends before the call returns, and has the same time limit.
fn on_threads(
    there: impl FnOnce() -> io::Result<u64>,
    back: impl FnOnce() -> io::Result<u64> + Send,
) -> io::Result<(u64, u64)> {
    let limit = task::deadline();
    let under_limit = move || match limit {
        Some(at) => timeout_at(at, back).unwrap_or_else(|elapsed| Err(io::Error::other(elapsed))),
        None => back(),
    };
    thread::scope(|s| {
        let back = thread::Builder::new().spawn_scoped(s, under_limit)?;
        let there = there();
        let back = back.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload));
        // The time limit belongs to the caller, so this thread reports its expiry.
        task::begin_wait()?;
        Ok((there?, back?))
    })
}

/// Copies until the end of the stream, and passes the end on.
fn pump<W: CloseWrite + ?Sized>(
    from: &mut impl Read,
    to: &mut impl Write,
    target: &W,
    idle: Option<&Idle>,
) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        let count = match limited(idle, || from.read(&mut buffer)) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match limited(idle, || to.write(rest)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        limited(idle, || to.flush())?;
        total += count as u64;
    }
    target.close_write()?;
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    /// A wait that exceeds the limit continues as long as the other direction moves bytes.
    #[test]
    fn the_other_direction_counts() {
        let idle = Idle::new(Duration::from_millis(2));
        let mut calls = 0;
        let result = idle.limited(|| {
            calls += 1;
            if calls == 4 {
                return Ok(7);
            }
            let cut_short = time::sleep(Duration::from_secs(3600)).unwrap_err();
            idle.note();
            Err(cut_short.into())
        });
        assert_eq!((result.unwrap(), calls), (7, 4));
        let wait = || Ok(time::sleep(Duration::from_secs(3600))?);
        assert_eq!(idle.limited(wait).unwrap_err().kind(), ErrorKind::TimedOut);
        // An error of the stream itself is passed on unchanged.
        let own = idle.limited(|| Err::<(), _>(ErrorKind::BrokenPipe.into())).unwrap_err();
        assert_eq!(own.kind(), ErrorKind::BrokenPipe);
    }
}
