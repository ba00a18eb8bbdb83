//! A notification with an fd.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};

use crate::base::alarm::Ring;
use crate::driver::request::{Duplicate, NotifyEventFd, OpenEventFd, TakeEventFd};
use crate::driver::{FdAlarm, LentOp, Manner, OwnedDescriptor, Sides, request};
use crate::park::WaitList;
use crate::sched::io::perform;
use crate::source::{Arms, Pass, Source, wait_in_lists};
use crate::task::Cancelled;

/// A notification with an fd, for event loops outside this library. It is the counterpart of
/// [`Notify`](crate::sync::Notify).
///
/// The fd (eventfd(2), in non-blocking mode) is readable while there is a notification that has not
/// been taken. Several notifications count as one. Another event loop watches the fd by poll(2),
/// epoll or a similar call, and takes the notification with [`try_take`](Source::try_take). In the
/// other direction, writing an 8-byte number other than 0 to the fd notifies the waiters here. The
/// writer may be another process that has inherited the fd.
///
/// A clone refers to the same notification. The type is a [`Source`] of notifications. Where no fd
/// is needed, `Notify` is a hundred times as fast.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::io::EventFd;
///
/// let news = EventFd::new().unwrap();
/// let other = news.clone();
/// std::thread::spawn(move || other.notify().unwrap());
/// ecru::run(|| news.wait().unwrap());
/// assert_eq!(news.try_take(), None);
/// ```
#[derive(Clone)]
pub struct EventFd {
    inner: Arc<Inner>,
}

struct Inner {
    fd: OwnedDescriptor,
    waiters: WaitList,
    /// Watches the fd for selects, callbacks and futures. It starts with the first of them.
    alarm: FdAlarm,
}

impl Ring for Inner {
    fn ring(&self) {
        self.waiters.notify_all();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.alarm.end(Some(&self.fd));
    }
}

impl EventFd {
    /// Creates an `EventFd` without a notification.
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    pub fn new() -> io::Result<EventFd> {
        let fd = request(OpenEventFd {})?;
        let inner = Inner { fd, waiters: WaitList::new(), alarm: FdAlarm::default() };
        Ok(EventFd { inner: Arc::new(inner) })
    }

    /// Notifies one waiter, or the next one to wait if there is none. Never waits.
    ///
    /// # Errors
    /// No error is known to occur.
    pub fn notify(&self) -> io::Result<()> {
        request(NotifyEventFd { fd: &self.inner.fd })
    }

    /// Returns a duplicate of the fd, for an event loop that needs to own it.
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    pub fn try_clone_fd(&self) -> io::Result<OwnedFd> {
        request(Duplicate { fd: &self.inner.fd }).map(OwnedDescriptor::into_fd)
    }

    fn watch(&self) {
        let inner: Weak<Inner> = Arc::downgrade(&self.inner);
        self.inner.alarm.arm(Some(&self.inner.fd), Sides::READ, inner);
    }
}

impl Source for EventFd {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        request(TakeEventFd { fd: &self.inner.fd }).ok()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.watch();
        each(&self.inner.waiters);
    }

    /// Waits through the worker's driver, or by poll(2) on a plain thread. The service is used
    /// only if the driver cannot be opened.
    fn wait(&self) -> Result<(), Cancelled> {
        let mut count = [0; 8];
        let op = LentOp::read(self.inner.fd.name(), &mut count, Manner::Nonblocking);
        match perform(&op) {
            Ok(_) => Ok(()),
            Err(error) => match Cancelled::find(&error) {
                Some(cancelled) => Err(cancelled),
                None => wait_in_lists(self),
            },
        }
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        if arms.pass() == Pass::Notify {
            self.watch();
        }
        arms.notified_by(&self.inner.waiters);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.fd.as_fd()
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for EventFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFd").field("fd", &self.inner.fd.name().shown()).finish()
    }
}
