//! The `uring` driver: ops are handed to the kernel by io_uring.
//!
//! One ring per worker, opened, entered and dropped on the worker's own thread (D1). A poll is one `io_uring_enter`, which
//! submits, waits and lets the kernel post completions; where there is nothing to submit, to wait for or to fetch, it is
//! none at all.
//!
//! # User data
//! A token is its op's user data. The topmost bit marks entries of the driver's own: the watch on the eventfd of the
//! [`Waker`], and answers to cancels.
//!
//! # The watch
//! is one poll request that fires again and again. It is armed before the first wait, and armed anew whenever a completion
//! says that no more will follow. The eventfd is never read: every write to it fires the watch, and a watch that is armed
//! late fires at once.
//!
//! # Listeners
//! A poll on a shared listener is in place only while the worker sleeps, see [`acceptors`](super::acceptors). It is queued with the
//! submission that blocks. If something else has woken the worker, one more submission takes it away, and poll(2) tells whether a
//! connection has come meanwhile. A worker that does not sleep asks poll(2) once in a while.
//!
//! Each of these polls costs a worker two entries whenever it sleeps. So only [`LISTENERS_MAX`] listeners are treated like this, and accepts
//! on further ones are polls that all workers have in place, and that all complete.
//!
//! # What is full
//! A full submission queue is flushed; if the kernel will not take entries (it is short of memory, or completions have
//! overflown and must be fetched first) they stay in a backlog of ours. Completions that overflow are kept by the kernel and
//! fetched in the same poll.
#![expect(unsafe_code, reason = "hands memory to the kernel")]

mod entry;
mod setup;
#[cfg(test)]
pub(super) mod tests;

use super::acceptors::{Acceptors, LOOK_EVERY, Line};
use super::op::Interest;
use super::{Completion, Driver, FileManner, FileOp, Op, Token, Wait, Waker};
use crate::base::{clock, report};
use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use setup::Mode;
use std::collections::{HashSet, VecDeque};
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};
use std::{fmt, io};

/// Marks the user data of the driver's own entries.
const OWN: u64 = 1 << Token::BITS;
/// The watch on the waker's eventfd.
const WATCH: u64 = OWN;
/// The answer to a cancel.
const CANCEL: u64 = OWN | 1;
/// The answer to the cancel of everything.
const CANCEL_ALL: u64 = OWN | 2;

/// A poll on a shared listener; the lower half is its number.
const LISTEN: u64 = OWN | 1 << 32;

/// The most shared listeners that a worker listens to exclusively.
const LISTENERS_MAX: usize = 16;
/// How often taking the polls away is tried before the worker goes on with them in place. Once is enough unless memory is short.
const ROUNDS_MAX: u32 = 8;

/// A longer wait than this is cut short, which a caller that looks at its own clock does not notice.
const LONGEST_WAIT: Duration = Duration::from_secs(1 << 30);

/// A ring, and what is in it.
pub(crate) struct Uring {
    ring: IoUring,
    mode: Mode,
    waker: Waker,
    /// The watch is queued or armed.
    watching: bool,
    /// Ops whose final completion has not been handed out.
    in_flight: usize,
    /// Entries that the submission queue had no room for, oldest first.
    backlog: VecDeque<squeue::Entry>,
    /// Ops in flight whose completion only says "attempt it again".
    retrying: HashSet<u64>,
    /// Ops in flight of which the kernel has nothing.
    acceptors: Acceptors,
    /// Completions of these, to be handed out by the next poll. They still count as in flight.
    done: Vec<Completion>,
    /// When the worker has slept last, or looked at its listeners.
    looked_at: Option<Instant>,
    /// For questions to poll(2), so that they allocate nothing.
    asked: Vec<libc::pollfd>,
    /// System calls made, for the tests.
    #[cfg(test)]
    enters: usize,
    /// Watches armed, for the tests.
    #[cfg(test)]
    watches: usize,
    /// Times that completions did not fit, for the tests.
    #[cfg(test)]
    overflows: usize,
    /// D1: the driver stays on the thread that opened it.
    _pinned: PhantomData<*const ()>,
}

/// What a look at the completion queue found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Something that the caller should know about: a completion handed out, or a wake.
    news: bool,
}

/// Tries whether the kernel lets a ring be opened and entered, and knows every operation that the driver needs.
///
/// # Errors
/// It does not. The text says what is refused, why that is likely, and what to do.
pub(super) fn probe() -> io::Result<()> {
    let (ring, _) = setup::open(1, Mode::BEST)?;
    setup::probe(ring)
}

impl Uring {
    pub(super) fn open(waker: Option<Waker>) -> io::Result<Uring> {
        Uring::open_with(setup::ENTRIES, Mode::BEST, waker)
    }

    fn open_with(entries: u32, best: Mode, waker: Option<Waker>) -> io::Result<Uring> {
        let (ring, mode) = setup::open(entries, best)?;
        let waker = match waker {
            Some(waker) => waker,
            None => Waker::new().map_err(|error| setup::explain(&error))?,
        };
        Ok(Uring {
            ring,
            mode,
            waker,
            watching: false,
            in_flight: 0,
            backlog: VecDeque::new(),
            retrying: HashSet::new(),
            acceptors: Acceptors::new(),
            done: Vec::new(),
            looked_at: None,
            asked: Vec::new(),
            #[cfg(test)]
            enters: 0,
            #[cfg(test)]
            watches: 0,
            #[cfg(test)]
            overflows: 0,
            _pinned: PhantomData,
        })
    }

    /// See [`AnyDriver::submit_file`](super::AnyDriver::submit_file).
    ///
    /// # Safety
    /// As [`Driver::submit`].
    pub(super) unsafe fn submit_file(&mut self, op: &FileOp, manner: FileManner, token: Token) {
        self.in_flight += 1;
        self.queue(entry::of_file(op, manner).user_data(token.value()));
    }

    /// Puts an entry into the submission queue, or into the backlog behind those already there.
    fn queue(&mut self, entry: squeue::Entry) {
        if !self.backlog.is_empty() || !self.push(&entry) {
            self.backlog.push_back(entry);
            self.flush();
        }
    }

    /// Puts an entry into the submission queue if it has room.
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: S3: whoever submitted the op promised that its memory is valid until its completion. Entries of the
        // driver's own name no memory.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Moves as much of the backlog as possible to the kernel, without waiting.
    fn flush(&mut self) {
        while !self.backlog.is_empty() {
            // A refusal leaves the entries where they are, for the next poll.
            let queued = self.queued();
            let taken = queued > 0 && self.enter(queued, EnterFlags::empty(), 0, None).is_ok();
            if !self.refill() || !taken {
                return;
            }
        }
    }

    /// Moves entries from the backlog into the submission queue; tells whether any were.
    fn refill(&mut self) -> bool {
        let before = self.backlog.len();
        while let Some(entry) = self.backlog.pop_front() {
            if !self.push(&entry) {
                self.backlog.push_front(entry);
                break;
            }
        }
        self.backlog.len() < before
    }

    fn queued(&mut self) -> u32 {
        u32::try_from(self.ring.submission().len()).expect("a ring has at most 32768 entries")
    }

    /// Arms the watch on the waker, unless it is armed.
    fn watch(&mut self) {
        if !self.watching {
            self.watching = true;
            #[cfg(test)]
            {
                self.watches += 1;
            }
            self.queue(entry::watch(self.waker.fd()).user_data(WATCH));
        }
    }

    /// The one system call. What passes by itself (a time-out, a signal, a shortage) is no error: the caller comes again.
    fn enter(
        &mut self,
        submit: u32,
        flags: EnterFlags,
        want: u32,
        limit: Option<Duration>,
    ) -> io::Result<()> {
        #[cfg(test)]
        {
            self.enters += 1;
        }
        let limit = limit.map(|limit| Timespec::from(limit.min(LONGEST_WAIT)));
        let mut arguments = SubmitArgs::new();
        if let Some(limit) = &limit {
            arguments = arguments.timespec(limit);
        }
        let flags = (flags | EnterFlags::EXT_ARG).bits();
        // SAFETY:
        // - the argument is what EXT_ARG announces, and it and the time in it outlive the call;
        // - S3: entries to be submitted name memory that is valid, as `push` says.
        match unsafe { self.ring.submitter().enter(submit, want, flags, Some(&arguments)) } {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                Some(libc::EEXIST) => Err(io::Error::other(
                    "an io_uring driver was used on another thread than the one that opened it; this is a bug in ecru",
                )),
                _ => Err(error),
            },
        }
    }

    /// Hands out what is in the completion queue, and lets the kernel move over what did not fit.
    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<Seen> {
        let mut seen = Seen::default();
        loop {
            // One at a time, because `settle` needs the whole driver; the shared head moves with each, which is a plain
            // store.
            while let Some(entry) = self.next_entry() {
                seen.news |= self.settle(&entry, completions)?;
            }
            if !self.ring.submission().cq_overflow() {
                return Ok(seen);
            }
            #[cfg(test)]
            {
                self.overflows += 1;
            }
            self.enter(0, EnterFlags::GETEVENTS, 0, None)?;
        }
    }

    fn next_entry(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Deals with one completion; tells whether the caller should hear of it.
    fn settle(
        &mut self,
        entry: &cqueue::Entry,
        completions: &mut Vec<Completion>,
    ) -> io::Result<bool> {
        let more = cqueue::more(entry.flags());
        match entry.user_data() {
            WATCH => {
                self.watching = more;
                self.waker.acknowledge();
                match entry.result() {
                    // Cancelled is what a test or the drop of the driver does.
                    result if result >= 0 || result == Completion::CANCELLED => Ok(true),
                    result => Err(io::Error::from_raw_os_error(-result)),
                }
            }
            // The kernel is older than 5.19 and cannot.
            CANCEL_ALL if entry.result() == -libc::EINVAL => {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            }
            listen if listen & LISTEN == LISTEN => {
                self.hear_of_listener(listen as u32 as RawFd, entry.result());
                Ok(!self.done.is_empty())
            }
            // It proves nothing: see the protocol of `driver`.
            own if own & OWN != 0 => Ok(false),
            value => {
                let mut result = entry.result();
                if !more {
                    self.in_flight -= 1;
                    let retry = !self.retrying.is_empty() && self.retrying.remove(&value);
                    if (retry && result >= 0) || result == -libc::EINTR {
                        result = Completion::RETRY;
                    }
                }
                completions.push(Completion { token: Token::new(value), result, more });
                Ok(true)
            }
        }
    }

    /// A poll on a listener has ended.
    fn hear_of_listener(&mut self, fd: RawFd, result: i32) {
        if let Some(line) = self.acceptors.line(fd) {
            line.is_listened_to = false;
        }
        let most = match u32::try_from(result) {
            Ok(events) if events & ENDED == 0 => 1,
            // The attempts will show what has happened.
            Ok(_) => usize::MAX,
            Err(_) if result == Completion::CANCELLED => 0,
            Err(_) => usize::MAX,
        };
        self.acceptors.tell(fd, most, &mut self.done);
        self.acceptors.forget_if_idle(fd);
    }

    /// Queues a poll for each listener. False: one of an earlier time has not been taken away yet.
    fn listen(&mut self) -> bool {
        if self.acceptors.lines().any(|line| line.is_listened_to) {
            return false;
        }
        let mut fds = [const { None }; LISTENERS_MAX];
        for (line, place) in self.acceptors.lines().zip(&mut fds) {
            line.is_listened_to = true;
            *place = Some(line.fd.fd);
        }
        for fd in fds.into_iter().flatten() {
            self.queue(entry::listen(fd).user_data(listening(fd)));
        }
        true
    }

    /// Takes away the polls on listeners that are still in place.
    ///
    /// A removal is refused while a wake-up is being dealt with, after which the poll may be in place again, because somebody else has taken the
    /// connection. And a wake-up that comes during a removal is lost in it. So this tries again until all polls are gone, and then asks.
    fn stop_listening(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        for _ in 0..ROUNDS_MAX {
            let mut fds = [const { None }; LISTENERS_MAX];
            let listened_to = self.acceptors.lines().filter(|line| line.is_listened_to);
            for (line, place) in listened_to.zip(&mut fds) {
                *place = Some(line.fd.fd);
            }
            if fds[0].is_none() {
                break;
            }
            for fd in fds.into_iter().flatten() {
                self.queue(entry::stop_listening(listening(fd)).user_data(CANCEL));
            }
            self.flush();
            let queued = self.queued();
            // All of it is done in the call itself: there is nothing to wait for.
            self.enter(queued, EnterFlags::GETEVENTS, 0, None)?;
            self.reap(completions)?;
        }
        self.ask_listeners();
        Ok(())
    }

    /// For a worker that has not slept for a while: asks whether there are connections.
    fn look_at_listeners(&mut self) {
        let now = clock::now();
        let last = *self.looked_at.get_or_insert(now);
        if now.saturating_duration_since(last) >= LOOK_EVERY {
            self.looked_at = Some(now);
            self.ask_listeners();
        }
    }

    /// Tells an acceptor of each listener that has a connection.
    fn ask_listeners(&mut self) {
        let with_acceptors = |line: &&mut Line| !line.is_empty() && !line.is_listened_to;
        let asked = |line: &mut Line| libc::pollfd {
            fd: line.fd.fd,
            events: Interest::Read.events(),
            revents: 0,
        };
        self.asked.clear();
        self.asked.extend(self.acceptors.lines().filter(with_acceptors).map(asked));
        if self.asked.is_empty() {
            return;
        }
        let count = self.asked.len() as libc::nfds_t;
        // SAFETY: so many entries are there. (If it fails, nothing is said of any, and another look will come.)
        unsafe { libc::poll(self.asked.as_mut_ptr(), count, 0) };
        for asked in self.asked.iter().filter(|asked| asked.revents != 0) {
            self.acceptors.tell(asked.fd, 1, &mut self.done);
            self.acceptors.forget_if_idle(asked.fd);
        }
    }

    /// Hands out what has ended without the kernel, before what has come since `start`.
    fn hand_out_done(&mut self, completions: &mut Vec<Completion>, start: usize) {
        self.in_flight -= self.done.len();
        completions.splice(start..start, self.done.drain(..));
    }

    /// Cancels everything and waits for it, throwing the completions away.
    fn drain(&mut self) -> io::Result<()> {
        self.in_flight -= self.acceptors.len() + self.done.len();
        self.acceptors.clear();
        self.done.clear();
        if self.in_flight > 0 {
            let any = CancelBuilder::any();
            self.queue(opcode::AsyncCancel2::new(any).build().user_data(CANCEL_ALL));
        }
        let mut completions = Vec::new();
        while self.in_flight > 0 {
            self.poll(Wait::Forever, &mut completions)?;
            completions.clear();
        }
        Ok(())
    }

    /// Whether the kernel has completions that only an enter brings.
    fn has_deferred_work(&mut self) -> bool {
        match self.mode {
            Mode::Deferred | Mode::Cooperative => self.ring.submission().taskrun(),
            // Without the flag they come by themselves.
            Mode::Plain => false,
        }
    }
}

impl Driver for Uring {
    unsafe fn submit(&mut self, op: &Op, token: Token) {
        self.in_flight += 1;
        if let Op::Accept { fd, shared: true, .. } = *op {
            let is_new = self.acceptors.line(fd.fd).is_none();
            if !is_new || self.acceptors.count_lines() < LISTENERS_MAX {
                return self.acceptors.add(fd, token, &self.waker);
            }
        }
        let readiness_only = entry::stands_for_readiness(op);
        if readiness_only {
            self.retrying.insert(token.value());
        }
        let entry = entry::of(op, self.mode < Mode::Plain, readiness_only);
        self.queue(entry.user_data(token.value()));
    }

    fn cancel(&mut self, token: Token) {
        if let Some(fd) = self.acceptors.withdraw(token) {
            self.acceptors.forget_if_idle(fd);
            self.done.push(Completion { token, result: Completion::CANCELLED, more: false });
            return;
        }
        // Order is kept all the way, so the op gets there before its cancel.
        self.queue(opcode::AsyncCancel::new(token.value()).build().user_data(CANCEL));
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        let limit = match wait {
            Wait::Poll => Some(Duration::ZERO),
            Wait::For(limit) => Some(limit),
            Wait::Forever => None,
        };
        let start = completions.len();
        let mut blocks = limit != Some(Duration::ZERO);
        if !blocks && self.in_flight == 0 && self.backlog.is_empty() && self.queued() == 0 {
            return Ok(());
        }
        for fd in self.acceptors.hear(&mut self.done) {
            self.acceptors.forget_if_idle(fd);
        }
        if self.reap(completions)?.news || !self.done.is_empty() {
            blocks = false;
        }
        let listens = self.acceptors.count_lines() > 0;
        if listens && !blocks {
            self.look_at_listeners();
        }
        if blocks {
            self.watch();
            blocks = !listens || self.listen();
        }
        self.flush();
        // Not while there are ops that the kernel has not heard of.
        blocks &= self.backlog.is_empty();
        let queued = self.queued();
        if blocks || queued > 0 || self.has_deferred_work() {
            self.enter(queued, EnterFlags::GETEVENTS, u32::from(blocks), limit.filter(|_| blocks))?;
            self.reap(completions)?;
        }
        if listens && self.acceptors.lines().any(|line| line.is_listened_to) {
            self.stop_listening(completions)?;
        }
        if listens && blocks {
            self.looked_at = Some(clock::now());
        }
        self.hand_out_done(completions, start);
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn is_worth_attempting(&self, op: &Op) -> bool {
        op.is_worth_attempting()
    }

    fn observe(&mut self, _op: &Op, _result: u32) {}

    fn pass_on(&mut self, op: &Op) {
        let fd = op.readiness().0.fd;
        self.acceptors.pass_on(fd, &mut self.done);
        self.acceptors.forget_if_idle(fd);
    }
}

/// Events after which there is nothing to wait for on a listener.
const ENDED: u32 = (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) as u32;

/// The user data of the poll on a listener.
fn listening(fd: RawFd) -> u64 {
    LISTEN | u64::from(fd.cast_unsigned())
}

/// Whoever drops a driver with ops in flight gets them cancelled and waits for them: the kernel may write to their memory
/// until then, whatever happens to the ring.
impl Drop for Uring {
    fn drop(&mut self) {
        if let Err(error) = self.drain() {
            // Going on would let the kernel write to memory that has another owner by now (S3).
            report::last_words(format!(
                "ecru: operations are in flight and the io_uring driver is broken ({error}): aborting"
            ));
            std::process::abort();
        }
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring")
            .field("mode", &self.mode)
            .field("in_flight", &self.in_flight)
            .field("backlog", &self.backlog.len())
            .finish_non_exhaustive()
    }
}
