//! The `loopback` driver, for tests: pipes and TCP in memory, without a system call for each op. It
//! proves that a driver needs nothing but ops and descriptors, and it is what a simulated network
//! can grow from.
//!
//! # Words
//! - A *file* ([`File`]) is an end of a pipe, a socket, or a listener. A
//!   [`Descriptor`](super::Descriptor) owns a reference to its file instead of an fd. A real fd,
//!   its *placeholder*, is made only if one is asked for.
//! - A [`Network`] knows its listeners by their addresses. A socket belongs to a network from its
//!   creation, so several networks do not meet.
//! - A *watcher* is a driver's request to be told when a side of a file changes.
//!
//! # Protocol
//! 1. An attempt looks at the file under its lock, on whatever thread it is made.
//! 2. A driver that starts an op leaves a watcher with the file before it attempts the op. So no
//!    change is lost between the attempt and the wait.
//! 3. A change takes the watchers of that side out of the file, puts their ops into the inboxes of
//!    their drivers, and wakes these. A driver that is told leaves the watcher again, and attempts
//!    the op, until the op ends.
#![expect(unsafe_code, reason = "implements an unsafe method")]

mod file;
mod network;

use super::flight::{Flying, InFlight};
use super::{Completion, Driver, Op, Started, Token, Wait, Waker};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, mem, ptr};

pub(super) use file::attempt;
pub(crate) use file::{File, pipe};
pub(crate) use network::Network;

/// What a driver leaves with a file to be told of a change.
#[derive(Clone, Debug)]
struct Watcher {
    inbox: Arc<Inbox>,
    /// The driver's number for the op that waits.
    op: u64,
}

/// Where files tell a driver of changes.
#[derive(Debug)]
struct Inbox {
    news: Mutex<Vec<u64>>,
    waker: Waker,
}

impl Watcher {
    fn tell(&self) {
        lock(&self.inbox.news).push(self.op);
        self.inbox.waker.wake();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker's driver.
#[derive(Debug)]
pub(crate) struct Loopback {
    inbox: Arc<Inbox>,
    waiting: BTreeMap<u64, Flying>,
    next: u64,
    done: Vec<Completion>,
}

impl Loopback {
    pub(super) fn open(waker: Option<Waker>) -> io::Result<Loopback> {
        let waker = waker.map_or_else(Waker::new, Ok)?;
        let inbox = Arc::new(Inbox { news: Mutex::default(), waker });
        Ok(Loopback { inbox, waiting: BTreeMap::new(), next: 0, done: Vec::new() })
    }

    pub(super) fn waker(&self) -> Waker {
        self.inbox.waker.clone()
    }

    /// Leaves a watcher for an op, and attempts it. Returns `None` if it has to wait.
    ///
    /// # Safety
    /// S3: the op is in flight, or is about to be.
    unsafe fn attempt(&self, number: u64, flight: &InFlight<'_>) -> Option<Completion> {
        let file = flight.op().descriptor().file()?;
        let watcher = Watcher { inbox: Arc::clone(&self.inbox), op: number };
        file.watch(flight.op().interest(), watcher.clone());
        // SAFETY: S3, the caller's promise.
        let completion = unsafe { flight.resume() };
        if completion.is_some() {
            file.unwatch(&watcher);
        }
        completion
    }

    /// Attempts the ops of which this driver has been told.
    fn hear(&mut self) {
        let news = mem::take(&mut *lock(&self.inbox.news));
        for number in news {
            // An op that has ended may still have been on its way.
            let Some(&flying) = self.waiting.get(&number) else { continue };
            // SAFETY: S3: an op in the map is in flight.
            let flight = unsafe { &*flying };
            // SAFETY: S3, as above.
            if let Some(completion) = unsafe { self.attempt(number, flight) } {
                self.waiting.remove(&number);
                self.done.push(completion);
            }
        }
    }

    /// Blocks until the driver is woken, or for this long.
    fn sleep(&self, limit: Option<Duration>) -> io::Result<()> {
        // SAFETY: the waker's eventfd is open for as long as the waker exists.
        let fd = unsafe { BorrowedFd::borrow_raw(self.inbox.waker.fd()) };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match rustix::event::poll(&mut fds, limit.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(()),
            Ok(_) => {
                let _ = rustix::io::read(fd, &mut [0; 8]);
                self.inbox.waker.acknowledge();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Driver for Loopback {
    unsafe fn start(&mut self, flight: &InFlight<'_>, token: Token) -> Started {
        if flight.op().descriptor().file().is_none() || matches!(flight.op(), Op::File(_)) {
            return Started::Done(Err(io::ErrorKind::Unsupported.into()));
        }
        let number = self.next;
        self.next += 1;
        let flying = flight.keep(token);
        // SAFETY: S3, the caller's promise.
        if let Some(completion) = unsafe { self.attempt(number, flight) } {
            return Started::Done(completion.into_result());
        }
        self.waiting.insert(number, flying);
        Started::Pending
    }

    fn cancel(&mut self, flight: &InFlight<'_>) {
        let own = |(_, flying): &(&u64, &Flying)| ptr::addr_eq(**flying, flight);
        let Some(number) = self.waiting.iter().find(own).map(|(number, _)| *number) else { return };
        self.waiting.remove(&number);
        if let Some(file) = flight.op().descriptor().file() {
            file.unwatch(&Watcher { inbox: Arc::clone(&self.inbox), op: number });
        }
        self.done.push(flight.completion(Completion::CANCELLED));
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.hear();
        let limit = match wait {
            _ if !self.done.is_empty() => Some(Duration::ZERO),
            Wait::Poll => Some(Duration::ZERO),
            Wait::For(limit) => Some(limit),
            Wait::Forever => None,
        };
        if limit != Some(Duration::ZERO) {
            self.sleep(limit)?;
            self.hear();
        }
        completions.append(&mut self.done);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.done.len()
    }
}
