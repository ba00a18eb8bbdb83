//! The first success among several tasks.

use super::all::{cancel_all, find_ended_in};
use super::engine::Watch;
use super::handles::{Handles, List};
use crate::scope::FromJoinError;

/// Waits for the first task that succeeds, cancels the other tasks, waits until they have ended,
/// and returns the value.
///
/// If all tasks fail, the last failure is returned. The results of the cancelled tasks stay in
/// their handles if those were passed by reference.
///
/// # Errors
/// Returns the last failure in time if all tasks fail. Returns [`JoinError::CallerCancelled`] if
/// the caller is cancelled before a task has succeeded, which cancels none of the tasks. Returns
/// [`JoinError::Empty`] if there are no handles.
///
/// # Panics
/// Panics if called inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is a cancellation point until the first success, which is returned even if a cancellation
/// follows. The wait for the other tasks is not a cancellation point.
///
/// # Examples
/// ```
/// use ecru::JoinError;
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let mirrors = [3600, 0].map(|delay| {
///             s.spawn(move || {
///                 ecru::sleep(Duration::from_secs(delay))?;
///                 Ok::<_, JoinError>(delay)
///             })
///         });
///         assert_eq!(ecru::first_ok(mirrors).unwrap(), 0);
///     });
/// });
/// ```
///
/// [`JoinError::CallerCancelled`]: crate::JoinError::CallerCancelled
/// [`JoinError::Empty`]: crate::JoinError::Empty
#[track_caller]
pub fn first_ok<T, E, H>(handles: H) -> Result<T, E>
where
    H: Handles<Output = Result<T, E>>,
    E: FromJoinError,
{
    let handles = handles.into_list();
    first(&handles, |watch| {
        cancel_all(&handles);
        watch.rest();
    })
}

/// Waits for the first task that succeeds, like [`first_ok`], but lets the other tasks run on.
///
/// # Errors
/// Returns the same errors as `first_ok`.
///
/// # Panics
/// Panics if called inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is a cancellation point.
///
/// # Examples
/// ```
/// use ecru::JoinError;
/// use ecru::sync::Latch;
///
/// ecru::run(|| {
///     let released = Latch::new(1);
///     ecru::scope(|s| {
///         let quick = s.spawn(|| Ok::<_, JoinError>(1));
///         let slow = s.spawn(|| released.wait().map(|()| 2).map_err(JoinError::from));
///         assert_eq!(ecru::first_ok_keep((&quick, &slow)).unwrap(), 1);
///         released.count_down();
///         assert_eq!(slow.join().unwrap().unwrap(), 2);
///     });
/// });
/// ```
#[track_caller]
pub fn first_ok_keep<T, E, H>(handles: H) -> Result<T, E>
where
    H: Handles<Output = Result<T, E>>,
    E: FromJoinError,
{
    first(&handles.into_list(), |_| ())
}

/// Returns the first success. Calls `won` before that, to deal with the other tasks.
#[track_caller]
fn first<T, E, L>(handles: &L, won: impl Fn(&Watch<'_, '_>)) -> Result<T, E>
where
    L: List<Output = Result<T, E>>,
    E: FromJoinError,
{
    let mut last = None;
    let first = find_ended_in(handles, |index, watch| {
        match handles
            .at(index)
            .claim()
            .unwrap_or_else(|no_result| Err(E::from_join_error(no_result)))
        {
            Ok(value) => {
                won(watch);
                Some(value)
            }
            Err(error) => {
                last = Some(error);
                None
            }
        }
    })
    .map_err(E::from_join_error)?;
    first.ok_or_else(|| last.unwrap_or_else(|| unreachable!("there is at least one handle")))
}
