//! Wakes a worker that is blocked in [`poll`](super::Driver::poll), by an eventfd.
//!
//! With the `pending` flag, many wakes between two polls cost one system call.
//!
//! - A waker sets the flag. If it finds the flag clear, it writes to the eventfd. Its earlier
//!   writes, for instance to an inbox, are released by the swap.
//! - When the driver has seen the eventfd's event, it clears the flag by a swap (acquire) and
//!   returns. Only then does the worker look at its inbox. A waker that found the flag set is
//!   ordered before that swap, so the worker sees what it wrote. A waker that comes after the swap
//!   finds the flag clear and writes again.

use crate::base::sync::atomic::{AtomicBool, Ordering};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Wakes one driver. A waker may outlive its driver, and then does nothing.
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

    /// Makes a `poll` in progress return. If there is none, the next one that would block returns.
    pub(crate) fn wake(&self) {
        if self.0.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        // The counter could overflow only after 2^64 wakes. Nothing else can go wrong with an open
        // eventfd.
        let written = rustix::io::write(&self.0.eventfd, &1_u64.to_ne_bytes());
        debug_assert!(written.is_ok(), "an open eventfd accepts a write");
    }

    /// Called by the driver between seeing the event and returning from `poll`.
    pub(super) fn acknowledge(&self) {
        self.0.pending.swap(false, Ordering::AcqRel);
    }

    /// Returns the fd that the driver watches.
    pub(super) fn fd(&self) -> RawFd {
        self.0.eventfd.as_raw_fd()
    }
}
