//! A watchdog thread that enforces a time limit when the worker that should enforce it is busy with
//! foreign code.
//!
//! A time limit is a timer of its task's worker. If that task is stuck in a call that does not
//! check for cancellation (the case for which [`on_cancel`](crate::on_cancel) exists), the worker
//! does not run its timers. Therefore each hook that is opened under a time limit registers the
//! limit with a thread of the process. That thread makes the cancellation request itself if the
//! limit has passed and the worker has not made it.
//!
//! # Protocol
//! - The thread starts with the first watch. It sleeps until the earliest limit, or indefinitely if
//!   there is none.
//! - A watch names the limit's node. The watch is removed before the node is closed, because the
//!   hook's frame is further in.
//! - To make a request, the thread marks the watch as *firing* under the lock. It then makes the
//!   request without the lock, since hooks are user code. A task that removes a firing watch first
//!   waits until the watch is no longer firing (K5).
#![expect(unsafe_code, reason = "names nodes on the stacks of tasks")]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::task::cancel::{self, CancelNode};
use crate::task::{self, CancelReason};

/// How long the worker's own timer may take before it counts as overdue.
const GRACE: Duration = Duration::from_millis(2);

struct Watch {
    id: u64,
    due: Instant,
    node: *const CancelNode,
    firing: bool,
}

// SAFETY: K5: this thread uses a node only while its watch is firing. The frame that owns the node
// waits until the watch is no longer firing.
unsafe impl Send for Watch {}

struct State {
    watches: Vec<Watch>,
    next_id: u64,
    runs: bool,
}

static STATE: Mutex<State> = Mutex::new(State { watches: Vec::new(), next_id: 0, runs: false });
/// Notified when a limit is registered that is earlier than all others.
static EARLIER: Condvar = Condvar::new();
/// Notified when a request has been made.
static FIRED: Condvar = Condvar::new();

/// A registration of a limit with the watchdog, which lasts until this is dropped.
#[derive(Debug)]
pub(super) struct Watched {
    id: u64,
}

/// Registers the nearest time limit around the running code, if there is one.
pub(super) fn watch() -> Option<Watched> {
    let (deadline, node) = task::nearest_deadline()?;
    let due = deadline.checked_add(GRACE)?;
    let mut state = lock();
    if !state.runs {
        // If the thread cannot be started, the worker's own timer still makes the request, only
        // later.
        state.runs = thread::Builder::new().name(String::from("ecru-watchdog")).spawn(keep).is_ok();
    }
    let id = state.next_id;
    state.next_id += 1;
    if state.watches.iter().all(|other| due < other.due) {
        EARLIER.notify_one();
    }
    state.watches.push(Watch { id, due, node, firing: false });
    Some(Watched { id })
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut state = lock();
        loop {
            let Some(at) = state.watches.iter().position(|watch| watch.id == self.id) else {
                return;
            };
            if !state.watches[at].firing {
                state.watches.swap_remove(at);
                return;
            }
            state = FIRED.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The main function of the watchdog thread.
fn keep() {
    let mut state = lock();
    loop {
        let now = clock::now();
        if let Some(watch) = state.watches.iter_mut().find(|watch| watch.due <= now) {
            watch.firing = true;
            let (id, node) = (watch.id, watch.node);
            drop(state);
            // SAFETY: K5: the watch is firing, so its frame stays, and so does the limit's frame
            // further out.
            cancel::cancel(unsafe { &*node }, CancelReason::Deadline);
            state = lock();
            // Each limit is enforced once.
            state.watches.retain(|watch| watch.id != id);
            FIRED.notify_all();
            continue;
        }
        state = match state.watches.iter().map(|watch| watch.due).min() {
            None => EARLIER.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(due) => {
                let left = due.saturating_duration_since(now);
                EARLIER.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}
