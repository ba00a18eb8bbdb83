//! The settings of queues and functions.

use std::io;
use std::time::Duration;

use ecru::schedule::{Delay, Jitter};

use crate::engine::{self, Changes, QueueSpec, Rate};
use crate::errors::invalid;

/// The longest name of a queue. Engines get it with a prefix.
const MAX_NAME: usize = engine::MAX_NAME - 2;

/// The shortest and the longest lease.
const LEASES: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(24 * 60 * 60));

/// The shortest time that results are kept. Their callers must have read them by then.
const SHORTEST_KEEP: Duration = Duration::from_secs(1);

/// The most jobs in a period of a rate, each of which is stored.
const MOST_STARTS: usize = 1000;

/// The shortest and the longest period of a rate.
const PERIODS: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_secs(31 * 24 * 60 * 60));

/// The longest pause: a hundred years. Servers and clocks cannot count much longer ones.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Why a queue has not both.
pub(crate) const NO_ORDER: &str = "it has per_key and priorities; the jobs of a key run in the \
     order in which they were sent, so none of them can be more urgent; leave one of the two out, or \
     use two queues";

/// Returns why settings that are to be in force together cannot be.
pub(crate) fn conflict(spec: &QueueSpec) -> Option<&'static str> {
    if !spec.per_key {
        return None;
    }
    if spec.priorities {
        return Some(NO_ORDER);
    }
    spec.limit.map(|_| {
        "it has per_key and a limit; a job that waits for another one of its key counts as \
         running, so the queue would stall; set no limit"
    })
}

/// What a program has set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// What concerns the whole fleet, as far as it was named.
    pub(crate) shared: Changes,
    pub(crate) attempts: u32,
    pub(crate) retry: Option<Delay>,
    pub(crate) keep_results: Option<Duration>,
    pub(crate) time_limit: Option<Duration>,
    /// How many jobs of a key may run at once.
    pub(crate) per_key: Option<usize>,
}

impl Default for Settings {
    fn default() -> Settings {
        let (shared, attempts) = (Changes::default(), 25);
        let (retry, keep_results, time_limit, per_key) = Default::default();
        Settings { shared, attempts, retry, keep_results, time_limit, per_key }
    }
}

impl Settings {
    fn delay(&self, lease: Duration) -> Delay {
        let default = Delay::Backoff { start: Duration::from_secs(1), max: lease, mult: 2 };
        self.retry.unwrap_or(default)
    }

    /// Returns the pause after an attempt that has failed, in a queue with this lease.
    pub(crate) fn pause(&self, attempt: u32, lease: Duration) -> Duration {
        let delay = self.delay(lease);
        // The last pause is not known, as another process may have made it. This is the longest
        // that it can have been.
        let last = match delay {
            Delay::Decorrelated { start, max, mult } if attempt > 1 => {
                start.saturating_mul(mult.saturating_pow(attempt - 2)).min(max)
            }
            _ => Duration::ZERO,
        };
        delay.pause_after(attempt, last, Jitter::Equal).min(LONGEST_PAUSE)
    }

    fn longest_pause(&self, lease: Duration) -> Duration {
        match self.delay(lease) {
            Delay::None => Duration::ZERO,
            Delay::Constant(pause) => pause,
            Delay::Backoff { max, .. } => max,
            Delay::Decorrelated { start, max, .. } => start.max(max),
        }
    }

    /// Checks everything, before anything is created.
    pub(crate) fn check(&self, what: &str, name: &str) -> io::Result<()> {
        engine::check_name(what, name, MAX_NAME)?;
        check(what, name, &self.shared)?;
        let refuse = |problem: String| Err(invalid(format!("{what} {name:?}: {problem}")));
        if self.attempts == 0 {
            return refuse("attempts is 0, and must be at least 1".into());
        }
        if self.time_limit == Some(Duration::ZERO) {
            return refuse("time_limit is 0, so no attempt could succeed".into());
        }
        if let Some(keep) = self.keep_results.filter(|keep| *keep < SHORTEST_KEEP) {
            return refuse(format!(
                "keep_results is {keep:?}, and must be at least {SHORTEST_KEEP:?}, because callers \
                 would miss results that are kept for less"
            ));
        }
        if let Some(jobs) = self.per_key.filter(|jobs| *jobs != 1) {
            return refuse(format!(
                "per_key is {jobs}, and must be 1: one job of each key at a time"
            ));
        }
        let spec = self.shared.apply(&QueueSpec::default());
        if let Some(why) = conflict(&spec) {
            return refuse(why.into());
        }
        let QueueSpec { lease, limit, .. } = spec;
        let pause = self.longest_pause(lease);
        if limit.is_some() && pause > lease {
            return refuse(format!(
                "it has a limit, and a pause of up to {pause:?} before a retry, which is longer \
                 than the lease of {lease:?}; a job in a pause counts as running, so the queue \
                 would stall; raise the lease, shorten the pause, or set no limit"
            ));
        }
        Ok(())
    }
}

/// Checks the settings of a queue that concern the whole fleet.
pub(crate) fn check(what: &str, name: &str, changes: &Changes) -> io::Result<()> {
    let refuse = |problem: String| Err(invalid(format!("{what} {name:?}: {problem}")));
    let (least, most) = LEASES;
    if let Some(lease) = changes.lease.filter(|lease| *lease < least || *lease > most) {
        return refuse(format!("the lease is {lease:?}, and must be {least:?} to {most:?}"));
    }
    if let Some(Some(Rate { jobs, per })) = changes.rate {
        if jobs == 0 || jobs > MOST_STARTS {
            return refuse(format!(
                "the rate has {jobs} jobs, and must have 1 to {MOST_STARTS}; for more of them, name \
                 a shorter period"
            ));
        }
        let (least, most) = PERIODS;
        if per < least || per > most {
            return refuse(format!(
                "the period of the rate is {per:?}, and must be {least:?} to {most:?}"
            ));
        }
    }
    for (setting, is_zero) in [
        ("limit", changes.limit == Some(Some(0))),
        ("capacity", changes.capacity == Some(Some(0))),
        ("replicas", changes.replicas == Some(0)),
    ] {
        if is_zero {
            return refuse(format!("{setting} is 0, and must be at least 1"));
        }
    }
    Ok(())
}

/// The setters that queues and functions have in common.
macro_rules! setters {
    () => {
        /// Sets how long a holder that does not answer keeps a job. 30 s by default. A lease is
        /// renewed each third of this time.
        ///
        /// This, the limit, the capacity and the replicas are settings of the whole fleet. If the
        /// queue exists with another value, opening it changes that: see
        /// [`Queue::update`](crate::Queue::update). A setting that is not named here stays as it
        /// is.
        pub fn lease(mut self, lease: Duration) -> Self {
            self.settings.shared.lease = Some(lease);
            self
        }

        /// Sets how often a job is begun before it goes to the dead. 25 by default. An attempt
        /// whose process has died counts. A job that was handed out and not begun does not.
        pub fn attempts(mut self, attempts: u32) -> Self {
            self.settings.attempts = attempts;
            self
        }

        /// Sets the pause after an attempt that has failed. By default it begins with 1 s and
        /// doubles up to the lease. A part of it is random.
        pub fn retry(mut self, delay: Delay) -> Self {
            self.settings.retry = Some(delay);
            self
        }

        /// Sets how many jobs may run at once in the whole fleet. There is no limit by default.
        /// Jobs in a pause before a retry count as running.
        pub fn limit(mut self, running: usize) -> Self {
            self.settings.shared.limit = Some(Some(running));
            self
        }

        /// Sets how many jobs are handed out in a period, in the whole fleet: in no span of time of
        /// this length are there more than `jobs`. Each attempt counts. There is no such limit by
        /// default. At most 1,000 jobs, and 10 ms to 31 days.
        ///
        /// A process asks for jobs ahead, as many as its window has. Those wait there with their
        /// leases, and count as running, until the rate permits to hand them out. A program that
        /// receives jobs and begins them later may begin several at once.
        /// [`serve`](crate::Function::serve) begins each at once.
        ///
        /// The times are those of the processes, so clocks that differ by some time may add as many
        /// jobs as the rate has in it. The place of a process that is killed is lost.
        pub fn rate(mut self, jobs: usize, per: Duration) -> Self {
            self.settings.shared.rate = Some(Some(crate::engine::Rate { jobs, per }));
            self
        }

        /// Sets how long an attempt may take in this process. There is no limit by default.
        ///
        /// When the time is up, the waits inside [`Job::run`](crate::Job::run) or the function are
        /// cancelled, and it is awaited. If one was interrupted, the attempt has failed: `run`
        /// returns [`LeaseLost::TimeLimit`](crate::LeaseLost::TimeLimit), and what was returned
        /// inside is dropped. If the job is dropped then, it is tried again after the pause of the
        /// settings, or goes to the dead after its last attempt, with the time limit as the reason.
        /// Code that computes is not stopped.
        pub fn time_limit(mut self, d: Duration) -> Self {
            self.settings.time_limit = Some(d);
            self
        }

        /// Sets how many jobs may be queued or running. There is no limit by default. Further ones
        /// are refused as [`Full`](crate::SendError::Full).
        pub fn capacity(mut self, jobs: u64) -> Self {
            self.settings.shared.capacity = Some(Some(jobs));
            self
        }

        /// Sets on how many servers of a cluster jobs are stored: 1 by default, 3 to survive the
        /// loss of one.
        pub fn replicas(mut self, servers: usize) -> Self {
            self.settings.shared.replicas = Some(servers);
            self
        }
    };
}
pub(crate) use setters;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let delays = [
            None,
            Some(Delay::Backoff { start: SECOND, max: 30 * SECOND, mult: 3 }),
            Some(Delay::Decorrelated { start: SECOND, max: 30 * SECOND, mult: 3 }),
        ];
        for retry in delays {
            let settings = Settings { retry, ..Settings::default() };
            let lease = 30 * SECOND;
            assert!(settings.pause(1, lease) <= SECOND, "{retry:?}");
            for attempt in [10, 100, u32::MAX] {
                let pause = settings.pause(attempt, lease);
                let longest = settings.longest_pause(lease);
                assert!(pause >= 15 * SECOND && pause <= longest, "{retry:?}");
            }
        }
        let settings = Settings { retry: Some(Delay::None), ..Settings::default() };
        assert_eq!(settings.pause(7, SECOND), Duration::ZERO);
    }
}
