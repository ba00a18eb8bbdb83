//! All interleavings of a program, one run for each.
//!
//! A run is a path through a tree. A *branch* is a decision point at which more than one task could
//! run. A path is named by the choices at its branches. Choice 0 lets the running task go on, or
//! runs the task that has been ready for the longest time. A choice that takes the turn from a task
//! that could go on is a preemption.
//!
//! The paths with few preemptions come first, because most bugs need only one or two: iterative
//! context bounding, by Musuvathi and Qadeer (PLDI 2007). Each path is taken once. A run that
//! follows the path `p` and then always takes choice 0 finds new branches. Each of their other
//! choices begins a new path. It is taken in the current round, or in the next one if it has one
//! preemption more.
//!
//! A task that yields, or that has passed [`FAIR`] decision points while others could run, makes
//! room for another task without a choice. Otherwise, a loop that waits for another task would be
//! an endless path.

use std::mem;
use std::sync::Arc;

use super::pilot::{Divergence, Last, Pick};
use crate::base::random::Generator;
use crate::sched::{Runnable, Stop};

/// The decision points that a task may pass in a row while others can run.
const FAIR: u32 = 128;

/// The first choices of a run.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// The choices of the run that found this path, up to the branch.
    before: Arc<[u16]>,
    length: usize,
    /// The choice at the branch, or `None` for the first path of all.
    then: Option<u16>,
}

impl Path {
    /// The path of choices that are all 0.
    pub(super) fn first() -> Path {
        Path { before: Arc::new([]), length: 0, then: None }
    }

    fn len(&self) -> usize {
        self.length + usize::from(self.then.is_some())
    }

    fn choice(&self, branch: usize) -> u16 {
        if branch < self.length {
            self.before[branch]
        } else if branch == self.length {
            self.then.unwrap_or(0)
        } else {
            0
        }
    }
}

/// A point of a run at which more than one task could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) taken: u16,
    /// The number of choices.
    pub(super) choices: u16,
    /// Whether all choices but 0 are preemptions.
    pub(super) preempts: bool,
}

/// A run on a path.
#[derive(Debug)]
pub(super) struct Walk {
    path: Path,
    branches: Vec<Branch>,
    turns: u64,
    /// How often in a row the running task went on.
    in_a_row: u32,
    lost: Option<Divergence>,
    /// Chooses at random, to learn how many paths there are.
    dice: Option<Generator>,
}

impl Walk {
    pub(super) fn new(path: Path) -> Walk {
        Walk { path, branches: vec![], turns: 0, in_a_row: 0, lost: None, dice: None }
    }

    /// A run that takes a random path.
    pub(super) fn at_random(seed: u64) -> Walk {
        Walk { dice: Some(Generator::new(seed, 0)), ..Walk::new(Path::first()) }
    }

    pub(super) fn lost(&self) -> Option<Divergence> {
        self.lost.clone()
    }

    pub(super) fn pick(&mut self, ready: &Runnable, last: Option<&Last>) -> Pick {
        self.turns += 1;
        let place = last.and_then(|last| ready.find(last.task));
        let stop = last.map(|last| last.stop);
        let could_go_on = place.filter(|_| stop == Some(Stop::Cut));
        let goes_on = could_go_on.filter(|_| self.in_a_row < FAIR);
        let makes_room =
            if goes_on.is_some() { None } else { place.filter(|_| stop != Some(Stop::Waits)) };
        // The tasks to choose from are all of them, or all but the one that makes room.
        let choices = match makes_room {
            Some(_) if ready.len() > 1 => ready.len() - 1,
            _ => ready.len(),
        };
        let taken = if choices > 1 { self.branch(choices, goes_on.is_some()) } else { 0 };
        let index = match (goes_on, makes_room) {
            // The running task comes first, and the others in their order.
            (Some(running), _) if taken == 0 => running,
            (Some(running), _) => taken - usize::from(taken <= running),
            (None, Some(left_out)) if ready.len() > 1 => taken + usize::from(taken >= left_out),
            (None, _) => taken,
        };
        self.in_a_row =
            if goes_on == Some(index) && ready.len() > 1 { self.in_a_row + 1 } else { 0 };
        Pick { index, budget: 0 }
    }

    /// Notes a branch, and returns the choice.
    fn branch(&mut self, choices: usize, preempts: bool) -> usize {
        let choices = choices.min(usize::from(u16::MAX));
        let mut taken = match &mut self.dice {
            Some(dice) => dice.below(choices) as u16,
            None => self.path.choice(self.branches.len()),
        };
        if usize::from(taken) >= choices {
            self.lost.get_or_insert(Divergence::fewer(self.turns, choices));
            taken = 0;
        }
        self.branches.push(Branch { taken, choices: choices as u16, preempts });
        usize::from(taken)
    }

    pub(super) fn finish(&mut self, steps: u64) -> (Option<Divergence>, Vec<Branch>) {
        let is_short = self.branches.len() < self.path.len();
        let lost = self.lost.clone().or_else(|| is_short.then(|| Divergence::fewer(steps, 0)));
        (lost, mem::take(&mut self.branches))
    }
}

/// Estimates the number of all paths from one that was taken at random: on average over all of them,
/// the product of the numbers of choices is the number of paths (Knuth, 1975).
pub(super) fn paths_by(branches: &[Branch]) -> f64 {
    branches.iter().map(|branch| f64::from(branch.choices)).product()
}

/// The paths that are still to be taken.
#[derive(Debug)]
pub(super) struct Paths {
    /// Those of this round, the next one last.
    now: Vec<Path>,
    /// Those with one preemption more.
    later: Vec<Path>,
    /// The preemptions of this round's paths.
    bound: u32,
    /// Whether paths were left out because they would not be taken.
    leaves_out: bool,
}

impl Paths {
    pub(super) fn new() -> Paths {
        Paths { now: vec![Path::first()], later: vec![], bound: 0, leaves_out: false }
    }

    /// Returns the next path, or `None` if all have been taken.
    pub(super) fn next(&mut self) -> Option<Path> {
        if self.now.is_empty() {
            self.now = mem::take(&mut self.later);
            self.now.reverse();
            self.bound += 1;
        }
        self.now.pop()
    }

    /// Returns the number of preemptions up to which all paths have been taken, once `next` has
    /// returned a path. `None` if not even those without preemptions have.
    pub(super) fn complete_bound(&self) -> Option<u32> {
        let begins = self.now.is_empty();
        if begins { Some(self.bound) } else { self.bound.checked_sub(1) }
    }

    /// Adds the paths that begin at the new branches of a run. At most `most` paths will be taken.
    pub(super) fn add(&mut self, path: &Path, branches: &[Branch], most: u64) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let choices: Arc<[u16]> = branches.iter().map(|branch| branch.taken).collect();
        for (length, branch) in branches.iter().enumerate().skip(path.len()) {
            for then in (1..branch.choices).rev() {
                let new = Path { before: Arc::clone(&choices), length, then: Some(then) };
                // This round's paths are taken first, so the later ones give way.
                if !branch.preempts {
                    self.now.push(new);
                } else if self.now.len() + self.later.len() < most {
                    self.later.push(new);
                } else {
                    self.leaves_out = true;
                }
            }
        }
        if self.now.len() > most {
            // The first ones are taken last.
            self.leaves_out = true;
            self.now.drain(..self.now.len() - most);
        }
    }

    /// Whether there is no path that has not been taken.
    pub(super) fn are_all_taken(&self) -> bool {
        self.now.is_empty() && self.later.is_empty() && !self.leaves_out
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Paths;
    use crate::sim::pilot::Plan;
    use crate::sim::toy::{self, Toy};
    use std::collections::BTreeSet;

    /// Takes all paths of a program. Returns the traces, and the number of failed runs.
    fn all(toy: &Toy, most: u64) -> (Vec<String>, usize, bool) {
        let (mut paths, mut traces, mut failed) = (Paths::new(), vec![], 0);
        while (traces.len() as u64) < most
            && let Some(path) = paths.next()
        {
            let outcome = toy::run(toy, &Plan::along(path.clone()), 0);
            assert_eq!(outcome.record.diverged, None);
            paths.add(&path, &outcome.record.branches, most - traces.len() as u64);
            traces.push(outcome.record.trace.to_string());
            failed += usize::from(outcome.failure.is_some());
        }
        (traces, failed, paths.are_all_taken())
    }

    #[test]
    fn each_interleaving_is_run_once() {
        // Two tasks with three turns each: 6! / (3! 3!) interleavings.
        let (traces, _, complete) = all(&toy::independent(2, 2), 10_000);
        assert_eq!(traces.len(), 20);
        assert_eq!(traces.iter().collect::<BTreeSet<_>>().len(), 20);
        assert!(complete);
        // Three tasks with two turns each: 6! / (2! 2! 2!).
        let (traces, _, complete) = all(&toy::independent(3, 1), 10_000);
        assert_eq!(traces.len(), 90);
        assert_eq!(traces.iter().collect::<BTreeSet<_>>().len(), 90);
        assert!(complete);
    }

    #[test]
    fn few_preemptions_come_first() {
        let mut paths = Paths::new();
        let mut before = 0;
        while let Some(path) = paths.next() {
            let outcome = toy::run(&toy::independent(2, 3), &Plan::along(path.clone()), 0);
            assert!(outcome.record.preemptions >= before);
            before = outcome.record.preemptions;
            paths.add(&path, &outcome.record.branches, u64::MAX);
        }
        assert!(before > 2);
    }

    #[test]
    fn a_limit_leaves_paths_out_and_says_so() {
        for most in [1, 2, 5, 19] {
            let (traces, _, complete) = all(&toy::independent(2, 2), most);
            assert_eq!(traces.len() as u64, most);
            assert!(!complete);
        }
        let (traces, _, complete) = all(&toy::independent(2, 2), 20);
        assert!(traces.len() == 20 && complete);
    }

    #[test]
    fn every_lost_update_is_found() {
        // Two tasks that read and write: 2 of the 6 orders of these four acts lose nothing.
        let (traces, failed, complete) = all(&toy::lost_update(), 10_000);
        assert!(complete);
        assert!(failed > 0 && failed < traces.len(), "{failed} of {}", traces.len());
    }

    #[test]
    fn loops_that_wait_for_others_end() {
        let (traces, failed, _) = all(&toy::spins(), 200);
        assert_eq!((traces.len(), failed), (200, 0));
    }
}
