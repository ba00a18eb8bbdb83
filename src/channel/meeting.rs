//! Polls where there is no buffer: a `try_recv`, or a select that does not wait, finds a select that would send.
//!
//! The select's value does not exist yet, and is made only for a receiver. If a poll passed such a select over, a receiver that only polls would never
//! get its value. So the poll becomes that receiver: see the protocol of [`reservation`](super::reservation). It waits while the value is being
//! made, but not longer than [`PATIENCE`]: the value may wait for something that only the poller would do. Then it leaves, as a receiver with a
//! deadline does, and the value goes to the next receiver.
#![expect(unsafe_code, reason = "registers waits in frames")]

use std::mem::MaybeUninit;
use std::time::Duration;

use super::core::{Channel, Locked, Taken};
use super::waits::Waiting;
use crate::base::clock;
use crate::park::{self, Mode};
use crate::task;

/// How long a poll waits for values that selects make for it: long enough for another worker or thread to be woken and to evaluate an expression
/// that does not wait.
const PATIENCE: Duration = Duration::from_millis(5);

impl<T> Channel<T> {
    /// Receives without waiting for a sender to come.
    #[inline]
    #[track_caller]
    pub(super) fn poll(&self) -> Taken<T> {
        let mut locked = self.lock();
        match locked.take() {
            Taken::Empty if locked.has_offer() => self.meet(locked),
            taken => taken,
        }
    }

    /// There is no value, but somebody would make one.
    #[cold]
    #[track_caller]
    pub(super) fn meet<'a>(&'a self, mut locked: Locked<'a, T>) -> Taken<T> {
        if !park::may_suspend() || task::is_unwinding() {
            return Taken::Empty;
        }
        let until = clock::now() + PATIENCE;
        loop {
            let mut waiting = MaybeUninit::uninit();
            let at = waiting.as_mut_ptr();
            // SAFETY: N1: this frame stays until the wait is over and the node is out of the line.
            if !unsafe { Channel::line_up_to_meet(&mut locked, at) } {
                return Taken::Empty;
            }
            drop(locked);
            // SAFETY: N1: written just now.
            let waiter = unsafe { Waiting::waiter(at) };
            let outcome = task::wait(waiter, Some(until), Mode::Uninterruptible);
            // SAFETY: N1: over.
            locked = match unsafe { self.received(at, outcome) } {
                // SAFETY: N2: it is in its place.
                Ok(()) => return Taken::Value(unsafe { Waiting::take(at) }),
                Err(locked) => locked,
            };
            // The value did not come. The next offer is another select's, or made anew.
            match locked.take() {
                Taken::Empty if locked.has_offer() && clock::now() < until => {}
                taken => return taken,
            }
        }
    }
}
