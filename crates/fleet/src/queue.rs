//! Queues.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ecru::channel::Receiver;
use ecru::schedule::Delay;

use crate::codec::Wire;
use crate::core::Core;
use crate::dead::{self, Dead};
use crate::errors::SendError;
use crate::id::JobId;
use crate::job::Job;
use crate::progress::Progress;
use crate::pull;
use crate::send::{Pending, Sent};
use crate::settings::{LONGEST_PAUSE, Settings, setters};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::update::Update;

/// The settings of a queue that is about to be opened: see [`Fleet::queue`](crate::Fleet::queue).
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru::schedule::Delay;
/// use ecru_fleet::Fleet;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let fleet = Fleet::local(s);
///         let minute = Duration::from_secs(60);
///         let mails = fleet
///             .queue::<String>("mails")
///             .lease(minute)
///             .attempts(5)
///             .retry(Delay::Constant(Duration::from_secs(10)))
///             .limit(20)
///             .capacity(100_000)
///             .open()?;
///         mails.send("hello".to_owned())?;
///         // A limit and long pauses do not go together.
///         let refused = fleet.queue::<u32>("n").limit(1).retry(Delay::Constant(minute)).open();
///         assert!(refused.unwrap_err().to_string().contains("would stall"));
///         Ok::<(), std::io::Error>(())
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the queue is opened by `open`"]
pub struct QueueBuilder<T> {
    core: Arc<Core>,
    name: String,
    pub(crate) settings: Settings,
    _job: PhantomData<fn(T) -> T>,
}

impl<T: Wire> QueueBuilder<T> {
    pub(crate) fn new(core: &Arc<Core>, name: &str) -> QueueBuilder<T> {
        let (core, name) = (Arc::clone(core), name.to_owned());
        QueueBuilder { core, name, settings: Settings::default(), _job: PhantomData }
    }

    setters!();

    /// Opens the queue. It is created if it does not exist.
    ///
    /// Settings that are named here and differ from those of the queue are changed in the whole
    /// fleet, as by [`Queue::update`]. Processes that open a queue at the same moment with
    /// different settings change them one after another: each setting that one of them has named is
    /// in force afterwards. If two of them name different values for one setting, the last one
    /// decides, and `fleet doctor` finds such processes. If two settings exclude each other, as
    /// [`per_key`](QueueBuilder::per_key) and [`priorities`](QueueBuilder::priorities) do, the
    /// later one is refused. A process that is killed while it changes settings holds up no other
    /// one, and the next one that opens the queue finishes the change.
    ///
    /// A user of the servers who may not create streams and consumers, or change them, can open a
    /// queue that exists with the settings that it has.
    ///
    /// # Errors
    /// Returns `InvalidInput` if the name is malformed, a setting is 0 or out of range, the servers
    /// refuse it, it does not go together with a setting of the queue, another program has given
    /// the streams of the queue settings with which it cannot serve, or if there is a limit and
    /// pauses before a retry may be longer than the lease. Returns `PermissionDenied` if a setting
    /// is to be changed and the user of the servers may not do that, and `NotConnected` after the
    /// end of the fleet.
    ///
    /// # Cancellation
    /// This is a cancellation point. The queue may have been created all the same.
    pub fn open(self) -> io::Result<Queue<T>> {
        let shared = Shared::open(&self.core, ("queue", "q_"), &self.name, self.settings, None)?;
        Ok(Queue::new(shared))
    }
}

impl<T> fmt::Debug for QueueBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueBuilder")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish()
    }
}

/// A queue of jobs, which many processes send to and work through. Cloning it is cheap.
///
/// A job is stored before [`send`](Queue::send) returns. It is handed out under a lease until a
/// holder is [done](Job::done) with it, so it runs at least once. The order is not promised, except
/// with [`per_key`](QueueBuilder::per_key) and [`priorities`](QueueBuilder::priorities).
///
/// # Examples
/// ```
/// use ecru_fleet::Fleet;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let numbers = Fleet::local(s).queue::<u32>("numbers").open()?;
///         for number in 1..=3 {
///             numbers.send(number)?;
///         }
///         let mut sum = 0;
///         for job in numbers.jobs(2)?.iter().take(3) {
///             sum += job.run(|number| *number)?;
///             job.done()?;
///         }
///         assert_eq!(sum, 6);
///         Ok::<(), std::io::Error>(())
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Queue<T> {
    pub(crate) shared: Arc<Shared>,
    /// What jobs have that are sent by this handle.
    pub(crate) priority: u8,
    _job: PhantomData<fn(T) -> T>,
}

impl<T: Wire> Queue<T> {
    pub(crate) fn new(shared: Arc<Shared>) -> Queue<T> {
        Queue { shared, priority: 0, _job: PhantomData }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Sends a job. Returns when it has been stored.
    ///
    /// # Errors
    /// Returns [`SendError`] with the job. After `Unknown` and `Cancelled`, the job was perhaps
    /// stored.
    ///
    /// # Cancellation
    /// This is a cancellation point. The job may have been stored all the same.
    pub fn send(&self, job: T) -> Result<Sent, SendError<T>> {
        self.begin_send(job).finish()
    }

    /// Sends a job under a key. At most one job of each key is queued or running: if there is one,
    /// nothing is stored, and the result is [`Sent::Already`]. In a queue with
    /// [`per_key`](QueueBuilder::per_key) each job is stored, and the jobs of a key run in order.
    ///
    /// # Errors
    /// Returns the errors of [`send`](Queue::send), and [`SendError::Refused`] if the key is empty
    /// or too long: see [`JobId::from_key`].
    ///
    /// # Cancellation
    /// This is a cancellation point. The job may have been stored all the same.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::{Fleet, Sent};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let reports = Fleet::local(s).queue::<String>("reports").open()?;
    ///         let sent = reports.send_keyed("user 7", "daily".to_owned())?;
    ///         assert!(matches!(sent, Sent::New(id) if id.as_str() == "user 7"));
    ///         let again = reports.send_keyed("user 7", "daily".to_owned())?;
    ///         assert_eq!(again, Sent::Already);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_keyed(&self, key: &str, job: T) -> Result<Sent, SendError<T>> {
        match self.shared.keyed(key) {
            Ok(id) => Pending::begin(&self.shared, id, job, self.terms(Duration::ZERO)).finish(),
            Err(error) => Err(SendError::Refused { job, error }),
        }
    }

    /// Sends a job again, by the id in the error of an attempt whose outcome is not known, and with
    /// the priority of that attempt. If the
    /// first attempt has stored the job, the result is [`Sent::Already`] as long as the job is
    /// queued or running, and also for two minutes after it was sent, which a server remembers.
    /// Earlier jobs of the same key do not matter, as each sending has a name of its own. An id of
    /// [`JobId::from_key`] names none: with it, the job is sent as by
    /// [`send_keyed`](Queue::send_keyed).
    ///
    /// # Errors
    /// Returns the errors of [`send`](Queue::send).
    ///
    /// # Cancellation
    /// This is a cancellation point. The job may have been stored all the same.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::{Fleet, Queue, SendError};
    ///
    /// /// Sends an order once, also if the servers are away for a while.
    /// fn order(orders: &Queue<u32>, loaves: u32) -> std::io::Result<()> {
    ///     let mut sent = orders.send(loaves);
    ///     // It may have been stored. The id tells the servers that it is the same job.
    ///     while let Err(SendError::Unknown { job, id }) = sent {
    ///         sent = orders.send_again(&id, job);
    ///     }
    ///     sent?;
    ///     Ok(())
    /// }
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let orders = Fleet::local(s).queue::<u32>("orders").open()?;
    ///         order(&orders, 12)?;
    ///         assert_eq!(orders.stats()?.queued, 1);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_again(&self, id: &JobId, job: T) -> Result<Sent, SendError<T>> {
        let mut terms = self.terms(Duration::ZERO);
        if let Some(first) = id.priority() {
            terms.priority = first;
        }
        Pending::begin(&self.shared, id.clone(), job, terms).finish()
    }

    /// Begins to send a job. What is returned is a [`Source`](ecru::Source) of the result, so many
    /// jobs can be on their way at once.
    ///
    /// # Cancellation
    /// This is a cancellation point if too many jobs are on their way.
    ///
    /// # Examples
    /// ```
    /// use ecru::Source;
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let numbers = Fleet::local(s).queue::<u32>("numbers").open()?;
    ///         let begun: Vec<_> = (0..100).map(|number| numbers.begin_send(number)).collect();
    ///         for sending in begun {
    ///             sending.wait()??;
    ///         }
    ///         assert_eq!(numbers.stats()?.queued, 100);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn begin_send(&self, job: T) -> Pending<T> {
        Pending::begin(&self.shared, JobId::generate(), job, self.terms(Duration::ZERO))
    }

    /// Begins to take jobs. At most `window` leases are held, for jobs in the channel and for those
    /// that were received and are not settled.
    ///
    /// Dropping the receiver ends it, and gives back what is in the channel. When the scope of the
    /// fleet is cancelled, the jobs in the channel are given back, and the receiver is
    /// disconnected. Jobs inside [`run`](Job::run) keep their leases until they have ended.
    ///
    /// # Errors
    /// Returns `InvalidInput` if `window` is 0, `NotConnected` after the end of the fleet,
    /// `PermissionDenied` if the user may not do what it takes, and other errors of the server.
    /// While the server is away, the beginning is repeated for up to 30 seconds.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn jobs(&self, window: usize) -> io::Result<Receiver<Job<T>>> {
        pull::begin(&self.shared, window).map(|begun| begun.jobs)
    }

    /// Returns the dead: jobs that have failed too often or were [buried](Job::bury). The channel
    /// has those that are there now, and is disconnected after the last one.
    ///
    /// # Errors
    /// Returns `NotConnected` after the end of the fleet, and errors of the server.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let orders = Fleet::local(s).queue::<String>("orders").open()?;
    ///         orders.send("a kilo of nothing".to_owned())?;
    ///         orders.jobs(1)?.recv()?.bury("there is no such article")?;
    ///         for dead in orders.dead()? {
    ///             println!("{:?}: {}", dead.job(), dead.reason());
    ///             dead.revive()?;
    ///         }
    ///         assert_eq!(orders.stats()?.dead, 0);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn dead(&self) -> io::Result<Receiver<Dead<T>>> {
        dead::begin(&self.shared)
    }

    /// Cancels a job. If it is queued, it is removed. If it is running, it is removed, and the
    /// waits inside [`Job::run`] are cancelled as soon as the holder hears of it. Returns whether
    /// there was such a job.
    ///
    /// # Errors
    /// Returns `NotConnected` after the end of the fleet, and errors of the server.
    ///
    /// # Cancellation
    /// This is a cancellation point. The job may have been cancelled all the same.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::{Fleet, Sent};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let reports = Fleet::local(s).queue::<String>("reports").open()?;
    ///         let sent = reports.send("daily".to_owned())?;
    ///         let Sent::New(id) = sent else { unreachable!("it has no key") };
    ///         assert!(reports.cancel(&id)?);
    ///         assert!(!reports.cancel(&id)?, "it is not there any more");
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cancel(&self, id: &JobId) -> io::Result<bool> {
        self.shared.engine()?.cancel(&id.token())
    }

    /// Returns how many jobs there are.
    ///
    /// # Errors
    /// Returns `NotConnected` after the end of the fleet, and errors of the server.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn stats(&self) -> io::Result<Stats> {
        self.shared.stats()
    }

    /// Returns the progress of the jobs that have [reported](Job::progress) it, of at most 256
    /// jobs.
    ///
    /// # Errors
    /// Returns `NotConnected` after the end of the fleet, and errors of the server.
    ///
    /// # Cancellation
    /// This is a cancellation point.
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
    ///         job.progress(&Progress::new(50, 200));
    ///         // It is sent meanwhile.
    ///         while scans.progress()?.is_empty() {
    ///             ecru::yield_now()?;
    ///         }
    ///         let found = scans.progress()?;
    ///         assert_eq!(found, [(job.id().clone(), Progress::new(50, 200))]);
    ///         job.done()?;
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn progress(&self) -> io::Result<Vec<(JobId, Progress)>> {
        let found = self.shared.engine()?.progress()?;
        Ok(found
            .into_iter()
            .map(|(token, progress)| (JobId::from_token(&token), progress))
            .collect())
    }

    /// Changes settings of the queue in the whole fleet, while it is in use. Jobs and leases stay.
    /// The processes that take jobs are told, and each of them [warns](crate::Fleet::on_warning)
    /// with the old value and the new one. A process that is not told, because it has no
    /// connection, learns of it within a lease.
    ///
    /// If a lease becomes shorter, one that is not renewed in time ends, and its job is handed out
    /// again.
    ///
    /// Processes that change settings at the same time do it one after another, so no change is
    /// lost.
    ///
    /// # Errors
    /// Returns `InvalidInput` if a setting is 0 or out of range, does not go together with another
    /// one, or the servers refuse it, for instance more replicas than there are servers. Returns
    /// `PermissionDenied` if the user of the servers may not change settings. In these cases
    /// nothing is changed. Returns `NotConnected` after the end of the fleet, and errors of the
    /// server.
    ///
    /// # Cancellation
    /// This is a cancellation point. Settings may have been changed all the same: those of this
    /// call are in force as soon as another process opens the queue, or none of them is. The rate is
    /// changed after the others.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use ecru_fleet::{Fleet, SendError, Update};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let mills = Fleet::local(s).queue::<u32>("mills").capacity(1).open()?;
    ///         mills.send(1)?;
    ///         assert!(matches!(mills.send(2), Err(SendError::Full(2))));
    ///         mills.update(Update::new().capacity(2).lease(Duration::from_secs(60)))?;
    ///         mills.send(2)?;
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn update(&self, update: Update) -> io::Result<()> {
        self.shared.update(&update.0)
    }

    /// Pauses the queue: no jobs are handed out in the whole fleet for this time. Running jobs go
    /// on. A pause of zero ends an earlier one, and the longest pause is 100 years.
    ///
    /// # Errors
    /// Returns `NotConnected` after the end of the fleet, and errors of the server.
    ///
    /// # Cancellation
    /// This is a cancellation point. The pause may have begun all the same.
    pub fn pause(&self, d: Duration) -> io::Result<()> {
        self.shared.engine()?.pause(d.min(LONGEST_PAUSE))
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Queue<T> {
        Queue { shared: Arc::clone(&self.shared), priority: self.priority, _job: PhantomData }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
