//! The engine in this process's memory: for tests, for simulations, and for one machine.
//!
//! Everything is lost with the process. Only the calls that wait for a job, a cancellation or a
//! result ever wait. The order of things does not depend on hash values or addresses, so a
//! simulation runs the same way each time.

mod dead;
mod jobs;
mod lease;
mod pull;
mod queue;
mod results;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Engine, EngineQueue, EngineResults, QueueSpec, ResultsSpec};
use crate::errors::{disconnected, invalid};

/// Creates an engine.
pub(crate) fn local() -> Box<dyn Engine> {
    Box::new(Local::default())
}

/// Locks state that no panic leaves half-changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Local {
    state: Mutex<State>,
    ended: AtomicBool,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<String, Arc<queue::Queue>>,
    results: BTreeMap<String, Arc<results::Results>>,
}

/// Returns the difference between two settings.
fn differs<T: PartialEq + std::fmt::Debug>(what: &str, name: &str, old: &T, new: &T) -> io::Error {
    invalid(format!(
        "{what} {name:?} is open with other settings: {old:?}, and now {new:?}; use the same ones \
         everywhere"
    ))
}

impl Engine for Local {
    fn queue(&self, spec: &QueueSpec) -> io::Result<Box<dyn EngineQueue>> {
        if self.ended.load(Ordering::Acquire) {
            return Err(disconnected());
        }
        ecru::checkpoint()?;
        let mut state = locked(&self.state);
        let queue = state
            .queues
            .entry(spec.name.clone())
            .or_insert_with(|| Arc::new(queue::Queue::new(spec.clone())));
        if *queue.spec() != *spec {
            return Err(differs("queue", &spec.name, queue.spec(), spec));
        }
        Ok(Box::new(Arc::clone(queue)))
    }

    fn results(&self, spec: &ResultsSpec) -> io::Result<Box<dyn EngineResults>> {
        if self.ended.load(Ordering::Acquire) {
            return Err(disconnected());
        }
        let mut state = locked(&self.state);
        let results = state
            .results
            .entry(spec.name.clone())
            .or_insert_with(|| Arc::new(results::Results::new(spec.clone())));
        if *results.spec() != *spec {
            return Err(differs("the results of function", &spec.name, results.spec(), spec));
        }
        Ok(Box::new(Arc::clone(results)))
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let state = locked(&self.state);
        let (queues, results) = (state.queues.clone(), state.results.clone());
        drop(state);
        queues.values().for_each(|queue| queue.end());
        results.values().for_each(|results| results.end());
    }
}
