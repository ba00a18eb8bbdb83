//! Layer 11: futures in direct style. (Sources as futures are [`source`](crate::source)'s: see
//! [`Source::to_future`].)

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::park::WaitList;
use crate::source::Source;
use crate::task::{Cancelled, checkpoint};

/// Waits for a future, and returns what it gives: parks the task, or blocks the thread. The future is polled here, on the caller's
/// own stack, and need not be `Send`.
///
/// A future that needs a runtime's timers or sockets needs that runtime still: this only polls it.
///
/// # Errors
/// [`Cancelled`] when the wait is cancelled. The future has been dropped then.
///
/// # Panics
/// Inside [`no_suspend`](crate::no_suspend), and when the future does.
///
/// # Cancellation
/// A cancel point, before the first poll and whenever the future is not ready. What is lost with the future is the future's affair.
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

/// What the wakers of one `block_on` point to. They are counted, and may outlive it.
struct Calls {
    /// To poll again.
    called: AtomicBool,
    waiters: WaitList,
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: the next poll sees what was done before the call.
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
