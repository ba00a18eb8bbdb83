//! The watchdog of a run: it reports each worker that does not switch for a while, and the tasks that
//! are left a while after the root has returned.
//!
//! A worker costs nothing more for it. It notes the task that it runs, and when it last looked
//! around ([`inspect::mark`]). The watchdog compares the marks of two moments. A worker that looks
//! around, or runs no task, begins a new *episode*. An episode that lasts for the limit is reported
//! once. Time in which the system gives the worker's thread no processor does not count: a thread
//! that computes is judged by its time on a processor.
//!
//! The watchdog is an alarm of the service, whose thread no user code can block.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::deadlock::patience;
use super::dump::{dump, running_on};
use super::leftover;
use super::record::Recorder;
use crate::base::alarm::{Alarm, Ring};
use crate::base::watched::{Activity, Call, Times};
use crate::base::{clock, report};
use crate::sched::Pool;
use crate::sched::inspect::{self, Mark};

/// The limit in debug builds, if the program has not set one.
const LIMIT_IN_DEBUG: Duration = Duration::from_secs(1);
/// The shortest limit. A worker that switches looks around far more often.
pub(crate) const LIMIT_MIN: Duration = Duration::from_millis(10);
/// The environment variable that sets the limit.
pub(crate) const VARIABLE: &str = "ECRU_WATCHDOG";

/// A watchdog that watches until it is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog(Arc<Watch>);

struct Watch {
    this: Weak<Watch>,
    pool: Arc<Pool>,
    limit: Duration,
    seen: Mutex<Seen>,
}

struct Seen {
    /// The next look. `None` before the first one, and after the end of the run.
    alarm: Option<Alarm>,
    ended: bool,
    /// One for each worker.
    episodes: Vec<Episode>,
    /// When the root has returned, until what is left has been reported.
    returned: Option<Instant>,
}

/// The time for which a worker has run one task without looking around.
#[derive(Clone, Copy, Debug)]
struct Episode {
    mark: Option<Mark>,
    since: Instant,
    /// What the system had counted for the thread by then.
    times: Times,
    is_reported: bool,
}

/// Returns the limit that the environment or the build decides, or `None` for no watchdog.
///
/// # Errors
/// Returns a text if the variable has an invalid value.
pub(crate) fn limit_by_default() -> Result<Option<Duration>, String> {
    match std::env::var(VARIABLE) {
        Ok(value) if !value.is_empty() => parse(&value).ok_or_else(|| {
            format!(
                "{VARIABLE}={value:?}: write a time of at least 10 ms such as `200ms` or `2s`, or `0` for no watchdog"
            )
        }),
        _ => Ok(cfg!(debug_assertions).then_some(LIMIT_IN_DEBUG)),
    }
}

/// Reads `200ms` or `2s`. `0` means no watchdog. Returns `None` for anything else.
fn parse(value: &str) -> Option<Option<Duration>> {
    if value == "0" {
        return Some(None);
    }
    let (number, unit) = match value.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (value.strip_suffix('s')?, 1000),
    };
    let millis = number.parse::<u64>().ok()?.checked_mul(unit)?;
    let limit = Duration::from_millis(millis);
    (limit >= LIMIT_MIN).then_some(Some(limit))
}

impl Watchdog {
    /// Watches the workers of a pool. Does nothing if the system refuses a thread.
    pub(crate) fn begin(pool: &Arc<Pool>, limit: Duration) -> Watchdog {
        let new = Episode::begin(None, clock::now(), Times::default());
        let episodes = vec![new; pool.settings.workers];
        let seen = Mutex::new(Seen { alarm: None, ended: false, episodes, returned: None });
        let pool = Arc::clone(pool);
        let watch = Arc::new_cyclic(|this| Watch { this: Weak::clone(this), pool, limit, seen });
        watch.set_alarm(&mut watch.seen());
        Watchdog(watch)
    }

    /// Notes that the root has returned, and that the run waits for its other tasks.
    pub(crate) fn root_has_returned(&self) {
        self.0.seen().returned = Some(clock::now());
    }
}

impl Episode {
    fn begin(mark: Option<Mark>, since: Instant, times: Times) -> Episode {
        Episode { mark, since, times, is_reported: false }
    }

    /// Returns how long the thread has not switched although it could.
    fn lasted(&self, now: Instant, times: Times, activity: Activity) -> Duration {
        if activity == Activity::Computes {
            return times.ran.saturating_sub(self.times.ran);
        }
        let queued = times.waited.saturating_sub(self.times.waited);
        now.saturating_duration_since(self.since).saturating_sub(queued)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let mut seen = self.0.seen();
        seen.ended = true;
        seen.alarm = None;
    }
}

impl Watch {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the alarm for the next look, unless the run has ended.
    fn set_alarm(&self, seen: &mut Seen) {
        if !seen.ended {
            // A report comes at most this much later than the limit.
            let due = clock::now() + self.limit / 2;
            seen.alarm = Alarm::set_aside(due, Weak::clone(&self.this) as Weak<dyn Ring>).ok();
        }
    }

    /// Looks at each worker. Returns the reports.
    fn look(&self, seen: &mut Seen, now: Instant) -> Vec<String> {
        let mut reports = Vec::new();
        for (worker, episode) in seen.episodes.iter_mut().enumerate() {
            let mark = inspect::mark(&self.pool, worker);
            let thread = inspect::thread_of(&self.pool, worker);
            if mark.is_none() || mark != episode.mark {
                let times = mark.map(|_| thread.times()).unwrap_or_default();
                *episode = Episode::begin(mark, now, times);
                continue;
            }
            if episode.is_reported || now.saturating_duration_since(episode.since) < self.limit {
                continue;
            }
            let activity = thread.activity();
            let lasted = episode.lasted(now, thread.times(), activity);
            if lasted < self.limit {
                continue;
            }
            let concerns_others = match activity {
                Activity::Computes => inspect::has_others(&self.pool, worker),
                _ => (0..self.pool.settings.workers).any(|one| {
                    let is_other = one != worker;
                    inspect::has_others(&self.pool, one)
                        || (is_other && inspect::mark(&self.pool, one).is_some())
                }),
            };
            // The task may have ended meanwhile.
            if concerns_others && inspect::mark(&self.pool, worker) == mark {
                episode.is_reported = true;
                reports.push(self.describe(worker, lasted, activity));
            }
        }
        reports
    }

    /// Writes what the program wants beside a report. The thread that writes reports does so, because
    /// this one must not wait.
    fn tell_more(&self) {
        let pool = Arc::clone(&self.pool);
        if pool.settings.dump_on_alarm {
            report::show_later(move || format!("ecru: {:#}", dump(&pool)));
        }
        let settings = &self.pool.settings;
        if let Some((path, rings)) =
            settings.record_on_alarm.clone().zip(self.pool.recorder.clone())
        {
            let write = move || format!("ecru: the {}", Recorder::new(rings).write_to(&path));
            report::show_later(write);
        }
    }

    /// Returns for how long the root has returned, once, when that is long.
    fn look_for_leftover(&self, seen: &mut Seen, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(seen.returned?);
        (since >= self.limit.max(patience())).then(|| {
            seen.returned = None;
            since
        })
    }

    fn describe(&self, worker: usize, lasted: Duration, activity: Activity) -> String {
        let mut text = format!("ecru: worker {worker} has not switched tasks for {lasted:.1?}: ");
        let _ = match running_on(&self.pool, worker) {
            Some(task) => write!(text, "it runs {task}"),
            None => write!(text, "what it runs is not known"),
        };
        let _ = write!(text, "\n  {}", Advice(activity));
        let _ = write!(text, "\n  its stack: {}", how_to_print_stacks());
        text
    }
}

/// Returns how the stacks of the running tasks are printed. Their threads cannot be asked, and a
/// signal handler cannot walk a stack: see `doc/decisions/0042-stacks-of-blocked-workers.md`.
pub(super) fn how_to_print_stacks() -> String {
    format!(
        "`ecru gdb-script >ecru-gdb.py`, then `gdb -p {} -batch -x ecru-gdb.py -ex 'ecru bt running'`",
        std::process::id()
    )
}

impl Ring for Watch {
    fn ring(&self) {
        let mut seen = self.seen();
        let now = clock::now();
        let reports = self.look(&mut seen, now);
        let returned = self.look_for_leftover(&mut seen, now);
        self.set_alarm(&mut seen);
        drop(seen);
        let is_alarm = !reports.is_empty();
        reports.into_iter().for_each(report::say);
        if is_alarm {
            self.tell_more();
        }
        if let Some(since) = returned {
            leftover::report(&self.pool, since);
        }
    }
}

/// What a blocked worker does, and what the program should do instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advice(pub(super) Activity);

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Activity::Computes => f.write_str(
                "the task computes: its worker's other tasks wait until it calls `ecru::checkpoint` or `ecru::yield_now`, \
                 or moves the work into `ecru::unblock`",
            ),
            Activity::Waits(Call::Futex) => f.write_str(
                "the thread is blocked by a lock, a channel, a join or a condition variable of `std` (futex): use those of \
                 `ecru::sync` and `ecru::channel`, and hold no `std` lock across a wait",
            ),
            Activity::Waits(Call::Sleep) => f.write_str(
                "the thread sleeps (nanosleep): use `ecru::sleep` instead of `std::thread::sleep`",
            ),
            Activity::Waits(Call::Descriptor(name)) => write!(
                f,
                "the thread is blocked in a system call ({name}): use `ecru::net`, `ecru::fs` or `ecru::io` instead of \
                 `std`'s modules, or move the call into `ecru::unblock`"
            ),
            Activity::Waits(Call::Child) => f.write_str(
                "the thread waits for a child process: use `ecru::process`, or move the call into `ecru::unblock`",
            ),
            Activity::Waits(Call::Other) | Activity::Unknown => f.write_str(
                "the task computes, or its thread is blocked by a call outside of ecru: move that call into `ecru::unblock`",
            ),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn times_are_read() {
        assert_eq!(parse("200ms"), Some(Some(Duration::from_millis(200))));
        assert_eq!(parse("2s"), Some(Some(Duration::from_secs(2))));
        assert_eq!(parse("0"), Some(None));
        for wrong in ["", "s", "ms", "1", "9ms", "-1s", "1.5s", "1m", "99999999999999999999s"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse("18446744073709551615s"), None);
    }
}
