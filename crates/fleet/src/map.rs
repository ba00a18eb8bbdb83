//! A function over many items.
//!
//! Three tasks work for each map. The *watcher* sees results as they are stored. The *feeder* sends
//! the items, a window ahead of what was taken. It begins when the watcher has seen what was stored
//! before, and leaves out items that have a result. Values of those are read when it is their turn,
//! so memory does not grow with what was stored.
//!
//! The feeder does not wait until an item is stored. The *settler* does, and repeats what was not
//! stored, so that many items are on their way at once, and one that has to be sent again does not
//! wait for the next one, which may not exist yet.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ecru::channel::{self, Receiver, Sender};
use ecru::source::WaitList;
use ecru::{CancelHandle, Cancelled, Source};

use crate::core::{Core, Task};
use crate::engine::{BoxSource, EngineResults, Seen, Sending, Terms, Watch};
use crate::errors::{CallError, disconnected};
use crate::function::AGAIN;
use crate::outcome::Name;
use crate::panics;
use crate::shared::Shared;

/// How many items are sent ahead of what was taken.
const WINDOW: u64 = 1024;

/// How many items are on their way to the queue at once.
const ON_THEIR_WAY: usize = 64;

/// The pauses before an item is sent again to a queue that is full.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Encoded items.
pub(crate) type Items<'scope> = Box<dyn Iterator<Item = io::Result<Bytes>> + Send + 'scope>;

/// What the tasks of a map share.
struct Course {
    queue: Arc<Shared>,
    results: Arc<dyn EngineResults>,
    run: String,
    state: Mutex<State>,
    version: AtomicU64,
    list: WaitList,
}

#[derive(Default)]
struct State {
    /// Results that were seen, or replace those of items that could not be sent.
    ready: BTreeMap<u64, Ready>,
    /// Indices with results that were stored before the map began, and are not read yet.
    stored: BTreeSet<u64>,
    /// The stored results have all been seen.
    is_up_to_date: bool,
    /// How many items were sent, or left out because they have results.
    sent: u64,
    taken: u64,
    /// The indices of items that were sent and whose results were not taken.
    wanted: BTreeSet<u64>,
    /// All items have been sent.
    is_complete: bool,
    failed: Option<CallError>,
    is_dropped: bool,
    /// What is cancelled when the map is dropped.
    parts: Vec<CancelHandle>,
}

pub(crate) enum Ready {
    Seen(Bytes),
    Refused(io::Error),
}

/// A result that is taken.
pub(crate) enum Taken {
    Ready(u64, Ready),
    /// It is to be read.
    Stored(u64),
    Failed(CallError),
    Complete,
}

#[derive(Clone, Copy)]
pub(crate) enum Order {
    ByIndex,
    ByCompletion,
}

/// Ready when a map has changed.
struct Changed<'a> {
    course: &'a Course,
    seen: u64,
}

impl Source for Changed<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        (self.course.version.load(Ordering::Acquire) != self.seen).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.course.list);
    }
}

/// Starts the tasks of a map.
pub(crate) fn begin<'scope>(
    queue: &Arc<Shared>,
    results: &Arc<dyn EngineResults>,
    run: String,
    items: Items<'scope>,
    tasks: &Sender<Task<'scope>>,
) -> io::Result<Taker> {
    let watch = results.watch(&run, None)?;
    let taker = Taker(Arc::new(Course {
        queue: Arc::clone(queue),
        results: Arc::clone(results),
        run,
        state: Mutex::default(),
        version: AtomicU64::new(0),
        list: WaitList::new(),
    }));
    let own = Worker(Arc::clone(&taker.0));
    queue.core.pull(Box::new(move || own.0.watch(&*watch)))?;
    let (settle, begun) = channel::bounded(ON_THEIR_WAY);
    let own = Worker(Arc::clone(&taker.0));
    queue.core.pull(Box::new(move || own.0.settle(&begun)))?;
    let own = Worker(Arc::clone(&taker.0));
    tasks.try_send(Box::new(move || own.0.feed(items, settle))).map_err(|_| disconnected())?;
    Ok(taker)
}

/// An item on its way to the queue.
struct Begun {
    token: String,
    payload: Bytes,
    sending: BoxSource,
}

/// A task's part in a map. If the task ends early, or never runs, the map has failed.
struct Worker(Arc<Course>);

impl Drop for Worker {
    fn drop(&mut self) {
        let is_complete = self.0.state().is_complete;
        if !is_complete {
            self.0.fail(CallError::Disconnected);
        }
    }
}

impl Course {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let value = f(&mut self.state());
        self.version.fetch_add(1, Ordering::AcqRel);
        self.list.notify_all();
        value
    }

    /// Fails for a task that has ended with an error.
    fn fail_with(&self, error: io::Error) {
        self.fail(match Cancelled::find(&error) {
            // The task is cancelled with the fleet.
            Some(_) => CallError::Disconnected,
            None => error.into(),
        });
    }

    fn fail(&self, error: CallError) {
        self.change(|state| {
            state.failed.get_or_insert(error);
        });
    }

    /// Waits until `f` returns something.
    fn until<T>(&self, mut f: impl FnMut(&mut State) -> Option<T>) -> Result<T, Cancelled> {
        loop {
            let seen = self.version.load(Ordering::Acquire);
            if let Some(value) = f(&mut self.state()) {
                return Ok(value);
            }
            Changed { course: self, seen }.wait()?;
        }
    }

    /// Calls `f`, which is cancelled when the map is dropped. Returns `None` if it has been.
    fn until_dropped<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        ecru::cancel_scope(|handle| {
            let mut state = self.state();
            if state.is_dropped {
                return None;
            }
            state.parts.push(handle);
            drop(state);
            Some(f())
        })
    }

    /// Sees results until the map is dropped.
    fn watch(&self, watch: &dyn Watch) {
        let error = self.until_dropped(|| {
            loop {
                match watch.next() {
                    Ok(Seen::UpToDate) => self.change(|state| state.is_up_to_date = true),
                    Ok(Seen::Result { index, value, .. }) => self.see(&index, value),
                    Err(error) => return error,
                }
            }
        });
        if let Some(error) = error {
            self.fail_with(error);
        }
    }

    fn see(&self, index: &str, value: Bytes) {
        let Ok(index) = index.parse::<u64>() else { return };
        self.change(|state| {
            if !state.is_up_to_date {
                state.stored.insert(index);
            } else if index >= state.sent {
                // Another program maps the same items and is ahead.
                state.stored.insert(index);
            } else if state.wanted.contains(&index) && !state.stored.contains(&index) {
                // After a loss of the connection a result may be seen again.
                state.ready.entry(index).or_insert(Ready::Seen(value));
            }
        });
    }

    /// Sends the items.
    fn feed(&self, items: Items<'_>, settle: Sender<Begun>) {
        let is_ready = |state: &mut State| {
            (state.is_up_to_date || state.is_dropped || state.failed.is_some()).then_some(())
        };
        // The iterator is the program's code. It may wait for an item that no one wants any more.
        let feeding = || {
            self.until(is_ready)?;
            for (index, item) in (0..).zip(items) {
                if !self.feed_one(index, item, &settle)? {
                    return Ok(());
                }
            }
            self.change(|state| state.is_complete = true);
            Ok(())
        };
        let Some(fed) = self.until_dropped(|| panics::caught(feeding)) else { return };
        let fed = fed.unwrap_or_else(|text| {
            Err(io::Error::other(format!("the iterator of the items panicked: {text}")))
        });
        if let Err(error) = fed {
            self.fail_with(error);
        }
        // The settler ends when it has settled what was begun.
        drop(settle);
    }

    /// Sends an item when there is room for it, unless it has a result. Returns whether to go on.
    fn feed_one(
        &self,
        index: u64,
        item: io::Result<Bytes>,
        settle: &Sender<Begun>,
    ) -> io::Result<bool> {
        let has_result = self.until(|state| {
            if state.is_dropped || state.failed.is_some() {
                return Some(None);
            }
            if state.sent - state.taken >= WINDOW {
                return None;
            }
            // It is counted before it is sent, so that its result is known to be wanted.
            state.sent += 1;
            state.wanted.insert(index);
            Some(Some(state.stored.contains(&index)))
        })?;
        self.change(|_| ());
        match (has_result, item) {
            (None, _) => return Ok(false),
            (Some(true), _) => {}
            (Some(false), Ok(payload)) => {
                let begun = self.begin(index, payload)?;
                // A settler that has ended early has failed.
                return Ok(settle.send(begun).is_ok());
            }
            (Some(false), Err(error)) => self.change(|state| {
                state.ready.insert(index, Ready::Refused(error));
            }),
        }
        Ok(true)
    }

    fn begin(&self, index: u64, payload: Bytes) -> io::Result<Begun> {
        let name = Name { run: self.run.clone(), index: index.to_string() };
        let token = name.id().token();
        let sending =
            self.queue.engine()?.begin_send(&token, payload.clone(), None, &Terms::default())?;
        Ok(Begun { token, payload, sending })
    }

    /// Waits until what was begun is stored.
    fn settle(&self, begun: &Receiver<Begun>) {
        for begun in begun {
            if let Err(error) = self.settle_one(begun) {
                self.fail_with(error);
                return;
            }
        }
    }

    /// Waits until an item is stored, and sends it again if it was not.
    fn settle_one(&self, begun: Begun) -> io::Result<()> {
        let Begun { token, payload, mut sending } = begun;
        let (mut pause, longest) = PAUSES;
        loop {
            match sending.wait()? {
                Sending::New | Sending::Already => return Ok(()),
                Sending::Unknown | Sending::Unavailable(_) => {
                    if self.state().is_dropped {
                        return Ok(());
                    }
                    ecru::sleep(AGAIN)?;
                }
                Sending::Disconnected => return Err(disconnected()),
                Sending::Refused(error) if error.kind() != io::ErrorKind::StorageFull => {
                    return Err(error);
                }
                Sending::Full | Sending::Refused(_) => {
                    ecru::sleep(pause)?;
                    pause = (2 * pause).min(longest);
                    if self.state().is_dropped {
                        return Ok(());
                    }
                }
            }
            sending = self.queue.engine()?.begin_send(
                &token,
                payload.clone(),
                None,
                &Terms::default(),
            )?;
        }
    }
}

impl State {
    /// Takes a result, or says why none will come. `None` if one may come.
    fn take(&mut self, order: Order) -> Option<Taken> {
        if self.is_complete && self.taken == self.sent {
            return Some(Taken::Complete);
        }
        let ready = match order {
            Order::ByIndex => Some(self.taken).filter(|index| self.ready.contains_key(index)),
            Order::ByCompletion => self.ready.first_key_value().map(|(index, _)| *index),
        };
        let stored = match order {
            Order::ByIndex => Some(self.taken).filter(|index| self.stored.contains(index)),
            Order::ByCompletion => self.stored.first().copied(),
        };
        let (index, taken) =
            if let Some((index, ready)) = ready.and_then(|index| self.ready.remove_entry(&index)) {
                (index, Taken::Ready(index, ready))
            } else if let Some(index) = stored.filter(|index| *index < self.sent) {
                self.stored.remove(&index);
                (index, Taken::Stored(index))
            } else {
                return self.failed.take().map(Taken::Failed);
            };
        self.wanted.remove(&index);
        self.taken += 1;
        Some(taken)
    }
}

/// The side of a map that takes the results. Dropping it stops the tasks.
pub(crate) struct Taker(Arc<Course>);

impl Drop for Taker {
    fn drop(&mut self) {
        let parts = self.0.change(|state| {
            state.is_dropped = true;
            std::mem::take(&mut state.parts)
        });
        parts.iter().for_each(CancelHandle::cancel);
    }
}

impl Taker {
    /// Waits for a result and takes it.
    pub(crate) fn take(&self, order: Order) -> Result<Taken, Cancelled> {
        let taken = self.0.until(|state| state.take(order))?;
        // The feeder may go on.
        self.0.change(|_| ());
        Ok(taken)
    }

    /// Returns the bytes of a stored result that was taken.
    pub(crate) fn read(&self, index: u64) -> Result<Bytes, CallError> {
        let stored = self.0.results.get(&self.0.run, &index.to_string())?;
        stored.ok_or_else(|| {
            CallError::Io(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "the result of item {index} was stored, and is not kept any more; raise \
                     keep_results, or use another name for the run"
                ),
            ))
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.queue.core
    }

    /// Returns how many items were sent, and how many results were taken.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.0.state();
        (state.sent, state.taken)
    }
}
