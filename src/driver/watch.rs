//! Notifies waiters in a list when an fd has become readable.
//!
//! A task that waits for an fd has its worker's driver, and a thread has its own poll(2). But a
//! select over several sources, a callback or a future has neither. They wait in a list, and
//! something has to notify it. One thread in the process does this. It starts with the first such
//! waiter, and sleeps in epoll_wait(2). ([`crate::base::alarm`] is the same for times.)
//!
//! # Protocol
//! A watch is made once for an fd and its owner. Each wait that registers with the owner's list
//! *arms* the watch. It rings once each time it has been armed, as soon as the fd is readable, or
//! at once if the fd is readable already. A waiter that is notified looks again, and if it finds
//! nothing it arms the watch anew. So no ring is lost: a waiter first arms the watch, then
//! registers, and then looks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::descriptor::OwnedDescriptor;
use crate::base::alarm::{Alarm, Ring};
use crate::base::clock;
use crate::base::hash::HashMap;
use crate::base::outside::Expectation;
use crate::base::report;

struct Watched {
    what: Weak<dyn Ring>,
    /// How often it has been armed. This distinguishes an event of the last time from an earlier
    /// one.
    armed: u32,
    /// Present while it is armed.
    expected: Option<Expectation>,
}

#[derive(Default)]
struct State {
    watched: HashMap<u32, Watched>,
    next_id: u32,
}

fn data(id: u32, armed: u32) -> EventData {
    EventData::new_u64(u64::from(id) << 32 | u64::from(armed))
}

static STATE: OnceLock<Mutex<State>> = OnceLock::new();
/// The thread's epoll fd, open for as long as the process lives.
static EPOLL: Mutex<Option<&'static OwnedFd>> = Mutex::new(None);

fn state() -> MutexGuard<'static, State> {
    STATE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the epoll fd, and starts the thread that waits for it if there is none yet.
fn epoll() -> io::Result<BorrowedFd<'static>> {
    let mut place = EPOLL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(epoll) = *place {
        return Ok(epoll.as_fd());
    }
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let epoll: &'static OwnedFd = Box::leak(Box::new(epoll));
    thread::Builder::new().name(String::from("ecru-watch")).spawn(move || keep(epoll))?;
    *place = Some(epoll);
    Ok(epoll.as_fd())
}

/// How long a waiter pauses before it looks by itself, if it cannot be notified because the system
/// has no descriptor or no memory left.
const PAUSE: Duration = Duration::from_millis(10);

/// What the owner of an fd keeps, so that the waiters in its list are notified. It is empty until
/// it is armed for the first time.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    state: Mutex<(Option<Registration>, Option<Alarm>)>,
}

impl Watch {
    /// Rings `what` once when the fd is readable. If the system cannot do that, rings it after a
    /// pause, to the same effect. A watch is always used with the same fd. `fd` is `None` if no
    /// descriptor could be opened.
    pub(crate) fn arm(&self, fd: Option<&OwnedDescriptor>, what: Weak<dyn Ring>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (registration, retry) = &mut *state;
        let armed = fd.is_some_and(|fd| {
            if registration.is_none() {
                *registration = Registration::new(fd, Weak::clone(&what)).ok();
            }
            registration.as_ref().is_some_and(|registration| registration.arm(fd).is_ok())
        });
        let before = if armed {
            retry.take()
        } else {
            retry.replace(Alarm::set(clock::now() + PAUSE, what))
        };
        drop(state);
        drop(before);
    }

    /// Ends the watch before the fd is closed. Does not wait for a ring in progress.
    pub(crate) fn end(&mut self, fd: Option<&OwnedDescriptor>) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let (Some(registration), Some(fd)) = (state.0.take(), fd) {
            registration.end(fd);
        }
    }
}

/// An fd in the epoll.
#[derive(Debug)]
struct Registration {
    id: u32,
    epoll: BorrowedFd<'static>,
}

impl Registration {
    /// Registers the fd, without arming it.
    ///
    /// # Errors
    /// Returns the system's error if there is no descriptor, memory or thread left, or if the fd
    /// cannot be watched.
    fn new(fd: &OwnedDescriptor, what: Weak<dyn Ring>) -> io::Result<Registration> {
        let epoll = epoll()?;
        let id = {
            let mut state = state();
            let mut id = state.next_id;
            while state.watched.contains_key(&id) {
                id = id.wrapping_add(1);
            }
            state.next_id = id.wrapping_add(1);
            state.watched.insert(id, Watched { what, armed: 0, expected: None });
            id
        };
        let nothing = EventFlags::ONESHOT;
        match epoll::add(epoll, fd.as_fd(), data(id, 0), nothing) {
            Ok(()) => Ok(Registration { id, epoll }),
            Err(error) => {
                state().watched.remove(&id);
                Err(error.into())
            }
        }
    }

    /// Rings once when the fd is readable.
    ///
    /// # Errors
    /// No error is known for an fd that is open.
    fn arm(&self, fd: &OwnedDescriptor) -> io::Result<()> {
        let mut state = state();
        let Some(watched) = state.watched.get_mut(&self.id) else { return Ok(()) };
        watched.expected.get_or_insert_with(Expectation::new);
        watched.armed = watched.armed.wrapping_add(1);
        let once = EventFlags::IN | EventFlags::ONESHOT;
        // This is under the lock, so that of two callers the last to count is the one whose event
        // comes.
        Ok(epoll::modify(self.epoll, fd.as_fd(), data(self.id, watched.armed), once)?)
    }

    fn end(self, fd: &OwnedDescriptor) {
        let _ = epoll::delete(self.epoll, fd.as_fd());
        let what = state().watched.remove(&self.id);
        drop(what);
    }
}

/// Runs the thread.
fn keep(epoll: &'static OwnedFd) {
    let mut events = Vec::with_capacity(64);
    loop {
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                report::say(format!("ecru: descriptors are not watched any more: {error}"));
                return;
            }
        }
        for event in events.drain(..) {
            ring(event);
        }
    }
}

fn ring(event: Event) {
    let (id, armed) = ((event.data.u64() >> 32) as u32, event.data.u64() as u32);
    let (what, expected) = match state().watched.get_mut(&id) {
        Some(watched) => {
            let expected = watched.expected.take_if(|_| watched.armed == armed);
            (watched.what.upgrade(), expected)
        }
        None => return,
    };
    if let Some(what) = what {
        // This may drop the last reference to what it rings. A panic in a destructor must not end
        // the other watches.
        let rung = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            what.ring();
            drop(what);
        }));
        if let Err(payload) = rung {
            let _ = std::mem::ManuallyDrop::new(payload);
        }
    }
    drop(expected);
}
