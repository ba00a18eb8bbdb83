//! The ways of a run that takes the steps of an earlier one.

use std::mem;
use std::sync::Arc;

use super::divergence::Difference;
use super::{Divergence, Last, Pick, UNLIMITED};
use crate::base::hash::HashMap;
use crate::sched::{Runnable, Stop};
use crate::sim::strategy::in_turn;
use crate::sim::trace::{Step, Trace};

/// `Strategy::Replay`.
#[derive(Debug)]
pub(super) struct Replay {
    steps: std::vec::IntoIter<Step>,
    /// The step that is being taken.
    wanted: Option<Step>,
    at: u64,
    pub(super) diverged: Option<Divergence>,
}

impl Replay {
    pub(super) fn new(trace: &Trace) -> Replay {
        let steps: Vec<Step> = trace.steps.iter().collect();
        Replay { steps: steps.into_iter(), wanted: None, at: 0, diverged: None }
    }

    pub(super) fn pick(&mut self, ready: &Runnable, last: Option<&Last>) -> Pick {
        if self.diverged.is_some() {
            return Pick { index: 0, budget: 0 };
        }
        self.wanted = self.steps.next();
        self.at += 1;
        let Some(wanted) = self.wanted else { return in_turn(cut_one(ready, last)) };
        match ready.find(wanted.task) {
            Some(index) => {
                Pick { index, budget: if wanted.cut { wanted.passed } else { u32::MAX - 1 } }
            }
            None => {
                let what = Difference::NotReady { wanted, ready: ready.ordinals().collect() };
                self.diverged = Some(Divergence { step: self.at, what });
                Pick { index: 0, budget: 0 }
            }
        }
    }

    pub(super) fn ran(&mut self, ran: Step) {
        if let Some(wanted) = self.wanted
            && wanted != ran
            && self.diverged.is_none()
        {
            self.diverged =
                Some(Divergence { step: self.at, what: Difference::Other { wanted, ran } });
        }
    }

    pub(super) fn finish(&mut self, steps: u64) -> Option<Divergence> {
        self.diverged.clone().or_else(|| {
            let wanted = self.steps.next()?;
            Some(Divergence { step: steps + 1, what: Difference::Ended { wanted } })
        })
    }
}

/// Returns the index of the task that ran last, if its turn was cut.
fn cut_one(ready: &Runnable, last: Option<&Last>) -> Option<usize> {
    let last = last.filter(|last| last.stop == Stop::Cut)?;
    ready.find(last.task)
}

/// Takes those of the given steps whose tasks can run, in their order, and then continues without
/// preemption.
#[derive(Debug)]
pub(super) struct Guide {
    steps: Arc<[Step]>,
    at: usize,
    /// Whether the last turn was limited by a step, so that its task goes on if no step is left.
    holds: bool,
    /// The tasks that have been ready.
    seen: HashMap<u64, ()>,
}

impl Guide {
    pub(super) fn new(steps: Arc<[Step]>) -> Guide {
        Guide { steps, at: 0, holds: false, seen: HashMap::default() }
    }

    pub(super) fn pick(&mut self, ready: &Runnable, last: Option<&Last>) -> Pick {
        self.seen.extend(ready.ordinals().map(|task| (task, ())));
        while let Some(step) = self.steps.get(self.at) {
            let index = ready.find(step.task);
            if index.is_none() && !self.seen.contains_key(&step.task) {
                // It has not been spawned yet, or will not be.
                break;
            }
            self.at += 1;
            if let Some(index) = index {
                self.holds = step.cut;
                return Pick { index, budget: if step.cut { step.passed } else { UNLIMITED } };
            }
            // Another task than the last one was to run.
            self.holds = false;
        }
        let holds = mem::take(&mut self.holds);
        in_turn(cut_one(ready, last).filter(|_| holds))
    }
}
