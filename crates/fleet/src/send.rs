//! Sending jobs.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

use ecru::source::WaitList;
use ecru::{Cancelled, Source};

use crate::codec::{self, Wire};
use crate::engine::{BoxSource, Sending, Terms};
use crate::errors::SendError;
use crate::id::JobId;
use crate::shared::Shared;

/// What has become of a job that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was stored, under this id.
    New(JobId),
    /// A job with its key or id is queued or running, so nothing was stored.
    Already,
}

/// A job on its way: a [`Source`] of the result of [`send`](crate::Queue::send). It has one item.
///
/// Dropping it does not stop the job.
#[must_use = "whether the job was stored is known when it is waited for"]
pub struct Pending<T> {
    id: JobId,
    job: Mutex<Option<T>>,
    outcome: Outcome,
}

enum Outcome {
    Begun(BoxSource),
    Refused(Mutex<Option<Refused>>),
}

/// Why a job was not sent.
enum Refused {
    Cancelled,
    Because(Sending),
}

impl<T: Wire> Pending<T> {
    pub(crate) fn begin(shared: &Shared, id: JobId, job: T, terms: Terms) -> Pending<T> {
        let id = id.with_priority(terms.priority);
        let begun = codec::encode("the job", &job).and_then(|payload| {
            shared.check_pause(terms.after)?;
            shared.check_priority(terms.priority)?;
            shared.engine()?.begin_send(&id.token(), payload, id.sending(), &terms)
        });
        let refused = |why| Outcome::Refused(Mutex::new(Some(why)));
        let outcome = match begun {
            Ok(source) => Outcome::Begun(source),
            Err(error) => refused(match Cancelled::find(&error) {
                Some(_) => Refused::Cancelled,
                None if error.kind() == io::ErrorKind::NotConnected => {
                    Refused::Because(Sending::Disconnected)
                }
                None => Refused::Because(Sending::Refused(error)),
            }),
        };
        Pending { id, job: Mutex::new(Some(job)), outcome }
    }

    /// Returns the id of the job.
    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Waits for the outcome.
    pub(crate) fn finish(self) -> Result<Sent, SendError<T>> {
        match self.wait() {
            Ok(result) => result,
            Err(_) => {
                let job = self.take();
                Err(SendError::Cancelled { job, id: self.id })
            }
        }
    }
}

impl<T> Pending<T> {
    fn take(&self) -> T {
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner).take();
        job.expect("the wait for the outcome has failed")
    }

    fn result(&self, job: T, sending: Sending) -> Result<Sent, SendError<T>> {
        let id = self.id.clone();
        match sending {
            Sending::New => Ok(Sent::New(id)),
            Sending::Already => Ok(Sent::Already),
            Sending::Full => Err(SendError::Full(job)),
            Sending::Disconnected => Err(SendError::Disconnected(job)),
            Sending::Unknown => Err(SendError::Unknown { job, id }),
            Sending::Unavailable(error) | Sending::Refused(error) => {
                Err(SendError::Refused { job, error })
            }
        }
    }
}

impl<T> Source for Pending<T> {
    type Item = Result<Sent, SendError<T>>;

    fn try_take(&self) -> Option<Self::Item> {
        let mut job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        if job.is_none() {
            // It was the only item.
            return None;
        }
        let why = match &self.outcome {
            Outcome::Begun(source) => Refused::Because(source.try_take()?),
            Outcome::Refused(refused) => {
                refused.lock().unwrap_or_else(PoisonError::into_inner).take()?
            }
        };
        let value = job.take()?;
        // A job that was stored is dropped below, by code of the program.
        drop(job);
        Some(match why {
            Refused::Because(sending) => self.result(value, sending),
            Refused::Cancelled => Err(SendError::Cancelled { job: value, id: self.id.clone() }),
        })
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        if let Outcome::Begun(source) = &self.outcome {
            source.waiters(each);
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("id", &self.id).finish_non_exhaustive()
    }
}
