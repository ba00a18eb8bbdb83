//! How long a worker goes without a look at its inboxes, timers and driver, if its tasks compute.
//!
//! A worker looks around once in [`TURNS`] turns, and a task completes about [`BUDGET`] operations
//! in a turn. These numbers are for turns and operations of less than a microsecond. If tasks
//! compute for milliseconds between two operations, a timer would wait for a hundred computations,
//! and so would a ready task. The clock is too slow to be read for each operation. So the worker
//! reads it when one of the numbers is used up. If that took longer than [`STRETCH`], the number is
//! reduced to what fits into this time.
//!
//! The number of turns is the worker's. It begins with [`TURNS_FIRST`] after each idle moment,
//! since many tasks may become ready at once, and grows while turns are short.
//!
//! The number of operations is the task's *allowance*, because tasks that compute and tasks that
//! communicate share workers. A new task begins with
//! [`FIRST_ALLOWANCE`](crate::task::FIRST_ALLOWANCE), and more is added in the same turn while its
//! operations are quick.
//!
//! When the allowance is used up, the time since the worker's last look decides:
//!
//! | time since the last look | what happens |
//! |---|---|
//! | at most a stretch | The allowance grows. If it is the whole budget, the task makes room. |
//! | longer, with the look in this turn | The allowance is reduced to what fits into a stretch, |
//! | | because the task was slow. The task makes room. |
//! | longer, with the look in an earlier turn | The allowance becomes 0, because other tasks may |
//! | | have taken the time. The task makes room. |
//!
//! A task with an allowance of 0 is measured at the first operation of its next turn. It goes on if
//! the last look is recent, or otherwise after a new look.
//!
//! A task that waits before its allowance is used up is never measured in this way. Therefore,
//! while turns take longer than [`LONG`] on average, allowances are ignored: each suspended task is
//! measured from its first operation, as if its allowance were 0. Reading the clock takes less than
//! a hundredth of such turns.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::task::{BUDGET, Running};

/// The most turns between two looks while there are tasks to run. A prime, so that it does not fall
/// into step with programs.
pub(super) const TURNS: u32 = 127;
/// The first number of turns between two looks.
const TURNS_FIRST: u32 = 4;
/// How long a worker is to take between two looks, at most.
pub(super) const STRETCH: Duration = Duration::from_micros(500);
/// The factor by which an allowance grows at once, at most. So a task completes no more slow
/// operations than it has completed quick ones in the same turn.
const GROWTH: u32 = 2;
const TRUSTED: u32 = u32::MAX;
const DISTRUSTED: u32 = 0;
/// The average time from which turns, or a task's operations, are long.
const LONG: Duration = Duration::from_micros(125);
/// The number of turns after which their average tells that they are no longer long.
const CALM: u32 = 32;
/// The age up to which a look is recent.
const RECENT: Duration = Duration::from_micros(60);

/// A look from within a turn, after which only the task of that turn has run.
#[derive(Clone, Copy, Debug)]
struct OwnLook {
    /// The value of the worker's count of turns.
    turn: u32,
    /// What was allowed since then, in all.
    allowance: u32,
}

/// What happens when an allowance is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The task may complete this many operations in addition.
    More(u32),
    /// The worker looks around, and then [`Pace::go_on`] says what is allowed.
    LookAround,
    MakeRoom,
}

/// What happens when a number of turns is over, and how many turns the worker takes then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// The turns were short, and there have been few since the last look.
    GoOn(u32),
    LookAround(u32),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pace {
    /// The turns until the clock is read.
    turns: Cell<u32>,
    /// The turns since the last look, without those that the worker counts now.
    since_look: Cell<u32>,
    /// The bits of an allowance that count: all, or none while turns are long. It is a mask because
    /// each turn reads it.
    trust: Cell<u32>,
    /// The turns since a preempted task was last let in.
    since_promotion: Cell<u32>,
    /// When the worker last looked around.
    looked: Cell<Instant>,
    own_look: Cell<Option<OwnLook>>,
}

/// Returns how many of `count` events that took so long in all fit into a stretch.
fn fitting(count: u32, took: Duration) -> u32 {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let fitting = u64::from(count) * nanos(STRETCH) / nanos(took).max(1);
    u32::try_from(fitting).unwrap_or(u32::MAX)
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace {
            turns: Cell::new(TURNS_FIRST),
            since_look: Cell::new(0),
            trust: Cell::new(TRUSTED),
            since_promotion: Cell::new(0),
            looked: Cell::new(clock::now()),
            own_look: Cell::new(None),
        }
    }

    /// Notes that the worker looks around.
    #[inline]
    pub(super) fn note_look(&self, now: Instant) {
        self.looked.set(now);
    }

    /// Called after each idle moment. Returns how many turns the worker takes.
    #[inline]
    pub(super) fn begin_anew(&self) -> u32 {
        self.own_look.set(None);
        self.since_look.set(0);
        self.trust.set(TRUSTED);
        self.turns.set(TURNS_FIRST);
        TURNS_FIRST
    }

    /// Called when a number of turns is over. The worker then looks around if that is due.
    pub(super) fn turns_are_over(&self, now: Instant) -> Pause {
        // The count of turns begins anew, so the look could be taken for one in another turn.
        self.own_look.set(None);
        let (turns, took) = (self.turns.get(), now.saturating_duration_since(self.looked.get()));
        self.since_promotion.set(self.since_promotion.get() + turns + 1);
        let all = self.since_look.get() + turns + 1;
        let is_short = took < STRETCH / 2;
        if took > LONG * all {
            self.trust.set(DISTRUSTED);
        } else if all >= CALM && took < LONG / 2 * all {
            self.trust.set(TRUSTED);
        }
        let next = if took > STRETCH {
            fitting(turns, took)
        } else if is_short {
            (turns * 2 + 1).min(TURNS)
        } else {
            turns
        };
        self.turns.set(next);
        if is_short && all + next <= TURNS {
            self.since_look.set(all);
            return Pause::GoOn(next);
        }
        self.since_look.set(0);
        Pause::LookAround(next)
    }

    /// Returns how many operations a suspended task may complete before it is judged.
    #[inline(always)]
    pub(super) fn budget_of(&self, running: &Running) -> u32 {
        u32::from(running.allowance.get()) & self.trust.get()
    }

    /// Returns whether a preempted task is to run although others are ready: once in [`TURNS`]
    /// turns.
    pub(super) fn is_promotion_due(&self) -> bool {
        let is_due = self.since_promotion.get() > TURNS;
        if is_due {
            self.since_promotion.set(0);
        }
        is_due
    }

    /// Called when a task has used up its allowance in the worker's turn `turn`.
    pub(super) fn judge(&self, running: &Running, turn: u32, now: Instant) -> NextStep {
        let own_look = self.own_look.get().filter(|look| look.turn == turn);
        let allowance = self.budget_of(running);
        let since_look = now.saturating_duration_since(self.looked.get());
        if own_look.is_none() && allowance == 0 {
            if since_look > RECENT {
                set_allowance(running, 0);
                return NextStep::LookAround;
            }
            self.own_look.set(Some(OwnLook { turn, allowance }));
            // So that a task that waits after one operation in each turn is not judged each time.
            set_allowance(running, 1);
            return NextStep::More(0);
        }
        // The operation that finds an allowance used up is completed, too.
        let completed = own_look.map_or(allowance, |look| look.allowance) + 1;
        if since_look > STRETCH {
            if since_look > LONG * completed {
                self.trust.set(DISTRUSTED);
            }
            let fits = own_look.map_or(0, |_| fitting(completed, since_look));
            set_allowance(running, fits.saturating_sub(1));
            return NextStep::MakeRoom;
        }
        let in_all = fitting(completed, since_look).min(completed * GROWTH).min(BUDGET);
        set_allowance(running, in_all);
        if completed >= in_all {
            return NextStep::MakeRoom;
        }
        self.own_look.set(Some(OwnLook { turn, allowance: in_all }));
        NextStep::More(in_all - completed)
    }

    /// Called when a task goes on after a look, also because no other task is ready. Returns what
    /// it is allowed.
    pub(super) fn go_on(&self, running: &Running, turn: u32) -> u32 {
        let allowance = u32::from(running.allowance.get());
        self.own_look.set(Some(OwnLook { turn, allowance }));
        allowance
    }
}

fn set_allowance(running: &Running, allowance: u32) {
    let most = const { if BUDGET < u8::MAX as u32 { BUDGET as u8 } else { u8::MAX } };
    running.allowance.set(u8::try_from(allowance).unwrap_or(most).min(most));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{GROWTH, NextStep, Pace, Pause, STRETCH, TURNS, TURNS_FIRST};
    use crate::base::clock;
    use crate::task::{BUDGET, FIRST_ALLOWANCE, Running};
    use std::ptr;
    use std::time::{Duration, Instant};

    const QUICK: Duration = Duration::from_nanos(20);

    /// A task of a worker whose clock is moved by hand.
    struct Lab {
        pace: Pace,
        task: Running,
        turn: u32,
        now: Instant,
        /// How often the task was judged, and how often the worker has looked around.
        judged: u32,
        looks: u32,
    }

    impl Lab {
        fn new() -> Lab {
            let now = clock::now();
            let task = Running::new(ptr::null());
            let mut lab = Lab { pace: Pace::new(), task, turn: 0, now, judged: 0, looks: 0 };
            lab.look();
            lab
        }

        fn look(&mut self) {
            self.pace.note_look(self.now);
            self.looks += 1;
        }

        /// Completes operations that take this long each, in one turn, until the task makes room or
        /// `most` are completed. Returns how many were.
        fn turn_of(&mut self, each: Duration, most: u32) -> u32 {
            self.turn_with(|_| each, most)
        }

        /// Takes short turns of other tasks.
        fn pass(&mut self, turns: u32) {
            for _ in 0..turns {
                if let Pause::LookAround(_) = self.pace.turns_are_over(self.now) {
                    self.look();
                }
            }
        }

        /// As `turn_of`. The function returns how long each operation takes.
        fn turn_with(&mut self, each: impl Fn(u32) -> Duration, most: u32) -> u32 {
            self.turn += 1;
            let mut left = self.pace.budget_of(&self.task);
            for completed in 0..most {
                if left == 0 {
                    self.judged += 1;
                    match self.pace.judge(&self.task, self.turn, self.now) {
                        NextStep::More(more) => left = more,
                        NextStep::LookAround => {
                            self.look();
                            left = self.pace.go_on(&self.task, self.turn);
                        }
                        // The pending operation is the first one of the next turn.
                        NextStep::MakeRoom => {
                            self.look();
                            return completed;
                        }
                    }
                } else {
                    left -= 1;
                }
                self.now += each(completed);
            }
            most
        }
    }

    #[test]
    fn a_quick_task_gets_the_whole_budget_in_its_first_turn_and_keeps_it() {
        let mut lab = Lab::new();
        let all = lab.turn_of(QUICK, u32::MAX);
        assert_eq!(all, BUDGET);
        assert_eq!(u32::from(lab.task.allowance.get()), BUDGET);
        assert_eq!(lab.turn_of(QUICK, u32::MAX), BUDGET);
    }

    #[test]
    fn a_task_that_computes_makes_room_after_two_operations_at_most() {
        let mut lab = Lab::new();
        let long = 4 * STRETCH;
        assert_eq!(lab.turn_of(long, u32::MAX), u32::from(FIRST_ALLOWANCE));
        for _ in 0..10 {
            // Other tasks take their time, too.
            lab.now += long;
            assert!(lab.turn_of(long, u32::MAX) <= 2);
        }
    }

    #[test]
    fn an_allowance_is_what_fits_into_a_stretch() {
        let mut lab = Lab::new();
        let each = STRETCH / 20;
        let turns = (0..10).map(|_| lab.turn_of(each, u32::MAX));
        let all: Vec<_> = turns.collect();
        assert!(all.iter().all(|count| (18..=26).contains(count)), "{all:?}");
    }

    /// The time since the last look is then the other tasks', and only a look tells.
    #[test]
    fn a_quick_task_beside_tasks_that_compute_is_measured_and_gets_its_budget_back() {
        let mut lab = Lab::new();
        lab.turn_of(QUICK, u32::MAX);
        lab.now += 10 * STRETCH;
        assert_eq!(lab.turn_of(QUICK, u32::MAX), BUDGET);
        assert_eq!(lab.task.allowance.get(), 0, "the others' time was taken for its own");
        lab.now += 10 * STRETCH;
        assert!((BUDGET..=BUDGET + 1).contains(&lab.turn_of(QUICK, u32::MAX)));
        assert_eq!(u32::from(lab.task.allowance.get()), BUDGET);
        lab.pass(2 * TURNS);
        let before = lab.judged;
        lab.turn_of(QUICK, u32::MAX);
        assert_eq!(lab.judged - before, 1, "it is trusted again");
    }

    #[test]
    fn a_quick_task_with_one_operation_in_each_turn_is_not_judged_again_and_again() {
        let mut lab = Lab::new();
        lab.task.allowance.set(0);
        for _ in 0..1000 {
            lab.turn_of(QUICK, 1);
        }
        assert_eq!(lab.judged, 1);
        lab.now += STRETCH;
        lab.task.allowance.set(0);
        let before = lab.looks;
        for _ in 0..1000 {
            lab.turn_of(QUICK, 1);
        }
        assert_eq!((lab.judged, lab.looks - before), (3, 1), "it is judged after the look, too");
    }

    #[test]
    fn quick_operations_mislead_for_as_many_slow_ones() {
        let (mut lab, long) = (Lab::new(), 4 * STRETCH);
        lab.turn_of(long, u32::MAX);
        for quick in [1, 2, 5, 16, 40] {
            for _ in 0..20 {
                lab.now += long;
                let each = |completed| if completed < quick { QUICK } else { long };
                let slow = lab.turn_with(each, u32::MAX) - quick;
                assert!(slow <= (GROWTH - 1) * quick + 2, "{slow} after {quick}");
            }
        }
    }

    /// It waits before its allowance is used up, so only the length of its turns tells.
    #[test]
    fn a_slow_task_that_waits_in_each_turn_is_measured_after_a_long_turn() {
        let mut lab = Lab::new();
        lab.turn_of(QUICK, u32::MAX);
        assert_eq!(lab.turn_of(4 * STRETCH, BUDGET / 2), BUDGET / 2);
        lab.pass(TURNS_FIRST);
        for _ in 0..10 {
            assert!(lab.turn_of(4 * STRETCH, BUDGET / 2) <= 2);
            lab.pass(1);
        }
    }

    #[test]
    fn an_idle_moment_ends_the_distrust() {
        let mut lab = Lab::new();
        lab.turn_of(QUICK, u32::MAX);
        lab.now += 2 * STRETCH;
        assert!(matches!(lab.pace.turns_are_over(lab.now), Pause::LookAround(_)));
        lab.look();
        assert_eq!(lab.pace.budget_of(&lab.task), 0);
        assert_eq!(lab.pace.begin_anew(), TURNS_FIRST);
        assert_eq!(lab.pace.budget_of(&lab.task), BUDGET);
    }

    #[test]
    fn a_task_that_becomes_slow_is_noticed_when_its_budget_is_used_up() {
        let mut lab = Lab::new();
        lab.turn_of(QUICK, u32::MAX);
        assert_eq!(lab.turn_of(2 * STRETCH, u32::MAX), BUDGET);
        for _ in 0..3 {
            assert!(lab.turn_of(2 * STRETCH, u32::MAX) <= 2);
        }
        lab.turn_of(QUICK, 2 * BUDGET);
        assert!(u32::from(lab.task.allowance.get()) >= GROWTH, "it has become quick");
    }

    #[test]
    fn a_worker_looks_around_after_each_long_turn_and_seldom_between_short_ones() {
        let (pace, mut now) = (Pace::new(), clock::now());
        let mut take = |each: Duration, turns: u32| {
            now += each * (turns + 1);
            let pause = pace.turns_are_over(now);
            if matches!(pause, Pause::LookAround(_)) {
                pace.note_look(now);
            }
            pause
        };
        let mut turns = TURNS_FIRST;
        let mut all = 0;
        while turns < TURNS {
            all += turns + 1;
            match take(QUICK, turns) {
                Pause::GoOn(more) => turns = more,
                Pause::LookAround(more) => (turns, all) = (more, 0),
            }
            assert!(all <= TURNS, "it goes on for too long");
        }
        assert_eq!(take(QUICK, turns), Pause::LookAround(TURNS));
        assert_eq!(take(STRETCH * 2, TURNS), Pause::LookAround(TURNS / 256));
        assert_eq!(take(STRETCH * 2, TURNS / 256), Pause::LookAround(0));
        assert_eq!(take(STRETCH / 3, 0), Pause::GoOn(1), "it was short, and there was one");
        assert_eq!(take(STRETCH / 3, 1), Pause::LookAround(1));
    }

    #[test]
    fn preempted_tasks_are_let_in_as_often_however_often_the_worker_looks() {
        let (pace, mut now) = (Pace::new(), clock::now());
        let mut turns_between = |each: Duration| {
            let mut count = 0;
            loop {
                let turns = pace.turns.get() + 1;
                now += each * turns;
                count += turns;
                if let Pause::GoOn(_) = pace.turns_are_over(now) {
                    continue;
                }
                pace.note_look(now);
                if pace.is_promotion_due() {
                    return count;
                }
            }
        };
        turns_between(QUICK);
        assert!((TURNS..2 * TURNS + 2).contains(&turns_between(QUICK)));
        turns_between(STRETCH * 2);
        assert!((TURNS..TURNS + 3).contains(&turns_between(STRETCH * 2)));
    }
}
