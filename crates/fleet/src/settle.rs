//! How a delivery of a job ends, and what is known of it.

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::time::Duration;

use ecru::Cancelled;

use crate::engine::Dead;
use crate::errors::LeaseLost;
use crate::id::JobId;
use crate::job::Guard;

/// A job that was not settled, or perhaps not.
#[derive(Debug)]
pub enum Unsettled<T> {
    /// Nothing was removed by this call, and another attempt may run: the lease has ended, another
    /// attempt has begun, the job was [cancelled](crate::Queue::cancel), the fleet has ended, or
    /// the server has refused.
    Lost {
        /// The id of the job.
        id: JobId,
        /// The number of the attempt.
        attempt: u32,
    },
    /// The server was told and has not answered before the end of the lease. It can be asked again.
    Unknown(Settlement<T>),
}

impl<T> fmt::Display for Unsettled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsettled::Lost { id, attempt } => write!(
                f,
                "attempt {attempt} of job {id} has not settled it: its lease was not renewed in \
                 time, or the job was cancelled; another attempt may run"
            ),
            Unsettled::Unknown(settlement) => write!(
                f,
                "job {} is perhaps settled: {}; ask again by `Settlement::ask`",
                settlement.id(),
                settlement.0.why
            ),
        }
    }
}

impl<T: fmt::Debug> Error for Unsettled<T> {}

impl<T> From<Unsettled<T>> for io::Error {
    fn from(unsettled: Unsettled<T>) -> io::Error {
        let text = unsettled.to_string();
        match unsettled {
            Unsettled::Lost { .. } => io::Error::other(Lost(text)),
            Unsettled::Unknown(_) => io::Error::new(io::ErrorKind::TimedOut, text),
        }
    }
}

/// An attempt that was lost, in words. [`LeaseLost::find`] finds its source.
#[derive(Debug)]
struct Lost(String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Lost {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&LeaseLost::Unsettled)
    }
}

/// A job that is perhaps settled. It dereferences to the job itself.
///
/// Dropping it settles nothing: if the server was not told, the job is handed out again.
///
/// # Examples
/// ```
/// use ecru_fleet::{Job, Unsettled};
///
/// /// Ends a job, and returns whether its effects count.
/// fn commit(job: Job<String>) -> bool {
///     let mut settled = job.done();
///     loop {
///         settled = match settled {
///             Ok(()) => return true,
///             Err(Unsettled::Lost { .. }) => return false,
///             Err(Unsettled::Unknown(settlement)) if ecru::is_cancelled() => {
///                 eprintln!("it is not known whether {:?} is done", *settlement);
///                 return false;
///             }
///             Err(Unsettled::Unknown(settlement)) => settlement.ask(),
///         };
///     }
/// }
/// ```
pub struct Settlement<T>(Box<Parts<T>>);

struct Parts<T> {
    value: T,
    guard: Guard,
    how: How,
    why: io::Error,
}

impl<T> Settlement<T> {
    /// Returns the id of the job.
    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.0.guard.held.id
    }

    /// Asks the server until it has answered, and settles the job if no later attempt has begun.
    /// A job that was to be [retried](crate::Job::retry_after) is handed out again in any case, so
    /// the answer is `Lost`.
    ///
    /// # Errors
    /// Returns `Lost` if a later attempt has begun or the job was cancelled, and `Unknown` if the
    /// servers do not answer for about half a minute, or after the end of the fleet.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call returns `Unknown`.
    pub fn ask(self) -> Result<(), Unsettled<T>> {
        let Parts { value, guard, how, .. } = *self.0;
        let asked = match &how {
            How::Retry(_) => Err(Trouble::Lost),
            how => guard.carry_out(how),
        };
        asked.map_err(|trouble| trouble.explain(value, guard, how))
    }
}

impl<T> Deref for Settlement<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Settlement<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settlement")
            .field("id", self.id())
            .field("value", &self.0.value)
            .field("why", &self.0.why)
            .finish_non_exhaustive()
    }
}

/// What becomes of a job.
pub(crate) enum How {
    Done,
    Retry(Duration),
    Bury(Dead),
}

/// Why a job is not known to be settled.
pub(crate) enum Trouble {
    Lost,
    Unknown(io::Error),
}

impl Trouble {
    pub(crate) fn explain<T>(self, value: T, guard: Guard, how: How) -> Unsettled<T> {
        match self {
            Trouble::Lost => {
                let (id, attempt) = (guard.held.id.clone(), guard.held.attempt());
                Unsettled::Lost { id, attempt }
            }
            Trouble::Unknown(why) => {
                Unsettled::Unknown(Settlement(Box::new(Parts { value, guard, how, why })))
            }
        }
    }
}

impl Guard {
    /// Settles the job. Not a cancellation point. The wait ends only when the lease does.
    pub(crate) fn settle<T>(self, value: T, how: How) -> Result<(), Unsettled<T>> {
        let settled = self.begin_to_settle(&how);
        settled.map_err(|trouble| trouble.explain(value, self, how))
    }

    fn begin_to_settle(&self, how: &How) -> Result<(), Trouble> {
        let held = &self.held;
        held.core().check().map_err(|_| Trouble::Lost)?;
        held.begin().map_err(|_| Trouble::Lost)?;
        ecru::shield(|| {
            ecru::cancel_scope(|handle| {
                let _inside = held.enter(handle).map_err(|_| Trouble::Lost)?;
                held.settle().map_err(|_| Trouble::Lost)?;
                held.remove_report();
                self.carry_out(how)
            })
        })
    }

    /// Returns a job to the queue or to the dead that its holder has dropped, and whose lease is
    /// not renewed any more. Without an answer, the lease ends and the job is handed out again.
    pub(crate) fn fail_late(&self, how: &How) {
        let _ = ecru::timeout(self.queue.lease(), || self.carry_out(how).is_ok());
    }

    /// Tells the engine what becomes of the job.
    fn carry_out(&self, how: &How) -> Result<(), Trouble> {
        let lease = &*self.held.given.lease;
        match how {
            How::Done if self.held.done_if_certain() => Ok(()),
            How::Done => self.claim().and_then(|()| lease.done().map_err(Trouble::Unknown)),
            How::Bury(dead) => {
                // In this order: a job that is claimed is not handed out again.
                self.queue.bury(dead).map_err(|error| self.trouble(error))?;
                self.claim()?;
                lease.terminate(&dead.reason).map_err(Trouble::Unknown)
            }
            How::Retry(pause) => {
                let returned = lease.count().and_then(|()| lease.retry(*pause));
                returned.map_err(|error| self.trouble(error))
            }
        }
    }

    /// Fails if another attempt settles the job.
    fn claim(&self) -> Result<(), Trouble> {
        match self.held.given.lease.claim() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Trouble::Lost),
            Err(error) => Err(self.trouble(error)),
        }
    }

    fn trouble(&self, error: io::Error) -> Trouble {
        use io::ErrorKind::{ConnectionAborted, NotConnected, TimedOut};
        if LeaseLost::find(&error).is_some() {
            Trouble::Lost
        } else if Cancelled::find(&error).is_some() {
            let text = "the wait for the server's answer has ended with the lease";
            Trouble::Unknown(io::Error::new(TimedOut, text))
        } else if matches!(error.kind(), TimedOut | ConnectionAborted | NotConnected) {
            Trouble::Unknown(error)
        } else {
            // It was refused, and had no effect.
            self.held.given.lease.give_back(self.queue.lease());
            Trouble::Lost
        }
    }
}
