//! How long a thread has waited for a processor.
//!
//! A machine that has too much to do does not run a thread that could run. That is no fault of what
//! the thread does, so such time does not count as time that a step of a simulation takes.

use std::fs;
use std::time::Duration;

use crate::base::sync::atomic::{AtomicI32, Ordering};

/// A thread of this process, once it has [begun](WatchedThread::begin).
#[derive(Debug, Default)]
pub(super) struct WatchedThread {
    /// Its number in the system, or 0.
    number: AtomicI32,
}

impl WatchedThread {
    /// Notes that this is the current thread.
    pub(super) fn begin(&self) {
        self.number.store(rustix::thread::gettid().as_raw_pid(), Ordering::Relaxed);
    }

    /// Returns how long the thread has waited for a processor since it was started. Returns zero if
    /// it has not begun or has ended, or if the system does not count this.
    pub(super) fn waited(&self) -> Duration {
        match self.number.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            number => waited(number).unwrap_or_default(),
        }
    }
}

fn waited(number: i32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/self/task/{number}/schedstat")).ok()?;
    // The time on a processor, the time in the queue for one, and the number of turns.
    let waited = text.split_whitespace().nth(1)?;
    waited.parse().ok().map(Duration::from_nanos)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::WatchedThread;
    use std::time::Duration;

    #[test]
    fn a_thread_that_has_not_begun_has_not_waited() {
        let thread = WatchedThread::default();
        assert_eq!(thread.waited(), Duration::ZERO);
        thread.begin();
        let first = thread.waited();
        assert!(thread.waited() >= first);
    }
}
