//! Requests that are overdue because the worker whose timer should make them is busy with foreign code.
//!
//! A time limit is a timer of its task's worker. If that very task is stuck in a call that does not look (which is what
//! [`on_cancel`](crate::on_cancel) is for), nobody runs the timers. So each hook that is opened under a time limit tells a thread
//! of the process about it, which makes the request itself when the limit has passed and the worker has not.
//!
//! # Protocol
//! - The thread starts with the first watch, and sleeps until the earliest limit, or for good.
//! - A watch names the limit's node. It is taken off before that node goes: the hook's frame is further in.
//! - To make a request the thread marks the watch as *firing*, under the lock, and makes it without the lock, since hooks are
//!   user code. Who takes a watch off that is firing waits until it no longer is (K5).
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

// SAFETY: K5: a node is used by this thread only while its watch is firing, which whoever would let it go waits for.
unsafe impl Send for Watch {}

struct State {
    watches: Vec<Watch>,
    next_id: u64,
    runs: bool,
}

static STATE: Mutex<State> = Mutex::new(State { watches: Vec::new(), next_id: 0, runs: false });
/// There is an earlier limit than before.
static EARLIER: Condvar = Condvar::new();
/// A request has been made.
static FIRED: Condvar = Condvar::new();

/// A limit is being watched until this is dropped.
#[derive(Debug)]
pub(super) struct Watched {
    id: u64,
}

/// Watches the nearest time limit around the running code, if there is one.
pub(super) fn watch() -> Option<Watched> {
    let (deadline, node) = task::nearest_deadline()?;
    let due = deadline.checked_add(GRACE)?;
    let mut state = lock();
    if !state.runs {
        // Without the thread the worker's own timer still makes the request, only later.
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

/// The thread's life.
fn keep() {
    let mut state = lock();
    loop {
        let now = clock::now();
        if let Some(watch) = state.watches.iter_mut().find(|watch| watch.due <= now) {
            watch.firing = true;
            let (id, node) = (watch.id, watch.node);
            drop(state);
            // SAFETY: K5: the watch is firing, so its frame, and the limit's further out, stay.
            cancel::cancel(unsafe { &*node }, CancelReason::Deadline);
            state = lock();
            // Once is enough.
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
