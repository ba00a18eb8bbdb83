//! Ops that wait for an edge of their fd.
//!
//! The kernel's poll also completes for what is no readiness of the side that is waited for: the
//! peer has shut its writing side, or the error queue of the socket has an entry. These states
//! last, and a poll cannot exclude them, so polling again would be a loop that never sleeps. So an
//! op whose attempt fails after a report of readiness waits for an *edge* of its fd: it is taken
//! over by a [`Poll`], which is opened for the first such op. While ops wait
//! there, the ring watches that set by a poll request of its own, which fires once.
//!
//! Observers of fds are told by the same set. A registration there stays for as long as its fd,
//! where a poll request of the ring would have to be cancelled, and awaited, before the fd is
//! closed.
#![expect(unsafe_code, reason = "hands ops to another driver")]

use super::{EDGES, Uring, entry};
use crate::driver::flight::errno;
use crate::driver::poll::Poll;
use crate::driver::{
    Completion, Driver, InFlight, Observe, Observer, OwnedDescriptor, PollTimeout, StartedOp,
};
use std::io;
use std::sync::Arc;

impl Uring {
    /// Watches the set of edges while ops wait there.
    pub(super) fn watch_edges(&mut self) {
        if let Some(edges) = &self.edges
            && edges.in_flight() > 0
            && !self.watching_edges
        {
            self.watching_edges = true;
            let entry = entry::readable(edges.fd()).user_data(EDGES);
            self.queue(entry);
        }
    }

    /// Hands out what has completed in the set of edges. Returns whether there was anything.
    pub(super) fn hear_edges(&mut self, completions: &mut Vec<Completion>) -> io::Result<bool> {
        let Some(edges) = &mut self.edges else { return Ok(false) };
        let before = completions.len();
        edges.poll(PollTimeout::Poll, completions)?;
        let came = completions.len() - before;
        self.in_flight -= came;
        Ok(came > 0 || edges.has_wakers())
    }

    /// Lets an op wait for an edge after an attempt in vain. `events` is what the kernel has
    /// reported of its fd. Returns the completion if the op has ended meanwhile.
    #[cold]
    pub(super) fn wait_for_edge(
        &mut self,
        flight: &InFlight<'_>,
        events: i32,
    ) -> Option<Completion> {
        let edges = match &mut self.edges {
            Some(edges) => edges,
            None => match Poll::open_beside(self.waker.clone()) {
                Ok(edges) => self.edges.insert(Box::new(edges)),
                // Another op was faster, and the kernel waits for the next readiness.
                Err(_) if events & i32::from(flight.op().interest().events()) != 0 => {
                    self.queue_op(flight);
                    return None;
                }
                Err(error) => return Some(flight.completion(errno(&error))),
            },
        };
        // SAFETY: S3: the op is in flight.
        match unsafe { edges.take_over(flight) } {
            StartedOp::Done(result) => {
                let result = result.map_or_else(|error| errno(&error), u32::cast_signed);
                return Some(flight.completion(result));
            }
            StartedOp::Pending => flight.by_edges.set(true),
            StartedOp::Blocking | StartedOp::Untold => self.queue_op(flight),
        }
        None
    }
}

impl Observe for Uring {
    fn observe(
        &mut self,
        fd: &OwnedDescriptor,
        observer: &Arc<Observer>,
        place: usize,
    ) -> io::Result<()> {
        if self.edges.is_none() {
            self.edges = Some(Box::new(Poll::open_beside(self.waker.clone())?));
        }
        let edges = self.edges.as_mut().expect("opened above");
        edges.observe(fd, observer, place)
    }

    fn unobserve(&mut self, fd: &OwnedDescriptor, observer: &Arc<Observer>) {
        if let Some(edges) = &mut self.edges {
            edges.unobserve(fd, observer);
        }
    }

    fn take_wakers(&mut self, to: &mut Vec<std::task::Waker>) {
        if let Some(edges) = &mut self.edges {
            edges.take_wakers(to);
        }
    }
}
