//! A channel whose values are transformed on their way in.
//!
//! # Protocol
//! - The transform is itself a value in a channel with one place, `turn`: whoever receives it may use it, and puts it back. So it is
//!   user code that runs under no lock, and senders take their turns in the order in which they came.
//! - A sender that has it waits for room for one output, and only then lets the transform have its value. What comes of it beyond the
//!   first output goes in beyond the capacity; the next sender waits until there is room again.
//! - `pending` counts senders that have been admitted and are not done. Closing admits no more; the last of those who are still there, or
//!   the one who closes if nobody is, finishes the transform and closes the channel behind it. That happens once: `finished`.

use std::fmt;
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use super::transform::Transform;
use crate::base::sync::SpinLock;
use crate::channel::core::Offered;
use crate::channel::reservation::Reservation;
use crate::channel::select::{finish_offer, register_offer};
use crate::channel::{Receiver, RecvError, SendError, Sender, TrySendError, bounded};
use crate::park::no_suspend;
use crate::source::{Arms, Choice, Chosen, Won, choose};

/// The sending end of a [`transformed`] channel. When its last clone has gone, the channel is closed.
pub struct TransformSender<X: Transform> {
    shared: Arc<Shared<X>>,
}

struct Shared<X: Transform> {
    to: Sender<X::Output>,
    /// Where the transform is while nobody uses it.
    turn: Receiver<X>,
    turn_back: Sender<X>,
    life: SpinLock<Life>,
}

struct Life {
    /// Nobody else is admitted.
    closed: bool,
    /// The transform wants no more values: those of senders that have been admitted are dropped.
    satisfied: bool,
    pending: usize,
    finished: bool,
}

/// A channel in which `capacity` values fit, and which has what `transform` makes of those that are sent. It is made by the senders, one
/// value after another, before it goes in.
///
/// - A value of which several outputs come may overfill the channel. No further one is accepted until there is room again.
/// - [Closing](TransformSender::close) it, or dropping the last sender, finishes the transform, when those who already wait to send
///   have sent; what it emits then goes in too.
/// - A transform that wants no more values closes the channel. Those who wait to send succeed, and their values are dropped.
/// - A panic in the transform is the sender's, whose value is lost; or see [`on_panic`](Transform::on_panic).
///
/// The transform runs under [`no_suspend`]: it cannot wait. If the *receiver* closes the channel, what the
/// transform has kept is dropped.
///
/// # Panics
/// With a capacity of 0: what comes of a value needs a place.
///
/// # Examples
/// ```
/// use ecru::channel::{self, Transform, transform};
///
/// let odd_squares = transform::values().filter(|n: &u32| n % 2 == 1).map(|n| n * n);
/// let (sender, pairs) = channel::transformed(8, odd_squares.chunks(2));
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
        "a transformed channel needs a place for what comes of a value; give it a capacity of 1 or more"
    );
    let (to, receiver) = bounded(capacity);
    let (turn_back, turn) = bounded(1);
    let life = Life { closed: false, satisfied: false, pending: 0, finished: false };
    let shared = Shared { to, turn, turn_back, life: SpinLock::new(life) };
    shared.put_back(transform);
    (TransformSender { shared: Arc::new(shared) }, receiver)
}

impl<X: Transform> TransformSender<X> {
    /// Sends what the transform makes of a value, after waiting for room if there is none.
    ///
    /// # Errors
    /// With the value, which the transform has not seen: [`SendError::Disconnected`], [`SendError::Cancelled`].
    ///
    /// # Panics
    /// With a panic of the transform; inside [`no_suspend`].
    ///
    /// # Cancellation
    /// A cancel point. The value comes back; the transform has not seen it.
    #[track_caller]
    pub fn send(&self, value: X::Input) -> Result<(), SendError<X::Input>> {
        self.shared.send(value)
    }

    /// The same if that needs no wait.
    ///
    /// # Errors
    /// With the value, which the transform has not seen: [`TrySendError::Full`] when there is no room, or another sender is at it;
    /// [`TrySendError::Disconnected`].
    ///
    /// # Panics
    /// With a panic of the transform.
    ///
    /// # Cancellation
    /// No cancel point.
    pub fn try_send(&self, value: X::Input) -> Result<(), TrySendError<X::Input>> {
        self.shared.try_send(value)
    }

    /// Ends the sending: nothing new is accepted. Those who already wait to send do so; then the transform is finished, and what it
    /// emits goes in, whether there is room or not. Closing again changes nothing.
    ///
    /// # Panics
    /// With a panic of the transform, when the channel has been closed. (Where the last sender is dropped instead, that panic is lost.)
    pub fn close(&self) {
        self.shared.close();
    }

    /// Whether nothing new is accepted.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.to.is_closed() || self.shared.life.lock().closed
    }
}

impl<X: Transform> Shared<X> {
    /// Admits a sender; the value comes back after the end.
    fn enter(&self) -> bool {
        let mut life = self.life.lock();
        let admitted = !life.closed && !life.finished;
        life.pending += usize::from(admitted);
        admitted
    }

    /// A sender that has been admitted is done.
    fn leave(&self) {
        let mut life = self.life.lock();
        life.pending -= 1;
        self.finish_if_over(life);
    }

    fn close(&self) {
        let mut life = self.life.lock();
        life.closed = true;
        self.finish_if_over(life);
    }

    fn finish_if_over(&self, mut life: crate::base::sync::SpinGuard<'_, Life>) {
        if !life.closed || life.pending != 0 || life.finished {
            return;
        }
        life.finished = true;
        drop(life);
        // Nobody is pending, so it is in its place.
        let Ok(mut transform) = self.turn.try_recv() else { return };
        self.finish(&mut transform);
    }

    /// Lets the transform emit what it has kept, and closes the channel, whatever happens.
    fn finish(&self, transform: &mut X) {
        let mut emit = |output| {
            // Closed by the receiver: nobody expects anything more.
            if !self.to.is_closed() {
                self.overfill(output);
            }
        };
        let finish = || no_suspend(|| transform.finish(&mut emit));
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
            let turn = Turn { shared: self, transform: Some(transform) };
            if self.life.lock().satisfied {
                return Ok(());
            }
            match choose(&RoomIn(&self.to), None) {
                Chosen::Ready(room) => turn.step(value, room).map_err(SendError::Disconnected),
                Chosen::Cancelled(_) => Err(SendError::Cancelled(value)),
                Chosen::TimedOut => unreachable!("there is no deadline"),
            }
        })
    }

    fn try_send(&self, value: X::Input) -> Result<(), TrySendError<X::Input>> {
        if !self.enter() {
            return Err(TrySendError::Disconnected(value));
        }
        self.inside(|| {
            let Ok(transform) = self.turn.try_recv() else { return Err(TrySendError::Full(value)) };
            let turn = Turn { shared: self, transform: Some(transform) };
            if self.life.lock().satisfied {
                return Ok(());
            }
            match self.to.try_reserve() {
                Some(room) => turn.step(value, room).map_err(TrySendError::Disconnected),
                None => Err(TrySendError::Full(value)),
            }
        })
    }

    /// What an admitted sender does. It leaves in any case, and not while it unwinds: to leave may be to finish.
    fn inside<R>(&self, body: impl FnOnce() -> R) -> R {
        let result = panic::catch_unwind(AssertUnwindSafe(body));
        self.leave();
        result.unwrap_or_else(|payload| panic::resume_unwind(payload))
    }

    /// Puts an output in whether there is room or not.
    fn overfill(&self, output: X::Output) {
        let mut locked = self.to.channel().lock();
        if locked.state.discards {
            drop(locked);
            // Its destructor is user code.
            drop(output);
        } else {
            locked.put(output);
        }
    }
}

impl<X: Transform> Drop for Shared<X> {
    fn drop(&mut self) {
        // This may be an unwinding; a second panic would end the process.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| self.close()));
    }
}

/// The transform while a sender has it. It goes back when this is dropped.
struct Turn<'a, X: Transform> {
    shared: &'a Shared<X>,
    transform: Option<X>,
}

impl<X: Transform> Turn<'_, X> {
    /// Lets the transform have a value. Back: nobody will receive what comes of it.
    fn step(mut self, value: X::Input, room: Reservation<'_, X::Output>) -> Result<(), X::Input> {
        let shared = self.shared;
        if shared.to.is_closed() {
            return Err(value);
        }
        let transform = self.transform.as_mut().expect("there until it goes back");
        let mut room = Some(room);
        let flow = no_suspend(|| {
            transform.step(value, &mut |output| match room.take() {
                Some(room) => {
                    if let Offered::Full(output) = room.offer(output) {
                        // Not where there is a buffer; but nothing is to be lost here.
                        shared.overfill(output);
                    }
                }
                None => shared.overfill(output),
            })
        });
        drop(room);
        if flow == ControlFlow::Break(()) {
            let mut life = shared.life.lock();
            let first = !life.finished;
            (life.closed, life.satisfied, life.finished) = (true, true, true);
            drop(life);
            if first {
                shared.finish(transform);
            }
        }
        Ok(())
    }
}

impl<X: Transform> Drop for Turn<'_, X> {
    fn drop(&mut self) {
        if let Some(transform) = self.transform.take() {
            self.shared.put_back(transform);
        }
    }
}

/// A wait for room.
struct RoomIn<'a, T>(&'a Sender<T>);

impl<'s, T> Choice for RoomIn<'s, T> {
    type Output = Reservation<'s, T>;

    fn attempt(&self) -> Option<Self::Output> {
        self.0.try_reserve()
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        register_offer(self.0.channel(), arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<Self::Output> {
        finish_offer(self.0, won)
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
