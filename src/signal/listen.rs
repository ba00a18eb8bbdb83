//! Listeners, and the thread that calls them.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use super::handler;
use crate::base::report;

struct Listener {
    id: u64,
    signal: i32,
    call: Arc<dyn Fn() + Send + Sync>,
    firing: bool,
}

struct State {
    listeners: Vec<Listener>,
    next_id: u64,
    /// Whether the thread has been started.
    runs: bool,
}

static STATE: Mutex<State> = Mutex::new(State { listeners: Vec::new(), next_id: 0, runs: false });
/// The thread that calls the listeners.
static SERVER: OnceLock<ThreadId> = OnceLock::new();
/// Notified after a listener has been called.
static FIRED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard: a closure is called when a signal arrives, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    id: u64,
    signal: i32,
    stays: bool,
}

/// Calls `call` on this module's thread when the signal arrives next. The delivery after that goes
/// to the action that was installed before, unless another listener has been added meanwhile.
///
/// # Errors
/// Returns the system's error if no descriptor or thread is available, or if the signal cannot be
/// caught.
pub(crate) fn listen(
    signal: i32,
    call: impl Fn() + Send + Sync + 'static,
) -> io::Result<Listening> {
    begin(signal, Arc::new(call), false)
}

/// Calls `call` each time the signal arrives. No delivery goes to the action that was installed
/// before.
///
/// # Errors
/// Returns the same errors as [`listen`].
pub(super) fn listen_for_all(
    signal: i32,
    call: impl Fn() + Send + Sync + 'static,
) -> io::Result<Listening> {
    begin(signal, Arc::new(call), true)
}

fn begin(signal: i32, call: Arc<dyn Fn() + Send + Sync>, stays: bool) -> io::Result<Listening> {
    let mut state = lock();
    if !state.runs {
        start_thread()?;
        state.runs = true;
    }
    let id = state.next_id;
    state.next_id += 1;
    // The listener is added first, so a signal that arrives at once finds it as soon as the lock is
    // free.
    state.listeners.push(Listener { id, signal, call, firing: false });
    if stays {
        handler::keep(signal, true);
    }
    match handler::arm(signal) {
        Ok(()) => Ok(Listening { id, signal, stays }),
        Err(error) => {
            state.listeners.pop();
            if stays {
                handler::keep(signal, false);
            }
            Err(error)
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = lock();
        loop {
            let Some(at) = state.listeners.iter().position(|other| other.id == self.id) else {
                return;
            };
            // A closure that is called on the signal thread may drop its own guard, or the guard of
            // a listener that is called after it. Such a drop must not wait.
            if !state.listeners[at].firing || SERVER.get() == Some(&thread::current().id()) {
                state.listeners.swap_remove(at);
                break;
            }
            state = FIRED.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if self.stays {
            handler::keep(self.signal, false);
        }
        if state.listeners.iter().all(|other| other.signal != self.signal) {
            handler::restore(self.signal);
        }
    }
}

fn start_thread() -> io::Result<()> {
    let events = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
    let fd = events.as_raw_fd();
    thread::Builder::new().name(String::from("ecru-signal")).spawn(move || serve(events))?;
    handler::write_to(fd);
    Ok(())
}

/// The signal thread's main loop, which runs as long as the process.
fn serve(events: OwnedFd) {
    let _ = SERVER.set(thread::current().id());
    let mut events = File::from(events);
    let mut count = [0; 8];
    loop {
        if let Err(error) = events.read_exact(&mut count)
            && error.kind() != io::ErrorKind::Interrupted
        {
            report::say(format!("ecru: signals are no longer received: {error}"));
            // The handler may still write to the eventfd, so it stays open.
            let _ = std::mem::ManuallyDrop::new(events);
            return;
        }
        let pending = handler::take_pending();
        for signal in (1..64).filter(|signal| pending & 1 << signal != 0) {
            tell(signal);
        }
    }
}

fn tell(signal: i32) {
    let mut told = Vec::new();
    let mut state = lock();
    for listener in state.listeners.iter_mut().filter(|listener| listener.signal == signal) {
        listener.firing = true;
        told.push((listener.id, Arc::clone(&listener.call)));
    }
    drop(state);
    for (id, call) in told {
        // A guard that is dropped waits for its listener, except on this thread. So only a closure
        // that was called just before this one can have removed the listener.
        if lock().listeners.iter().all(|listener| listener.id != id) {
            continue;
        }
        // A listener that panics must not keep the others from being called.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call()));
        drop(call);
        let mut state = lock();
        if let Some(listener) = state.listeners.iter_mut().find(|listener| listener.id == id) {
            listener.firing = false;
        }
        drop(state);
        FIRED.notify_all();
    }
}
