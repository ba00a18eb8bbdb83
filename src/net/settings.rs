//! The settings that a socket and its clones share: time limits and non-blocking mode.
//!
//! std keeps them in the kernel's socket, where all duplicates of an fd share them. Here the kernel
//! never waits, so they are kept beside the fd and shared by clones. Most sockets never set any.
//! Such a socket pays one load per call.

use super::waiting_sends::WaitingSends;
use crate::base::clock;
use crate::base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The direction that a time limit applies to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    Read,
    Write,
}

/// The values behind the `Arc`. All accesses are relaxed: a call in progress on another thread may
/// or may not see a change.
#[derive(Debug, Default)]
struct Shared {
    /// Nanoseconds; 0 is no limit.
    read_timeout: AtomicU64,
    /// Nanoseconds; 0 is no limit.
    write_timeout: AtomicU64,
    /// Calls fail with `WouldBlock` instead of waiting.
    nonblocking: AtomicBool,
    /// Calls of `accept` in progress.
    accepting: AtomicU32,
    /// There have been several at a time.
    accepting_together: AtomicBool,
    waiting_sends: WaitingSends,
}

/// The settings of one socket. Empty until one is set or the socket is cloned.
#[derive(Debug, Default)]
pub(super) struct Settings(OnceLock<Arc<Shared>>);

impl Settings {
    fn shared(&self) -> &Arc<Shared> {
        self.0.get_or_init(Arc::default)
    }

    /// Returns settings for a duplicate of the fd. A change to either shows in both.
    pub(super) fn share(&self) -> Settings {
        Settings(OnceLock::from(Arc::clone(self.shared())))
    }

    pub(super) fn waiting_sends(&self) -> &WaitingSends {
        &self.shared().waiting_sends
    }

    pub(super) fn timeout(&self, direction: Direction) -> Option<Duration> {
        match self.0.get()?.timeout(direction).load(Ordering::Relaxed) {
            0 => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        }
    }

    /// Sets or removes a limit.
    pub(super) fn set_timeout(&self, direction: Direction, timeout: Option<Duration>) {
        let nanoseconds =
            timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        if nanoseconds != 0 || self.0.get().is_some() {
            self.shared().timeout(direction).store(nanoseconds, Ordering::Relaxed);
        }
    }

    /// Returns the instant at which a call that starts now has to give up.
    pub(super) fn deadline(&self, direction: Direction) -> Option<Instant> {
        let timeout = self.timeout(direction)?;
        clock::now().checked_add(timeout)
    }

    pub(super) fn is_nonblocking(&self) -> bool {
        self.0.get().is_some_and(|shared| shared.nonblocking.load(Ordering::Relaxed))
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        if nonblocking || self.0.get().is_some() {
            self.shared().nonblocking.store(nonblocking, Ordering::Relaxed);
        }
    }
}

/// A call of `accept` in progress.
pub(super) struct Accepting<'s> {
    shared: &'s Shared,
}

impl Settings {
    /// Counts a call of `accept`, until the value is dropped.
    pub(super) fn begin_to_accept(&self) -> Accepting<'_> {
        let shared = self.shared();
        if shared.accepting.fetch_add(1, Ordering::Relaxed) > 0
            && !shared.accepting_together.load(Ordering::Relaxed)
        {
            shared.accepting_together.store(true, Ordering::Relaxed);
        }
        Accepting { shared }
    }
}

impl Accepting<'_> {
    /// Returns whether other calls are or were in progress on the socket or its clones at the same
    /// time.
    pub(super) fn has_company(&self) -> bool {
        self.shared.accepting_together.load(Ordering::Relaxed)
    }
}

impl Drop for Accepting<'_> {
    fn drop(&mut self) {
        self.shared.accepting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    fn timeout(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Read => &self.read_timeout,
            Direction::Write => &self.write_timeout,
        }
    }
}

/// Refuses a limit of zero, as std does.
pub(super) fn check_timeout(timeout: Option<Duration>) -> io::Result<()> {
    if timeout == Some(Duration::ZERO) {
        let text = "cannot set a 0 duration timeout; use None to wait without a limit";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}
