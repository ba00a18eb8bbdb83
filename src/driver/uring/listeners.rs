//! Polls on shared listeners.
//!
//! A poll on a shared listener is in place only while the worker sleeps: see
//! [`acceptors`](crate::driver::acceptors). It is queued with the submission that blocks. If
//! something else has woken the worker, one more submission removes the poll, and poll(2) tells
//! whether a connection has come meanwhile. A worker that does not sleep asks poll(2) once in a
//! while.
//!
//! Each of these polls costs a worker two entries whenever it sleeps. So only [`LISTENERS_MAX`]
//! listeners are treated like this. Accepts on further listeners are polls that all workers keep in
//! place, and that all complete.
#![expect(unsafe_code, reason = "calls poll(2)")]

use super::{ANSWER, LISTEN, Uring, entry};
use crate::base::clock;
use crate::driver::Completion;
use crate::driver::acceptors::{AcceptorLine, LOOK_EVERY};
use crate::driver::op::Interest;
use io_uring::EnterFlags;
use std::io;
use std::os::fd::RawFd;

/// The largest number of shared listeners that a worker listens to exclusively.
pub(super) const LISTENERS_MAX: usize = 16;
/// How often the worker tries to remove the polls before it continues with them in place. One
/// attempt is enough unless memory is short.
const ROUNDS_MAX: u32 = 8;

/// Events after which a wait for the listener is useless.
const ENDED: u32 = (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) as u32;

/// Returns the user data of the poll on a listener.
fn listening(fd: RawFd) -> u64 {
    LISTEN | u64::from(fd.cast_unsigned())
}

impl Uring {
    /// Handles the end of a poll on a listener.
    pub(super) fn hear_of_listener(&mut self, fd: RawFd, result: i32) {
        if let Some(line) = self.acceptors.line(fd) {
            line.is_listened_to = false;
        }
        let most = match u32::try_from(result) {
            Ok(events) if events & ENDED == 0 => 1,
            // The attempts will find out what has happened.
            Ok(_) => usize::MAX,
            Err(_) if result == Completion::CANCELLED => 0,
            Err(_) => usize::MAX,
        };
        self.acceptors.complete(fd, most, &mut self.done);
        self.acceptors.forget_if_idle(fd);
    }

    /// Queues a poll for each listener. Returns false if an earlier one has not been removed yet.
    pub(super) fn listen(&mut self) -> bool {
        if self.acceptors.lines().any(|line| line.is_listened_to) {
            return false;
        }
        let mut fds = [const { None }; LISTENERS_MAX];
        for (line, place) in self.acceptors.lines().zip(&mut fds) {
            line.is_listened_to = true;
            *place = Some(line.fd);
        }
        for fd in fds.into_iter().flatten() {
            self.queue(entry::listen(fd).user_data(listening(fd)));
        }
        true
    }

    /// Removes the polls on listeners that are still in place.
    ///
    /// The kernel refuses a removal while it handles a wake-up. After that the poll may be in place
    /// again, because another worker has taken the connection. And a wake-up that comes during a
    /// removal is lost. So this function repeats the removal until all polls are gone, and then
    /// asks poll(2).
    pub(super) fn stop_listening(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        for _ in 0..ROUNDS_MAX {
            let mut fds = [const { None }; LISTENERS_MAX];
            let listened_to = self.acceptors.lines().filter(|line| line.is_listened_to);
            for (line, place) in listened_to.zip(&mut fds) {
                *place = Some(line.fd);
            }
            if fds[0].is_none() {
                break;
            }
            for fd in fds.into_iter().flatten() {
                self.queue(entry::stop_listening(listening(fd)).user_data(ANSWER));
            }
            self.flush();
            let queued = self.queued();
            // The call itself does all of it, so there is nothing to wait for.
            self.enter(queued, EnterFlags::GETEVENTS, 0, None)?;
            self.reap(completions)?;
        }
        self.poll_listeners();
        Ok(())
    }

    /// Asks whether there are connections, if the worker has not slept for a while.
    pub(super) fn poll_listeners_if_due(&mut self) {
        let now = clock::now();
        let last = *self.looked_at.get_or_insert(now);
        if now.saturating_duration_since(last) >= LOOK_EVERY {
            self.looked_at = Some(now);
            self.poll_listeners();
        }
    }

    /// Tells an acceptor of each listener that has a connection.
    fn poll_listeners(&mut self) {
        let with_acceptors = |line: &&mut AcceptorLine| !line.is_empty() && !line.is_listened_to;
        let asked = |line: &mut AcceptorLine| libc::pollfd {
            fd: line.fd,
            events: Interest::Read.events(),
            revents: 0,
        };
        self.asked.clear();
        self.asked.extend(self.acceptors.lines().filter(with_acceptors).map(asked));
        if self.asked.is_empty() {
            return;
        }
        let count = self.asked.len() as libc::nfds_t;
        // SAFETY: `asked` has `count` entries. (If the call fails, no entry reports anything, and
        // another look will come.)
        unsafe { libc::poll(self.asked.as_mut_ptr(), count, 0) };
        for asked in self.asked.iter().filter(|asked| asked.revents != 0) {
            self.acceptors.complete(asked.fd, 1, &mut self.done);
            self.acceptors.forget_if_idle(asked.fd);
        }
    }
}
