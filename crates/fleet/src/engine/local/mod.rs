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

use super::{Changes, Engine, EngineQueue, EngineResults, QueueSpec, ResultsSpec};
use crate::errors::disconnected;

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

impl Engine for Local {
    fn queue(&self, name: &str, settings: &Changes) -> io::Result<Box<dyn EngineQueue>> {
        if self.ended.load(Ordering::Acquire) {
            return Err(disconnected());
        }
        ecru::checkpoint()?;
        let mut state = locked(&self.state);
        let new = || Arc::new(queue::Queue::new(settings.apply(&QueueSpec::default())));
        let queue = state.queues.entry(name.to_owned()).or_insert_with(new);
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
            .or_insert_with(|| Arc::new(results::Results::new()));
        if let Some(keep) = spec.keep {
            results.keep_for(keep);
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
