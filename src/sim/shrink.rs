//! Makes the trace of a failed run simpler.
//!
//! A candidate is a list of steps. A run takes them as far as they are possible, and continues
//! without preemption when none is left. If it fails in the same way, and what it has done is
//! simpler, it replaces the best run so far. So a candidate need not be a possible schedule.

use std::sync::Arc;

use super::pilot::{Plan, Record};
use super::program::{Outcome, Program};
use super::trace::{Step, Trace};
use crate::driver::DrawnFault;

/// The most that is spent on one failure. It is counted, not timed, so that the same failure gives
/// the same trace on each machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub(super) runs: u32,
    /// The decision points in all runs together.
    pub(super) points: u64,
}

impl Effort {
    pub(super) const USUAL: Effort = Effort { runs: 500, points: 1_000_000 };
}

/// How hard a run is to read: what is done to it from outside, whether latencies vary, preemptions,
/// turns, decision points.
fn measure(record: &Record) -> (usize, bool, u64, usize, u64) {
    let trace = &record.trace;
    let touched = usize::from(trace.cancel.is_some()) + usize::from(trace.fault.is_some());
    let touched = touched + trace.drawn.len();
    (touched, record.varies, record.preemptions, trace.len(), record.points)
}

/// What is done to a run from outside.
#[derive(Clone)]
struct Touch {
    cancel: Option<u64>,
    fault: Option<u64>,
    drawn: Arc<[DrawnFault]>,
    is_steady: bool,
}

/// Returns the simplest run found that fails as `first` did.
pub(super) fn shrink<P: Program>(
    program: &P,
    seed: u64,
    mut first: Outcome<P::Failure>,
    effort: Effort,
) -> Outcome<P::Failure> {
    let Some(failure) = first.failure.take() else { return first };
    let mut search = Search {
        program,
        seed,
        failure: &failure,
        guide: first.record.trace.steps.iter().collect(),
        best: first,
        left: effort,
    };
    search.untouched();
    search.with_fewer_faults();
    search.simplify();
    let mut best = search.best;
    best.failure.get_or_insert(failure);
    best
}

struct Search<'p, P: Program> {
    program: &'p P,
    seed: u64,
    failure: &'p P::Failure,
    /// The steps that lead to the best run.
    guide: Vec<Step>,
    best: Outcome<P::Failure>,
    left: Effort,
}

impl<P: Program> Search<'_, P> {
    /// Runs a candidate. Returns whether it is the best one now.
    fn is_better(&mut self, guide: Vec<Step>) -> bool {
        let touch = self.touch();
        self.is_better_with(guide, touch)
    }

    /// Returns what is done to the best run.
    fn touch(&self) -> Touch {
        let Trace { cancel, fault, is_steady, ref drawn, .. } = self.best.record.trace;
        Touch { cancel, fault, drawn: Arc::from(&drawn[..]), is_steady }
    }

    fn is_better_with(&mut self, guide: Vec<Step>, touch: Touch) -> bool {
        if !self.is_going_on() {
            return false;
        }
        let Touch { cancel, fault, drawn, is_steady } = touch;
        let plan = Plan::guided(Arc::from(&guide[..])).with_marks();
        let plan = Plan { cancel, fault, drawn: Some(drawn), is_steady, ..plan };
        let outcome = self.program.run(self.seed, &plan);
        self.left.runs = self.left.runs.saturating_sub(1);
        self.left.points = self.left.points.saturating_sub(outcome.record.points);
        let fails = outcome.failure.as_ref();
        let fails = fails.is_some_and(|failure| self.program.is_same(self.failure, failure));
        let (new, old) = (measure(&outcome.record), measure(&self.best.record));
        let is_simpler = (new, guide.len()) < (old, self.guide.len());
        if fails && is_simpler {
            self.best = outcome;
            self.guide = guide;
        }
        fails && is_simpler
    }

    fn is_going_on(&self) -> bool {
        self.left.runs > 0 && self.left.points > 0
    }

    /// Tries to do without the cancellation and without the fault.
    fn untouched(&mut self) {
        if self.best.record.trace.cancel.is_some() {
            let touch = Touch { cancel: None, ..self.touch() };
            self.is_better_with(self.guide.clone(), touch);
        }
        if self.best.record.trace.fault.is_some() {
            let touch = Touch { fault: None, ..self.touch() };
            self.is_better_with(self.guide.clone(), touch);
        }
    }

    /// Tries to do without faults that were drawn: without all, then without chunks of them, the
    /// long ones first. Then tries to do without latencies that vary.
    fn with_fewer_faults(&mut self) {
        let mut size = self.best.record.trace.drawn.len();
        while size > 0 {
            let mut at = 0;
            while at < self.best.record.trace.drawn.len() && self.is_going_on() {
                let drawn = &self.best.record.trace.drawn;
                let end = (at + size).min(drawn.len());
                let drawn = [&drawn[..at], &drawn[end..]].concat();
                let touch = Touch { drawn: Arc::from(drawn), ..self.touch() };
                if !self.is_better_with(self.guide.clone(), touch) {
                    at = end;
                }
            }
            size /= 2;
        }
        if self.best.record.varies {
            let touch = Touch { is_steady: true, ..self.touch() };
            self.is_better_with(self.guide.clone(), touch);
        }
    }

    fn simplify(&mut self) {
        self.is_better(vec![]);
        loop {
            let before = measure(&self.best.record);
            self.shorten();
            self.is_better(merged(&self.guide));
            // Without its preemption, a task goes on until it waits.
            self.in_chunks(|chunk| {
                let has_cut = chunk.iter().any(|step| step.cut);
                has_cut.then(|| chunk.iter().map(|step| Step { cut: false, ..*step }).collect())
            });
            self.in_chunks(|_| Some(vec![]));
            self.with_fewer_faults();
            if !self.is_going_on() || measure(&self.best.record) == before {
                return;
            }
        }
    }

    /// Leaves out steps at the end.
    fn shorten(&mut self) {
        let mut less = self.guide.len() / 2;
        while less > 0 && self.is_going_on() {
            let shorter = self.guide[..self.guide.len() - less].to_vec();
            less = if self.is_better(shorter) { less.min(self.guide.len() / 2) } else { less / 2 };
        }
    }

    /// Replaces chunks of the guide, the long ones first. `new` returns what replaces a chunk, or
    /// `None` if it is to stay.
    fn in_chunks(&mut self, new: impl Fn(&[Step]) -> Option<Vec<Step>>) {
        let mut size = self.guide.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.guide.len() && self.is_going_on() {
                let end = (at + size).min(self.guide.len());
                let Some(new) = new(&self.guide[at..end]) else {
                    at = end;
                    continue;
                };
                let length = new.len();
                let changed = [&self.guide[..at], &new[..], &self.guide[end..]].concat();
                at = if self.is_better(changed) { at + length } else { end };
            }
            size /= 2;
        }
    }
}

/// Joins the turns of a task between which no other task ran.
fn merged(steps: &[Step]) -> Vec<Step> {
    let mut merged: Vec<Step> = vec![];
    for step in steps {
        match merged.last_mut() {
            // The task was about to pass one more decision point.
            Some(last) if last.cut && last.task == step.task => {
                let passed = last.passed.saturating_add(step.passed).saturating_add(1);
                *last = Step { passed, ..*step };
            }
            _ => merged.push(*step),
        }
    }
    merged
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Effort, shrink};
    use crate::sim::pilot::Plan;
    use crate::sim::program::{Outcome, Program};
    use crate::sim::search::second_run;
    use crate::sim::toy::{self, Toy};

    fn failing(toy: &Toy) -> (u64, Outcome<&'static str>) {
        let runs = (0..2_000).map(|seed| (seed, toy.run(seed, &Plan::default())));
        let failed = runs.filter(|(_, outcome)| outcome.failure.is_some());
        failed.max_by_key(|(_, outcome)| outcome.record.preemptions).unwrap()
    }

    #[track_caller]
    fn shrinks(toy: &Toy, preemptions: u64) {
        let (seed, first) = failing(toy);
        let (failure, before) = (first.failure, first.record.preemptions);
        assert!(before > preemptions + 2, "{before} preemptions");
        let best = shrink(toy, seed, first, Effort::USUAL);
        assert_eq!(best.failure, failure);
        assert_eq!(best.record.preemptions, preemptions, "{}", best.record.trace);
        assert!(second_run(toy, seed, &best).is_none(), "{}", best.record.trace);
    }

    #[test]
    fn one_preemption_is_left_of_a_lost_update() {
        shrinks(&toy::lost_update_in_noise(), 1);
    }

    #[test]
    fn one_preemption_is_left_of_a_deadlock() {
        let (seed, first) = failing(&toy::lock_order());
        let best = shrink(&toy::lock_order(), seed, first, Effort::USUAL);
        assert_eq!((best.failure, best.record.preemptions), (Some("deadlock"), 1));
        assert_eq!(best.record.trace.len(), 3, "{}", best.record.trace);
    }

    #[test]
    fn an_unneeded_cancellation_goes() {
        let toy = toy::lost_update_in_noise();
        let outcome = (0..).find_map(|seed| {
            let plan = Plan { cancel: Some(40), ..Plan::default() };
            let outcome = toy.run(seed, &plan);
            // The tasks 1 and 3 do not touch the number.
            (outcome.failure.is_some() && matches!(outcome.record.cancelled, Some(1 | 3)))
                .then_some((seed, outcome))
        });
        let (seed, outcome) = outcome.unwrap();
        let best = shrink(&toy, seed, outcome, Effort::USUAL);
        assert_eq!(best.record.trace.cancel, None);
        assert_eq!(best.record.preemptions, 1);
    }

    #[test]
    fn no_effort_changes_nothing() {
        let toy = toy::lost_update_in_noise();
        let (seed, first) = failing(&toy);
        let trace = first.record.trace.clone();
        let none = Effort { runs: 0, ..Effort::USUAL };
        let best = shrink(&toy, seed, first, none);
        assert_eq!((best.record.trace, best.failure), (trace, Some("an update is lost")));
    }
}
