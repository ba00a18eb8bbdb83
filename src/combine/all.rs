//! All results of several tasks.

use super::engine::{Watch, find_ended};
use super::handles::{Handles, List};
use crate::scope::{Claimed, FromJoinError, Internals, JoinError};

/// Waits for all tasks and returns their results in the order of the handles, like joining one
/// after another.
///
/// If the caller is cancelled, the results that were not joined before that are
/// [`JoinError::CallerCancelled`]. Without handles the result is an empty `Vec`.
///
/// # Panics
/// Panics if called inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is a cancellation point. Handles that were passed by reference can still be joined.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let lengths = ["one", "three"].map(|word| s.spawn(move || word.len()));
///         let lengths: Vec<_> = ecru::join_all(lengths).into_iter().map(Result::unwrap).collect();
///         assert_eq!(lengths, [3, 5]);
///     });
/// });
/// ```
#[track_caller]
pub fn join_all<H: Handles>(handles: H) -> Vec<Result<H::Output, JoinError>> {
    let handles = handles.into_list();
    let mut results = Vec::with_capacity(handles.count());
    for index in 0..handles.count() {
        let result = handles.at(index).join_it();
        let cancelled = matches!(result, Err(JoinError::CallerCancelled));
        results.push(result);
        if cancelled {
            // The other joins would return the same error, each after a yield to other tasks.
            results.resize_with(handles.count(), || Err(JoinError::CallerCancelled));
            break;
        }
    }
    results
}

/// Waits until all tasks have succeeded, and returns their values in the order of the handles. The
/// first failure in time cancels the other tasks and is returned. The call does not await the
/// cancelled tasks; their scope does.
///
/// # Errors
/// Returns the first failure. Returns [`JoinError::CallerCancelled`] if the caller is cancelled,
/// which cancels none of the tasks, and [`JoinError::Empty`] if there are no handles.
///
/// # Panics
/// Panics if called inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is a cancellation point. Handles that were passed by reference can still be joined,
/// including those of tasks that have succeeded.
///
/// # Examples
/// ```
/// use ecru::JoinError;
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let good = s.spawn(|| Ok::<_, JoinError>(1));
///         let slow = s.spawn(|| Ok(ecru::sleep(Duration::from_secs(3600)).map(|()| 2)?));
///         let bad = s.spawn(|| Err(JoinError::Failed));
///         assert!(ecru::try_join_all([&good, &slow, &bad]).is_err());
///         // It was told to stop.
///         assert!(slow.join().unwrap().is_err());
///     });
/// });
/// ```
#[track_caller]
pub fn try_join_all<T, E, H>(handles: H) -> Result<Vec<T>, E>
where
    H: Handles<Output = Result<T, E>>,
    E: FromJoinError,
{
    let handles = handles.into_list();
    collect(&handles, || cancel_all(&handles))
}

/// Waits for all values, or for the first failure. Calls `failed` before it returns a failure.
#[track_caller]
pub(super) fn collect<T, E, L>(handles: &L, failed: impl Fn()) -> Result<Vec<T>, E>
where
    L: List<Output = Result<T, E>>,
    E: FromJoinError,
{
    let mut values: Vec<_> = (0..handles.count()).map(|_| None).collect();
    let failure = find_ended_in(handles, |index, _| match success(handles.at(index)) {
        Ok(value) => {
            values[index] = Some(value);
            None
        }
        Err(error) => {
            failed();
            Some(error)
        }
    })
    .map_err(E::from_join_error)?;
    match failure {
        Some(error) => Err(error),
        None => Ok(values.into_iter().map(keep).collect()),
    }
}

/// [`find_ended`] for the tasks of a list.
#[track_caller]
pub(super) fn find_ended_in<'h, L: List, R>(
    handles: &'h L,
    look: impl FnMut(usize, &Watch<'_, 'h>) -> Option<R>,
) -> Result<Option<R>, JoinError> {
    find_ended(handles.count(), &|index| handles.at(index).task().0, look)
}

/// Cancels all tasks that have not ended. If one of them panics, its scope ignores the panic.
pub(super) fn cancel_all<L: List>(handles: &L) {
    for index in 0..handles.count() {
        let handle = handles.at(index);
        handle.task().0.hush();
        handle.cancel_task();
    }
}

/// Returns the `Ok` of a task that has succeeded, or the failure. The `Ok` goes back into the
/// handle unless it is kept.
pub(super) fn success<H, T, E>(handle: &H) -> Result<Claimed<'_, H>, E>
where
    H: Internals<Output = Result<T, E>> + ?Sized,
    E: FromJoinError,
{
    let claimed = Claimed::new(handle).map_err(E::from_join_error)?;
    if claimed.is_ok() {
        return Ok(claimed);
    }
    match claimed.keep() {
        Err(error) => Err(error),
        Ok(_) => unreachable!("checked to be an error just now"),
    }
}

/// Takes the value out, once all tasks have succeeded.
pub(super) fn keep<H, T, E>(success: Option<Claimed<'_, H>>) -> T
where
    H: Internals<Output = Result<T, E>> + ?Sized,
{
    match success.map(Claimed::keep) {
        Some(Ok(value)) => value,
        Some(Err(_)) | None => unreachable!("every task has succeeded"),
    }
}
