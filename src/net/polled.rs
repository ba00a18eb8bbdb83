//! Sockets for code that polls: readiness and wakers, without a task that waits.
#![expect(unsafe_code, reason = "reads into memory that need not be initialized")]

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use super::socket::Socket;
use super::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use crate::base::alarm::Ring;
use crate::driver::{FdAlarm, Observer, Sides};
use crate::sched;
use crate::task;

/// The bytes of a read that count as one operation, because their reader has work with them.
const BYTES: usize = 4096;

/// A side of a socket that is waited for.
///
/// # Examples
/// See [`Polled::try_io`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// Something to read, or a connection to accept.
    Read,
    /// Room to write.
    Write,
}

impl From<Interest> for crate::driver::Interest {
    fn from(interest: Interest) -> crate::driver::Interest {
        match interest {
            Interest::Read => crate::driver::Interest::Read,
            Interest::Write => crate::driver::Interest::Write,
        }
    }
}

/// A socket that can be [polled](Polled).
///
/// The trait is sealed. It is implemented for the sockets of [`net`](crate::net).
///
/// # Examples
/// ```
/// use ecru::net::{Pollable, Polled, TcpListener};
///
/// /// Sockets of any kind, for a program that polls all of them.
/// fn polled<S: Pollable>(sockets: Vec<S>) -> std::io::Result<Vec<Polled<S>>> {
///     sockets.into_iter().map(Polled::new).collect()
/// }
///
/// let listeners = polled(vec![TcpListener::bind("127.0.0.1:0")?])?;
/// assert!(listeners[0].get_ref().local_addr()?.port() > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Pollable: Internals {}

impl<S: Internals> Pollable for S {}

/// The methods of [`Pollable`]. The trait cannot be named outside the crate, which hides them from
/// users.
#[expect(unnameable_types, reason = "seals `Pollable`")]
pub trait Internals {
    #[doc(hidden)]
    fn socket(&self) -> Part<'_>;
}

/// The inner part of a socket.
#[derive(Debug)]
#[expect(unnameable_types, reason = "part of a sealed interface")]
pub struct Part<'s>(&'s Socket);

macro_rules! pollable {
    ($($name:ident),+) => {$(
        impl Internals for $name {
            fn socket(&self) -> Part<'_> {
                Part(&self.0)
            }
        }
    )+};
}

pollable!(TcpStream, TcpListener, UdpSocket, UnixStream, UnixListener, UnixDatagram);

/// A socket with the interface that futures need: a wait is a waker that is called later, and not a
/// task that is parked.
///
/// It is for the code of other crates, such as an implementation of hyper's or tokio's I/O traits,
/// and is used together with [`spawn_future`](crate::Scope::spawn_future) or
/// [`block_on`](crate::block_on). Code of your own reads and writes the socket itself.
///
/// A wait needs no task, no memory and no system call. On a worker of a run, the worker's driver
/// watches the socket and calls the wakers. A thread of another runtime may poll as well: then a
/// thread of ecru's watches the socket.
///
/// Each side keeps the waker of the last call that returned `Pending` for it. So at most one task
/// reads and one writes, as with tokio's `poll_` methods.
///
/// A call may return `Ready` although a transfer would have to wait. The transfer then returns
/// [`WouldBlock`](io::ErrorKind::WouldBlock), and [`try_io`](Polled::try_io) notes that.
///
/// A socket that is polled counts as an event that may come, so deadlocks are not detected while it
/// exists.
///
/// A socket that is always ready does not keep a worker: after 128 operations or 512 KiB in one poll
/// of a task or of [`block_on`](crate::block_on), it is pending and calls the waker, so that other
/// tasks run.
///
/// # Examples
/// ```
/// use ecru::net::{Polled, TcpListener, TcpStream};
/// use std::future::poll_fn;
/// use std::io::{self, Write};
///
/// async fn read_all(stream: &Polled<TcpStream>) -> io::Result<Vec<u8>> {
///     let (mut all, mut buffer) = (Vec::new(), [0; 512]);
///     loop {
///         match poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await? {
///             0 => return Ok(all),
///             count => all.extend_from_slice(&buffer[..count]),
///         }
///     }
/// }
///
/// ecru::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let mut client = TcpStream::connect(listener.local_addr()?)?;
///     let stream = Polled::new(listener.accept()?.0)?;
///     ecru::scope(|s| {
///         let all = s.spawn_future(async { read_all(&stream).await });
///         client.write_all(b"hello")?;
///         drop(client);
///         assert_eq!(all.join().unwrap()?, b"hello");
///         Ok(())
///     })
/// })
/// # .map_err(|error: io::Error| panic!("{error}")).unwrap();
/// ```
pub struct Polled<S: Pollable> {
    /// `None` only while the struct is dropped.
    socket: Option<S>,
    observer: Arc<Observer>,
    /// Tells the observer where no driver does.
    alarm: FdAlarm,
}

impl<S: Pollable> Polled<S> {
    /// Takes a socket, and sets it to non-blocking mode (`set_nonblocking`), which its clones share.
    ///
    /// # Errors
    /// Returns the errors of `set_nonblocking`.
    pub fn new(socket: S) -> io::Result<Polled<S>> {
        socket.socket().0.set_nonblocking(true);
        Ok(Polled {
            socket: Some(socket),
            observer: Arc::new(Observer::new()),
            alarm: FdAlarm::default(),
        })
    }

    /// Returns the socket, for its addresses and options.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "it is there until the drop")]
    pub fn get_ref(&self) -> &S {
        self.socket.as_ref().expect("it is there until the drop")
    }

    /// Returns the socket, which stays in non-blocking mode. Wakers that were kept are dropped.
    #[must_use = "dropping the socket closes it"]
    #[expect(clippy::missing_panics_doc, reason = "it is there until the drop")]
    pub fn into_inner(mut self) -> S {
        self.end();
        self.socket.take().expect("it is there until the drop")
    }

    /// Ends what tells of the socket, before it is closed.
    fn end(&mut self) {
        if let Some(socket) = &self.socket {
            let fd = socket.socket().0.fd();
            sched::io::unobserve(fd, &self.observer);
            self.alarm.end(Some(fd));
            self.observer.forget_wakers();
        }
    }

    /// Returns whether a read, or an accept, is worth an attempt: there is data, a connection, the
    /// end of the stream or an error, or nothing is known. Otherwise the waker is called when that
    /// changes.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be watched, for instance because the system has no
    /// memory left.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_ready(Interest::Read, cx)
    }

    /// Returns whether a write is worth an attempt. Otherwise the waker is called when that changes.
    ///
    /// # Errors
    /// As [`poll_read_ready`](Polled::poll_read_ready).
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_ready(Interest::Write, cx)
    }

    fn poll_ready(&self, interest: Interest, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(task::poll_budget(cx));
        let ready = self.observer.poll_ready(interest.into(), cx, || self.tell(interest));
        if ready.is_ready() {
            task::spend_poll_budget(1);
        }
        ready
    }

    /// Makes sure that the observer is told of what comes.
    fn tell(&self, interest: Interest) -> io::Result<()> {
        let fd = self.get_ref().socket().0.fd();
        if sched::io::observe(fd, &self.observer)? {
            return Ok(());
        }
        // The other side may have been armed by another call, which this one would replace.
        let write = interest == Interest::Write || self.observer.has_writer();
        let read = interest == Interest::Read || self.observer.has_reader();
        let observer: Weak<Observer> = Arc::downgrade(&self.observer);
        let observer: Weak<dyn Ring> = observer;
        self.alarm.arm(Some(fd), Sides { read, write }, observer);
        Ok(())
    }

    /// Makes a transfer that does not wait. `transfer` is called with the socket, which is in
    /// non-blocking mode. If it returns [`WouldBlock`](io::ErrorKind::WouldBlock), this side is not
    /// ready until there is news.
    ///
    /// # Errors
    /// Returns the error of `transfer`.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{Interest, Polled, UdpSocket};
    /// use std::future::poll_fn;
    /// use std::io;
    ///
    /// let socket = Polled::new(UdpSocket::bind("127.0.0.1:0")?)?;
    /// socket.get_ref().send_to(b"to myself", socket.get_ref().local_addr()?)?;
    /// let mut buffer = [0; 64];
    /// let count = ecru::block_on(async {
    ///     loop {
    ///         poll_fn(|cx| socket.poll_read_ready(cx)).await?;
    ///         match socket.try_io(Interest::Read, |socket| socket.recv(&mut buffer)) {
    ///             Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
    ///             other => return other,
    ///         }
    ///     }
    /// })??;
    /// assert_eq!(&buffer[..count], b"to myself");
    /// # io::Result::Ok(())
    /// ```
    pub fn try_io<T>(
        &self,
        interest: Interest,
        transfer: impl FnOnce(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        let seen = self.observer.look();
        let result = transfer(self.get_ref());
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.observer.note_in_vain(seen, interest.into());
        }
        result
    }

    /// Attempts a transfer whenever the side is ready, until it need not wait.
    fn poll_io<T>(
        &self,
        interest: Interest,
        cx: &mut Context<'_>,
        mut transfer: impl FnMut(&S) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.poll_ready(interest, cx))?;
            match self.try_io(interest, &mut transfer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
        }
    }
}

impl<S: Pollable> Polled<S>
where
    for<'s> &'s S: Read + Write,
{
    /// Reads into `buffer`. Returns the number of bytes, which is 0 at the end of the stream.
    ///
    /// After a read that does not fill the buffer of a TCP stream, the next read is not attempted
    /// before there is more.
    ///
    /// # Errors
    /// Returns the errors of the read, and those of [`poll_read_ready`](Polled::poll_read_ready).
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let buffer: *mut [u8] = buffer;
        // SAFETY: the slice is the caller's, and nothing but initialized bytes is written to it.
        self.poll_read_uninit(cx, unsafe { &mut *(buffer as *mut [MaybeUninit<u8>]) })
    }

    /// Reads into `buffer` as [`poll_read`](Polled::poll_read) does, and does not need initialized
    /// memory. As many bytes as are returned have been initialized.
    ///
    /// # Errors
    /// As [`poll_read`](Polled::poll_read).
    pub fn poll_read_uninit(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_read_ready(cx))?;
            let seen = self.observer.look();
            match self.get_ref().socket().0.receive_now(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.observer.note_in_vain(seen, Interest::Read.into());
                }
                Ok(count) => {
                    if 0 < count && count < buffer.len() {
                        self.observer.note_drained(seen);
                    }
                    let operations = u32::try_from(count / BYTES).unwrap_or(u32::MAX);
                    task::spend_poll_budget(operations);
                    return Poll::Ready(Ok(count));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Writes some of `bytes`. Returns how many.
    ///
    /// # Errors
    /// Returns the errors of the write, and those of [`poll_write_ready`](Polled::poll_write_ready).
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_io(Interest::Write, cx, |mut socket| socket.write(bytes))
    }

    /// Writes some of the bytes of several buffers. Returns how many.
    ///
    /// # Errors
    /// As [`poll_write`](Polled::poll_write).
    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(Interest::Write, cx, |mut socket| socket.write_vectored(parts))
    }
}

impl<S: Pollable> Drop for Polled<S> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<S: Pollable + fmt::Debug> fmt::Debug for Polled<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Polled").field(self.get_ref()).finish()
    }
}
