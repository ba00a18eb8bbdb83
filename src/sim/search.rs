//! Many runs of one program, and what becomes of the first one that fails.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::paths::{Paths, paths_by};
use super::pilot::{Divergence, Plan, Record};
use super::program::{Outcome, Program};
use super::shrink::{Effort, shrink};
use super::strategy::Strategy;
use super::turns::recorded;

/// The runs of an exploration: see [`explore`](super::explore()).
///
/// # Examples
/// ```
/// use ecru::sim::{self, Explore};
///
/// // Both orders of the two tasks are tried.
/// let explored = sim::explore(Explore::Exhaustive { max_runs: 100 }, || {
///     ecru::scope(|s| {
///         s.spawn(|| ecru::yield_now());
///         s.spawn(|| ecru::yield_now());
///     });
/// });
/// assert!(explored.is_ok());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Explore {
    /// One run for each seed.
    Seeds {
        /// The seeds.
        seeds: Range<u64>,
        /// How each run picks its tasks.
        strategy: Strategy,
    },
    /// All interleavings of the program, with as few preemptions as possible first. If there are more
    /// than the runs, 32 further runs take random ones, which shows how many there are about.
    ///
    /// This is for small programs, because the number of interleavings grows exponentially. Only
    /// the order of tasks is varied. All runs have the seed 0, so each random choice has the same
    /// value in all of them. A task that yields makes room for the others in each run, and so does
    /// one that passes 128 decision points in a row.
    Exhaustive {
        /// The number of runs after which the exploration ends.
        max_runs: u64,
    },
}

/// The result of an exploration in which no run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explored {
    runs: u64,
    is_complete: bool,
    preemptions: Option<u32>,
    needed: Option<u64>,
}

impl Explored {
    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns whether all interleavings were run. Only [`Explore::Exhaustive`] can be complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the number of preemptions up to which all interleavings were run. Returns `None` if
    /// there is no such number.
    #[must_use]
    pub fn preemptions(&self) -> Option<u32> {
        self.preemptions
    }

    /// Returns how many runs all interleavings need. This is exact if they were run. Otherwise it is
    /// estimated from 32 runs that take random paths, and may be wrong by a multiple. Returns `None`
    /// if the exploration was not one of [`Explore::Exhaustive`], or was to make no runs.
    #[must_use]
    pub fn needed(&self) -> Option<u64> {
        self.needed
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no failure in {} runs", self.runs)?;
        match (self.is_complete, self.preemptions) {
            (true, _) => f.write_str(", which are all interleavings")?,
            (false, Some(most)) => {
                write!(f, "; they include all interleavings with at most {most} preemptions")?;
            }
            (false, None) => {}
        }
        match self.needed {
            Some(needed) if !self.is_complete => {
                write!(f, "; all interleavings need about {needed} runs")
            }
            _ => Ok(()),
        }
    }
}

/// What is known about a failure.
#[derive(Debug)]
pub(super) struct How {
    /// The runs until the failure, this one included.
    pub(super) runs: u64,
    /// The virtual time of the run that is shown.
    pub(super) elapsed: Duration,
    /// The run as it was found.
    pub(super) original: Record,
    /// The simplest one.
    pub(super) best: Record,
    /// Set if a second run of the same trace was another one.
    pub(super) unstable: Option<Unstable>,
    /// Set if the first run was another one when it was repeated after the failure.
    pub(super) kept: Option<Kept>,
}

/// A failed run of any program.
#[derive(Debug)]
pub(super) struct Caught<F> {
    pub(super) seed: u64,
    pub(super) failure: F,
    pub(super) how: How,
}

/// How the second run of a trace differed.
#[derive(Debug)]
pub(super) enum Unstable {
    Diverged(Divergence),
    /// It took the same turns and came to another result.
    Result,
}

impl Unstable {
    /// Returns the tasks that the text names.
    pub(super) fn tasks(&self) -> Vec<u64> {
        match self {
            Unstable::Diverged(divergence) => divergence.tasks(),
            Unstable::Result => vec![],
        }
    }
}

impl Unstable {
    /// Says how the runs differ.
    fn difference(&self) -> String {
        match self {
            Unstable::Diverged(divergence) => divergence.to_string(),
            Unstable::Result => {
                String::from("the tasks took the same turns, and the result was another one")
            }
        }
    }
}

impl fmt::Display for Unstable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the program is not deterministic: in a second run with the same seed and trace, {}",
            self.difference()
        )?;
        f.write_str(
            ". Look there for a `HashMap` whose order matters, for `std::time`, `std::thread` and for random numbers that are not from \
             `ecru::sim::random_u64`",
        )
    }
}

/// What shows that a program keeps something from one run to the next.
#[derive(Debug)]
pub(super) struct Kept {
    /// The seed of the first run.
    seed: u64,
    /// How that run differed when it was repeated.
    how: Unstable,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the failure may depend on what the process did before, and not occur in a fresh one: the program keeps something \
             from one run to the next, such as a static or a cache. The first run, with seed {}, was repeated after the failure, \
             and {}",
            self.seed,
            self.how.difference()
        )
    }
}

/// Returns the number of decision points of a run, for the plan of other runs.
pub(super) fn length<P: Program>(program: &P) -> u64 {
    program.be_quiet(true);
    let outcome = program.run(0, &Plan::default());
    program.be_quiet(false);
    outcome.record.points
}

/// Carries out a plan.
pub(super) fn search<P: Program>(
    plan: Explore,
    program: &P,
) -> Result<Explored, Box<Caught<P::Failure>>> {
    let mut runs = Runs::with_repetitions();
    match plan {
        Explore::Seeds { seeds, strategy } => {
            let is_pct = matches!(strategy, Strategy::Pct { .. });
            let length = is_pct.then(|| length(program));
            let plan = Plan { length, ..Plan::of(strategy).with_marks() };
            for seed in seeds {
                runs.check(program, seed, &plan)?;
            }
            let (runs, preemptions, needed) = (runs.count, None, None);
            Ok(Explored { runs, is_complete: false, preemptions, needed })
        }
        Explore::Exhaustive { max_runs } => {
            let mut paths = Paths::new();
            while runs.count < max_runs
                && let Some(path) = paths.next()
            {
                let plan = Plan::along(path.clone()).with_marks();
                let outcome = runs.check(program, 0, &plan)?;
                paths.add(&path, &outcome.record.branches, max_runs - runs.count);
            }
            let (count, is_complete) = (runs.count, paths.are_all_taken());
            let needed = match max_runs {
                _ if is_complete => Some(count),
                // An estimate takes runs of its own.
                0 => None,
                _ => Some(estimate(program, &mut runs)?.max(count)),
            };
            let preemptions = paths.complete_bound();
            Ok(Explored { runs: count, is_complete, preemptions, needed })
        }
    }
}

/// The runs by which the number of interleavings is estimated.
const PROBES: u64 = 32;

/// Estimates the number of interleavings. Returns a failure if one of the runs fails.
fn estimate<P: Program>(
    program: &P,
    runs: &mut Runs<P::Failure>,
) -> Result<u64, Box<Caught<P::Failure>>> {
    let mut sum = 0.0;
    for number in 0..PROBES {
        let outcome = runs.check(program, 0, &Plan::along_any(number).with_marks())?;
        sum += paths_by(&outcome.record.branches);
    }
    Ok((sum / PROBES as f64) as u64)
}

/// Of so many runs that do not fail, the first one is run again.
const AGAIN: u64 = 16;

/// The runs of a search.
#[derive(Debug)]
pub(super) struct Runs<F> {
    /// How many there were.
    pub(super) count: u64,
    /// The first one and its seed, unless it has failed.
    first: Option<(u64, Outcome<F>)>,
    /// Whether some of those that do not fail are run again.
    repeats: bool,
}

impl<F> Runs<F> {
    /// Runs of which none is repeated before one fails.
    pub(super) fn once() -> Runs<F> {
        Runs { count: 0, first: None, repeats: false }
    }

    /// Runs of which some are repeated, to see whether the program is deterministic.
    pub(super) fn with_repetitions() -> Runs<F> {
        Runs { repeats: true, ..Runs::once() }
    }

    /// Runs a program once. Investigates a failure. Some runs that do not fail are repeated.
    pub(super) fn check<P: Program<Failure = F>>(
        &mut self,
        program: &P,
        seed: u64,
        plan: &Plan,
    ) -> Result<Outcome<F>, Box<Caught<F>>> {
        self.count += 1;
        let outcome = program.run(seed, plan);
        if outcome.failure.is_some() {
            return Err(Box::new(investigate(program, seed, outcome, self)));
        }
        program.be_quiet(true);
        let is_repeated = self.repeats && self.count % AGAIN == 1;
        let unstable = is_repeated.then(|| second_run(program, seed, &outcome)).flatten();
        program.be_quiet(false);
        if let Some(unstable) = unstable {
            let Outcome { record, elapsed, .. } = outcome;
            let how = How {
                runs: self.count,
                elapsed,
                original: record.clone(),
                best: record,
                unstable: Some(unstable),
                kept: None,
            };
            return Err(Box::new(Caught { seed, failure: program.not_deterministic(), how }));
        }
        if self.count == 1 {
            let Outcome { ref record, hash, elapsed, .. } = outcome;
            let first = Outcome { failure: None, record: record.clone(), hash, elapsed };
            self.first = Some((seed, first));
        }
        Ok(outcome)
    }

    /// Repeats the first run. If it is another one now, the program depends on earlier runs, which
    /// a second run of the failure may not show: what is kept is the same for both.
    fn repeat_first<P: Program<Failure = F>>(&self, program: &P) -> Option<Kept> {
        let (seed, first) = self.first.as_ref()?;
        second_run(program, *seed, first).map(|how| Kept { seed: *seed, how })
    }
}

/// Repeats a failed run, and makes its trace simpler.
fn investigate<P: Program>(
    program: &P,
    seed: u64,
    failed: Outcome<P::Failure>,
    runs: &Runs<P::Failure>,
) -> Caught<P::Failure> {
    program.be_quiet(true);
    let original = failed.record.clone();
    let mut best = failed;
    let mut unstable = second_run(program, seed, &best);
    let mut kept = None;
    if unstable.is_none() {
        kept = runs.repeat_first(program);
        best = shrink(program, seed, best, Effort::USUAL);
        let (differs, again) = repeat(program, seed, &best, &recorded(&best.record.trace));
        if differs.is_none() {
            // The same run, with more that a message can tell.
            best.record.turns = again.record.turns;
            best.record.waiting = again.record.waiting;
        }
        unstable = differs;
    }
    let Outcome { failure: Some(failure), record: best, elapsed, .. } = best else {
        unreachable!("the run has failed")
    };
    let how = How { runs: runs.count, elapsed, original, best, unstable, kept };
    Caught { seed, failure, how }
}

/// Runs the trace of `first` again. Returns how the second run differs, if it does.
pub(super) fn second_run<P: Program>(
    program: &P,
    seed: u64,
    first: &Outcome<P::Failure>,
) -> Option<Unstable> {
    let plan = Plan::of(Strategy::Replay(first.record.trace.clone())).with_marks();
    repeat(program, seed, first, &plan).0
}

/// Runs the trace of `first` again, by this plan. Returns how the second run differs, if it does,
/// and what it came to.
fn repeat<P: Program>(
    program: &P,
    seed: u64,
    first: &Outcome<P::Failure>,
    plan: &Plan,
) -> (Option<Unstable>, Outcome<P::Failure>) {
    let again = program.run(seed, plan);
    let is_same = match (&first.failure, &again.failure) {
        (Some(one), Some(other)) => program.is_same(one, other),
        (None, None) => true,
        _ => false,
    };
    if is_same && again.hash == first.hash && again.record.diverged.is_none() {
        return (None, again);
    }
    let divergence = again.record.diverged.clone();
    let divergence = divergence.or_else(|| Divergence::between(&first.record, &again.record));
    (Some(divergence.map_or(Unstable::Result, Unstable::Diverged)), again)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Explore, Program, search, second_run};
    use crate::sim::pilot::Plan;
    use crate::sim::strategy::Strategy;
    use crate::sim::toy::{self, Toy};

    fn seeds(to: u64) -> Explore {
        Explore::Seeds { seeds: 0..to, strategy: Strategy::Random }
    }

    #[test]
    fn seeds_are_run_until_one_fails() {
        let caught = search(seeds(1_000), &toy::lost_update()).unwrap_err();
        assert_eq!(caught.failure, "an update is lost");
        assert_eq!(caught.how.runs, caught.seed + 1);
        assert!(caught.how.unstable.is_none());
        let explored = search(seeds(20), &toy::hand_over()).unwrap();
        assert_eq!((explored.runs(), explored.is_complete()), (20, false));
    }

    #[test]
    fn all_interleavings_find_what_one_preemption_does() {
        let plan = Explore::Exhaustive { max_runs: 10_000 };
        let caught = search(plan.clone(), &toy::lock_order()).unwrap_err();
        assert_eq!((caught.failure, caught.how.original.preemptions), ("deadlock", 1));
        let explored = search(plan, &toy::hand_over()).unwrap();
        assert!(explored.is_complete() && explored.runs() > 10, "{explored}");
    }

    #[test]
    fn a_limited_search_says_how_far_it_went() {
        let toy = toy::independent(3, 4);
        let explored = search(Explore::Exhaustive { max_runs: 100 }, &toy).unwrap();
        assert_eq!((explored.runs(), explored.is_complete()), (100, false));
        assert!(explored.preemptions().is_some_and(|most| most < 3), "{explored}");
        // Three tasks with five turns each: 15! / (5! 5! 5!) interleavings.
        let (all, needed) = (756_756, explored.needed().unwrap());
        assert!((all / 4..4 * all).contains(&needed), "{needed}");
        assert!(explored.to_string().ends_with(&format!("need about {needed} runs")));
        let none = search(Explore::Exhaustive { max_runs: 0 }, &toy).unwrap();
        assert_eq!((none.runs(), none.preemptions()), (0, None));
    }

    /// A program that is another one at each second run.
    struct Fickle(Toy, Toy, std::cell::Cell<bool>);

    impl Program for Fickle {
        type Failure = &'static str;

        fn run(&self, seed: u64, plan: &Plan) -> super::Outcome<&'static str> {
            let first = self.2.replace(!self.2.get());
            if first { self.0.run(seed, plan) } else { self.1.run(seed, plan) }
        }

        fn is_same(&self, one: &&'static str, other: &&'static str) -> bool {
            one == other
        }

        fn not_deterministic(&self) -> &'static str {
            "not deterministic"
        }
    }

    /// A program that is another one after some runs.
    struct Worn(Toy, Toy, std::cell::Cell<u64>);

    impl Program for Worn {
        type Failure = &'static str;

        fn run(&self, seed: u64, plan: &Plan) -> super::Outcome<&'static str> {
            let left = self.2.get();
            self.2.set(left.saturating_sub(1));
            if left > 0 { self.0.run(seed, plan) } else { self.1.run(seed, plan) }
        }

        fn is_same(&self, one: &&'static str, other: &&'static str) -> bool {
            one == other
        }

        fn not_deterministic(&self) -> &'static str {
            "not deterministic"
        }
    }

    #[test]
    fn a_program_that_keeps_something_between_runs_is_reported() {
        let toy = Worn(toy::independent(3, 4), toy::lost_update(), 5.into());
        let caught = search(seeds(1_000), &toy).unwrap_err();
        assert!(caught.how.unstable.is_none());
        let kept = caught.how.kept.unwrap().to_string();
        assert!(kept.contains("what the process did before"), "{kept}");
        assert!(kept.contains("with seed 0, was repeated"), "{kept}");
        let caught = search(seeds(1_000), &toy::lost_update()).unwrap_err();
        assert!(caught.how.kept.is_none() && caught.how.runs > 1);
    }

    #[test]
    fn a_run_that_does_not_fail_is_repeated() {
        let toy = Fickle(toy::independent(3, 4), toy::independent(2, 4), true.into());
        let caught = search(seeds(1_000), &toy).unwrap_err();
        assert_eq!((caught.failure, caught.how.runs), ("not deterministic", 1));
        assert!(caught.how.unstable.is_some());
        // It is another one from the 30th run on.
        let toy = Worn(toy::independent(3, 4), toy::independent(2, 4), 30.into());
        let explored = search(seeds(1_000), &toy).unwrap();
        assert_eq!(explored.runs(), 1_000);
    }

    #[test]
    fn a_program_that_changes_is_reported_and_its_trace_left_alone() {
        let toy = Fickle(toy::lost_update(), toy::independent(3, 4), true.into());
        let failing =
            (0..).find(|seed| toy::lost_update().run(*seed, &Plan::default()).failure.is_some());
        let outcome = toy.run(failing.unwrap(), &Plan::default());
        let unstable = second_run(&toy, failing.unwrap(), &outcome).unwrap().to_string();
        assert!(
            unstable.contains("not deterministic") && unstable.contains("at turn"),
            "{unstable}"
        );
    }
}
