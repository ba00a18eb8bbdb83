//! The settings of queues and functions.

use std::io;
use std::time::Duration;

use ecru::schedule::{Delay, Jitter};

use crate::engine::{self, QueueSpec};
use crate::errors::invalid;

/// The longest name of a queue. Engines get it with a prefix.
const MAX_NAME: usize = engine::MAX_NAME - 2;

/// The shortest and the longest lease.
const LEASES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_hours(24));

/// The shortest time that results are kept. Their callers must have read them by then.
const SHORTEST_KEEP: Duration = Duration::from_secs(1);

/// The longest pause: a hundred years. Servers and clocks cannot count much longer ones.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_hours(100 * 365 * 24);

/// What a program has set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) attempts: u32,
    pub(crate) retry: Option<Delay>,
    pub(crate) limit: Option<usize>,
    pub(crate) capacity: Option<u64>,
    pub(crate) replicas: usize,
    pub(crate) keep_results: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lease: Duration::from_secs(30),
            attempts: 25,
            retry: None,
            limit: None,
            capacity: None,
            replicas: 1,
            keep_results: Duration::from_hours(24),
        }
    }
}

impl Settings {
    fn delay(&self) -> Delay {
        let default = Delay::Backoff { start: Duration::from_secs(1), max: self.lease, mult: 2 };
        self.retry.unwrap_or(default)
    }

    /// Returns the pause after an attempt that has failed.
    pub(crate) fn pause(&self, attempt: u32) -> Duration {
        let delay = self.delay();
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

    fn longest_pause(&self) -> Duration {
        match self.delay() {
            Delay::None => Duration::ZERO,
            Delay::Constant(pause) => pause,
            Delay::Backoff { max, .. } => max,
            Delay::Decorrelated { start, max, .. } => start.max(max),
        }
    }

    /// Checks everything, and returns what an engine needs to know. `prefix` keeps queues and
    /// functions apart.
    pub(crate) fn spec(&self, what: &str, prefix: &str, name: &str) -> io::Result<QueueSpec> {
        engine::check_name(what, name, MAX_NAME)?;
        let refuse = |problem: String| Err(invalid(format!("{what} {name:?}: {problem}")));
        if self.lease < LEASES.0 || self.lease > LEASES.1 {
            let (least, most) = LEASES;
            return refuse(format!(
                "the lease is {:?}, and must be {least:?} to {most:?}",
                self.lease
            ));
        }
        for (setting, is_zero) in [
            ("attempts", self.attempts == 0),
            ("limit", self.limit == Some(0)),
            ("capacity", self.capacity == Some(0)),
            ("replicas", self.replicas == 0),
        ] {
            if is_zero {
                return refuse(format!("{setting} is 0, and must be at least 1"));
            }
        }
        if self.keep_results < SHORTEST_KEEP {
            return refuse(format!(
                "keep_results is {:?}, and must be at least {SHORTEST_KEEP:?}, because callers \
                 would miss results that are kept for less",
                self.keep_results
            ));
        }
        let pause = self.longest_pause();
        if self.limit.is_some() && pause > self.lease {
            return refuse(format!(
                "it has a limit, and a pause of up to {pause:?} before a retry, which is longer \
                 than the lease of {:?}; a job in a pause counts as running, so the queue would \
                 stall; raise the lease, shorten the pause, or set no limit",
                self.lease
            ));
        }
        Ok(QueueSpec {
            name: format!("{prefix}{name}"),
            lease: self.lease,
            limit: self.limit,
            capacity: self.capacity,
            replicas: self.replicas,
        })
    }
}

/// The setters that queues and functions have in common.
macro_rules! setters {
    () => {
        /// Sets how long a holder that does not answer keeps a job. 30 s by default. A lease is
        /// renewed each third of this time.
        pub fn lease(mut self, lease: Duration) -> Self {
            self.settings.lease = lease;
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
            self.settings.limit = Some(running);
            self
        }

        /// Sets how many jobs may be queued or running. There is no limit by default. Further ones
        /// are refused as [`Full`](crate::SendError::Full).
        pub fn capacity(mut self, jobs: u64) -> Self {
            self.settings.capacity = Some(jobs);
            self
        }

        /// Sets on how many servers of a cluster jobs are stored: 1 by default, 3 to survive the
        /// loss of one.
        pub fn replicas(mut self, servers: usize) -> Self {
            self.settings.replicas = servers;
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
            assert!(settings.pause(1) <= SECOND, "{retry:?}");
            for attempt in [10, 100, u32::MAX] {
                let pause = settings.pause(attempt);
                assert!(pause >= 15 * SECOND && pause <= settings.longest_pause(), "{retry:?}");
            }
        }
        let settings = Settings { retry: Some(Delay::None), ..Settings::default() };
        assert_eq!(settings.pause(7), Duration::ZERO);
    }
}
