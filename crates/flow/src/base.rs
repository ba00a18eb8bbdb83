//! What the models replace: the locks, and the time. With `--cfg loom` they are the model's.
//!
//! A model has a clock of its own, so that each of its runs reads the same times. A sleep sets the
//! clock to its end, and lets the other threads run.

#[cfg(not(loom))]
pub(crate) use ecru::{sleep, time::now};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicU64};

#[cfg(loom)]
pub(crate) use self::model::{now, sleep};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic::AtomicU64};

#[cfg(loom)]
mod model {
    use super::AtomicU64;
    use ecru::Cancelled;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    loom::lazy_static! {
        static ref START: Instant = Instant::now();
        static ref NANOSECONDS: AtomicU64 = AtomicU64::new(0);
    }

    pub(crate) fn now() -> Instant {
        *START + Duration::from_nanos(NANOSECONDS.load(Ordering::Acquire))
    }

    pub(crate) fn sleep(duration: Duration) -> Result<(), Cancelled> {
        ecru::checkpoint()?;
        let end = (now() + duration - *START).as_nanos() as u64;
        NANOSECONDS.fetch_max(end, Ordering::AcqRel);
        loom::thread::yield_now();
        Ok(())
    }
}
