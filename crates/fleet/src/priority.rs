//! Priorities of jobs.

use std::io;
use std::time::Duration;

use crate::codec::Wire;
use crate::engine::{PRIORITIES, Terms};
use crate::errors::invalid;
use crate::queue::{Queue, QueueBuilder};
use crate::shared::Shared;

impl<T: Wire> QueueBuilder<T> {
    /// Lets jobs of the queue have priorities from 0 to 3, which [`Queue::priority`] gives them. 0
    /// is the most urgent, and what jobs have that are sent without one.
    ///
    /// # Order
    /// A process that can begin another job gets the most urgent one that is queued. After eight
    /// jobs it gets one of a less urgent priority, if there is one, so nothing waits for ever: of
    /// each 24 jobs that come from [`jobs`](Queue::jobs) in a row, one at least is of each priority
    /// that has had jobs all the time. Within a priority, jobs come in the order in which they were
    /// stored, but for those that are tried again.
    ///
    /// Jobs are asked for ahead, as many as the window of `jobs` has places. Those that wait in the
    /// process are sorted, too: a more urgent job that comes later overtakes all of them but one,
    /// which is in the channel already. It does not interrupt the jobs that were received. If a
    /// process has no free place, the job goes to another one.
    ///
    /// A job keeps its priority when it is tried again, and when it is
    /// [revived](crate::Dead::revive). A key is unique whatever the priorities of its jobs are.
    ///
    /// # In the whole fleet
    /// This is a setting of the whole fleet, and it stays. A queue that is in use can get it: the
    /// jobs that are there have the priority 0, and processes that take jobs are told. A process
    /// that only sends learns of it when it first sends a job with a priority, or opens the queue
    /// again. Until then, it may store a job with the key of a less urgent one that is queued.
    ///
    /// On servers, such a queue costs more: each priority has a consumer of its own, and the first
    /// request for a job may find that there is none of the most urgent. With a
    /// [`limit`](QueueBuilder::limit), each job also takes a place that the server lends. Jobs that
    /// do nothing were handed out to one process at 0.35 to 0.98 of the rate of a queue without
    /// priorities, which was 12,000 to 38,000 of them a second with a window of 256. There is
    /// no order of keys, so [`per_key`](QueueBuilder::per_key) is refused.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let mails = Fleet::local(s).queue::<String>("mails").priorities().open()?;
    ///         let newsletters = mails.priority(3);
    ///         newsletters.send_all(["to ann", "to bob"].map(String::from))?;
    ///         mails.send("a new password".to_owned())?;
    ///         let first = mails.jobs(1)?.recv()?;
    ///         assert_eq!((&**first, first.priority()), ("a new password", 0));
    ///         first.done()?;
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn priorities(mut self) -> Self {
        self.settings.shared.priorities = Some(true);
        self
    }
}

impl<T: Wire> Queue<T> {
    /// Returns a handle of this queue whose jobs have a priority: from 0, the most urgent, to 3,
    /// the least urgent. That concerns all that is sent by it, schedules and batches included, and
    /// nothing else. The queue must have [`priorities`](QueueBuilder::priorities).
    ///
    /// Sending by a handle with another number, or to a queue without priorities, fails: as
    /// [`SendError::Refused`](crate::SendError::Refused), or `InvalidInput` for a schedule.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use ecru_fleet::{Fleet, SendError};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let fleet = Fleet::local(s);
    ///         let mails = fleet.queue::<String>("mails").priorities().open()?;
    ///         mails.priority(1).send("soon".to_owned())?;
    ///         mails.priority(3).send_keyed("digest", "some day".to_owned())?;
    ///         mails.priority(2).send_after(Duration::from_secs(60), "later".to_owned())?;
    ///         assert_eq!(mails.stats()?.queued_by_priority, [0, 1, 1, 1]);
    ///         let refused = mails.priority(4).send("never".to_owned());
    ///         assert!(matches!(refused, Err(SendError::Refused { .. })));
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use = "the returned handle sends jobs with the priority"]
    pub fn priority(&self, priority: u8) -> Queue<T> {
        let mut queue = self.clone();
        queue.priority = priority;
        queue
    }

    /// Returns how jobs are sent by this handle.
    pub(crate) fn terms(&self, after: Duration) -> Terms {
        Terms { after, priority: self.priority, trace: self.shared.trace() }
    }
}

impl Shared {
    /// Returns the trace of what is sent here.
    pub(crate) fn trace(&self) -> Option<String> {
        #[cfg(feature = "tracing")]
        return crate::trace::current(&self.core, self);
        #[cfg(not(feature = "tracing"))]
        None
    }

    /// Fails if the queue has no such priority.
    pub(crate) fn check_priority(&self, priority: u8) -> io::Result<()> {
        if usize::from(priority) >= PRIORITIES {
            return Err(invalid(format!(
                "{} {:?}: the priority is {priority}, and must be 0, the most urgent, to 3",
                self.what, self.name
            )));
        }
        if priority == 0 || self.has_priorities() {
            return Ok(());
        }
        // Another process may have given it priorities since.
        self.look()?;
        if self.has_priorities() {
            return Ok(());
        }
        Err(invalid(format!(
            "{} {:?} has no priorities, so a job cannot have the priority {priority}; open it with \
             `.priorities()`",
            self.what, self.name
        )))
    }
}
