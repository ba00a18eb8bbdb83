//! Alarms: calls at a given time, where no task or thread waits for that time.
//!
//! A task's deadline is kept by its worker, and a thread's by its own sleep. But a callback or a
//! future over a timer has no task that sleeps. Neither has a list of waiters that a user's wrapper
//! takes from a timer. For these, the process has one thread. It starts with the first alarm, and
//! sleeps until the earliest alarm is due, or indefinitely if there is none.
//!
//! An alarm calls the library's own code, without a lock. That code may call a callback of the
//! user, which then delays the other alarms. Time limits of tasks and threads do not depend on this
//! thread.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use super::clock;

/// An object that an alarm can call.
pub(crate) trait Ring: Send + Sync {
    /// Called when the time has come, at most once for each alarm, on the alarm thread.
    fn ring(&self);
}

/// The key of an alarm. Alarms are ordered by time, and alarms for the same time by age.
type Key = (Instant, u64);

struct State {
    alarms: BTreeMap<Key, Weak<dyn Ring>>,
    next_id: u64,
    runs: bool,
    /// Set while an alarm that was due is being called.
    rings: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { alarms: BTreeMap::new(), next_id: 0, runs: false, rings: false });
/// Notified when an alarm is set that is earlier than all others.
static EARLIER: Condvar = Condvar::new();

/// An alarm that is set until this is dropped. Dropping it does not wait for a call that has begun.
pub(crate) struct Alarm {
    key: Key,
}

impl Alarm {
    /// Sets an alarm that calls `what`, if it still exists, at `due` or a little later.
    ///
    /// # Panics
    /// Panics if the alarm thread cannot be started.
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

    /// Returns the time of the alarm.
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

/// Returns the time of the next alarm. It may be past, if that alarm is being called or soon will
/// be. If this returns `None`, all effects of earlier alarms happened before the call.
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

/// The main function of the alarm thread.
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
                    // This may drop the last reference to `what`, and with it values of the user.
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
