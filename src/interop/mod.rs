//! Layer 11: futures in direct style.
//!
//! The other direction, a source as a future, is part of [`source`](crate::source): see
//! [`Source::to_future`](crate::source::Source::to_future).

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::park::What;
use crate::sync::Notify;
use crate::task::{Cancelled, checkpoint, in_poll};

/// Waits for a future and returns its output. A task is parked, and a plain thread blocks. The
/// future is polled here on the caller's own stack and need not be `Send`.
///
/// This call only polls the future. A future that uses the timers or sockets of another runtime
/// still needs that runtime.
///
/// # Errors
/// Returns [`Cancelled`] if the wait is cancelled. The future has been dropped in this case.
///
/// # Panics
/// Panics inside [`no_suspend`](crate::no_suspend), and if the future panics.
///
/// # Cancellation
/// This is a cancellation point before the first poll and whenever the future is not ready. What
/// dropping the future loses depends on the future.
///
/// # Examples
/// ```
/// let answer = ecru::block_on(async { 6 * 7 });
/// assert_eq!(answer, Ok(42));
/// ```
#[track_caller]
pub fn block_on<F: IntoFuture>(future: F) -> Result<F::Output, Cancelled> {
    let calls = SPARE.try_with(Cell::take).ok().flatten();
    let calls = calls.unwrap_or_else(|| Arc::new(Calls(Notify::new())));
    let output = poll_to_end(future, &calls)?;
    keep(calls);
    Ok(output)
}

#[track_caller]
fn poll_to_end<F: IntoFuture>(future: F, calls: &Arc<Calls>) -> Result<F::Output, Cancelled> {
    let mut future = pin!(future.into_future());
    checkpoint()?;
    let waker = Waker::from(Arc::clone(calls));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = in_poll(|| future.as_mut().poll(&mut context)) {
            return Ok(output);
        }
        calls.0.wait_as(const { &What::ending_by_itself("a future") })?;
    }
}

thread_local! {
    /// Calls without a waker, for the next `block_on` of this thread.
    static SPARE: Cell<Option<Arc<Calls>>> = const { Cell::new(None) };
}

/// Keeps the calls for the next `block_on`, unless there is still a waker.
fn keep(mut calls: Arc<Calls>) {
    if let Some(free) = Arc::get_mut(&mut calls) {
        // The last poll may have left a notification.
        *free = Calls(Notify::new());
        // On a thread that ends, they are freed.
        let _ = SPARE.try_with(|spare| spare.set(Some(calls)));
    }
}

/// The target of the wakers of one `block_on`. It is reference-counted and may outlive the call. A
/// notification says that the future has to be polled again.
struct Calls(Notify);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: the next poll sees what was done before this wake-up.
        self.0.notify_one();
    }
}
