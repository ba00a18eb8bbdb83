//! Jobs of a key in order.

use crate::codec::Wire;
use crate::queue::QueueBuilder;

impl<T: Wire> QueueBuilder<T> {
    /// Hands out the jobs of each key in the order in which they were stored, one at a time. `jobs`
    /// must be 1. From then on, [`send_keyed`](crate::Queue::send_keyed) stores each job, whatever
    /// jobs of its key there are, and the id of a job is the key, `/`, and a random name. Jobs
    /// without a key are not concerned.
    ///
    /// The next job of a key is handed out when the one before it is done, dead or cancelled. So a
    /// job that waits for a retry holds up those behind it. A job that is
    /// [revived](crate::Dead::revive) comes last. A holder that stands still and has not noticed
    /// that its lease has ended may work beside the next ones, as with each queue, and
    /// [`fence`](crate::Job::fence) is greater for each later job.
    ///
    /// This is a setting of the whole fleet, and it stays. Jobs that were sent before are not
    /// concerned. On servers, a job that is behind another one is looked at again after 50 ms for
    /// each job before it in the queue, and after five seconds at most. It counts as running
    /// meanwhile, so such a queue has no [`limit`](QueueBuilder::limit). It has no
    /// [`priorities`](QueueBuilder::priorities) either, which would be another order.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let moves = Fleet::local(s).queue::<i32>("moves").per_key(1).open()?;
    ///         for number in [1, 2] {
    ///             moves.send_keyed("ann", number)?;
    ///         }
    ///         let jobs = moves.jobs(2)?;
    ///         let first = jobs.recv()?;
    ///         assert!(jobs.try_recv().is_err());
    ///         first.done()?;
    ///         assert_eq!(*jobs.recv()?, 2);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn per_key(mut self, jobs: usize) -> Self {
        self.settings.per_key = Some(jobs);
        self.settings.shared.per_key = Some(true);
        self
    }
}
