//! The views, calls and hubs in simulations: each value arrives once, in any order of the tasks,
//! and with a cancellation at each place.

mod calls;
mod guards;
mod hubs;
mod views;

use ecru::channel::{Receiver, SendError, Sender};
use ecru::sim::{self, Explore};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs `f` with several seeds, in the interleavings with the fewest preemptions, and with a
/// cancellation at each place.
#[track_caller]
fn everywhere(f: impl Fn() + Send + Sync + Copy + 'static) {
    sim::test(f);
    if let Err(found) = sim::explore(Explore::Exhaustive { max_runs: 100 }, f) {
        panic!("{found}");
    }
    sim::cancel_everywhere(f);
}

/// The numbers that were sent and taken.
#[derive(Default)]
struct Seen {
    sent: Mutex<BTreeSet<u32>>,
    taken: Mutex<BTreeSet<u32>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    /// Sends numbers until one is refused.
    fn send(&self, to: &Sender<u32>, numbers: Range<u32>) {
        for number in numbers {
            if to.send(number).is_err() {
                return;
            }
            lock(&self.sent).insert(number);
        }
    }

    #[track_caller]
    fn take(&self, number: u32) {
        assert!(lock(&self.taken).insert(number), "{number} comes twice");
    }

    /// Takes a number that a call had in hand when it failed.
    #[track_caller]
    fn take_in_hand(&self, outcome: Result<(), SendError<Option<u32>>>) {
        if let Err(error) = outcome
            && let Some(number) = error.into_inner()
        {
            self.take(number);
        }
    }

    #[track_caller]
    fn take_rest(&self, from: &Receiver<u32>) {
        from.try_iter().for_each(|number| self.take(number));
    }

    /// Each number that was sent has been taken once.
    #[track_caller]
    fn balance(&self) {
        assert_eq!(*lock(&self.sent), *lock(&self.taken));
    }
}
