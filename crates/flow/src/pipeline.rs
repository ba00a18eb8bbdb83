//! Pipelines: several tasks that process the values of a channel.
//!
//! # The ordered pipeline
//! A feeder task receives the values. For each value it creates a channel with room for one output.
//! It puts that channel's receiver into a queue of `n` places, and passes the value and the
//! channel's sender to a free worker. The caller reads the queue from its front: first all outputs
//! of the first value, then those of the second. So at most `n + 2` values have been received and
//! not finished: `n` in the queue, one with the feeder, and one that the caller reads. The number
//! of outputs of a value is not limited, because its worker waits for room in the value's channel.
//!
//! # Workers
//! Workers are spawned as values come, until there are `n`. The feeder spawns one if no worker
//! waits for the value that it has. Without an order there is no feeder: a worker that takes a
//! value, and leaves none that waits for the next one, spawns its successor first.

use std::borrow::Borrow;
use std::fmt;
use std::iter;
use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::atomic::{AtomicUsize, Ordering};

use ecru::channel::{Receiver, RecvError, SendError, Sender, TrySendError, bounded};
use ecru::{PanicPayload, TryScope, try_scope};

use crate::calls::{in_hand, next};

/// The handler of panics that happen while a value is processed: [`NoHandler`], or a closure.
///
/// # Examples
/// ```
/// use ecru::channel;
/// use ecru_flow::{OnPanic, from_iter, pipeline};
///
/// /// Halves even numbers with two tasks. The caller says what becomes of the others.
/// fn halves(handler: impl OnPanic<u32> + Fn(ecru::PanicPayload) -> Option<u32>) -> Vec<u32> {
///     let (sender, halves) = channel::unbounded();
///     pipeline(2, |number: u32| {
///         assert!(number % 2 == 0, "{number} is odd");
///         [number / 2]
///     })
///     .on_panic(handler)
///     .run(from_iter([2, 3, 4]), sender)
///     .unwrap();
///     halves.iter().collect()
/// }
///
/// ecru::run(|| {
///     assert_eq!(halves(|_| Some(0)), [1, 0, 2]);
///     assert_eq!(halves(|_| None), [1, 2]);
/// });
/// ```
pub trait OnPanic<U>: Sync {
    /// Returns an output that is sent instead, if any, or resumes the panic.
    #[doc(hidden)]
    fn instead(&self, payload: PanicPayload) -> Option<U>;
}

/// The default handler, with which a panic ends the call.
///
/// # Examples
/// ```
/// use ecru::channel::{Receiver, SendError, Sender};
/// use ecru_flow::{NoHandler, Pipeline};
///
/// /// The type of a pipeline without a handler ends with `NoHandler`, which may be left out.
/// type Lengths = Pipeline<fn(&'static str) -> [usize; 1], NoHandler>;
///
/// fn lengths(
///     pipeline: &Lengths,
///     words: Receiver<&'static str>,
///     lengths: Sender<usize>,
/// ) -> Result<(), SendError<Option<usize>>> {
///     pipeline.run(words, lengths)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NoHandler;

impl<U> OnPanic<U> for NoHandler {
    fn instead(&self, payload: PanicPayload) -> Option<U> {
        panic::resume_unwind(payload.into_inner())
    }
}

impl<U, H: Fn(PanicPayload) -> Option<U> + Sync> OnPanic<U> for H {
    fn instead(&self, payload: PanicPayload) -> Option<U> {
        self(payload)
    }
}

/// A pipeline that keeps the order of its input, which [`pipeline`] returns.
#[must_use = "it does nothing before `run`"]
pub struct Pipeline<F, H = NoHandler> {
    workers: usize,
    f: F,
    on_panic: H,
}

/// A pipeline without an order, which [`pipeline_unordered`] returns.
///
/// # Examples
/// ```
/// use ecru::channel;
/// use ecru_flow::{from_iter, pipeline_unordered};
///
/// ecru::run(|| {
///     let squares = pipeline_unordered(4, |n: u32| [n * n]);
///     // It may run again and again.
///     for numbers in [1..=3, 4..=6] {
///         let (sender, found) = channel::unbounded();
///         squares.run(from_iter(numbers.clone()), sender).unwrap();
///         let mut found: Vec<_> = found.iter().collect();
///         found.sort();
///         assert_eq!(found, numbers.map(|n| n * n).collect::<Vec<_>>());
///     }
/// });
/// ```
#[must_use = "it does nothing before `run`"]
pub struct PipelineUnordered<F, H = NoHandler> {
    inner: Pipeline<F, H>,
}

/// Creates a pipeline of at most `n` tasks, which begin as values come.
///
/// [`run`](Pipeline::run) calls `f` with each value, up to `n` values at a time, and sends the
/// outputs of each call in the order of the values. A call may have any number of outputs. `f` may
/// wait.
///
/// # Panics
/// Panics if `n` is 0.
///
/// # Examples
/// ```
/// use ecru::channel;
/// use ecru_flow::{from_iter, pipeline};
///
/// ecru::run(|| {
///     let (sender, squares) = channel::unbounded();
///     pipeline(4, |n: u32| [n * n]).run(from_iter(1..=5), sender).unwrap();
///     assert_eq!(ecru_flow::collect(squares), Ok(vec![1, 4, 9, 16, 25]));
///
///     // A word may have no output, one, or several.
///     let (sender, letters) = channel::unbounded();
///     pipeline(2, |word: &'static str| word.chars())
///         .run(from_iter(["ec", "", "ru"]), sender)
///         .unwrap();
///     assert_eq!(letters.iter().collect::<String>(), "ecru");
/// });
/// ```
#[track_caller]
pub fn pipeline<T, I, F>(n: usize, f: F) -> Pipeline<F>
where
    F: Fn(T) -> I + Sync,
    I: IntoIterator,
{
    assert!(n > 0, "a pipeline with 0 workers would never do anything; ask for at least 1");
    Pipeline { workers: n, f, on_panic: NoHandler }
}

/// Creates a pipeline of at most `n` tasks as [`pipeline`] does, but without keeping the order.
///
/// An output is sent as soon as there is room for it, so a slow value does not hold up the others.
/// At any moment, there are at most `n` received values whose outputs have not all been sent.
///
/// # Panics
/// Panics if `n` is 0.
///
/// # Examples
/// ```
/// use ecru::channel;
/// use ecru_flow::{from_iter, pipeline_unordered};
///
/// ecru::run(|| {
///     let (sender, squares) = channel::unbounded();
///     pipeline_unordered(4, |n: u32| [n * n]).run(from_iter(1..=5), sender).unwrap();
///     assert_eq!(ecru_flow::fold(squares, 0, |sum, n| sum + n), Ok(55));
/// });
/// ```
#[track_caller]
pub fn pipeline_unordered<T, I, F>(n: usize, f: F) -> PipelineUnordered<F>
where
    F: Fn(T) -> I + Sync,
    I: IntoIterator,
{
    PipelineUnordered { inner: pipeline(n, f) }
}

impl<F> Pipeline<F> {
    /// Sets a handler for panics of `f` and of the iterators that it returns.
    ///
    /// The output that the handler returns, if any, is sent in place of the outputs that are
    /// missing, and the pipeline continues. Without a handler, a panic ends [`run`](Pipeline::run).
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    /// use ecru_flow::{from_iter, pipeline};
    ///
    /// ecru::run(|| {
    ///     let (sender, quotients) = channel::unbounded();
    ///     pipeline(2, |n: u32| [12 / n])
    ///         .on_panic(|_| Some(u32::MAX))
    ///         .run(from_iter([3, 0, 4]), sender)
    ///         .unwrap();
    ///     assert_eq!(ecru_flow::collect(quotients), Ok(vec![4, u32::MAX, 3]));
    /// });
    /// ```
    pub fn on_panic<U, H>(self, handler: H) -> Pipeline<F, H>
    where
        H: Fn(PanicPayload) -> Option<U> + Sync,
    {
        Pipeline { workers: self.workers, f: self.f, on_panic: handler }
    }
}

impl<F, H> Pipeline<F, H> {
    /// Runs the pipeline until `from` has ended and all outputs have been sent.
    ///
    /// # Errors
    /// Returns [`SendError::Disconnected`] if `to` is closed, and [`SendError::Cancelled`] if a
    /// wait is cancelled. Both hold the output in hand, if there is one. All tasks have ended by
    /// then, and values that were received ahead are dropped.
    ///
    /// # Panics
    /// - Panics if `f` panics, after all tasks have ended.
    /// - Panics outside a run and inside [`no_suspend`](ecru::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. The waits of `f` are cancelled, too.
    #[track_caller]
    pub fn run<T, I, U>(
        &self,
        from: impl Borrow<Receiver<T>>,
        to: impl Borrow<Sender<U>>,
    ) -> Result<(), SendError<Option<U>>>
    where
        F: Fn(T) -> I + Sync,
        I: IntoIterator<Item = U>,
        H: OnPanic<U>,
        T: Send,
        U: Send,
    {
        let (from, to, at) = (from.borrow(), to.borrow(), Location::caller());
        try_scope(|s| {
            let (queue, results) = bounded::<Receiver<U>>(self.workers);
            let begin_worker = move |first, work: Receiver<Job<T, U>>| {
                s.builder().__spawned_at(at).spawn(move || {
                    let mut next = Some(first);
                    while let Some((value, output)) = next
                        && !ecru::is_cancelled()
                    {
                        // This fails only if the caller has stopped the whole pipeline.
                        let _ = self.process(value, &output);
                        drop(output);
                        next = work.recv().ok();
                    }
                    Ok(())
                });
            };
            s.builder().__spawned_at(at).spawn(move || {
                feed(from, &queue, self.workers, begin_worker);
                Ok(())
            });
            for result in &results {
                forward(&result, to)?;
            }
            if ecru::is_cancelled() { Err(SendError::Cancelled(None)) } else { Ok(()) }
        })
    }

    fn process<T, I, U>(&self, value: T, to: &Sender<U>) -> Result<(), SendError<U>>
    where
        F: Fn(T) -> I,
        I: IntoIterator<Item = U>,
        H: OnPanic<U>,
    {
        let work = || {
            let mut outputs = (self.f)(value).into_iter();
            outputs.try_for_each(|output| to.send(output))
        };
        match panic::catch_unwind(AssertUnwindSafe(work)) {
            Ok(sent) => sent,
            Err(payload) => match self.on_panic.instead(PanicPayload::from(payload)) {
                Some(output) => to.send(output),
                None => Ok(()),
            },
        }
    }
}

/// A value, and where its outputs go.
type Job<T, U> = (T, Sender<U>);

/// Passes the values to the workers until there are no more, or the pipeline stops. Begins a worker
/// with a value for which no worker waits, if there are fewer than `most`.
fn feed<T, U>(
    from: &Receiver<T>,
    queue: &Sender<Receiver<U>>,
    most: usize,
    begin_worker: impl Fn(Job<T, U>, Receiver<Job<T, U>>),
) {
    let (jobs, work) = bounded::<Job<T, U>>(0);
    // Only the workers hold it in the end. So a send fails if they have all been cancelled.
    let mut to_begin = iter::repeat_n(work, most);
    for value in from {
        let (output, result) = bounded(1);
        if queue.send(result).is_err() {
            return;
        }
        match jobs.try_send((value, output)) {
            Ok(()) => {}
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                if let Some(work) = to_begin.next() {
                    begin_worker(job, work);
                } else if jobs.send(job).is_err() {
                    return;
                }
            }
        }
    }
}

/// Sends all outputs of one value.
fn forward<U>(result: &Receiver<U>, to: &Sender<U>) -> Result<(), SendError<Option<U>>> {
    loop {
        if to.is_closed() {
            // This is checked here, so that it is noticed even if no value has an output.
            return Err(SendError::Disconnected(None));
        }
        match result.recv() {
            Ok(output) => to.send(output).map_err(in_hand)?,
            Err(RecvError::Disconnected) => return Ok(()),
            Err(RecvError::Cancelled) => return Err(SendError::Cancelled(None)),
        }
    }
}

impl<F> PipelineUnordered<F> {
    /// Sets a handler for panics, as [`Pipeline::on_panic`] does.
    pub fn on_panic<U, H>(self, handler: H) -> PipelineUnordered<F, H>
    where
        H: Fn(PanicPayload) -> Option<U> + Sync,
    {
        PipelineUnordered { inner: self.inner.on_panic(handler) }
    }
}

impl<F, H> PipelineUnordered<F, H> {
    /// Runs the pipeline until `from` has ended and all outputs have been sent.
    ///
    /// # Errors
    /// Returns the errors of [`Pipeline::run`].
    ///
    /// # Panics
    /// Panics in the same cases as [`Pipeline::run`].
    ///
    /// # Cancellation
    /// This is a cancellation point. The waits of `f` are cancelled, too.
    #[track_caller]
    pub fn run<T, I, U>(
        &self,
        from: impl Borrow<Receiver<T>>,
        to: impl Borrow<Sender<U>>,
    ) -> Result<(), SendError<Option<U>>>
    where
        F: Fn(T) -> I + Sync,
        I: IntoIterator<Item = U>,
        H: OnPanic<U>,
        T: Send,
        U: Send,
    {
        let (from, to, at) = (from.borrow(), to.borrow(), Location::caller());
        let crew =
            Crew { waiting: AtomicUsize::new(1), left: AtomicUsize::new(self.inner.workers - 1) };
        let work = Unordered { pipeline: &self.inner, from, to, at, crew };
        try_scope(|s| {
            work.begin_worker(s);
            Ok(())
        })
    }
}

/// The numbers of workers.
struct Crew {
    /// Those that wait for a value, or soon will.
    waiting: AtomicUsize,
    /// Those that may still be spawned.
    left: AtomicUsize,
}

/// A call of [`PipelineUnordered::run`].
struct Unordered<'a, T, U, F, H> {
    pipeline: &'a Pipeline<F, H>,
    from: &'a Receiver<T>,
    to: &'a Sender<U>,
    at: &'static Location<'static>,
    crew: Crew,
}

type Failure<U> = SendError<Option<U>>;

impl<T, I, U, F, H> Unordered<'_, T, U, F, H>
where
    F: Fn(T) -> I + Sync,
    I: IntoIterator<Item = U>,
    H: OnPanic<U>,
    T: Send,
    U: Send,
{
    fn begin_worker<'scope>(&'scope self, s: &'scope TryScope<'scope, '_, Failure<U>>) {
        s.builder().__spawned_at(self.at).spawn(|| self.work(s));
    }

    fn work<'scope>(
        &'scope self,
        s: &'scope TryScope<'scope, '_, Failure<U>>,
    ) -> Result<(), Failure<U>> {
        loop {
            if self.to.is_closed() {
                return Err(SendError::Disconnected(None));
            }
            let Some(value) = next(self.from)? else { return Ok(()) };
            if self.crew.is_successor_due() {
                self.begin_worker(s);
            }
            if ecru::is_cancelled() {
                return Err(SendError::Cancelled(None));
            }
            self.pipeline.process(value, self.to).map_err(in_hand)?;
            self.crew.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Crew {
    /// Called by a worker that has taken a value. Returns whether it has to spawn another worker.
    fn is_successor_due(&self) -> bool {
        // Relaxed: a worker that is counted too late only delays or hastens the next one.
        let is_last = self.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
        let one_less = |left: usize| left.checked_sub(1);
        let is_due = is_last
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
        if is_due {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        is_due
    }
}

impl<F, H> fmt::Debug for Pipeline<F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl<F, H> fmt::Debug for PipelineUnordered<F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineUnordered")
            .field("workers", &self.inner.workers)
            .finish_non_exhaustive()
    }
}
