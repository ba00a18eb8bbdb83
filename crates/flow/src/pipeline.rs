//! Pipelines: several tasks that process the values of a channel.
//!
//! # The ordered pipeline
//! A feeder task receives the values. For each value it creates a channel with room for one output.
//! It puts that channel's receiver into a queue of `n` places, and passes the value and the
//! channel's sender to a free worker. The caller reads the queue from its front: first all outputs
//! of the first value, then those of the second. So at most `n + 2` values have been received and
//! not finished: `n` in the queue, one with the feeder, and one that the caller reads. The number
//! of outputs of a value is not limited, because its worker waits for room in the value's channel.

use std::borrow::Borrow;
use std::fmt;
use std::panic::{self, AssertUnwindSafe, Location};

use ecru::channel::{Receiver, RecvError, SendError, Sender, bounded};
use ecru::{PanicPayload, try_scope};

use crate::calls::{in_hand, next};

/// The handler of panics that happen while a value is processed: [`NoHandler`], or a closure.
pub trait OnPanic<U>: Sync {
    /// Returns an output that is sent instead, if any, or resumes the panic.
    #[doc(hidden)]
    fn instead(&self, payload: PanicPayload) -> Option<U>;
}

/// The default handler, with which a panic ends the call.
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
#[must_use = "it does nothing before `run`"]
pub struct PipelineUnordered<F, H = NoHandler> {
    inner: Pipeline<F, H>,
}

/// Creates a pipeline of `n` tasks.
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

/// Creates a pipeline of `n` tasks as [`pipeline`] does, but without keeping the order.
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
            let (jobs, work) = bounded::<(T, Sender<U>)>(0);
            for _ in 0..self.workers {
                let work = work.clone();
                s.builder().__spawned_at(at).spawn(move || {
                    for (value, output) in &work {
                        // This fails only if the caller has stopped the whole pipeline.
                        let _ = self.process(value, &output);
                    }
                    Ok(())
                });
            }
            drop(work);
            s.builder().__spawned_at(at).spawn(move || {
                feed(from, &queue, &jobs);
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

/// Passes the values to the workers until there are no more, or the pipeline stops.
fn feed<T, U>(from: &Receiver<T>, queue: &Sender<Receiver<U>>, jobs: &Sender<(T, Sender<U>)>) {
    for value in from {
        let (output, result) = bounded(1);
        if queue.send(result).is_err() || jobs.send((value, output)).is_err() {
            return;
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
        try_scope(|s| {
            for _ in 0..self.inner.workers {
                s.builder().__spawned_at(at).spawn(|| {
                    loop {
                        if to.is_closed() {
                            return Err(SendError::Disconnected(None));
                        }
                        let Some(value) = next(from)? else { return Ok(()) };
                        self.inner.process(value, to).map_err(in_hand)?;
                    }
                });
            }
            Ok(())
        })
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
