//! Handles for joining tasks.
#![expect(unsafe_code, reason = "owns a reference to a task's box")]

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

use super::join_error::{JoinError, PanicPayload};
use crate::base::clock;
use crate::base::record::Subject;
use crate::park::{self, About, Mode, Outcome, Wait, What};
use crate::sched;
use crate::task::{self, CancelReason, DONE, Failure, Header, TAKEN, cancel};

/// The outcome of the first step of a join.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JoinBegun {
    /// The task was run to its end in the caller's place. Its result is claimed, if that was
    /// requested.
    Ended,
    /// The caller may have to wait.
    Waits,
    /// The caller has been cancelled.
    Cancelled,
}

/// A handle to a task, for waiting until the task ends and taking its result.
///
/// Dropping the handle, forgetting it or sending it elsewhere has no effect on the task: the task's
/// scope waits for the task in any case. A result that is not taken is dropped with the handle,
/// even if it is an `Err`. Debug builds report such an `Err` by one line on standard error, which
/// names the task and where it was spawned. They report only the first one of each place, and none
/// of a task that has been cancelled, which is expected to fail. If the environment variable
/// `ECRU_LOG` is set (and neither empty nor `0`), every build reports each of them. A task whose
/// failure does not matter returns `()`. A future of `async` code that is dropped in this way has
/// run nothing, so debug builds report each such task.
///
/// A handle is a [`Source`](crate::Source) of the result, so it can be one of several things to
/// wait for. To wait for this task alone, prefer [`join`](JoinHandle::join), which can start the
/// task in the caller's place.
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

// SAFETY: T1: a handle gives access only to the result, once.
unsafe impl<T: Send> Send for JoinHandle<'_, T> {}
// SAFETY: T1: a shared reference to the handle can only move the result out, once. The result must
// therefore be Send, but need not be Sync.
unsafe impl<T: Send> Sync for JoinHandle<'_, T> {}

impl<'scope, T> JoinHandle<'scope, T> {
    /// # Safety
    /// T2: the caller gives the handle a reference of its own, to a task whose result is a `T`.
    #[inline]
    pub(crate) unsafe fn new(task: *const Header) -> Self {
        JoinHandle { task, _scope: PhantomData, _result: PhantomData }
    }

    #[inline]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: T2: the handle's reference keeps the header alive.
        unsafe { &*self.task }
    }

    /// Waits until the task has ended, and takes its result.
    ///
    /// If the task has not started yet and is in the caller's own queue, it is started at once, in
    /// the caller's place.
    ///
    /// # Errors
    /// - [`JoinError::Panicked`] if the task panicked. The scope then does not see the panic.
    /// - [`JoinError::Cancelled`] if the task was cancelled before it began. A task that is
    ///   cancelled later still returns its body's value.
    /// - [`JoinError::Failed`] if the task failed in a [`try_scope`](crate::try_scope), which has
    ///   its error.
    /// - [`JoinError::Taken`] if the result has already been taken.
    /// - [`JoinError::CallerCancelled`] if the caller was cancelled while it waited.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point of the caller. If the caller is cancelled, nothing is lost: the
    /// task goes on, and the handle can be joined again.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let sum = s.spawn(|| (1..=10).sum::<u32>());
    ///         let broken = s.spawn(|| -> u32 { panic!("no sum") });
    ///         assert_eq!(sum.join().unwrap(), 55);
    ///         assert_eq!(broken.join().unwrap_err().to_string(), "the task panicked: no sum");
    ///     });
    /// });
    /// ```
    #[inline]
    #[track_caller]
    pub fn join(&self) -> Result<T, JoinError> {
        // SAFETY: T2: the handle's reference.
        match unsafe { run_in_place(self.task, true) } {
            JoinBegun::Ended => return self.take_claimed(),
            JoinBegun::Waits => _ = wait_for(self.header(), None)?,
            JoinBegun::Cancelled => return Err(JoinError::CallerCancelled),
        }
        self.take()
    }

    /// Waits for at most `timeout` until the task has ended, and takes its result. Returns `None`
    /// if the task has not ended by then. The handle can then be joined again.
    ///
    /// # Errors
    /// The same as for [`join`](JoinHandle::join).
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// The same as for [`join`](JoinHandle::join).
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
        // A timeout too long for an `Instant` is no limit.
        self.join_until(clock::now().checked_add(timeout))
    }

    /// Waits until the task has ended, at the latest until `deadline`, and takes its result.
    /// Returns `None` if the task has not ended by then. The handle can then be joined again.
    ///
    /// # Errors
    /// The same as for [`join`](JoinHandle::join).
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// The same as for [`join`](JoinHandle::join).
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

    /// Cancels the task: its waits return [`Cancelled`](crate::Cancelled) from now on. A task that
    /// has not started yet never runs. If the task has ended, nothing happens.
    pub fn cancel(&self) {
        if self.header().state() & DONE == 0 {
            cancel::cancel(&self.header().node, CancelReason::Explicit);
        }
    }

    /// Returns whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.header().state() & DONE != 0
    }

    /// Returns the name set by [`TaskBuilder::name`](crate::TaskBuilder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.header().name()
    }

    /// Waits until the task has ended. Does not take the result.
    pub(crate) fn wait_finished(&self) -> Result<(), JoinError> {
        self.wait_until_done(None).map(drop)
    }

    /// Waits until the task has ended. Returns `false` if the deadline passed first.
    #[track_caller]
    pub(super) fn wait_until_done(&self, deadline: Option<Instant>) -> Result<bool, JoinError> {
        if deadline.is_some() {
            // The task is not run in place here, because it could run far beyond the caller's
            // deadline.
            task::begin_wait().map_err(|_| JoinError::CallerCancelled)?;
            return wait_for(self.header(), deadline);
        }
        // SAFETY: T2: the handle's reference.
        match unsafe { run_in_place(self.task, false) } {
            JoinBegun::Ended => Ok(true),
            JoinBegun::Waits => wait_for(self.header(), None),
            JoinBegun::Cancelled => Err(JoinError::CallerCancelled),
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
        // SAFETY: T1: the result is claimed by this call alone, and the handle's type is the
        // task's.
        unsafe { (header.vtable.take)(self.task, result.as_mut_ptr().cast()) };
        // SAFETY: T1: initialized by the call above.
        match unsafe { result.assume_init() } {
            Ok(value) => Ok(value),
            Err(Failure::Panicked(payload)) => {
                let (payload, _thrown) = task::split(payload);
                Err(JoinError::Panicked(PanicPayload::new(payload)))
            }
            Err(Failure::NeverRan) => Err(JoinError::Cancelled),
            Err(Failure::Failed) => Err(JoinError::Failed),
        }
    }
}

/// Begins a wait for a task. A task that is unstarted and in the caller's own queue is run here,
/// and with `claim` its result is claimed for the caller. Inlined: a call would make a join that
/// starts the task a tenth slower.
///
/// # Safety
/// T2: the caller holds its own reference to the task.
#[inline(always)]
#[track_caller]
unsafe fn run_in_place(task: *const Header, claim: bool) -> JoinBegun {
    let Ok(unwinding) = task::begin_wait_in_place() else { return JoinBegun::Cancelled };
    // SAFETY: T2, by this function's contract.
    let header = unsafe { &*task };
    if header.state() & DONE != 0 {
        return JoinBegun::Waits;
    }
    park::begin_parked(unwinding);
    // SAFETY: T2, by this function's contract.
    let ended = unsafe { sched::run_if_unstarted(task, claim) };
    park::end_parked(unwinding);
    if ended { JoinBegun::Ended } else { JoinBegun::Waits }
}

/// A wait for the end of a task.
// SAFETY: O1: a handle that waits holds a reference to the task.
static END_OF_TASK: What =
    unsafe { What::about_briefly("the end of a task", describe, describe_briefly) };

fn describe(task: *const (), _: usize) -> (&'static str, About) {
    ("the end of", About::Task(task))
}

/// # Safety
/// O1: `task` is the header of a task that lives.
unsafe fn describe_briefly(task: *const (), _: usize) -> (&'static str, Subject) {
    // SAFETY: O1, the caller's promise.
    let header = unsafe { &*task.cast::<Header>() };
    ("the end of", Subject::Task(header.id()))
}

/// Waits until the task has ended. Returns `false` if the deadline passed first. Out of line: a
/// join that runs the task itself does not come here, and would pay for this frame.
#[inline(never)]
#[track_caller]
fn wait_for(header: &Header, deadline: Option<Instant>) -> Result<bool, JoinError> {
    // Being woken does not mean that the task has ended: a handle is a source, so user code can
    // notify its list.
    while header.state() & DONE == 0 {
        let Some(joiners) = header.lock_joiners() else { return Ok(true) };
        let object = ptr::from_ref(header).cast();
        let wait = Wait { object, deadline, ..Wait::new(&END_OF_TASK, Mode::Cancellable) };
        match wait.in_line(joiners, |joiners| joiners, || (), || header.joiners.lock()) {
            Outcome::Woken(_) | Outcome::Again(_) => {}
            Outcome::TimedOut(_) => return Ok(false),
            Outcome::Cancelled(joiners) => {
                drop(joiners);
                task::cancelled_wait();
                return Err(JoinError::CallerCancelled);
            }
        }
    }
    Ok(true)
}

impl<T> Drop for JoinHandle<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: T2: the handle's reference is given back.
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
