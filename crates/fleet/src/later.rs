//! Sending jobs for later.

use std::time::{Duration, SystemTime};

use crate::codec::Wire;
use crate::errors::SendError;
use crate::id::JobId;
use crate::queue::Queue;
use crate::send::{Pending, Sent};
use crate::settings::LONGEST_PAUSE;
use crate::wall::wall;

impl<T: Wire> Queue<T> {
    /// Sends a job that is handed out no sooner than after this time. It is stored at once, and it
    /// counts as queued or running until then. In a queue with a
    /// [limit](crate::QueueBuilder::limit) the time is at most the lease, because a job that waits
    /// takes a place there.
    ///
    /// The time is measured by the server that stores the job and by the clock of the worker that
    /// gets it, so their difference is the inaccuracy.
    ///
    /// # Errors
    /// Returns the errors of [`send`](Queue::send), and [`SendError::Refused`] if the time is too
    /// long for a queue with a limit.
    ///
    /// # Cancellation
    /// This is a cancellation point. The job may have been stored all the same.
    ///
    /// # Examples
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let letters = Fleet::local(s).queue::<String>("letters").open()?;
    ///         let (begun, pause) = (Instant::now(), Duration::from_millis(20));
    ///         letters.send_after(pause, "later".to_owned())?;
    ///         letters.jobs(1)?.recv()?.done()?;
    ///         assert!(begun.elapsed() >= pause);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_after(&self, d: Duration, job: T) -> Result<Sent, SendError<T>> {
        let after = d.min(LONGEST_PAUSE);
        Pending::begin(self.shared(), JobId::generate(), job, self.terms(after)).finish()
    }

    /// Sends a job that is handed out no sooner than at this time:
    /// [`send_after`](Queue::send_after) the time from now until then. A time that is over is now.
    ///
    /// # Errors
    /// Returns the errors of [`send_after`](Queue::send_after).
    ///
    /// # Cancellation
    /// This is a cancellation point. The job may have been stored all the same.
    ///
    /// # Examples
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let letters = Fleet::local(s).queue::<String>("letters").open()?;
    ///         let tomorrow = SystemTime::now() + Duration::from_secs(24 * 3600);
    ///         letters.send_at(tomorrow, "later".to_owned())?;
    ///         assert!(letters.jobs(1)?.try_recv().is_err());
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_at(&self, when: SystemTime, job: T) -> Result<Sent, SendError<T>> {
        let when = when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.send_after(when.saturating_sub(wall()), job)
    }
}
