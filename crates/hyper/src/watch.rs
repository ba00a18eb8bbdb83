//! A task that waits on behalf of a future.
//!
//! # Protocol
//! ```text
//!   the future                                   the watch's task
//!   ------------------------------------------   ----------------------------------------
//!   begin: stores its waker, spawns the task
//!   poll: stores its waker, returns pending      waits; stores the outcome, takes the
//!                                                waker, wakes it
//!   poll: takes the outcome, the watch is over
//!   or drop: cancels the task                    is cancelled, or never begins, and does
//!                                                the same
//! ```
//! The outcome is stored on every path, also if the task is dropped before it has begun. The future
//! therefore never waits in vain.

use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ecru::{JoinHandle, RuntimeHandle};

/// A wait in progress. Dropping it cancels the wait.
#[derive(Debug)]
pub(crate) struct Watch {
    state: Arc<Mutex<State>>,
    task: JoinHandle<'static, ()>,
}

#[derive(Debug)]
enum State {
    Waits(Waker),
    Over(io::Result<()>),
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error for a connection whose run no longer starts tasks.
fn is_over() -> io::Error {
    io::Error::other("the run of ecru that this connection belongs to is over")
}

impl Watch {
    /// Spawns a task of the run that calls `wait` and wakes the future afterwards.
    ///
    /// # Errors
    /// Returns an error if the run has ended.
    pub(crate) fn begin(
        run: &RuntimeHandle,
        context: &Context<'_>,
        wait: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Watch> {
        let state = Arc::new(Mutex::new(State::Waits(context.waker().clone())));
        let mut teller = Teller { state: Arc::clone(&state), outcome: Err(is_over()) };
        let task = run.spawn(move || teller.note(wait())).map_err(|_| is_over())?;
        Ok(Watch { state, task })
    }

    /// Returns the result of the wait, or `Pending` while it is in progress.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.state);
        let waker = match &mut *state {
            State::Over(outcome) => return Poll::Ready(mem::replace(outcome, Ok(()))),
            State::Waits(waker) if waker.will_wake(context.waker()) => return Poll::Pending,
            State::Waits(waker) => waker,
        };
        let before = mem::replace(waker, context.waker().clone());
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.cancel();
    }
}

/// Stores the outcome of the wait when it is dropped, which happens on every path.
struct Teller {
    state: Arc<Mutex<State>>,
    outcome: io::Result<()>,
}

impl Teller {
    fn note(&mut self, outcome: io::Result<()>) {
        self.outcome = outcome;
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let outcome = mem::replace(&mut self.outcome, Ok(()));
        let before = mem::replace(&mut *lock(&self.state), State::Over(outcome));
        // The waker is called outside the lock, because it is foreign code.
        if let State::Waits(waker) = before {
            waker.wake();
        }
    }
}
