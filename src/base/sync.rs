//! Atomics and blocking, either `std`'s or, with `--cfg loom`, loom's.
//!
//! [`SpinLock`] guards the short lists of the modules above. Neither a wait nor user code runs
//! under it. [`QueueLock`] guards queues of waiters, and user code may run under it. A parked OS
//! thread sleeps on a [`Signal`].

#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

#[cfg(loom)]
pub(crate) use loom::sync::atomic;

/// A lock that sleeps, for state that no worker waits for. The locks of the service and of time limits
/// are of this kind.
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// A counter in a static, which loom's atomics do not support. It orders nothing.
pub(crate) use std::sync::atomic::AtomicU64 as StaticU64;

/// A pointer in a static, which loom's atomics do not support either.
pub(crate) use std::sync::atomic::AtomicPtr as StaticPtr;

use super::clock;
use std::hint;
use std::time::Duration;

#[cfg(all(test, loom))]
mod checked;
pub(crate) mod epoch;
pub(crate) mod futex;
mod lock;
mod queue_lock;
mod signal;

#[cfg(all(test, loom))]
pub(crate) use checked::Checked;
pub(crate) use lock::{SpinGuard, SpinLock};
pub(crate) use queue_lock::{
    PutOff, QueueGuard, QueueLock, is_asking_anything, put_off_until_unlocked,
};
pub(crate) use signal::Signal;

/// Lets other threads run. A spinning loop calls this between two looks.
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
        // The lock holder may have been preempted. On a machine with two cores, it may be waiting
        // for this core.
        std::thread::yield_now();
    }
}

/// Repeats the effect of the `SeqCst` orderings around it for loom, which treats `SeqCst` as
/// `AcqRel` except in fences.
#[inline(always)]
pub(crate) fn fence_for_loom() {
    #[cfg(loom)]
    atomic::fence(atomic::Ordering::SeqCst);
}

/// Keeps this thread busy, without touching shared memory, for about this long. The duration is
/// measured by the clock, because the duration of a pause instruction differs by a factor of thirty
/// between processors.
#[cold]
pub(crate) fn keep_away(for_so_long: Duration) {
    if cfg!(not(loom)) {
        let begin = clock::real_now();
        while clock::real_now().saturating_duration_since(begin) < for_so_long {
            for _ in 0..4 {
                hint::spin_loop();
            }
        }
    }
}

#[cfg(not(loom))]
const SPINS_BEFORE_YIELD: u32 = 64;
