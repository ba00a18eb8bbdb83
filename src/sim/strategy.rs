//! How a simulated run chooses the next task.

use std::collections::BinaryHeap;

use crate::base::hash::HashMap;
use crate::base::random::Generator;
use crate::sched::{Runnable, Stop};

use super::pilot::{Pick, UNLIMITED};
use super::trace::Trace;

/// How a simulated run chooses which task runs next, and for how long.
///
/// Each call that may wait is a decision point, before it does anything, and so is each spawn. The
/// strategy picks one of the tasks that can run. It also decides at which decision point that task
/// makes room for another one.
///
/// The choices of a strategy depend only on the seed of the run and on what the program does.
///
/// # Examples
/// ```
/// use ecru::sim::{Simulation, Strategy};
///
/// let first = Simulation::new(7).strategy(Strategy::Pct { depth: 3 }).run(|| {
///     ecru::scope(|s| {
///         s.spawn(|| ecru::yield_now());
///         s.spawn(|| ecru::yield_now());
///     });
/// });
/// let replay = Strategy::Replay(first.trace.clone());
/// let second = Simulation::new(7).strategy(replay).run(|| {
///     ecru::scope(|s| {
///         s.spawn(|| ecru::yield_now());
///         s.spawn(|| ecru::yield_now());
///     });
/// });
/// assert_eq!(first.trace_hash, second.trace_hash);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Each turn goes to a random task. The seed also decides how long turns are: in some runs a
    /// task makes room at each decision point, in others it passes dozens of them.
    #[default]
    Random,
    /// Probabilistic concurrency testing: tasks have random priorities, the ready task with the
    /// highest one runs, and at `depth - 1` random decision points the running task gets the lowest
    /// one. So does a task that yields.
    ///
    /// It finds bugs for which a few events must come in a certain order, also in long runs with
    /// many tasks. The number of these events is the depth, and most bugs have a depth of 1 to 3.
    /// The algorithm is by Burckhardt, Kothari, Musuvathi and Nagarakatte (ASPLOS 2010). It needs
    /// the length of the run. [`explore`](super::explore()) and [`test`](super::test()) find it out
    /// by a first run. Otherwise it is guessed: a power of two, drawn from the seed.
    Pct {
        /// The number of events whose order matters.
        depth: u32,
    },
    /// Repeats the run that has this trace, if the run has the same seed and the same program.
    ///
    /// If the program does something else, the run fails with
    /// [`Failure::Diverged`](super::Failure::Diverged), which names the turn and the task. When the
    /// trace is at its end, the run continues without preemption.
    Replay(Trace),
}

/// The average numbers of decision points in one turn, of which the seed picks one for a run.
const AVERAGES: [usize; 7] = [0, 0, 1, 1, 3, 8, 24];

/// [`Strategy::Random`].
#[derive(Debug)]
pub(super) struct Random {
    dice: Generator,
    /// One more than the longest turn of this run.
    bound: usize,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        let mut dice = Generator::new(seed, 0);
        let average = AVERAGES[dice.below(AVERAGES.len())];
        Random { dice, bound: 2 * average + 1 }
    }

    pub(super) fn pick(&mut self, ready: &Runnable) -> Pick {
        let index = self.dice.below(ready.len());
        Pick { index, budget: self.dice.below(self.bound) as u32 }
    }
}

/// The exponents of the guesses at a run's length.
const EXPONENTS: std::ops::Range<usize> = 3..14;
/// Priorities that tasks begin with are above this one, and those of lowered tasks are below.
const MIDDLE: u64 = 1 << 63;
/// How often a task is picked before others that could run, until it is lowered. A task that waits
/// actively for one with a lower priority would otherwise wait forever.
const IN_A_ROW: u32 = 1_000;

/// [`Strategy::Pct`].
#[derive(Debug)]
pub(super) struct Pct {
    dice: Generator,
    priorities: HashMap<u64, u64>,
    /// The priorities, the numbers and the ordinals of the ready tasks, and of some that have been
    /// taken. The priority of a task does not change while it is ready.
    ready: BinaryHeap<(u64, u64, u64)>,
    /// The entries of ready tasks with smaller numbers have been seen.
    seen: u64,
    /// The priority of the task that was lowered last, which is the lowest one.
    lowest: u64,
    /// The decision points at which the running task is lowered, the next one last.
    changes: Vec<u64>,
    /// The decision points that the run has passed.
    points: u64,
    /// The task that ran last, and how often it was picked before others.
    last: Option<u64>,
    in_a_row: u32,
}

impl Pct {
    /// `length` is the number of decision points that the run is expected to have.
    pub(super) fn new(seed: u64, depth: u32, length: Option<u64>) -> Pct {
        let mut dice = Generator::new(seed, 0);
        let length = match length {
            Some(length) => usize::try_from(length).unwrap_or(usize::MAX).max(1),
            None => 1 << (EXPONENTS.start + dice.below(EXPONENTS.len())),
        };
        let mut changes: Vec<u64> =
            (1..depth.min(1 << 16)).map(|_| 1 + dice.below(length) as u64).collect();
        changes.sort_unstable_by(|one, other| other.cmp(one));
        Pct {
            dice,
            priorities: HashMap::default(),
            ready: BinaryHeap::new(),
            seen: 0,
            lowest: MIDDLE,
            changes,
            points: 0,
            last: None,
            in_a_row: 0,
        }
    }

    pub(super) fn pick(&mut self, ready: &Runnable) -> Pick {
        let (dice, priorities) = (&mut self.dice, &mut self.priorities);
        for (number, task) in ready.since(self.seen) {
            let priority = *priorities.entry(task).or_insert_with(|| dice.any() | MIDDLE);
            self.ready.push((priority, number, task));
        }
        self.seen = ready.next_number();
        let (index, task) = loop {
            let Some(&(_, number, task)) = self.ready.peek() else {
                break (0, ready.ordinal(0));
            };
            match ready.place_of(number) {
                Some(place) => break (place, task),
                // It has run, or is held back.
                None => drop(self.ready.pop()),
            }
        };
        if self.last != Some(task) || ready.len() == 1 {
            self.in_a_row = 0;
        }
        self.last = Some(task);
        self.in_a_row += 1;
        // Any decision point may make a task ready that has a higher priority.
        Pick { index, budget: 0 }
    }

    pub(super) fn ran(&mut self, task: u64, points: u64, stop: Stop) {
        self.points += points;
        if stop == Stop::Ended {
            self.priorities.remove(&task);
            return;
        }
        let before = self.changes.len();
        while self.changes.last().is_some_and(|change| *change <= self.points) {
            self.changes.pop();
        }
        // A task that yields expects that the others run.
        if self.changes.len() < before || stop == Stop::Yielded || self.in_a_row >= IN_A_ROW {
            self.in_a_row = 0;
            self.lowest -= 1;
            self.priorities.insert(task, self.lowest);
        }
    }
}

/// Runs each task for as long as it does not wait, and then the one that has been ready for the
/// longest time. This is what a strategy does when it has nothing else to do.
pub(super) fn in_turn(cut_by_plan: Option<usize>) -> Pick {
    Pick { index: cut_by_plan.unwrap_or(0), budget: UNLIMITED }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Pct, Random, Strategy};
    use crate::sched::{Runnable, Stop};
    use crate::sim::pilot::Plan;
    use crate::sim::toy;
    use std::ptr;

    #[test]
    fn a_seed_decides_all_picks() {
        let picks = |seed| {
            let mut random = Random::new(seed);
            (0..50).map(|_| random.pick(&Runnable::of(&[4, 5, 6]))).collect::<Vec<_>>()
        };
        assert_eq!(picks(3), picks(3));
        assert_ne!(picks(3), picks(4));
    }

    /// A strategy and the tasks that can run.
    struct Race {
        pct: Pct,
        ready: Runnable,
    }

    impl Race {
        fn new(seed: u64, depth: u32, tasks: u64) -> Race {
            let ordinals: Vec<u64> = (1..=tasks).collect();
            Race { pct: Pct::new(seed, depth, None), ready: Runnable::of(&ordinals) }
        }

        /// Has a task run, and stay ready. Returns its ordinal.
        fn step(&mut self, points: u64, stop: Stop) -> u64 {
            let index = self.pct.pick(&self.ready).index;
            let (_, task) = self.ready.take(index);
            self.pct.ran(task, points, stop);
            self.ready.push(ptr::null(), task);
            task
        }
    }

    #[test]
    fn the_highest_priority_runs_until_it_is_lowered() {
        for seed in 0..50 {
            let mut race = Race::new(seed, 1, 3);
            let first = race.step(1, Stop::Cut);
            for _ in 0..100 {
                assert_eq!(race.step(1, Stop::Cut), first);
            }
            let second = race.step(1, Stop::Yielded);
            assert_eq!(second, first);
            assert_ne!(race.step(1, Stop::Cut), first);
        }
    }

    #[test]
    fn a_change_lowers_the_running_task_below_all_others() {
        for seed in 0..200 {
            let mut race = Race::new(seed, 2, 2);
            let first = race.step(1, Stop::Cut);
            let has_changed = (1..20_000).any(|_| {
                // Patience does not end.
                race.pct.in_a_row = 0;
                race.step(1, Stop::Cut) != first
            });
            assert!(has_changed);
        }
    }

    /// The number of tasks that a pick looks at does not grow with the number of tasks.
    #[test]
    fn a_pick_among_many_tasks_looks_at_few() {
        const TASKS: u64 = 10_000;
        let mut race = Race::new(7, 3, TASKS);
        for step in 0..3 * TASKS {
            race.step(1, if step % 3 == 0 { Stop::Cut } else { Stop::Yielded });
        }
        let looks = race.ready.looks();
        assert!(looks < 5 * 3 * TASKS, "{looks} looks");
    }

    #[test]
    fn an_active_wait_for_a_lower_task_ends() {
        for seed in 0..20 {
            let plan = Plan::of(Strategy::Pct { depth: 1 });
            assert_eq!(toy::run(&toy::spins(), &plan, seed).failure, None, "{seed}");
        }
    }

    #[test]
    fn each_strategy_finds_a_lost_update() {
        for strategy in [Strategy::Random, Strategy::Pct { depth: 2 }] {
            let found = (0..1_000).find(|seed| {
                toy::run(&toy::lost_update(), &Plan::of(strategy.clone()), *seed).failure.is_some()
            });
            assert!(found.is_some_and(|seed| seed < 100), "{strategy:?}: {found:?}");
        }
    }
}
