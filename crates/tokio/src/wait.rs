//! [`wait`].

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use ecru::Cancelled;
use tokio::runtime::Handle;

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

/// Makes a future that is polled and dropped inside the context of the tokio runtime, wherever that
/// is. It suits futures that ecru polls, such as the handlers of `ecru_hyper::serve`: they may then
/// await what needs tokio's reactor, such as a query of sqlx's.
///
/// # Examples
/// All handlers of axum's router, unchanged:
/// ```
/// use axum::Router;
/// use axum::extract::Request;
/// use axum::middleware::{self, Next};
/// use axum::response::Response;
/// use axum::routing::get;
///
/// async fn in_tokio(request: Request, next: Next) -> Response {
///     ecru_tokio::inside(next.run(request)).await
/// }
///
/// let slow = async || tokio::time::sleep(std::time::Duration::from_millis(1)).await;
/// let router: Router =
///     Router::new().route("/", get(slow)).layer(middleware::from_fn(in_tokio));
/// # drop(router);
/// ```
pub fn inside<F: IntoFuture>(future: F) -> InTokio<F::IntoFuture> {
    InTokio { future: enter(|| Some(Box::pin(future.into_future()))) }
}

/// A future inside the context of the tokio runtime, returned by [`inside`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct InTokio<F> {
    /// `None` once it has been dropped.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for InTokio<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.future.as_mut().expect("it is there until the drop");
        enter(|| future.as_mut().poll(context))
    }
}

impl<F> Drop for InTokio<F> {
    fn drop(&mut self) {
        drop_inside(|| self.future = None);
    }
}

/// A future that is dropped inside the runtime's context. Destructors of tokio's crates may spawn.
struct Inside<'f, F: Future>(Pin<&'f mut Option<F>>);

impl<F: Future> Drop for Inside<'_, F> {
    fn drop(&mut self) {
        drop_inside(|| self.0.set(None));
    }
}

/// Calls a function inside the runtime's context. In the destructor of a thread-local value, the
/// thread may have no place for the context any more. Then the function is called without it.
fn drop_inside(f: impl FnOnce()) {
    let is_gone = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
    if is_gone { f() } else { enter(f) }
}
