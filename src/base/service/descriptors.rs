//! The descriptors that the service watches.
//!
//! A registration is made once for a descriptor and its owner. Each wait that registers with the
//! owner's list *arms* it. The owner is called once each time it has been armed, as soon as the
//! descriptor is readable, or at once if it is readable already. A waiter that is notified looks
//! again, and if it finds nothing it arms the registration anew. So no call is lost: a waiter first
//! arms, then registers, and then looks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Weak;
use std::time::Instant;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::{Ring, ServiceState, service};
use crate::base::outside::Expectation;
use crate::base::{clock, simulated};

pub(super) struct Watched {
    what: Weak<dyn Ring>,
    /// How often it has been armed. This distinguishes an event of the last time from an earlier
    /// one.
    armed: u32,
    /// Present while it is armed.
    expected: Option<Expectation>,
}

fn data(id: u32, armed: u32) -> EventData {
    EventData::new_u64(u64::from(id) << 32 | u64::from(armed))
}

/// What the watcher sleeps on. It stays open for as long as the process lives.
#[derive(Debug)]
pub(super) struct Descriptors {
    epoll: OwnedFd,
    wake: OwnedFd,
}

impl Descriptors {
    fn open() -> io::Result<&'static Descriptors> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Box::leak(Box::new(Descriptors { epoll, wake })))
    }

    pub(super) fn wake(&self) {
        // The write fails only if the counter is full, and then the watcher is woken anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Sleeps, and returns what has happened. epoll_wait(2) alone would round the time up to
    /// milliseconds on kernels before 5.11.
    pub(super) fn wait(&self, until: Option<Instant>) -> io::Result<Vec<Event>> {
        let left = until.map(|until| until.saturating_duration_since(clock::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut both =
            [PollFd::new(&self.epoll, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
        match poll(&mut both, left.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let [epoll, wake] = both.map(|one| one.revents());
        if (epoll | wake).contains(PollFlags::NVAL) {
            return Err(Errno::BADF.into());
        }
        if !wake.is_empty() {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        let mut events = Vec::new();
        if !epoll.is_empty() {
            events.reserve(64);
            let now = Timespec::default();
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now))?;
        }
        Ok(events)
    }
}

impl ServiceState {
    /// Queues the call for an event.
    pub(super) fn hear_of(&mut self, event: Event) {
        let (id, armed) = ((event.data.u64() >> 32) as u32, event.data.u64() as u32);
        if let Some(watched) = self.watched.get_mut(&id) {
            let expected = watched.expected.take_if(|_| watched.armed == armed);
            let what = Weak::clone(&watched.what);
            self.push(what, expected);
        }
    }

    /// Calls all owners, after waiting has failed. They find that they cannot arm any more.
    pub(super) fn forget_descriptors(&mut self) {
        self.descriptors = None;
        for watched in self.watched.values_mut() {
            let (what, expected) = (Weak::clone(&watched.what), watched.expected.take());
            self.calls.push_back(super::Call { what, expected });
        }
    }
}

/// Has `what` called each time the eventfd is written to. The eventfd stays open for as long as the
/// process lives, and nothing has to read it.
///
/// # Errors
/// Returns the same errors as [`Registration::new`].
pub(crate) fn call_at_each_write(eventfd: BorrowedFd<'_>, what: Weak<dyn Ring>) -> io::Result<()> {
    Registration::add(eventfd, what, EventFlags::IN | EventFlags::ET).map(drop)
}

/// A descriptor that the service watches. It must be ended before the descriptor is closed, and is
/// always used with the same one.
#[derive(Debug)]
pub(crate) struct Registration {
    id: u32,
    descriptors: &'static Descriptors,
}

impl Registration {
    /// Registers a descriptor, without arming it.
    ///
    /// # Errors
    /// Returns the system's error if there is no descriptor, memory or thread left, or if the
    /// descriptor cannot be watched.
    pub(crate) fn new(fd: BorrowedFd<'_>, what: Weak<dyn Ring>) -> io::Result<Registration> {
        Registration::add(fd, what, EventFlags::ONESHOT)
    }

    fn add(
        fd: BorrowedFd<'_>,
        what: Weak<dyn Ring>,
        flags: EventFlags,
    ) -> io::Result<Registration> {
        if simulated::is_simulated() {
            let text = "a simulation cannot watch a descriptor of the kernel";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let service = service();
        let mut state = service.lock();
        service.ensure_started(&mut state)?;
        let descriptors = match state.descriptors {
            Some(descriptors) => descriptors,
            None => {
                let opened = Descriptors::open()?;
                // From now on, the watcher sleeps on the descriptors.
                service.wake_by(&mut state, clock::now());
                *state.descriptors.insert(opened)
            }
        };
        let mut id = state.next_watched;
        while state.watched.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        epoll::add(&descriptors.epoll, fd, data(id, 0), flags)?;
        state.next_watched = id.wrapping_add(1);
        state.watched.insert(id, Watched { what, armed: 0, expected: None });
        Ok(Registration { id, descriptors })
    }

    /// Has the owner called once when the descriptor is readable. Until then, an event from outside
    /// is expected.
    ///
    /// # Errors
    /// Returns an error if the service cannot wait for descriptors any more.
    pub(crate) fn arm(&self, fd: BorrowedFd<'_>, read: bool, write: bool) -> io::Result<()> {
        let mut state = service().lock();
        if !state.descriptors.is_some_and(|now| ptr::eq(now, self.descriptors)) {
            return Err(Errno::BADF.into());
        }
        let Some(watched) = state.watched.get_mut(&self.id) else { return Ok(()) };
        watched.expected.get_or_insert_with(Expectation::new);
        watched.armed = watched.armed.wrapping_add(1);
        let mut once = EventFlags::ONESHOT;
        once.set(EventFlags::IN, read);
        once.set(EventFlags::OUT, write);
        // This is under the lock, so that of two callers the last to count is the one whose event
        // comes.
        Ok(epoll::modify(&self.descriptors.epoll, fd, data(self.id, watched.armed), once)?)
    }

    /// Does not wait for a call that has begun.
    pub(crate) fn end(self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.descriptors.epoll, fd.as_fd());
        let watched = service().lock().watched.remove(&self.id);
        drop(watched);
    }
}
