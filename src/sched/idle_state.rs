//! What an idle worker remembers between two moments without work.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use super::shared::WorkerShared;
use crate::base::clock;
use crate::base::sync::atomic::Ordering;
use crate::task::Header;

/// The first nap of the watching worker. Row: `placement-map-long`.
pub(super) const WATCH_FIRST: Duration = Duration::from_micros(20);
/// The longest nap of the watching worker. Row: `placement-blocked-beside`.
pub(super) const WATCH_LAST: Duration = Duration::from_millis(1);
/// The longest nap after tasks that were not worth stealing. Row: `spawn-batch-2`.
pub(super) const WATCH_LAST_UNWORTHY: Duration = Duration::from_millis(10);
/// Naps without a spawn before the worker stops watching. Row: `lone-timeout`, whose CPU time has
/// the naps.
pub(super) const WATCH_NAPS: u32 = 8;
/// What a theft costs, however many tasks are stolen. Row: `placement-map-short`.
const TRIP: Duration = Duration::from_micros(1);
/// Stolen tasks that keep their thief busy for less than this each, beside the trip, were not worth
/// it. Rows: `placement-map-short`, `spawn-batch-2`.
const WORTHY: Duration = Duration::from_nanos(500);
/// If the owner runs more than this many tasks in the time that its thief needs for one, it runs
/// them faster than they can be moved. Row: `placement-million`.
const OWNER_FASTER: usize = 4;
/// The number of tasks taken at once after tasks that were not worth it, so that their own time
/// shows beside the trip's. Row: `spawn-batch-2`.
const STEAL_FIRST: usize = 2;
/// The most tasks taken at once. Row: `placement-blocked`.
pub(super) const STEAL_MAX: usize = 256;

/// Yields of a core that take this long in all are slow: another thread has used up a time slice.
/// Rows of this constant and the next two: `placement-pairs-8`, and `placement-mixed-8`, in which
/// other workers compute.
const SLOW_YIELD: Duration = Duration::from_micros(1_500);
/// After a slow yield a worker does not yield for this many times as long.
const YIELD_PAUSE_FIRST: u32 = 4;
/// The longest such pause, after several slow yields in a row. They hold up messages for less than
/// one percent of the time then.
const YIELD_PAUSE_LAST: u32 = 128;

/// The unstarted tasks of a worker at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenQueues {
    /// The span of its queue.
    pub(super) queued: (isize, isize),
    /// The newest task in its inbox. For comparison only.
    pub(super) inbound: *const Header,
    /// The number of tasks that the owner has taken as the oldest of its queue.
    taken_by_owner: isize,
    /// Since when the queue has had tasks of which the owner has taken none.
    pub(super) owner_away_since: Instant,
    /// Since when the owner has not added a task to them either.
    pub(super) still_since: Instant,
}

impl SeenQueues {
    pub(super) fn new(worker: &WorkerShared, now: Instant) -> SeenQueues {
        SeenQueues {
            queued: worker.unstarted.span(),
            inbound: worker.newest_inbound(),
            taken_by_owner: taken_by_owner(worker),
            owner_away_since: now,
            still_since: now,
        }
    }

    /// Looks at the same worker again.
    pub(super) fn update(&mut self, worker: &WorkerShared, now: Instant) {
        let before = std::mem::replace(self, SeenQueues::new(worker, now));
        let (oldest, next) = before.queued;
        if oldest < next && before.taken_by_owner == self.taken_by_owner {
            self.owner_away_since = before.owner_away_since;
            if next == self.queued.1 {
                self.still_since = before.still_since;
            }
        }
    }
}

/// Returns how many tasks the owner has taken as the oldest of its queue, for comparison with
/// another moment. Only the watching worker may call this, because it reads two numbers that every
/// theft changes.
fn taken_by_owner(owner: &WorkerShared) -> isize {
    owner.unstarted.span().0 - owner.stolen.load(Ordering::Relaxed)
}

/// Tasks that were taken from another worker at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theft {
    at: Instant,
    count: usize,
    /// The number of started tasks of the thief before.
    live_before: usize,
    owner: &'static WorkerShared,
    taken_by_owner: isize,
}

impl Theft {
    /// Creates the record of a theft that happens now.
    pub(super) fn new(count: usize, live_before: usize, owner: &'static WorkerShared) -> Theft {
        let taken_by_owner = taken_by_owner(owner);
        Theft { at: clock::now(), count, live_before, owner, taken_by_owner }
    }

    /// Returns whether the tasks were worth the trip, when the thief has nothing to run any more.
    fn was_worthy(&self, now: Instant) -> bool {
        let count = u32::try_from(self.count).unwrap_or(u32::MAX);
        let took = now.saturating_duration_since(self.at);
        // Contention with the owner makes a thief's tasks slow, too. Then the owner's are fast.
        let by_owner = taken_by_owner(self.owner).wrapping_sub(self.taken_by_owner);
        let is_owner_faster = by_owner > (OWNER_FASTER * self.count).cast_signed();
        took >= TRIP + WORTHY * count && !is_owner_faster
    }
}

/// Whether yields of the core have been quick.
#[derive(Debug)]
pub(super) struct Yields {
    /// The worker does not yield before this time.
    from: Cell<Instant>,
    /// The pause after the next slow yield, in multiples of its length.
    pause: Cell<u32>,
}

impl Yields {
    /// Returns whether the worker may yield.
    pub(super) fn are_quick(&self, now: Instant) -> bool {
        self.from.get() <= now
    }

    /// Learns from yields that began at `begun` and have brought a message or not. Returns whether
    /// they were slow.
    pub(super) fn note(&self, begun: Instant, now: Instant, has_news: bool) -> bool {
        let took = now.saturating_duration_since(begun);
        let is_slow = took >= SLOW_YIELD;
        if is_slow {
            let pause = self.pause.get();
            self.from.set(now + took * pause);
            self.pause.set((pause * 2).min(YIELD_PAUSE_LAST));
        } else if has_news {
            self.pause.set(YIELD_PAUSE_FIRST);
        }
        is_slow
    }
}

/// What a worker remembers between two idle moments.
#[derive(Debug)]
pub(super) struct IdleState {
    /// The queues of all workers at the last look. What was there then has aged.
    pub(super) seen: RefCell<Vec<SeenQueues>>,
    /// The last theft, to judge whether it was worth the trip.
    pub(super) stolen: Cell<Option<Theft>>,
    /// How many tasks to steal next time, and how long to nap before.
    pub(super) appetite: Cell<usize>,
    pub(super) pause: Cell<Duration>,
    /// Whether the last tasks that were taken are waiting here, instead of having ended.
    pub(super) theft_waits: Cell<bool>,
    /// When memory was last returned, and how many times since there was work.
    pub(super) tidied: Cell<Instant>,
    pub(super) tidy_times: Cell<u32>,
    /// Whether this worker was woken, perhaps by a spawn that wanted a watcher, and has not begun
    /// to watch since.
    pub(super) summoned: Cell<bool>,
    /// Whether a message from another thread ended the last sleep, so that the next may come soon.
    pub(super) conversing: Cell<bool>,
    /// Whether the last nap in the driver has waited. Then the next one is expected to wait, too.
    pub(super) sleeps: Cell<bool>,
    pub(super) yields: Yields,
}

impl IdleState {
    pub(super) fn new() -> IdleState {
        IdleState {
            seen: RefCell::new(Vec::new()),
            stolen: Cell::new(None),
            appetite: Cell::new(STEAL_FIRST),
            pause: Cell::new(WATCH_FIRST),
            theft_waits: Cell::new(false),
            tidied: Cell::new(clock::now()),
            tidy_times: Cell::new(0),
            summoned: Cell::new(false),
            conversing: Cell::new(false),
            sleeps: Cell::new(false),
            yields: Yields { from: Cell::new(clock::now()), pause: Cell::new(YIELD_PAUSE_FIRST) },
        }
    }

    /// Learns from the last theft. `live` is the number of started tasks of this worker. Returns
    /// whether to steal more at once.
    pub(super) fn judge(&self, live: usize) -> bool {
        let Some(theft) = self.stolen.take() else { return false };
        let worthy = theft.was_worthy(clock::now());
        self.theft_waits.set(live > theft.live_before);
        if worthy {
            self.appetite.set((self.appetite.get() * 2).min(STEAL_MAX));
            self.pause.set(WATCH_FIRST);
        } else {
            self.appetite.set(STEAL_FIRST);
            self.pause.set((self.pause.get() * 2).min(WATCH_LAST_UNWORTHY));
        }
        worthy
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr;

    use super::{
        IdleState, OWNER_FASTER, SLOW_YIELD, SeenQueues, TRIP, Theft, WORTHY, YIELD_PAUSE_FIRST,
        YIELD_PAUSE_LAST,
    };
    use crate::base::clock;
    use crate::base::sync::atomic::Ordering;
    use crate::sched::deque::Taken;
    use crate::sched::shared::WorkerShared;

    /// A first start takes long, so the time says little about tasks that wait.
    #[test]
    fn a_theft_waits_if_its_tasks_are_still_there() {
        let (state, owner) = (IdleState::new(), WorkerShared::obtain());
        for (live_before, live, waits) in [(3, 5, true), (3, 3, false), (3, 1, false)] {
            state.stolen.set(Some(Theft::new(2, live_before, owner)));
            state.judge(live);
            assert_eq!(state.theft_waits.get(), waits, "{live_before} before, {live} now");
        }
        owner.retire();
    }

    /// The time of a thief that contends with a quick owner says nothing.
    #[test]
    fn a_theft_was_worthy_if_its_tasks_took_time_and_the_owner_was_no_faster() {
        const COUNT: usize = 8;
        let owner = WorkerShared::obtain();
        let theft = Theft::new(COUNT, 0, owner);
        let long = theft.at + TRIP + WORTHY * 8;
        assert!(theft.was_worthy(long));
        assert!(!theft.was_worthy(long - WORTHY));
        // The pointers are not followed.
        let take = |count: usize| {
            (0..count).for_each(|_| owner.unstarted.push(ptr::dangling()));
            (0..count).for_each(|_| assert!(!owner.unstarted.pop_oldest().is_null()));
        };
        take(OWNER_FASTER * COUNT);
        assert!(theft.was_worthy(long));
        take(1);
        assert!(!theft.was_worthy(long));
        owner.retire();
    }

    /// Each slow yield is followed by a longer pause, until a quick one brings a message.
    #[test]
    fn slow_yields_become_rare_and_a_useful_one_makes_them_frequent_again() {
        let yields = IdleState::new().yields;
        let mut now = clock::now();
        let mut slow_yield = || {
            assert!(yields.are_quick(now));
            let begun = now;
            now += SLOW_YIELD;
            assert!(yields.note(begun, now, true));
            let pause = (1..).find(|&times| yields.are_quick(now + SLOW_YIELD * times)).unwrap();
            now += SLOW_YIELD * pause;
            pause
        };
        assert_eq!([slow_yield(), slow_yield()], [YIELD_PAUSE_FIRST, 2 * YIELD_PAUSE_FIRST]);
        assert_eq!((0..8).map(|_| slow_yield()).last(), Some(YIELD_PAUSE_LAST));
        let later = now + SLOW_YIELD / 2;
        assert!(!yields.note(now, later, false));
        assert_eq!(yields.pause.get(), YIELD_PAUSE_LAST, "it brought nothing");
        assert!(!yields.note(now, later, true));
        assert_eq!(yields.pause.get(), YIELD_PAUSE_FIRST);
        assert!(yields.are_quick(later));
    }

    /// An owner is away as long as only thieves take tasks out of its queue.
    #[test]
    fn thefts_do_not_count_as_a_visit_of_the_owner() {
        let worker = WorkerShared::obtain();
        // The pointers are not followed.
        (0..6).for_each(|_| worker.unstarted.push(ptr::dangling()));
        let start = clock::now();
        let at = |times: u32| start + SLOW_YIELD * times;
        let mut seen = SeenQueues::new(worker, at(0));
        assert!(matches!(worker.unstarted.steal(), Taken::Task(_)));
        worker.stolen.store(worker.stolen.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        seen.update(worker, at(1));
        assert_eq!(seen.owner_away_since, at(0));
        assert!(!worker.unstarted.pop_oldest().is_null());
        seen.update(worker, at(2));
        assert_eq!(seen.owner_away_since, at(2), "the owner has taken one");
        seen.update(worker, at(3));
        assert_eq!(seen.owner_away_since, at(2));
        while !worker.unstarted.pop_oldest().is_null() {}
        seen.update(worker, at(4));
        seen.update(worker, at(5));
        assert_eq!(seen.owner_away_since, at(5), "there is nothing to come for");
        worker.retire();
    }
}
