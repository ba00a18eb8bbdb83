//! Sends on Unix sockets, which end when the socket is shut for writing.
//!
//! A Unix socket that is shut for writing does not become writable, so no driver is told of it. A
//! send that has to wait is *kept* in the socket's settings, which clones share, and the shutdown
//! cancels it. Then the kernel is asked again, and refuses.
//!
//! The send is kept before its last attempt, and the shutdown reads the list after the kernel has
//! shut the socket. The list has a lock. So either the attempt finds the socket shut, or the
//! shutdown finds the send.
//!
//! A plain thread waits in poll(2), which no other thread ends. It attempts its send again and
//! again, so that it finds the socket shut soon.

use super::Socket;
use crate::base::clock;
use crate::driver::LentOp;
use crate::sched::io::{attempt, perform_before};
use crate::scope::cancel_scope;
use crate::task::{self, Cancelled};
use std::io;
use std::time::{Duration, Instant};

/// How long a plain thread waits for room before it attempts its send again.
const STEP: Duration = Duration::from_millis(10);

impl Socket {
    /// Sends on a Unix socket.
    pub(super) fn send_unless_shut(
        &self,
        op: &LentOp<'_>,
        deadline: Option<Instant>,
    ) -> io::Result<u32> {
        if let Some(result) = attempt(op) {
            return result;
        }
        if task::current_header().is_none() {
            return send_in_steps(op, deadline);
        }
        loop {
            let (result, is_ended) = cancel_scope(|handle| {
                let kept = self.settings.waiting_sends().keep(handle);
                (perform_before(op, deadline), kept.is_ended())
            });
            match result {
                // The next attempt finds the socket shut, or that the caller is cancelled.
                Err(error) if is_ended && Cancelled::find(&error).is_some() => {}
                result => return result,
            }
        }
    }
}

/// Sends on a plain thread.
fn send_in_steps(op: &LentOp<'_>, deadline: Option<Instant>) -> io::Result<u32> {
    loop {
        let step = clock::now() + STEP;
        let until = deadline.map_or(step, |deadline| deadline.min(step));
        match perform_before(op, Some(until)) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut && deadline != Some(until) => {}
            result => return result,
        }
    }
}
