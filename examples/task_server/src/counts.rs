//! Counts of what a server has done and is doing, for the status line and for tests.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The current number of something, and its maximum.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicUsize,
    peak: AtomicUsize,
}

/// An entry that a [`Gauge`] counts until it is dropped.
#[derive(Debug)]
pub struct Counted<'a>(&'a Gauge);

impl Gauge {
    /// Counts one more while the result lives.
    pub fn enter(&self) -> Counted<'_> {
        self.peak.fetch_max(self.now.fetch_add(1, Relaxed) + 1, Relaxed);
        Counted(self)
    }

    /// Returns the current number.
    pub fn now(&self) -> usize {
        self.now.load(Relaxed)
    }

    /// Returns the largest number so far.
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Relaxed);
    }
}

/// All counts of a server.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections.
    pub connections: Gauge,
    /// Requests that have been read and whose answer has not been sent.
    pub in_hand: Gauge,
    /// CPU tasks that run.
    pub cpu: Gauge,
    /// IO tasks that sleep.
    pub io: Gauge,
    /// Requests read.
    pub requests: AtomicUsize,
    /// Tasks that were run for requests. For the other requests the answer was known or being
    /// computed.
    pub works: AtomicUsize,
    /// CPU tasks that were computed here, also for other servers of the fleet.
    pub computed: AtomicUsize,
    /// Malformed lines.
    pub malformed: AtomicUsize,
    /// The sum of all sleeps, before scaling.
    pub slept_ms: AtomicU64,
}

impl Counts {
    /// Returns the sum of all sleeps, before scaling.
    pub fn slept(&self) -> Duration {
        Duration::from_millis(self.slept_ms.load(Relaxed))
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, works) = (self.requests.load(Relaxed), self.works.load(Relaxed));
        write!(
            f,
            "{} clients | {} sleep, {} compute | {requests} requests, {} of them answered from the cache | {} malformed",
            self.connections.now(),
            self.io.now(),
            self.cpu.now(),
            requests.saturating_sub(works + self.in_hand.now()),
            self.malformed.load(Relaxed),
        )
    }
}
