//! The `poll` driver: tells when an fd is ready, and leaves the rest to the caller's next attempt.
//! It needs nothing that a container forbids.
//!
//! # Words
//! - A *side* of an fd is what an op can wait for: something to read, or room to write. Errors and
//!   hang-ups are news for both sides.
//! - An fd is *registered* once for each worker that waits on it, for both sides and *by edges*:
//!   the kernel reports that something has come, not that it is still there. So a wait needs no
//!   system call by itself, and tens of thousands of waits share one `epoll_wait`.
//! - *News* is what an event reports: that a side of an fd may be ready.
//!
//! # Protocol
//! A side is in one of three states. Only its worker accesses the state.
//!
//! ```text
//!              submit                        event
//!   quiet ----------------> waited for ------------------> quiet     (all complete with RETRY)
//!     |                        ^  |
//!     | event                  |  | cancel of the last one
//!     v             event      |  v
//!   ready <----.            (quiet)
//!     |   `----'
//!     | submit: completes with RETRY at the next poll
//!     v
//!   quiet
//! ```
//!
//! 1. The caller that submits an op has attempted it in vain before, or has been told that the fd
//!    is empty (see below). So whatever can be read at the submit came after that, and made an
//!    edge.
//! 2. No wake-up is lost. An edge is reported by the first poll after it. If that poll comes after
//!    the submit, it finds the op waiting. If it comes between the attempt and the submit, it
//!    leaves the side ready. An edge from before the attempt leaves the side ready, too. Then the
//!    op is attempted once in vain, and submitted again.
//! 3. The first submit for an fd registers it, and the kernel reports at once what is already
//!    there.
//! 4. All ops that wait for a side are told. One of them may be cancelled before it attempts
//!    anything, and must not take the news with it.
//!
//! # Empty
//! A server that has read a whole request would attempt the next read in vain, at the price of a
//! system call. So a read on a TCP connection that does not fill its buffer makes the fd *empty*.
//! What comes later makes an edge, and any edge ends this state, whether or not an op waits. Each
//! worker concludes this only for itself, and that makes it reliable: the worker has made the read,
//! and its own set gets every edge after that. There are two exceptions: the end of the stream, and
//! urgent bytes. A read stops short of them, and they may have come with the same edge as the bytes
//! before them. After an event that reports either of them, or an error, no such conclusion is
//! drawn for this fd any more.
//!
//! # Which fd
//! The kernel removes a closed file from the set, and the file's number goes to the next file. So
//! what is remembered about a number holds for one [generation](super::descriptor) of it. A submit
//! with another generation registers the fd anew. The key that events carry has the lower half of
//! the generation. A duplicate of an fd keeps a closed file's registration alive, and the key
//! distinguishes events of that file from those of its successor. If a number comes back to the
//! same file while the old registration is still there, that registration is changed (`EEXIST`). An
//! fd is open while ops wait on it (S3). So another generation that turns up meanwhile is a second
//! name of the same file, and joins them.
//!
//! A shared fd, above all a standard stream, can be made to name another file at any moment by
//! dup2(2), which does not change its generation. So such an fd is registered anew for each wait.
//! An op that still waits for the earlier file then waits for the new one, too.
//!
//! A regular file cannot be registered (`EPERM`). It is always ready.
//!
//! # Several workers
//! Each worker has its own set, and an fd that is used on several workers is in several sets. Each
//! set gets each edge, so again the attempt decides which worker gets what has come.
//!
//! A listener from which several workers accept is the exception: see
//! [`acceptors`](super::acceptors). Its registration is exclusive and reports the state instead of
//! edges, so each poll tells one acceptor until no connection is left. The first poll after an
//! acceptor has come makes the registration. It ends when the last acceptor is told or cancelled,
//! while the fd is certain to be open: an exclusive registration without acceptors would swallow
//! wake-ups that are meant for other workers. The next registration is made at the end of the
//! kernel's list, so the workers take turns.
//!
//! # Wakes
//! The eventfd of the [`Waker`] is registered by edges, too. Every write to it is an edge, so it is
//! never read.
#![expect(unsafe_code, reason = "implements an unsafe method, and names fds by their numbers")]

mod set;
mod table;
#[cfg(test)]
mod tests;

use super::acceptors::{Acceptors, Line};
use super::descriptor::Descriptor;
use super::op::Interest;
use super::{Completion, Driver, Op, Token, Wait, Waker};
use crate::base::hash::HashMap;
use set::{News, Reach, Set};
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::time::Duration;
use std::{fmt, io};
use table::{Entry, Table};

/// The key of the waker's eventfd. No fd has this key, because bit 31 of an fd is clear.
const WAKER: usize = usize::MAX - 1;

/// A set of fds, and the ops that wait for them.
pub(crate) struct Poll {
    set: Set,
    table: Table,
    /// The fd and the side that each op waits for.
    waiting: HashMap<Token, (RawFd, Interest)>,
    acceptors: Acceptors,
    /// Completions that the next poll hands out.
    done: Vec<Completion>,
    /// Completions of acceptors, which the next poll hands out before the others.
    told: Vec<Completion>,
    waker: Waker,
    /// The number of registrations made or changed, for the tests.
    #[cfg(test)]
    registrations: usize,
    /// D1: the driver stays on the thread that opened it.
    _pinned: PhantomData<*const ()>,
}

impl Poll {
    pub(super) fn open(waker: Option<Waker>) -> io::Result<Poll> {
        let set = Set::open().map_err(|error| explain(&error))?;
        let waker = match waker {
            Some(waker) => waker,
            None => Waker::new().map_err(|error| explain(&error))?,
        };
        // SAFETY: the waker's eventfd is open for as long as the waker exists, and this struct
        // keeps the waker.
        unsafe { set.register_reading(waker.fd(), WAKER) }.map_err(|error| explain(&error))?;
        Ok(Poll {
            set,
            table: Table::default(),
            waiting: HashMap::default(),
            acceptors: Acceptors::new(),
            done: Vec::new(),
            told: Vec::new(),
            waker,
            #[cfg(test)]
            registrations: 0,
            _pinned: PhantomData,
        })
    }

    /// Registers the wait. Returns false if it is already over.
    ///
    /// # Safety
    /// The fd is open.
    unsafe fn begin(&mut self, op: &Op, token: Token) -> io::Result<bool> {
        let (fd, side) = op.readiness();
        let number =
            usize::try_from(fd.fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
        let entry = self.table.entry(number);
        if op.may_be_of_another_file() || (!entry.is_known(fd.generation) && !entry.is_waited_for())
        {
            // SAFETY: the caller's promise.
            let reach = unsafe { self.set.register(fd.fd, key(fd)) }?;
            #[cfg(test)]
            {
                self.registrations += 1;
            }
            entry.renew(fd.generation, reach == Reach::AlwaysReady);
        }
        Ok(entry.wait(side, token))
    }

    /// Handles news of an fd or of the waker.
    fn tell(&mut self, news: News) {
        if news.key == WAKER {
            return self.waker.acknowledge();
        }
        let (fd, tag) = split(news.key);
        if !self.acceptors.is_empty() && self.is_listening(fd, tag) {
            return self.tell_acceptors(fd as RawFd, if news.ended { usize::MAX } else { 1 });
        }
        let Some(entry) = self.table.existing(fd).filter(|entry| entry.has_tag(tag)) else {
            return;
        };
        if news.read {
            entry.note_news(news.plain);
        }
        for (side, comes) in [(Interest::Read, news.read), (Interest::Write, news.write)] {
            if comes {
                entry.wake(side, |token| {
                    self.waiting.remove(&token);
                    self.done.push(Completion { token, result: Completion::RETRY, more: false });
                });
            }
        }
    }

    fn is_listening(&mut self, fd: usize, tag: u32) -> bool {
        let line = RawFd::try_from(fd).ok().and_then(|fd| self.acceptors.line(fd));
        line.is_some_and(|line| line.is_listened_to && line.fd.generation as u32 == tag)
    }

    /// Tells up to `most` acceptors of a listener.
    fn tell_acceptors(&mut self, fd: RawFd, most: usize) {
        self.acceptors.tell(fd, most, &mut self.told);
        self.leave_if_idle(fd);
    }

    /// Tells acceptors of the news that another worker has passed on.
    fn hear(&mut self) {
        for fd in self.acceptors.hear(&mut self.told) {
            self.leave_if_idle(fd);
        }
    }

    /// Ends the registration of a listener without acceptors. This happens before their completions
    /// are handed out, so the fd is still open (S3).
    fn leave_if_idle(&mut self, fd: RawFd) {
        if let Some(line) = self.acceptors.line(fd)
            && line.is_empty()
        {
            if std::mem::take(&mut line.is_listened_to) {
                // SAFETY: S3: the completion of the last acceptor has not been handed out, so the
                // fd is open.
                unsafe { self.set.stop_listening(fd) };
            }
            self.acceptors.forget_if_idle(fd);
        }
    }

    /// Registers the listeners that have acceptors and are not registered.
    fn listen(&mut self) {
        let fresh = |line: &&mut Line| !line.is_listened_to;
        let fds: Vec<Descriptor> =
            self.acceptors.lines().filter(fresh).map(|line| line.fd).collect();
        for fd in fds {
            // SAFETY: S3: an acceptor waits, so the fd is open.
            match unsafe { self.set.listen(fd.fd, key(fd)) } {
                Ok(replaced) => {
                    if let Some(line) = self.acceptors.line(fd.fd) {
                        line.is_listened_to = true;
                    }
                    if replaced && let Some(entry) = self.table.existing(fd.fd as usize) {
                        entry.forget(|token| {
                            self.waiting.remove(&token);
                            let result = Completion::RETRY;
                            self.done.push(Completion { token, result, more: false });
                        });
                    }
                }
                Err(error) => {
                    let result = -error.raw_os_error().unwrap_or(libc::EIO);
                    let first = self.told.len();
                    self.acceptors.tell(fd.fd, usize::MAX, &mut self.told);
                    self.told[first..].iter_mut().for_each(|told| told.result = result);
                    self.acceptors.forget_if_idle(fd.fd);
                }
            }
        }
    }

    /// Returns the entry of the fd's number, if it is about this very file.
    fn known(&self, fd: Descriptor) -> Option<&Entry> {
        let entry = self.table.get(usize::try_from(fd.fd).ok()?)?;
        entry.is_known(fd.generation).then_some(entry)
    }
}

/// Returns whether the fd is a TCP connection. There, a read that does not fill its buffer has left
/// nothing behind. Reads on other fds end short for other reasons: at the end of a datagram, or
/// where the peer of a Unix socket has sent an fd.
///
/// # Safety
/// The fd is open.
unsafe fn is_tcp(fd: RawFd) -> bool {
    let (mut protocol, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    let (value, room) = ((&raw mut protocol).cast(), &raw mut length);
    // SAFETY: there is room for the value, and `length` says how much.
    let asked = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, value, room) };
    asked == 0 && protocol == libc::IPPROTO_TCP
}

/// Returns the key that events of this fd carry: 31 bits of its number, 32 of its generation.
fn key(fd: Descriptor) -> usize {
    (fd.generation as u32 as usize) << 32 | fd.fd.cast_unsigned() as usize
}

/// Splits a key into the fd's number and the lower half of its generation.
fn split(key: usize) -> (usize, u32) {
    (key & u32::MAX as usize, (key >> 32) as u32)
}

impl Driver for Poll {
    unsafe fn submit(&mut self, op: &Op, token: Token) {
        if let Op::Accept { fd, shared, .. } = *op
            && (shared || self.acceptors.line(fd.fd).is_some())
        {
            return self.acceptors.add(fd, token, &self.waker);
        }
        // SAFETY: S3: the fd is open until the op's completion.
        let result = match unsafe { self.begin(op, token) } {
            Ok(true) => {
                let (fd, side) = op.readiness();
                self.waiting.insert(token, (fd.fd, side));
                return;
            }
            Ok(false) => Completion::RETRY,
            Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
        };
        self.done.push(Completion { token, result, more: false });
    }

    fn cancel(&mut self, token: Token) {
        if let Some(fd) = self.acceptors.withdraw(token) {
            self.leave_if_idle(fd);
            self.done.push(Completion { token, result: Completion::CANCELLED, more: false });
            return;
        }
        let Some((fd, side)) = self.waiting.remove(&token) else { return };
        if let Some(entry) = usize::try_from(fd).ok().and_then(|fd| self.table.existing(fd)) {
            entry.withdraw(side, token);
        }
        self.done.push(Completion { token, result: Completion::CANCELLED, more: false });
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        if !self.acceptors.is_empty() {
            self.hear();
            self.listen();
        }
        let limit = match wait {
            _ if !self.done.is_empty() || !self.told.is_empty() => Some(Duration::ZERO),
            Wait::Poll if self.waiting.is_empty() && self.acceptors.is_empty() => return Ok(()),
            Wait::Poll => Some(Duration::ZERO),
            Wait::For(limit) => Some(limit),
            Wait::Forever => None,
        };
        // The set is asked even if there is something to hand out. If every wait were cancelled at
        // once, no poll would otherwise fetch the news that ends the state *empty*.
        let count = self.set.wait(limit)?;
        for index in 0..count {
            self.tell(self.set.event(index));
        }
        if !self.told.is_empty() {
            completions.append(&mut self.told);
        }
        completions.append(&mut self.done);
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.acceptors.len() + self.done.len() + self.told.len()
    }

    fn is_worth_attempting(&self, op: &Op) -> bool {
        match *op {
            // The flag in the op is of no use here, because the fd may have been read on another
            // worker.
            Op::Recv { fd, .. } => !self.known(fd).is_some_and(Entry::is_empty),
            _ => true,
        }
    }

    fn observe(&mut self, op: &Op, result: u32) {
        let Op::Recv { fd, len, flags, .. } = *op else { return };
        if result == 0 || result >= len || flags & !libc::MSG_NOSIGNAL != 0 {
            return;
        }
        let Ok(number) = usize::try_from(fd.fd) else { return };
        if let Some(entry) =
            self.table.existing(number).filter(|entry| entry.is_known(fd.generation))
        {
            // SAFETY: S3: a read of the fd has just succeeded, and its owner waits for the result.
            entry.note_empty(|| unsafe { is_tcp(fd.fd) });
        }
    }

    fn pass_on(&mut self, op: &Op) {
        let fd = op.readiness().0.fd;
        self.acceptors.pass_on(fd, &mut self.told);
        self.leave_if_idle(fd);
    }
}

impl fmt::Debug for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll")
            .field("waiting", &self.waiting.len())
            .field("done", &self.done.len())
            .finish_non_exhaustive()
    }
}

/// Returns an error that says what was refused, and what to do.
fn explain(error: &io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EMFILE) => {
            "this process has reached its limit of open files, and each worker needs four for its \
             driver: raise `ulimit -n`, or close some"
        }
        Some(libc::ENFILE) => {
            "the whole system has reached its limit of open files: raise the sysctl fs.file-max, \
             or close some"
        }
        Some(libc::ENOSPC) => {
            "this user has reached the limit of watched files: raise the sysctl \
             fs.epoll.max_user_watches"
        }
        _ => "ecru does not know this error; see epoll_create(2) and eventfd(2)",
    };
    io::Error::new(error.kind(), format!("the kernel refuses to open an epoll ({error}): {text}"))
}
