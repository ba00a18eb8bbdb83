//! Results in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ecru::channel::{self, Receiver, RecvError, Sender};

use super::locked;
use crate::engine::{EngineResults, KEEP, Seen, Watch};
use crate::errors::disconnected;

/// A store of results in memory.
pub(super) struct Results {
    keep: Mutex<Duration>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    values: BTreeMap<Name, Value>,
    /// When values are to be forgotten.
    ends: BTreeSet<(Instant, Name)>,
    watchers: Vec<Watcher>,
    /// How many values were ever stored.
    stored: u64,
    ended: bool,
}

/// A run and an index.
type Name = (String, String);

#[derive(Clone)]
struct Value {
    bytes: Bytes,
    position: u64,
    /// `None` if it is kept for longer than the clock can say.
    until: Option<Instant>,
}

struct Watcher {
    run: String,
    index: Option<String>,
    seen: Sender<Seen>,
}

impl Watcher {
    fn wants(&self, run: &str, index: &str) -> bool {
        self.run == run && self.index.as_deref().is_none_or(|wanted| wanted == index)
    }
}

impl State {
    fn of_run(&self, run: &str) -> impl Iterator<Item = (&Name, &Value)> {
        let first = (run.to_owned(), String::new());
        self.values.range(first..).take_while(move |((of, _), _)| of == run)
    }

    fn remove(&mut self, name: Name) {
        if let Some(Value { until: Some(until), .. }) = self.values.remove(&name) {
            self.ends.remove(&(until, name));
        }
    }

    /// Forgets what has been kept for long enough.
    fn advance(&mut self) {
        let now = ecru::time::now();
        while self.ends.first().is_some_and(|(when, _)| *when <= now) {
            if let Some((_, name)) = self.ends.pop_first() {
                self.values.remove(&name);
            }
        }
    }
}

impl Results {
    pub(super) fn new() -> Results {
        Results { keep: Mutex::new(KEEP), state: Mutex::default() }
    }

    /// Keeps results for so long that are stored from now on.
    pub(super) fn keep_for(&self, keep: Duration) {
        *locked(&self.keep) = keep;
    }

    pub(super) fn end(&self) {
        let mut state = locked(&self.state);
        state.ended = true;
        let watchers = std::mem::take(&mut state.watchers);
        drop(state);
        drop(watchers);
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> io::Result<R> {
        let mut state = locked(&self.state);
        if state.ended {
            return Err(disconnected());
        }
        state.advance();
        Ok(f(&mut state))
    }
}

impl EngineResults for Arc<Results> {
    fn put(&self, run: &str, index: &str, bytes: Bytes) -> io::Result<bool> {
        let name = (run.to_owned(), index.to_owned());
        let tell = self.with(|state| {
            if state.values.contains_key(&name) {
                return None;
            }
            let until = ecru::time::now().checked_add(*locked(&self.keep));
            if let Some(until) = until {
                state.ends.insert((until, name.clone()));
            }
            state.stored += 1;
            let position = state.stored;
            state.values.insert(name, Value { bytes: bytes.clone(), position, until });
            state.watchers.retain(|watcher| !watcher.seen.is_closed());
            let wanting = state.watchers.iter().filter(|watcher| watcher.wants(run, index));
            // Each watcher is told under the lock, so that it sees results in order.
            for watcher in wanting {
                let (index, value) = (index.to_owned(), bytes.clone());
                let seen = Seen::Result { index, value, position };
                let _ = watcher.seen.try_send(seen);
            }
            Some(())
        })?;
        Ok(tell.is_some())
    }

    fn get(&self, run: &str, index: &str) -> io::Result<Option<Bytes>> {
        let name = (run.to_owned(), index.to_owned());
        self.with(|state| state.values.get(&name).map(|value| value.bytes.clone()))
    }

    fn remove(&self, run: &str, index: &str) -> io::Result<()> {
        let name = (run.to_owned(), index.to_owned());
        self.with(|state| state.remove(name))
    }

    fn forget(&self, run: &str, through: u64) -> io::Result<()> {
        self.with(|state| {
            let stored = state.of_run(run).filter(|(_, value)| value.position <= through);
            let names: Vec<Name> = stored.map(|(name, _)| name.clone()).collect();
            names.into_iter().for_each(|name| state.remove(name));
        })
    }

    fn watch(&self, run: &str, index: Option<&str>) -> io::Result<Box<dyn Watch>> {
        let (seen, sees) = channel::unbounded();
        self.with(|state| {
            let watcher = Watcher { run: run.to_owned(), index: index.map(str::to_owned), seen };
            for ((_, index), value) in
                state.of_run(run).filter(|((of, index), _)| watcher.wants(of, index))
            {
                let Value { bytes: value, position, .. } = value.clone();
                let index = index.clone();
                let _ = watcher.seen.try_send(Seen::Result { index, value, position });
            }
            let _ = watcher.seen.try_send(Seen::UpToDate);
            state.watchers.push(watcher);
        })?;
        Ok(Box::new(sees))
    }
}

impl Watch for Receiver<Seen> {
    fn next(&self) -> io::Result<Seen> {
        self.recv().map_err(|error| match error {
            RecvError::Disconnected => disconnected(),
            RecvError::Cancelled => error.into(),
        })
    }
}
