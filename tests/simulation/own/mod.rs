//! What ecru itself promises, under every schedule that can be tried.

mod channels;
mod combinators;
mod condvars;
mod datagrams;
mod directories;
mod events;
mod files;
mod listeners;
mod locks;
mod power;
mod scopes;
mod selects;
mod semaphores;
mod sources;
mod streams;
mod time_limits;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ecru::sim::{self, Explore};

/// Runs `f` with several seeds, in the interleavings with the fewest preemptions, and with a
/// cancellation at each place.
#[track_caller]
fn everywhere(f: impl Fn() + Send + Sync + Copy + 'static) {
    in_every_order(f);
    sim::cancel_everywhere(f);
}

/// Does the same, and runs `f` with an error of each I/O operation.
#[track_caller]
fn everywhere_with_faults(f: impl Fn() + Send + Sync + Copy + 'static) {
    everywhere(f);
    sim::fault_everywhere(f);
}

/// Runs `f` with several seeds, and in the interleavings with the fewest preemptions.
#[track_caller]
fn in_every_order(f: impl Fn() + Send + Sync + Copy + 'static) {
    sim::test(f);
    if let Err(found) = sim::explore(Explore::Exhaustive { max_runs: 200 }, f) {
        panic!("{found}");
    }
}

/// Counts values, so that none is lost and none comes twice.
#[derive(Default)]
struct Ledger {
    made: AtomicU64,
    alive: AtomicU64,
    sent: AtomicU64,
    returned: AtomicU64,
    taken: AtomicU64,
}

/// A value of a ledger.
struct Value<'l> {
    ledger: &'l Ledger,
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        let before = self.ledger.alive.fetch_sub(1, Relaxed);
        assert!(before > 0, "a value is dropped twice");
    }
}

impl Ledger {
    fn make(&self) -> Value<'_> {
        self.made.fetch_add(1, Relaxed);
        self.alive.fetch_add(1, Relaxed);
        Value { ledger: self }
    }

    fn sent(&self) {
        self.sent.fetch_add(1, Relaxed);
    }

    fn returned(&self, value: Value<'_>) {
        drop(value);
        self.returned.fetch_add(1, Relaxed);
    }

    fn taken(&self, value: Value<'_>) {
        drop(value);
        self.taken.fetch_add(1, Relaxed);
    }

    fn count(&self) -> [u64; 5] {
        [&self.made, &self.alive, &self.sent, &self.returned, &self.taken]
            .map(|count| count.load(Relaxed))
    }

    /// Each value was sent or returned, and each one that was sent has been taken.
    #[track_caller]
    fn balance(&self) {
        let [made, alive, sent, returned, taken] = self.count();
        assert_eq!(made, sent + returned, "a value was neither sent nor returned");
        assert_eq!(sent, taken, "a value was lost, or came twice");
        assert_eq!(alive, 0, "a value was leaked");
    }
}
