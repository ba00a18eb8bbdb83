//! The functions that return when all items are done.

use std::panic;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::engine;
use super::window::Window;
use crate::base::clock;
use crate::scope;
use crate::task::drop_quietly;

/// Calls `f` for every item, each in its own task, all concurrently. Returns the results in
/// the order of the items.
///
/// Every item is run, even if the caller is cancelled. Waits inside the items then fail, and `f`
/// decides what that means.
///
/// # Panics
/// Panics outside a run. If items panic, continues the panic of the first of them in input order,
/// after all items have ended.
///
/// # Cancellation
/// The call itself is not a cancellation point. A cancellation reaches the items.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let lengths = ecru::par::map(["one", "three"], |word| word.len());
///     assert_eq!(lengths, [3, 5]);
/// });
/// ```
#[track_caller]
pub fn map<I, R, F>(items: I, f: F) -> Vec<R>
where
    I: IntoIterator<Item: Send>,
    R: Send,
    F: Fn(I::Item) -> R + Sync,
{
    let f = &f;
    engine::all(items.into_iter().map(|item| move || f(item)))
}

/// Calls `f` for every item, at most `window` at a time, each in its own task. Returns the
/// results in the order of the items. The window slides: as soon as one item is done, the next one
/// starts.
///
/// The caller takes an item from the iterator when there is room for it in the window.
///
/// # Panics
/// Panics outside a run, and if `window` is 0. After a panic of `f`, no further
/// item is taken, and no further call of `f` begins. Items that have been taken and not begun are
/// dropped. The panic is continued after the calls that run at that moment have ended. If several
/// panic, it is the first panic in the order of the items.
///
/// # Cancellation
/// The call itself is not a cancellation point, like [`map`].
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let squares = ecru::par::map_buffered(2, 1..=4, |n| n * n);
///     assert_eq!(squares, [1, 4, 9, 16]);
/// });
/// ```
#[doc(alias = "pmap")]
#[track_caller]
pub fn map_buffered<I, R, F>(window: usize, items: I, f: F) -> Vec<R>
where
    I: IntoIterator<Item: Send>,
    R: Send,
    F: Fn(I::Item) -> R + Sync,
{
    let values = engine::all(Window::new(window).jobs(items.into_iter(), &f));
    let left_out = "an item is left out only after a panic, which has been continued";
    values.into_iter().map(|value| value.expect(left_out)).collect()
}

/// Calls `f` for every item until `deadline`, each in its own task, all concurrently. Returns the
/// results in the order of the items.
///
/// At the deadline, no further call of `f` begins. The waits of running calls fail with the reason
/// [`Deadline`](crate::CancelReason::Deadline), and the calls are awaited. The result of an item is
/// `None` if its call never began. It is also `None` if the deadline interrupted a wait of the
/// call, or a task of a scope inside it. A call that has only computed keeps its result, even if it
/// ends late.
///
/// # Panics
/// Panics in the same cases as [`map`].
///
/// # Cancellation
/// The call itself is not a cancellation point, like [`map`]. A cancellation reaches the items:
/// their waits fail, and their results are kept.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// ecru::run(|| {
///     let hour = Duration::from_secs(3600);
///     let in_time = ecru::par::map_until(Instant::now() + hour, [1, 2], |n| n * n);
///     assert_eq!(in_time, [Some(1), Some(4)]);
///
///     let soon = Instant::now() + Duration::from_millis(5);
///     let late = ecru::par::map_until(soon, [1, 2], |n| ecru::sleep(n * hour).is_ok());
///     assert_eq!(late, [None, None]);
/// });
/// ```
#[track_caller]
pub fn map_until<I, R, F>(deadline: Instant, items: I, f: F) -> Vec<Option<R>>
where
    I: IntoIterator<Item: Send>,
    R: Send,
    F: Fn(I::Item) -> R + Sync,
{
    // The deadline may have passed before the item was taken, or before its task started.
    map(items, |item| {
        if deadline <= clock::now() { None } else { scope::timeout_at(deadline, || f(item)).ok() }
    })
}

/// Calls `f` for every item, at most `window` at a time, each in a task of its own.
///
/// # Panics
/// Panics in the same cases as [`map_buffered`]. If several calls panic, the first panic in time is
/// continued.
///
/// # Cancellation
/// The call itself is not a cancellation point, like [`map`].
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// ecru::run(|| {
///     let sum = AtomicU32::new(0);
///     ecru::par::for_each(8, 1..=100, |n| {
///         sum.fetch_add(n, Ordering::Relaxed);
///     });
///     assert_eq!(sum.into_inner(), 5050);
/// });
/// ```
#[track_caller]
pub fn for_each<I, F>(window: usize, items: I, f: F)
where
    I: IntoIterator<Item: Send>,
    F: Fn(I::Item) + Sync,
{
    // Only one panic payload is kept, not a result for each item, because there may be very many
    // items.
    let first_panic = Mutex::new(None);
    let first_panic = || first_panic.lock().unwrap_or_else(PoisonError::into_inner);
    let keep = |payload| {
        let mut first = first_panic();
        let other = if first.is_none() { first.replace(payload) } else { Some(payload) };
        drop(first);
        // A second panic, in the payload's destructor, would hide the first one.
        drop_quietly(other);
    };
    let window = Window::new(window);
    engine::each(window.jobs(items.into_iter(), &f).map(|job| {
        || {
            if let Err(payload) = panic::catch_unwind(panic::AssertUnwindSafe(job)) {
                keep(payload);
            }
        }
    }));
    if let Some(payload) = first_panic().take() {
        panic::resume_unwind(payload);
    }
}
