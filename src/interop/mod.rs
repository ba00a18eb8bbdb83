//! Layer 11: futures in direct style.
//!
//! The other direction, a source as a future, is part of [`source`](crate::source): see
//! [`Source::to_future`].

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::park::WaitList;
use crate::source::Source;
use crate::task::{Cancelled, checkpoint};

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
    let mut future = pin!(future.into_future());
    checkpoint()?;
    let calls = Arc::new(Calls { called: AtomicBool::new(false), waiters: WaitList::new() });
    let waker = Waker::from(Arc::clone(&calls));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        calls.wait()?;
    }
}

/// The target of the wakers of one `block_on`. It is reference-counted and may outlive the call.
struct Calls {
    /// Whether the future has to be polled again.
    called: AtomicBool,
    waiters: WaitList,
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: the next poll sees what was done before this wake-up.
        self.called.store(true, Ordering::Release);
        self.waiters.notify_one();
    }
}

impl Source for Calls {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.called.swap(false, Ordering::Acquire).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.waiters);
    }
}
