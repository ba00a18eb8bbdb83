//! Join handles that can be cloned.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::join::JoinHandle;
use super::join_error::{JoinError, PanicPayload};
use crate::base::clock;
use crate::task::Header;

/// A handle to a task that can be cloned and joined many times. Each join returns a clone of the
/// task's result. Made by [`JoinHandle::shared`].
///
/// # Examples
/// ```
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let answer = s.spawn(|| 6 * 7).shared();
///         for _ in 0..3 {
///             let answer = answer.clone();
///             s.spawn(move || assert_eq!(answer.join().unwrap(), 42));
///         }
///     });
/// });
/// ```
pub struct SharedHandle<'scope, T> {
    pub(super) inner: Arc<Inner<'scope, T>>,
}

pub(super) struct Inner<'scope, T> {
    pub(super) handle: JoinHandle<'scope, T>,
    /// The task's result, moved out of the task by the first join.
    outcome: OnceLock<TaskOutcome<T>>,
}

enum TaskOutcome<T> {
    Value(T),
    /// The payload is for the first join, the message for all others.
    Panicked(Mutex<Option<PanicPayload>>, Option<String>),
    Cancelled,
    Failed,
    Taken,
}

impl<T> TaskOutcome<T> {
    fn of(joined: Result<T, JoinError>) -> TaskOutcome<T> {
        match joined {
            Ok(value) => TaskOutcome::Value(value),
            Err(JoinError::Panicked(payload)) => {
                let message = payload.message().map(String::from);
                TaskOutcome::Panicked(Mutex::new(Some(payload)), message)
            }
            Err(JoinError::Cancelled) => TaskOutcome::Cancelled,
            Err(JoinError::Failed) => TaskOutcome::Failed,
            Err(JoinError::CallerCancelled | JoinError::Taken | JoinError::Empty) => {
                TaskOutcome::Taken
            }
        }
    }
}

impl<'scope, T> JoinHandle<'scope, T> {
    /// Converts the handle into one that can be cloned and joined many times. Each join returns a
    /// clone of the result.
    #[must_use]
    pub fn shared(self) -> SharedHandle<'scope, T>
    where
        T: Clone + Sync,
    {
        SharedHandle { inner: Arc::new(Inner { handle: self, outcome: OnceLock::new() }) }
    }
}

impl<T: Clone + Sync> SharedHandle<'_, T> {
    /// Waits until the task has ended, and returns a clone of its result.
    ///
    /// # Errors
    /// The same as for [`JoinHandle::join`]. If the task panicked, the first join returns the
    /// payload. Each later join returns a payload that is the panic's message. [`JoinError::Taken`]
    /// means that the result was taken before the handle was shared.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point of the caller. Nothing is lost.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let answer = s.spawn(|| 6 * 7).shared();
    ///         let other = answer.clone();
    ///         let twice = s.spawn(move || 2 * other.join().unwrap());
    ///         assert_eq!((answer.join().unwrap(), twice.join().unwrap()), (42, 84));
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn join(&self) -> Result<T, JoinError> {
        self.inner.handle.wait_finished()?;
        self.copy()
    }

    /// Waits for at most `timeout` until the task has ended, and returns a clone of its result.
    /// Returns `None` if the task has not ended by then.
    ///
    /// # Errors
    /// The same as for [`join`](SharedHandle::join).
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// The same as for [`join`](SharedHandle::join).
    ///
    /// # Examples
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let (sender, receiver) = ecru::channel::unbounded();
    ///         let answer = s.spawn(move || receiver.recv().unwrap()).shared();
    ///         assert!(answer.join_timeout(Duration::from_millis(1)).is_none());
    ///         sender.send(42).unwrap();
    ///         let limit = Instant::now() + Duration::from_secs(60);
    ///         assert_eq!(answer.join_deadline(limit).unwrap().unwrap(), 42);
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn join_timeout(&self, timeout: Duration) -> Option<Result<T, JoinError>> {
        self.join_until(clock::now().checked_add(timeout))
    }

    /// Waits until the task has ended, at the latest until `deadline`, and returns a clone of its
    /// result. Returns `None` if the task has not ended by then.
    ///
    /// # Errors
    /// The same as for [`join`](SharedHandle::join).
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// The same as for [`join`](SharedHandle::join).
    #[track_caller]
    pub fn join_deadline(&self, deadline: Instant) -> Option<Result<T, JoinError>> {
        self.join_until(Some(deadline))
    }

    /// Waits until the task has ended, or until the deadline.
    #[track_caller]
    fn join_until(&self, deadline: Option<Instant>) -> Option<Result<T, JoinError>> {
        match self.inner.handle.wait_until_done(deadline) {
            Ok(true) => Some(self.copy()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Returns a clone of the result. The task has ended.
    pub(super) fn copy(&self) -> Result<T, JoinError> {
        // The closure only moves values. No user code runs while other threads wait for this
        // initialization.
        match self.inner.outcome.get_or_init(|| TaskOutcome::of(self.inner.handle.take())) {
            TaskOutcome::Value(value) => Ok(value.clone()),
            TaskOutcome::Panicked(payload, message) => {
                let first = payload.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(JoinError::Panicked(first.unwrap_or_else(|| match message {
                    Some(message) => PanicPayload::new(Box::new(message.clone())),
                    None => PanicPayload::new(Box::new(())),
                })))
            }
            TaskOutcome::Cancelled => Err(JoinError::Cancelled),
            TaskOutcome::Failed => Err(JoinError::Failed),
            TaskOutcome::Taken => Err(JoinError::Taken),
        }
    }
}

impl<T> SharedHandle<'_, T> {
    pub(super) fn header(&self) -> &Header {
        self.inner.handle.header()
    }

    /// Cancels the task; see [`JoinHandle::cancel`].
    pub fn cancel(&self) {
        self.inner.handle.cancel();
    }

    /// Returns whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.inner.handle.is_finished()
    }

    /// Returns the task's name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.inner.handle.name()
    }
}

impl<T> Clone for SharedHandle<'_, T> {
    fn clone(&self) -> Self {
        SharedHandle { inner: Arc::clone(&self.inner) }
    }
}

impl<T> fmt::Debug for SharedHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedHandle").field(&self.inner.handle).finish()
    }
}
