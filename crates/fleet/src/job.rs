//! A job that was handed out.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ecru::Cancelled;

use crate::engine::{Dead, Lease};
use crate::errors::{LeaseLost, invalid};
use crate::held::Held;
use crate::id::JobId;
use crate::queue::Shared;
use crate::settings::LONGEST_PAUSE;

/// A job that was handed out, and the lease on it. It dereferences to the job itself.
///
/// The lease is renewed as long as the `Job` exists. [`done`](Job::done) removes the job from the
/// queue. [`retry_after`](Job::retry_after) and dropping it return it to the queue.
/// [`bury`](Job::bury) moves it to the dead. If the process dies, the lease expires and the job
/// is handed out again.
///
/// A job runs at least once. It may run twice at the same time, if a lease was lost and its holder
/// has not noticed yet. Work inside [`run`](Job::run), which is cancelled then. Guard effects
/// outside of the fleet by the [`fence`](Job::fence).
///
/// A job that was received and is worked on without `run` is not waited for when the scope of the
/// fleet is cancelled.
///
/// # Examples
/// ```
/// use ecru_fleet::Fleet;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let letters = Fleet::local(s).queue::<String>("letters").open()?;
///         letters.send("hello".to_owned())?;
///         let job = letters.jobs(1)?.recv()?;
///         let length = job.run(|text| text.len())?;
///         assert_eq!((length, job.attempt()), (5, 1));
///         job.done()
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Job<T> {
    value: T,
    guard: Guard,
}

/// The lease of a job.
pub(crate) struct Guard {
    pub(crate) held: Arc<Held>,
    queue: Arc<Shared>,
}

impl<T> Job<T> {
    pub(crate) fn new(value: T, held: Arc<Held>, queue: Arc<Shared>) -> Job<T> {
        Job { value, guard: Guard { held, queue } }
    }

    /// Returns the id of the job.
    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.guard.held.id
    }

    /// Returns how often the job was handed out, this time included.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.guard.held.attempt
    }

    /// Returns a pair that is greater each time the job is handed out, and greater for each job
    /// that was sent later. A system outside of the fleet that stores the greatest fence it has
    /// seen can refuse a holder whose lease was lost.
    #[must_use]
    pub fn fence(&self) -> (u64, u32) {
        (self.guard.held.sequence, self.guard.held.attempt)
    }

    /// Works on the job in place. If the lease is lost or the job is cancelled, the waits inside
    /// `f` are cancelled.
    ///
    /// # Errors
    /// Returns [`LeaseLost`] if the lease was lost before `f` has ended. What `f` has returned is
    /// dropped then.
    ///
    /// # Cancellation
    /// This is a cancellation point only as far as `f` is.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::{Fleet, LeaseLost};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let naps = Fleet::local(s).queue::<u64>("naps").open()?;
    ///         naps.send(3600)?;
    ///         let job = naps.jobs(1)?.recv()?;
    ///         let result = job.run(|seconds| {
    ///             naps.cancel(job.id()).unwrap();
    ///             ecru::sleep(std::time::Duration::from_secs(*seconds))
    ///         });
    ///         assert_eq!(result, Err(LeaseLost::Cancelled));
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run<R>(&self, f: impl FnOnce(&T) -> R) -> Result<R, LeaseLost> {
        self.guard.run(|| f(&self.value))
    }

    /// Removes the job from the queue. Returns when that is stored.
    ///
    /// # Errors
    /// Returns the [`LeaseLost`], if it is; then nothing was removed. Returns `NotConnected` after
    /// the end of the fleet, and other errors if the server does not answer. The job is perhaps
    /// handed out again then.
    ///
    /// # Cancellation
    /// This is not a cancellation point, because the work has been done. The wait ends when the
    /// lease does.
    pub fn done(self) -> io::Result<()> {
        self.guard.settle(|lease| lease.done())
    }

    /// Returns the job to the queue, to be handed out again after a pause of at least `d`, or of
    /// 100 years if that is shorter.
    ///
    /// # Errors
    /// Returns the errors of [`done`](Job::done). Returns `InvalidInput` if the queue has a
    /// [limit](crate::QueueBuilder::limit) and the pause is longer than the lease. The job is
    /// returned all the same, with the pause of the queue's settings.
    ///
    /// # Cancellation
    /// This is not a cancellation point. The wait ends when the lease does.
    pub fn retry_after(self, d: Duration) -> io::Result<()> {
        self.guard.retry_after(d)
    }

    /// Moves the job to the [dead](crate::Queue::dead), with the reason. A reason is cut after
    /// 4 KiB, and earlier if the server has no room for it beside a very large job.
    ///
    /// # Errors
    /// Returns the errors of [`done`](Job::done). The job may be among the dead all the same, and
    /// in the queue, too.
    ///
    /// # Cancellation
    /// This is not a cancellation point. The wait ends when the lease does.
    pub fn bury(self, why: &str) -> io::Result<()> {
        self.guard.bury(why)
    }

    pub(crate) fn into_parts(self) -> (T, Guard) {
        (self.value, self.guard)
    }
}

impl Guard {
    pub(crate) fn run<R>(&self, f: impl FnOnce() -> R) -> Result<R, LeaseLost> {
        ecru::cancel_scope(|handle| {
            let inside = self.held.enter(handle)?;
            let result = f();
            drop(inside);
            match self.held.lost() {
                None => Ok(result),
                Some(lost) => Err(lost),
            }
        })
    }

    /// Settles the job. The wait ends only when the lease does.
    pub(crate) fn settle(self, how: impl FnOnce(&dyn Lease) -> io::Result<()>) -> io::Result<()> {
        self.held.core().check()?;
        ecru::shield(|| {
            ecru::cancel_scope(|handle| {
                let _inside = self.held.enter(handle)?;
                self.held.settle()?;
                how(&*self.held.lease).map_err(|error| match self.held.lost() {
                    Some(lost) if Cancelled::find(&error).is_some() => lost.into(),
                    _ => error,
                })
            })
        })
    }

    pub(crate) fn retry_after(self, d: Duration) -> io::Result<()> {
        let settings = &self.queue.settings;
        if settings.limit.is_some() && d > settings.lease {
            return Err(invalid(format!(
                "a pause of {d:?} before a retry is longer than the lease of {:?}, and queue {:?} \
                 has a limit; a job in a pause counts as running, so the queue would stall; raise \
                 the lease, shorten the pause, or open the queue without a limit",
                settings.lease, self.queue.name,
            )));
        }
        self.settle(|lease| lease.retry(d.min(LONGEST_PAUSE)))
    }

    pub(crate) fn bury(self, why: &str) -> io::Result<()> {
        let queue = Arc::clone(&self.queue);
        let dead = dead(&self.held, self.held.attempt, why);
        self.settle(|lease| {
            queue.bury(&dead)?;
            lease.terminate(&dead.reason)
        })
    }
}

/// The longest reason, in bytes.
const MAX_REASON: usize = 4096;

/// Returns a reason that is not longer than that.
pub(crate) fn cut(why: &str) -> &str {
    &why[..why.floor_char_boundary(MAX_REASON)]
}

fn dead(held: &Held, attempts: u32, why: &str) -> Dead {
    Dead {
        id: held.token.clone(),
        sequence: held.sequence,
        attempts,
        reason: cut(why).to_owned(),
        payload: held.payload.clone(),
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(is_fresh) = self.held.release() {
            // A job that was never begun has not failed.
            let delay = if is_fresh && self.held.is_finished() {
                Duration::ZERO
            } else {
                self.queue.settings.pause(self.held.attempt)
            };
            self.held.lease.give_back(delay);
        }
    }
}

impl<T> Deref for Job<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", self.id())
            .field("attempt", &self.attempt())
            .field("value", &self.value)
            .finish()
    }
}
