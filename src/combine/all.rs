//! All of several tasks.

use super::handles::{Handles, List};
use super::watch::{Watch, watch};
use crate::scope::{Claimed, Internals, JoinError};
use crate::task;

/// Waits for all tasks and returns their results in the order in which they are listed: what joining one after another gives.
///
/// When the caller is cancelled, those not joined until then give [`JoinError::CallerCancelled`]; no results: an empty `Vec`.
///
/// # Panics
/// Inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// A cancel point. Handles that were lent stay good.
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
            // The others would say the same, each after a turn of the other tasks.
            results.resize_with(handles.count(), || Err(JoinError::CallerCancelled));
            break;
        }
    }
    results
}

/// Waits until all tasks have succeeded and returns their values in the order in which they are listed; or until the first failure in
/// time: then the others are cancelled, but not awaited (their scope does that).
///
/// # Errors
/// The first failure; [`JoinError::CallerCancelled`] when the caller is cancelled, which cancels none of them;
/// [`JoinError::Empty`] when there are none.
///
/// # Panics
/// Inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// A cancel point. Handles that were lent stay good, those of tasks that have succeeded as well.
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
    E: From<JoinError>,
{
    let handles = handles.into_list();
    collect(&handles, || cancel_all(&handles))
}

/// Waits for all values, or the first failure, of which `failed` is told.
#[track_caller]
pub(super) fn collect<T, E, L>(handles: &L, failed: impl FnOnce()) -> Result<Vec<T>, E>
where
    L: List<Output = Result<T, E>>,
    E: From<JoinError>,
{
    begin(handles.count())?;
    let mut values: Vec<_> = (0..handles.count()).map(|_| None).collect();
    watch_all(handles, |watch| {
        while let Some(index) = watch.next()? {
            match success(handles.at(index)) {
                Ok(value) => values[index] = Some(value),
                Err(error) => {
                    failed();
                    return Err(error);
                }
            }
        }
        Ok(())
    })?;
    Ok(values.into_iter().map(keep).collect())
}

/// The first step of every combinator that fails: a cancel point, and a look whether there is anything to wait for.
#[track_caller]
pub(super) fn begin(count: usize) -> Result<(), JoinError> {
    task::begin_wait()?;
    if count == 0 { Err(JoinError::Empty) } else { Ok(()) }
}

/// Watches all tasks of a list.
pub(super) fn watch_all<L: List, R>(handles: &L, body: impl FnOnce(&Watch<'_>) -> R) -> R {
    watch(handles.count(), &|index| handles.at(index).task().0, body)
}

/// Cancels all that have not ended. Their panics, should they come to that, are nobody's.
pub(super) fn cancel_all<L: List>(handles: &L) {
    for index in 0..handles.count() {
        let handle = handles.at(index);
        handle.task().0.hush();
        handle.ask_to_stop();
    }
}

/// The `Ok` of a task that has ended well; it goes back into the handle unless it is kept. Else the failure.
pub(super) fn success<H, T, E>(handle: &H) -> Result<Claimed<'_, H>, E>
where
    H: Internals<Output = Result<T, E>> + ?Sized,
    E: From<JoinError>,
{
    let claimed = Claimed::new(handle)?;
    if claimed.is_ok() {
        return Ok(claimed);
    }
    match claimed.keep() {
        Err(error) => Err(error),
        Ok(_) => unreachable!("looked at just now"),
    }
}

/// The value, once all of them are there.
pub(super) fn keep<H, T, E>(success: Option<Claimed<'_, H>>) -> T
where
    H: Internals<Output = Result<T, E>> + ?Sized,
{
    match success.map(Claimed::keep) {
        Some(Ok(value)) => value,
        Some(Err(_)) | None => unreachable!("every task has ended, and well"),
    }
}
