//! Streams that wait for their next bytes as sources, without a task and its stack.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::socket::Socket;
use super::{TcpStream, UnixStream};
use crate::base::alarm::Ring;
use crate::driver::{FdAlarm, Sides};
use crate::park::WaitList;
use crate::source::{Arms, Pass, Source};

/// A stream that is idle, as a [`Source`] that returns the stream once a read of it would not wait.
///
/// It is created by [`TcpStream::when_readable`] and [`UnixStream::when_readable`]. Together with
/// [`Scope::spawn_when`](crate::Scope::spawn_when), a connection has a task, with its stack, only
/// while it has something to do. A connection that waits for its next request takes 1.3 kB, and one
/// with a task takes 5.0 kB.
///
/// The stream can be taken once. After that the source has no item, so a wait for it does not end.
/// Dropping the source closes a stream that has not been taken, and
/// [`into_inner`](WhenReadable::into_inner) returns it.
///
/// One thread of the process watches all streams that are waited for in this way. If the next bytes
/// usually come within microseconds, a task that reads is faster. If the process has too many open
/// files for that thread, each stream is looked at every 10 ms instead.
///
/// A stream that has been waited for counts as an event that may come, until it is taken or the
/// source is dropped. Deadlocks are not detected meanwhile.
///
/// # Examples
/// A server whose idle connections have no stack:
/// ```
/// use ecru::net::{TcpListener, TcpStream};
/// use std::io::{self, Read, Write};
///
/// fn serve_next<'scope>(s: &'scope ecru::Scope<'scope, '_>, stream: TcpStream) {
///     s.spawn_when(stream.when_readable(), move |mut stream| {
///         let mut request = [0; 4];
///         if stream.read_exact(&mut request).is_ok() && stream.write_all(&request).is_ok() {
///             serve_next(s, stream);
///         }
///     });
/// }
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let mut client = TcpStream::connect(address)?;
///         serve_next(s, listener.accept()?.0);
///         for request in [b"ping", b"pong"] {
///             client.write_all(request)?;
///             let mut answer = [0; 4];
///             client.read_exact(&mut answer)?;
///             assert_eq!(&answer, request);
///         }
///         io::Result::Ok(())
///     })
/// })?;
/// # io::Result::Ok(())
/// ```
pub struct WhenReadable<S> {
    inner: Arc<Inner<S>>,
}

struct Inner<S> {
    /// `None` once the stream has been taken.
    idle: Mutex<Option<Idle<S>>>,
    waiters: WaitList,
    socket: fn(&S) -> &Socket,
}

/// A stream that is watched. The watch ends before the stream leaves.
struct Idle<S> {
    stream: S,
    alarm: FdAlarm,
}

impl<S> Inner<S> {
    fn lock(&self) -> MutexGuard<'_, Option<Idle<S>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, mut idle: Idle<S>) -> S {
        idle.alarm.end(Some((self.socket)(&idle.stream).fd()));
        idle.stream
    }
}

impl<S: Send> Ring for Inner<S> {
    fn ring(&self) {
        self.waiters.notify_all();
    }
}

/// Closes the stream, unless it has been taken. The service may hold on to the rest for a moment.
impl<S> Drop for WhenReadable<S> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<S> WhenReadable<S> {
    fn new(stream: S, socket: fn(&S) -> &Socket) -> WhenReadable<S> {
        let idle = Mutex::new(Some(Idle { stream, alarm: FdAlarm::default() }));
        WhenReadable { inner: Arc::new(Inner { idle, waiters: WaitList::new(), socket }) }
    }

    fn take(&self) -> Option<S> {
        let idle = self.inner.lock().take();
        idle.map(|idle| self.inner.release(idle))
    }

    /// Returns the stream, whether it is readable or not, or `None` if it has been taken.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::UnixStream;
    /// use std::time::Duration;
    ///
    /// let (stream, _peer) = UnixStream::pair()?;
    /// let idle = stream.when_readable();
    /// ecru::select! {
    ///     wait(&idle) -> _ => unreachable!("the peer sends nothing"),
    ///     default(Duration::from_millis(1)) => {}
    /// }
    /// let stream = idle.into_inner().expect("it has not been taken");
    /// # drop(stream);
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use = "dropping the stream closes it"]
    pub fn into_inner(self) -> Option<S> {
        self.take()
    }
}

impl<S: Send + 'static> WhenReadable<S> {
    fn watch(&self) {
        if let Some(idle) = &*self.inner.lock() {
            let inner: Weak<Inner<S>> = Arc::downgrade(&self.inner);
            let fd = (self.inner.socket)(&idle.stream).fd();
            idle.alarm.arm(Some(fd), Sides::READ, inner);
        }
    }
}

impl<S: Send + 'static> Source for WhenReadable<S> {
    type Item = S;

    fn try_take(&self) -> Option<S> {
        let mut place = self.inner.lock();
        let is_readable = |idle: &mut Idle<S>| (self.inner.socket)(&idle.stream).is_readable();
        let idle = place.take_if(is_readable)?;
        drop(place);
        Some(self.inner.release(idle))
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.watch();
        each(&self.inner.waiters);
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        if arms.pass() == Pass::Notify {
            self.watch();
        }
        arms.notified_by(&self.inner.waiters);
    }
}

impl<S> fmt::Debug for WhenReadable<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The formatter may be the user's, so it is not used under the lock.
        let number = |idle: &Idle<S>| (self.inner.socket)(&idle.stream).as_fd().as_raw_fd();
        let fd = self.inner.lock().as_ref().map(number);
        f.debug_struct("WhenReadable").field("fd", &fd).finish()
    }
}

impl TcpStream {
    /// Turns the stream into a source that returns it once a read would return data, the end of
    /// the stream, or an error. Reads nothing.
    ///
    /// While it waits, the stream needs no task: see [`WhenReadable`], which has an example. If the
    /// stream is shared with other readers, one of them may take the data first.
    ///
    /// # Examples
    /// ```
    /// use ecru::Source;
    /// use ecru::net::{TcpListener, TcpStream};
    /// use std::io::{Read, Write};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// let idle = listener.accept()?.0.when_readable();
    /// assert!(idle.try_take().is_none());
    /// client.write_all(b"x")?;
    /// let mut stream = idle.wait().unwrap();
    /// assert_eq!(stream.read(&mut [0; 8])?, 1);
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use = "dropping the source closes the stream"]
    pub fn when_readable(self) -> WhenReadable<TcpStream> {
        WhenReadable::new(self, |stream| &stream.0)
    }
}

impl UnixStream {
    /// Turns the stream into a source that returns it once a read would not wait; see
    /// [`TcpStream::when_readable`].
    ///
    /// # Examples
    /// ```
    /// use ecru::Source;
    /// use ecru::net::UnixStream;
    ///
    /// let (stream, peer) = UnixStream::pair()?;
    /// let idle = stream.when_readable();
    /// drop(peer);
    /// assert!(idle.wait().is_ok());
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use = "dropping the source closes the stream"]
    pub fn when_readable(self) -> WhenReadable<UnixStream> {
        WhenReadable::new(self, |stream| &stream.0)
    }
}
