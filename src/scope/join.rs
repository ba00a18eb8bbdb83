//! Handles: waiting for what a task returns.
#![expect(unsafe_code, reason = "owns a reference to a task's box")]

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

use super::join_error::{JoinError, PanicPayload};
use super::shared_handle::SharedHandle;
use crate::base::clock;
use crate::park::{About, Mode, Node, Role, TIMED_OUT, WOKEN, Waiter};
use crate::sched;
use crate::task::{self, CancelReason, DONE, Failure, Header, TAKEN, cancel};

/// How a wait for a task's end began.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// The task has been run to its end in the caller's place; its result is claimed, if that was asked for.
    Ended,
    /// There may be something to wait for.
    Waits,
    /// The caller has been cancelled.
    Cancelled,
}

/// The right to wait for a task and to take what it returns.
///
/// Dropping it, forgetting it or sending it elsewhere does not matter to the task: its scope waits for it in any case.
/// What the task returns is dropped with its handle, an `Err` too. With the environment variable `ECRU_LOG` set (and neither empty nor
/// `0`) one line on standard error tells of each such `Err`.
///
/// A handle is a [`Source`](crate::Source) of the result, for waiting for one of several things. To wait for this one alone prefer
/// [`join`](JoinHandle::join), which can start a task in the caller's place.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let handle = s.spawn(|| 6 * 7);
///         assert_eq!(handle.join().unwrap(), 42);
///         assert!(handle.is_finished());
///     });
/// });
/// ```
pub struct JoinHandle<'scope, T> {
    task: *const Header,
    _scope: PhantomData<fn(&'scope ()) -> &'scope ()>,
    _result: PhantomData<T>,
}

// SAFETY: T1: a handle gives out nothing but the result, once.
unsafe impl<T: Send> Send for JoinHandle<'_, T> {}
// SAFETY: T1: through a shared handle the result is moved out, once: it must be Send, and need not be Sync.
unsafe impl<T: Send> Sync for JoinHandle<'_, T> {}

impl<'scope, T> JoinHandle<'scope, T> {
    /// # Safety
    /// T2: gives the handle a reference of its own, to a task whose result is a `T`.
    #[inline]
    pub(crate) unsafe fn new(task: *const Header) -> Self {
        JoinHandle { task, _scope: PhantomData, _result: PhantomData }
    }

    #[inline]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: T2: the handle's reference keeps it alive.
        unsafe { &*self.task }
    }

    /// Waits until the task has ended and takes what it returned.
    ///
    /// A task that has not started and waits in the caller's own queue is started at once, in the caller's place.
    ///
    /// # Errors
    /// - [`JoinError::Panicked`] with the task's panic; joining it keeps the panic from its scope.
    /// - [`JoinError::Cancelled`]: it was cancelled before it began. A task that was cancelled later returns what it returns.
    /// - [`JoinError::Failed`]: it failed in a [`try_scope`](crate::try_scope), which has its error.
    /// - [`JoinError::Taken`]: somebody has joined it before.
    /// - [`JoinError::CallerCancelled`]: the caller was cancelled while it waited.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point of the caller. Nothing is lost: the handle stays good and the task goes on.
    #[inline]
    #[track_caller]
    pub fn join(&self) -> Result<T, JoinError> {
        // SAFETY: T2: the handle's reference.
        match unsafe { run_in_place(self.task, true) } {
            Begun::Ended => return self.take_claimed(),
            Begun::Waits => _ = wait_for(self.header(), None)?,
            Begun::Cancelled => return Err(JoinError::CallerCancelled),
        }
        self.take()
    }

    /// [`join`](JoinHandle::join), for at most `timeout`; none: the task has not ended by then, and the handle stays good.
    ///
    /// # Errors
    /// As `join`.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// As `join`.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let slow = s.spawn(|| ecru::sleep(Duration::from_secs(3600)));
    ///         assert!(slow.join_timeout(Duration::from_millis(1)).is_none());
    ///         slow.cancel();
    ///         assert!(slow.join().unwrap().is_err());
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn join_timeout(&self, timeout: Duration) -> Option<Result<T, JoinError>> {
        // A duration that leads past the end of time is none at all.
        self.join_until(clock::now().checked_add(timeout))
    }

    /// Waits as [`join`](JoinHandle::join) does, until `deadline` at the latest. Returns `None` if the task has not ended by then. The
    /// handle stays good.
    ///
    /// # Errors
    /// As `join`.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// As `join`.
    ///
    /// # Examples
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let deadline = Instant::now() + Duration::from_millis(1);
    ///         let slow = s.spawn(|| ecru::sleep(Duration::from_secs(3600)));
    ///         assert!(slow.join_deadline(deadline).is_none());
    ///         slow.cancel();
    ///         assert!(slow.join().unwrap().is_err());
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn join_deadline(&self, deadline: Instant) -> Option<Result<T, JoinError>> {
        self.join_until(Some(deadline))
    }

    /// Waits until the task has ended, or until the deadline.
    #[track_caller]
    fn join_until(&self, deadline: Option<Instant>) -> Option<Result<T, JoinError>> {
        match self.wait_until_done(deadline) {
            Ok(true) => Some(self.take()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Makes it a handle that can be cloned and joined by many, each of whom gets a copy of the result.
    #[must_use]
    pub fn shared(self) -> SharedHandle<'scope, T>
    where
        T: Clone + Sync,
    {
        SharedHandle::new(self)
    }

    /// Asks the task to stop: its waits return [`Cancelled`](crate::Cancelled) from now on. If it has not started yet it never
    /// will. To a task that has ended nothing happens.
    pub fn cancel(&self) {
        if self.header().state() & DONE == 0 {
            cancel::cancel(&self.header().node, CancelReason::Explicit);
        }
    }

    /// Whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.header().state() & DONE != 0
    }

    /// The name that the task was given by [`TaskBuilder::name`](crate::TaskBuilder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.header().name()
    }

    /// Waits until the task has ended, and leaves its result where it is.
    pub(crate) fn wait_finished(&self) -> Result<(), JoinError> {
        self.wait_until_done(None).map(drop)
    }

    /// Whether the task has ended, after waiting for it; false: the deadline came first.
    #[track_caller]
    pub(super) fn wait_until_done(&self, deadline: Option<Instant>) -> Result<bool, JoinError> {
        if deadline.is_some() {
            // To run it here would hold the caller up for as long as the task likes to run.
            task::begin_wait().map_err(|_| JoinError::CallerCancelled)?;
            return wait_for(self.header(), deadline);
        }
        // SAFETY: T2: the handle's reference.
        match unsafe { run_in_place(self.task, false) } {
            Begun::Ended => Ok(true),
            Begun::Waits => wait_for(self.header(), None),
            Begun::Cancelled => Err(JoinError::CallerCancelled),
        }
    }

    #[inline]
    pub(super) fn take(&self) -> Result<T, JoinError> {
        let header = self.header();
        if header.state() & TAKEN != 0 || !header.claim_result() {
            return Err(JoinError::Taken);
        }
        self.take_claimed()
    }

    /// Moves out the result, which the caller has claimed.
    #[inline]
    fn take_claimed(&self) -> Result<T, JoinError> {
        let header = self.header();
        let mut result = MaybeUninit::<Result<T, Failure>>::uninit();
        // SAFETY: T1: claimed, and nobody else will; the handle's type is the task's.
        unsafe { (header.vtable.take)(self.task, result.as_mut_ptr().cast()) };
        // SAFETY: T1: written by the call above.
        match unsafe { result.assume_init() } {
            Ok(value) => Ok(value),
            Err(Failure::Panicked(payload)) => {
                let (payload, _place) = task::split(payload);
                Err(JoinError::Panicked(PanicPayload::new(payload)))
            }
            Err(Failure::NeverRan) => Err(JoinError::Cancelled),
            Err(Failure::Failed) => Err(JoinError::Failed),
        }
    }
}

/// Begins a wait for a task. One that waits in the caller's own queue is started here and now; with `claim` for its result. Inlined: a
/// call would cost a join that starts the task a tenth.
///
/// # Safety
/// T2: the caller holds a reference to the task, of its own.
#[inline(always)]
#[track_caller]
unsafe fn run_in_place(task: *const Header, claim: bool) -> Begun {
    if task::begin_wait().is_err() {
        return Begun::Cancelled;
    }
    // SAFETY: T2, the caller's promise.
    let header = unsafe { &*task };
    if header.state() & DONE != 0 {
        return Begun::Waits;
    }
    let unwinding = task::begin_parked();
    // SAFETY: T2, the caller's promise.
    let ended = unsafe { sched::run_if_unstarted(task, claim) };
    task::end_parked(unwinding);
    if ended { Begun::Ended } else { Begun::Waits }
}

/// Whether the task has ended, after waiting for it; false: the deadline came first. Out of line: joins that start the task themselves
/// do not come here, and would pay for its frame.
#[inline(never)]
#[track_caller]
fn wait_for(header: &Header, deadline: Option<Instant>) -> Result<bool, JoinError> {
    // Not "until woken": a handle is a source, so anybody may get hold of its list and notify it.
    while header.state() & DONE == 0 {
        let waiter = Waiter::new();
        waiter.set_purpose("the end of", About::Task(ptr::from_ref(header).cast()));
        let node = Node::new(&raw const waiter, 0, Role::Notify, ptr::null_mut());
        // SAFETY: N1: this frame stays until the wait is over and the node is out of the list.
        if !unsafe { header.add_joiner(&raw const node) } {
            return Ok(true);
        }
        let outcome = task::wait(&waiter, deadline, Mode::Cancellable);
        if outcome == WOKEN {
            continue;
        }
        header.joiners.lock().remove(&node);
        if outcome == TIMED_OUT {
            return Ok(false);
        }
        task::cancelled_wait();
        return Err(JoinError::CallerCancelled);
    }
    Ok(true)
}

impl<T> Drop for JoinHandle<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: T2: the handle's reference.
        unsafe { Header::detach(self.task) };
    }
}

impl<T> fmt::Debug for JoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("name", &self.name())
            .field("finished", &self.is_finished())
            .finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
