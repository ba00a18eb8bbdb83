//! Acceptors: waits for connections to a listener that is shared, one of which is told of each connection.
//!
//! Several workers may wait for connections to one listener. If each of them polled it in the usual way, a single connection would wake them
//! all, and all but one would wake for nothing. The kernel can choose one: of the polls that are *exclusive* (`EPOLLEXCLUSIVE`) it wakes one
//! for each connection that arrives. Then nobody else hears of that connection, so the one that is woken must not keep the news to itself.
//!
//! # Words
//! - An *acceptor* is an `Accept` in flight whose op says that its listener is shared. It waits in the line of its listener, oldest first.
//!   The kernel has nothing of it, so it can be cancelled on the spot.
//! - A driver *listens* while an exclusive poll of its own on the listener is in place.
//! - An acceptor is *told* when its op completes with `RETRY`.
//!
//! # Protocol
//! 1. A wake-up counts for a worker only if that sleeps and an acceptor waits there. `uring` puts its polls in place before it blocks, and
//!    takes them away when it wakes, before anything else can run. `poll` keeps its registration while acceptors wait: epoll itself counts a
//!    wake-up only if a thread sleeps in `epoll_wait`, and tells those that are awake besides.
//! 2. A poll that is put in place reports at once what has arrived before.
//! 3. Each report tells one acceptor, the oldest, before any other completion of that `poll` is handed out. A report of an error or of the
//!    end of the listener tells all.
//! 4. An acceptor that is told makes an attempt, whatever has happened to it meanwhile: a cancellation or a deadline counts only if the attempt
//!    finds nothing. (`sched::io` does that.)
//! 5. If this attempt fails and not because nothing is there, the connection may still be in the queue: too many files are open, say. The
//!    acceptor is leaving with its error, so it [passes the news on](Acceptors::pass_on): to the next in line, and to all other workers of the
//!    process that have acceptors. Each of those tells its oldest ones. One that has failed does not wait any more, so this comes to an end.
//! 6. A worker that does not sleep listens to nothing that counts. It looks by itself: `poll` hears of everything (1), and `uring` asks once in
//!    [`LOOK_EVERY`].
//!
//! # Why no connection is left behind
//! Claim: while an acceptor is listened for, there are not more connections in the queue than acceptors that have been told and have not made
//! their attempt. It holds when a driver begins to listen (2). A connection that arrives makes one more of each (1, 3). An attempt ends one of the
//! latter, and takes a connection if there is one (4); if it fails otherwise, others are told in its place (5). Attempts by tasks that were not
//! told, by threads in poll(2) and by other processes only take connections away. Where nobody is listened for, the workers with acceptors are
//! awake, and look (6).
//!
//! A worker that is told and then computes for long before it comes to its acceptor would still hold up a connection. So acceptors come first
//! (3): when a worker has slept, nothing is ready that could go before.

use super::descriptor::Descriptor;
use super::{Completion, Token, Waker};
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How often a worker that does not sleep asks whether there is a connection for its acceptors.
pub(super) const LOOK_EVERY: Duration = Duration::from_micros(250);

/// What other workers know of a worker's acceptors.
#[derive(Debug)]
struct Known {
    waker: Waker,
    /// How many there are.
    waiting: AtomicUsize,
    /// News has been passed on, and the worker has not dealt with it yet.
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
    /// The name under which the kernel is asked.
    pub(super) fd: Descriptor,
    /// A poll of the driver's is in place.
    pub(super) is_listened_to: bool,
    waiting: VecDeque<Token>,
}

/// The acceptors of one driver.
#[derive(Debug)]
pub(super) struct Acceptors {
    /// By the number of the listener's fd. That is open while acceptors wait (S3).
    lines: BTreeMap<RawFd, Line>,
    /// In which line each one waits.
    places: HashMap<Token, RawFd>,
    /// There from the first one on.
    known: Option<Arc<Known>>,
}

impl Acceptors {
    pub(super) fn new() -> Acceptors {
        Acceptors { lines: BTreeMap::new(), places: HashMap::new(), known: None }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn lines(&mut self) -> impl Iterator<Item = &mut Line> {
        self.lines.values_mut()
    }

    pub(super) fn line(&mut self, fd: RawFd) -> Option<&mut Line> {
        self.lines.get_mut(&fd)
    }

    /// How many listeners have lines.
    pub(super) fn count_lines(&self) -> usize {
        self.lines.len()
    }

    /// Lets an acceptor wait. `waker`: the driver's own.
    pub(super) fn add(&mut self, fd: Descriptor, token: Token, waker: &Waker) {
        self.known.get_or_insert_with(|| introduce(waker));
        let fresh = || Line { fd, is_listened_to: false, waiting: VecDeque::new() };
        // Another name for a number that is waited for is one for the same file: see `poll`.
        self.lines.entry(fd.fd).or_insert_with(fresh).waiting.push_back(token);
        self.places.insert(token, fd.fd);
        self.note();
    }

    /// The acceptor waits no more. Returns where it did.
    pub(super) fn withdraw(&mut self, token: Token) -> Option<RawFd> {
        let fd = self.places.remove(&token)?;
        if let Some(line) = self.lines.get_mut(&fd) {
            line.waiting.retain(|waiting| *waiting != token);
        }
        self.note();
        Some(fd)
    }

    /// Tells up to so many acceptors of a listener.
    pub(super) fn tell(&mut self, fd: RawFd, most: usize, done: &mut Vec<Completion>) {
        let Some(line) = self.lines.get_mut(&fd) else { return };
        for token in line.waiting.drain(..most.min(line.waiting.len())) {
            self.places.remove(&token);
            done.push(Completion { token, result: Completion::RETRY, more: false });
        }
        self.note();
    }

    /// Tells the oldest acceptor of each listener if another worker has passed news on. Returns these listeners.
    pub(super) fn hear(&mut self, done: &mut Vec<Completion>) -> Vec<RawFd> {
        let mut told = Vec::new();
        // Acquire: what the other worker knew is known here.
        if let Some(known) = &self.known
            && known.passed_on.load(Ordering::Relaxed)
            && known.passed_on.swap(false, Ordering::Acquire)
        {
            told.extend(self.lines.keys());
        }
        told.iter().for_each(|&fd| self.tell(fd, 1, done));
        told
    }

    /// An acceptor of this listener was told, and has left a connection where it was.
    pub(super) fn pass_on(&mut self, fd: RawFd, done: &mut Vec<Completion>) {
        self.tell(fd, 1, done);
        let own = self.known.as_ref().map_or(std::ptr::null(), Arc::as_ptr);
        let others: Vec<Arc<Known>> = workers().iter().filter_map(Weak::upgrade).collect();
        for other in others {
            // A worker whose acceptor came later than this look listens later, too, and is told by that.
            let has_any = other.waiting.load(Ordering::SeqCst) > 0;
            if has_any
                && !std::ptr::eq(Arc::as_ptr(&other), own)
                && !other.passed_on.swap(true, Ordering::AcqRel)
            {
                other.waker.wake();
            }
        }
    }

    /// Forgets the line of a listener that has none and that is not listened to.
    pub(super) fn forget_if_idle(&mut self, fd: RawFd) {
        let is_idle = |line: &Line| line.is_empty() && !line.is_listened_to;
        if self.lines.get(&fd).is_some_and(is_idle) {
            self.lines.remove(&fd);
        }
    }

    /// Forgets all; nobody will be told.
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
