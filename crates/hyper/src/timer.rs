//! The clock for hyper's time limits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ecru::channel::{self, Receiver};
use ecru::source::{Source, SourceFuture};
use hyper::rt::{Sleep, Timer};

/// ecru's clock for hyper, for the `timer` methods of hyper's builders. They need it for limits
/// such as `header_read_timeout`.
///
/// # Examples
/// ```
/// use ecru_hyper::EcruTimer;
/// use hyper::rt::Timer;
/// use std::time::Duration;
///
/// assert_eq!(ecru::block_on(EcruTimer.sleep(Duration::from_millis(1))), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EcruTimer;

/// A time that is waited for.
struct Moment {
    // This is only accessed through `&mut`. The lock makes it `Sync`, which hyper requires.
    due: Mutex<SourceFuture<Receiver<Instant>>>,
}

impl Moment {
    fn at(due: Instant) -> Moment {
        Moment { due: Mutex::new(channel::at(due).to_future()) }
    }
}

impl Future for Moment {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let due = self.due.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The result is the time, or the end of the channel if the future was polled after its
        // completion.
        let _ = ready!(Pin::new(due).poll(context));
        Poll::Ready(())
    }
}

impl Sleep for Moment {}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Moment")
    }
}

impl Timer for EcruTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        // A time beyond the last `Instant` is at least a lifetime away.
        const LIFETIME: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let now = Instant::now();
        let due = now.checked_add(duration).unwrap_or_else(|| now + LIFETIME);
        Box::pin(Moment::at(due))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Moment::at(deadline))
    }
}
