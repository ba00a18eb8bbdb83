//! Listeners, and how they are told of signals.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};

use super::handler;
use crate::base::service::{self, Ring};
use crate::base::sync::atomic::{AtomicBool, Ordering};

struct Listener {
    id: u64,
    signal: i32,
    came: Arc<AtomicBool>,
    what: Weak<dyn Ring>,
}

struct ListenState {
    listeners: Vec<Listener>,
    next_id: u64,
    /// Present since the first listener, for as long as the process lives.
    delivery: Option<Arc<Delivery>>,
}

static STATE: Mutex<ListenState> =
    Mutex::new(ListenState { listeners: Vec::new(), next_id: 0, delivery: None });

fn lock() -> MutexGuard<'static, ListenState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard: the service calls an object when a signal has arrived, until this value is dropped. A
/// call that is due may come after that.
#[derive(Debug)]
pub(crate) struct Listening {
    id: u64,
    signal: i32,
    stays: bool,
    /// Whether the signal has arrived. Release and acquire: a caller that takes it sees what was
    /// done before.
    came: Arc<AtomicBool>,
}

/// Calls `what` when the signal arrives next. The delivery after that goes to the action that was
/// installed before, unless another listener has been added meanwhile.
///
/// # Errors
/// Returns the system's error if no descriptor or thread is available, or if the signal cannot be
/// caught.
pub(crate) fn listen(signal: i32, what: Weak<dyn Ring>) -> io::Result<Listening> {
    begin(signal, what, false)
}

/// Calls `what` each time the signal arrives. No delivery goes to the action that was installed
/// before.
///
/// # Errors
/// Returns the same errors as [`listen`].
pub(crate) fn listen_for_all(signal: i32, what: Weak<dyn Ring>) -> io::Result<Listening> {
    begin(signal, what, true)
}

fn begin(signal: i32, what: Weak<dyn Ring>, stays: bool) -> io::Result<Listening> {
    let mut state = lock();
    if state.delivery.is_none() {
        state.delivery = Some(Delivery::begin()?);
    }
    let id = state.next_id;
    state.next_id += 1;
    let came = Arc::new(AtomicBool::new(false));
    // The listener is added first, so a signal that arrives at once finds it as soon as the lock is
    // free.
    state.listeners.push(Listener { id, signal, came: Arc::clone(&came), what });
    if stays {
        handler::keep(signal, true);
    }
    match handler::arm(signal) {
        Ok(()) => Ok(Listening { id, signal, stays, came }),
        Err(error) => {
            state.listeners.pop();
            if stays {
                handler::keep(signal, false);
            }
            Err(error)
        }
    }
}

impl Listening {
    /// Returns whether the signal has arrived since the last call of this function.
    pub(super) fn take(&self) -> bool {
        self.came.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = lock();
        state.listeners.retain(|other| other.id != self.id);
        if self.stays {
            handler::keep(self.signal, false);
        }
        if state.listeners.iter().all(|other| other.signal != self.signal) {
            handler::restore(self.signal);
        }
    }
}

/// The eventfd to which the handler writes. The service watches it.
struct Delivery {
    events: OwnedFd,
}

impl Delivery {
    fn begin() -> io::Result<Arc<Delivery>> {
        let events = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let delivery = Arc::new(Delivery { events });
        let what: Weak<Delivery> = Arc::downgrade(&delivery);
        service::call_at_each_write(delivery.events.as_fd(), what)?;
        handler::write_to(delivery.events.as_raw_fd());
        Ok(delivery)
    }
}

impl Ring for Delivery {
    /// Takes the signals and tells their listeners, under the lock, so that signals are noted in
    /// order. The listeners themselves are called later.
    fn ring(&self) {
        let state = lock();
        let pending = handler::take_pending();
        for signal in (1..64).filter(|signal| pending & 1 << signal != 0) {
            for listener in state.listeners.iter().filter(|listener| listener.signal == signal) {
                listener.came.store(true, Ordering::Release);
                service::call(Weak::clone(&listener.what));
            }
        }
    }
}
