//! Rings at a given time, for those who have nobody to wait for it.
//!
//! A task's deadline is its worker's business, and a thread's its own sleep. But a callback or a future over a timer has no task
//! that sleeps, and neither has a list of waiters that a user's wrapper has got out of a timer. For these there is one thread in
//! the process, which starts with the first alarm and sleeps until the earliest is due, or for good.
//!
//! What rings is the library's own code, called without a lock; it may come to a callback of the user's, whose length then
//! delays the other alarms. Time limits of tasks and threads do not depend on this thread.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use super::clock;

/// What can be rung.
pub(crate) trait Ring: Send + Sync {
    /// The time has come. Called at most once for each alarm, on the alarms' thread.
    fn ring(&self);
}

/// The earlier first; of those for one moment the older.
type Key = (Instant, u64);

struct State {
    alarms: BTreeMap<Key, Weak<dyn Ring>>,
    next_id: u64,
    runs: bool,
    /// Whether one that was due is being rung.
    rings: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { alarms: BTreeMap::new(), next_id: 0, runs: false, rings: false });
/// There is an earlier alarm than before.
static EARLIER: Condvar = Condvar::new();

/// An alarm, until it is dropped. Dropping it does not wait for one that is ringing.
pub(crate) struct Alarm {
    key: Key,
}

impl Alarm {
    /// Rings `what`, if it is still there, at `due` or a little later.
    ///
    /// # Panics
    /// When the thread cannot be started.
    pub(crate) fn set(due: Instant, what: Weak<dyn Ring>) -> Alarm {
        let mut state = lock();
        if !state.runs {
            if let Err(error) = thread::Builder::new().name(String::from("ecru-alarm")).spawn(keep)
            {
                drop(state);
                panic!("the thread that rings alarms cannot be started: {error}");
            }
            state.runs = true;
        }
        let key = (due, state.next_id);
        state.next_id += 1;
        if state.alarms.first_key_value().is_none_or(|(first, _)| key < *first) {
            EARLIER.notify_one();
        }
        state.alarms.insert(key, what);
        Alarm { key }
    }

    /// When it rings.
    pub(crate) fn due(&self) -> Instant {
        self.key.0
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let what = lock().alarms.remove(&self.key);
        drop(what);
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("due", &self.due()).finish()
    }
}

/// When the next alarm is due, which may be past: it is being rung, or will be in a moment. None: what any of them has brought about
/// happened before this call.
pub(crate) fn next_due() -> Option<Instant> {
    let state = lock();
    if state.rings {
        return Some(clock::now());
    }
    state.alarms.first_key_value().map(|((due, _), _)| *due)
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread's life.
fn keep() {
    let mut state = lock();
    loop {
        let now = clock::now();
        let first = state.alarms.first_key_value().map(|((due, _), _)| *due);
        state = match first {
            None => EARLIER.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(due) if due > now => {
                let left = due.saturating_duration_since(now);
                EARLIER.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
            Some(_) => {
                let what = state.alarms.pop_first();
                state.rings = true;
                drop(state);
                if let Some(what) = what.and_then(|(_, what)| what.upgrade()) {
                    // It may be the last to let go of what it rings, with whatever of the user's is in there.
                    let rung = panic::catch_unwind(AssertUnwindSafe(|| {
                        what.ring();
                        drop(what);
                    }));
                    if let Err(payload) = rung {
                        let _ = ManuallyDrop::new(payload);
                    }
                }
                let mut state = lock();
                state.rings = false;
                state
            }
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Alarm, Ring};
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Weak};
    use std::time::{Duration, Instant};

    struct Tell(u32, Sender<(u32, Instant)>);

    impl Ring for Tell {
        fn ring(&self) {
            self.1.send((self.0, Instant::now())).unwrap();
            assert_ne!(self.0, 1, "a panic ends no alarm but its own");
        }
    }

    #[test]
    fn alarms_ring_in_order_and_never_early_and_a_dropped_one_not_at_all() {
        let (tell, told) = channel();
        let start = Instant::now();
        let after = |n: u64| start + Duration::from_millis(n);
        let all: Vec<_> = (0..4).map(|n| Arc::new(Tell(n, tell.clone()))).collect();
        let set = |n: usize, due| {
            let what: Weak<Tell> = Arc::downgrade(&all[n]);
            Alarm::set(due, what)
        };
        let alarms = [set(2, after(6)), set(1, after(4)), set(0, after(5)), set(3, after(2))];
        let [_second, _first, dropped, _earliest] = alarms;
        drop(dropped);
        for expected in [3, 1, 2] {
            let (number, when) = told.recv().unwrap();
            assert_eq!(number, expected);
            assert!(when >= start + Duration::from_millis(2));
        }
        drop((all, tell));
        assert!(told.recv().is_err());
    }
}
