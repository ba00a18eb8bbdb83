//! Functions that a fleet computes.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ecru::Source;
use ecru::channel::Sender;
use ecru::schedule::Delay;

use crate::calls::Calls;
use crate::codec::{self, Wire};
use crate::core::Task;
use crate::engine::{self, EngineResults, ResultsSpec, Seen, Sending, Terms, Watch};
use crate::errors::{CallError, JobError, invalid};
use crate::fleet::Fleet;
use crate::id::JobId;
use crate::map;
use crate::outcome::{Name, Outcome};
use crate::panics;
use crate::progress::Progress;
use crate::queue::Queue;
use crate::results::Results;
use crate::run::Run;
use crate::settings::{LONGEST_PAUSE, Settings, setters};
use crate::shared::Shared;
use crate::stats::Stats;

/// The pause before a call is sent again, because there was no answer.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);

/// The pauses after which a call with a key makes sure that there is a job. They double.
const LOOKS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// The body of a function.
pub(crate) type Body<'scope, A, R> =
    Arc<dyn Fn(A, &Run) -> Result<R, JobError> + Send + Sync + 'scope>;

/// The settings of a function that is about to be opened: see
/// [`Fleet::function`](crate::Fleet::function).
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru_fleet::Fleet;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let fleet = Fleet::local(s);
///         let double = fleet
///             .function("double", |number: u32, _run| Ok(2 * number))
///             .lease(Duration::from_secs(60))
///             .limit(40)
///             .keep_results(Duration::from_secs(3600))
///             .open()?;
///         s.spawn_daemon({
///             let double = double.clone();
///             move || double.serve(8)
///         });
///         assert_eq!(double.call(21).unwrap(), 42);
///         Ok::<(), std::io::Error>(())
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the function is opened by `open`"]
pub struct FunctionBuilder<'scope, A, R> {
    fleet: Fleet<'scope>,
    name: String,
    settings: Settings,
    body: Body<'scope, A, R>,
}

impl<'scope, A: Wire, R: Wire> FunctionBuilder<'scope, A, R> {
    pub(crate) fn new(fleet: &Fleet<'scope>, name: &str, body: Body<'scope, A, R>) -> Self {
        let (fleet, name) = (fleet.clone(), name.to_owned());
        FunctionBuilder { fleet, name, settings: Settings::default(), body }
    }

    setters!();

    /// Sets how long results are kept: at least 1 s, and 24 h by default. As long as it is kept,
    /// the result of [`call_keyed`](Function::call_keyed) is not computed again, and a
    /// [`map`](Function::map) can go on where it stopped.
    pub fn keep_results(mut self, d: Duration) -> Self {
        self.settings.keep_results = Some(d);
        self
    }

    /// Opens the function. Its queue and its results are created if they do not exist.
    ///
    /// # Errors
    /// Returns the errors of [`QueueBuilder::open`](crate::QueueBuilder::open).
    ///
    /// # Cancellation
    /// This is a cancellation point. The queue may have been created all the same.
    pub fn open(self) -> io::Result<Function<'scope, A, R>> {
        let FunctionBuilder { fleet, name, settings, body } = self;
        let core = &fleet.core;
        // Checks the settings before anything is created.
        settings.check("function", &name)?;
        let results: Arc<dyn EngineResults> = Arc::from(core.engine()?.results(&ResultsSpec {
            name: format!("f_{name}"),
            keep: settings.keep_results.map(|keep| keep.min(LONGEST_PAUSE)),
            replicas: settings.shared.replicas,
        })?);
        let store = Arc::clone(&results);
        let failed = move |dead: &engine::Dead| store_failure(&*store, dead);
        let queue =
            Shared::open(core, ("function", "f_"), &name, settings, Some(Box::new(failed)))?;
        let calls = Calls::new(Arc::clone(&queue), Arc::clone(&results));
        let (queue, tasks) = (Queue::new(queue), fleet.tasks.clone());
        Ok(Function { queue, results, body, calls, tasks })
    }
}

/// Tells the callers of a job that it is dead.
fn store_failure(results: &dyn EngineResults, dead: &engine::Dead) -> io::Result<()> {
    let Some(name) = Name::of_token(&dead.id) else { return Ok(()) };
    let outcome: Outcome<()> =
        Outcome::Failed { reason: dead.reason.clone(), attempts: dead.attempts };
    results.put(&name.run, &name.index, codec::encode("the failure", &outcome)?).map(drop)
}

impl<A, R> fmt::Debug for FunctionBuilder<'_, A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionBuilder")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A function that is called here or elsewhere, and runs wherever it is [served](Function::serve).
/// Cloning it is cheap.
///
/// A call is a job with a result. It runs at least once, and has one result: that of the run that
/// ended first.
///
/// # Examples
/// ```
/// use ecru_fleet::{CallError, Fleet, JobError, Progress};
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let divide = Fleet::local(s).function("divide", |(a, b): (u32, u32), run| {
///             run.progress(&Progress::new(1, 2));
///             match a.checked_div(b) {
///                 Some(quotient) => Ok(quotient),
///                 // Another attempt would fail, too.
///                 None => Err(JobError::Fatal("the divisor is 0".into())),
///             }
///         });
///         let divide = divide.open()?;
///         let worker = divide.clone();
///         s.spawn_daemon(move || worker.serve(16));
///
///         assert_eq!(divide.call((42, 2))?, 21);
///         assert!(matches!(divide.call((1, 0)), Err(CallError::Failed { .. })));
///         assert_eq!(divide.stats()?.queued, 0);
///         for (id, progress) in divide.progress()? {
///             println!("{id}: {progress:?}");
///         }
///         Ok::<(), std::io::Error>(())
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Function<'scope, A, R> {
    pub(crate) queue: Queue<A>,
    pub(crate) results: Arc<dyn EngineResults>,
    pub(crate) body: Body<'scope, A, R>,
    calls: Arc<Calls>,
    tasks: Sender<Task<'scope>>,
}

impl<'scope, A: Wire, R: Wire> Function<'scope, A, R> {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.queue.name()
    }

    /// Returns how many calls wait, run and have failed for good. They may change at any moment.
    ///
    /// # Errors
    /// Returns the errors of [`Queue::stats`].
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn stats(&self) -> io::Result<Stats> {
        self.queue.stats()
    }

    /// Returns the progress of the calls that have [reported](crate::Run::progress) it, of at most
    /// 256 calls.
    ///
    /// # Errors
    /// Returns the errors of [`Queue::progress`].
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn progress(&self) -> io::Result<Vec<(JobId, Progress)>> {
        self.queue.progress()
    }

    /// Calls the function, and waits for its result. While the servers elect a leader, it waits,
    /// too.
    ///
    /// # Errors
    /// Returns [`CallError::Failed`] with the text of the last error, if the function has failed
    /// for good: see [`JobError`].
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call is cancelled in the fleet, too.
    pub fn call(&self, arg: A) -> Result<R, CallError> {
        let payload = codec::encode("the argument", &arg)?;
        let call = self.calls.begin()?;
        // Its name is that of one call.
        let id = call.name().id();
        send(self.queue.shared(), &id, &payload, Some(&id.token()))?;
        let outcome = call.wait()?;
        codec::decode::<Outcome<R>>("the result", &outcome)?.into_result()
    }

    /// Calls the function under a key. As long as a result with the key is kept, it is returned and
    /// nothing is computed. Calls at the same time, anywhere in the fleet, share one run. The
    /// argument should depend on the key alone, because only that of the first call is used.
    ///
    /// A failure is returned to the callers that wait for it. The next call tries again.
    ///
    /// # Errors
    /// Returns the errors of [`call`](Function::call), and `InvalidInput` if the key is empty or
    /// too long.
    ///
    /// # Cancellation
    /// This is a cancellation point. The function runs on, for other callers.
    ///
    /// # Examples
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use ecru_fleet::Fleet;
    ///
    /// let runs = AtomicU32::new(0);
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let page = Fleet::local(s).function("page", |url: String, _run| {
    ///             runs.fetch_add(1, Ordering::Relaxed);
    ///             Ok(format!("the page at {url}"))
    ///         });
    ///         let page = page.open()?;
    ///         s.spawn_daemon({
    ///             let page = page.clone();
    ///             move || page.serve(8)
    ///         });
    ///         for _ in 0..3 {
    ///             let text = page.call_keyed("/index", "/index".to_owned())?;
    ///             assert_eq!(text, "the page at /index");
    ///         }
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// assert_eq!(runs.into_inner(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn call_keyed(&self, key: &str, arg: A) -> Result<R, CallError> {
        let name = Name::keyed(key)?;
        let payload = codec::encode("the argument", &arg)?;
        self.queue.shared().engine()?;
        if let Some(stored) = self.results.get(&name.run, &name.index)? {
            match codec::decode("the result", &stored)? {
                Outcome::Ok(result) => return Ok(result),
                Outcome::Failed { .. } => self.results.remove(&name.run, &name.index)?,
            }
        }
        let watch = self.results.watch(&name.run, Some(&name.index))?;
        send(self.queue.shared(), &name.id(), &payload, None)?;
        let mut pause = LOOKS.0;
        let value = loop {
            match ecru::timeout(pause, || next_result(&*watch)) {
                Ok(result) => break result?,
                Err(_) => ecru::checkpoint()?,
            }
            // The job that was there already may have been one whose failure was removed above. It
            // leaves the queue without another result. While a job is there, this stores nothing.
            match send(self.queue.shared(), &name.id(), &payload, None) {
                Ok(()) | Err(CallError::Full) => {}
                Err(error) => return Err(error),
            }
            pause = (pause * 2).min(LOOKS.1);
        };
        codec::decode::<Outcome<R>>("the result", &value)?.into_result()
    }

    /// Calls the function for each item, and returns an iterator over the results in the order of
    /// the items: a [`par::map`](ecru::par::map) over the fleet.
    ///
    /// Results are stored under the name `run`. If a program maps the same items again under the
    /// same name, it gets the stored results, and only the rest is computed. So a coordinator that
    /// was killed goes on where it stopped.
    ///
    /// Items are sent at most 1024 ahead of the iterator, so endless input is fine. If the queue
    /// is full, sending waits.
    ///
    /// # Errors
    /// Returns `InvalidInput` if the name is empty or too long, `NotConnected` after the end of
    /// the fleet, and errors of the server. If `items` panics, the last result is an error with the
    /// text of the panic.
    ///
    /// # Cancellation
    /// This is a cancellation point. Dropping the iterator stops sending, and cancels the waits of
    /// `items`. What was sent is computed.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let fleet = Fleet::local(s);
    ///         let square = fleet.function("square", |n: u64, _run| Ok(n * n)).open()?;
    ///         s.spawn_daemon({
    ///             let square = square.clone();
    ///             move || square.serve(8)
    ///         });
    ///         let squares: Result<Vec<u64>, _> = square.map("first five", 1..=5)?.collect();
    ///         assert_eq!(squares?, [1, 4, 9, 16, 25]);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn map<I>(&self, run: &str, items: I) -> io::Result<Results<'scope, R>>
    where
        I: IntoIterator<Item = A>,
        I::IntoIter: Send + 'scope,
    {
        let run = Name::mapped(run)?;
        let shared = self.queue.shared();
        shared.engine()?;
        let items = items.into_iter().map(|item| {
            panics::caught(|| codec::encode("the argument", &item)).unwrap_or_else(|text| {
                Err(invalid(format!("writing the argument panicked: {text}")))
            })
        });
        map::begin(shared, &self.results, run, Box::new(items), &self.tasks).map(Results::new)
    }
}

/// Waits for a result.
fn next_result(watch: &dyn Watch) -> io::Result<Bytes> {
    loop {
        if let Seen::Result { value, .. } = watch.next()? {
            return Ok(value);
        }
    }
}

/// Stores a call in the queue. If there is no answer, or no server that leads the queue, it asks
/// again: that stores the call once.
fn send(
    queue: &Shared,
    id: &JobId,
    payload: &Bytes,
    sending: Option<&str>,
) -> Result<(), CallError> {
    let terms = Terms { trace: queue.trace(), ..Terms::default() };
    loop {
        let begun = queue.engine()?.begin_send(&id.token(), payload.clone(), sending, &terms)?;
        match begun.wait()? {
            Sending::New | Sending::Already => return Ok(()),
            Sending::Full => return Err(CallError::Full),
            Sending::Disconnected => return Err(CallError::Disconnected),
            Sending::Unknown | Sending::Unavailable(_) => ecru::sleep(AGAIN)?,
            Sending::Refused(error) => return Err(error.into()),
        }
    }
}

impl<A, R> Clone for Function<'_, A, R> {
    fn clone(&self) -> Self {
        Function {
            queue: self.queue.clone(),
            results: Arc::clone(&self.results),
            body: Arc::clone(&self.body),
            calls: Arc::clone(&self.calls),
            tasks: self.tasks.clone(),
        }
    }
}

impl<A, R> fmt::Debug for Function<'_, A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("queue", &self.queue).finish_non_exhaustive()
    }
}
