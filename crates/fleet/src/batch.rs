//! Sending jobs that are stored together.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use ecru::Cancelled;

use crate::codec::{self, Wire};
use crate::engine::Sending;
use crate::errors::{SendError, invalid};
use crate::id::JobId;
use crate::queue::Queue;

/// The most jobs in a batch. A server accepts no more by default.
const MOST: usize = 1000;

impl<T: Wire> Queue<T> {
    /// Sends jobs that are stored together: all of them, or none. Returns their ids, in the order
    /// of the jobs, when they have been stored. They are handed out like jobs that were sent one
    /// after another. There are at most 1,000. Without a job, nothing is sent.
    ///
    /// The id of a job is that of the batch, `-`, and its place from 0 on.
    ///
    /// # Errors
    /// Returns [`SendError`] with the jobs. `Full` tells that there is no room for all of them.
    /// After `Unknown` and `Cancelled`, whose id is that of the batch, all of them were perhaps
    /// stored: [`send_all_again`](Queue::send_all_again) with that id stores them once. In each
    /// other case none was stored.
    ///
    /// # Cancellation
    /// This is a cancellation point. All of the jobs may have been stored all the same.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::{Fleet, SendError};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let mails = Fleet::local(s).queue::<String>("mails").capacity(3).open()?;
    ///         let ids = mails.send_all(["ann", "bob"].map(String::from))?;
    ///         assert_eq!((ids.len(), mails.stats()?.queued), (2, 2));
    ///         // There is room for one more, and not for two.
    ///         let error = mails.send_all(["eve", "joe"].map(String::from)).unwrap_err();
    ///         assert!(matches!(error, SendError::Full(jobs) if jobs == ["eve", "joe"]));
    ///         assert_eq!(mails.stats()?.queued, 2);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_all(
        &self,
        jobs: impl IntoIterator<Item = T>,
    ) -> Result<Vec<JobId>, SendError<Vec<T>>> {
        let batch = JobId::generate().with_priority(self.terms(Duration::ZERO).priority);
        self.send_batch(batch, jobs.into_iter().collect())
    }

    /// Sends the jobs of a batch again, by the id in the error of an attempt whose outcome is not
    /// known. If the first attempt has stored them, nothing is stored, as long as one of them is
    /// queued or running, and also for two minutes after they were sent, which a server remembers.
    ///
    /// # Errors
    /// Returns the errors of [`send_all`](Queue::send_all).
    ///
    /// # Cancellation
    /// This is a cancellation point. All of the jobs may have been stored all the same.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::{Fleet, Queue, SendError};
    ///
    /// /// Sends all orders or none, and each of them once.
    /// fn order_all(orders: &Queue<u32>, loaves: Vec<u32>) -> std::io::Result<()> {
    ///     let mut sent = orders.send_all(loaves);
    ///     while let Err(SendError::Unknown { job, id }) = sent {
    ///         sent = orders.send_all_again(&id, job);
    ///     }
    ///     sent?;
    ///     Ok(())
    /// }
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let orders = Fleet::local(s).queue::<u32>("orders").open()?;
    ///         order_all(&orders, vec![1, 2, 3])?;
    ///         assert_eq!(orders.stats()?.queued, 3);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_all_again(
        &self,
        batch: &JobId,
        jobs: Vec<T>,
    ) -> Result<Vec<JobId>, SendError<Vec<T>>> {
        self.send_batch(batch.clone(), jobs)
    }

    fn send_batch(&self, batch: JobId, jobs: Vec<T>) -> Result<Vec<JobId>, SendError<Vec<T>>> {
        let refused = |error| move |job| SendError::Refused { job, error };
        let (ids, encoded) = match encode(&batch, &jobs) {
            Ok(encoded) => encoded,
            Err(error) => return Err(refused(error)(jobs)),
        };
        if jobs.is_empty() {
            return Ok(ids);
        }
        let mut terms = self.terms(Duration::ZERO);
        if let Some(first) = batch.priority() {
            terms.priority = first;
        }
        let batch = batch.with_priority(terms.priority);
        let sent = self.shared().check_priority(terms.priority).and_then(|()| {
            let engine = self.shared().engine()?;
            engine.send_all(&encoded, &terms)
        });
        Err(match sent {
            Ok(Sending::New | Sending::Already) => return Ok(ids),
            Ok(Sending::Full) => SendError::Full(jobs),
            Ok(Sending::Disconnected) => SendError::Disconnected(jobs),
            Ok(Sending::Unknown) => SendError::Unknown { job: jobs, id: batch },
            Ok(Sending::Unavailable(error) | Sending::Refused(error)) => refused(error)(jobs),
            Err(error) if Cancelled::find(&error).is_some() => {
                SendError::Cancelled { job: jobs, id: batch }
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                SendError::Disconnected(jobs)
            }
            Err(error) => refused(error)(jobs),
        })
    }
}

/// A job as an engine gets it: its id and its payload.
type Encoded = (String, Bytes);

/// Returns the ids of the jobs of a batch, and what an engine gets.
fn encode<T: Wire>(batch: &JobId, jobs: &[T]) -> io::Result<(Vec<JobId>, Vec<Encoded>)> {
    if jobs.len() > MOST {
        return Err(invalid(format!(
            "the batch has {} jobs, and the most is {MOST}; send several batches",
            jobs.len()
        )));
    }
    let mut ids = Vec::with_capacity(jobs.len());
    let mut encoded = Vec::with_capacity(jobs.len());
    for (place, job) in jobs.iter().enumerate() {
        let id = JobId::from_key(&format!("{batch}-{place}"))?;
        encoded.push((id.token(), codec::encode(&format!("job {place} of the batch"), job)?));
        ids.push(id);
    }
    Ok((ids, encoded))
}
