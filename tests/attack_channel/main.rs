//! Attacks on channels by hostile but safe code: destructors and predicates that use the channel
//! again, peers that meet at the worst moment, forgotten ends, and values of unusual kinds.

mod awkward_values;
mod callbacks_and_polls;
mod cancellation;
mod closing;
#[path = "../common/mod.rs"]
mod common;
mod destructors;
mod dropped_in_predicates;
mod meetings;
mod own_sources;
mod predicates;
mod send_arms;
mod who_is_told;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use common::{HOUR, OnDrop, Watchdog, each_run, ms, run_on, settle, text_of};

/// Runs `count` bodies at once, each with its number: in tasks of one worker, of two workers, and
/// on threads.
fn at_once(count: usize, body: impl Fn(usize) + Sync) {
    let body = &body;
    for workers in [1, 2] {
        run_on(workers, || {
            ecru::scope(|s| (0..count).for_each(|n| drop(s.spawn(move || body(n)))));
        });
    }
    let _watchdog = Watchdog::new();
    thread::scope(|s| (0..count).for_each(|n| drop(s.spawn(move || body(n)))));
}

/// A value that counts its creations and its drops.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, SeqCst);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
