//! A job that was handed out.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Dead;
use crate::errors::LeaseLost;
use crate::held::Held;
use crate::id::JobId;
use crate::progress::Progress;
use crate::settle::{How, Unsettled};
use crate::shared::Shared;

/// A job that was handed out, and the lease on it. It dereferences to the job itself.
///
/// The lease is renewed as long as the `Job` exists. [`done`](Job::done) removes the job from the
/// queue. [`retry_after`](Job::retry_after) and dropping it return it to the queue.
/// [`bury`](Job::bury) moves it to the dead. If the process dies, the lease expires and the job
/// is handed out again.
///
/// A job runs at least once. It may run twice at the same time, if a lease was lost and its holder
/// has not noticed yet. Work inside [`run`](Job::run), which is cancelled then. Guard effects
/// outside of the fleet by the [`fence`](Job::fence): see
/// [what a fleet cannot fence](crate#what-a-fleet-cannot-fence).
///
/// An attempt begins in [`run`](Job::run), which records that before it calls the closure, and when
/// the job is settled. Outside of `run` it begins with the first look at the job, its
/// [attempt](Job::attempt) or its [fence](Job::fence), which is recorded soon after.
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
///         job.done()?;
///         Ok::<(), std::io::Error>(())
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
    pub(crate) queue: Arc<Shared>,
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

    /// Returns the priority of the job, from 0, the most urgent, to 3: see
    /// [`Queue::priority`](crate::Queue::priority).
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.guard.held.given.priority
    }

    /// Returns how often the work on the job has begun, this time included. Times that it was only
    /// handed out do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.guard.held.look();
        self.guard.held.attempt()
    }

    /// Returns a pair that is greater each time the job is handed out, and greater for each job
    /// that was sent later. A system outside of the fleet that stores the greatest fence it has
    /// seen can refuse a holder whose lease was lost.
    #[must_use]
    pub fn fence(&self) -> (u64, u32) {
        self.guard.held.look();
        self.guard.held.fence()
    }

    /// Reports how far the job is, for [`Queue::progress`](crate::Queue::progress),
    /// [`Queue::stats`](crate::Queue::stats) and the program `fleet`. The report replaces the one
    /// before it, and is removed when the job is done or handed out again.
    ///
    /// This never waits, and it may be called often: about two reports a second are sent, and the
    /// last one at the latest after a third of a lease. A report that is lost with a connection is
    /// replaced by the next one. A job without a newer report for a day has none.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::{Fleet, Progress};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let scans = Fleet::local(s).queue::<u64>("scans").open()?;
    ///         scans.send(200)?;
    ///         let job = scans.jobs(1)?.recv()?;
    ///         job.run(|pages| {
    ///             for page in 0..*pages {
    ///                 job.progress(&Progress::new(page, *pages).with_text("scanning"));
    ///             }
    ///         })?;
    ///         job.done()?;
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn progress(&self, progress: &Progress) {
        self.guard.held.look();
        self.guard.held.report(progress);
    }

    /// Works on the job in place. If the lease is lost or the job is cancelled, the waits inside
    /// `f` are cancelled.
    ///
    /// # Blocking
    /// `f` may block its thread, by [`std::thread::sleep`] or a long computation. Leases are
    /// renewed by a thread of their own, with a connection of their own, so neither this job nor
    /// any other one loses its lease by that. The other tasks of the blocked thread wait, and so
    /// may all that needs the fleet's first connection: `done` returns later, and jobs that are on
    /// their way to this process are handed out again elsewhere, which is no attempt. So call what
    /// blocks or computes for long by [`ecru::unblock`], which this waits for.
    ///
    /// The thread starts when the fleet begins to take jobs. It costs one connection to the
    /// servers, and it wakes up once in each third of the lease.
    ///
    /// # Errors
    /// Returns [`LeaseLost`] if the lease was lost before `f` has ended, or if `f` took longer than
    /// the [time limit](crate::QueueBuilder::time_limit). What `f` has returned is dropped then.
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
        self.guard.run(|| self.guard.limited(|| f(&self.value)))?
    }

    /// Removes the job from the queue. Returns when that is stored, which is asked for again and
    /// again until the lease ends. Of all attempts at a job one gets `Ok`.
    ///
    /// # Errors
    /// Returns [`Unsettled::Lost`] if the lease has ended by the holder's clock, a later attempt
    /// has begun, the job was cancelled, or the fleet has ended: nothing was removed by this call.
    /// Returns [`Unsettled::Unknown`] if the server has not answered before the end of the lease.
    ///
    /// # Cancellation
    /// This is not a cancellation point, because the work has been done. The wait ends when the
    /// lease does.
    pub fn done(self) -> Result<(), Unsettled<T>> {
        self.guard.settle(self.value, How::Done)
    }

    /// Returns the job to the queue, to be handed out again after a pause of at least `d`, or of
    /// 100 years if that is shorter. In a queue with a [limit](crate::QueueBuilder::limit) a pause
    /// is cut to the lease, because a job in a pause counts as running.
    ///
    /// # Errors
    /// Returns the errors of [`done`](Job::done). The job is handed out again in each case, perhaps
    /// after another pause.
    ///
    /// # Cancellation
    /// This is not a cancellation point. The wait ends when the lease does.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let mails = Fleet::local(s).queue::<String>("mails").open()?;
    ///         mails.send("ann".to_owned())?;
    ///         let jobs = mails.jobs(1)?;
    ///         // The mail server is busy.
    ///         jobs.recv()?.retry_after(Duration::from_millis(1))?;
    ///         let again = jobs.recv()?;
    ///         assert_eq!(again.attempt(), 2);
    ///         again.done()?;
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn retry_after(self, d: Duration) -> Result<(), Unsettled<T>> {
        let pause = self.guard.queue.pause(d);
        self.guard.settle(self.value, How::Retry(pause))
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
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let mails = Fleet::local(s).queue::<String>("mails").open()?;
    ///         mails.send("nobody".to_owned())?;
    ///         mails.jobs(1)?.recv()?.bury("there is no such user")?;
    ///         assert_eq!(mails.dead()?.recv()?.reason(), "there is no such user");
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn bury(self, why: &str) -> Result<(), Unsettled<T>> {
        // The attempt has its number from then on. If it is lost, this is seen again.
        let _ = self.guard.held.begin();
        let dead = self.guard.dead(why);
        self.guard.settle(self.value, How::Bury(dead))
    }

    #[cfg(feature = "tracing")]
    pub(crate) fn held(&self) -> &Held {
        &self.guard.held
    }

    /// Returns whether the lease is lost, or the job was cancelled.
    pub(crate) fn is_lost(&self) -> bool {
        self.guard.held.lost().is_some()
    }

    pub(crate) fn into_parts(self) -> (T, Guard) {
        (self.value, self.guard)
    }
}

impl Guard {
    /// Begins the attempt, and calls `f`, whose waits are cancelled if the lease is lost.
    pub(crate) fn run<R>(&self, f: impl FnOnce() -> R) -> Result<R, LeaseLost> {
        ecru::cancel_scope(|handle| {
            let inside = self.held.enter(handle)?;
            self.held.begin()?;
            #[cfg(feature = "tracing")]
            let result = crate::trace::run(&self.held, &self.queue, f);
            #[cfg(not(feature = "tracing"))]
            let result = f();
            drop(inside);
            match self.held.lost() {
                None => Ok(result),
                Some(lost) => Err(lost),
            }
        })
    }

    /// Calls `f`, whose waits are cancelled at the time limit of an attempt.
    pub(crate) fn limited<R>(&self, f: impl FnOnce() -> R) -> Result<R, LeaseLost> {
        let Some(limit) = self.queue.settings.time_limit else { return Ok(f()) };
        ecru::timeout(limit, f).map_err(|_| {
            self.held.exceed_limit();
            LeaseLost::TimeLimit
        })
    }

    /// Returns what becomes of an attempt that has failed for this reason.
    pub(crate) fn after_failure(&self, pause: Option<Duration>, why: &str) -> How {
        let attempt = self.held.attempt();
        if attempt >= self.queue.settings.attempts {
            return How::Bury(self.dead(why));
        }
        let pause = match pause {
            Some(pause) => self.queue.pause(pause),
            None => self.queue.pause_after(attempt),
        };
        How::Retry(pause)
    }

    /// Returns the reason of an attempt that has exceeded its time limit.
    pub(crate) fn limit_reason(&self) -> String {
        let limit = self.queue.settings.time_limit.unwrap_or_default();
        format!("attempt {} took longer than the time limit of {limit:?}", self.held.attempt())
    }

    /// Returns the job as it is stored among the dead.
    pub(crate) fn dead(&self, why: &str) -> Dead {
        let given = &self.held.given;
        Dead {
            id: given.id.clone(),
            sequence: given.sequence,
            attempts: self.held.attempt(),
            reason: cut(why).to_owned(),
            payload: given.payload.clone(),
            priority: given.priority,
        }
    }
}

/// The longest reason, in bytes.
const MAX_REASON: usize = 4096;

/// Returns a reason that is not longer than that.
pub(crate) fn cut(why: &str) -> &str {
    let end = (0..=MAX_REASON).rev().find(|end| why.is_char_boundary(*end));
    &why[..end.unwrap_or(0)]
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.held.remove_report_later();
        match self.held.release() {
            Some(_) if self.held.has_exceeded_limit() => {
                let guard = Guard { held: Arc::clone(&self.held), queue: Arc::clone(&self.queue) };
                let settling = self.held.core().keep(Box::new(move || {
                    guard.fail_late(&guard.after_failure(None, &guard.limit_reason()));
                }));
                if settling.is_err() {
                    self.held.given.lease.give_back(self.queue.pause_after(self.held.attempt()));
                }
            }
            Some(is_fresh) => {
                self.held.give_back(is_fresh, self.queue.pause_after(self.held.attempt()));
            }
            None => self.held.count_later(),
        }
    }
}

impl<T> Deref for Job<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.held.look();
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", self.id())
            .field("attempt", &self.guard.held.attempt())
            .field("value", &self.value)
            .finish()
    }
}
