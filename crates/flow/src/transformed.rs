//! A channel whose values are transformed on their way in.
//!
//! # Protocol
//! - The transform is itself a value in a channel with one place, `turn`. A sender that has
//!   received it may use it, and then puts it back. So the transform, which is user code, runs
//!   under no lock, and senders take turns in the order in which they arrived.
//! - A sender that has the turn waits for room for one output. Only then is the value passed to the
//!   transform. The first output goes into that room. Further outputs may exceed the capacity. The
//!   next sender waits until there is room again.
//! - `pending` counts the senders that have been admitted and have not left. Closing the channel
//!   admits no more senders. The admitted sender that leaves last finishes the transform, and
//!   closes the channel behind the last outputs. If no sender is admitted, the closer does so. The
//!   flag `finished` makes sure that this happens once.

use std::fmt;
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use ecru::channel::{Receiver, RecvError, SendError, Sender, TrySendError, bounded};
use ecru::no_suspend;

use crate::transform::Transform;

/// The sending end of a [`transformed`] channel. When its last clone is dropped, the channel is
/// closed.
///
/// # Examples
/// ```
/// use ecru::channel::TrySendError;
/// use ecru_flow::{Transform, transform, transformed};
///
/// ecru::run(|| {
///     let (words, lengths) = transformed(1, transform::values().map(|word: &str| word.len()));
///     words.send("one").unwrap();
///     assert_eq!(words.try_send("three"), Err(TrySendError::Full("three")));
///     assert_eq!(lengths.recv(), Ok(3));
///     words.close();
///     assert!(words.send("four").unwrap_err().is_disconnected());
/// });
/// ```
pub struct TransformSender<X: Transform> {
    shared: Arc<Shared<X>>,
}

struct Shared<X: Transform> {
    to: Sender<X::Output>,
    /// Holds the transform while no sender uses it.
    turn: Receiver<X>,
    turn_back: Sender<X>,
    life: Mutex<Life>,
}

struct Life {
    /// No further sender is admitted.
    closed: bool,
    /// The transform wants no more values. The values of senders that have been admitted are
    /// dropped.
    satisfied: bool,
    pending: usize,
    finished: bool,
}

/// Creates a channel with room for `capacity` outputs of `transform`. The senders run the
/// transform, one value after another, before the outputs go in.
///
/// - If a value has several outputs, they may overfill the channel. No further value is accepted
///   until there is room again.
/// - [`close`](TransformSender::close), or dropping the last sender, finishes the transform after
///   the senders that already wait. Its last outputs go in, too.
/// - A transform that wants no more values closes the channel. Senders that already wait succeed,
///   and their values are dropped.
/// - A panic in the transform is passed to the sender, whose value is lost. See also
///   [`on_panic`](Transform::on_panic).
/// - If the *receiver* closes the channel, the outputs that have not gone in are dropped.
///
/// The transform runs inside [`no_suspend`], so it cannot wait.
///
/// # Panics
/// Panics if `capacity` is 0, because the outputs need a place.
///
/// # Examples
/// ```
/// use ecru_flow::{Transform, transform, transformed};
///
/// let odd_squares = transform::values().filter(|n: &u32| n % 2 == 1).map(|n| n * n);
/// let (sender, pairs) = transformed(8, odd_squares.chunks(2));
/// for n in 1..=5 {
///     sender.send(n).unwrap();
/// }
/// drop(sender);
/// assert_eq!(pairs.iter().collect::<Vec<_>>(), [vec![1, 9], vec![25]]);
/// ```
#[track_caller]
pub fn transformed<X: Transform>(
    capacity: usize,
    transform: X,
) -> (TransformSender<X>, Receiver<X::Output>) {
    assert!(
        capacity > 0,
        "a transformed channel needs room for the outputs; pass a capacity of 1 or more"
    );
    let (to, receiver) = bounded(capacity);
    let (turn_back, turn) = bounded(1);
    let life = Life { closed: false, satisfied: false, pending: 0, finished: false };
    let shared = Shared { to, turn, turn_back, life: Mutex::new(life) };
    shared.put_back(transform);
    (TransformSender { shared: Arc::new(shared) }, receiver)
}

impl<X: Transform> TransformSender<X> {
    /// Sends the outputs of a value. Waits until there is room for the first.
    ///
    /// # Errors
    /// Returns [`SendError::Disconnected`] if the channel is closed, and [`SendError::Cancelled`]
    /// if the wait is cancelled. Both hold the value, which the transform has not seen.
    ///
    /// # Panics
    /// Panics if the transform panics, and inside [`no_suspend`].
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call returns the value, which the transform has
    /// not seen.
    #[track_caller]
    pub fn send(&self, value: X::Input) -> Result<(), SendError<X::Input>> {
        self.shared.send(value)
    }

    /// Sends the outputs of a value if that needs no wait.
    ///
    /// # Errors
    /// Returns [`TrySendError::Full`] if there is no room, or another sender uses the transform,
    /// and [`TrySendError::Disconnected`] if the channel is closed. Both hold the value, which the
    /// transform has not seen.
    ///
    /// # Panics
    /// Panics if the transform panics.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    pub fn try_send(&self, value: X::Input) -> Result<(), TrySendError<X::Input>> {
        self.shared.try_send(value)
    }

    /// Closes the channel for further values. Closing it again changes nothing.
    ///
    /// Senders that already wait still send their values. Then the transform is finished, and its
    /// last outputs go in, even beyond the capacity.
    ///
    /// # Panics
    /// Panics if the transform panics. The channel is closed by then. If dropping the last sender
    /// closes the channel, the panic is dropped instead.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns whether the channel accepts no further values.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.to.is_closed() || self.shared.life().closed
    }
}

impl<X: Transform> Shared<X> {
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a sender, unless the channel is closed.
    fn enter(&self) -> bool {
        let mut life = self.life();
        let admitted = !life.closed && !life.finished;
        life.pending += usize::from(admitted);
        admitted
    }

    /// Ends the admission of a sender.
    fn leave(&self) {
        let mut life = self.life();
        life.pending -= 1;
        self.finish_if_over(life);
    }

    fn close(&self) {
        let mut life = self.life();
        life.closed = true;
        self.finish_if_over(life);
    }

    fn finish_if_over(&self, mut life: MutexGuard<'_, Life>) {
        if !life.closed || life.pending != 0 || life.finished {
            return;
        }
        life.finished = true;
        drop(life);
        // No sender is admitted, so the transform is in the channel `turn`.
        let Ok(mut transform) = self.turn.try_recv() else { return };
        self.finish(&mut transform);
    }

    /// Sends the last outputs of the transform, and closes the channel in any case.
    fn finish(&self, transform: &mut X) {
        let finish = || no_suspend(|| transform.finish(&mut |output| self.overfill(output)));
        let finished = panic::catch_unwind(AssertUnwindSafe(finish));
        self.to.close();
        if let Err(payload) = finished {
            panic::resume_unwind(payload);
        }
    }

    fn put_back(&self, transform: X) {
        let back = self.turn_back.try_send(transform);
        debug_assert!(back.is_ok(), "there is one transform, and one place for it");
    }

    #[track_caller]
    fn send(&self, value: X::Input) -> Result<(), SendError<X::Input>> {
        if !self.enter() {
            return Err(SendError::Disconnected(value));
        }
        self.inside(|| {
            let transform = match self.turn.recv() {
                Ok(transform) => transform,
                Err(RecvError::Cancelled) => return Err(SendError::Cancelled(value)),
                Err(RecvError::Disconnected) => return Err(SendError::Disconnected(value)),
            };
            let mut turn = Turn { shared: self, transform: Some(transform) };
            if self.life().satisfied {
                return Ok(());
            }
            let rest;
            ecru::select! {
                // The expression is evaluated when the room has been reserved.
                send(self.to, match turn.step(value) {
                    Step::Outputs(first, others) => {
                        rest = others;
                        first
                    }
                    Step::NoOutput(others) => {
                        turn.complete(others);
                        return Ok(());
                    }
                    Step::Closed(value) => return Err(SendError::Disconnected(value)),
                }) -> sent => drop(sent),
                cancelled => return Err(SendError::Cancelled(value)),
            }
            turn.complete(rest);
            Ok(())
        })
    }

    fn try_send(&self, value: X::Input) -> Result<(), TrySendError<X::Input>> {
        if !self.enter() {
            return Err(TrySendError::Disconnected(value));
        }
        self.inside(|| {
            let Ok(transform) = self.turn.try_recv() else { return Err(TrySendError::Full(value)) };
            let mut turn = Turn { shared: self, transform: Some(transform) };
            if self.life().satisfied {
                return Ok(());
            }
            let rest;
            ecru::select! {
                send(self.to, match turn.step(value) {
                    Step::Outputs(first, others) => {
                        rest = others;
                        first
                    }
                    Step::NoOutput(others) => {
                        turn.complete(others);
                        return Ok(());
                    }
                    Step::Closed(value) => return Err(TrySendError::Disconnected(value)),
                }) -> sent => drop(sent),
                default => return Err(TrySendError::Full(value)),
            }
            turn.complete(rest);
            Ok(())
        })
    }

    /// Runs the part of a send after the admission, and ends the admission in any case. That is not
    /// done during unwinding, because it may run the transform.
    fn inside<R>(&self, body: impl FnOnce() -> R) -> R {
        let result = panic::catch_unwind(AssertUnwindSafe(body));
        self.leave();
        result.unwrap_or_else(|payload| panic::resume_unwind(payload))
    }

    /// Sends an output even if there is no room. It is dropped if the receiver has closed the
    /// channel.
    fn overfill(&self, output: X::Output) {
        drop(self.to.overfill(output));
    }
}

impl<X: Transform> Drop for Shared<X> {
    fn drop(&mut self) {
        // This may run while the thread unwinds. A second panic would end the process.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| self.close()));
    }
}

/// The result of passing a value to the transform.
enum Step<X: Transform> {
    /// The first output, which has room, and the rest.
    Outputs(X::Output, Rest<X>),
    NoOutput(Rest<X>),
    /// The channel is closed, and the transform has not seen the value.
    Closed(X::Input),
}

/// The outputs beyond the first, and the way in which the step ended.
struct Rest<X: Transform> {
    outputs: Vec<X::Output>,
    end: thread::Result<ControlFlow<()>>,
}

/// The transform while a sender has it. Dropping this puts it back.
struct Turn<'a, X: Transform> {
    shared: &'a Shared<X>,
    transform: Option<X>,
}

impl<X: Transform> Turn<'_, X> {
    /// Passes a value to the transform. Outputs that are emitted before a panic are kept.
    fn step(&mut self, value: X::Input) -> Step<X> {
        if self.shared.to.is_closed() {
            return Step::Closed(value);
        }
        let transform = self.transform.as_mut().expect("there until it goes back");
        let (mut first, mut outputs) = (None, Vec::new());
        let mut emit = |output| match first {
            None => first = Some(output),
            Some(_) => outputs.push(output),
        };
        let step = || no_suspend(|| transform.step(value, &mut emit));
        let end = panic::catch_unwind(AssertUnwindSafe(step));
        let rest = Rest { outputs, end };
        match first {
            Some(first) => Step::Outputs(first, rest),
            None => Step::NoOutput(rest),
        }
    }

    /// Sends the outputs beyond the first, finishes a transform that wants no more values, and
    /// passes on a panic.
    fn complete(&mut self, rest: Rest<X>) {
        rest.outputs.into_iter().for_each(|output| self.shared.overfill(output));
        match rest.end {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => {
                let mut life = self.shared.life();
                let first = !life.finished;
                (life.closed, life.satisfied, life.finished) = (true, true, true);
                drop(life);
                if first {
                    let transform = self.transform.as_mut().expect("there until it goes back");
                    self.shared.finish(transform);
                }
            }
            Err(payload) => panic::resume_unwind(payload),
        }
    }
}

impl<X: Transform> Drop for Turn<'_, X> {
    fn drop(&mut self) {
        if let Some(transform) = self.transform.take() {
            self.shared.put_back(transform);
        }
    }
}

impl<X: Transform> Clone for TransformSender<X> {
    fn clone(&self) -> Self {
        TransformSender { shared: Arc::clone(&self.shared) }
    }
}

impl<X: Transform> fmt::Debug for TransformSender<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TransformSender").field(&self.shared.to).finish()
    }
}
