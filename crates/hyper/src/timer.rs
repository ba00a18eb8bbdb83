//! The clock for hyper's time limits.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ecru::time::Sleep;
use hyper::rt::Timer;

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
#[derive(Debug)]
struct Moment(Sleep);

impl Future for Moment {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl hyper::rt::Sleep for Moment {}

impl Timer for EcruTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Moment(Sleep::new(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Moment(Sleep::until(deadline)))
    }

    fn now(&self) -> Instant {
        ecru::time::now()
    }
}
