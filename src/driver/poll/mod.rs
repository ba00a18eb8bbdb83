//! The `poll` driver: learns when an fd is ready, and attempts the ops that wait for it. It needs
//! nothing that a container forbids.
//!
//! # Words
//! - A *side* of an fd is what an op can wait for: something to read, or room to write. Errors and
//!   hang-ups are news for both sides.
//! - An fd is *registered* once for each worker that waits on it, for both sides and *by edges*:
//!   the kernel reports that something has come, not that it is still there. So a wait needs no
//!   system call by itself, and tens of thousands of waits share one `epoll_wait`.
//! - *News* is what an event reports: that a side of an fd may be ready. An op is *told* when it is
//!   attempted because of news.
//!
//! # Protocol
//! A side is in one of three states. Only its worker accesses the state.
//!
//! ```text
//!              start                         event
//!   quiet ----------------> waited for ------------------> quiet, or still waited for
//!     |                        ^  |        (all are told)
//!     | event                  |  | cancel of the last one
//!     v             event      |  v
//!   ready <----.            (quiet)
//!     |   `----'
//!     | start: the op is told at once
//!     v
//!   quiet, or waited for
//! ```
//!
//! 1. An op that is started has been attempted in vain, or its fd is *drained* (see below). So
//!    whatever can be read at the start came after that, and made an edge.
//! 2. No wake-up is lost. An edge is reported by the first poll after it. If that poll comes after
//!    the start, it finds the op waiting. If it comes between the attempt and the start, it leaves
//!    the side ready. An edge from before the attempt leaves the side ready, too. Then the op is
//!    attempted once more.
//! 3. The first start for an fd registers it, and the kernel reports at once what is already there.
//! 4. All ops that wait for a side are told, in the order in which they came. Those that still have
//!    to wait stay.
//!
//! # Drained
//! A server that has read a whole request would attempt the next read in vain, at the price of a
//! system call. So a read on a TCP connection that does not fill its buffer makes the fd *drained*
//! on the thread that has made the read (see [`descriptor`](super::descriptor)). A read on a
//! drained fd is not attempted before it waits. Claim: nothing can be read then that is not
//! reported by an event that is still to come, or remembered as *ready*. For whatever can be read
//! came after that read, and made an edge for the set of this thread. If its event has been handled
//! since, either an op was told, and that ends the state (a read that then leaves nothing behind
//! begins it anew), or the side is ready. Other threads that read the fd overwrite the hint, and
//! cannot write this thread's identity. The claim has three exceptions: the end of the stream,
//! urgent bytes, and a second name of the fd, whose ops use news up without touching the hint of
//! the first. A read stops short of the end and of urgent bytes, and they may have come with the
//! same edge as the bytes before them. So after an event that reports either of them, or an error,
//! and after a wait by another name, every read on this fd is attempted first.
//!
//! # Which fd
//! The kernel removes a closed file from the set, and the file's number goes to the next file. So
//! what is remembered about a number holds for one [generation](super::descriptor) of it. A start
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
//! A regular file cannot be registered (`EPERM`). It is always ready, and an op that would wait all
//! the same is started anew at each poll.
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

use super::acceptors::{AcceptorLine, Acceptors};
use super::attempt::{is_untold, without_waiting};
use super::descriptor::OwnedDescriptor;
use super::flight::{Flying, errno, is_error_entry};
use super::observer::{Heard, Observe, Observer, call_waker};
use super::op::Interest;
use super::stream::socket_option;
use super::{Completion, Driver, InFlight, Op, PollTimeout, StartedOp, Token, Waker};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use set::{News, Reach, Set};
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io, mem, ptr};
use table::{Found, Table};

/// The key of the waker's eventfd. No fd has this key, because bit 31 of an fd is clear.
const WAKER: usize = usize::MAX - 1;

/// A set of fds, and the ops that wait for them.
pub(crate) struct Poll {
    set: Set,
    table: Table,
    /// The number of ops whose completion has not been handed out.
    in_flight: usize,
    acceptors: Acceptors,
    /// Ops that the next poll starts anew.
    again: Vec<Flying>,
    /// Completions that the next poll hands out.
    done: Vec<Completion>,
    /// Completions of acceptors, which the next poll hands out before the others.
    told: Vec<Completion>,
    waker: Waker,
    /// The number of observers whose owners exist.
    observers: Arc<AtomicUsize>,
    /// The wakers of observers that have been told.
    wakers: Vec<std::task::Waker>,
    /// The number of registrations made or changed, for the tests.
    #[cfg(test)]
    registrations: usize,
    /// D1: the driver stays on the thread that opened it.
    _pinned: PhantomData<*const ()>,
}

impl Poll {
    pub(super) fn open(waker: Option<Waker>) -> io::Result<Poll> {
        let waker = match waker {
            Some(waker) => waker,
            None => Waker::new().map_err(|error| explain(&error))?,
        };
        let driver = Poll::open_beside(waker)?;
        let (set, waker) = (&driver.set, driver.waker.fd());
        // SAFETY: the waker's eventfd is open for as long as the waker exists, and this struct
        // keeps the waker.
        unsafe { set.register_reading(waker, WAKER) }.map_err(|error| explain(&error))?;
        Ok(driver)
    }

    /// Opens a set that serves another driver of the same worker. That driver watches the waker.
    pub(super) fn open_beside(waker: Waker) -> io::Result<Poll> {
        let set = Set::open().map_err(|error| explain(&error))?;
        Ok(Poll {
            set,
            table: Table::default(),
            in_flight: 0,
            acceptors: Acceptors::new(),
            again: Vec::new(),
            done: Vec::new(),
            told: Vec::new(),
            waker,
            observers: Arc::default(),
            wakers: Vec::new(),
            #[cfg(test)]
            registrations: 0,
            _pinned: PhantomData,
        })
    }

    #[cfg(test)]
    pub(super) fn acceptors(&self) -> &Acceptors {
        &self.acceptors
    }

    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Returns the number of ops in flight, without the observers.
    pub(super) fn count_ops(&self) -> usize {
        self.in_flight
    }

    /// Returns whether there are wakers to be called.
    pub(super) fn has_wakers(&self) -> bool {
        !self.wakers.is_empty()
    }

    /// Returns the fd that is readable while a poll would find news.
    pub(super) fn fd(&self) -> RawFd {
        self.set.fd()
    }

    /// Takes over an op of the driver that this set serves. Returns [`StartedOp::Untold`] if no
    /// edge would tell of its fd.
    ///
    /// # Safety
    /// S3: the op is in flight. An attempt of it was in vain.
    pub(super) unsafe fn take_over(&mut self, flight: &InFlight<'_>) -> StartedOp {
        // SAFETY: S3, the caller's promise.
        let started = unsafe { self.wait(flight, flight.token()) };
        if self.again.pop().is_some() {
            self.in_flight -= 1;
            return StartedOp::Untold;
        }
        started
    }

    /// Gives an op up that was taken over. Returns false if it has already ended.
    pub(super) fn give_up(&mut self, flight: &InFlight<'_>) -> bool {
        let waited = self.withdraw(flight);
        self.in_flight -= usize::from(waited);
        waited
    }

    /// Removes an op from the side of its fd. Returns whether it waited there.
    fn withdraw(&mut self, flight: &InFlight<'_>) -> bool {
        let (fd, side) = (flight.op().descriptor().fd, flight.op().interest());
        let entry = usize::try_from(fd).ok().and_then(|fd| self.table.existing(fd));
        entry.is_some_and(|entry| entry.withdraw(side, flight))
    }

    /// Makes the op wait for news of its fd. Returns its result if there is news already and the op
    /// can be carried out.
    ///
    /// # Safety
    /// The conditions are those of [`Driver::start`]. An attempt of the op would have been in vain.
    unsafe fn wait(&mut self, flight: &InFlight<'_>, token: Token) -> StartedOp {
        let op = flight.op();
        let (fd, side) = (op.descriptor(), op.interest());
        let Ok(number) = usize::try_from(fd.fd) else {
            return StartedOp::Done(Err(io::Error::from_raw_os_error(libc::EBADF)));
        };
        let entry = self.table.entry(number);
        if op.may_be_of_another_file()
            || (!entry.is_known(fd.generation()) && !entry.is_waited_for())
        {
            // SAFETY: the caller's promise.
            let reach = match unsafe { self.set.register(fd.fd, key(fd.fd, fd.generation())) } {
                Ok(reach) => reach,
                Err(error) => return StartedOp::Done(Err(error)),
            };
            #[cfg(test)]
            {
                self.registrations += 1;
            }
            entry.renew(fd.generation(), reach == Reach::AlwaysReady);
        }
        if !entry.is_known(fd.generation()) {
            entry.doubt();
        }
        let found = match entry.find(side) {
            // The end of reading is told once, which may have been before this op came.
            Found::Nothing if op.ends_by_shutdown() && entry.is_doubtful() => Found::News,
            found => found,
        };
        match found {
            Found::Nothing => entry.wait(side, flight.keep(token)),
            Found::AlwaysReady => self.again.push(flight.keep(token)),
            Found::News => {
                // SAFETY: S3, the caller's promise.
                if let Some(completion) = unsafe { flight.resume() } {
                    return StartedOp::Done(completion.into_result());
                }
                entry.wait(side, flight.keep(token));
            }
        }
        self.in_flight += 1;
        StartedOp::Pending
    }

    /// Starts anew the ops for which no event comes.
    fn start_again(&mut self) {
        for flying in mem::take(&mut self.again) {
            // SAFETY: S3: an op in this list is in flight.
            let flight = unsafe { &*flying };
            // SAFETY: S3: an op in this list is in flight.
            if let Some(completion) = unsafe { flight.resume() } {
                self.done.push(completion);
                continue;
            }
            let token = flight.token();
            // It is counted anew below.
            self.in_flight -= 1;
            // SAFETY: S3: an op in this list is in flight.
            if let StartedOp::Done(result) = unsafe { self.begin(flight, token) } {
                self.in_flight += 1;
                let result = result.map_or_else(|error| errno(&error), u32::cast_signed);
                self.done.push(flight.completion(result));
            }
        }
    }

    /// Starts an op whose attempt would be in vain.
    ///
    /// # Safety
    /// As [`Poll::wait`].
    #[inline]
    unsafe fn begin(&mut self, flight: &InFlight<'_>, token: Token) -> StartedOp {
        if let Op::Accept { fd, shared, .. } = *flight.op()
            && (shared || self.acceptors.line(fd.fd).is_some())
        {
            self.in_flight += 1;
            // SAFETY: S3, the caller's promise.
            unsafe { self.acceptors.add(flight.keep(token), &self.waker) };
            return StartedOp::Pending;
        }
        // SAFETY: S3, the caller's promise.
        unsafe { self.wait(flight, token) }
    }

    /// Returns whether the op is a read that is certain to be told of whatever can be read.
    fn is_certain_of_news(&mut self, op: &Op<'_>) -> bool {
        let Op::Recv { fd, stream: true, .. } = *op else { return false };
        let entry = usize::try_from(fd.fd).ok().and_then(|number| self.table.existing(number));
        let is_plain = || is_tcp(fd.fd);
        fd.is_drained_here()
            && entry.is_some_and(|entry| {
                entry.is_known(fd.generation()) && entry.tells_of_all_that_comes(is_plain)
            })
    }

    /// Handles news of an fd or of the waker.
    fn handle(&mut self, news: News) {
        if news.key == WAKER {
            return self.waker.acknowledge();
        }
        let (fd, tag) = split(news.key);
        if !self.acceptors.is_empty() && self.is_listening(fd, tag) {
            return self.complete_acceptors(fd as RawFd, if news.ended { usize::MAX } else { 1 });
        }
        let Some(entry) = self.table.existing(fd).filter(|entry| entry.has_tag(tag)) else {
            return;
        };
        if news.read && !news.plain {
            entry.doubt();
        }
        let plain = entry.observer.is_some()
            && news.plain
            && entry.tells_of_all_that_comes(|| is_tcp(fd as RawFd));
        if let Some(observer) = &entry.observer {
            let heard = Heard { read: news.read, write: news.write, plain };
            observer.hear(heard, &mut self.wakers);
        }
        for (side, comes) in [(Interest::Read, news.read), (Interest::Write, news.write)] {
            if comes {
                entry.wake(side, |flying| {
                    // SAFETY: S3: an op that waits is in flight.
                    let flight = unsafe { &*flying };
                    // SAFETY: S3: an op that waits is in flight.
                    let completion = unsafe { flight.resume() };
                    self.done.extend(completion);
                    completion.is_some()
                });
            }
        }
    }

    fn is_listening(&mut self, fd: usize, tag: u32) -> bool {
        let line = RawFd::try_from(fd).ok().and_then(|fd| self.acceptors.line(fd));
        line.is_some_and(|line| line.is_listened_to && line.generation as u32 == tag)
    }

    /// Tells up to `most` acceptors of a listener.
    fn complete_acceptors(&mut self, fd: RawFd, most: usize) {
        self.acceptors.complete(fd, most, &mut self.told);
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
        let fresh = |line: &&mut AcceptorLine| !line.is_listened_to;
        let listeners: Vec<(RawFd, u64)> =
            self.acceptors.lines().filter(fresh).map(|line| (line.fd, line.generation)).collect();
        for (fd, generation) in listeners {
            // SAFETY: S3: an acceptor waits, so the fd is open.
            match unsafe { self.set.listen(fd, key(fd, generation)) } {
                Ok(replaced) => {
                    if let Some(line) = self.acceptors.line(fd) {
                        line.is_listened_to = true;
                    }
                    if replaced && let Some(entry) = self.table.existing(fd as usize) {
                        if let Some(observer) = entry.observer.take() {
                            observer.lose(&mut self.wakers);
                        }
                        self.again.append(&mut entry.forget());
                    }
                }
                Err(error) => {
                    self.acceptors.fail(fd, errno(&error), &mut self.told);
                    self.acceptors.forget_if_idle(fd);
                }
            }
        }
    }
}

/// Returns whether the fd is a TCP connection. There, a read that does not fill its buffer has left
/// nothing behind. Reads on other fds end short for other reasons: at the end of a datagram, or
/// where the peer of a Unix socket has sent an fd.
fn is_tcp(fd: RawFd) -> bool {
    socket_option(fd, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
}

/// Returns the key that events of this fd carry: 31 bits of its number, 32 of its generation.
fn key(fd: RawFd, generation: u64) -> usize {
    (generation as u32 as usize) << 32 | fd.cast_unsigned() as usize
}

/// Splits a key into the fd's number and the lower half of its generation.
fn split(key: usize) -> (usize, u32) {
    (key & u32::MAX as usize, (key >> 32) as u32)
}

impl Driver for Poll {
    #[inline]
    unsafe fn start(&mut self, flight: &InFlight<'_>, token: Token) -> StartedOp {
        let op = flight.op();
        if let Op::File(_) = op {
            return StartedOp::Blocking;
        }
        if !flight.was_attempted() && !self.is_certain_of_news(op) {
            // SAFETY: S3, the caller's promise.
            match unsafe { without_waiting(op) } {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(result) if is_error_entry(op, result) => {}
                outcome => return StartedOp::Done(outcome),
            }
        }
        // SAFETY: S3, the caller's promise.
        if unsafe { is_untold(op) } {
            return StartedOp::Untold;
        }
        // SAFETY: S3, the caller's promise.
        unsafe { self.begin(flight, token) }
    }

    fn cancel(&mut self, flight: &InFlight<'_>) {
        if let Some(fd) = self.acceptors.withdraw(flight) {
            self.leave_if_idle(fd);
        } else {
            let waited = self.withdraw(flight);
            let again = self.again.iter().position(|again| ptr::addr_eq(*again, flight));
            if let Some(index) = again {
                self.again.remove(index);
            } else if !waited {
                return;
            }
        }
        self.done.push(flight.completion(Completion::CANCELLED));
    }

    fn poll(&mut self, wait: PollTimeout, completions: &mut Vec<Completion>) -> io::Result<()> {
        if !self.acceptors.is_empty() {
            self.hear();
            self.listen();
        }
        if !self.again.is_empty() {
            self.start_again();
        }
        let limit = match wait {
            _ if !(self.done.is_empty() && self.told.is_empty() && self.again.is_empty()) => {
                Some(Duration::ZERO)
            }
            _ if !self.wakers.is_empty() => Some(Duration::ZERO),
            PollTimeout::Poll if self.in_flight() == 0 => return Ok(()),
            PollTimeout::Poll => Some(Duration::ZERO),
            PollTimeout::For(limit) => Some(limit),
            PollTimeout::Forever => None,
        };
        // The set is asked even if there is something to hand out, so that the news for other ops
        // does not have to wait for it.
        let count = self.set.wait(limit)?;
        for index in 0..count {
            self.handle(self.set.event(index));
        }
        self.in_flight -= self.told.len() + self.done.len();
        if !self.told.is_empty() {
            completions.append(&mut self.told);
        }
        completions.append(&mut self.done);
        Ok(())
    }

    #[inline]
    fn in_flight(&self) -> usize {
        // A waker that is to be called is something that the next poll hands out.
        self.in_flight + self.observers.load(Ordering::Relaxed) + self.wakers.len()
    }
}

impl Observe for Poll {
    fn observe(
        &mut self,
        fd: &OwnedDescriptor,
        observer: &Arc<Observer>,
        place: usize,
    ) -> io::Result<()> {
        let name = fd.name();
        let number = usize::try_from(name.fd).map_err(|_| io::ErrorKind::Unsupported)?;
        let entry = self.table.entry(number);
        let is_new = !entry.is_known(name.generation()) && !entry.is_waited_for();
        if is_new {
            // SAFETY: the owner of the descriptor keeps it open during this call.
            let reach = unsafe { self.set.register(name.fd, key(name.fd, name.generation()))? };
            #[cfg(test)]
            {
                self.registrations += 1;
            }
            entry.renew(name.generation(), reach == Reach::AlwaysReady);
        }
        if entry.is_always_ready() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        observer.join(place, &self.observers);
        entry.observer = Some(Arc::clone(observer));
        if !is_new {
            // News that came before this call is not reported again.
            observer.hear(Heard { read: true, write: true, plain: false }, &mut self.wakers);
        }
        Ok(())
    }

    fn unobserve(&mut self, fd: &OwnedDescriptor, observer: &Arc<Observer>) {
        let entry = usize::try_from(fd.name().fd).ok().and_then(|fd| self.table.existing(fd));
        if let Some(entry) = entry {
            entry.observer.take_if(|observed| Arc::ptr_eq(observed, observer));
        }
    }

    fn take_wakers(&mut self, to: &mut Vec<std::task::Waker>) {
        to.append(&mut self.wakers);
    }
}

/// What polls goes on elsewhere.
impl Drop for Poll {
    fn drop(&mut self) {
        let mut wakers = Vec::new();
        for observer in self.table.take_observers() {
            observer.lose(&mut wakers);
        }
        for waker in wakers {
            call_waker(waker);
        }
    }
}

impl fmt::Debug for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll")
            .field("in_flight", &self.in_flight)
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
