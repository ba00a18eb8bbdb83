//! Copying both ways at once.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::scope::{timeout_at, try_scope};
use crate::task;

/// How much is read at once.
const BUFFER: usize = 32 * 1024;

/// How long a call may take that begins when the idle limit has passed already.
const LAST_LOOK: Duration = Duration::from_millis(1);

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
    copy(a, b, None)
}

/// Copies both ways, as [`copy_bidirectional`] does, and gives up when nothing has moved in either direction for as long as `idle`.
///
/// The limit is for peers that are gone without a word: a proxy whose connections have no limit keeps those for ever. A byte that was
/// read or written in one direction starts the time anew for both.
///
/// # Errors
/// - `TimedOut` if nothing has moved for so long. Neither stream is closed.
/// - `InvalidInput` if the limit is zero.
/// - Those of [`copy_bidirectional`].
///
/// # Cancellation
/// As [`copy_bidirectional`].
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
        let text = "an idle limit of 0 leaves no time to copy; use copy_bidirectional for none";
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

/// When something has last moved in either direction, and how long ago that may be.
struct Idle {
    limit: Duration,
    start: Instant,
    /// Nanoseconds after the start. Relaxed: nothing is read through it.
    moved: AtomicU64,
}

impl Idle {
    fn new(limit: Duration) -> Idle {
        Idle { limit, start: clock::now(), moved: AtomicU64::new(0) }
    }

    /// Something has moved.
    fn note(&self) {
        let now = u64::try_from((clock::now() - self.start).as_nanos()).unwrap_or(u64::MAX);
        self.moved.fetch_max(now, Ordering::Relaxed);
    }

    /// Calls a function that moves bytes, again if it was cut short while the other direction was at work.
    fn limited<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            let moved = self.moved.load(Ordering::Relaxed);
            let deadline = self.limit.checked_add(Duration::from_nanos(moved));
            let Some(at) = deadline.and_then(|after| self.start.checked_add(after)) else {
                return call();
            };
            // A worker that was busy meanwhile still finds what has come: past its deadline a wait does not look.
            let at = at.max(clock::now() + LAST_LOOK.min(self.limit));
            let mut result = None;
            let limited = timeout_at(at, || result = Some(call()));
            match result.expect("the body has run") {
                // Also if a wait inside was cut short: these bytes have moved.
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

    /// A wait that outlasts the limit goes on as long as the other direction moves something.
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
        // An error of the stream's own stays what it is.
        let own = idle.limited(|| Err::<(), _>(ErrorKind::BrokenPipe.into())).unwrap_err();
        assert_eq!(own.kind(), ErrorKind::BrokenPipe);
    }
}
