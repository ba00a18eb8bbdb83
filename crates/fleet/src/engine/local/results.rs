//! Results in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use ecru::channel::{self, Receiver, RecvError, Sender};

use super::locked;
use crate::engine::{EngineResults, ResultsSpec, Seen, Watch};
use crate::errors::disconnected;

/// A store of results in memory.
pub(super) struct Results {
    spec: ResultsSpec,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    values: BTreeMap<Name, Value>,
    /// When values are to be forgotten.
    ends: BTreeSet<(Instant, Name)>,
    watchers: Vec<Watcher>,
    ended: bool,
}

/// A run and an index.
type Name = (String, String);

struct Value {
    bytes: Bytes,
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
    pub(super) fn new(spec: ResultsSpec) -> Results {
        Results { spec, state: Mutex::default() }
    }

    pub(super) fn spec(&self) -> &ResultsSpec {
        &self.spec
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
            let until = ecru::time::now().checked_add(self.spec.keep);
            if let Some(until) = until {
                state.ends.insert((until, name.clone()));
            }
            state.values.insert(name, Value { bytes: bytes.clone(), until });
            state.watchers.retain(|watcher| !watcher.seen.is_closed());
            let wanting = state.watchers.iter().filter(|watcher| watcher.wants(run, index));
            // Each watcher is told under the lock, so that it sees results in order.
            for watcher in wanting {
                let seen = Seen::Result { index: index.to_owned(), value: bytes.clone() };
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
        self.with(|state| {
            if let Some(Value { until: Some(until), .. }) = state.values.remove(&name) {
                state.ends.remove(&(until, name));
            }
        })
    }

    fn forget(&self, run: &str, index: &str) -> io::Result<()> {
        self.remove(run, index)
    }

    fn watch(&self, run: &str, index: Option<&str>) -> io::Result<Box<dyn Watch>> {
        let (seen, sees) = channel::unbounded();
        self.with(|state| {
            let watcher = Watcher { run: run.to_owned(), index: index.map(str::to_owned), seen };
            let first = (run.to_owned(), String::new());
            let stored = state.values.range(first..).take_while(|((of, _), _)| of == run);
            for ((_, index), value) in stored.filter(|((of, index), _)| watcher.wants(of, index)) {
                let (index, value) = (index.clone(), value.bytes.clone());
                let _ = watcher.seen.try_send(Seen::Result { index, value });
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
