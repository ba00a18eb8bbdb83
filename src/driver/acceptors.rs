//! Acceptors: waits for connections to a shared listener. One of them wakes up for each connection.
//!
//! Several workers may wait for connections to one listener. If each polled it in the usual way, a
//! single connection would wake them all, and all but one in vain. The kernel can choose one: of
//! several *exclusive* polls (`EPOLLEXCLUSIVE`) it wakes one for each connection that arrives. No
//! other worker hears of that connection then, so the one that is woken must not keep the news to
//! itself.
//!
//! # Words
//! - An *acceptor* is an `Accept` in flight whose op is marked as shared. It waits in the line of
//!   its listener, oldest first. The kernel has nothing of it, so it can be cancelled on the spot.
//! - A driver *listens* while its own exclusive poll on the listener is in place.
//! - An acceptor is *told* when the driver attempts it because of news of the listener.
//!
//! # Protocol
//! 1. A wake-up counts for a worker only if the worker sleeps and has an acceptor waiting. `uring`
//!    puts its polls in place before it blocks, and takes them away when it wakes, before anything
//!    else can run. `poll` keeps its registration while acceptors wait. epoll itself counts a
//!    wake-up only if a thread sleeps in `epoll_wait`, and tells those that are awake in addition.
//! 2. A poll that is put in place reports at once what has arrived before.
//! 3. Each report tells one acceptor, the oldest, and its completion is handed out before any other
//!    of that `poll`. A report of an error or of the end of the listener tells all.
//! 4. An acceptor that finds no connection stays where it is.
//! 5. The attempt may fail for another reason than an empty queue, for instance because too many
//!    files are open. Then the connection may still be in the queue. The acceptor leaves with its
//!    error, and the news is passed on: to the next in its line, and to all other workers of the
//!    process that have acceptors. Each of those tells the oldest acceptor of each of its
//!    listeners. An acceptor that has failed waits no longer, so this comes to an end.
//! 6. A worker that does not sleep does not listen in a way that counts. It looks by itself: `poll`
//!    hears of everything (1), and `uring` looks once in [`LOOK_EVERY`].
//!
//! # Why no connection is left behind
//! Claim: while a driver listens for an acceptor, each connection in the queue will be reported, or
//! has been reported and the accept of that report is still to come. The claim holds when a driver
//! begins to listen (2). A connection that arrives is reported (1). After a report, an acceptor
//! attempts the accept at once (3). The attempt takes a connection, or other acceptors are told
//! (5). Attempts by tasks that were not told, by threads in poll(2) and by other processes only
//! take connections away. If no driver listens for an acceptor, the workers with acceptors are
//! awake, and look (6).
//!
//! A worker that has taken a connection, and then computes for long before it comes to its
//! acceptor, would still hold up that connection. So acceptors come first (3): when a worker has
//! slept, nothing that is ready could go before them.
#![expect(unsafe_code, reason = "attempts the ops of acceptors by pointer")]

use super::flight::{Flying, InFlight};
use super::{Completion, Op, Waker};
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How often a worker that does not sleep looks for connections for its acceptors.
pub(super) const LOOK_EVERY: Duration = Duration::from_micros(250);

/// What other workers know of a worker's acceptors.
#[derive(Debug)]
struct Known {
    waker: Waker,
    /// The number of the worker's acceptors.
    waiting: AtomicUsize,
    /// Set if news has been passed on and the worker has not dealt with it yet.
    passed_on: AtomicBool,
}

/// The workers of this process that have had acceptors.
static WORKERS: Mutex<Vec<Weak<Known>>> = Mutex::new(Vec::new());

fn workers() -> MutexGuard<'static, Vec<Weak<Known>>> {
    WORKERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The acceptors of one listener.
#[derive(Debug)]
pub(super) struct AcceptorLine {
    /// The listener, by which the kernel is asked.
    pub(super) fd: RawFd,
    pub(super) generation: u64,
    /// True if a poll of the driver is in place.
    pub(super) is_listened_to: bool,
    waiting: VecDeque<Flying>,
}

/// The acceptors of one driver.
#[derive(Debug)]
pub(super) struct Acceptors {
    /// The lines by the number of the listener's fd, which is open while acceptors wait (S3).
    lines: BTreeMap<RawFd, AcceptorLine>,
    /// The number of acceptors in all lines.
    count: usize,
    /// Present from the first acceptor on.
    known: Option<Arc<Known>>,
}

impl Acceptors {
    pub(super) fn new() -> Acceptors {
        Acceptors { lines: BTreeMap::new(), count: 0, known: None }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn lines(&mut self) -> impl Iterator<Item = &mut AcceptorLine> {
        self.lines.values_mut()
    }

    pub(super) fn line(&mut self, fd: RawFd) -> Option<&mut AcceptorLine> {
        self.lines.get_mut(&fd)
    }

    /// Returns the number of listeners that have lines.
    pub(super) fn count_lines(&self) -> usize {
        self.lines.len()
    }

    /// Puts an acceptor into the line of its listener. `waker` is the driver's own.
    ///
    /// # Safety
    /// S3: the acceptor is in flight until it is told or withdrawn.
    pub(super) unsafe fn add(&mut self, flying: Flying, waker: &Waker) {
        self.known.get_or_insert_with(|| introduce(waker));
        // SAFETY: S3, the caller's promise.
        let listener = unsafe { &*flying }.op().descriptor();
        let (fd, generation) = (listener.fd, listener.generation());
        let fresh =
            || AcceptorLine { fd, generation, is_listened_to: false, waiting: VecDeque::new() };
        // If the number is waited for under another generation, that names the same file: see
        // `poll`.
        self.lines.entry(fd).or_insert_with(fresh).waiting.push_back(flying);
        self.count += 1;
        self.note();
    }

    /// Removes an op from its line if it is an acceptor. Returns the listener of that line.
    pub(super) fn withdraw(&mut self, flight: &InFlight<'_>) -> Option<RawFd> {
        let Op::Accept { fd, .. } = *flight.op() else { return None };
        let line = self.lines.get_mut(&fd.fd)?;
        let before = line.waiting.len();
        line.waiting.retain(|waiting| !ptr::addr_eq(*waiting, flight));
        if line.waiting.len() == before {
            return None;
        }
        self.count -= 1;
        self.note();
        Some(fd.fd)
    }

    /// Tells up to `most` acceptors of a listener, oldest first, until one finds no connection.
    pub(super) fn complete(&mut self, fd: RawFd, most: usize, done: &mut Vec<Completion>) {
        let Some(line) = self.lines.get_mut(&fd) else { return };
        let (mut left, mut failed) = (most, false);
        while left > 0
            && let Some(&oldest) = line.waiting.front()
        {
            // SAFETY: S3: an acceptor in a line is in flight.
            let oldest = unsafe { &*oldest };
            // SAFETY: S3: an acceptor in a line is in flight.
            let Some(completion) = (unsafe { oldest.resume() }) else { break };
            line.waiting.pop_front();
            self.count -= 1;
            if completion.result < 0 {
                // The next one is told in its place.
                failed = true;
            } else {
                left -= 1;
            }
            done.push(completion);
        }
        self.note();
        if failed {
            self.pass_on();
        }
    }

    /// Ends the waits of all acceptors of a listener with this result.
    pub(super) fn fail(&mut self, fd: RawFd, result: i32, done: &mut Vec<Completion>) {
        let Some(line) = self.lines.get_mut(&fd) else { return };
        for flying in line.waiting.drain(..) {
            self.count -= 1;
            // SAFETY: S3: an acceptor in a line is in flight.
            done.push(unsafe { &*flying }.completion(result));
        }
        self.note();
    }

    /// Returns whether another worker has passed news on.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.passed_on.load(Ordering::Relaxed))
    }

    /// If another worker has passed news on, tells the oldest acceptor of each listener. Returns
    /// these listeners.
    pub(super) fn hear(&mut self, done: &mut Vec<Completion>) -> Vec<RawFd> {
        let mut told = Vec::new();
        // Acquire: this worker sees what the other worker knew.
        if let Some(known) = &self.known
            && known.passed_on.load(Ordering::Relaxed)
            && known.passed_on.swap(false, Ordering::Acquire)
        {
            told.extend(self.lines.keys());
        }
        told.iter().for_each(|&fd| self.complete(fd, 1, done));
        told
    }

    /// Tells other workers in place of an acceptor that may have left a connection in the queue.
    fn pass_on(&self) {
        let own = self.known.as_ref().map_or(std::ptr::null(), Arc::as_ptr);
        let others: Vec<Arc<Known>> = workers().iter().filter_map(Weak::upgrade).collect();
        for other in others {
            // A worker whose acceptor comes after this look also begins to listen after it, and is
            // told then.
            let has_any = other.waiting.load(Ordering::SeqCst) > 0;
            if has_any
                && !std::ptr::eq(Arc::as_ptr(&other), own)
                && !other.passed_on.swap(true, Ordering::AcqRel)
            {
                other.waker.wake();
            }
        }
    }

    /// Forgets a line without acceptors, unless the driver listens for it.
    pub(super) fn forget_if_idle(&mut self, fd: RawFd) {
        let is_idle = |line: &AcceptorLine| line.is_empty() && !line.is_listened_to;
        if self.lines.get(&fd).is_some_and(is_idle) {
            self.lines.remove(&fd);
        }
    }

    /// Forgets all acceptors without telling them.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.count = 0;
        self.note();
    }

    fn note(&self) {
        if let Some(known) = &self.known {
            known.waiting.store(self.count, Ordering::SeqCst);
        }
    }
}

impl AcceptorLine {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

fn introduce(waker: &Waker) -> Arc<Known> {
    let known = Arc::new(Known {
        waker: waker.clone(),
        waiting: AtomicUsize::new(0),
        passed_on: AtomicBool::new(false),
    });
    let mut workers = workers();
    workers.retain(|other| other.strong_count() > 0);
    workers.push(Arc::downgrade(&known));
    known
}

#[cfg(test)]
mod tests;
