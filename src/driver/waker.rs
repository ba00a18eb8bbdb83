//! Waking a worker that is blocked in [`poll`](super::Driver::poll), by an eventfd.
//!
//! The `pending` flag makes many wakes between two polls cost one system call.
//!
//! - A waker sets it; whoever finds it clear writes to the eventfd. (Its earlier writes, say to an inbox, are released
//!   by the swap.)
//! - The driver, having seen the eventfd's event, clears the flag by a swap (acquire) and returns; only then does the
//!   worker look at its inbox. A waker that found the flag set is ordered before that swap, so what it brought is seen.
//!   One that comes after it finds the flag clear and writes again.

use crate::base::sync::atomic::{AtomicBool, Ordering};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Wakes one driver. May outlive it, and then does nothing.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    eventfd: OwnedFd,
    pending: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> io::Result<Waker> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(Shared { eventfd, pending: AtomicBool::new(false) })))
    }

    /// Makes a `poll` in progress return, or else the next one that would block.
    pub(crate) fn wake(&self) {
        if self.0.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        // The counter could only overflow after 2^64 wakes; nothing else can go wrong with an eventfd that is open.
        let written = rustix::io::write(&self.0.eventfd, &1_u64.to_ne_bytes());
        debug_assert!(written.is_ok(), "an open eventfd accepts a write");
    }

    /// Called by the driver between seeing the event and returning from `poll`.
    pub(super) fn acknowledge(&self) {
        self.0.pending.swap(false, Ordering::AcqRel);
    }

    /// What the driver watches.
    pub(super) fn fd(&self) -> RawFd {
        self.0.eventfd.as_raw_fd()
    }
}
