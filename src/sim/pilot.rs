//! Steers one simulated run by a plan, and records what the run does.
//!
//! # Places
//! A task can be cancelled at each *place* of a run:
//! - a decision point: the task is about to act,
//! - the end of a turn in which the task waits or yields: it is parked,
//! - the begin of the turn after that: it has been woken, or starts, and has not run yet.
//!
//! The places are counted from 1 in the order in which the run passes them. The plan names one. All
//! that happens before it is the same as in a run without a cancellation.

mod divergence;
mod repeat;

use std::sync::Arc;

use super::legend::Met;
use super::paths::{Branch, Path, Walk};
use super::strategy::{Pct, Random, Strategy};
use super::timeline::History;
use super::trace::{Step, Steps, Trace};
use super::turns::Turn;
use super::waiting::Waiting;
use crate::base::hash::HashMap;
use crate::base::sync::SpinLock;
use crate::driver::{DrawnFault, Struck, Trouble};
use crate::sched::{After, NextTurn, Runnable, Stop};
pub use divergence::Divergence;
use repeat::{Guide, Replay};

/// A budget that no turn uses up. A task that computes may pass this many decision points before
/// the others run.
pub(super) const UNLIMITED: u32 = 128;

/// What a strategy picks: an index into the ready tasks, and the number of decision points that the
/// task may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) index: usize,
    pub(super) budget: u32,
}

/// What a run is to do.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) way: Way,
    /// The place at which a task is cancelled.
    pub(super) cancel: Option<u64>,
    /// The number of the I/O operation that fails, counted from 1.
    pub(super) fault: Option<u64>,
    /// The faults that strike in place of those that are drawn.
    pub(super) drawn: Option<Arc<[DrawnFault]>>,
    /// Whether each latency is the least of its range.
    pub(super) is_steady: bool,
    /// Whether the record has the hash after each step.
    pub(super) marks: bool,
    /// The turns are recorded for a message, from the one with this number on.
    pub(super) turns_from: Option<u64>,
    /// The number of decision points that the run is expected to have.
    pub(super) length: Option<u64>,
}

/// How a run picks its tasks.
#[derive(Clone, Debug)]
pub(super) enum Way {
    Strategy(Strategy),
    /// These steps as far as they are possible.
    Guide(Arc<[Step]>),
    Path(Path),
    /// A random path through all interleavings, which this number decides.
    RandomPath(u64),
}

impl Default for Way {
    fn default() -> Way {
        Way::Strategy(Strategy::Random)
    }
}

impl Plan {
    /// A run by this strategy. A trace also says what is cancelled and what fails.
    pub(super) fn of(strategy: Strategy) -> Plan {
        let plan = match &strategy {
            Strategy::Replay(trace) => Plan {
                cancel: trace.cancel,
                fault: trace.fault,
                drawn: Some(Arc::from(&trace.drawn[..])),
                is_steady: trace.is_steady,
                ..Plan::default()
            },
            Strategy::Random | Strategy::Pct { .. } => Plan::default(),
        };
        Plan { way: Way::Strategy(strategy), ..plan }
    }

    /// A run that takes these steps as far as they are possible, and continues without preemption.
    pub(super) fn guided(steps: Arc<[Step]>) -> Plan {
        Plan { way: Way::Guide(steps), ..Plan::default() }
    }

    /// A run on this path through all interleavings.
    pub(super) fn along(path: Path) -> Plan {
        Plan { way: Way::Path(path), ..Plan::default() }
    }

    /// A run on a random path through all interleavings.
    pub(super) fn along_any(number: u64) -> Plan {
        Plan { way: Way::RandomPath(number), ..Plan::default() }
    }

    pub(super) fn with_marks(self) -> Plan {
        Plan { marks: true, ..self }
    }
}

/// The task that ran last, and why its turn ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Last {
    pub(super) task: u64,
    pub(super) stop: Stop,
}

#[derive(Debug)]
enum Chooser {
    Random(Random),
    Pct(Pct),
    Replay(Replay),
    Guide(Guide),
    Path(Walk),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pilot {
    chooser: Chooser,
    cancel: Option<u64>,
    fault: Option<u64>,
    /// The places passed so far. Counted only if a place is to be found.
    places: u64,
    /// The tasks whose last turn was cut. Kept only if a place is to be found.
    cut: HashMap<u64, ()>,
    /// The task at the decision point at which it is to be cancelled.
    to_cancel: Option<u64>,
    cancelled: Option<u64>,
    last: Option<Last>,
    /// Shared, so that a process that ends in the run can say them.
    steps: Arc<SpinLock<Steps>>,
    points: u64,
    preemptions: u64,
    marks: Option<Vec<u32>>,
}

/// The most steps whose hashes are kept.
const MOST_MARKS: usize = 1 << 20;

/// What a run has done.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) trace: Trace,
    /// The decision points of the run.
    pub(super) points: u64,
    /// The turns that the strategy ended and after which another task ran.
    pub(super) preemptions: u64,
    /// The task that was cancelled by the plan.
    pub(super) cancelled: Option<u64>,
    /// How the I/O operation has failed that was to fail.
    pub(super) struck: Option<Trouble>,
    /// The faults that were drawn and have struck, in this order.
    pub(super) drawn: Vec<Struck>,
    /// The names of the hosts, by their numbers.
    pub(super) hosts: Vec<Box<str>>,
    /// Whether a latency was drawn that could have been shorter.
    pub(super) varies: bool,
    /// The message of the last panic that the panic hook has reported in the run.
    pub(super) reported: Option<String>,
    /// What else is known of a failure: the last turn before it.
    pub(super) last_turn: Option<String>,
    pub(super) tasks: Met,
    /// The last turns, if they were recorded.
    pub(super) turns: Vec<Turn>,
    /// What the other tasks waited for at the last panic, if the plan or a reader wants to know.
    pub(super) waiting: Option<Waiting>,
    /// What has happened to the hosts.
    pub(super) history: Option<Arc<History>>,
    pub(super) diverged: Option<Divergence>,
    /// The branches of a run on a path.
    pub(super) branches: Vec<Branch>,
    /// The lower halves of the hashes after each step, if the plan asked for them.
    pub(super) marks: Vec<u32>,
}

impl Pilot {
    /// `seed` is that of the strategy's generator.
    pub(super) fn new(plan: &Plan, seed: u64) -> Pilot {
        let chooser = match &plan.way {
            Way::Strategy(Strategy::Random) => Chooser::Random(Random::new(seed)),
            Way::Strategy(Strategy::Pct { depth }) => {
                Chooser::Pct(Pct::new(seed, *depth, plan.length))
            }
            Way::Strategy(Strategy::Replay(trace)) => Chooser::Replay(Replay::new(trace)),
            Way::Guide(steps) => Chooser::Guide(Guide::new(Arc::clone(steps))),
            Way::Path(path) => Chooser::Path(Walk::new(path.clone())),
            Way::RandomPath(number) => Chooser::Path(Walk::at_random(*number)),
        };
        Pilot {
            chooser,
            cancel: plan.cancel,
            fault: plan.fault,
            places: 0,
            cut: HashMap::default(),
            to_cancel: None,
            cancelled: None,
            last: None,
            steps: Arc::new(SpinLock::new(Steps::default())),
            points: 0,
            preemptions: 0,
            marks: plan.marks.then(Vec::new),
        }
    }

    /// Has the pilot record the steps here, where there are none yet.
    pub(super) fn recording_in(self, steps: Arc<SpinLock<Steps>>) -> Pilot {
        Pilot { steps, ..self }
    }

    /// Picks one of the ready tasks, of which there is at least one.
    pub(super) fn next(&mut self, ready: &Runnable) -> NextTurn {
        let last = self.last.as_ref();
        let pick = match &mut self.chooser {
            Chooser::Random(random) => random.pick(ready),
            Chooser::Pct(pct) => pct.pick(ready),
            Chooser::Replay(replay) => replay.pick(ready, last),
            Chooser::Guide(guide) => guide.pick(ready, last),
            Chooser::Path(walk) => walk.pick(ready, last),
        };
        let mut choice = NextTurn {
            index: pick.index,
            budget: pick.budget,
            cancel: false,
            watch: self.cancel.is_some(),
        };
        if self.cancel.is_some() {
            self.look_for_the_place(ready, &mut choice);
        }
        if let Some(Last { task, stop: Stop::Cut }) = self.last
            && task != ready.ordinal(choice.index)
        {
            self.preemptions += 1;
        }
        choice
    }

    #[cold]
    fn look_for_the_place(&mut self, ready: &Runnable, choice: &mut NextTurn) {
        let Some(place) = self.cancel else { return };
        let waiting = self.to_cancel.take().and_then(|task| ready.find(task));
        if let Some(index) = waiting {
            choice.index = index;
            choice.cancel = true;
            self.cancelled = Some(ready.ordinal(index));
        }
        let task = ready.ordinal(choice.index);
        if self.cut.remove(&task).is_none() {
            self.places += 1;
            if self.places == place {
                choice.cancel = true;
                self.cancelled = Some(task);
            }
        }
        if let Some(left) = place.checked_sub(self.places + 1) {
            choice.budget = choice.budget.min(u32::try_from(left).unwrap_or(u32::MAX));
        }
    }

    /// Records the turn of a task. `hash` is that of all that has happened in the run so far. If the
    /// run has diverged, it is to end.
    pub(super) fn ran(&mut self, task: u64, passed: u32, stop: Stop, hash: u64) -> After {
        let step = Step { task, passed, cut: stop == Stop::Cut };
        let points = u64::from(passed) + u64::from(step.cut);
        self.last = Some(Last { task, stop });
        self.steps.lock().push(step);
        self.points += points;
        if let Some(marks) = &mut self.marks
            && marks.len() < MOST_MARKS
        {
            marks.push(hash as u32);
        }
        match &mut self.chooser {
            Chooser::Random(_) | Chooser::Guide(_) => {}
            Chooser::Pct(pct) => pct.ran(task, points, stop),
            Chooser::Replay(replay) => {
                replay.ran(step);
                if replay.diverged.is_some() {
                    return After::End;
                }
            }
            Chooser::Path(walk) => {
                if walk.lost().is_some() {
                    return After::End;
                }
            }
        }
        if self.cancel.is_some() { self.look_at_the_stop(task, passed, stop) } else { After::GoOn }
    }

    #[cold]
    fn look_at_the_stop(&mut self, task: u64, passed: u32, stop: Stop) -> After {
        self.places += u64::from(passed);
        match stop {
            Stop::Ended => return After::GoOn,
            Stop::Cut => {
                self.places += 1;
                self.cut.insert(task, ());
                if self.cancel == Some(self.places) {
                    self.to_cancel = Some(task);
                }
            }
            Stop::Waits | Stop::Yielded => {
                self.places += 1;
                if self.cancel == Some(self.places) {
                    self.cancelled = Some(task);
                    return After::Cancel;
                }
            }
        }
        After::GoOn
    }

    /// Returns the first difference to the run that this one is to repeat, if there is one so far.
    pub(super) fn diverged(&self) -> Option<Divergence> {
        match &self.chooser {
            Chooser::Replay(replay) => replay.diverged.clone(),
            Chooser::Path(walk) => walk.lost(),
            Chooser::Random(_) | Chooser::Pct(_) | Chooser::Guide(_) => None,
        }
    }

    /// Takes the record of the whole run.
    pub(super) fn finish(&mut self) -> Record {
        let recorded = self.steps.lock().clone();
        let steps = recorded.len();
        let (diverged, branches) = match &mut self.chooser {
            Chooser::Replay(replay) => (replay.finish(steps), vec![]),
            Chooser::Path(walk) => walk.finish(steps),
            Chooser::Random(_) | Chooser::Pct(_) | Chooser::Guide(_) => (None, vec![]),
        };
        Record {
            trace: Trace {
                steps: recorded,
                cancel: self.cancel,
                fault: self.fault,
                ..Trace::default()
            },
            points: self.points,
            preemptions: self.preemptions,
            cancelled: self.cancelled,
            diverged,
            branches,
            marks: self.marks.take().unwrap_or_default(),
            ..Record::default()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Plan;
    use crate::sim::strategy::Strategy;
    use crate::sim::toy::{self, Toy};

    fn replay(toy: &Toy, of: &Toy, seed: u64) -> toy::Outcome {
        let first = toy::run(of, &Plan::default(), seed);
        toy::run(toy, &Plan::of(Strategy::Replay(first.record.trace)), seed)
    }

    #[test]
    fn a_replay_takes_the_same_steps() {
        for seed in 0..50 {
            for toy in [toy::lost_update(), toy::spins(), toy::hand_over()] {
                let first = toy::run(&toy, &Plan::default(), seed);
                let second = replay(&toy, &toy, seed);
                assert_eq!(second.record.diverged, None);
                assert_eq!(second.record.trace, first.record.trace);
                assert_eq!((second.failure, second.hash), (first.failure, first.hash));
            }
        }
    }

    #[test]
    fn a_replay_of_another_program_names_the_turn_and_the_task() {
        let second = replay(&toy::lost_update(), &toy::independent(3, 5), 3);
        let text = second.record.diverged.unwrap().to_string();
        assert!(text.starts_with("the run diverged at turn ") && text.contains("task "), "{text}");
    }

    #[test]
    fn every_place_is_reached_and_the_run_before_it_is_the_same() {
        let whole = toy::run(&toy::hand_over(), &Plan::default(), 1);
        let whole: Vec<_> = whole.record.trace.steps.iter().collect();
        let mut places = 0;
        loop {
            let plan = Plan { cancel: Some(places + 1), ..Plan::default() };
            let outcome = toy::run(&toy::hand_over(), &plan, 1);
            let steps: Vec<_> = outcome.record.trace.steps.iter().collect();
            if outcome.record.cancelled.is_none() {
                assert_eq!(steps, whole);
                break;
            }
            places += 1;
            assert_eq!(outcome.cancelled, outcome.record.cancelled);
            // The step before the cancellation may be shorter, because it ends at the place.
            let same = outcome.cancelled_after.saturating_sub(1);
            assert_eq!(steps[..same], whole[..same]);
        }
        let points: u64 =
            whole.iter().map(|step| u64::from(step.passed) + u64::from(step.cut)).sum();
        assert!(places > points, "{places} places, {points} decision points");
    }

    #[test]
    fn a_cancelled_run_is_replayed_with_its_cancellation() {
        for place in 1..10 {
            let plan = Plan { cancel: Some(place), ..Plan::default() };
            let first = toy::run(&toy::hand_over(), &plan, 2);
            let text = first.record.trace.to_string();
            let plan = Plan::of(Strategy::Replay(text.parse().unwrap()));
            let second = toy::run(&toy::hand_over(), &plan, 2);
            assert_eq!(second.record.diverged, None, "{text}");
            assert_eq!(second.cancelled, first.cancelled);
            assert_eq!(second.hash, first.hash);
        }
    }
}
