//! What a worker does when it has nothing to run: it looks around, watches the queues of other
//! workers, frees memory, and sleeps. [`super::pool`] says when it does which.

use std::hint;
use std::ptr;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use super::deque::Taken;
use super::idle_state::{STEAL_MAX, SeenQueues, Theft, WATCH_FIRST, WATCH_LAST, WATCH_NAPS};
use super::record;
use super::shared::WorkerShared;
use super::worker::Worker;
use crate::base::sync::atomic::Ordering;
use crate::base::{alarm, clock, local, outside};
use crate::driver::PollTimeout;
use crate::park::Waiter;

/// How often an idle worker returns memory to the system, and how many times before it sleeps for
/// good. Row: `given-back-1000000`.
const TIDY_PERIOD: Duration = Duration::from_secs(1);
const TIDY_TIMES: u32 = 3;
/// How long after an alarm a worker with nothing else to do checks for a deadlock. It moves no row:
/// such a worker has nothing to do.
const AFTER_ALARM: Duration = Duration::from_millis(1);

/// A poll of the driver that takes longer has waited. Then the worker does not look around before
/// the next nap, which saves a system call. Row: `web-health-2`.
const AT_ONCE: Duration = Duration::from_micros(3);

/// How often a worker on a core of its own checks for messages before it sleeps: about ten
/// microseconds in all. It does not yield its core meanwhile. On a machine that is busy with other
/// processes each yield may cost a time slice, which is a hundred times the cost of sleeping and
/// being woken. Row: `ping-pong-2`.
const LOOKS_BEFORE_SLEEP: u32 = 1024;

/// How often a worker that shares its core with other workers yields it before it sleeps. Row:
/// `placement-pairs-8`.
const YIELDS_BEFORE_SLEEP: u32 = 4;

/// Longer than the time slice of a thread. A worker with a timer that is due earlier does not
/// yield. Row: `late-timer-2000`.
const TIME_SLICE: Duration = Duration::from_millis(10);

/// How often a task checks whether its wait is over before it parks: about three microseconds in
/// all. Row: `apart-rendezvous`.
const LOOKS_BEFORE_PARK: u32 = 128;

/// How long an owner takes nothing out of its queue before an idle worker takes more of the tasks
/// in it than a balance needs. Row: `placement-blocked`.
const LEFT_LYING: Duration = Duration::from_millis(5);

impl Worker {
    /// Returns when there may be something to run, or the worker is to end.
    #[cold]
    pub(super) fn idle(&self) {
        debug_assert!(!self.root_is_next.get(), "the worker would not get to the root");
        self.turns.set(self.pace.begin_anew());
        if self.idle_state.sleeps.get() {
            // The nap looks around as well.
            self.leave_task();
        } else {
            self.look_around(clock::now());
            if self.has_work() {
                self.idle_state.tidy_times.set(0);
                self.pass_summons_on();
                return;
            }
        }
        if self.pool.start_watch() {
            self.idle_state.summoned.set(false);
            let found = self.watch();
            // A worker that gives up leaves the watch to the worker that the next spawn wakes. A
            // worker that found work passes the watch on at once if there is more.
            self.pool.end_watch(found);
            if found {
                self.idle_state.tidy_times.set(0);
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
        self.idle_state.summoned.set(true);
        if self.has_work() {
            self.pass_summons_on();
        }
    }

    /// Passes a wake-up on. The spawn that cleared `watch_wanted` woke one sleeper. If that worker
    /// has other work by now, it wakes the next to watch in its place, because no spawn would.
    fn pass_summons_on(&self) {
        if self.idle_state.summoned.take()
            && !self.pool.is_watched()
            && !self.pool.is_watch_wanted()
        {
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

    /// Returns memory that has not been needed for a while. Returns when to do so again, or `None`
    /// when enough has been returned.
    fn tidy(&self) -> Option<Instant> {
        let (now, state) = (clock::now(), &self.idle_state);
        if state.tidy_times.get() == TIDY_TIMES {
            return None;
        }
        if now.saturating_duration_since(state.tidied.get()) >= TIDY_PERIOD {
            state.tidied.set(now);
            state.tidy_times.set(state.tidy_times.get() + 1);
            self.stacks.borrow_mut().trim();
            self.pool.stacks.trim_idle();
            if self.pool.start_watch_or_alone() {
                // Only the watching worker steals, so no thief is reading an old buffer of this
                // queue.
                self.shared.unstarted.shrink();
                self.pool.end_watch(true);
            }
            self.blocks.tidy(state.tidy_times.get() == TIDY_TIMES);
        }
        Some(state.tidied.get() + TIDY_PERIOD)
    }

    /// Naps and looks at the queues of the others, in turns. Returns whether there is something to
    /// run.
    fn watch(&self) -> bool {
        let mut seen = self.idle_state.seen.borrow_mut();
        if self.idle_state.judge(self.shared.live()) && !seen.is_empty() && self.steal_aged(&seen) {
            return true;
        }
        self.look_at_queues(&mut seen);
        let mut pause = self.idle_state.pause.get();
        let longest = pause.max(WATCH_LAST);
        let mut quiet = 0;
        loop {
            if self.pool.stopping.load(Ordering::SeqCst) {
                return false;
            }
            if quiet == WATCH_NAPS {
                // One more nap after the flag is set. A spawn that missed the flag is visible after
                // it.
                self.pool.want_watch(true);
            }
            self.nap(Some(clock::now() + pause), false);
            if self.has_work() || self.steal_aged(&seen) {
                return true;
            }
            let mut workers = self.pool.workers.iter().zip(&*seen);
            let spawned = workers.any(|(worker, seen)| worker.unstarted.span().1 != seen.queued.1);
            if quiet == WATCH_NAPS {
                if !spawned && !self.others_have_work() {
                    return false;
                }
                self.pool.want_watch(false);
            }
            quiet = if spawned { 0 } else { quiet + 1 };
            pause = (pause * 2).min(longest);
            self.look_at_queues(&mut seen);
        }
    }

    /// Records what is in the queues and inboxes of all workers.
    fn look_at_queues(&self, seen: &mut Vec<SeenQueues>) {
        let (workers, now) = (&self.pool.workers, clock::now());
        if seen.is_empty() {
            seen.extend(workers.iter().map(|worker| SeenQueues::new(worker, now)));
        } else {
            seen.iter_mut().zip(workers).for_each(|(seen, worker)| seen.update(worker, now));
        }
    }

    /// Returns whether this worker leaves the unstarted tasks of another alone for now.
    ///
    /// Tasks that wait soon after their start do not keep a thief busy, so it would take all of
    /// them, one by one. When work for them arrives, one core would do all of it. So the thief
    /// stops when it has as many tasks as the owner, unless the owner is away.
    fn leaves_to_owner(&self, owner: &WorkerShared) -> bool {
        self.idle_state.theft_waits.get() && self.shared.burden() >= owner.burden()
    }

    /// Steals tasks that were queued at the last look and still are.
    fn steal_aged(&self, seen: &[SeenQueues]) -> bool {
        let now = clock::now();
        seen.iter().enumerate().any(|(index, before)| {
            let worker = self.pool.workers[index];
            let aged = before.queued.1 - worker.unstarted.span().0;
            // At most half of them, since the owner keeps working too.
            let share = usize::try_from(aged).map_or(0, |aged| aged.div_ceil(2));
            // An owner that has not come to its queue for so long may be blocked by foreign code,
            // and its tasks with it. One that has not even spawned is hardly at work.
            let has_passed = |since| now.saturating_duration_since(since) >= LEFT_LYING;
            let is_away = has_passed(before.owner_away_since);
            let takes_all =
                has_passed(before.still_since) || (is_away && self.idle_state.theft_waits.get());
            let appetite = if takes_all { STEAL_MAX } else { self.idle_state.appetite.get() };
            let has_aged_inbound =
                !before.inbound.is_null() && ptr::eq(before.inbound, worker.newest_inbound());
            index != self.index
                && ((share > 0
                    && (is_away || !self.leaves_to_owner(worker))
                    && self.take_from(index, share.min(appetite)))
                    || (has_aged_inbound && worker.take_inbound(|task| self.queue(task)) > 0))
        })
    }

    /// Takes up to `wanted` of another worker's oldest tasks.
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
            // Only the watching worker gets here, so no exchange is needed.
            let stolen = victim.stolen.load(Ordering::Relaxed) + taken.cast_signed();
            victim.stolen.store(stolen, Ordering::Relaxed);
            self.idle_state.stolen.set(Some(Theft::new(taken, self.shared.live(), victim)));
            record::steals(index, taken);
        }
        taken > 0
    }

    /// Sleeps until a message arrives, a timer is due, or the given moment. With `for_good`, no
    /// worker watches on behalf of this one.
    fn nap(&self, until: Option<Instant>, for_good: bool) {
        let timer = self.timers.next();
        let until = match (until, timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let in_driver = self.io.borrow().is_open();
        if self.listens() {
            return self.look_around(clock::now());
        }
        let (mut rested, mut has_polled) = (false, false);
        self.pool.idle.insert(self.index);
        if self.shared.fall_asleep(in_driver) {
            // A thread that stops the pool, or a spawn while no worker watched, may have looked
            // just before.
            let mut until = until;
            if for_good && !self.pool.is_watched() && !self.pool.is_watch_wanted() {
                self.pool.want_watch(true);
                // A spawn that missed the flag is visible after a nap.
                let soon = clock::now() + WATCH_FIRST;
                until = Some(until.map_or(soon, |until| until.min(soon)));
            }
            let last_look = self.pool.stopping.load(Ordering::SeqCst)
                || (for_good && self.pool.is_watch_wanted() && self.others_have_work());
            if last_look {
                self.shared.wake_up();
                self.pool.idle.remove(self.index);
                return self.look_around(clock::now());
            }
            let rests = for_good && self.comes_to_rest(&mut until);
            if in_driver {
                let begun = clock::now();
                let wait = match until {
                    None => PollTimeout::Forever,
                    Some(until) => PollTimeout::For(until.saturating_duration_since(begun)),
                };
                self.poll_io(wait);
                has_polled = true;
                self.shared.wake_up();
                self.idle_state.sleeps.set(clock::now() - begun > AT_ONCE);
            } else {
                self.shared.sleep(until);
            }
            if rests {
                self.pool.quiescence.leave();
            }
            rested = rests;
        }
        self.pool.idle.remove(self.index);
        self.idle_state.conversing.set(self.shared.has_news());
        let now = clock::now();
        if has_polled {
            self.look_beside_io(now);
        } else {
            self.look_around(now);
        }
        if rested && self.has_work() {
            // Relaxed: it is compared after this worker has become quiescent again, and
            // `Quiescence` orders that.
            self.pool.stirred.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits a moment for a message before the worker sleeps, and returns whether one came. Does so
    /// only if a message ended the last sleep, because waking a sleeping worker costs both sides
    /// ten times as much.
    fn listens(&self) -> bool {
        if !self.idle_state.conversing.get() || self.io.borrow().in_flight() > 0 {
            return false;
        }
        let is_crowded = self.pool.is_crowded();
        let has_heard = if is_crowded { self.yields() } else { self.spins() };
        // The next message may come even sooner, but only a task on a core of its own may spin.
        local::with(|local| local.listens.set(has_heard && !is_crowded));
        self.idle_state.conversing.set(has_heard);
        has_heard
    }

    /// Spins for a few microseconds and returns whether a message came.
    fn spins(&self) -> bool {
        (0..LOOKS_BEFORE_SLEEP).any(|_| {
            let has_news = self.shared.has_news();
            if !has_news {
                hint::spin_loop();
            }
            has_news
        })
    }

    /// Gives the core to other threads a few times and returns whether a message came.
    ///
    /// More workers are awake than there are cores, or there is only one core. So the sender may be
    /// waiting for this core. A worker that sleeps instead is woken by the sender's next message, and the kernel lets it
    /// preempt the sender. Each message then costs two switches of threads.
    ///
    /// Beside threads that compute, a yield takes a time slice, and messages wait for this worker
    /// as long. So a slow yield is the last one for a while.
    fn yields(&self) -> bool {
        let (begun, yields) = (clock::now(), &self.idle_state.yields);
        let timer_is_near = self.timers.next().is_some_and(|due| due < begun + TIME_SLICE);
        if timer_is_near || !yields.are_quick(begun) {
            return false;
        }
        for _ in 0..YIELDS_BEFORE_SLEEP {
            thread::yield_now();
            let has_news = self.shared.has_news();
            if yields.note(begun, clock::now(), has_news) || has_news {
                return has_news;
            }
        }
        false
    }

    /// Returns whether a spin would hold up neither an operation nor another worker.
    fn can_listen(&self) -> bool {
        self.io.borrow().in_flight() == 0 && !self.pool.is_crowded()
    }

    /// Returns whether the running task may listen. If not, its next waits do not either, until a
    /// message comes soon after the worker has run out of work.
    pub(super) fn may_listen(&self) -> bool {
        let has_nothing_else = !self.has_work() && self.preempted.is_empty();
        let may = has_nothing_else && self.can_listen() && !self.shared.has_news();
        if !may {
            local::with(|local| local.listens.set(false));
        }
        may
    }

    /// Listens for the end of the running task's wait for a few microseconds, which the worker
    /// would otherwise spend in [`Worker::listens`]. A task that continues at once saves the way
    /// through the inbox and two switches.
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

    /// Registers this worker as quiescent before it sleeps for good; see [`super::quiescence`].
    /// Returns whether it is registered, and has to leave when it wakes up.
    fn comes_to_rest(&self, until: &mut Option<Instant>) -> bool {
        let settings = &self.pool.settings;
        if settings.on_deadlock.is_none() && settings.on_quiet.is_none() {
            return false;
        }
        if self.has_work() || !self.expects_nothing() {
            return false;
        }
        if let Some(due) = alarm::next_due() {
            // The alarm may wake a task. If it does not, this worker has to check again.
            let after = due.max(clock::now()) + AFTER_ALARM;
            *until = Some(until.map_or(after, |until| until.min(after)));
            return false;
        }
        if let Some(all) = self.pool.quiescence.enter(self.pool.workers.len())
            && !self.others_have_work()
            && self.pool.workers.iter().all(|worker| !worker.has_news())
            && self.pool.quiescence.confirm(all)
        {
            match settings.on_deadlock {
                // A task spawned by this call arrives in an inbox, which wakes its worker, even if
                // it is this one.
                Some(on_deadlock) => on_deadlock(&self.pool),
                None => self.all_are_quiet(until),
            }
        }
        true
    }

    /// Returns whether neither a timer, nor the kernel, nor a thread that this library knows of is
    /// about to end a wait of this worker. An alarm may.
    pub(super) fn expects_nothing(&self) -> bool {
        self.timers.is_empty()
            && self.io.borrow().in_flight() == 0
            && self.unblocking.get() == 0
            && !outside::is_anything_expected()
    }

    /// Called when all workers are quiescent. Calls `on_quiet` if they have been for long enough,
    /// or arranges for one of them to check again then. Workers may leave to free memory meanwhile,
    /// so only `stirred` tells whether anything has happened.
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
