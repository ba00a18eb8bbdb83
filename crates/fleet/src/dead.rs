//! Jobs that are not tried again.

use std::fmt;
use std::io;
use std::sync::Arc;

use ecru::channel::{self, Receiver, Sender};

use crate::codec::{self, Wire};
use crate::engine::{self, Sending, Terms};
use crate::errors::disconnected;
use crate::id::JobId;
use crate::shared::Shared;

/// How many of the dead are read ahead.
const AHEAD: usize = 16;

/// A job that has failed too often, or was [buried](crate::Job::bury). Dropping it leaves it where
/// it is.
///
/// # Examples
/// ```
/// use ecru_fleet::Fleet;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let orders = Fleet::local(s).queue::<u32>("orders").open()?;
///         for loaves in [0, 12] {
///             orders.send(loaves)?;
///             orders.jobs(1)?.recv()?.bury("the oven is broken")?;
///         }
///         // It has been repaired.
///         for dead in orders.dead()? {
///             assert_eq!((dead.reason(), dead.attempts()), ("the oven is broken", 1));
///             match dead.job() {
///                 Some(0) | None => dead.discard()?,
///                 Some(_) => dead.revive()?,
///             }
///         }
///         let stats = orders.stats()?;
///         assert_eq!((stats.queued + stats.running, stats.dead), (1, 0));
///         Ok::<(), std::io::Error>(())
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Dead<T> {
    job: Option<T>,
    id: JobId,
    number: u64,
    entry: engine::Dead,
    queue: Arc<Shared>,
}

/// Begins to read the dead that are there now.
pub(crate) fn begin<T: Wire>(queue: &Arc<Shared>) -> io::Result<Receiver<Dead<T>>> {
    let last = queue.engine()?.counts()?.last_dead;
    let (give, receiver) = channel::bounded(AHEAD);
    let own = Arc::clone(queue);
    queue.core.pull(Box::new(move || {
        // A reader sees the end of the channel. There is no room in it for an error.
        let _ = read(&own, last, &give);
    }))?;
    Ok(receiver)
}

fn read<T: Wire>(queue: &Arc<Shared>, last: u64, give: &Sender<Dead<T>>) -> io::Result<()> {
    let mut from = 1;
    while from <= last
        && let Some((number, entry)) = queue.engine()?.dead(from)?
        && number <= last
    {
        from = number + 1;
        let job = codec::decode("the job", &entry.payload).ok();
        let id = JobId::from_token(&entry.id);
        let dead = Dead { job, id, number, entry, queue: Arc::clone(queue) };
        if give.send(dead).is_err() {
            break;
        }
    }
    Ok(())
}

impl<T: Wire> Dead<T> {
    /// Returns the job, or `None` if it cannot be read.
    #[must_use]
    pub fn job(&self) -> Option<&T> {
        self.job.as_ref()
    }

    /// Returns the id that the job had.
    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Returns why it is dead.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.entry.reason
    }

    /// Returns the priority that it had: see [`Queue::priority`](crate::Queue::priority).
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.entry.priority
    }

    /// Returns how often it was begun.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.entry.attempts
    }

    /// Sends the job again, under its id and with its priority, and removes it from the dead. Its
    /// attempts count from 1.
    ///
    /// # Errors
    /// Returns `NotFound` if the job was revived or discarded meanwhile, and nothing is sent then.
    /// Returns `QuotaExceeded` if the queue is full, `AlreadyExists` if a job with the id is queued
    /// or running, `NotConnected` after the end of the fleet, and errors of the server. The job is
    /// among the dead then. If the server does not answer, it may also be in the queue.
    ///
    /// # Cancellation
    /// This is a cancellation point. The job may have been sent all the same, and then be among the
    /// dead as well.
    pub fn revive(self) -> io::Result<()> {
        let engine = self.queue.engine()?;
        let failed = |kind, text: &str| Err(io::Error::new(kind, text));
        // Another reader may have revived or discarded it. It may have been worked on since.
        if engine.dead(self.number)?.is_none_or(|(number, _)| number != self.number) {
            return failed(
                io::ErrorKind::NotFound,
                "the job is not among the dead any more; it was revived or discarded meanwhile",
            );
        }
        let terms = Terms { priority: self.entry.priority, ..Terms::default() };
        let sending =
            engine.begin_send(&self.entry.id, self.entry.payload.clone(), None, &terms)?;
        match sending.wait()? {
            Sending::New => {}
            Sending::Already => {
                return failed(
                    io::ErrorKind::AlreadyExists,
                    "a job with the id is queued or running; revive this one later, or discard it",
                );
            }
            Sending::Full => {
                return failed(
                    io::ErrorKind::QuotaExceeded,
                    "the queue is full; revive the job later, or raise the capacity",
                );
            }
            Sending::Disconnected => return Err(disconnected()),
            Sending::Unknown => {
                return failed(
                    io::ErrorKind::TimedOut,
                    "there is no answer, so the job is perhaps in the queue",
                );
            }
            Sending::Unavailable(error) | Sending::Refused(error) => return Err(error),
        }
        engine.discard(self.number).map(drop)
    }

    /// Removes the job for good.
    ///
    /// # Errors
    /// Returns `NotConnected` after the end of the fleet, and errors of the server.
    ///
    /// # Cancellation
    /// This is a cancellation point. The job may have been removed all the same.
    pub fn discard(self) -> io::Result<()> {
        self.queue.engine()?.discard(self.number).map(drop)
    }
}

impl<T: fmt::Debug> fmt::Debug for Dead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dead")
            .field("job", &self.job)
            .field("attempts", &self.entry.attempts)
            .field("reason", &self.entry.reason)
            .finish_non_exhaustive()
    }
}
