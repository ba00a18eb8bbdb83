//! What a worker does when it has nothing to run: looks around, watches for others' work, tidies up, sleeps. See
//! [`super::pool`] for when which.

use std::cell::{Cell, RefCell};
use std::hint;
use std::ptr;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::deque::Taken;
use super::pool::{WATCH_FIRST, WATCH_LAST, WATCH_LAST_UNWORTHY, WATCH_PATIENCE};
use super::shared::WorkerShared;
use super::worker::Worker;
use crate::base::sync::atomic::Ordering;
use crate::base::{alarm, clock, local, outside};
use crate::driver::Wait;
use crate::park::Waiter;
use crate::task::Header;

/// A stolen task that keeps its thief busy for less than this was not worth the trip between the cores.
const WORTHY: Duration = Duration::from_micros(2);
/// The most tasks taken at once.
const STEAL_MAX: usize = 256;
/// How often an idle worker gives memory back, and how many times before it sleeps for good.
const TIDY_PERIOD: Duration = Duration::from_secs(1);
const TIDY_TIMES: u32 = 3;
/// How long after an alarm a worker that has nothing else to do looks whether the run is stuck.
const AFTER_ALARM: Duration = Duration::from_millis(1);

/// How often a worker looks for messages before it sleeps: some ten microseconds. It does not offer its core to others meanwhile: on a busy
/// machine each offer may cost it a time slice, a hundred times what it takes to sleep and be woken.
const LOOKS_BEFORE_SLEEP: u32 = 1024;

/// How often a task looks whether its wait is over before it parks: some three microseconds.
const LOOKS_BEFORE_PARK: u32 = 128;

/// The unstarted tasks of a worker at one moment.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The span of its queue.
    queued: (isize, isize),
    /// The newest task in its inbox, for comparison only.
    inbound: *const Header,
}

impl Seen {
    fn of(worker: &WorkerShared) -> Seen {
        Seen { queued: worker.unstarted.span(), inbound: worker.newest_inbound() }
    }
}

/// What a worker remembers between two idle moments.
#[derive(Debug)]
pub(super) struct Leisure {
    /// The queues of all workers at the last look: what was in there has aged since.
    seen: RefCell<Vec<Seen>>,
    /// When it took tasks from another, and how many: to see whether that was worth it.
    stolen: Cell<Option<(Instant, usize)>>,
    /// How many to take next time, and how long to nap before.
    appetite: Cell<usize>,
    pause: Cell<Duration>,
    /// When memory was given back last, and how many times since there was something to do.
    tidied: Cell<Instant>,
    tidy_times: Cell<u32>,
    /// It has woken up, maybe because a spawn wanted somebody to watch, and nobody has begun to since.
    summoned: Cell<bool>,
    /// Its last sleep was ended by another thread's message: the next may be too, before long.
    conversing: Cell<bool>,
}

impl Leisure {
    pub(super) fn new() -> Leisure {
        Leisure {
            seen: RefCell::new(Vec::new()),
            stolen: Cell::new(None),
            appetite: Cell::new(1),
            pause: Cell::new(WATCH_FIRST),
            tidied: Cell::new(clock::now()),
            tidy_times: Cell::new(0),
            summoned: Cell::new(false),
            conversing: Cell::new(false),
        }
    }

    /// Learns from the last theft; true: more of that at once.
    fn judge(&self) -> bool {
        let Some((since, count)) = self.stolen.take() else { return false };
        let worthy = clock::now().saturating_duration_since(since)
            / u32::try_from(count).unwrap_or(u32::MAX)
            >= WORTHY;
        if worthy {
            self.appetite.set((self.appetite.get() * 2).min(STEAL_MAX));
            self.pause.set(WATCH_FIRST);
        } else {
            self.appetite.set(1);
            self.pause.set((self.pause.get() * 2).min(WATCH_LAST_UNWORTHY));
        }
        worthy
    }
}

impl Worker {
    /// Returns when there may be something to run, or the worker is to end.
    #[cold]
    pub(super) fn idle(&self) {
        self.look_around(Wait::Poll);
        if self.has_work() {
            self.leisure.tidy_times.set(0);
            self.pass_summons_on();
            return;
        }
        if self.pool.start_watch() {
            self.leisure.summoned.set(false);
            let found = self.watch();
            // Whoever gives up leaves the watch to whom the next spawn wakes; whoever finds work, to another at once if
            // there is more.
            self.pool.end_watch(found);
            if found {
                self.leisure.tidy_times.set(0);
                if self.others_have_work() {
                    self.pool.wake_watcher();
                }
                return;
            }
        }
        if self.pool.stopping.load(Ordering::SeqCst) {
            self.finished.set(true);
            return;
        }
        let due = self.tidy();
        self.nap(due, true);
        self.leisure.summoned.set(true);
        if self.has_work() {
            self.pass_summons_on();
        }
    }

    /// The spawn that took the flag down has woken one sleeper. If that one has other things to do by now, the next is to watch in its
    /// place: nobody else would be told about the spawn.
    fn pass_summons_on(&self) {
        if self.leisure.summoned.take() && !self.pool.is_watched() && !self.pool.is_watch_wanted() {
            self.pool.wake_sleeper();
        }
    }

    fn has_work(&self) -> bool {
        let (oldest, next) = self.shared.unstarted.span();
        !self.ready.is_empty() || oldest < next || self.finished.get()
    }

    fn others_have_work(&self) -> bool {
        self.pool.workers.iter().any(|worker| {
            let (oldest, next) = worker.unstarted.span();
            oldest < next || !worker.newest_inbound().is_null()
        })
    }

    /// Gives memory back that has not been needed for a while. Returns when to do it again; none: enough has been done.
    fn tidy(&self) -> Option<Instant> {
        let (now, leisure) = (clock::now(), &self.leisure);
        if leisure.tidy_times.get() == TIDY_TIMES {
            return None;
        }
        if now.saturating_duration_since(leisure.tidied.get()) >= TIDY_PERIOD {
            leisure.tidied.set(now);
            leisure.tidy_times.set(leisure.tidy_times.get() + 1);
            self.stacks.borrow_mut().trim();
            self.pool.stacks.trim_idle();
            if self.pool.start_watch_or_alone() {
                // Only who watches takes from others' queues: nobody is reading an old buffer of this one.
                self.shared.unstarted.shrink();
                self.pool.end_watch(true);
            }
            self.blocks.tidy(leisure.tidy_times.get() == TIDY_TIMES);
        }
        Some(leisure.tidied.get() + TIDY_PERIOD)
    }

    /// Naps and looks at the others' queues in turn. True: there is something to run.
    fn watch(&self) -> bool {
        let mut seen = self.leisure.seen.borrow_mut();
        let look = || self.pool.workers.iter().map(|worker| Seen::of(worker));
        if self.leisure.judge() && !seen.is_empty() && self.steal_aged(&seen) {
            return true;
        }
        seen.clear();
        seen.extend(look());
        let mut pause = self.leisure.pause.get();
        let longest = pause.max(WATCH_LAST);
        let mut quiet = 0;
        loop {
            if self.pool.stopping.load(Ordering::SeqCst) {
                return false;
            }
            if quiet == WATCH_PATIENCE {
                // One more nap after the flag is up: a spawn that has missed it is visible then.
                self.pool.want_watch(true);
            }
            self.nap(Some(clock::now() + pause), false);
            if self.has_work() || self.steal_aged(&seen) {
                return true;
            }
            let spawned = look().zip(&*seen).any(|(now, seen)| now.queued.1 != seen.queued.1);
            if quiet == WATCH_PATIENCE {
                if !spawned && !self.others_have_work() {
                    return false;
                }
                self.pool.want_watch(false);
            }
            quiet = if spawned { 0 } else { quiet + 1 };
            pause = (pause * 2).min(longest);
            seen.clear();
            seen.extend(look());
        }
    }

    /// Takes what was queued at the last look and still is.
    fn steal_aged(&self, seen: &[Seen]) -> bool {
        seen.iter().enumerate().any(|(index, before)| {
            let worker = self.pool.workers[index];
            let aged = before.queued.1 - worker.unstarted.span().0;
            // At most half of them: the owner keeps on working too.
            let share = usize::try_from(aged).map_or(0, |aged| aged.div_ceil(2));
            let has_aged_inbound =
                !before.inbound.is_null() && ptr::eq(before.inbound, worker.newest_inbound());
            index != self.index
                && ((share > 0 && self.take_from(index, share.min(self.leisure.appetite.get())))
                    || (has_aged_inbound && worker.take_inbound(|task| self.queue(task)) > 0))
        })
    }

    /// Takes up to `wanted` of the oldest of another worker.
    fn take_from(&self, index: usize, wanted: usize) -> bool {
        let victim = self.pool.workers[index];
        let mut taken = 0;
        while taken < wanted {
            match victim.unstarted.steal() {
                Taken::Empty => break,
                Taken::Lost => {}
                Taken::Task(task) => {
                    self.shared.unstarted.push(task);
                    taken += 1;
                }
            }
        }
        if taken > 0 {
            self.leisure.stolen.set(Some((clock::now(), taken)));
        }
        taken > 0
    }

    /// Sleeps until there is news, a timer is due, or the given moment. `for_good`: nobody watches on behalf of this worker.
    fn nap(&self, until: Option<Instant>, for_good: bool) {
        let timer = self.timers.next();
        let until = match (until, timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let in_driver = self.io.borrow().is_open();
        if self.listens() {
            return self.look_around(Wait::Poll);
        }
        let mut rested = false;
        self.pool.idle.insert(self.index);
        if self.shared.fall_asleep(in_driver) {
            // Whoever stops the pool, or spawned while nobody watched, may have looked just before.
            let mut until = until;
            if for_good && !self.pool.is_watched() && !self.pool.is_watch_wanted() {
                self.pool.want_watch(true);
                // A spawn that has missed the flag is visible after a nap.
                let soon = clock::now() + WATCH_FIRST;
                until = Some(until.map_or(soon, |until| until.min(soon)));
            }
            let last_look = self.pool.stopping.load(Ordering::SeqCst)
                || (for_good && self.pool.is_watch_wanted() && self.others_have_work());
            if last_look {
                self.shared.wake_up();
                self.pool.idle.remove(self.index);
                return self.look_around(Wait::Poll);
            }
            let rests = for_good && self.comes_to_rest(&mut until);
            if in_driver {
                let wait = match until {
                    None => Wait::Forever,
                    Some(until) => Wait::For(until.saturating_duration_since(clock::now())),
                };
                self.io.borrow_mut().poll(self, wait);
                self.shared.wake_up();
            } else {
                self.shared.sleep(until);
            }
            if rests {
                self.pool.rest.leave();
            }
            rested = rests;
        }
        self.pool.idle.remove(self.index);
        self.leisure.conversing.set(self.shared.has_news());
        self.look_around(Wait::Poll);
        if rested && self.has_work() {
            // Relaxed: it is compared after this worker has come to rest again, and `Rest` orders that.
            self.pool.stirred.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Looks for messages for a few microseconds, if they have ended the last sleep too: to wake a worker that sleeps takes its waker
    /// and itself some ten times as long. Whether there is one. Where there are more workers awake than cores, the message may be one
    /// that needs this core to be sent.
    fn listens(&self) -> bool {
        if !self.leisure.conversing.get() || !self.can_listen() {
            return false;
        }
        for _ in 0..LOOKS_BEFORE_SLEEP {
            if self.shared.has_news() {
                // The next may come even sooner.
                local::with(|local| local.listens.set(true));
                return true;
            }
            hint::spin_loop();
        }
        self.leisure.conversing.set(false);
        false
    }

    fn can_listen(&self) -> bool {
        self.io.borrow().in_flight() == 0 && !self.pool.is_crowded()
    }

    /// Whether the running task may listen. If not, its next waits do not, until a message has come soon after the worker was out of work.
    pub(super) fn may_listen(&self) -> bool {
        let has_nothing_else = !self.has_work() && self.preempted.is_empty();
        let may = has_nothing_else && self.can_listen() && !self.shared.has_news();
        if !may {
            local::with(|local| local.listens.set(false));
        }
        may
    }

    /// The running task waits. Listens for the end of its wait for a few microseconds, which the worker would otherwise spend
    /// in [`Worker::listens`]. To go on at once saves the way through the inbox and two switches.
    pub(super) fn listen_for(&self, waiter: &Waiter) {
        if !self.may_listen() {
            return;
        }
        for _ in 0..LOOKS_BEFORE_PARK {
            if waiter.has_heard() {
                return;
            }
            if self.shared.has_news() {
                break;
            }
            hint::spin_loop();
        }
        local::with(|local| local.listens.set(false));
    }

    /// About to sleep for good: see [`super::rest`]. Whether it counts as at rest until it leaves.
    fn comes_to_rest(&self, until: &mut Option<Instant>) -> bool {
        let settings = &self.pool.settings;
        if settings.on_deadlock.is_none() && settings.on_quiet.is_none() {
            return false;
        }
        let has_none = !self.has_work()
            && self.timers.is_empty()
            && self.io.borrow().in_flight() == 0
            && self.unblocking.get() == 0
            && !outside::is_anything_expected();
        if !has_none {
            return false;
        }
        if let Some(due) = alarm::next_due() {
            // It may wake a task. If it does not, somebody has to look again.
            let after = due.max(clock::now()) + AFTER_ALARM;
            *until = Some(until.map_or(after, |until| until.min(after)));
            return false;
        }
        if let Some(all) = self.pool.rest.enter(self.pool.workers.len())
            && !self.others_have_work()
            && self.pool.workers.iter().all(|worker| !worker.has_news())
            && self.pool.rest.confirm(all)
        {
            match settings.on_deadlock {
                // What this spawns comes through an inbox, and ends the sleep of whoever gets it, this worker's too.
                Some(on_deadlock) => on_deadlock(&self.pool),
                None => self.all_are_quiet(until),
            }
        }
        true
    }

    /// All workers are at rest. Calls `on_quiet` if they have been for long enough, or makes sure that one of them looks again then.
    /// Between two looks workers may leave to tidy up, so only `stirred` tells whether anything has happened.
    fn all_are_quiet(&self, until: &mut Option<Instant>) {
        let Some((patience, on_quiet)) = self.pool.settings.on_quiet else { return };
        let (now, stirred) = (clock::now(), self.pool.stirred.load(Ordering::Relaxed));
        let mut quiet = self.pool.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        if quiet.said {
            return;
        }
        let since = match quiet.since {
            Some((since, then)) if then == stirred => since,
            _ => now,
        };
        quiet.since = Some((since, stirred));
        if now.saturating_duration_since(since) < patience {
            let due = since + patience;
            *until = Some(until.map_or(due, |until| until.min(due)));
        } else {
            quiet.said = true;
            drop(quiet);
            on_quiet();
        }
    }
}
