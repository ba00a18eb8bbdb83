//! Calls that wait for their results here.
//!
//! One task watches the results of all single calls of a function handle, and hands each to its
//! caller. It is started by the first call, and again by the next one after it has failed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ecru::Cancelled;
use ecru::channel::{self, Receiver, RecvError, Sender};

use crate::engine::{EngineResults, Seen, Watch};
use crate::errors::CallError;
use crate::outcome::Name;
use crate::shared::Shared;

/// How many results are removed from the store at once.
const MANY: u32 = 64;

/// The time without another result after which fewer are removed.
const QUIET: Duration = Duration::from_secs(1);

pub(crate) struct Calls {
    queue: Arc<Shared>,
    results: Arc<dyn EngineResults>,
    run: String,
    /// Held while a watch begins.
    beginning: ecru::sync::Mutex<()>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    callers: BTreeMap<String, Sender<Bytes>>,
    last: u64,
    /// No task watches, or it has ended.
    is_unwatched: bool,
    /// The kind and the text of the error by which the last watch ended.
    failed: Option<(io::ErrorKind, String)>,
}

/// A call that waits for its result.
pub(crate) struct Call<'a> {
    calls: &'a Arc<Calls>,
    name: Name,
    result: Receiver<Bytes>,
}

impl Calls {
    pub(crate) fn new(queue: Arc<Shared>, results: Arc<dyn EngineResults>) -> Arc<Calls> {
        let waiting = Waiting { is_unwatched: true, ..Waiting::default() };
        let (beginning, waiting) = (ecru::sync::Mutex::new(()), Mutex::new(waiting));
        Arc::new(Calls { queue, results, run: Name::calls(), beginning, waiting })
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
        if waiting.is_unwatched {
            return Err(waiting.error());
        }
        waiting.last += 1;
        let index = waiting.last.to_string();
        waiting.callers.insert(index.clone(), tell);
        Ok(Call { calls: self, name: Name { run: self.run.clone(), index }, result })
    }

    /// Begins to watch, the first time and after a watch has failed.
    fn start(self: &Arc<Calls>) -> Result<(), CallError> {
        let _beginning = self.beginning.lock_cancellable()?;
        if self.waiting().is_unwatched {
            let watch = self.results.watch(&self.run, None)?;
            {
                let mut waiting = self.waiting();
                (waiting.is_unwatched, waiting.failed) = (false, None);
            }
            let end = End(Arc::clone(self));
            self.queue.core.pull(Box::new(move || {
                let Err(error) = end.0.hand_over(&*watch);
                let is_over = Cancelled::find(&error).is_some();
                if !is_over && error.kind() != io::ErrorKind::NotConnected {
                    end.0.waiting().failed = Some((error.kind(), error.to_string()));
                }
            }))?;
        }
        Ok(())
    }

    /// Gives results to their callers. Each result has one caller, so the store need not keep it.
    /// Results are removed in groups: when there are [`MANY`], or after [`QUIET`] without another.
    fn hand_over(&self, watch: &dyn Watch) -> io::Result<Infallible> {
        let (mut handed_over, mut last) = (0, 0);
        loop {
            let mut is_quiet = false;
            let seen = match handed_over {
                0 => Ok(watch.next()),
                _ => ecru::timeout(QUIET, || watch.next()),
            };
            match seen {
                Ok(Ok(Seen::Result { index, value, position })) => {
                    let caller = self.waiting().callers.remove(&index);
                    if let Some(caller) = caller {
                        let _ = caller.try_send(value);
                    }
                    (handed_over, last) = (handed_over + 1, position);
                }
                Ok(Ok(Seen::UpToDate)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    ecru::checkpoint()?;
                    is_quiet = true;
                }
            }
            if handed_over >= MANY || is_quiet {
                self.results.forget(&self.run, last)?;
                handed_over = 0;
            }
        }
    }
}

impl Waiting {
    /// Returns why no result comes any more.
    fn error(&self) -> CallError {
        match &self.failed {
            Some((kind, text)) => io::Error::new(*kind, text.clone()).into(),
            None => CallError::Disconnected,
        }
    }
}

/// Disconnects all callers when the task has ended, or never ran.
struct End(Arc<Calls>);

impl Drop for End {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.is_unwatched = true;
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
            RecvError::Disconnected => self.calls.waiting().error(),
            RecvError::Cancelled => io::Error::from(error).into(),
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
