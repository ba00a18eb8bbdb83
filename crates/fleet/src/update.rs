//! Changing the settings of a queue while it is in use.

use std::fmt::{self, Debug};
use std::time::Duration;

use crate::engine::{Changes, QueueSpec, Rate};

/// Settings of a queue that are to be changed: see [`Queue::update`](crate::Queue::update). What is
/// not named stays as it is.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru_fleet::{Fleet, Update};
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let fleet = Fleet::local(s);
///         fleet.on_warning(|change| println!("{change}"));
///         let mills = fleet.queue::<u32>("mills").limit(5).open()?;
///         // All processes that take jobs are told.
///         mills.update(Update::new().limit(2).rate(100, Duration::from_secs(60)))?;
///         mills.update(Update::new().no_limit().no_rate())?;
///         Ok::<(), std::io::Error>(())
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it is applied by `Queue::update`"]
pub struct Update(pub(crate) Changes);

impl Update {
    /// Creates an update that changes nothing.
    pub fn new() -> Update {
        Update::default()
    }

    /// Changes how long a holder that does not answer keeps a job. Leases that are held get this
    /// length, too.
    pub fn lease(mut self, lease: Duration) -> Update {
        self.0.lease = Some(lease);
        self
    }

    /// Changes how many jobs may run at once in the whole fleet. Those that run go on, also if they
    /// are more. A queue with [`per_key`](crate::QueueBuilder::per_key) has no limit.
    pub fn limit(mut self, running: usize) -> Update {
        self.0.limit = Some(Some(running));
        self
    }

    /// Removes the limit.
    pub fn no_limit(mut self) -> Update {
        self.0.limit = Some(None);
        self
    }

    /// Changes how many jobs may be queued or running. Those that are there stay, also if they are
    /// more.
    pub fn capacity(mut self, jobs: u64) -> Update {
        self.0.capacity = Some(Some(jobs));
        self
    }

    /// Removes the capacity.
    pub fn no_capacity(mut self) -> Update {
        self.0.capacity = Some(None);
        self
    }

    /// Changes how many jobs are handed out in a period, in the whole fleet. Those that were handed
    /// out before count.
    pub fn rate(mut self, jobs: usize, per: Duration) -> Update {
        self.0.rate = Some(Some(Rate { jobs, per }));
        self
    }

    /// Removes the rate.
    pub fn no_rate(mut self) -> Update {
        self.0.rate = Some(None);
        self
    }

    /// Lets jobs have [priorities](crate::QueueBuilder::priorities). Those that are there have the
    /// priority 0.
    pub fn priorities(mut self) -> Update {
        self.0.priorities = Some(true);
        self
    }

    /// Changes on how many servers of a cluster jobs are stored.
    pub fn replicas(mut self, servers: usize) -> Update {
        self.0.replicas = Some(servers);
        self
    }
}

/// A setting that differs, with both values.
pub(crate) struct Difference {
    pub(crate) what: &'static str,
    pub(crate) old: String,
    pub(crate) new: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { what, old, new } = self;
        write!(f, "the {what} was {old} and is {new}")
    }
}

/// Returns each setting that differs.
pub(crate) fn differences(old: &QueueSpec, new: &QueueSpec) -> Vec<Difference> {
    let mut found = Vec::new();
    note(&mut found, "lease", Some(old.lease), Some(new.lease));
    note(&mut found, "limit", old.limit, new.limit);
    note(&mut found, "capacity", old.capacity, new.capacity);
    note(&mut found, "rate", old.rate, new.rate);
    note(&mut found, "order of each key", Some(old.per_key), Some(new.per_key));
    note(&mut found, "use of priorities", Some(old.priorities), Some(new.priorities));
    note(&mut found, "number of replicas", Some(old.replicas), Some(new.replicas));
    found
}

fn note<T: PartialEq + Debug>(
    found: &mut Vec<Difference>,
    what: &'static str,
    old: Option<T>,
    new: Option<T>,
) {
    if old != new {
        let show = |value: Option<T>| value.map_or("none".into(), |value| format!("{value:?}"));
        found.push(Difference { what, old: show(old), new: show(new) });
    }
}
