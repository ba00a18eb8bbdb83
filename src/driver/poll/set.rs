//! The kernel's set of registered fds, by the `polling` crate, and the wait for one of them.
//!
//! The wait uses the set's own fd instead of `polling`, because `polling` needs five system calls
//! for a wait: it sets a timer and arms it before, and empties and arms its notifier afterwards.
//! This wait is one call. It also reports what `polling` does not: that the peer has shut its
//! writing side (`EPOLLRDHUP`). Registrations are made here for the same purpose. See
//! `doc/decisions/0008-polling-without-its-wait.md`.
#![expect(unsafe_code, reason = "system calls on raw pointers and fd numbers")]

use polling::{Event, PollMode, Poller};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// The number of events that one wait fetches. The next wait fetches what is left over.
const BATCH: usize = 256;

/// The outcome of registering an fd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The kernel reports every edge.
    Edges,
    /// The fd is of a kind for which there is nothing to report. Reads and writes never wait.
    AlwaysReady,
}

/// The bits that events report and registrations ask for.
const READ: i32 = libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDHUP;
const WRITE: i32 = libc::EPOLLOUT;
const BOTH: i32 = libc::EPOLLERR | libc::EPOLLHUP;
const EDGES: i32 = libc::EPOLLET;

/// One event.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    /// The key of the fd that the event is about.
    pub(super) key: usize,
    pub(super) read: bool,
    pub(super) write: bool,
    /// True if there may be bytes to read and nothing else: no end, no error, no urgent bytes.
    pub(super) plain: bool,
    /// True after an error, or the end of both sides.
    pub(super) ended: bool,
}

/// The set; see the module.
pub(super) struct Set {
    poller: Poller,
    /// The buffer for events. The last wait has filled its first elements.
    events: Vec<libc::epoll_event>,
    /// True if the kernel knows time-outs finer than a millisecond (Linux 5.11) and no filter
    /// forbids them.
    fine: bool,
}

impl Set {
    pub(super) fn open() -> io::Result<Set> {
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; BATCH];
        Ok(Set { poller: Poller::new()?, events, fine: true })
    }

    /// Returns the set's own fd, which is readable while there are events.
    pub(super) fn fd(&self) -> RawFd {
        self.poller.as_raw_fd()
    }

    /// Makes the set report under this key that the fd can be read.
    ///
    /// # Safety
    /// The fd is open.
    pub(super) unsafe fn register_reading(&self, fd: RawFd, key: usize) -> io::Result<()> {
        // SAFETY: the caller's promise that the fd is open.
        unsafe { self.poller.add_with_mode(fd, Event::readable(key), PollMode::Edge) }
    }

    /// Makes the set report both sides of the fd and the end of the stream under this key,
    /// beginning with what is already there.
    ///
    /// # Safety
    /// The fd is open.
    pub(super) unsafe fn register(&self, fd: RawFd, key: usize) -> io::Result<Reach> {
        let events = (EDGES | READ | WRITE | BOTH).cast_unsigned();
        let mut asked = libc::epoll_event { events, u64: key as u64 };
        let set = self.poller.as_raw_fd();
        // The call of `polling` is not used because it cannot ask for the end of a stream. The
        // registration would have to be widened by a second call.
        // SAFETY: the description of the event is valid and outlives the call.
        let mut control =
            |how| count(i64::from(unsafe { libc::epoll_ctl(set, how, fd, &raw mut asked) }));
        match control(libc::EPOLL_CTL_ADD) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(Reach::AlwaysReady),
            // The fd is registered under an earlier key.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                control(libc::EPOLL_CTL_MOD).map(|_| Reach::Edges)
            }
            outcome => outcome.map(|_| Reach::Edges),
        }
    }

    /// Makes the set report a waiting connection at a listener, for as long as there is one. The
    /// kernel tells one of the sets whose threads sleep. Returns whether the fd was registered in
    /// another way, which this call has ended.
    ///
    /// # Safety
    /// The fd is open.
    pub(super) unsafe fn listen(&self, fd: RawFd, key: usize) -> io::Result<bool> {
        let events = (libc::EPOLLIN | libc::EPOLLEXCLUSIVE).cast_unsigned();
        let mut asked = libc::epoll_event { events, u64: key as u64 };
        let set = self.poller.as_raw_fd();
        let mut add = || {
            // SAFETY: the description of the event is valid and outlives the call.
            let added = unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut asked) };
            count(i64::from(added))
        };
        match add() {
            // An existing registration cannot become exclusive.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                // SAFETY: the caller's promise.
                unsafe { self.stop_listening(fd) };
                add().map(|_| true)
            }
            outcome => outcome.map(|_| false),
        }
    }

    /// Ends a registration.
    ///
    /// # Safety
    /// The fd is open, and has been since it was registered.
    pub(super) unsafe fn stop_listening(&self, fd: RawFd) {
        let set = self.poller.as_raw_fd();
        // SAFETY: this operation needs no description to point to. It cannot fail for a file in the
        // set.
        unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// Waits for news, and returns the number of events. Returns 0 after a time-out or a signal.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<usize> {
        let outcome = match limit {
            None => self.wait_coarsely(-1),
            Some(Duration::ZERO) => self.wait_coarsely(0),
            Some(limit) => self.wait_finely(limit),
        };
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            outcome => outcome,
        }
    }

    /// Returns one of the events that were fetched last.
    pub(super) fn event(&self, index: usize) -> News {
        let libc::epoll_event { events, u64: key } = self.events[index];
        let has = |flags: i32| events & flags.cast_unsigned() != 0;
        News {
            key: key as usize,
            read: has(READ | BOTH),
            write: has(WRITE | BOTH),
            plain: !has(READ & !libc::EPOLLIN | BOTH),
            ended: has(BOTH),
        }
    }

    fn wait_coarsely(&mut self, milliseconds: i32) -> io::Result<usize> {
        let (set, room) = (self.poller.as_raw_fd(), self.events.as_mut_ptr());
        // SAFETY: there is room for `BATCH` events.
        count(i64::from(unsafe { libc::epoll_wait(set, room, BATCH as i32, milliseconds) }))
    }

    fn wait_finely(&mut self, limit: Duration) -> io::Result<usize> {
        // A wait for longer than the kernel can count is cut short. The caller does not notice,
        // because it looks at its own clock.
        let seconds = limit.as_secs().min(1 << 30).cast_signed();
        let limit = libc::timespec {
            tv_sec: seconds,
            tv_nsec: libc::c_long::from(limit.subsec_nanos().cast_signed()),
        };
        if self.fine {
            let no_mask = std::ptr::null::<libc::sigset_t>();
            let (set, room) = (self.poller.as_raw_fd(), self.events.as_mut_ptr());
            // SAFETY: there is room for `BATCH` events, and the limit outlives the call. The kernel
            // ignores the size of a mask that is null.
            let found = count(unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    set,
                    room,
                    BATCH as i32,
                    &raw const limit,
                    no_mask,
                    0_usize,
                )
            });
            match found.as_ref().err().and_then(io::Error::raw_os_error) {
                Some(libc::ENOSYS | libc::EPERM) => self.fine = false,
                _ => return found,
            }
        }
        // The set is itself an fd, which becomes readable.
        let mut asked =
            libc::pollfd { fd: self.poller.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd and a limit, which outlive the call.
        match count(i64::from(unsafe {
            libc::ppoll(&raw mut asked, 1, &raw const limit, std::ptr::null())
        }))? {
            0 => Ok(0),
            _ => self.wait_coarsely(0),
        }
    }

    /// Behaves from now on as on a kernel older than Linux 5.11.
    #[cfg(test)]
    pub(super) fn grow_old(&mut self) {
        self.fine = false;
    }
}

/// Returns the result of a system call that returns -1 and sets errno when it fails.
fn count(result: i64) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
