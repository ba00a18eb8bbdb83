//! Notifies waiters in a list when an fd has become ready.
//!
//! A task that waits for an fd has its worker's driver, and a thread has its own poll(2). But a
//! select over several sources, a callback or a future has neither. They wait in a list, which the
//! [service](crate::base::service) notifies.

use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use super::descriptor::OwnedDescriptor;
#[cfg(feature = "sim")]
use super::{request, request::RingWhenReady};
use crate::base::alarm::{Alarm, Ring};
use crate::base::clock;
use crate::base::service::Registration;

/// The sides of an fd that are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Sides {
    pub(crate) const READ: Sides = Sides { read: true, write: false };
}

/// How long a waiter pauses before it looks by itself, if it cannot be notified because the system
/// has no descriptor or no memory left.
const PAUSE: Duration = Duration::from_millis(10);

/// What the owner of an fd keeps, so that the waiters in its list are notified. It is empty until
/// it is armed for the first time.
#[derive(Debug, Default)]
pub(crate) struct FdAlarm {
    state: Mutex<(Option<Registration>, Option<Alarm>)>,
}

impl FdAlarm {
    /// Rings `what` once when the fd is ready on one of the sides. If the system cannot do that,
    /// rings it after a pause, to the same effect. An alarm is always used with the same fd. `fd` is `None` if no
    /// descriptor could be opened.
    pub(crate) fn arm(&self, fd: Option<&OwnedDescriptor>, sides: Sides, what: Weak<dyn Ring>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (registration, retry) = &mut *state;
        let armed = fd.is_some_and(|fd| {
            // The service knows nothing of files in memory.
            #[cfg(feature = "sim")]
            if fd.name().file().is_some() {
                return request(RingWhenReady { fd, sides, what: Weak::clone(&what) })
                    .unwrap_or(false);
            }
            if registration.is_none() {
                *registration = Registration::new(fd.as_fd(), Weak::clone(&what)).ok();
            }
            registration.as_ref().is_some_and(|registration| {
                registration.arm(fd.as_fd(), sides.read, sides.write).is_ok()
            })
        });
        let before = if armed {
            retry.take()
        } else {
            retry.replace(Alarm::set(clock::now() + PAUSE, what))
        };
        drop(state);
        drop(before);
    }

    /// Ends the alarm before the fd is closed. Does not wait for a ring in progress.
    pub(crate) fn end(&mut self, fd: Option<&OwnedDescriptor>) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let (Some(registration), Some(fd)) = (state.0.take(), fd) {
            registration.end(fd.as_fd());
        }
    }
}
