//! Working through a channel with several tasks.
//!
//! # In order
//! A feeder receives the values. For each of them it makes a small channel for what will come of it, puts that channel's receiving end
//! into a line of `n` places, and hands the value and the sending end to whichever of the `n` workers is free. The caller reads the
//! line from its front: first everything that comes of the first value, then of the second. So at most `n + 2` values have been
//! received of which the caller has not seen the end: `n` in the line, one in the feeder's hands, one at which the caller is. A value
//! of which endless outputs come is as welcome as another, since its worker waits for room in the small channel.

use std::borrow::Borrow;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use super::flow::{in_hand, next};
use crate::channel::{Receiver, RecvError, SendError, Sender, bounded};
use crate::scope::{PanicPayload, try_scope};

/// What becomes of a panic while one value is worked on.
pub trait OnPanic<U>: Sync {
    /// An output instead, or none; or the panic goes on.
    #[doc(hidden)]
    fn instead(&self, payload: PanicPayload) -> Option<U>;
}

/// A panic goes on: it ends the call.
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

/// From [`pipeline`].
#[must_use = "it does nothing before `run`"]
pub struct Pipeline<F, H = NoHandler> {
    workers: usize,
    f: F,
    on_panic: H,
}

/// From [`pipeline_unordered`].
#[must_use = "it does nothing before `run`"]
pub struct PipelineUnordered<F, H = NoHandler> {
    inner: Pipeline<F, H>,
}

/// Works through a channel with `n` tasks: [`run`](Pipeline::run) calls `f` with each value, up to `n` of them at a time, and sends what
/// the calls give, as many outputs as each likes, in the order of the values. `f` may wait.
///
/// # Panics
/// When `n` is 0.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// ecru::run(|| {
///     let (sender, squares) = channel::unbounded();
///     channel::pipeline(4, |n: u32| [n * n]).run(channel::from_iter(1..=5), sender).unwrap();
///     assert_eq!(channel::collect(squares), Ok(vec![1, 4, 9, 16, 25]));
///
///     // None, one or several outputs.
///     let (sender, letters) = channel::unbounded();
///     channel::pipeline(2, |word: &'static str| word.chars()).run(channel::from_iter(["ec", "", "ru"]), sender).unwrap();
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

/// [`pipeline`] without the order: an output is sent as soon as there is room for it, and a slow value holds nobody up. At most `n`
/// values have been received whose outputs have not all been sent.
///
/// # Panics
/// When `n` is 0.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// ecru::run(|| {
///     let (sender, squares) = channel::unbounded();
///     channel::pipeline_unordered(4, |n: u32| [n * n]).run(channel::from_iter(1..=5), sender).unwrap();
///     assert_eq!(channel::fold(squares, 0, |sum, n| sum + n), Ok(55));
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
    /// What to do when `f`, or the iterator that it gave, panics: send what `handler` gives instead, at the place of the value, and go on.
    /// Without a handler, a panic ends [`run`](Pipeline::run).
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    ///
    /// ecru::run(|| {
    ///     let (sender, quotients) = channel::unbounded();
    ///     channel::pipeline(2, |n: u32| [12 / n])
    ///         .on_panic(|_| Some(u32::MAX))
    ///         .run(channel::from_iter([3, 0, 4]), sender)
    ///         .unwrap();
    ///     assert_eq!(channel::collect(quotients), Ok(vec![4, u32::MAX, 3]));
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
    /// Works until `from` has ended and everything has been sent.
    ///
    /// # Errors
    /// [`SendError::Disconnected`] when `to` has closed, [`SendError::Cancelled`] when a wait was cancelled; with the output in hand, if
    /// there is one. All tasks have ended then, nothing more is received, and what had been received ahead is dropped.
    ///
    /// # Panics
    /// With a panic of `f`, after all tasks have ended; outside a run; inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point. What `f` waits for is cancelled too.
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
        let (from, to) = (from.borrow(), to.borrow());
        try_scope(|s| {
            let (line, results) = bounded::<Receiver<U>>(self.workers);
            let (jobs, work) = bounded::<(T, Sender<U>)>(0);
            for _ in 0..self.workers {
                let work = work.clone();
                s.spawn(move || {
                    for (value, output) in &work {
                        // The caller stops reading only when it stops altogether.
                        let _ = self.work_on(value, &output);
                    }
                    Ok(())
                });
            }
            drop(work);
            s.spawn(move || {
                feed(from, &line, &jobs);
                Ok(())
            });
            for result in &results {
                forward(&result, to)?;
            }
            match crate::task::cancelled() {
                Some(_) => Err(SendError::Cancelled(None)),
                None => Ok(()),
            }
        })
    }

    fn work_on<T, I, U>(&self, value: T, to: &Sender<U>) -> Result<(), SendError<U>>
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
            Err(payload) => match self.on_panic.instead(PanicPayload::new(payload)) {
                Some(output) => to.send(output),
                None => Ok(()),
            },
        }
    }
}

/// Deals the values out until there are no more, or nobody wants any.
fn feed<T, U>(from: &Receiver<T>, line: &Sender<Receiver<U>>, jobs: &Sender<(T, Sender<U>)>) {
    for value in from {
        let (output, result) = bounded(1);
        if line.send(result).is_err() || jobs.send((value, output)).is_err() {
            return;
        }
    }
}

/// Sends everything that comes of one value.
fn forward<U>(result: &Receiver<U>, to: &Sender<U>) -> Result<(), SendError<Option<U>>> {
    loop {
        if to.is_closed() {
            // Seen even where no value ever has an output.
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
    /// As [`Pipeline::on_panic`].
    pub fn on_panic<U, H>(self, handler: H) -> PipelineUnordered<F, H>
    where
        H: Fn(PanicPayload) -> Option<U> + Sync,
    {
        PipelineUnordered { inner: self.inner.on_panic(handler) }
    }
}

impl<F, H> PipelineUnordered<F, H> {
    /// Works until `from` has ended and everything has been sent.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    ///
    /// # Panics
    /// As [`Pipeline::run`].
    ///
    /// # Cancellation
    /// As [`Pipeline::run`].
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
        let (from, to) = (from.borrow(), to.borrow());
        try_scope(|s| {
            for _ in 0..self.inner.workers {
                s.spawn(|| {
                    loop {
                        if to.is_closed() {
                            return Err(SendError::Disconnected(None));
                        }
                        let Some(value) = next(from)? else { return Ok(()) };
                        self.inner.work_on(value, to).map_err(in_hand)?;
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
