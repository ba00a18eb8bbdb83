//! Rows of `doc/behaviour/par.md`.

mod all_at_once;
mod calls;
mod chunks;
mod in_a_scope;
mod loops;
mod until;
mod windows;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts the running items, and their maximum.
#[derive(Default)]
struct Crowd {
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    fn enter(&self) {
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(inside, SeqCst);
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, SeqCst);
    }
}

/// Takes longer for some items than for others, without a clock.
fn dawdle(turns: usize) {
    for _ in 0..turns {
        let _ = ecru::yield_now();
    }
}
