//! Calls that wait for their results here.
//!
//! One task watches the results of all single calls of a function handle, and hands each to its
//! caller. It is started by the first call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ecru::channel::{self, Receiver, RecvError, Sender};

use crate::engine::{EngineResults, Seen};
use crate::errors::CallError;
use crate::outcome::Name;
use crate::queue::Shared;

pub(crate) struct Calls {
    queue: Arc<Shared>,
    results: Arc<dyn EngineResults>,
    run: String,
    is_watched: ecru::sync::Mutex<bool>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    callers: BTreeMap<String, Sender<Bytes>>,
    last: u64,
    ended: bool,
}

/// A call that waits for its result.
pub(crate) struct Call<'a> {
    calls: &'a Arc<Calls>,
    name: Name,
    result: Receiver<Bytes>,
}

impl Calls {
    pub(crate) fn new(queue: Arc<Shared>, results: Arc<dyn EngineResults>) -> Arc<Calls> {
        let (is_watched, waiting) = (ecru::sync::Mutex::new(false), Mutex::default());
        Arc::new(Calls { queue, results, run: Name::calls(), is_watched, waiting })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call: from now on its result is not missed.
    pub(crate) fn begin(self: &Arc<Calls>) -> Result<Call<'_>, CallError> {
        self.queue.core.check()?;
        self.start()?;
        let (tell, result) = channel::bounded(1);
        let mut waiting = self.waiting();
        if waiting.ended {
            return Err(CallError::Disconnected);
        }
        waiting.last += 1;
        let index = waiting.last.to_string();
        waiting.callers.insert(index.clone(), tell);
        Ok(Call { calls: self, name: Name { run: self.run.clone(), index }, result })
    }

    fn start(self: &Arc<Calls>) -> Result<(), CallError> {
        let mut is_watched = self.is_watched.lock_cancellable()?;
        if !*is_watched {
            let watch = self.results.watch(&self.run, None)?;
            let end = End(Arc::clone(self));
            self.queue.core.pull(Box::new(move || {
                while let Ok(seen) = watch.next() {
                    if let Seen::Result { index, value } = seen {
                        end.0.hand_over(&index, value);
                    }
                }
            }))?;
            *is_watched = true;
        }
        Ok(())
    }

    /// Gives a result to its caller. There is one, so the store need not keep it. The removal is not
    /// waited for, because the results of other calls come next.
    fn hand_over(&self, index: &str, value: Bytes) {
        let caller = self.waiting().callers.remove(index);
        if let Some(caller) = caller {
            let _ = caller.try_send(value);
        }
        let _ = self.results.forget(&self.run, index);
    }
}

/// Disconnects all callers when the task has ended, or never ran.
struct End(Arc<Calls>);

impl Drop for End {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.ended = true;
        let callers = std::mem::take(&mut waiting.callers);
        drop(waiting);
        drop(callers);
    }
}

impl Call<'_> {
    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn wait(self) -> Result<Bytes, CallError> {
        self.result.recv().map_err(|error| match error {
            RecvError::Disconnected => CallError::Disconnected,
            RecvError::Cancelled => std::io::Error::from(error).into(),
        })
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let is_unanswered = self.calls.waiting().callers.remove(&self.name.index).is_some();
        if is_unanswered {
            // No other caller knows of the job. The wait is that of another task, because this one
            // may be cancelled.
            let (queue, id) = (Arc::clone(&self.calls.queue), self.name.id());
            let _ = self.calls.queue.core.pull(Box::new(move || {
                if let Ok(engine) = queue.engine() {
                    let _ = engine.cancel(&id.token());
                }
            }));
        }
    }
}
