//! Atomics and blocking, through one door: `std`'s, or loom's when the crate is built with `--cfg loom`.
//!
//! [`SpinLock`] guards the short lists of the modules above: nothing that can wait, and no user code, runs under it.
//! [`Signal`] is what a parked OS thread sleeps on.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

#[cfg(loom)]
pub(crate) use loom::sync::atomic;

/// A counter in a static, which loom's cannot be. Nothing is ordered by it.
pub(crate) use std::sync::atomic::AtomicU64 as StaticU64;

/// A pointer in a static, which loom's cannot be either.
pub(crate) use std::sync::atomic::AtomicPtr as StaticPtr;

use std::hint;
use std::time::{Duration, Instant};

mod biased;
pub(crate) mod epoch;
pub(crate) mod futex;
mod lock;
mod signal;

pub(crate) use biased::{
    BiasedGuard, BiasedLock, PutOff, is_asking_anything, put_off_until_unlocked,
};
pub(crate) use lock::{SpinGuard, SpinLock};
pub(crate) use signal::Signal;

/// Lets somebody else run: what a spinning loop calls between two looks.
#[inline]
pub(crate) fn relax(round: u32) {
    #[cfg(loom)]
    {
        let _ = round;
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    if round < SPINS_BEFORE_YIELD {
        hint::spin_loop();
    } else {
        // The holder may have been preempted, and on a machine with two cores it may be waiting for this very one.
        std::thread::yield_now();
    }
}

/// What the `SeqCst` orderings around it promise, said once more to loom, which takes them for `AcqRel` except in fences.
#[inline(always)]
pub(crate) fn fence_for_loom() {
    #[cfg(loom)]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// Keeps this thread away from everything for about so long. By the clock: what processors take for one pause differs by a factor of thirty.
#[cold]
pub(crate) fn keep_away(for_so_long: Duration) {
    if cfg!(not(loom)) {
        let begin = Instant::now();
        while begin.elapsed() < for_so_long {
            for _ in 0..4 {
                hint::spin_loop();
            }
        }
    }
}

#[cfg(not(loom))]
const SPINS_BEFORE_YIELD: u32 = 64;
