//! [`wait`].

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};

use ecru::Cancelled;

use crate::enter;

/// Waits for a future and returns its output. The future may use whatever needs a tokio runtime:
/// timers, sockets, `tokio::spawn`. A task is parked, and a plain thread blocks.
///
/// The future is polled on the caller's own stack. It may borrow, and need not be `Send`.
///
/// Some functions need the runtime already when they make their future, such as
/// [`tokio::time::sleep`]. An `async` block calls them at its first poll, inside the runtime:
/// `wait(async { sleep(d).await })`. Otherwise they panic and say that there is no reactor running.
///
/// # Errors
/// Returns [`Cancelled`] if the wait is cancelled. The future has been dropped in this case.
///
/// # Panics
/// Panics inside [`no_suspend`](ecru::no_suspend), and if the future panics. A call of ecru that may
/// wait panics inside the future.
///
/// # Cancellation
/// This is a cancellation point before the first poll and whenever the future is not ready. What
/// dropping the future loses depends on the future. Tasks that it has spawned on tokio go on.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     let hour = Duration::from_secs(3600);
///     let slow = || ecru_tokio::wait(async { tokio::time::sleep(hour).await });
///     assert!(ecru::timeout(Duration::from_millis(1), slow).is_err());
/// });
/// ```
#[track_caller]
pub fn wait<F: IntoFuture>(future: F) -> Result<F::Output, Cancelled> {
    let slot = pin!(None);
    let mut inside = Inside(slot);
    // Some crates need the runtime even for this.
    enter(|| inside.0.set(Some(future.into_future())));
    ecru::block_on(poll_fn(|context| {
        enter(|| inside.0.as_mut().as_pin_mut().expect("it is there until the drop").poll(context))
    }))
}

/// A future that is dropped inside the runtime's context. Destructors of tokio's crates may spawn.
struct Inside<'f, F: Future>(Pin<&'f mut Option<F>>);

impl<F: Future> Drop for Inside<'_, F> {
    fn drop(&mut self) {
        enter(|| self.0.set(None));
    }
}
