//! The service: calls when a time has come or a descriptor is readable, where no task or thread
//! waits for that.
//!
//! A task's deadlines and descriptors are kept by its worker, and a thread sleeps by itself. But a
//! callback, a future, a list of waiters that a user's own source registers in, a listener of a
//! signal, and a time limit whose worker is busy have no thread. For these, the process has one
//! thread, which starts when it is first needed. Its interface is small: a deadline
//! ([`Alarm`](super::alarm::Alarm)), a descriptor ([`Registration`]), and a call ([`Ring`]).
//!
//! # Protocol
//! A call may run the user's code: a callback, a waker, a hook, a destructor. It may also wait for
//! a lock under which a predicate of the user runs. So the thread that *watches* makes no calls.
//! When a call is due, the watcher finds a successor and makes the call itself. Then it is the
//! *caller*, and the watch goes on, however long the call takes.
//!
//! ```text
//!   first need            a call is due, and no call is being made or the last one is overdue
//!       |       +-------+   finds a successor: wakes the spare thread, or starts one  +-------+
//!       +-----> | WATCH | ----------------------------------------------------------> | CALLS |
//!               +-------+                                                             +-------+
//!                   ^                     +-------+     no more calls, and there is       |
//!                   |  woken as successor |       |     another watcher                   |
//!                   +-------------------- | SPARE | <-------------------------------------+
//!                                         +-------+
//!                                             | there is another spare thread, or LINGER is over
//!                                             v
//!                                            end
//! ```
//! - The state, and with it the queue of calls, is under one lock. No call is made under it.
//! - At most one thread watches. It sleeps until the next deadline, and is woken for an earlier
//!   one: `asleep` says until when it sleeps, and is changed under the lock. While there is no
//!   descriptor, it sleeps on a condition variable. Then a program that waits for times only needs
//!   no descriptors. After that it sleeps in ppoll(2), and is woken through an eventfd. A wake-up
//!   that comes before it sleeps is kept in the eventfd.
//! - One caller makes all calls, in the order in which they became due. If its present call takes
//!   longer than [`CALL_LIMIT`], the watcher becomes a further caller, after it has found a
//!   successor. So a call that blocks delays those behind it by this time, and nothing else.
//! - A thread that is about to call sets `watcher` to `Coming` when it has found a successor, so
//!   that it finds only one. The successor sets it to `None` when it arrives, and then does what is
//!   to be done first, as every thread of the service.
//! - If no thread can be started, the call is made without a successor.
//!
//! So there is one thread as long as nothing is to be called, two while calls are made and for
//! [`LINGER`] after that, and more only while calls block.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(loom)]
use loom::thread;
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
use std::thread;

use self::descriptors::{Descriptors, Watched};
use super::outside::Expectation;
use super::{clock, report};

mod descriptors;

pub(crate) use descriptors::{Registration, call_at_each_write};

/// How long a call may take before the next one is made on another thread.
const CALL_LIMIT: Duration = Duration::from_millis(5);
/// How long a spare thread waits before it ends.
const LINGER: Duration = Duration::from_secs(10);
/// The maximal number of calls at a time.
const CALLERS_MAX: usize = 512;

/// An object that the service can call.
pub(crate) trait Ring: Send + Sync {
    /// Called on a thread of the service, without its lock. Two calls of one object may overlap if
    /// the first one blocks.
    fn ring(&self);
}

/// The key of an alarm. Alarms are ordered by time, and alarms for the same time by age.
pub(super) type Key = (Instant, u64);

pub(super) struct Due {
    pub(super) what: Weak<dyn Ring>,
    /// Whether the call may end a wait, so that no run counts as stuck before it.
    pub(super) is_awaited: bool,
}

/// A call that is due.
struct Call {
    what: Weak<dyn Ring>,
    expected: Option<Expectation>,
}

impl Call {
    fn make(self) {
        if let Some(what) = self.what.upgrade() {
            // This may drop the last reference to `what`, and with it values of the user.
            let rung = panic::catch_unwind(AssertUnwindSafe(|| {
                what.ring();
                drop(what);
            }));
            if let Err(payload) = rung {
                let _ = ManuallyDrop::new(payload);
            }
        }
        drop(self.expected);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watcher {
    None,
    /// A thread has been woken or started to watch.
    Coming,
    Here,
}

/// See the module. Everything is under the service's lock.
pub(super) struct ServiceState {
    pub(super) alarms: BTreeMap<Key, Due>,
    next_alarm: u64,
    watched: BTreeMap<u32, Watched>,
    next_watched: u32,
    /// Opened with the first registration.
    descriptors: Option<&'static Descriptors>,
    calls: VecDeque<Call>,
    threads: usize,
    watcher: Watcher,
    /// Present while the watcher sleeps and has not been woken: until when, if there is a time.
    asleep: Option<Option<Instant>>,
    spare: usize,
    /// The number of threads that make calls.
    calling: usize,
    /// When the latest call began.
    begun: Option<Instant>,
    /// [`CALL_LIMIT`], except in tests.
    patience: Duration,
    /// Models end all threads.
    #[cfg(loom)]
    ends: bool,
}

impl ServiceState {
    fn new(patience: Duration) -> ServiceState {
        ServiceState {
            alarms: BTreeMap::new(),
            next_alarm: 0,
            watched: BTreeMap::new(),
            next_watched: 0,
            descriptors: None,
            calls: VecDeque::new(),
            threads: 0,
            watcher: Watcher::None,
            asleep: None,
            spare: 0,
            calling: 0,
            begun: None,
            patience,
            #[cfg(loom)]
            ends: false,
        }
    }

    fn push(&mut self, what: Weak<dyn Ring>, expected: Option<Expectation>) {
        self.calls.push_back(Call { what, expected });
    }

    /// Queues the calls of the alarms that are due.
    fn collect(&mut self, now: Instant) {
        while let Some(first) = self.alarms.first_entry().filter(|first| first.key().0 <= now) {
            let what = first.remove().what;
            self.push(what, None);
        }
    }

    /// Returns when the next call in the queue is to be made, or `None` if there is none, or none
    /// may be made.
    fn next_call(&self, now: Instant) -> Option<Instant> {
        if self.calls.is_empty() || self.calling >= CALLERS_MAX {
            return None;
        }
        let overdue = self.begun.map(|begun| begun + self.patience);
        overdue.filter(|overdue| self.calling > 0 && *overdue > now).or(Some(now))
    }

    /// Returns when the service will make its next call that may end a wait. The time may be past,
    /// if calls are being made or soon will be. If this returns `None`, all effects of earlier
    /// calls happened before.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if self.calling > 0 || !self.calls.is_empty() {
            return Some(clock::now());
        }
        self.alarms.iter().find(|(_, alarm)| alarm.is_awaited).map(|((due, _), _)| *due)
    }
}

/// See the module.
pub(super) struct Service {
    state: Mutex<ServiceState>,
    /// Notified when the watcher has to look again.
    news: Condvar,
    /// Notified when a spare thread is to watch.
    spare: Condvar,
}

type Guard = MutexGuard<'static, ServiceState>;

pub(super) fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Service::new(CALL_LIMIT))
}

/// Calls `what` after the calls that are due already. May be called only in a call.
pub(crate) fn call(what: Weak<dyn Ring>) {
    let service = service();
    let mut state = service.lock();
    state.push(what, None);
    if let Some(at) = state.next_call(clock::now()) {
        service.wake_by(&mut state, at);
    }
}

impl Service {
    fn new(patience: Duration) -> Service {
        let state = Mutex::new(ServiceState::new(patience));
        Service { state, news: Condvar::new(), spare: Condvar::new() }
    }

    pub(super) fn lock(&'static self) -> Guard {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets an alarm.
    ///
    /// # Errors
    /// Returns the system's error if no thread can be started.
    pub(super) fn set_alarm(&'static self, due: Instant, alarm: Due) -> io::Result<Key> {
        let mut state = self.lock();
        self.ensure_started(&mut state)?;
        let key = (due, state.next_alarm);
        state.next_alarm += 1;
        state.alarms.insert(key, alarm);
        self.wake_by(&mut state, due);
        Ok(key)
    }

    /// Starts the first thread, if there is none yet.
    ///
    /// # Errors
    /// Returns the system's error if no thread can be started.
    fn ensure_started(&'static self, state: &mut ServiceState) -> io::Result<()> {
        if state.threads == 0 { self.start(state) } else { Ok(()) }
    }

    fn start(&'static self, state: &mut ServiceState) -> io::Result<()> {
        let name = String::from("ecru-service");
        thread::Builder::new().name(name).spawn(move || self.serve())?;
        state.threads += 1;
        Ok(())
    }

    /// Makes the watcher look again if it sleeps beyond this time.
    fn wake_by(&self, state: &mut ServiceState, at: Instant) {
        if state.asleep.is_some_and(|until| until.is_none_or(|until| at < until)) {
            state.asleep = None;
            match state.descriptors {
                Some(descriptors) => descriptors.wake(),
                None => self.news.notify_one(),
            }
        }
    }

    /// The main function of a thread of the service.
    fn serve(&'static self) {
        let mut state = self.arrive(self.lock());
        loop {
            #[cfg(loom)]
            if state.ends {
                break;
            }
            let now = clock::now();
            state.collect(now);
            if state.next_call(now).is_some_and(|at| at <= now) {
                state = self.make_calls(state);
            } else if state.watcher != Watcher::Here {
                state = self.watch(state);
            } else if state.spare > 0 {
                break;
            } else {
                state.spare += 1;
                let (guard, waited) =
                    self.spare.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
                state = guard;
                state.spare -= 1;
                if waited.timed_out() && state.watcher == Watcher::Here {
                    break;
                }
                state = self.arrive(state);
            }
        }
        state.threads -= 1;
    }

    /// Notes that this thread, which may be the successor of a watcher, has come.
    fn arrive(&self, mut state: Guard) -> Guard {
        if state.watcher == Watcher::Coming {
            state.watcher = Watcher::None;
        }
        state
    }

    /// Ensures that a thread watches, or will, while this one makes calls.
    fn find_successor(&'static self, state: &mut ServiceState) {
        if state.watcher != Watcher::None {
            return;
        }
        if state.spare > 0 {
            self.spare.notify_one();
        } else if self.start(state).is_err() {
            return;
        }
        state.watcher = Watcher::Coming;
    }

    /// Makes calls until there are none in the queue.
    fn make_calls(&'static self, mut state: Guard) -> Guard {
        state.calling += 1;
        while let Some(call) = state.calls.pop_front() {
            self.find_successor(&mut state);
            state.begun = Some(clock::now());
            drop(state);
            call.make();
            state = self.lock();
        }
        state.calling -= 1;
        state
    }

    /// Sleeps until the next deadline, until a descriptor is readable, or until woken.
    fn watch(&'static self, mut state: Guard) -> Guard {
        let now = clock::now();
        let due = state.alarms.first_key_value().map(|((due, _), _)| *due);
        let until = [due, state.next_call(now)].into_iter().flatten().min();
        state.watcher = Watcher::Here;
        state.asleep = Some(until);
        if let Some(descriptors) = state.descriptors {
            drop(state);
            let ready = descriptors.wait(until);
            state = self.lock();
            match ready {
                Ok(events) => events.into_iter().for_each(|event| state.hear_of(event)),
                Err(error) => {
                    state.forget_descriptors();
                    state.asleep = None;
                    drop(state);
                    report::say(format!("ecru: descriptors are not watched any more: {error}"));
                    state = self.lock();
                }
            }
        } else {
            let left = until.map(|until| until.saturating_duration_since(now));
            state = match left {
                None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.news.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.asleep = None;
        state.watcher = Watcher::None;
        state
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Due, Key, Ring, Service};
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
    fn alarms_ring_in_order_and_never_early_and_a_removed_one_not_at_all() {
        // No call counts as stuck.
        let service: &Service = Box::leak(Box::new(Service::new(Duration::from_secs(3600))));
        let (tell, told) = channel();
        let start = Instant::now();
        let after = |n: u64| start + Duration::from_millis(40 + n);
        let all: Vec<_> = (0..4).map(|n| Arc::new(Tell(n, tell.clone()))).collect();
        let set = |n: usize, due| -> Key {
            let what: Weak<Tell> = Arc::downgrade(&all[n]);
            service.set_alarm(due, Due { what, is_awaited: true }).unwrap()
        };
        let removed = set(0, after(5));
        for (n, due) in [(2, 6), (1, 4), (3, 2)] {
            set(n, after(due));
        }
        assert!(service.lock().alarms.remove(&removed).is_some());
        for (expected, due) in [(3, 2), (1, 4), (2, 6)] {
            let (number, when) = told.recv().unwrap();
            assert_eq!(number, expected);
            assert!(when >= after(due));
        }
        drop((all, tell));
        assert!(told.recv().is_err());
    }
}

#[cfg(all(test, loom))]
mod loom_models;
