//! The `uring` driver: ops are handed to the kernel by io_uring.
//!
//! Each worker has one ring, which is opened, entered and dropped on the worker's own thread (D1).
//! A poll is one `io_uring_enter`, which submits, waits and lets the kernel post completions. If
//! there is nothing to submit, to wait for or to fetch, a poll makes no system call.
//!
//! # User data
//! The user data of an op is the address of its [`InFlight`]. The topmost bit, which no address
//! has, marks the driver's own entries: the watch on the eventfd of the [`Waker`], answers to
//! cancels, and polls on shared listeners. An address may be used again as soon as its op has
//! ended. A cancel of the earlier op cannot meet the later one, because entries stay in order on
//! the whole way to the kernel, which carries out a cancel when it takes it.
//!
//! # Cancels
//! A cancel may find nothing although its op is in flight. If an op's fd is ready when the kernel
//! takes the op, the kernel puts the op aside, and attempts it after it has taken the other
//! entries. A cancel among those does not find the op. If another reader has been faster, the
//! kernel then waits for the fd. So the driver remembers each cancelled op until it has ended, and
//! repeats a cancel that has found nothing.
//!
//! # Ops that are attempted
//! For some ops the kernel is asked only for readiness: see [`entry::stands_for_readiness`]. When
//! it reports readiness, the driver attempts the op. It also attempts an op that the kernel has
//! given up half way (`EINTR`, `EAGAIN`), and queues it again if it still has to wait. A cancel
//! that comes in between finds nothing in the kernel, so the op itself remembers it.
//!
//! # Parts
//! - [`edges`]: ops whose attempt has failed after a report of readiness.
//! - [`listeners`]: polls on shared listeners.
//!
//! # The watch
//! The watch is one poll request that fires again and again. It is armed before the first wait, and
//! again whenever a completion says that no more will follow. The eventfd is never read: every
//! write to it fires the watch, and a watch that is armed late fires at once.
//!
//! # Full queues
//! A full submission queue is flushed. The kernel may refuse entries because it is short of memory,
//! or because completions have overflowed and must be fetched first. Then the entries stay in a
//! backlog of the driver. The kernel keeps completions that overflow, and the same poll fetches
//! them.
#![expect(unsafe_code, reason = "hands memory to the kernel")]

mod edges;
mod entry;
mod listeners;
mod setup;
#[cfg(test)]
pub(super) mod tests;

use super::acceptors::Acceptors;
use super::attempt::is_untold;
use super::flight::Flying;
use super::op::Backing;
use super::op::FileOp;
use super::poll::Poll;
use super::stream::is_in_nonblocking_mode;
use super::{Completion, Driver, InFlight, Op, PollTimeout, StartedOp, Token, Waker};
use crate::base::hash::HashMap;
use crate::base::{clock, report};
use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use listeners::LISTENERS_MAX;
use setup::Mode;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};
use std::{fmt, io, ptr};

/// The bit that marks the user data of the driver's own entries.
const OWN: u64 = 1 << 63;
/// The user data of the watch on the waker's eventfd.
const WATCH: u64 = OWN;
/// The user data of the answer to an entry whose answer does not matter.
const ANSWER: u64 = OWN | 1;
/// The user data of the answer to the cancel of everything.
const CANCEL_ALL: u64 = OWN | 2;

/// The user data of the watch on the set of edges.
const EDGES: u64 = OWN | 3;

/// The user data of the answer to the cancel of an op. The lower bits are the op's address.
const CANCEL: u64 = OWN | 1 << 62;

/// The user data of a poll on a shared listener. The lower half is the listener's number.
const LISTEN: u64 = OWN | 1 << 32;

/// The longest wait. A longer one is cut short, which the caller does not notice because it looks
/// at its own clock.
const LONGEST_WAIT: Duration = Duration::from_secs(1 << 30);

/// A ring and its state.
pub(crate) struct Uring {
    ring: IoUring,
    mode: Mode,
    waker: Waker,
    /// True if the watch is queued or armed.
    watching: bool,
    /// The ops that wait for edges, from the first one on.
    edges: Option<Box<Poll>>,
    /// True if the watch on the set of edges is queued or in place.
    watching_edges: bool,
    /// The number of ops whose final completion has not been handed out.
    in_flight: usize,
    /// The addresses of the ops that have been cancelled and have not ended.
    cancelled: HashMap<u64, ()>,
    /// The addresses in answers to cancels that have found nothing. Their ops may have ended.
    missed: Vec<u64>,
    /// Entries for which the submission queue had no room, oldest first.
    backlog: VecDeque<squeue::Entry>,
    /// The driver is being dropped, and its ops are not carried out any more.
    draining: bool,
    /// Ops in flight that the kernel does not know of.
    acceptors: Acceptors,
    /// Completions of acceptors and of cancelled ops that waited for edges. The next poll hands
    /// them out. They still count as in flight.
    done: Vec<Completion>,
    /// The time when the worker last slept or looked at its listeners.
    looked_at: Option<Instant>,
    /// The argument of poll(2), kept so that no call allocates.
    asked: Vec<libc::pollfd>,
    /// The number of system calls, for the tests.
    #[cfg(test)]
    enters: usize,
    /// The number of times that the watch was armed, for the tests.
    #[cfg(test)]
    watches: usize,
    /// How often completions did not fit, for the tests.
    #[cfg(test)]
    overflows: usize,
    /// D1: the driver stays on the thread that opened it.
    _pinned: PhantomData<*const ()>,
}

/// The result of a look at the completion queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SeenCompletions {
    /// True if there is something for the caller: a completion that was handed out, or a wake.
    news: bool,
}

/// Checks that the kernel lets a ring be opened and entered, and knows every operation that the
/// driver needs.
///
/// # Errors
/// Returns an error if it does not. The text says what is refused, the likely reason, and what to
/// do.
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
            edges: None,
            watching_edges: false,
            in_flight: 0,
            cancelled: HashMap::default(),
            missed: Vec::new(),
            backlog: VecDeque::new(),
            draining: false,
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

    #[cfg(test)]
    pub(super) fn acceptors(&self) -> &Acceptors {
        &self.acceptors
    }

    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Puts an entry into the submission queue, or into the backlog if there are entries already.
    fn queue(&mut self, entry: squeue::Entry) {
        if !self.backlog.is_empty() || !self.push(&entry) {
            self.backlog.push_back(entry);
            self.flush();
        }
    }

    /// Puts an entry into the submission queue if there is room.
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: S3: the code that started the op promised that its memory is valid until its
        // completion. The driver's own entries name no memory.
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

    /// Moves entries from the backlog into the submission queue. Returns whether any were moved.
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

    /// Makes the system call. A condition that passes by itself (a time-out, a signal, a shortage)
    /// is not an error, because the caller will poll again.
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
        // - The argument is what EXT_ARG announces. It and the time in it outlive the call.
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

    /// Hands out what is in the completion queue, and lets the kernel add what did not fit.
    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<SeenCompletions> {
        let mut seen = SeenCompletions::default();
        loop {
            // Entries are taken one at a time, because `settle` needs the whole driver. Each moves
            // the shared head, which is a plain store.
            while let Some(entry) = self.next_entry() {
                seen.news |= self.settle(&entry, completions)?;
            }
            if !self.ring.submission().cq_overflow() {
                self.repeat_cancels();
                return Ok(seen);
            }
            #[cfg(test)]
            {
                self.overflows += 1;
            }
            self.enter(0, EnterFlags::GETEVENTS, 0, None)?;
        }
    }

    /// Repeats the cancels that have found nothing, of ops that have not ended.
    fn repeat_cancels(&mut self) {
        while let Some(address) = self.missed.pop() {
            if self.cancelled.contains_key(&address) {
                self.queue_cancel(address);
            }
        }
    }

    fn queue_cancel(&mut self, address: u64) {
        self.queue(opcode::AsyncCancel::new(address).build().user_data(CANCEL | address));
    }

    fn next_entry(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Handles one completion. Returns whether there is something for the caller.
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
                    // A test or the drop of the driver cancels the watch.
                    result if result >= 0 || result == Completion::CANCELLED => Ok(true),
                    result => Err(io::Error::from_raw_os_error(-result)),
                }
            }
            EDGES => {
                self.watching_edges = false;
                self.hear_edges(completions)
            }
            // The kernel is older than 5.19 and cannot do that.
            CANCEL_ALL if entry.result() == -libc::EINVAL => {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            }
            // That the kernel has found the op proves nothing: see the protocol of `driver`.
            cancel if cancel & CANCEL == CANCEL => {
                if entry.result() == -libc::ENOENT {
                    self.missed.push(cancel & !CANCEL);
                }
                Ok(false)
            }
            listen if listen & LISTEN == LISTEN => {
                self.hear_of_listener(listen as u32 as RawFd, entry.result());
                Ok(!self.done.is_empty())
            }
            own if own & OWN != 0 => Ok(false),
            address => {
                let flying: Flying = ptr::with_exposed_provenance(address as usize);
                // SAFETY: S3: the kernel has just handed the op back, so it is still in flight.
                let flight = unsafe { &*flying };
                let completion = match entry.result() {
                    result if result >= 0 && flight.is_carried_out_by(result) => {
                        Some(flight.carried_out(result))
                    }
                    result => self.conclude(flight, result),
                };
                match completion {
                    Some(completion) => {
                        // A later cancel has no effect.
                        if flight.cancelled.replace(true) {
                            self.cancelled.remove(&address);
                        }
                        self.in_flight -= 1;
                        completions.push(completion);
                        Ok(true)
                    }
                    None => Ok(false),
                }
            }
        }
    }

    /// Returns the completion of an op that the kernel has handed back without having carried it
    /// out. Returns `None` if the op still has to wait, and lets it wait.
    fn conclude(&mut self, flight: &InFlight<'_>, result: i32) -> Option<Completion> {
        // The kernel also gives up the ops that a thread has submitted when that thread exits. Only
        // the baton backend enters a ring on several threads.
        let gives_up = [-libc::EINTR, -libc::EAGAIN].contains(&result);
        let given_up = gives_up || (result == Completion::CANCELLED && !flight.cancelled.get());
        let is_ready = result >= 0;
        if !given_up && !is_ready {
            return Some(flight.completion(result));
        }
        if self.draining {
            return Some(flight.completion(Completion::CANCELLED));
        }
        if let Op::File(FileOp { fd, .. }) = flight.op() {
            // The kernel does not wait for a file in non-blocking mode.
            if result == -libc::EAGAIN && is_in_nonblocking_mode(fd.fd) {
                return Some(flight.completion(result));
            }
        } else {
            // SAFETY: S3: the op is in flight.
            let completion = unsafe { flight.resume() };
            if completion.is_some() {
                return completion;
            }
        }
        if flight.cancelled.get() {
            return Some(flight.completion(Completion::CANCELLED));
        }
        if is_ready {
            return self.wait_for_edge(flight, result);
        }
        self.queue_op(flight);
        None
    }

    /// Queues the entry of an op.
    fn queue_op(&mut self, flight: &InFlight<'_>) {
        let address = ptr::from_ref(flight).expose_provenance() as u64;
        let entry = entry::of(flight, self.mode < Mode::Plain);
        self.queue(entry.user_data(address));
    }

    /// Hands out what has ended without the kernel, before the completions from `start` on.
    fn hand_out_done(&mut self, completions: &mut Vec<Completion>, start: usize) {
        self.in_flight -= self.done.len();
        completions.splice(start..start, self.done.drain(..));
    }

    /// Cancels everything and waits for it. Discards the completions.
    fn drain(&mut self) -> io::Result<()> {
        self.draining = true;
        self.in_flight -= self.acceptors.len() + self.done.len();
        self.acceptors.clear();
        self.done.clear();
        if let Some(edges) = self.edges.take() {
            self.in_flight -= edges.count_ops();
        }
        if self.in_flight > 0 {
            let any = CancelBuilder::any();
            self.queue(opcode::AsyncCancel2::new(any).build().user_data(CANCEL_ALL));
        }
        let mut completions = Vec::new();
        while self.in_flight > 0 {
            self.poll(PollTimeout::Forever, &mut completions)?;
            completions.clear();
        }
        Ok(())
    }

    /// Returns whether the kernel has completions that only a system call delivers.
    fn has_deferred_work(&mut self) -> bool {
        match self.mode {
            Mode::Deferred | Mode::Cooperative => self.ring.submission().taskrun(),
            // In this mode the kernel posts completions by itself.
            Mode::Plain => false,
        }
    }
}

impl Driver for Uring {
    #[inline]
    unsafe fn start(&mut self, flight: &InFlight<'_>, token: Token) -> StartedOp {
        // SAFETY: S3, the caller's promise.
        if unsafe { is_untold(flight.op()) } {
            return StartedOp::Untold;
        }
        if let Op::File(FileOp { fd, backing: Backing::Stream { tells }, .. }) = *flight.op()
            && is_in_nonblocking_mode(fd.fd)
        {
            // The kernel would wait all the same.
            return match tells && flight.was_attempted() {
                true => StartedOp::Done(Err(io::Error::from_raw_os_error(libc::EAGAIN))),
                false => StartedOp::Blocking,
            };
        }
        let flying = flight.keep(token);
        self.in_flight += 1;
        if let Op::Accept { fd, shared: true, .. } = *flight.op() {
            let is_new = self.acceptors.line(fd.fd).is_none();
            if !is_new || self.acceptors.count_lines() < LISTENERS_MAX {
                // SAFETY: S3, the caller's promise.
                unsafe { self.acceptors.add(flying, &self.waker) };
                return StartedOp::Pending;
            }
        }
        flight.by_readiness.set(entry::stands_for_readiness(flight.op()));
        self.queue_op(flight);
        StartedOp::Pending
    }

    fn cancel(&mut self, flight: &InFlight<'_>) {
        if let Some(fd) = self.acceptors.withdraw(flight) {
            self.acceptors.forget_if_idle(fd);
            self.done.push(flight.completion(Completion::CANCELLED));
            return;
        }
        if flight.by_edges.get() {
            if self.edges.as_mut().is_some_and(|edges| edges.give_up(flight)) {
                self.done.push(flight.completion(Completion::CANCELLED));
            }
            return;
        }
        let is_told_acceptor =
            matches!(flight.op(), Op::Accept { .. }) && !flight.by_readiness.get();
        if is_told_acceptor || flight.cancelled.replace(true) {
            return;
        }
        // Entries stay in order on the whole way, so the kernel gets the op before its cancel.
        let address = ptr::from_ref(flight).expose_provenance() as u64;
        self.cancelled.insert(address, ());
        self.queue_cancel(address);
    }

    fn poll(&mut self, wait: PollTimeout, completions: &mut Vec<Completion>) -> io::Result<()> {
        let limit = match wait {
            PollTimeout::Poll => Some(Duration::ZERO),
            PollTimeout::For(limit) => Some(limit),
            PollTimeout::Forever => None,
        };
        let start = completions.len();
        let mut blocks = limit != Some(Duration::ZERO);
        if self.edges.as_ref().is_some_and(|edges| edges.has_wakers()) {
            blocks = false;
        }
        if !blocks && self.in_flight() == 0 && self.backlog.is_empty() && self.queued() == 0 {
            return Ok(());
        }
        if self.acceptors.has_news() {
            for fd in self.acceptors.hear(&mut self.done) {
                self.acceptors.forget_if_idle(fd);
            }
        }
        if self.reap(completions)?.news || !self.done.is_empty() {
            blocks = false;
        }
        let listens = self.acceptors.count_lines() > 0;
        if listens && !blocks {
            self.poll_listeners_if_due();
        }
        if blocks {
            self.watch();
            blocks = !listens || self.listen();
        }
        self.watch_edges();
        self.flush();
        // The worker does not block while there are ops that the kernel has not received.
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
        if !self.done.is_empty() {
            self.hand_out_done(completions, start);
        }
        Ok(())
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.in_flight
            + self.edges.as_ref().map_or(0, |edges| edges.in_flight() - edges.count_ops())
    }
}

/// Cancels the ops in flight and waits for them: until then the kernel may write to their memory,
/// whatever happens to the ring.
impl Drop for Uring {
    fn drop(&mut self) {
        if let Err(error) = self.drain() {
            // If the program continued, the kernel might write to memory that has another owner by
            // then (S3).
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
