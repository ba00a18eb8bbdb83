//! What a server has done and is doing, for the status line and for tests.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// How many there are now, and how many there were at most.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicUsize,
    peak: AtomicUsize,
}

/// One of those that a [`Gauge`] counts, until it is dropped.
#[derive(Debug)]
pub struct Counted<'a>(&'a Gauge);

impl Gauge {
    /// One more, for as long as the result lives.
    pub fn enter(&self) -> Counted<'_> {
        self.peak.fetch_max(self.now.fetch_add(1, Relaxed) + 1, Relaxed);
        Counted(self)
    }

    /// Those there are.
    pub fn now(&self) -> usize {
        self.now.load(Relaxed)
    }

    /// The most there ever were at once.
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Relaxed);
    }
}

/// All that is counted.
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
    /// Tasks done for them; the others' answers were known, or somebody was finding them.
    pub works: AtomicUsize,
    /// Lines that were no requests.
    pub malformed: AtomicUsize,
    /// The lengths of all sleeps together, before they were scaled.
    pub slept_ms: AtomicU64,
}

impl Counts {
    /// The lengths of all sleeps together, before they were scaled.
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
