//! What a fleet needs from the system that stores its jobs.
//!
//! An engine stores bytes and hands them out under leases. It knows neither types nor retries:
//! encoding, attempts, renewals, the dead and functions are above it, once for all engines.
//!
//! Every call blocks the task that makes it, is a cancellation point unless it says otherwise, and
//! may be made from any task or thread.
//!
//! # Ids
//! A job is named by a *token*: 1 to [`MAX_TOKEN`](names::MAX_TOKEN) bytes of `A-Z a-z 0-9 _ - =`.
//! A token can be a part of a NATS subject and of a key in a bucket. The names of queues and result
//! stores are 1 to [`MAX_NAME`] bytes of `A-Z a-z 0-9 _ -`. The layer above has checked both.
//!
//! A job that is in order with others has the id `KEY==NAME`, which is no token of a text. It is
//! handed out when no job of the key that was stored before is queued or held.
//!
//! # Errors
//! An `io::Error` of an engine means:
//!
//! | found by | meaning |
//! |---|---|
//! | `ecru::Cancelled::find` | The wait was cancelled. |
//! | `ErrorKind::NotConnected` | The engine's scope has ended. It stays so. |
//! | `ErrorKind::TimedOut`, `ErrorKind::ConnectionAborted` | No answer. The call may have had its effect. |
//! | `ErrorKind::StorageFull` | The servers have no room. The call had no effect. A repetition may succeed. |
//! | `ErrorKind::ResourceBusy`, `ErrorKind::NotFound` | No server is responsible, for instance because a leader is being elected. The call had no effect. A repetition may succeed. |
//! | any other | The call was refused and had no effect. The text says which queue or store, and what to do. |

#[cfg(test)]
mod contract;
mod local;
mod names;
mod nats;
mod priority;
mod rate;

use std::any::Any;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ecru::{Scope, Source};
use ecru_nats::Options;

pub(crate) use local::local;
pub(crate) use names::{MAX_NAME, check_name, in_order, key_of, text, token};
pub(crate) use priority::{PRIORITIES, Picker, priorities};
pub(crate) use rate::Rate;

use crate::progress::Progress;

/// The largest payload of a job or a result, in bytes.
pub(crate) const MAX_PAYLOAD: usize = 1024 * 1024;

/// The most reports of jobs that are returned at once.
const MOST_REPORTS: usize = 256;

/// Connects to NATS servers. The tasks of the connection are daemons of `s`.
pub(crate) fn connect<'scope>(
    s: &'scope Scope<'scope, '_>,
    urls: &str,
    options: Options,
) -> io::Result<Box<dyn Engine>> {
    Ok(Box::new(nats::NatsEngine::connect(s, urls, options)?))
}

/// The settings of a queue that are in force in the whole fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueSpec {
    /// How long a holder has a job before it must have renewed its lease.
    pub(crate) lease: Duration,
    /// The most jobs that the whole fleet holds at once, or `None` for no limit.
    pub(crate) limit: Option<usize>,
    /// The most jobs that are queued or held. A further one is refused.
    pub(crate) capacity: Option<u64>,
    /// On how many servers jobs are stored.
    pub(crate) replicas: usize,
    /// How often jobs are handed out in the whole fleet, or `None` for no limit.
    pub(crate) rate: Option<Rate>,
    /// Jobs of a key are handed out in order, one at a time.
    pub(crate) per_key: bool,
    /// Jobs may have priorities.
    pub(crate) priorities: bool,
}

impl Default for QueueSpec {
    fn default() -> QueueSpec {
        let (lease, replicas) = (Duration::from_secs(30), 1);
        let (limit, capacity, rate, per_key, priorities) = Default::default();
        QueueSpec { lease, limit, capacity, replicas, rate, per_key, priorities }
    }
}

/// Settings of a queue that a program has named. The others stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) lease: Option<Duration>,
    pub(crate) limit: Option<Option<usize>>,
    pub(crate) capacity: Option<Option<u64>>,
    pub(crate) replicas: Option<usize>,
    pub(crate) rate: Option<Option<Rate>>,
    pub(crate) per_key: Option<bool>,
    pub(crate) priorities: Option<bool>,
}

impl Changes {
    /// Returns the settings that are in force after the changes.
    pub(crate) fn apply(&self, spec: &QueueSpec) -> QueueSpec {
        QueueSpec {
            lease: self.lease.unwrap_or(spec.lease),
            limit: self.limit.unwrap_or(spec.limit),
            capacity: self.capacity.unwrap_or(spec.capacity),
            replicas: self.replicas.unwrap_or(spec.replicas),
            rate: self.rate.unwrap_or(spec.rate),
            per_key: self.per_key.unwrap_or(spec.per_key),
            priorities: self.priorities.unwrap_or(spec.priorities),
        }
    }
}

/// How long results are kept if no program says so.
pub(crate) const KEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of a store of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultsSpec {
    /// The name.
    pub(crate) name: String,
    /// How long a result is kept. `None` for what is in force, or [`KEEP`] for a new store.
    pub(crate) keep: Option<Duration>,
    /// On how many servers results are stored. `None` for what is in force, or one for a new store.
    pub(crate) replicas: Option<usize>,
}

/// A system that stores jobs and results.
pub(crate) trait Engine: Send + Sync {
    /// Opens a queue, and creates it with these settings and the default ones if it does not exist.
    /// The settings of a queue that exists stay as they are. A queue that cannot serve, because
    /// another program has made it, is refused with an `InvalidInput` error that says why.
    fn queue(&self, name: &str, settings: &Changes) -> io::Result<Box<dyn EngineQueue>>;

    /// Opens a store of results, and creates it if it does not exist. If it exists with other
    /// settings, these replace them. Names of stores and of queues do not collide.
    fn results(&self, spec: &ResultsSpec) -> io::Result<Box<dyn EngineResults>>;

    /// Lets leases be renewed by tasks of `s`, whose thread no code of the program blocks. An
    /// engine that has a connection opens another one there, with which leases are renewed from
    /// then on. Is repeated after an error.
    fn attend<'scope>(&self, s: &'scope Scope<'scope, '_>) -> io::Result<()> {
        let _ = s;
        Ok(())
    }

    /// The fleet has ended: every wait in the engine fails with `NotConnected`. Never waits. An
    /// engine whose connection ends with its scope need not do anything.
    fn end(&self) {}
}

/// How a job is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// It is handed out no sooner than after this time.
    pub(crate) after: Duration,
    /// 0 is the most urgent. Others are for queues with priorities.
    pub(crate) priority: u8,
    /// The trace that it belongs to, as plain text without ends of lines.
    pub(crate) trace: Option<String>,
}

/// What became of a job that was sent.
#[derive(Debug)]
pub(crate) enum Sending {
    /// It is stored.
    New,
    /// A job with its id is queued or held, and this one was not stored.
    Already,
    /// As many jobs as the queue's capacity are stored, and this one was not.
    Full,
    /// The engine's scope has ended, and nothing was stored.
    Disconnected,
    /// There is no answer: the job is perhaps stored.
    Unknown,
    /// No server stores jobs of the queue now, for instance because a leader is being elected. The
    /// job was not stored. A repetition may succeed.
    Unavailable(io::Error),
    /// It was refused for another reason, and was not stored.
    Refused(io::Error),
}

/// Numbers about a queue. They need not be of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Jobs that wait to be handed out for the first time.
    pub(crate) queued: u64,
    /// Jobs that were handed out and are not settled, those in a pause before a retry included.
    pub(crate) running: u64,
    /// Those of `running` that were handed out more than once.
    pub(crate) redelivered: u64,
    /// Jobs that are done, and that the servers list as stored all the same.
    pub(crate) ghosts: u64,
    /// Jobs among the dead.
    pub(crate) dead: u64,
    /// The sequence number of the last of the dead, or 0 if there was never one.
    pub(crate) last_dead: u64,
    /// Those of `queued` by their priorities.
    pub(crate) queued_by_priority: [u64; PRIORITIES],
    /// Those of `running` by their priorities.
    pub(crate) running_by_priority: [u64; PRIORITIES],
}

/// A queue: jobs, each under an id of its own, and the dead.
pub(crate) trait EngineQueue: Send + Sync {
    /// Begins to store a job. Never waits for the answer. An item is available as soon as the
    /// outcome is known, at the latest after the engine's own time limit (then it is `Unknown`).
    /// Taking it from the source twice is not allowed. Dropping the source withdraws nothing.
    ///
    /// The id is free again as soon as its job is settled or cancelled. `sending` is made for this
    /// job alone and is never used for another one. An engine that remembers recent messages uses
    /// it to refuse a repetition (`Already`) even when the first one has been settled.
    ///
    /// The job is handed out no sooner than `after` its storing. Until then it counts as queued or
    /// as running.
    ///
    /// In a queue with priorities, each pull hands out the most urgent jobs first, and of each
    /// twelve jobs one at least of each priority that has some.
    ///
    /// May wait for a place among the unacknowledged messages. If that wait is cancelled, nothing
    /// is stored and the error is the cancellation.
    fn begin_send(
        &self,
        id: &str,
        payload: Bytes,
        sending: Option<&str>,
        terms: &Terms,
    ) -> io::Result<BoxSource>;

    /// Stores jobs, each under its id, one after another and all of them or none. No other job ever
    /// has one of the ids. `Already` tells that they were stored before, which an engine knows
    /// while one of them is queued or held, or if it remembers recent messages. They wait for
    /// nothing, whatever the terms are.
    fn send_all(&self, jobs: &[(String, Bytes)], terms: &Terms) -> io::Result<Sending>;

    /// Begins to take jobs. At most `window` deliveries of this pull are alive at once. The engine
    /// may ask for that many ahead of [`Pull::next`], so a delivery's lease may have begun before
    /// the delivery was returned.
    fn pull(&self, window: usize) -> io::Result<Box<dyn Pull>>;

    /// Takes a place for a job that is about to be handed out to the program. `None` tells that
    /// there is one. Otherwise the rate of the queue permits none for this time.
    fn start(&self) -> io::Result<Option<Duration>>;

    /// Returns the settings that are in force.
    fn spec(&self) -> io::Result<QueueSpec>;

    /// Changes settings while the queue is in use, and announces a lease that is changed. Jobs that
    /// are queued or held stay, also if they are more than the new limits. What cannot be changed,
    /// and what does not go together with the settings that are in force, is refused with an
    /// `InvalidInput` error that says why. Then nothing is changed.
    ///
    /// Changes of several processes are made one after another, and none of them is lost.
    fn update(&self, changes: &Changes) -> io::Result<()>;

    /// Returns what is stored as the schedule of a name, with the number of that message. An engine of
    /// a single process stores none.
    fn schedule(&self, name: &str) -> io::Result<Option<(u64, Bytes)>> {
        let _ = name;
        Ok(None)
    }

    /// Stores the schedule of a name if the last message has this number, or if there is none and the
    /// number is 0. Returns whether it did.
    fn replace_schedule(&self, name: &str, last: u64, schedule: Bytes) -> io::Result<bool> {
        let _ = (name, last, schedule);
        Ok(true)
    }

    /// Listens to the cancellations of jobs that are held anywhere in the fleet, and to changes of
    /// the settings.
    fn announcements(&self) -> io::Result<Box<dyn Announcements>>;

    /// Shows operators that results of this process wait for room, for as long as what is returned is
    /// kept. It stores nothing, because there is no room.
    fn show_waiting(&self) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// Removes a job that is queued or held, and announces it to the holder. Returns whether there
    /// was such a job.
    fn cancel(&self, id: &str) -> io::Result<bool>;

    /// Hands out no jobs in the whole fleet for this time. Zero ends a pause. Leases stay in force.
    fn pause(&self, d: Duration) -> io::Result<()>;

    /// Returns what the holders of jobs have reported, by the ids of the jobs: the first
    /// [`MOST_REPORTS`].
    fn progress(&self) -> io::Result<Vec<(String, Progress)>>;

    /// Returns numbers about the queue.
    fn counts(&self) -> io::Result<Counts>;

    /// Stores a job among the dead. The dead are apart from the queue: its capacity, its limit and
    /// its ids do not concern them. Confirmed: on `Ok` the entry is stored. Storing an entry with
    /// the `id` and `sequence` of one that is there has no effect.
    fn bury(&self, entry: &Dead) -> io::Result<()>;

    /// Returns the first of the dead whose own sequence number is at least `from`, with that
    /// number, or `None`.
    fn dead(&self, from: u64) -> io::Result<Option<(u64, Dead)>>;

    /// Removes one of the dead by its own sequence number. Returns whether it was there.
    fn discard(&self, dead: u64) -> io::Result<bool>;
}

/// A source of one outcome.
pub(crate) type BoxSource = Box<dyn Source<Item = Sending> + Send + Sync>;

/// A job that is not tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    /// The id that the job had.
    pub(crate) id: String,
    /// The sequence number that the job had in its queue.
    pub(crate) sequence: u64,
    /// How often it was begun.
    pub(crate) attempts: u32,
    /// Why it is dead: any text of at most 8 KiB.
    pub(crate) reason: String,
    /// What it consists of.
    pub(crate) payload: Bytes,
    /// The priority that it had.
    pub(crate) priority: u8,
}

/// Jobs as they are handed out.
pub(crate) trait Pull: Send + Sync {
    /// Waits for a job. Returns `None` after [`stop`](Pull::stop), once everything that was
    /// requested before it has arrived or will not come. `NotConnected` after the end of the
    /// engine. A loss of the connection is no error: the call waits for the next one.
    ///
    /// It is called by one task at a time.
    fn next(&self) -> io::Result<Option<Delivery>>;

    /// Asks for no more jobs, and wakes [`next`](Pull::next). Never waits.
    ///
    /// Dropping the pull does the same. What an engine has received and not returned is given back
    /// at once if possible.
    fn stop(&self);
}

/// A job that was handed out.
pub(crate) struct Delivery {
    /// Its id.
    pub(crate) id: String,
    /// What it consists of.
    pub(crate) payload: Bytes,
    /// Its number in the queue: higher than that of each job that was stored before.
    pub(crate) sequence: u64,
    /// How often it was handed out, this time included.
    pub(crate) delivery: u32,
    /// Its priority.
    pub(crate) priority: u8,
    /// The trace that it belongs to.
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only spans have it"))]
    pub(crate) trace: Option<String>,
    /// How often the work on it has begun before, as far as the engine knows yet:
    /// [`Lease::begin`] knows.
    pub(crate) begun: u32,
    /// When it arrived here, by `ecru::time::now`. The lease began no earlier than this minus the
    /// time of the transport. If the engine held it back, this is when it was received.
    pub(crate) received: Instant,
    /// When it was asked for: the lease began after that. `None` if that is not known.
    pub(crate) requested: Option<Instant>,
    /// Its lease.
    pub(crate) lease: Box<dyn Lease>,
}

/// The lease of a job. Dropping it settles nothing, and makes room in the window of the pull.
///
/// A lease that has ended elsewhere need not be noticed by an engine: a late renewal or removal may
/// be confirmed although another holder has the job. So the layer above watches its own clock, and
/// decides by [`claim`](Lease::claim) before it removes a job.
///
/// Each job has one holder that settles it. `begin` says that its holder is the one, unless another
/// one begins later. `claim` says so for good.
///
/// A holder is *certain* while no one else can have been handed the job: it was handed out to it
/// for the first time, and its lease has not ended, counted from the
/// [request](Delivery::requested).
pub(crate) trait Lease: Send + Sync {
    /// Stores that the work on the job begins here, and returns how often it has begun, this time
    /// included. Confirmed. It is repeated if the holder was certain and is not any more before it
    /// begins.
    ///
    /// The error is a [`LeaseLost`](crate::LeaseLost) if a job that was handed out later has begun,
    /// or if the job is settled.
    fn begin(&self, is_certain: bool) -> io::Result<u32>;

    /// Returns whether [`count`](Lease::count) is to be called, if this holder does not settle the
    /// job. Until then, or the end of the process, the attempt counts anyway.
    fn must_count(&self) -> bool {
        false
    }

    /// Stores for good that the work has begun here. Before the job is returned to the queue, and
    /// when it is lost.
    fn count(&self) -> io::Result<()> {
        Ok(())
    }

    /// Stores how far the job is, or removes that. Not confirmed, and without an effect if there is
    /// no connection or no room. A report is removed with its job, when it is handed out again, or
    /// some time after its holder has died.
    fn report(&self, progress: Option<&Progress>);

    /// Removes the job without a claim, for a holder that is certain. If it is certain after
    /// `true`, too, it has settled the job. Otherwise it must `claim`.
    fn done_if_certain(&self) -> bool {
        false
    }

    /// Stores that this holder settles the job, after it has begun. Confirmed: after `true` the job
    /// is never begun again, and after `false` this holder must not remove it. A repetition returns
    /// the same.
    fn claim(&self) -> io::Result<bool>;

    /// Begins to renew the lease for a whole period from now. Never waits.
    fn begin_renew(&self) -> io::Result<Box<dyn Renewal>>;

    /// Removes the job from the queue, after `claim` has returned `true`. Confirmed: after `Ok` it
    /// is never handed out again. It may have been removed before.
    fn done(&self) -> io::Result<()>;

    /// Returns the job to the queue, to be handed out again no sooner than after `delay`.
    /// Confirmed.
    fn retry(&self, delay: Duration) -> io::Result<()>;

    /// The same without a confirmation and without ever waiting, also in a cancelled task, during
    /// an unwind, under `no_suspend` and on any thread. Called by destructors. If it is lost, the
    /// lease expires.
    fn give_back(&self, delay: Duration);

    /// Removes the job because it is not to be tried again: it was stored among the dead.
    /// Confirmed, and after `claim`, as `done`.
    fn terminate(&self, why: &str) -> io::Result<()>;
}

/// A renewal that was begun.
pub(crate) trait Renewal: Send {
    /// Waits for the confirmation. Returns `false` if the engine knows that the lease has ended.
    fn wait(self: Box<Self>) -> io::Result<bool>;
}

/// What is announced to all that take jobs of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// A job that may be held here was cancelled. The sequence number is there if the engine knows
    /// it.
    Cancelled(String, Option<u64>),
    /// The settings change, or have changed: this is the new lease. A shorter one is announced
    /// before it is in force, so that leases are renewed in time, and again when it is.
    Lease(Duration),
}

/// Announcements to those that take jobs of a queue.
pub(crate) trait Announcements: Send + Sync {
    /// Waits for the next one. Some may be lost with a connection. The holder of a job that was
    /// cancelled then works in vain, and its `claim` returns `false`.
    fn next(&self) -> io::Result<Announced>;
}

/// A store of results. A result is named by two tokens: a run, and its index in the run.
pub(crate) trait EngineResults: Send + Sync {
    /// Stores a result if there is none. Returns whether it was stored: `false` if another one was
    /// first. Confirmed.
    fn put(&self, run: &str, index: &str, value: Bytes) -> io::Result<bool>;

    /// Returns a result, or `None` if there is none.
    fn get(&self, run: &str, index: &str) -> io::Result<Option<Bytes>>;

    /// Removes a result. Has no effect if there is none.
    fn remove(&self, run: &str, index: &str) -> io::Result<()>;

    /// Begins to remove the results of a run up to a position, and does not wait until they are
    /// removed. May wait for room to send.
    fn forget(&self, run: &str, through: u64) -> io::Result<()>;

    /// Begins to watch a run, or one index of it: first come the results that are stored, in any
    /// order, then each new one as it is stored. After a loss of the connection results may come
    /// again, but none is left out.
    fn watch(&self, run: &str, index: Option<&str>) -> io::Result<Box<dyn Watch>>;
}

/// What a watch sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A result that was stored.
    Result {
        /// The index of the result in its run.
        index: String,
        /// The result.
        value: Bytes,
        /// Its place in the order in which results were stored.
        position: u64,
    },
    /// What was stored when the watch began has been returned. Comes exactly once, also if there
    /// was nothing.
    UpToDate,
}

/// A watch over results.
pub(crate) trait Watch: Send + Sync {
    /// Waits for the next one. `NotConnected` after the end of the engine. It is called by one task
    /// at a time.
    fn next(&self) -> io::Result<Seen>;
}
