//! A future of a time: [`Sleep`].

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use crate::base::alarm::{Alarm, Ring};
use crate::base::clock;
use crate::sched::Nap;
use crate::task;

/// A future that is ready when a time has come, for code that polls. Code in direct style calls
/// [`sleep`](crate::sleep).
///
/// On a worker of a run, it is a timer of that worker. It may also be polled on any other thread,
/// moved between polls, and dropped anywhere.
///
/// # Examples
/// ```
/// use ecru::time::Sleep;
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         for _ in 0..100 {
///             // Each of them takes less than 500 bytes while it sleeps.
///             s.spawn_future(Sleep::new(Duration::from_millis(1)));
///         }
///     });
/// });
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    /// `None` stands for a time that is not representable, which never comes.
    due: Option<Instant>,
    /// Set by the first poll that has to wait.
    nap: Option<Arc<Nap>>,
    /// Rings the nap where no worker does.
    alarm: Option<Alarm>,
}

impl Sleep {
    /// Creates a future that is ready after this time, which begins now.
    pub fn new(duration: Duration) -> Sleep {
        Sleep { due: clock::now().checked_add(duration), nap: None, alarm: None }
    }

    /// Creates a future that is ready at this time.
    pub fn until(deadline: Instant) -> Sleep {
        Sleep { due: Some(deadline), nap: None, alarm: None }
    }

    fn forget(&mut self) {
        self.alarm = None;
        if let Some(nap) = self.nap.take() {
            nap.cancel();
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if let Some(nap) = &this.nap
            && nap.is_set(cx.waker())
        {
            return Poll::Pending;
        }
        let Some(due) = this.due else { return Poll::Pending };
        this.forget();
        if due <= clock::now() {
            ready!(task::poll_budget(cx));
            task::spend_poll_budget(1);
            return Poll::Ready(());
        }
        // Also again if the worker that kept the time has ended.
        let nap = Nap::set(due, cx.waker().clone());
        if !nap.is_of_worker() {
            let nap: Weak<Nap> = Arc::downgrade(&nap);
            let nap: Weak<dyn Ring> = nap;
            this.alarm = Some(Alarm::set(due, nap));
        }
        this.nap = Some(nap);
        Poll::Pending
    }
}

/// Nothing is woken after this.
impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}
