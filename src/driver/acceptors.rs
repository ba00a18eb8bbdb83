//! Acceptors: waits for connections to a shared listener. One of them is told of each connection.
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
//! - An acceptor is *told* when its op completes with `RETRY`.
//!
//! # Protocol
//! 1. A wake-up counts for a worker only if the worker sleeps and has an acceptor waiting. `uring`
//!    puts its polls in place before it blocks, and takes them away when it wakes, before anything
//!    else can run. `poll` keeps its registration while acceptors wait. epoll itself counts a
//!    wake-up only if a thread sleeps in `epoll_wait`, and tells those that are awake in addition.
//! 2. A poll that is put in place reports at once what has arrived before.
//! 3. Each report tells one acceptor, the oldest, before any other completion of that `poll` is
//!    handed out. A report of an error or of the end of the listener tells all.
//! 4. An acceptor that is told makes an attempt, whatever has happened to it meanwhile. A
//!    cancellation or a deadline counts only if the attempt finds nothing. (`sched::io` does that.)
//! 5. The attempt may fail for another reason than an empty queue, for instance because too many
//!    files are open. Then the connection may still be in the queue. The acceptor leaves with its
//!    error, so it [passes the news on](Acceptors::pass_on): to the next in its line, and to all
//!    other workers of the process that have acceptors. Each of those tells the oldest acceptor of
//!    each of its listeners. An acceptor that has failed waits no longer, so this comes to an end.
//! 6. A worker that does not sleep does not listen in a way that counts. It looks by itself: `poll`
//!    hears of everything (1), and `uring` looks once in [`LOOK_EVERY`].
//!
//! # Why no connection is left behind
//! Claim: while an acceptor is listened for, the queue does not hold more connections than there
//! are acceptors that have been told and have not made their attempt. The claim holds when a driver
//! begins to listen (2). A connection that arrives adds one to both numbers (1, 3). An attempt
//! takes one acceptor off, and takes a connection if there is one (4). If the attempt fails
//! otherwise, others are told in its place (5). Attempts by tasks that were not told, by threads in
//! poll(2) and by other processes only take connections away. If no acceptor is listened for, the
//! workers with acceptors are awake, and look (6).
//!
//! A worker that is told, and then computes for long before it comes to its acceptor, would still
//! hold up a connection. So acceptors come first (3): when a worker has slept, nothing that is
//! ready could go before them.

use super::descriptor::Descriptor;
use super::{Completion, Token, Waker};
use crate::base::hash::HashMap;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::RawFd;
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
pub(super) struct Line {
    /// The listener's fd, by which the kernel is asked.
    pub(super) fd: Descriptor,
    /// True if a poll of the driver is in place.
    pub(super) is_listened_to: bool,
    waiting: VecDeque<Token>,
}

/// The acceptors of one driver.
#[derive(Debug)]
pub(super) struct Acceptors {
    /// The lines by the number of the listener's fd, which is open while acceptors wait (S3).
    lines: BTreeMap<RawFd, Line>,
    /// The listener in whose line each acceptor waits.
    places: HashMap<Token, RawFd>,
    /// Present from the first acceptor on.
    known: Option<Arc<Known>>,
}

impl Acceptors {
    pub(super) fn new() -> Acceptors {
        Acceptors { lines: BTreeMap::new(), places: HashMap::default(), known: None }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn lines(&mut self) -> impl Iterator<Item = &mut Line> {
        self.lines.values_mut()
    }

    pub(super) fn line(&mut self, fd: RawFd) -> Option<&mut Line> {
        self.lines.get_mut(&fd)
    }

    /// Returns the number of listeners that have lines.
    pub(super) fn count_lines(&self) -> usize {
        self.lines.len()
    }

    /// Puts an acceptor into its listener's line. `waker` is the driver's own.
    pub(super) fn add(&mut self, fd: Descriptor, token: Token, waker: &Waker) {
        self.known.get_or_insert_with(|| introduce(waker));
        let fresh = || Line { fd, is_listened_to: false, waiting: VecDeque::new() };
        // If the number is waited for under another generation, that names the same file: see
        // `poll`.
        self.lines.entry(fd.fd).or_insert_with(fresh).waiting.push_back(token);
        self.places.insert(token, fd.fd);
        self.note();
    }

    /// Removes an acceptor from its line. Returns the listener of that line.
    pub(super) fn withdraw(&mut self, token: Token) -> Option<RawFd> {
        let fd = self.places.remove(&token)?;
        if let Some(line) = self.lines.get_mut(&fd) {
            line.waiting.retain(|waiting| *waiting != token);
        }
        self.note();
        Some(fd)
    }

    /// Tells up to `most` acceptors of a listener, oldest first.
    pub(super) fn tell(&mut self, fd: RawFd, most: usize, done: &mut Vec<Completion>) {
        let Some(line) = self.lines.get_mut(&fd) else { return };
        for token in line.waiting.drain(..most.min(line.waiting.len())) {
            self.places.remove(&token);
            done.push(Completion { token, result: Completion::RETRY, more: false });
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
        told.iter().for_each(|&fd| self.tell(fd, 1, done));
        told
    }

    /// Tells others in place of an acceptor that was told and left a connection in the queue.
    pub(super) fn pass_on(&mut self, fd: RawFd, done: &mut Vec<Completion>) {
        self.tell(fd, 1, done);
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
        let is_idle = |line: &Line| line.is_empty() && !line.is_listened_to;
        if self.lines.get(&fd).is_some_and(is_idle) {
            self.lines.remove(&fd);
        }
    }

    /// Forgets all acceptors without telling them.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.places.clear();
        self.note();
    }

    fn note(&self) {
        if let Some(known) = &self.known {
            known.waiting.store(self.places.len(), Ordering::SeqCst);
        }
    }
}

impl Line {
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
